/* window: the messages of one stream between low and high, by seqno.
 *
 *     offset           next                    high
 *       |  applied or   |  waiting, with gaps   |
 *       low             v                       v
 *     --[5][6][7][8]----[9][ ][11][12][ ][ ][15]
 *
 *   low    everything up to here is gone from the window
 *   hd     "highest delivered": everything up to here was taken out by neap_window_next
 *   high   highest stored
 *
 * Invariant: low <= hd <= high; stored = messages in (low, high]; missing = high - hd - waiting.
 * A ring of pointers, a power of two, that grows with the distance high - low up to `max` and
 * shrinks again when little of it is used.  Comparisons are by signed difference.  The window owns
 * what is stored in it. */

#ifndef NEAP_CORE_WINDOW_H
#define NEAP_CORE_WINDOW_H

#include "core/msg.h"

struct neap_window {
  uint64_t low, hd, high;
  uint32_t size;    /* of the ring; 0 until the first message */
  uint32_t max;     /* seqnos between low and high, at most; a power of two */
  uint32_t stored;  /* messages held */
  uint32_t waiting; /* of these, beyond hd */
  uint64_t bytes;   /* of bodies held */
  uint32_t calm;    /* steps since an eighth of the ring was in use: when to shrink */
  struct neap_msg **ring;
};

enum neap_add { NEAP_ADDED, NEAP_OLD, NEAP_TWICE, NEAP_FAR };

/* low = hd = high = at: the first message accepted is at + 1. */
void neap_window_init(struct neap_window *w, uint64_t at, uint32_t max);
/* Frees all messages and the ring. */
void neap_window_done(struct neap_window *w);

/* Stores `m`; on anything but NEAP_ADDED the message stays the caller's. */
enum neap_add neap_window_add(struct neap_window *w, uint64_t seqno, struct neap_msg *m);

/* The message, or NULL outside (low, high] and in gaps. */
static inline struct neap_msg *neap_window_get(const struct neap_window *w, uint64_t seqno)
{
  if ((int64_t)(seqno - w->low) <= 0 || (int64_t)(seqno - w->high) > 0) return NULL;
  return w->ring[seqno & (w->size - 1)];
}

/* Moves hd over the next message and returns it, NULL at a gap or at the end.  `keep`: it stays
 * stored (a sender's own), else it is the caller's and low follows. */
struct neap_msg *neap_window_next(struct neap_window *w, bool keep);

/* The same for a run that rises: takes out what is next, NULL at a gap.  When the run has ended
 * neap_window_risen is told how long it was. */
static inline struct neap_msg *neap_window_rise(struct neap_window *w)
{
  struct neap_msg *m = neap_window_get(w, w->hd + 1);
  if (!m) return NULL;
  NEAP_ASSERT(w->low == w->hd); /* Nothing that was kept may fall below low unfreed. */
  w->low = ++w->hd;
  w->ring[w->hd & (w->size - 1)] = NULL;
  w->stored--;
  w->waiting--;
  w->bytes -= m->len;
  return m;
}
void neap_window_risen(struct neap_window *w, uint64_t count);

/* Stores a run beyond everything that is here: makes places up to `last`, then takes the messages
 * one after the other. */
void neap_window_extend(struct neap_window *w, uint64_t last);
static inline void neap_window_put(struct neap_window *w, uint64_t seqno, struct neap_msg *m)
{
  NEAP_ASSERT((int64_t)(seqno - w->high) > 0 && seqno - w->low <= w->size);
  w->ring[seqno & (w->size - 1)] = m;
  w->high = seqno;
  w->stored++;
  w->waiting++;
  w->bytes += m->len;
}

/* A sender's own next message: stored at high + 1, taken out at once, and kept. */
static inline void neap_window_append(struct neap_window *w, struct neap_msg *m)
{
  uint64_t seqno = w->high + 1, distance = seqno - w->low;
  NEAP_ASSERT(w->hd == w->high);
  if (distance > w->size) { /* The ring has to grow. */
    enum neap_add added = neap_window_add(w, seqno, m);
    NEAP_ASSERT(added == NEAP_ADDED);
    neap_window_next(w, true);
    return;
  }
  if (distance > w->size / 8) w->calm = 0;
  w->ring[seqno & (w->size - 1)] = m;
  w->hd = w->high = seqno;
  w->stored++;
  w->bytes += m->len;
}

/* `count` messages after hd passed by without being stored: only while nothing is stored. */
void neap_window_skip(struct neap_window *w, uint64_t count);

/* Frees everything up to `seqno` (not beyond hd, unless `force`, which also raises hd, and high
 * where `seqno` is above it: the window starts over there). */
void neap_window_purge(struct neap_window *w, uint64_t seqno, bool force);

/* Frees a sender's own up to `seqno`, which lies between low and hd without gaps, and adds up what
 * they took at the gate. */
void neap_window_release(
  struct neap_window *w, uint64_t seqno, uint64_t *bytes, uint64_t *messages);

/* End of the run without gaps that begins at hd; hd when there is none. */
uint64_t neap_window_contiguous(const struct neap_window *w);

/* The first missing seqno at or above `from`, not beyond `to`; 0 when there is none.  What is above
 * `high` is missing: with `to` an announced end the tail counts too. */
uint64_t neap_window_missing(const struct neap_window *w, uint64_t from, uint64_t to);

void neap_window_check(const struct neap_window *w);

#endif
