/* frag: messages larger than a packet travel in pieces.
 *
 *   down   one body of 150 kB   ->  [0 of 3][1 of 3][2 of 3]   slices of the same slab, each a
 *                                                              message for the layers below
 *   up     [0 of 3] 1 [1 of 3] .. [2 of 3]  ->  the whole, in the place of the piece that came last
 *
 * Only piece 0 carries the headers of the layers above.  What is not a plain body is encoded whole
 * and sent as the bytes that it became.  Pieces are freed with the message that was made of them,
 * so whoever counts on their being done with (receipts, credits) waits for the whole; its body is
 * one copy, since it has to be in one place.
 *
 * A tagged message is in the buffer when all its pieces are: STORED and SENT, which come for each,
 * go on once, as those of piece 0.
 *
 * Wire format: FRAG2's.  Needs order below only for one thing: a Neap member's next message says
 * that the one before will never be complete (its connection was reset), which frees it.
 *
 * Invariant: pieces are listed from last to first; what is complete has risen. */

#include "layers/frag/frag.h"

#include "core/packet.h"

#include <stdio.h>
#include <stdlib.h>

static const struct neap_header frag_headers[] = {
  NEAP_HEADER_ROW("frag", NEAP_P_FRAG, 52, neap_frag_head, "one piece of a message"),
  {0},
};
#define AT(member) offsetof(struct frag, member)
static const struct neap_attr frag_attrs[] = {
  {NEAP_PARAM, "frag_size", AT(frag_size), "bytes", 60000, FRAG_PIECE_LEAST, 1 << 20,
    .live = NEAP_NOW,
    .doc = "Bodies longer than this are split; see size for what is possible below. What was split "
           "already stays as it is."},
  {NEAP_PARAM, "max_message", AT(max_message), "bytes", 16u << 20, 1, 1u << 30, .live = NEAP_NOW,
    .doc = "Longest body that a send may have; a longer one is refused: too big."},
  {NEAP_PARAM, "max_partials", AT(max_partials), "messages", 1024, 1, 65536,
    .doc = "Incomplete messages that are kept; the oldest goes when there are more."},
  {NEAP_PARAM, "max_partial_bytes", AT(max_partial_bytes), "bytes", 256u << 20, 1, UINT32_MAX,
    .live = NEAP_NOW, .doc = "The same in bytes of their pieces."},
  {NEAP_PARAM, "partial_timeout", AT(partial_timeout), "ns", NEAP_S(240), 0, NEAP_S(86400),
    .live = NEAP_TICK,
    .doc = "How long an incomplete unicast of a member that left is kept, for "
           "it may be heard again. 0: it goes with the view."},
  {NEAP_GAUGE, "size", AT(size), "bytes", .doc = "Longest piece that is sent now."},
  {NEAP_GAUGE, "partials", AT(partials), "messages", .doc = "Incomplete messages."},
  {NEAP_GAUGE, "partial_bytes", AT(partial_bytes), "bytes", .doc = "What came of them."},
  {NEAP_COUNTER, "split", AT(split), "messages", .doc = "Sent in pieces."},
  {NEAP_COUNTER, "pieces_sent", AT(pieces_sent), "messages", .doc = "Their pieces."},
  {NEAP_COUNTER, "pieces_received", AT(pieces_received), "messages", .doc = "Pieces that came."},
  {NEAP_COUNTER, "joined", AT(joined), "messages", .doc = "Made whole again."},
  {NEAP_COUNTER, "encoded", AT(encoded), "messages", .doc = "Split, and more than a plain body."},
  {NEAP_COUNTER, "twice", AT(twice), "messages", .doc = "Pieces that came again; dropped."},
  {NEAP_COUNTER, "abandoned", AT(abandoned), "messages",
    .doc = "Incomplete messages given up: their sender left or went on, or there were too many."},
  {NEAP_COUNTER, "bad", AT(bad), "messages", .doc = "Pieces without sense; dropped."},
  {NEAP_END},
};

/* ---- down ---- */

