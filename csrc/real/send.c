/* Sending datagrams: collected during a turn, sent with few calls.
 *
 * Where the kernel cuts, a run of packets of one size to one place leaves as one call and, up to
 * the network card, as one packet; the last of a run may be shorter.
 *
 *     queue   [1400][1400][1400][700] | [60000] | [60 to bob][60 to bob]
 *             one call, cut by 1400     one       one call, cut by 60
 *
 * When the send buffer is full the queue waits until the kernel has room; what comes while it is
 * full is dropped, as on any wire.  Nothing here blocks. */

#include "real/private.h"

#include <errno.h>
#include <netinet/udp.h>

/* One call: so many heads, each of one packet or of a run. */
enum { HEADS = 32 };

struct sending {
  struct mmsghdr heads[HEADS];
  struct sockaddr_storage names[HEADS];
  struct iovec spans[QUEUE];
  _Alignas(struct cmsghdr) char notes[HEADS][CMSG_SPACE(sizeof(uint16_t))];
  uint32_t runs[HEADS]; /* packets in each */
};

static bool same_place(const struct outgoing *a, const struct outgoing *b)
{
  return a->group == b->group && (a->group || neap_addr_equal(&a->to, &b->to));
}

/* How many packets from `first` on can leave as one run. */
static uint32_t run_of(const struct real_port *p, uint32_t first)
{
  const struct outgoing *a = &p->queue[first];
  uint32_t count = 1, bytes = a->len;
  if (!p->segments || a->len > p->port.mtu) return 1;
  while (first + count < p->queued && count < SEGMENTS) {
    const struct outgoing *b = a + count;
    if (b->len > a->len || bytes + b->len > p->port.max_datagram || !same_place(a, b)) break;
    bytes += b->len;
    count++;
    if (b->len < a->len) break;
  }
  return count;
}

static void note_segment(struct msghdr *head, char *note, uint32_t len)
{
  uint16_t size = (uint16_t)len;
  head->msg_control = note;
  head->msg_controllen = CMSG_SPACE(sizeof size);
  struct cmsghdr *c = CMSG_FIRSTHDR(head);
  c->cmsg_level = SOL_UDP;
  c->cmsg_type = UDP_SEGMENT;
  c->cmsg_len = CMSG_LEN(sizeof size);
  memcpy(CMSG_DATA(c), &size, sizeof size);
}

/* Describes the queue from `first` on; returns the number of heads. */
static unsigned describe(struct real_port *p, uint32_t first, struct sending *s)
{
  unsigned heads = 0;
  while (first < p->queued && heads < HEADS) {
    const struct outgoing *out = &p->queue[first];
    struct msghdr *head = &s->heads[heads].msg_hdr;
    uint32_t run = run_of(p, first);
    *head = (struct msghdr){.msg_iov = &s->spans[first], .msg_iovlen = run};
    for (uint32_t i = 0; i < run; i++)
      s->spans[first + i] = (struct iovec){(void *)(uintptr_t)out[i].at, out[i].len};
    if (out->group) {
      head->msg_name = &p->group_name;
      head->msg_namelen = p->group_len;
    } else {
      head->msg_namelen = neap_real_name(&out->to, &s->names[heads]);
      head->msg_name = &s->names[heads];
    }
    if (run > 1) note_segment(head, s->notes[heads], out->len);
    s->runs[heads++] = run;
    first += run;
  }
  return heads;
}

static void count_sent(struct real_port *p, uint32_t first, uint32_t count)
{
  p->port.counts.packets_sent += count;
  if (p->queue[first].group) p->deaf += p->joins ? 1 : count;
  for (uint32_t i = 0; i < count; i++) p->port.counts.bytes_sent += p->queue[first + i].len;
}

/* The call failed for the run at `first`.  Returns how many packets are given up; 0: keep them. */
static uint32_t failed(struct real_port *p, uint32_t run, int error)
{
  struct neap_port_counts *counts = &p->port.counts;
  switch (error) {
  case EINTR:
    return 0;
  case EAGAIN:
    counts->send_blocked++;
    neap_real_await_room(p);
    return 0;
  case EIO:
  case EINVAL:
  case EMSGSIZE:
    if (run > 1) { /* It cannot cut on this way out: from now on packet by packet. */
      p->segments = false;
      return 0;
    }
    counts->send_errors++;
    return 1;
  case ENOBUFS:
  case ENOMEM:
    counts->send_dropped += run;
    return run;
  case EPERM:
  case EACCES:
    counts->send_refused += run;
    return run;
  default:
    counts->send_errors += run;
    return run;
  }
}

/* Takes the first `done` packets out of the queue. */
static void advance(struct real_port *p, uint32_t done)
{
  for (uint32_t i = 0; i < done; i++) {
    p->queued_bytes -= p->queue[i].len;
    neap_slab_free(&p->real->world, p->queue[i].slab);
  }
  p->queued -= done;
  memmove(p->queue, p->queue + done, p->queued * sizeof *p->queue);
}

void neap_real_port_flush(struct neap_port *port)
{
  struct real_port *p = (struct real_port *)port;
  struct sending s;
  uint32_t done = 0;
  while (done < p->queued && !p->waits) {
    unsigned heads = describe(p, done, &s);
    int sent = sendmmsg(p->own.fd, s.heads, heads, MSG_DONTWAIT);
    for (int i = 0; i < sent; i++) {
      count_sent(p, done, s.runs[i]);
      done += s.runs[i];
    }
    if (sent < 0) done += failed(p, s.runs[0], errno);
  }
  if (done) advance(p, done);
}

void neap_real_port_send(struct neap_port *port, const struct neap_addr *to, struct neap_slab *slab,
  const uint8_t *at, uint32_t len, bool background)
{
  struct real_port *p = (struct real_port *)port;
  (void)background; /* It matters in virtual time only. */
  if (p->queued == QUEUE) neap_real_port_flush(port);
  if (p->queued == QUEUE) {
    port->counts.send_dropped++;
    return;
  }
  struct outgoing *out = &p->queue[p->queued++];
  *out = (struct outgoing){neap_slab_hold(slab), at, len, !to, to ? *to : (struct neap_addr){0}};
  out->to.scope = port->local.scope; /* Interface numbers mean nothing on another host. */
  p->queued_bytes += len;
  if (p->queued_bytes >= PUSH) neap_real_port_flush(port);
}

void neap_real_queue_drop(struct real_port *p)
{
  neap_real_port_flush(&p->port);
  p->port.counts.send_dropped += p->queued;
  advance(p, p->queued);
}
