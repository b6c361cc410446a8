/* Reading datagrams: as many as there are in few calls, into few buffers.
 *
 *   reads   [slab][slab][slab] ...      the first is the one that was used last, so it is warm
 *
 * A short packet is copied out and its buffer used again; a long one keeps its buffer, and another
 * takes its place.  Where the kernel joins packets, one buffer holds several of equal size. */

#include "real/private.h"

#include "core/layer.h"

#include <errno.h>
#include <netinet/udp.h>

/* Room for the two notes that the kernel can put beside a packet: segment size and overflow. */
enum { NOTES = CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint32_t)) };

struct reading {
  struct mmsghdr heads[READS];
  struct iovec spans[READS];
  struct sockaddr_storage names[READS];
  _Alignas(struct cmsghdr) char notes[READS][NOTES];
};

static void prepare(struct real *real, struct reading *r, unsigned count)
{
  for (unsigned i = 0; i < count; i++) {
    if (!real->reads[i]) real->reads[i] = neap_slab_new(&real->world, NEAP_SLAB_BYTES);
    r->spans[i] = (struct iovec){real->reads[i]->at, NEAP_SLAB_BYTES};
    r->heads[i].msg_hdr = (struct msghdr){
      .msg_name = &r->names[i],
      .msg_namelen = sizeof r->names[i],
      .msg_iov = &r->spans[i],
      .msg_iovlen = 1,
      .msg_control = r->notes[i],
      .msg_controllen = NOTES,
    };
  }
}

/* The kernel counts what its filter drops as lost, too; those are known.  Both numbers wrap. */
static void count_overflow(struct half *half, uint32_t dropped)
{
  struct real_port *p = half->port;
  if (half == &p->group) dropped -= p->deaf;
  if ((int32_t)(dropped - half->overflow) <= 0) return; /* The note is older than our last send. */
  p->port.counts.receive_overflow += dropped - half->overflow;
  half->overflow = dropped;
}

/* What the kernel noted; returns the size of the packets it joined, 0 for a single one. */
static uint32_t read_notes(struct half *half, struct msghdr *head)
{
  uint32_t dropped, segment = 0;
  for (struct cmsghdr *c = CMSG_FIRSTHDR(head); c; c = CMSG_NXTHDR(head, c)) {
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
      memcpy(&dropped, CMSG_DATA(c), sizeof dropped);
      count_overflow(half, dropped);
    } else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
      int size;
      memcpy(&size, CMSG_DATA(c), sizeof size);
      segment = (uint32_t)size;
    }
  }
  return segment;
}

/* The bytes in a slab that may be kept: the buffer itself, or a copy of a short packet. */
static struct neap_slab *keep(struct real *real, int i, uint32_t len, const uint8_t **at)
{
  struct neap_slab *slab = real->reads[i];
  if (len > SMALL) {
    real->reads[i] = NULL; /* Ours to give up. */
    *at = slab->at;
    return slab;
  }
  uint32_t used = real->small ? (real->small->used + 7) & ~7u : 0;
  if (!real->small || real->small->size < used + len) {
    if (real->small) neap_slab_free(&real->world, real->small);
    real->small = neap_slab_new(&real->world, NEAP_SLAB_BYTES);
    used = 0;
  }
  memcpy(real->small->at + used, slab->at, len);
  *at = real->small->at + used;
  real->small->used = used + len;
  return neap_slab_hold(real->small);
}

/* Hands up what one buffer holds. */
static void deliver(struct half *half, struct neap_slab *slab, const uint8_t *at, uint32_t len,
  uint32_t segment, const struct neap_addr *from)
{
  struct neap_port *port = &half->port->port;
  if (port->layer->stack->paused) { /* One of its layers failed: nobody is there to take it. */
    port->counts.receive_overflow++;
    return;
  }
  do {
    uint32_t one = segment && segment < len ? segment : len;
    port->counts.packets_received++;
    port->counts.bytes_received += one;
    port->packet(port->layer, slab, at, one, from);
    at += one;
    len -= one;
  } while (len);
}

/* How many to ask for at once: as many as came last time, twice as many after a full call, and no
 * more of the size that came last than are worth keeping warm. */
static unsigned reads_wanted(const struct half *half)
{
  unsigned fit = half->last_len ? READ_BYTES / half->last_len : READS;
  unsigned most = fit < 1 ? 1 : fit < READS ? fit : READS;
  return half->wanted < 1 ? 1 : half->wanted < most ? half->wanted : most;
}

void neap_real_read(struct half *half)
{
  struct real *real = half->port->real;
  struct neap_port_counts *counts = &half->port->port.counts;
  struct reading r;
  unsigned packets = 0, want;
  uint32_t bytes = 0;
  int got;
  do {
    want = reads_wanted(half);
    prepare(real, &r, want);
    got = recvmmsg(half->fd, r.heads, want, MSG_DONTWAIT, NULL);
    if (got < 0) {
      if (errno != EAGAIN && errno != EINTR) counts->receive_errors++;
      break;
    }
    real->traffic = true;
    real->warm = half;
    for (int i = 0; i < got; i++) {
      struct msghdr *head = &r.heads[i].msg_hdr;
      uint32_t len = r.heads[i].msg_len, segment = read_notes(half, head);
      struct neap_addr from = neap_real_addr(&r.names[i]);
      const uint8_t *at;
      struct neap_slab *slab = keep(real, i, len, &at);
      deliver(half, slab, at, len, segment, &from);
      neap_slab_free(&real->world, slab);
      half->last_len = len;
      bytes += len;
    }
    packets += (unsigned)got;
    half->wanted = got == (int)want ? 2 * want : (unsigned)got;
    /* A single one was asked for and came: whether there are more the next look will tell. */
  } while (got == (int)want && want > 1 && packets < READ_PACKETS && bytes < READ_BYTES);
}

void neap_real_reads_free(struct real *real)
{
  for (int i = 0; i < READS; i++)
    if (real->reads[i]) neap_slab_free(&real->world, real->reads[i]);
  if (real->small) neap_slab_free(&real->world, real->small);
}
