/* receipt: what "delivered", "applied" and "drained" mean.
 *
 * With mailboxes "the up call returned" says nothing.  So each message that a reliable layer hands
 * up carries a receipt: (run, seqno), in the message itself.  Freeing the message, and everything
 * made from it, releases the receipt.  The run of one stream knows how far all receipts without a
 * gap have been released:
 *
 *     applied = 7      released:  8? no   9 yes   10 yes        then 8 is released: applied = 10
 *
 * Out-of-band messages are released out of order and count when the run reaches them.  A layer that
 * owns runs gets an APPLIED event for each run that moved, at the end of the sweep.
 *
 * Invariant: applied <= handed up; bit (s mod size) is set exactly for released s > applied. */

#ifndef NEAP_CORE_RECEIPT_H
#define NEAP_CORE_RECEIPT_H

#include "core/msg.h"

/* What freed messages moved: queued at the stack until the owner's `event` is called for it, at the
 * next pause between two sweeps.  First member of the three kinds below. */
struct neap_mover {
  struct neap_mover *next;
  struct neap_layer *layer; /* the owner */
  struct neap_peer *peer;   /* whose stream this is, for the owner's use; not counted */
  uint32_t out;             /* handed out with messages that are not freed yet */
  uint8_t event;            /* APPLIED, TALLIED or FINISHED */
  bool queued;
  bool telling; /* the owner's `event` is running for it */
  bool closed;  /* the owner no longer cares; the last one that comes back frees this */
};

struct neap_receipts {
  struct neap_mover mover;
  uint64_t applied; /* everything up to here is done */
  uint64_t top;     /* highest released */
  uint64_t *bits;   /* released beyond `applied`; NULL until something is out of order */
  uint32_t size;    /* of `bits`, in seqnos; a power of two */
};

/* A run whose next seqno is applied + 1. */
struct neap_receipts *neap_receipts_new(
  struct neap_layer *layer, struct neap_peer *peer, uint64_t applied);

/* The stream is gone.  What is still out comes back without effect. */
void neap_receipts_close(struct neap_receipts *run);

/* Starts over at `applied` (a digest was set, possibly lower).  Allowed only while nothing is out;
 * otherwise close it and make a new one. */
void neap_receipts_reset(struct neap_receipts *run, uint64_t applied);

/* Hands out the receipt for `seqno` with `m`, which must not carry one. */
static inline void neap_receipt_give(struct neap_receipts *run, struct neap_msg *m, uint64_t seqno)
{
  NEAP_ASSERT(!m->receipts && !run->mover.closed);
  m->receipts = run;
  m->seqno = seqno;
  run->mover.out++;
}

/* Marks `seqno` done without a message: own messages that are not looped back, headers that ended
 * in the layer itself.  Also what freeing a message with a receipt does. */
void neap_receipt_note(struct neap_receipts *run, uint64_t seqno);

static inline void neap_receipt_done(struct neap_receipts *run, uint64_t seqno)
{
  bool next = seqno == run->applied + 1 && run->applied == run->top;
  if (next && run->mover.queued) /* The owner hears of it anyway. */
    run->applied = run->top = seqno;
  else
    neap_receipt_note(run, seqno);
}

/* ---- tally: bytes the application is done with, for flow control ---- */

/* Each message that carries it adds its body's length when it is freed; the owner gets TALLIED. */
struct neap_tally {
  struct neap_mover mover;
  uint64_t bytes; /* since the beginning */
};

struct neap_tally *neap_tally_new(struct neap_layer *layer, struct neap_peer *peer);
void neap_tally_close(struct neap_tally *tally);

static inline void neap_tally_give(struct neap_tally *tally, struct neap_msg *m)
{
  NEAP_ASSERT(!m->tally && !tally->mover.closed);
  m->tally = tally;
  tally->mover.out++;
}

/* ---- done: one message, for synchronous sends ---- */

/* Rides on one message; when that is freed the owner gets FINISHED with its peer and number, and it
 * is gone.  A message can carry several. */
struct neap_done {
  struct neap_mover mover;
  uint64_t number, seqno; /* the owner's; FINISHED brings them as number and time */
  struct neap_done *more; /* on the same message */
};

void neap_done_give(struct neap_layer *layer, struct neap_msg *m, uint64_t number, uint64_t seqno);

/* Releases whatever `m` carries; called by neap_msg_free. */
void neap_receipts_release(struct neap_msg *m);

#endif