/* The pieces of `len` bytes at `at`; each takes its part of what the message took at the gate. */
static void cut(struct frag *f, struct neap_msg *m, struct neap_slab *slab, const uint8_t *at,
  uint32_t len, bool encoded, struct neap_batch *out)
{
  uint32_t size = (uint32_t)f->size, charge = m->charge;
  uint32_t count = (len + size - 1) / size;
  struct neap_frag_head head = {
    .id = ++f->next_id, .count = count, .encoded = encoded, .type = m->type};
  NEAP_ASSERT(count <= FRAG_PIECES_MAX);
  for (; head.index < count; head.index++) {
    bool last = head.index + 1 == count;
    struct neap_msg *piece = head.index ? neap_msg_new(m->stack) : neap_msg_clone(m);
    if (head.index) {
      neap_msg_to(piece, m->to);
      piece->flags = m->flags;
      piece->marks = m->marks;
    }
    uint32_t part = last ? len - head.index * size : size;
    neap_msg_slice(piece, slab, at + (size_t)head.index * size, part);
    piece->charge = last || charge < part ? charge : part;
    if (NEAP_IS_MUTANT(422)) piece->charge = 0;
    charge -= piece->charge;
    piece->charges = last ? m->charges : 0;
    *neap_frag_head_put(piece, &f->layer) = head;
    neap_put(out, piece);
  }
  f->split++;
  f->pieces_sent += count;
  neap_msg_free(m);
}

/* What is not a plain body goes as the bytes that it would be on the wire. */
static void encode(struct frag *f, struct neap_msg *m, struct neap_batch *out)
{
  const struct neap_registry *registry = &m->stack->registry;
  struct neap_slab *slab = neap_slab_new(neap_world_of(&f->layer), neap_packet_size(registry, m));
  struct neap_writer w = {slab->at, slab->at + slab->size, false};
  neap_packet_message(&w, registry, m, NULL, NULL, 0);
  NEAP_ASSERT(!w.full); /* neap_packet_size is never below. */
  slab->used = (uint32_t)(w.at - slab->at);
  f->encoded++;
  cut(f, m, slab, slab->at, slab->used, true, out);
  neap_slab_free(neap_world_of(&f->layer), slab);
}

static void frag_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct frag *f = (struct frag *)layer;
  struct neap_batch out = {0};
  struct neap_msg *m = batch->bytes > f->size ? batch->first : NULL;
  while (m && m->len <= f->size) m = m->next;
  if (!m) { /* Nothing in it is longer. */
    neap_pass_down(layer, batch);
    return;
  }
  while ((m = neap_take(batch))) {
    if (m->len <= f->size)
      neap_put(&out, m);
    else if (m->type == NEAP_TYPE_BYTES ||
             (m->type == NEAP_TYPE_NIO && !(m->marks & NEAP_DIRECT_BODY)))
      cut(f, m, m->slab, m->body, m->len, false, &out);
    else
      encode(f, m, &out);
  }
  neap_pass_down(layer, &out);
}

/* ---- up ---- */

/* Keeps a piece in its place; false if it is there already. */
static bool insert(struct frag *f, struct partial *t, struct neap_msg *m, uint32_t index)
{
  struct neap_msg **at = &t->last;
  while (*at && neap_frag_head_get(*at, &f->layer)->index > index) at = &(*at)->next;
  if (t->risen || (*at && neap_frag_head_get(*at, &f->layer)->index == index)) return false;
  m->next = *at;
  *at = m;
  if (!index) t->zero = m;
  t->have++;
  t->bytes += m->len;
  f->partial_bytes += m->len;
  return true;
}

/* Reads the message that the bytes are; NULL when they are none. */
static struct neap_msg *decode(struct frag *f, const struct partial *t, struct neap_slab *slab)
{
  struct neap_stack *stack = f->layer.stack;
  struct neap_arrival arrival;
  struct neap_packet packet = {.r = neap_reader_of(slab->at, slab->used),
    .registry = &stack->registry,
    .bits = NEAP_PACKET_LIST,
    .left = 1};
  struct neap_msg *whole = neap_msg_new(stack);
  if (!neap_packet_next(&packet, whole, &arrival) || neap_left(&packet.r)) {
    whole->body = NULL; /* Nothing of it is valid. */
    neap_msg_free(whole);
    return NULL;
  }
  neap_msg_from(whole, t->zero->from);
  neap_msg_to(whole, t->zero->to);
  if (whole->body) whole->slab = neap_slab_hold(slab);
  return whole;
}

