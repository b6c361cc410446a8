#include "core/msg.h"

#include "core/layer.h"

#include <stdlib.h>

/* Free descriptors and slabs kept for reuse; what is beyond goes back to the system, so a burst
 * does not stay in memory. */
enum { MSGS_KEPT = 16384, SLABS_KEPT = 128 };

/* For specs: the n-th allocation of a world fails.  Only paths that start at the application or at
 * the wire ask; what a layer makes for itself has a reserve. */
static bool may_allocate(struct neap_world *world)
{
  return ++world->allocations != world->fail_at;
}

/* ---- slabs ---- */

struct neap_slab *neap_slab_new(struct neap_world *world, uint32_t size)
{
  struct neap_slab *slab = NULL;
  may_allocate(world);
  if (size <= NEAP_SLAB_BYTES) {
    size = NEAP_SLAB_BYTES;
    if ((slab = world->slabs)) {
      world->slabs = slab->next;
      world->slab_count--;
    }
  }
  if (!slab) slab = malloc(sizeof *slab + size);
  NEAP_ASSERT(slab);
  slab->refs = 1;
  slab->size = size;
  slab->used = 0;
  slab->background = false;
  slab->next = NULL;
  world->slab_out++;
  return slab;
}

void neap_slab_free(struct neap_world *world, struct neap_slab *slab)
{
  NEAP_ASSERT(slab->refs);
  if (--slab->refs) return;
  NEAP_ASSERT(world->slab_out);
  world->slab_out--;
  if (slab->size != NEAP_SLAB_BYTES || world->slab_count >= SLABS_KEPT) {
    free(slab);
    return;
  }
  slab->next = world->slabs;
  world->slabs = slab;
  world->slab_count++;
}

/* ---- descriptors ---- */

/* A descriptor with nothing in it that could be believed. */
static struct neap_msg *fresh(struct neap_stack *stack)
{
  struct neap_msg *m = stack->msgs;
  stack->msgs_out++;
  if (m) {
    stack->msgs = m->next;
    stack->msgs_kept--;
    __builtin_prefetch(m->next, 1); /* The next one will be wanted soon, and it lies anywhere. */
  } else {
    m = malloc(stack->registry.size);
    NEAP_ASSERT(m);
  }
  return m;
}

/* The same, empty but for who sent it.  Member by member: clearing it as a block costs more. */
static inline struct neap_msg *blank(struct neap_stack *stack)
{
  struct neap_msg *m = fresh(stack);
  m->next = NULL;
  m->present = 0;
  m->to = NULL;
  m->body = NULL;
  m->len = m->charge = 0;
  m->slab = NULL;
  m->stack = stack;
  m->receipts = NULL;
  m->seqno = 0;
  m->tally = NULL;
  m->done = NULL;
  m->origin = NULL;
  m->refs = 1;
  m->ticket = 0;
  m->flags = 0;
  m->type = NEAP_TYPE_EMPTY;
  m->marks = NEAP_NULL_BODY;
  m->charges = m->stray_below = 0;
  return m;
}

struct neap_msg *neap_msg_new(struct neap_stack *stack)
{
  struct neap_msg *m = blank(stack);
  m->from = neap_peer_ref(stack->self);
  return m;
}

struct neap_msg *neap_msg_arrived(
  struct neap_peer *from, struct neap_peer *to, struct neap_slab *slab)
{
  struct neap_msg *m = blank(from->stack);
  m->from = neap_peer_ref(from);
  m->to = neap_peer_ref(to);
  m->slab = neap_slab_hold(slab);
  return m;
}

struct neap_msg *neap_msg_own(struct neap_layer *layer, struct neap_peer *to, unsigned flags)
{
  struct neap_msg *m = neap_msg_new(layer->stack);
  m->marks |= NEAP_OWN;
  if (layer->stack->world->background) m->marks |= NEAP_BACKGROUND;
  m->flags = (uint16_t)flags;
  m->to = neap_peer_ref(to);
  return m;
}

/* Not the last one, mostly. */
static inline void slab_drop(struct neap_world *world, struct neap_slab *slab)
{
  if (slab->refs > 1)
    slab->refs--;
  else
    neap_slab_free(world, slab);
}

static inline void peer_drop(struct neap_stack *stack, struct neap_peer *peer)
{
  NEAP_ASSERT(peer->refs);
  if (!--peer->refs) stack->gone_due = true;
}

static inline void give_back(struct neap_msg *m)
{
  struct neap_stack *stack = m->stack;
  if ((uintptr_t)m->receipts | (uintptr_t)m->tally | (uintptr_t)m->done) neap_receipts_release(m);
  if (m->slab) slab_drop(stack->world, m->slab);
  peer_drop(stack, m->from);
  if (m->to) peer_drop(stack, m->to);
  NEAP_ASSERT(stack->msgs_out);
  stack->msgs_out--;
  if (stack->msgs_kept < MSGS_KEPT && !stack->closed) {
    m->next = stack->msgs;
    stack->msgs = m;
    stack->msgs_kept++;
  } else {
    free(m);
  }
}

