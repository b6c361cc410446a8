/* bare: datagrams as fast as the kernel takes them, for comparison.
 *
 * The sender multicasts with sendmmsg, or with calls that the kernel cuts; the receivers read with
 * recvmmsg and say in shared memory how far they are, so that no more than `window` bytes are ever
 * under way and nothing is lost.  Receivers yield four times before they block, as Neap does. */

#include "bench/bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GROUP = 0xef070763, PORT = 40000, BATCH = 8, BUFFER = 65536, SEGMENTS = 40, YIELDS = 4 };
enum { RECEIVE_BUFFER = 32 << 20, SEND_BUFFER = 4 << 20, BLOCK_MS = 50 };

static void must(int failed, const char *what)
{
  if (!failed) return;
  perror(what);
  exit(1);
}

/* Where a member is: 127.0.0.1, or its namespace's address. */
static in_addr_t place_of(const struct bench_load *load, unsigned me)
{
  return htonl(load->namespaces ? 0x0a4e0001 + me : INADDR_LOOPBACK);
}

static int receiver_socket(const struct bench_load *load, unsigned me)
{
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1, size = RECEIVE_BUFFER;
  struct sockaddr_in name = {
    .sin_family = AF_INET, .sin_port = htons((uint16_t)(PORT + load->run))};
  struct ip_mreqn join = {.imr_address.s_addr = place_of(load, me)};
  name.sin_addr.s_addr = join.imr_multiaddr.s_addr = htonl(GROUP);
  must(fd < 0, "socket");
  must(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), "SO_REUSEADDR");
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size))
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
  must(bind(fd, (struct sockaddr *)&name, sizeof name), "bind");
  must(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join), "join");
  if (load->offload) must(setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof on), "UDP_GRO");
  return fd;
}

static void receive(const struct bench_load *load, struct bench_shared *shared, unsigned me)
{
  static uint8_t buffers[BATCH][BUFFER];
  struct mmsghdr heads[BATCH] = {0};
  struct iovec spans[BATCH];
  struct bench_member *mine = &shared->member[me];
  int fd = receiver_socket(load, me), empty = 0;
  for (int i = 0; i < BATCH; i++) {
    spans[i] = (struct iovec){buffers[i], BUFFER};
    heads[i].msg_hdr = (struct msghdr){.msg_iov = &spans[i], .msg_iovlen = 1};
  }
  mine->ready = true;
  while (!shared->stop) {
    int got = recvmmsg(fd, heads, BATCH, MSG_DONTWAIT, NULL);
    if (got <= 0 && empty++ < YIELDS) {
      sched_yield();
      continue;
    }
    if (got <= 0) {
      poll(&(struct pollfd){fd, POLLIN, 0}, 1, BLOCK_MS);
      continue;
    }
    empty = 0;
    uint64_t bytes = 0;
    for (int i = 0; i < got; i++) bytes += heads[i].msg_len;
    atomic_fetch_add_explicit(&mine->bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&mine->messages, bytes / load->size, memory_order_relaxed);
  }
  close(fd);
}

static uint64_t slowest(const struct bench_load *load, struct bench_shared *shared)
{
  uint64_t least = UINT64_MAX;
  for (unsigned i = 1; i <= load->receivers; i++) {
    uint64_t bytes = shared->member[i].bytes;
    if (bytes < least) least = bytes;
  }
  return least;
}

static void note_cut(struct msghdr *head, char *room, uint16_t size)
{
  head->msg_control = room;
  head->msg_controllen = CMSG_SPACE(sizeof size);
  struct cmsghdr *c = CMSG_FIRSTHDR(head);
  c->cmsg_level = SOL_UDP;
  c->cmsg_type = UDP_SEGMENT;
  c->cmsg_len = CMSG_LEN(sizeof size);
  memcpy(CMSG_DATA(c), &size, sizeof size);
}

static int sender_socket(const struct bench_load *load)
{
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), size = SEND_BUFFER;
  struct ip_mreqn from = {.imr_address.s_addr = place_of(load, 0)};
  must(fd < 0, "socket");
  must(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &from, sizeof from), "IP_MULTICAST_IF");
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  return fd;
}

static void flood(const struct bench_load *load, struct bench_shared *shared)
{
  static uint8_t buffer[BATCH][BUFFER];
  _Alignas(struct cmsghdr) char notes[BATCH][CMSG_SPACE(2)];
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(PORT + load->run))};
  struct mmsghdr heads[BATCH] = {0};
  struct iovec spans[BATCH];
  uint32_t each = load->size;
  int fd = sender_socket(load);
  to.sin_addr.s_addr = htonl(GROUP);
  if (load->offload) {
    uint32_t pieces = 65000 / load->size;
    each = load->size * (pieces < SEGMENTS ? pieces : SEGMENTS);
  }
  for (int i = 0; i < BATCH; i++) {
    spans[i] = (struct iovec){buffer[i], each};
    heads[i].msg_hdr = (struct msghdr){&to, sizeof to, &spans[i], 1, NULL, 0, 0};
    if (load->offload) note_cut(&heads[i].msg_hdr, notes[i], (uint16_t)load->size);
  }
  shared->member[0].ready = true;
  while (!shared->go && !shared->stop) bench_rest(0.001);
  for (uint64_t sent = 0; !shared->stop;) {
    uint64_t ahead = sent - slowest(load, shared);
    uint64_t room = ahead < load->window ? (load->window - ahead) / each : 0;
    if (!room) {
      sched_yield();
      continue;
    }
    int count = sendmmsg(fd, heads, room < BATCH ? (unsigned)room : BATCH, 0);
    must(count < 0, "sendmmsg");
    sent += (uint64_t)count * each;
  }
  close(fd);
}

void bench_bare(const struct bench_load *load, struct bench_shared *shared, unsigned me)
{
  if (me)
    receive(load, shared, me);
  else
    flood(load, shared);
}

/* ---- one at a time ---- */

static int echo_socket(const struct bench_load *load, unsigned me)
{
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  name.sin_port = htons((uint16_t)(PORT + load->run + me));
  must(fd < 0, "socket");
  must(bind(fd, (struct sockaddr *)&name, sizeof name), "bind");
  name.sin_port = htons((uint16_t)(PORT + load->run + !me));
  must(connect(fd, (struct sockaddr *)&name, sizeof name), "connect");
  return fd;
}

/* Waits for a datagram; false when it is time to stop. */
static bool hear(int fd, uint8_t *buffer, struct bench_shared *shared)
{
  while (!shared->stop) {
    if (poll(&(struct pollfd){fd, POLLIN, 0}, 1, BLOCK_MS) == 1)
      return recv(fd, buffer, BUFFER, MSG_DONTWAIT) > 0;
  }
  return false;
}

void bench_bare_echo(const struct bench_load *load, struct bench_shared *shared, unsigned me)
{
  static uint8_t buffer[BUFFER];
  int fd = echo_socket(load, me);
  shared->member[me].ready = true;
  while (!shared->go && !shared->stop) bench_rest(0.001);
  while (!shared->stop) {
    uint64_t begun = bench_now();
    if (!me) must(send(fd, buffer, load->size, 0) < 0, "send");
    if (!hear(fd, buffer, shared)) break;
    if (me)
      must(send(fd, buffer, load->size, 0) < 0, "send");
    else
      bench_time(shared, bench_now() - begun);
    shared->member[me].messages++;
  }
  close(fd);
}