/* All pieces are here: makes the message of them; NULL when it makes none. */
static struct neap_msg *join(struct frag *f, struct partial *t)
{
  struct neap_world *world = neap_world_of(&f->layer);
  struct neap_frag_head head = *neap_frag_head_get(t->zero, &f->layer);
  struct neap_slab *slab = neap_slab_new(world, (uint32_t)t->bytes);
  struct neap_msg *whole;
  slab->used = (uint32_t)t->bytes;
  uint8_t *at = slab->at + t->bytes;
  for (const struct neap_msg *m = t->last; m; m = m->next) {
    at -= m->len;
    if (m->len) memcpy(at, m->body, m->len);
  }
  if (head.encoded) {
    whole = decode(f, t, slab);
  } else {
    whole = neap_msg_clone(t->zero);
    neap_msg_slice(whole, slab, slab->at, slab->used);
    if (head.type == NEAP_TYPE_NIO) whole->type = NEAP_TYPE_NIO;
    neap_frag_head_drop(whole, &f->layer);
  }
  neap_slab_free(world, slab); /* The message holds it now. */
  if (whole) {
    whole->seqno = t->zero->seqno;
    /* It came again if all of it did. */
    whole->marks &= (uint8_t)~NEAP_REPLAYED;
    whole->marks |= t->last->marks & NEAP_REPLAYED;
    if (NEAP_IS_MUTANT(421)) frag_pieces_free(f, t);
    whole->origin = t->last; /* Freed with it, receipts and all. */
    t->last = t->zero = NULL;
    f->joined++;
  } else {
    f->bad++;
  }
  f->partial_bytes -= t->bytes;
  t->bytes = 0;
  frag_pieces_free(f, t);
  return whole;
}

static struct neap_msg *piece_up(struct frag *f, struct neap_msg *m)
{
  struct neap_frag_head head = *neap_frag_head_get(m, &f->layer);
  struct partial *t = frag_partial_of(f, m, &head);
  f->pieces_received++;
  if (!t || !insert(f, t, m, head.index)) {
    ++*(t ? &f->twice : &f->bad);
    neap_msg_free(m);
    return NULL;
  }
  if (t->have == 1) frag_pass_over(f, t, m);
  struct neap_msg *whole = NULL;
  if (t->have == t->count) {
    whole = join(f, t);
    f->partials--;
    t->risen = true;
    if (!t->tagged || t->complete == t->count) frag_partial_free(f, t);
  }
  while (f->partial_bytes > f->max_partial_bytes)
    frag_abandon(f, NEAP_HOLDER(f->ages.next, struct partial, age));
  return whole;
}

static void frag_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct frag *f = (struct frag *)layer;
  struct neap_batch out = {0};
  struct neap_msg *m;
  if (!neap_batch_has(batch, layer, 0)) { /* Nothing to put together. */
    neap_pass_up(layer, batch);
    return;
  }
  while ((m = neap_take(batch))) {
    if (neap_frag_head_get(m, layer)) m = piece_up(f, m);
    if (m) neap_put(&out, m);
  }
  neap_pass_up(layer, &out);
}

/* ---- what is tagged ---- */

static void tell(struct frag *f, struct partial *t, bool all)
{
  struct neap_event event = {.kind = NEAP_EVENT_STORED,
    .msg = t->head,
    .number = t->seqno,
    .peer = neap_peer_ref(t->head->from),
    .code = t->code,
    .flag = all,
    .fresh = !t->told};
  t->head->refs++;
  t->told = true;
  neap_event_up(&f->layer, &event);
}

static void stored(struct frag *f, const struct neap_event *event)
{
  const struct neap_frag_head *head = neap_frag_head_get(event->msg, &f->layer);
  struct partial *t = frag_partial_of(f, event->msg, head);
  if (!t) return; /* Its message will be found bad. */
  t->tagged = true;
  if (!head->index && !t->head) {
    t->head = neap_msg_clone(event->msg);
    t->seqno = event->number;
    t->code = event->code;
  }
  /* What is first told of with a gap before it is told of again when the gap is filled. */
  if (event->fresh || !event->flag) t->stored++;
  if (event->flag) t->complete++;
  if (t->complete == t->count && t->head) {
    tell(f, t, true);
    if (t->risen) frag_partial_free(f, t);
  } else if (t->stored == t->count && t->head && !t->told) {
    tell(f, t, false);
  }
}

