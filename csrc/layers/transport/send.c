/* down: messages are encoded at once into the open packet of their destination.
 *
 *   slab   [ sent packet |gap|version..src cluster count|type message|type
 * message|....... ] ^begin            count_at ^first                     ^w.at
 *
 * A list of one message is sent as a single message: its shorter head is
 * written so that it ends where the message's headers begin, over the end of
 * the list's head.  The end of a slab whose packet was short serves the next
 * packet.
 *
 * Invariant: a bundle beyond the first has a destination exactly while its
 * packet is open, and that member's state knows it. */

#include "layers/transport/transport.h"

/* A packet opens in the rest of a slab only with room for eight kilobytes: acks
 * and heartbeats fill a slab to its end, and bulk traffic still gets whole
 * packets. */
enum { REST_MIN = 8192 };

/* Of a single message: version, bits, type, leading byte, flags; of these the last three before the
 * headers of any; a member's address, and the one that is none; the count of a list. */
enum { HEAD_BYTES = 8, LEAD_BYTES = 5, ADDR_BYTES = 17, NONE_BYTES = 1, COUNT_BYTES = 4 };
enum { DEST_AT = 3 };                 /* in a packet: behind version and bits */
enum { DESTINATION = 1, SOURCE = 2 }; /* the leading byte */

static void rest_keep(struct neap_transport *t, struct neap_slab *slab)
{
  if (!t->rest && slab->size - slab->used >= REST_MIN)
    t->rest = slab;
  else
    neap_slab_free(neap_world_of(&t->layer), slab);
}

/* The packet is done with; its destination stays. */
static void packet_close(struct neap_transport *t, struct neap_bundle *b)
{
  b->slab->used = (uint32_t)(b->w.at - b->slab->at + 7) & ~7u;
  if (b->slab->used > b->slab->size) b->slab->used = b->slab->size;
  rest_keep(t, b->slab);
  b->slab = NULL;
  t->open &= ~((uint32_t)1 << (b - t->bundles));
}

/* The head of a list: the same each time, but for who it is to. */
static void open_list(struct neap_transport *t, struct neap_bundle *b)
{
  struct neap_writer w = {b->begin + DEST_AT, b->begin + DEST_AT + ADDR_BYTES, false};
  uint32_t len = b->to ? t->one_len : t->all_len;
  memcpy(b->begin, b->to ? t->one : t->all, len);
  if (b->to) neap_write_addr(&w, &b->to->addr);
  NEAP_ASSERT(len <= (size_t)(b->w.end - b->w.at)); /* NEAP_PACKET_LEAST has room for it. */
  b->w.at += len;
  b->count_at = b->w.at - COUNT_BYTES;
}

static void packet_open(struct neap_transport *t, struct neap_bundle *b, bool fresh)
{
  struct neap_stack *stack = t->layer.stack;
  if (t->rest && !fresh) {
    b->slab = t->rest;
    t->rest = NULL;
  } else {
    b->slab = neap_slab_new(stack->world, NEAP_SLAB_BYTES);
  }
  uint32_t room = b->slab->size - b->slab->used;
  if (room > t->packet_limit) room = (uint32_t)t->packet_limit;
  b->begin = b->slab->at + b->slab->used;
  b->w = (struct neap_writer){b->begin, b->begin + room, false};
  open_list(t, b);
  b->first = b->w.at;
  b->count = 0;
  b->background = true;
  t->open |= (uint32_t)1 << (b - t->bundles);
}

/* Turns a list of one into a single message; returns where that begins.
 *
 *   list     version bits dest src cluster count | type leading flags      [src] headers ...
 *   single           version bits type leading flags [dest] src            [   ] headers ...
 *
 * Both addresses stand side by side in the list's head, so they move as one. */
