/* Opening a port: two sockets, one of its own and one for the group.
 *
 *   own     bound to the member's address; sends everything, the group's packets too, so that their
 *           source is the member's place
 *   group   bound to the group's address and port, shared with other members of this host, and a
 *           member of the group on one interface only
 *
 * Buffers are asked for as large as the kernel lets us, and what it gave is kept. */

#include "real/private.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Headers of IP and UDP, which the MTU counts too. */
enum { HEADERS_4 = 28, HEADERS_6 = 48, DATAGRAM_MOST = 65507 };

static int set(int fd, int level, int name, int value)
{
  return setsockopt(fd, level, name, &value, sizeof value);
}

/* The forced form needs a privilege; the plain one is cut to the system's limit without a word. */
static uint32_t buffer(int fd, int force, int plain, uint32_t bytes)
{
  int granted = 0;
  socklen_t len = sizeof granted;
  if (bytes > INT32_MAX / 2) bytes = INT32_MAX / 2;
  if (bytes && set(fd, SOL_SOCKET, force, (int)bytes)) set(fd, SOL_SOCKET, plain, (int)bytes);
  getsockopt(fd, SOL_SOCKET, plain, &granted, &len);
  return (uint32_t)granted;
}

static int bound(const struct neap_addr *addr, bool shared, int *fd, struct neap_trail *trail)
{
  struct sockaddr_storage name;
  char text[NEAP_ADDR_TEXT];
  socklen_t len = neap_real_name(addr, &name);
  *fd = socket(name.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (*fd < 0) return neap_real_trail(trail, errno, "socket");
  if (shared) set(*fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (name.ss_family == AF_INET6) set(*fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (bind(*fd, (struct sockaddr *)&name, len))
    return neap_real_trail(trail, errno, "bind %s", neap_addr_text(addr, text));
  return 0;
}

/* The group socket hears the group on this interface, and no other group that somebody joined. */
static int join(struct real_port *p, const struct interface *interface, struct neap_trail *trail)
{
  const struct neap_addr *group = &p->port.spec.group;
  char text[NEAP_ADDR_TEXT];
  int failed;
  if (group->size == 16) {
    struct ipv6_mreq six = {.ipv6mr_interface = interface->index};
    memcpy(&six.ipv6mr_multiaddr, group->bytes, 16);
    failed = setsockopt(p->group.fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &six, sizeof six);
  } else {
    struct ip_mreqn four = {.imr_ifindex = (int)interface->index};
    memcpy(&four.imr_multiaddr, group->bytes, 4);
    set(p->group.fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    failed = setsockopt(p->group.fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &four, sizeof four);
  }
  if (!failed) return 0;
  return neap_real_trail(
    trail, errno, "join %s on %s", neap_addr_text(group, text), interface->name);
}

/* What the own socket sends to the group goes out there. */
static int aim(struct real_port *p, const struct interface *interface, struct neap_trail *trail)
{
  const struct neap_port_spec *spec = &p->port.spec;
  int fd = p->own.fd, failed;
  if (spec->group.size == 16) {
    failed = set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)interface->index);
    set(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, spec->ttl);
    set(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, spec->loop);
  } else {
    struct ip_mreqn from = {.imr_ifindex = (int)interface->index};
    memcpy(&from.imr_address, spec->bind.bytes, 4);
    failed = setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &from, sizeof from);
    set(fd, IPPROTO_IP, IP_MULTICAST_TTL, spec->ttl);
    set(fd, IPPROTO_IP, IP_MULTICAST_LOOP, spec->loop);
  }
  return failed ? neap_real_trail(trail, errno, "send to the group on %s", interface->name) : 0;
}

/* The kernel hands a member its own multicasts too.  They are dropped before they cost a wake-up
 * and a copy: what comes to the group from this member's own address and port. */
static void deafen(struct real_port *p)
{
  const struct neap_addr *local = &p->port.local;
  struct sock_filter code[12];
  uint32_t words = local->size / 4, n = 0, drop = 2 * words + 2;
  uint32_t at = (uint32_t)SKF_NET_OFF + (words == 1 ? 12 : 8); /* The source in the IP header. */
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 0);
  code[n] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, local->port, 0, 0);
  code[n].jf = (uint8_t)(drop - n), n++;
  for (uint32_t i = 0; i < words; i++, at += 4) {
    uint32_t word;
    memcpy(&word, local->bytes + 4 * i, 4);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at);
    code[n] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(word), 0, 0);
    code[n].jf = (uint8_t)(drop - n), n++;
  }
  NEAP_ASSERT(n == drop);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
  struct sock_fprog program = {(uint16_t)n, code};
  /* Where it is refused the transport drops them itself. */
  setsockopt(p->group.fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

/* Segmentation offload, where the kernel knows it and it was not refused. */
static void offload(struct real_port *p)
{
  p->segments = p->port.spec.offload && !set(p->own.fd, SOL_UDP, UDP_SEGMENT, 0);
  p->joins = p->port.spec.offload && !set(p->own.fd, SOL_UDP, UDP_GRO, 1) &&
             !set(p->group.fd, SOL_UDP, UDP_GRO, 1);
}

static void measure(struct real_port *p, const struct interface *interface)
{
  struct neap_port *port = &p->port;
  uint32_t asked_in = port->spec.receive_buffer, asked_out = port->spec.send_buffer;
  uint32_t own = buffer(p->own.fd, SO_RCVBUFFORCE, SO_RCVBUF, asked_in);
  uint32_t group = buffer(p->group.fd, SO_RCVBUFFORCE, SO_RCVBUF, asked_in);
  port->receive_granted = own < group ? own : group;
  port->send_granted = buffer(p->own.fd, SO_SNDBUFFORCE, SO_SNDBUF, asked_out);
  set(p->own.fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
  set(p->group.fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
  uint32_t headers = port->local.size == 16 ? HEADERS_6 : HEADERS_4;
  port->mtu = interface->mtu - headers;
  port->max_datagram = DATAGRAM_MOST;
  if (port->mtu > DATAGRAM_MOST) port->mtu = DATAGRAM_MOST;
}

static int sockets(struct real_port *p, struct neap_trail *trail)
{
  struct neap_port_spec *spec = &p->port.spec;
  struct interface interface;
  struct sockaddr_storage name;
  socklen_t len = sizeof name;
  int code = neap_real_interface(spec, &interface, trail);
  if (!code) code = bound(&spec->bind, false, &p->own.fd, trail);
  if (spec->group.size == 16 && !spec->group.scope) spec->group.scope = interface.index;
  if (!code) code = bound(&spec->group, true, &p->group.fd, trail);
  if (!code) code = join(p, &interface, trail);
  if (!code) code = aim(p, &interface, trail);
  if (code) return code;
  if (getsockname(p->own.fd, (struct sockaddr *)&name, &len))
    return neap_real_trail(trail, errno, "own address");
  p->port.local = neap_real_addr(&name);
  p->group_len = neap_real_name(&spec->group, &p->group_name);
  deafen(p);
  measure(p, &interface);
  offload(p);
  return 0;
}

/* ---- watching ---- */

static void readable(uv_poll_t *poll, int status, int events)
{
  struct half *half = poll->data;
  struct real_port *p = half->port;
  (void)status; /* An error shows when it is read. */
  if (events & UV_WRITABLE) {
    p->waits = false;
    uv_poll_start(&p->own.poll, UV_READABLE, readable);
    neap_real_port_flush(&p->port);
  }
  if (events & UV_READABLE || status < 0) neap_real_read(half);
}

void neap_real_await_room(struct real_port *p)
{
  if (p->waits) return;
  p->waits = true;
  uv_poll_start(&p->own.poll, UV_READABLE | UV_WRITABLE, readable);
}

static void forgotten(uv_handle_t *handle)
{
  struct half *half = handle->data;
  struct real_port *p = half->port;
  p->real->closing--;
  if (!--p->handles) free(p);
}

static int watch(struct real_port *p, struct half *half, struct neap_trail *trail)
{
  int error = uv_poll_init(&p->real->loop, &half->poll, half->fd);
  if (error) return neap_real_trail(trail, -error, "watch");
  half->poll.data = half;
  half->port = p;
  p->handles++;
  uv_poll_start(&half->poll, UV_READABLE, readable);
  return 0;
}

/* Gives everything back; the memory goes when libuv is done with the last handle. */
static void undo(struct real_port *p)
{
  struct half *halves[] = {&p->own, &p->group};
  for (int i = 0; i < 2; i++) {
    if (halves[i]->port) {
      p->real->closing++;
      uv_close((uv_handle_t *)&halves[i]->poll, forgotten);
    }
    if (halves[i]->fd >= 0) close(halves[i]->fd);
    halves[i]->fd = -1;
  }
  if (!p->handles) free(p);
}

/* ---- life ---- */

int neap_real_port_open(struct neap_world *world, struct neap_layer *layer,
  const struct neap_port_spec *spec, neap_port_packet *packet, struct neap_port **port,
  struct neap_trail *trail)
{
  struct real_port *p = calloc(1, sizeof *p);
  if (!p) return neap_real_trail(trail, ENOMEM, "port");
  p->real = (struct real *)world;
  p->port = (struct neap_port){.world = world, .layer = layer, .packet = packet, .spec = *spec};
  p->own.fd = p->group.fd = -1;
  neap_link_init(&p->link);
  int code = sockets(p, trail);
  if (!code) code = watch(p, &p->own, trail);
  if (!code) code = watch(p, &p->group, trail);
  if (code) {
    undo(p);
    return code;
  }
  neap_link_before(&p->real->ports, &p->link);
  *port = &p->port;
  return 0;
}

void neap_real_port_close(struct neap_port *port)
{
  struct real_port *p = (struct real_port *)port;
  neap_link_remove(&p->link);
  if (p->real->warm && p->real->warm->port == p) p->real->warm = NULL;
  neap_real_queue_drop(p);
  undo(p);
}

/* Only one socket can be bound there: if ours can, no other is. */
bool neap_real_port_vacant(struct neap_port *port, const struct neap_addr *at)
{
  struct neap_trail why = {""};
  int fd;
  if (at->size != port->local.size || memcmp(at->bytes, port->local.bytes, at->size)) return false;
  int code = bound(at, false, &fd, &why);
  if (fd >= 0) close(fd);
  return code == 0;
}
