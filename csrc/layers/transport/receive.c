/* up: from a packet to a batch.
 *
 * A packet is hostile until it is decoded.  What is foreign is counted by
 * reason and dropped: as a whole while its head is read, from the bad message
 * on after that.  Bodies and variable fields are slices of the packet, so each
 * message holds the slab it came in. */

#include "layers/transport/transport.h"

#include <stdio.h>

/* Messages passed up at once: a packet may hold hundreds, and what a layer has touched should still
 * be warm when the next one comes to it. */
enum { BATCH = 64 };

const struct neap_header neap_transport_headers[] = {
  NEAP_HEADER_ROW("tp", NEAP_P_TP, 60, neap_tp_head, "on every message: the group's name"),
  {0},
};

/* Who sent it: mostly who sent the last one. */
static struct neap_peer *sender_of(struct neap_transport *t, const struct neap_addr *src)
{
  if (t->sender && neap_addr_equal(&t->sender->addr, src)) return t->sender;
  struct neap_peer *peer = neap_peer_intern(t->layer.stack, src);
  if (!peer) return NULL;
  neap_peer_ref(peer);
  neap_peer_unref(t->sender);
  return t->sender = peer;
}

static bool other_group(const struct neap_transport *t, struct neap_slice cluster)
{
  return cluster.len != t->cluster.len || memcmp(cluster.at, t->cluster.at, cluster.len) != 0;
}

static bool other_target(const struct neap_transport *t, const struct neap_addr *dest)
{
  return !neap_addr_none(dest) && !neap_addr_equal(dest, &t->layer.stack->self->addr) &&
         !neap_addr_equal(dest, &t->place);
}

/* What is wrong with this message as it came, if anything. */
static enum neap_fault refuse(const struct neap_transport *t, const struct neap_packet *p,
  const struct neap_msg *m, const struct neap_arrival *arrival)
{
  const struct neap_tp_head *head = neap_tp_head_get(m, &t->layer);
  if (p->bits & NEAP_PACKET_LIST) return NEAP_FAULT_NONE; /* Its own head was checked. */
  if (head && head->cluster.at && other_group(t, head->cluster)) return NEAP_FAULT_CLUSTER;
  return other_target(t, &arrival->dest) ? NEAP_FAULT_TARGET : NEAP_FAULT_NONE;
}

static void drop(struct neap_msg *m, uint64_t *why)
{
  ++*why;
  neap_msg_free(m);
}

/* Its sender is known: into the batch, unless it is none of ours. */
static inline void take(struct neap_transport *t, struct neap_batch *batch, struct neap_msg *m)
{
  const struct neap_tp_head *head = neap_tp_head_get(m, &t->layer);
  if (head && head->flag) {
    neap_patterns_forget(&t->reading);
    drop(m, &t->probes);
    return;
  }
  t->received++;
  neap_put(batch, m);
}

/* Reads the next message as it stands.  False: the rest of the packet is of no use. */
static bool read_next(
  struct neap_transport *t, struct neap_packet *p, struct neap_batch *batch, struct neap_msg *m)
{
  struct neap_arrival arrival;
  bool good = neap_packet_next(p, m, &arrival);
  enum neap_fault fault = good ? refuse(t, p, m, &arrival) : p->r.fault;
  if (!good || fault) {
    neap_patterns_forget(&t->reading); /* What is read by pattern is not looked at like this. */
    drop(m, &t->bad[fault]);
    return false;
  }
  struct neap_peer *from = sender_of(t, &arrival.src);
  if (!from) {
    bool nobody = neap_addr_none(&arrival.src);
    drop(m, nobody ? &t->bad[NEAP_FAULT_ADDRESS] : &t->crowded);
  } else if (from->self) {
    drop(m, &t->own); /* Somebody else sent it again. */
  } else {
    neap_msg_from(m, from);
    neap_msg_to(m, neap_addr_none(&arrival.dest) ? NULL : t->layer.stack->self);
    take(t, batch, m);
  }
  return true;
}

/* Up, marked as background work if that is what sent them. */
static void rise(struct neap_transport *t, struct neap_batch *batch, const struct neap_slab *slab)
{
  for (struct neap_msg *m = slab->background ? batch->first : NULL; m; m = m->next)
    m->marks |= NEAP_BACKGROUND;
  neap_pass_up(&t->layer, batch);
}

