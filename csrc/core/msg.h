/* msg: messages, their bodies, and batches of them.
 *
 * Whoever holds a message owns it; passing it gives it away; the head is yours, the body is
 * everyone's and nobody writes to it.
 *
 *   struct neap_msg   head: a slot per header of the stack, and a bit that says it is there
 *        | slab
 *        v
 *   struct neap_slab  64 kB of bytes, counted; bodies are slices of it, received packets too
 *
 * A descriptor is counted because a retransmission window and whoever is below it can hold the same
 * one: a first send copies nothing.  A descriptor can be in one list at a time, so one that
 * somebody else still holds is not passed again but cloned (neap_msg_again).
 *
 * Each branch over a message ends in exactly one of pass, keep, free. */

#ifndef NEAP_CORE_MSG_H
#define NEAP_CORE_MSG_H

#include "base/assert.h"
#include "base/bytes.h"

struct neap_done;
struct neap_layer;
struct neap_peer;
struct neap_receipts;
struct neap_stack;
struct neap_tally;

/* Flags that travel (i16 on the wire). */
enum neap_flag {
  NEAP_OOB = 1,
  NEAP_DONT_BUNDLE = 2,
  NEAP_NO_FC = 4,
  NEAP_NO_RELIABILITY = 16,
  NEAP_NO_TOTAL_ORDER = 32,
  NEAP_NO_RELAY = 64,
  NEAP_RSVP = 128,
  NEAP_RSVP_NB = 256,
  NEAP_SKIP_BARRIER = 1024,
  NEAP_SERIALIZED = 2048,
};

/* Marks that stay here. */
enum neap_mark {
  NEAP_NULL_BODY = 1,   /* no body at all, which is not an empty one */
  NEAP_DIRECT_BODY = 2, /* type NIO: the sender wants direct memory */
  NEAP_NO_LOOPBACK = 4, /* not to be delivered to its own sender */
  NEAP_BACKGROUND = 8,  /* heartbeats, votes and their like: the simulator settles without them */
  NEAP_STRAY = 16,      /* carries a header whose layer is not in this stack */
  NEAP_OWN = 32,        /* made by a layer: bypasses the gate, never reaches the application */
  NEAP_SENT = 64,       /* has been on the wire before: this is a retransmission */
  NEAP_REPLAYED = 128,  /* may be in the state already (protocols 7) */
};

/* Payload types of the wire. */
enum neap_msg_type {
  NEAP_TYPE_BYTES = 0,
  NEAP_TYPE_NIO = 1,
  NEAP_TYPE_EMPTY = 2,
  NEAP_TYPE_OBJECT = 3,
  NEAP_TYPE_LONG = 4,
  NEAP_TYPE_COMPOSITE = 5,
  NEAP_TYPE_FRAGMENT = 6,
  NEAP_TYPE_EARLY_BATCH = 7,
};

/* 64 kB: the largest datagram and its descriptor.  Larger bodies get a slab of their own size. */
enum { NEAP_SLAB_BYTES = 65536 };

struct neap_slab {
  uint32_t refs;
  uint32_t size;          /* bytes at `at` */
  uint32_t used;          /* bytes handed out; nobody writes below */
  bool background;        /* received bytes: sent by background work only */
  struct neap_slab *next; /* in the pool */
  uint8_t at[];
};

struct neap_msg {
  struct neap_msg *next;    /* in a batch, a mailbox, an inbox or the pool */
  uint64_t present;         /* bit per header slot */
  struct neap_peer *from;   /* counted; the sender, this member itself for what it sends */
  struct neap_peer *to;     /* counted; NULL: a multicast */
  const uint8_t *body;      /* a slice of `slab`; for types other than bytes, NIO and fragment the
                             * payload as encoded, which the decoder has checked */
  uint32_t len;
  uint32_t charge;          /* bytes reserved at the gate, given back when the window purges it */
  struct neap_slab *slab;   /* counted; NULL when there are no bytes */
  struct neap_stack *stack; /* whose pool it comes from */
  struct neap_receipts *receipts; /* NULL, or whose run `seqno` belongs to: see core/receipt.h */
  uint64_t seqno;           /* in that run; for the application msg.seqno */
  struct neap_tally *tally; /* NULL, or who counts the bytes the application is done with */
  struct neap_done *done;   /* NULL, or who wants to know that this very message is done with */
  struct neap_msg *origin;  /* what it was made from (fragments): freed with it, receipts and all */
  uint32_t refs;
  uint32_t ticket;          /* 0, or the synchronous send that the application waits for */
  uint16_t flags;           /* enum neap_flag */
  uint8_t type;             /* enum neap_msg_type */
  uint8_t marks;            /* enum neap_mark */
  uint8_t charges;          /* 1 if it was counted at the gate as a message, even with no bytes */
  uint8_t stray_below;      /* NEAP_STRAY: layers above this position must not see it */
  uint64_t head[];          /* the slots; see core/registry.h for offsets */
};

/* Messages of one sender, to one kind of destination, in one mode (regular or out-of-band).  What
 * neap_put finds to be otherwise is split into such runs when the batch is passed on. */
struct neap_batch {
  struct neap_msg *first, *last;
  uint32_t count;
  uint32_t bytes; /* of bodies */
  uint64_t heads; /* what its messages carried when they were put in: a bit set for each slot that
                   * may be there, so a rising batch with nothing for a layer passes it whole */
  bool mixed;     /* more than one run */
  bool stray;     /* holds at least one stray */
};