static uint8_t *make_single(struct neap_transport *t, struct neap_bundle *b)
{
  uint8_t type[2], flags[2], *headers = b->first + LEAD_BYTES;
  bool own_source = b->first[2] & SOURCE;
  uint32_t dest = b->to ? ADDR_BYTES : 0, src = own_source ? 0 : ADDR_BYTES;
  memcpy(type, b->first, sizeof type);
  memcpy(flags, b->first + 3, sizeof flags);
  uint8_t *begin = headers - dest - src - HEAD_BYTES;
  NEAP_ASSERT(begin >= b->begin);
  memmove(begin + HEAD_BYTES, b->begin + DEST_AT + (b->to ? 0 : NONE_BYTES), dest + src);
  begin[0] = (uint8_t)(t->version >> 8);
  begin[1] = (uint8_t)t->version;
  begin[2] = b->to ? 0 : NEAP_PACKET_MULTICAST;
  memcpy(begin + 3, type, sizeof type);
  begin[5] = b->to ? DESTINATION | SOURCE : SOURCE;
  memcpy(begin + 6, flags, sizeof flags);
  t->single++;
  return begin;
}

static void packet_leave(struct neap_transport *t, struct neap_bundle *b)
{
  uint8_t *begin = b->begin;
  if (b->count == 1)
    begin = make_single(t, b);
  else if (b->count)
    neap_packet_close(b->count_at, b->count);
  if (b->count)
    t->leave(
      t, b->to ? &b->place : NULL, b->slab, begin, (uint32_t)(b->w.at - begin), b->background);
  packet_close(t, b);
}

/* What is open leaves, and the bundle is free for another destination. */
static void bundle_release(struct neap_transport *t, struct neap_bundle *b)
{
  if (b->slab) packet_leave(t, b);
  if (!b->to) return;
  struct neap_place *p = neap_peer_state_have(&t->layer, b->to);
  if (p) p->bundle = 0;
  neap_peer_unref(b->to);
  b->to = NULL;
}

void neap_transport_flush(struct neap_transport *t)
{
  while (t->open) bundle_release(t, &t->bundles[__builtin_ctz(t->open)]);
}

void neap_transport_forsake(struct neap_transport *t, struct neap_place *p)
{
  if (p->bundle) bundle_release(t, &t->bundles[p->bundle]);
}

/* The bundle of the destination of `m`; NULL when it is not known where that
 * is. */
static struct neap_bundle *bundle_for(struct neap_transport *t, const struct neap_msg *m)
{
  if (!m->to) return &t->bundles[0];
  struct neap_place *p = neap_transport_place(t, m->to);
  if (!p) return NULL;
  if (!p->bundle) {
    t->next = t->next % (NEAP_BUNDLES - 1) + 1;
    struct neap_bundle *b = &t->bundles[t->next];
    bundle_release(t, b);
    b->to = neap_peer_ref(m->to);
    b->place = p->at;
    p->bundle = (uint8_t)t->next;
  }
  return &t->bundles[p->bundle];
}

static inline void count(struct neap_transport *t, struct neap_bundle *b, const struct neap_msg *m)
{
  b->count++;
  b->background &= (m->marks & NEAP_BACKGROUND) != 0;
  t->sent++;
}

/* Into the open packet as the one before was: its seqno and its body are all that is new. */
static inline bool encode_alike(
  struct neap_transport *t, struct neap_bundle *b, const struct neap_msg *m)
{
  if (m->from != t->layer.stack->self || !neap_patterns_write(&t->writing, &b->w, m)) return false;
  count(t, b, m);
  return true;
}

/* Field by field. */
static bool encode(struct neap_transport *t, struct neap_bundle *b, struct neap_msg *m)
{
  struct neap_stack *stack = t->layer.stack;
  struct neap_writer w = b->w;
  bool own = m->from == stack->self;
  *neap_tp_head_put(m, &t->layer) = (struct neap_tp_head){.cluster = t->cluster};
  neap_packet_message(&w, &stack->registry, m, own ? NULL : &m->from->addr, NULL, 0);
  if (w.full) return false;
  if (own)
    neap_patterns_missed(
      &t->writing, &stack->registry, b->w.at, (size_t)(w.at - b->w.at), m, t->cluster.at);
  b->w.at = w.at;
  count(t, b, m);
  return true;
}

/* A message that does not fit what is usual goes alone, in the largest packet
 * the wire takes. */
