#include "core/receipt.h"

#include "core/layer.h"

#include <stdlib.h>

/* Receipts beyond `applied` that can be out of order: 2^20 seqnos, more than any window. */
enum { BITS_MIN = 256, BITS_MAX = 1 << 20 };

static void mover_init(
  struct neap_mover *mover, struct neap_layer *layer, struct neap_peer *peer, unsigned event)
{
  mover->layer = layer;
  mover->peer = peer;
  mover->event = (uint8_t)event;
  layer->stack->movers_out++;
}

static void mover_free(struct neap_stack *stack, struct neap_mover *mover)
{
  NEAP_ASSERT(stack->movers_out && !mover->queued);
  stack->movers_out--;
  if (mover->event == NEAP_EVENT_APPLIED) free(((struct neap_receipts *)(void *)mover)->bits);
  free(mover);
}

static void mover_queue(struct neap_stack *stack, struct neap_mover *mover)
{
  if (mover->queued) return;
  mover->queued = true;
  mover->next = NULL;
  if (stack->moved_last)
    stack->moved_last->next = mover;
  else
    stack->moved = mover;
  stack->moved_last = mover;
  neap_stack_ready(stack);
}

/* Neither a message nor the queue knows it, and its owner is not being told of it. */
static bool unknown(const struct neap_mover *mover)
{
  return !mover->out && !mover->queued && !mover->telling;
}

/* The owner no longer cares. */
static void mover_close(struct neap_mover *mover)
{
  NEAP_ASSERT(!mover->closed);
  mover->closed = true;
  if (unknown(mover)) mover_free(mover->layer->stack, mover);
}

/* One message less knows it; tells the owner if it moved. */
static inline void mover_back(struct neap_stack *stack, struct neap_mover *mover, bool moved)
{
  NEAP_ASSERT(mover->out);
  mover->out--;
  if (!mover->closed) {
    if (moved && !mover->queued) mover_queue(stack, mover);
  } else if (unknown(mover)) {
    mover_free(stack, mover);
  }
}

/* ---- receipts ---- */

struct neap_receipts *neap_receipts_new(
  struct neap_layer *layer, struct neap_peer *peer, uint64_t applied)
{
  struct neap_receipts *run = calloc(1, sizeof *run);
  NEAP_ASSERT(run);
  mover_init(&run->mover, layer, peer, NEAP_EVENT_APPLIED);
  run->applied = run->top = applied;
  return run;
}

void neap_receipts_close(struct neap_receipts *run)
{
  mover_close(&run->mover);
}

void neap_receipts_reset(struct neap_receipts *run, uint64_t applied)
{
  NEAP_ASSERT(!run->mover.out);
  run->applied = run->top = applied;
  free(run->bits);
  run->bits = NULL;
  run->size = 0;
}

static void bits_grow(struct neap_receipts *run, uint64_t ahead)
{
  uint32_t size = run->size ? run->size : BITS_MIN;
  while (size <= ahead) size *= 2;
  NEAP_ASSERT(size <= BITS_MAX);
  if (size == run->size) return;
  uint64_t *bits = calloc(size / 64, sizeof *bits);
  NEAP_ASSERT(bits);
  /* `top` may be the one that does not fit: beyond the old size there is nothing to copy. */
  for (uint64_t s = run->applied + 1; s - run->applied < run->size && s != run->top + 1; s++) {
    uint64_t from = s & (run->size - 1), to = s & (size - 1);
    if (run->bits[from / 64] >> (from % 64) & 1) bits[to / 64] |= (uint64_t)1 << (to % 64);
  }
  free(run->bits);
  run->bits = bits;
  run->size = size;
}