static enum neap_verdict frag_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct frag *f = (struct frag *)layer;
  (void)up;
  if (event->kind == NEAP_EVENT_VIEW) frag_view(f);
  if (event->kind == NEAP_EVENT_REWOUND) frag_rewound(f);
  if (event->kind == NEAP_EVENT_BEGUN) frag_begun(f, event->peer);
  if (event->kind != NEAP_EVENT_SENT && event->kind != NEAP_EVENT_STORED) return NEAP_PASS;
  const struct neap_frag_head *head = neap_frag_head_get(event->msg, layer);
  if (!head) return NEAP_PASS;
  if (event->kind == NEAP_EVENT_SENT) return head->index ? NEAP_STOP : NEAP_PASS;
  stored(f, event);
  return NEAP_STOP;
}

/* ---- life ---- */

static void size_set(struct frag *f)
{
  f->size = f->frag_size < f->below ? f->frag_size : f->below;
  if (f->size * FRAG_PIECES_MAX < f->max_message) f->size = f->max_message / FRAG_PIECES_MAX + 1;
  f->layer.stack->max_body = f->max_message;
}

static int frag_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct frag *f = (struct frag *)layer;
  neap_link_init(&f->ages);
  neap_link_init(&f->spare);
  neap_timer_init_background(layer, &f->departed, frag_departed);
  f->room = calloc(f->max_partials, sizeof *f->room);
  if (!f->room)
    return neap_trail(trail, NEAP_MEMORY, "%u partial messages", (unsigned)f->max_partials);
  f->below = layer->stack->max_body;
  size_set(f);
  return 0;
}

static void frag_changed(struct neap_layer *layer, const struct neap_attr *attr)
{
  (void)attr;
  size_set((struct frag *)layer);
}

static void frag_close(struct neap_layer *layer)
{
  struct frag *f = (struct frag *)layer;
  neap_timer_stop(&f->departed);
  while (!neap_link_alone(&f->ages))
    frag_partial_free(f, NEAP_HOLDER(f->ages.next, struct partial, age));
  free(f->room);
}

static int frag_clear(struct neap_layer *layer, const char *argument, char *out)
{
  struct frag *f = (struct frag *)layer;
  (void)argument;
  snprintf(out, NEAP_OP_TEXT, "%u", (unsigned)f->partials);
  while (!neap_link_alone(&f->ages))
    frag_abandon(f, NEAP_HOLDER(f->ages.next, struct partial, age));
  return 0;
}

static const struct neap_op frag_ops[] = {
  {"clear", "Gives up all incomplete messages; says how many there were.", frag_clear},
  {0},
};

static void frag_check(const struct neap_layer *layer)
{
  const struct frag *f = (const struct frag *)layer;
  uint64_t partials = 0, bytes = 0, places = 0;
  for (const struct neap_link *l = f->spare.next; l != &f->spare; l = l->next) places++;
  for (const struct neap_link *l = f->ages.next; l != &f->ages; l = l->next) {
    const struct partial *t = NEAP_HOLDER(l, const struct partial, age);
    uint64_t held = 0, index = t->count;
    uint32_t have = 0;
    for (const struct neap_msg *m = t->last; m; m = m->next, have++) {
      NEAP_ASSERT(neap_frag_head_get(m, layer)->index < index);
      index = neap_frag_head_get(m, layer)->index;
      held += m->len;
    }
    NEAP_ASSERT(held == t->bytes && t->peer);
    NEAP_ASSERT(t->risen ? !have && t->tagged : have == t->have && have < t->count);
    partials += !t->risen;
    bytes += held;
    places++;
  }
  NEAP_ASSERT(partials == f->partials && bytes == f->partial_bytes && places == f->begun);
  NEAP_ASSERT(f->begun <= f->max_partials);
}

const struct neap_class neap_frag = {
  .name = "frag",
  .doc = "Messages larger than a packet travel in pieces.",
  .needs = "mcast_reliable mcast_fifo ucast_reliable ucast_fifo",
  .gives = "frag",
  .size = sizeof(struct frag),
  .peer_size = sizeof(struct peer),
  .headers = frag_headers,
  .attrs = frag_attrs,
  .ops = frag_ops,
  .open = frag_open,
  .down = frag_down,
  .up = frag_up,
  .unseen = NEAP_UNSEEN_RISING_ALL | NEAP_UNSEEN_RISING_ONE,
  .event = frag_event,
  .changed = frag_changed,
  .close = frag_close,
  .check = frag_check,
};