/* Reads the messages of a packet whose head is good, and passes them up in batches. */
static void read_all(struct neap_transport *t, struct neap_packet *p, struct neap_slab *slab)
{
  struct neap_peer *self = t->layer.stack->self, *from = NULL;
  struct neap_batch batch = {0};
  if (p->bits & NEAP_PACKET_LIST && !neap_addr_none(&p->src)) from = sender_of(t, &p->src);
  if (from && from->self) from = NULL;
  struct neap_arrivals list = {from, neap_addr_none(&p->dest) ? NULL : self, slab};
  while (p->left > 0) {
    uint32_t run = from ? neap_packet_run(p, BATCH, &list, &batch) : 0;
    t->received += run;
    if (batch.count >= BATCH) rise(t, &batch, slab);
    if (run == BATCH || p->left <= 0) continue; /* Nearly all of a stream. */
    struct neap_msg *m = neap_msg_arrived(from ? from : self, list.to, slab);
    if (!read_next(t, p, &batch, m)) break;
  }
  if (!p->left && !p->r.fault && neap_left(&p->r)) t->bad[NEAP_FAULT_TRAILING]++;
  rise(t, &batch, slab);
}

static bool readable(
  struct neap_transport *t, struct neap_packet *p, const uint8_t *at, uint32_t len)
{
  enum neap_fault fault = NEAP_FAULT_NONE;
  if (!neap_packet_open(p, &t->layer.stack->registry, at, len, t->version))
    fault = p->r.fault;
  else if (!(p->bits & NEAP_PACKET_LIST))
    return true;
  else if (other_group(t, p->cluster))
    fault = NEAP_FAULT_CLUSTER;
  else if (other_target(t, &p->dest))
    fault = NEAP_FAULT_TARGET;
  if (fault) t->bad[fault]++;
  return !fault;
}

void neap_transport_arrived(struct neap_transport *t, struct neap_slab *slab, const uint8_t *at,
  uint32_t len, const struct neap_addr *from)
{
  struct neap_stack *stack = t->layer.stack;
  struct neap_packet p;

  if (neap_addr_equal(from, &t->place)) {
    t->own++;
    return;
  }
  if (!readable(t, &p, at, len)) return;
  p.patterns = &t->reading;
  neap_patterns_rebase(&t->reading);
  read_all(t, &p, slab);
  if (!slab->background) stack->foreground = true;
  neap_stack_ready(stack);
}

/* ---- life ---- */

bool neap_transport_version(const char *text, uint16_t *version)
{
  unsigned major, minor, micro;
  char more;
  if (sscanf(text, "%u.%u.%u%c", &major, &minor, &micro, &more) != 3) return false;
  if (major > 31 || minor > 31 || micro > 63) return false;
  *version = (uint16_t)(major << 11 | minor << 6 | micro);
  return true;
}

/* True if a layer of this stack hands a sender its own multicasts, as the
 * reliable ones do. */
static bool looped_above(const struct neap_stack *stack)
{
  for (uint32_t i = 0; i < stack->count; i++) {
    const char *gives = stack->layers[i] ? stack->layers[i]->class->gives : NULL;
    if (gives && strstr(gives, "mcast_reliable")) return true;
  }
  return false;
}

void neap_transport_limit(struct neap_transport *t)
{
  uint64_t limit = t->max_packet ? t->max_packet : t->auto_packet;
  if (limit > NEAP_PACKET_LOCAL && !t->max_packet) limit = NEAP_PACKET_LOCAL;
  if (limit > t->datagram_most) limit = t->datagram_most;
  if (limit < NEAP_PACKET_LEAST) limit = NEAP_PACKET_LEAST;
  t->packet_limit = limit;
}

void neap_transport_begin(struct neap_transport *t)
{
  struct neap_stack *stack = t->layer.stack;
  t->cluster =
    (struct neap_slice){(const uint8_t *)stack->cluster, (uint32_t)strlen(stack->cluster)};
  t->loops = !looped_above(stack);
  stack->max_body = t->datagram_most - NEAP_PACKET_HEADS; /* frag above makes it more. */
  neap_transport_bundles_begin(t);
  neap_transport_limit(t);
  neap_transport_places_begin(t);
}

void neap_transport_end(struct neap_transport *t)
{
  neap_timer_stop(&t->reaper);
  neap_transport_bundles_end(t);
  neap_peer_unref(t->sender);
  t->sender = NULL;
}

void neap_transport_check(const struct neap_transport *t)
{
  const struct neap_place *p;
  uint64_t places = 0;
  neap_each_peer (&t->layer, p) {
    places += p->known;
    NEAP_ASSERT(!p->bundle || t->bundles[p->bundle].to);
  }
  NEAP_ASSERT(places == t->places);
  neap_transport_bundles_check(t);
}