/* ---- messages: csrc/core/msg.c ---- */

/* An empty message from this member: type EMPTY, no body, to everybody.  `mark_own` messages are
 * made by layers.  Never NULL: the pool grows to its bound, see NEAP_MSGS_MAX, and beyond that the
 * belief that the gate bounds everything is broken. */
struct neap_msg *neap_msg_new(struct neap_stack *stack);

/* A new message of a layer: NEAP_OWN is set, to `to` (NULL: all), with these wire flags. */
struct neap_msg *neap_msg_own(struct neap_layer *layer, struct neap_peer *to, unsigned flags);

/* A new one with this body, of type bytes. */
struct neap_msg *neap_msg_filled(struct neap_stack *stack, const void *bytes, uint32_t len);

/* One that came from the wire: from this peer, to this member (NULL: to all), with the slab it lies
 * in.  Its type, flags, body and head are the decoder's. */
struct neap_msg *neap_msg_arrived(
  struct neap_peer *from, struct neap_peer *to, struct neap_slab *slab);

/* Nobody holds it any more; for neap_msg_free only. */
void neap_msg_gone(struct neap_msg *m);

static inline void neap_msg_free(struct neap_msg *m)
{
  NEAP_ASSERT(m->refs);
  if (!--m->refs) neap_msg_gone(m);
}

/* A new descriptor with the same body and a copy of the head; no charge, receipt or origin. */
struct neap_msg *neap_msg_clone(const struct neap_msg *m);

/* For a window that sends what it holds: `m` itself, counted once more, if nobody else holds it,
 * else a clone.  Either way what comes back is the caller's to pass. */
struct neap_msg *neap_msg_again(struct neap_msg *m);

/* Copies `len` bytes into a slab of the stack and makes them the body (type bytes). */
void neap_msg_body(struct neap_msg *m, const void *bytes, uint32_t len);

/* Makes a slice of somebody's slab the body. */
void neap_msg_slice(struct neap_msg *m, struct neap_slab *slab, const uint8_t *at, uint32_t len);

void neap_msg_from(struct neap_msg *m, struct neap_peer *from);
void neap_msg_to(struct neap_msg *m, struct neap_peer *to);

static inline bool neap_oob(const struct neap_msg *m)
{
  return (m->flags & NEAP_OOB) != 0;
}

/* ---- slabs ---- */

/* A slab with room for `size` bytes, refs 1.  Slabs of the usual size come from the world's
 * pool. */
struct neap_world;
struct neap_slab *neap_slab_new(struct neap_world *world, uint32_t size);
void neap_slab_free(struct neap_world *world, struct neap_slab *slab);

static inline struct neap_slab *neap_slab_hold(struct neap_slab *slab)
{
  slab->refs++;
  return slab;
}

/* ---- batches ---- */

static inline bool neap_same_run(const struct neap_msg *a, const struct neap_msg *b)
{
  return a->from == b->from && !a->to == !b->to && !((a->flags ^ b->flags) & NEAP_OOB);
}

/* Appends a message that the caller owns. */
static inline void neap_put(struct neap_batch *batch, struct neap_msg *m)
{
  m->next = NULL;
  if (batch->last) {
    batch->mixed |= !neap_same_run(batch->last, m);
    batch->last->next = m;
  } else {
    batch->first = m;
  }
  batch->last = m;
  batch->count++;
  batch->bytes += m->len;
  batch->heads |= m->present;
  batch->stray |= (m->marks & NEAP_STRAY) != 0;
}

/* Takes the first message out; NULL, and a batch as good as new, when there is none. */
static inline struct neap_msg *neap_take(struct neap_batch *batch)
{
  struct neap_msg *m = batch->first;
  if (!m) {
    *batch = (struct neap_batch){0};
    return NULL;
  }
  batch->first = m->next;
  if (!m->next) batch->last = NULL;
  batch->count--;
  batch->bytes -= m->len;
  m->next = NULL;
  return m;
}

/* Frees the first `count` messages. */
static inline void neap_drop_first(struct neap_batch *batch, uint32_t count)
{
  struct neap_msg *m = batch->first, *next;
  NEAP_ASSERT(count <= batch->count);
  batch->count -= count;
  for (; count; count--, m = next) {
    next = m->next;
    batch->bytes -= m->len;
    m->next = NULL;
    neap_msg_free(m);
  }
  batch->first = m;
  if (!m) *batch = (struct neap_batch){0};
}

/* Moves the first `count` messages, the last of which is `last` and which have `bytes` of bodies,
 * behind `to`: a run costs as much as a message. */
static inline void neap_move_first(struct neap_batch *batch, struct neap_msg *last, uint32_t count,
  uint32_t bytes, struct neap_batch *to)
{
  NEAP_ASSERT(count && count <= batch->count);
  to->heads |= batch->heads;
  to->stray |= batch->stray;
  to->mixed |= batch->mixed || (to->last && !neap_same_run(to->last, batch->first));
  if (to->last)
    to->last->next = batch->first;
  else
    to->first = batch->first;
  to->last = last;
  to->count += count;
  to->bytes += bytes;
  batch->first = last->next;
  batch->count -= count;
  batch->bytes -= bytes;
  last->next = NULL;
  if (!batch->first) *batch = (struct neap_batch){0};
}

/* Moves all of `more` behind `batch` and empties it. */
void neap_batch_append(struct neap_batch *batch, struct neap_batch *more);
void neap_batch_free(struct neap_batch *batch);

#endif
