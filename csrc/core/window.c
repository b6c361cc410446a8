#include "core/window.h"

#include <stdlib.h>

/* 32: half a kilobyte of pointers, enough for a stream that is talked on now and then. */
enum { RING_LEAST = 32 };

static bool after(uint64_t a, uint64_t b)
{
  return (int64_t)(a - b) > 0;
}

static struct neap_msg **place(const struct neap_window *w, uint64_t seqno)
{
  return &w->ring[seqno & (w->size - 1)];
}

void neap_window_init(struct neap_window *w, uint64_t at, uint32_t max)
{
  NEAP_ASSERT(max && !(max & (max - 1)));
  *w = (struct neap_window){.low = at, .hd = at, .high = at, .max = max};
}

void neap_window_done(struct neap_window *w)
{
  neap_window_purge(w, w->high, true);
  NEAP_ASSERT(!w->stored && !w->waiting && !w->bytes);
  free(w->ring);
  w->ring = NULL;
  w->size = 0;
}

/* Moves what is stored into a ring of `size`, which has room for low .. high. */
static void resize(struct neap_window *w, uint32_t size)
{
  NEAP_ASSERT(w->high - w->low <= size);
  struct neap_msg **ring = calloc(size, sizeof *ring);
  NEAP_ASSERT(ring);
  for (uint64_t s = w->low + 1; w->size && !after(s, w->high); s++)
    ring[s & (size - 1)] = *place(w, s);
  free(w->ring);
  w->ring = ring;
  w->size = size;
}

static void grow(struct neap_window *w, uint64_t distance)
{
  uint32_t size = w->size ? w->size : RING_LEAST;
  while (size < distance) size *= 2;
  if (size > w->max) size = w->max; /* a power of two, and the distance is not above it */
  resize(w, size);
}

/* Called when low moved.  A ring of which less than an eighth was used for as many steps as it has
 * places is made smaller: a burst does not keep its memory, and steady traffic does not flap. */
static void calm_down(struct neap_window *w, uint64_t steps)
{
  if (w->high - w->low > w->size / 8) {
    w->calm = 0;
    return;
  }
  uint64_t calm = w->calm + steps;
  w->calm = calm < w->size ? (uint32_t)calm : w->size;
  if (w->calm < w->size || w->size <= RING_LEAST) return;
  w->calm = 0;
  resize(w, w->size / 4 > RING_LEAST ? w->size / 4 : RING_LEAST);
}

enum neap_add neap_window_add(struct neap_window *w, uint64_t seqno, struct neap_msg *m)
{
  NEAP_ASSERT(m);
  if (!after(seqno, w->hd)) return NEAP_OLD;
  uint64_t distance = seqno - w->low;
  if (distance > w->max) return NEAP_FAR;
  if (distance > w->size) grow(w, distance);

  struct neap_msg **at = place(w, seqno);
  if (*at) return NEAP_TWICE;
  *at = m;
  w->stored++;
  w->waiting++;
  w->bytes += m->len;
  if (after(seqno, w->high)) w->high = seqno;
  if (distance > w->size / 8) w->calm = 0;
  return NEAP_ADDED;
}

/* Takes the message out of its place, if there is one. */
static struct neap_msg *take(struct neap_window *w, uint64_t seqno)
{
  struct neap_msg **at = place(w, seqno), *m = *at;
  if (!m) return NULL;
  *at = NULL;
  w->stored--;
  w->bytes -= m->len;
  if (after(seqno, w->hd)) w->waiting--;
  return m;
}

struct neap_msg *neap_window_next(struct neap_window *w, bool keep)
{
  struct neap_msg *m = neap_window_get(w, w->hd + 1);
  if (!m) return NULL;
  if (keep) {
    w->hd++;
    w->waiting--;
    return m;
  }
  NEAP_ASSERT(w->low == w->hd); /* Nothing that was kept may fall below low unfreed. */
  take(w, w->hd + 1);
  w->low = ++w->hd;
  calm_down(w, 1);
  return m;
}

void neap_window_risen(struct neap_window *w, uint64_t count)
{
  calm_down(w, count);
}

void neap_window_extend(struct neap_window *w, uint64_t last)
{
  uint64_t distance = last - w->low;
  NEAP_ASSERT(after(last, w->high) && distance <= w->max);
  if (distance > w->size) grow(w, distance);
  if (distance > w->size / 8) w->calm = 0;
}

void neap_window_skip(struct neap_window *w, uint64_t count)
{
  NEAP_ASSERT(!w->stored);
  w->high += count;
  w->low = w->hd = w->high;
  calm_down(w, count);
}

void neap_window_release(
  struct neap_window *w, uint64_t seqno, uint64_t *bytes, uint64_t *messages)
{
  uint64_t steps = seqno - w->low, charged = 0, counted = 0, held = 0;
  uint32_t mask = w->size - 1;
  NEAP_ASSERT(!after(seqno, w->hd) && !after(w->low, seqno));
  for (uint64_t s = w->low + 1; s != seqno + 1; s++) {
    struct neap_msg *m = w->ring[s & mask];
    NEAP_ASSERT(m);
    __builtin_prefetch(w->ring[(s + 8) & mask]); /* They lie anywhere. */
    w->ring[s & mask] = NULL;
    charged += m->charge;
    counted += m->charges;
    held += m->len;
    neap_msg_free(m);
  }
  w->stored -= (uint32_t)steps;
  w->bytes -= held;
  w->low = seqno;
  *bytes += charged;
  *messages += counted;
  calm_down(w, steps);
}

void neap_window_purge(struct neap_window *w, uint64_t seqno, bool force)
{
  if (!force && after(seqno, w->hd)) seqno = w->hd;
  if (!after(seqno, w->low)) return;
  uint64_t last = after(seqno, w->high) ? w->high : seqno;
  for (uint64_t s = w->low + 1; !after(s, last); s++) {
    struct neap_msg *m = take(w, s);
    if (m) neap_msg_free(m);
  }
  uint64_t steps = seqno - w->low;
  w->low = seqno;
  if (after(seqno, w->hd)) w->hd = seqno;
  if (after(seqno, w->high)) w->high = seqno;
  calm_down(w, steps);
}

uint64_t neap_window_contiguous(const struct neap_window *w)
{
  uint64_t end = w->hd;
  while (end != w->high && *place(w, end + 1)) end++;
  return end;
}

uint64_t neap_window_missing(const struct neap_window *w, uint64_t from, uint64_t to)
{
  if (!after(from, w->hd)) from = w->hd + 1;
  for (uint64_t s = from; !after(s, to); s++)
    if (after(s, w->high) || !*place(w, s)) return s;
  return 0;
}

void neap_window_check(const struct neap_window *w)
{
  NEAP_ASSERT(!after(w->low, w->hd) && !after(w->hd, w->high));
  NEAP_ASSERT(w->high - w->low <= w->size && w->size <= w->max);
  uint32_t stored = 0, waiting = 0;
  uint64_t bytes = 0;
  for (uint64_t s = w->low + 1; !after(s, w->high); s++) {
    const struct neap_msg *m = *place(w, s);
    if (!m) continue;
    stored++;
    waiting += after(s, w->hd);
    bytes += m->len;
  }
  NEAP_ASSERT(stored == w->stored && waiting == w->waiting && bytes == w->bytes);
  /* Places outside the window are empty. */
  for (uint32_t i = 0, used = 0; i < w->size; i++) {
    used += w->ring[i] != NULL;
    NEAP_ASSERT(used <= stored);
  }
}