static void send_alone(struct neap_transport *t, struct neap_bundle *b, struct neap_msg *m)
{
  uint32_t room = b->slab->size - b->slab->used;
  b->w.end = b->begin + (room < t->datagram_most ? room : t->datagram_most);
  if (encode(t, b, m))
    t->oversize++;
  else
    t->too_big++;
  packet_leave(t, b);
}

static void send(struct neap_transport *t, struct neap_msg *m)
{
  struct neap_bundle *b = bundle_for(t, m);
  if (!b) {
    t->homeless++;
    return;
  }
  if (!b->slab) packet_open(t, b, false);
  if (!encode_alike(t, b, m) && !encode(t, b, m)) {
    packet_leave(t, b);
    packet_open(t, b, true);
    if (!encode(t, b, m)) send_alone(t, b, m);
  }
  if (m->flags & NEAP_DONT_BUNDLE) t->urgent = true;
  if (m->flags & NEAP_DONT_BUNDLE || !b->slab) bundle_release(t, b);
}

/* To this very member, or its own multicast: up again, as if it had come from
 * the wire.  Whoever holds the descriptor keeps it as it is. */
static void loop(struct neap_transport *t, struct neap_msg *m, struct neap_batch *up)
{
  t->looped++;
  neap_put(up, neap_msg_clone(m));
}

/* Multicasts of this member alike go as a run into the packet that is open; the rest stays. */
static void send_run(struct neap_transport *t, struct neap_batch *batch)
{
  struct neap_bundle *b = &t->bundles[0];
  const struct neap_msg *first = batch->first;
  if (!first || !b->slab || first->to || first->from != t->layer.stack->self || t->loops) return;
  uint32_t count = neap_patterns_write_run(&t->writing, &b->w, first, &b->background);
  b->count += count;
  t->sent += count;
  neap_drop_first(batch, count);
}

void neap_transport_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct neap_transport *t = (struct neap_transport *)layer;
  struct neap_batch up = {0};
  struct neap_msg *m;
  while (send_run(t, batch), (m = neap_take(batch))) {
    if (m->to && m->to->self) {
      loop(t, m, &up);
    } else {
      send(t, m);
      if (!m->to && t->loops && !(m->marks & (NEAP_OWN | NEAP_NO_LOOPBACK))) loop(t, m, &up);
    }
    neap_msg_free(m);
  }
  neap_pass_up(layer, &up);
}

/* ---- life of the bundles ---- */

static uint32_t write_head(
  const struct neap_transport *t, uint8_t *head, const struct neap_addr *dest)
{
  struct neap_writer w = {head, head + NEAP_PACKET_LEAST, false};
  const struct neap_addr *src = &t->layer.stack->self->addr;
  uint8_t *count =
    neap_packet_list(&w, t->version, dest, src, (const char *)t->cluster.at, t->cluster.len);
  NEAP_ASSERT(count);
  return (uint32_t)(w.at - head);
}

void neap_transport_bundles_begin(struct neap_transport *t)
{
  t->all_len = write_head(t, t->all, NULL);
  t->one_len = write_head(t, t->one, &t->layer.stack->self->addr);
  t->writing.given = t->reading.given = t->layer.heads; /* Its own header is always the same. */
}

void neap_transport_bundles_end(struct neap_transport *t)
{
  neap_transport_flush(t);
  if (t->rest) neap_slab_free(neap_world_of(&t->layer), t->rest);
  t->rest = NULL;
}

void neap_transport_bundles_check(const struct neap_transport *t)
{
  for (uint32_t i = 0; i < NEAP_BUNDLES; i++) {
    const struct neap_bundle *b = &t->bundles[i];
    NEAP_ASSERT(!b->slab == !(t->open >> i & 1));
    if (i) NEAP_ASSERT(!b->slab == !b->to);
    if (!b->to) continue;
    const struct neap_place *p = neap_peer_state_have(&t->layer, b->to);
    NEAP_ASSERT(p && p->bundle == i);
  }
  NEAP_ASSERT(!t->rest || t->rest->size - t->rest->used >= REST_MIN);
}