/* Marks one that came back early or late; true if `applied` moved. */
static bool mark_between(struct neap_receipts *run, uint64_t seqno)
{
  NEAP_ASSERT((int64_t)(seqno - run->applied) > 0);
  if ((int64_t)(seqno - run->top) > 0) run->top = seqno;
  if (seqno != run->applied + 1) {
    bits_grow(run, seqno - run->applied);
    uint64_t bit = seqno & (run->size - 1);
    run->bits[bit / 64] |= (uint64_t)1 << (bit % 64);
    return false;
  }
  run->applied = seqno;
  while (run->applied != run->top) { /* The run may go on over what came back early. */
    uint64_t bit = (run->applied + 1) & (run->size - 1);
    if (!(run->bits[bit / 64] >> (bit % 64) & 1)) break;
    run->bits[bit / 64] &= ~((uint64_t)1 << (bit % 64));
    run->applied++;
  }
  return true;
}

/* Marks it; true if `applied` moved.  Mostly they come back in order. */
static inline bool mark(struct neap_receipts *run, uint64_t seqno)
{
  if (seqno != run->applied + 1 || run->applied != run->top) return mark_between(run, seqno);
  run->applied = run->top = seqno;
  return true;
}

void neap_receipt_note(struct neap_receipts *run, uint64_t seqno)
{
  if (mark(run, seqno)) mover_queue(run->mover.layer->stack, &run->mover);
}

/* ---- tally and done ---- */

struct neap_tally *neap_tally_new(struct neap_layer *layer, struct neap_peer *peer)
{
  struct neap_tally *tally = calloc(1, sizeof *tally);
  NEAP_ASSERT(tally);
  mover_init(&tally->mover, layer, peer, NEAP_EVENT_TALLIED);
  return tally;
}

void neap_tally_close(struct neap_tally *tally)
{
  mover_close(&tally->mover);
}

void neap_done_give(struct neap_layer *layer, struct neap_msg *m, uint64_t number, uint64_t seqno)
{
  struct neap_done *done = calloc(1, sizeof *done);
  NEAP_ASSERT(done);
  mover_init(&done->mover, layer, neap_peer_ref(m->from), NEAP_EVENT_FINISHED);
  done->number = number;
  done->seqno = seqno;
  done->mover.out = 1;
  done->more = m->done;
  m->done = done;
}

/* ---- what a freed message moves ---- */

void neap_receipts_release(struct neap_msg *m)
{
  struct neap_stack *stack = m->stack;
  if (m->receipts) {
    bool moved = !m->receipts->mover.closed && mark(m->receipts, m->seqno);
    if (moved && !(m->marks & NEAP_BACKGROUND)) stack->foreground = true;
    mover_back(stack, &m->receipts->mover, moved);
  }
  if (m->tally) {
    m->tally->bytes += m->len;
    mover_back(stack, &m->tally->mover, true);
  }
  for (struct neap_done *done = m->done, *more; done; done = more) {
    more = done->more;
    stack->foreground = true;
    mover_back(stack, &done->mover, true);
  }
}

/* Tells the owners.  Called by the engine between sweeps. */
void neap_movers_tell(struct neap_stack *stack)
{
  struct neap_mover *mover;
  struct neap_event event = {0}; /* It is large: once for all of them. */
  while ((mover = stack->moved)) {
    stack->moved = mover->next;
    if (!stack->moved) stack->moved_last = NULL;
    mover->queued = false;
    struct neap_layer *layer = mover->layer;
    event.kind = mover->event;
    event.origin = layer;
    event.peer = mover->peer;
    event.receipts = NULL;
    event.tally = NULL;
    bool once = mover->event == NEAP_EVENT_FINISHED;
    if (once) {
      event.number = ((struct neap_done *)(void *)mover)->number;
      event.time = ((struct neap_done *)(void *)mover)->seqno;
    } else if (mover->event == NEAP_EVENT_APPLIED) {
      event.receipts = (struct neap_receipts *)(void *)mover;
    } else {
      event.tally = (struct neap_tally *)(void *)mover;
    }
    bool told = !mover->closed && layer->open;
    mover->telling = true; /* The owner may close it now. */
    if (told && layer->class->event) layer->class->event(layer, &event, true);
    mover->telling = false;
    if (once) neap_peer_unref(mover->peer);
    if (once || (mover->closed && unknown(mover))) mover_free(stack, mover);
  }
}