void neap_msg_gone(struct neap_msg *m)
{
  struct neap_stack *stack = m->stack;
  if (!m->origin) {
    give_back(m);
    m = NULL;
  }
  while (m) { /* What it was made from goes with it; those are linked by `next`. */
    struct neap_msg *origin = m->origin;
    give_back(m);
    while (origin && origin->next) {
      struct neap_msg *next = origin->next;
      NEAP_ASSERT(origin->refs == 1 && !origin->origin);
      give_back(origin);
      origin = next;
    }
    m = origin;
  }
  if (stack->closed && !stack->msgs_out && !stack->holders) neap_stack_bury(stack);
}

struct neap_msg *neap_msg_clone(const struct neap_msg *m)
{
  struct neap_stack *stack = m->stack;
  struct neap_msg *copy = fresh(stack);
  memcpy(copy, m, sizeof *copy);
  for (uint64_t left = m->present; left; left &= left - 1) { /* The head is mostly empty. */
    const struct neap_slot *slot = &stack->registry.slots[__builtin_ctzll(left)];
    memcpy((char *)copy + slot->at - 8, (const char *)m + slot->at - 8, slot->size + 8u);
  }
  copy->next = NULL;
  copy->refs = 1;
  copy->charge = copy->charges = 0;
  copy->receipts = NULL;
  copy->tally = NULL;
  copy->done = NULL;
  copy->origin = NULL;
  neap_peer_ref(copy->from);
  neap_peer_ref(copy->to);
  if (copy->slab) neap_slab_hold(copy->slab);
  return copy;
}

struct neap_msg *neap_msg_again(struct neap_msg *m)
{
  if (m->refs > 1) return neap_msg_clone(m);
  m->refs++;
  return m;
}

static inline void slice(
  struct neap_msg *m, struct neap_slab *slab, const uint8_t *at, uint32_t len)
{
  neap_slab_hold(slab);
  if (m->slab) slab_drop(m->stack->world, m->slab);
  m->slab = slab;
  m->body = at;
  m->len = len;
  m->type = NEAP_TYPE_BYTES;
  m->marks &= (uint8_t)~NEAP_NULL_BODY;
}

void neap_msg_slice(struct neap_msg *m, struct neap_slab *slab, const uint8_t *at, uint32_t len)
{
  slice(m, slab, at, len);
}

static inline void fill(
  struct neap_msg *m, struct neap_slab *slab, const void *bytes, uint32_t len)
{
  uint8_t *at = slab->at + slab->used;
  if (len) memcpy(at, bytes, len);
  slab->used += len;
  slice(m, slab, at, len);
}

/* A large body gets a slab of its own, and what is left of the one in use is still good. */
static __attribute__((noinline)) void fill_another(
  struct neap_msg *m, const void *bytes, uint32_t len)
{
  struct neap_stack *stack = m->stack;
  if (len > NEAP_SLAB_BYTES / 4) {
    struct neap_slab *slab = neap_slab_new(stack->world, len);
    fill(m, slab, bytes, len);
    neap_slab_free(stack->world, slab); /* The message holds it now. */
    return;
  }
  if (stack->filling) neap_slab_free(stack->world, stack->filling);
  stack->filling = neap_slab_new(stack->world, NEAP_SLAB_BYTES);
  fill(m, stack->filling, bytes, len);
}

void neap_msg_body(struct neap_msg *m, const void *bytes, uint32_t len)
{
  struct neap_slab *slab = m->stack->filling;
  if (!slab || slab->size - slab->used < len)
    fill_another(m, bytes, len);
  else
    fill(m, slab, bytes, len);
}

struct neap_msg *neap_msg_filled(struct neap_stack *stack, const void *bytes, uint32_t len)
{
  struct neap_msg *m = blank(stack);
  struct neap_slab *slab = stack->filling;
  m->from = neap_peer_ref(stack->self);
  if (!slab || slab->size - slab->used < len) {
    fill_another(m, bytes, len);
    return m;
  }
  uint8_t *at = slab->at + slab->used;
  if (len) memcpy(at, bytes, len);
  slab->used += len;
  m->slab = neap_slab_hold(slab);
  m->body = at;
  m->len = len;
  m->type = NEAP_TYPE_BYTES;
  m->marks = 0;
  return m;
}

void neap_msg_from(struct neap_msg *m, struct neap_peer *from)
{
  neap_peer_ref(from);
  neap_peer_unref(m->from);
  m->from = from;
}

void neap_msg_to(struct neap_msg *m, struct neap_peer *to)
{
  neap_peer_ref(to);
  if (m->to) neap_peer_unref(m->to);
  m->to = to;
}

/* ---- batches ---- */

void neap_batch_append(struct neap_batch *batch, struct neap_batch *more)
{
  if (!more->first) return;
  if (batch->last) {
    batch->mixed |= more->mixed || !neap_same_run(batch->last, more->first);
    batch->last->next = more->first;
    batch->last = more->last;
    batch->count += more->count;
    batch->bytes += more->bytes;
    batch->heads |= more->heads;
    batch->stray |= more->stray;
  } else {
    *batch = *more;
  }
  *more = (struct neap_batch){0};
}

void neap_batch_free(struct neap_batch *batch)
{
  struct neap_msg *m;
  while ((m = neap_take(batch))) neap_msg_free(m);
}
