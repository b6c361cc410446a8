/* The window against a model that keeps everything in plain arrays. */

#include "proof.h"

#include "core/window.h"

#include <stdlib.h>

enum { SPAN = 4096 };

struct model {
  uint64_t at, low, hd, high;
  struct neap_msg *held[SPAN]; /* by seqno - at */
};

static struct neap_msg **place(struct model *m, uint64_t seqno)
{
  NEAP_ASSERT(seqno - m->at < SPAN);
  return &m->held[seqno - m->at];
}

static struct neap_msg *msg(struct proof *p, uint64_t len)
{
  static const uint8_t body[128];
  struct neap_msg *m = neap_msg_new(p->stack);
  neap_msg_body(m, body, (uint32_t)len);
  return m;
}

static void add(struct proof *p, struct neap_window *w, struct model *model, uint64_t seqno)
{
  struct neap_msg *m = msg(p, neap_random_below(&p->world.random, 100));
  enum neap_add expected = seqno - model->at <= model->hd - model->at ? NEAP_OLD
                           : seqno - model->low > w->max              ? NEAP_FAR
                           : *place(model, seqno)                     ? NEAP_TWICE
                                                                      : NEAP_ADDED;
  NEAP_ASSERT(neap_window_add(w, seqno, m) == expected);
  if (expected != NEAP_ADDED) {
    neap_msg_free(m);
    return;
  }
  *place(model, seqno) = m;
  if (seqno - model->at > model->high - model->at) model->high = seqno;
}

static void next(struct neap_window *w, struct model *model, bool keep)
{
  struct neap_msg *m = neap_window_next(w, keep);
  struct neap_msg *expected = model->hd == model->high ? NULL : *place(model, model->hd + 1);
  NEAP_ASSERT(m == expected);
  if (!m) return;
  model->hd++;
  if (keep) return;
  *place(model, model->hd) = NULL;
  model->low = model->hd;
  neap_msg_free(m);
}

static void purge(struct neap_window *w, struct model *model, uint64_t seqno, bool force)
{
  neap_window_purge(w, seqno, force);
  if (!force && seqno - model->at > model->hd - model->at) seqno = model->hd;
  if (seqno - model->at <= model->low - model->at) return;
  for (uint64_t s = model->low + 1; s != seqno + 1; s++) *place(model, s) = NULL;
  model->low = seqno;
  if (seqno - model->at > model->hd - model->at) model->hd = seqno;
  if (seqno - model->at > model->high - model->at) model->high = seqno;
}

static void compare(struct neap_window *w, struct model *model)
{
  uint32_t stored = 0, waiting = 0;
  neap_window_check(w);
  NEAP_ASSERT(w->low == model->low && w->hd == model->hd && w->high == model->high);
  for (uint64_t s = model->at + 1; s != model->high + 1; s++) {
    stored += *place(model, s) != NULL;
    waiting += *place(model, s) && s - model->at > model->hd - model->at;
    NEAP_ASSERT(neap_window_get(w, s) == *place(model, s));
  }
  NEAP_ASSERT(!neap_window_get(w, model->low) && !neap_window_get(w, model->high + 1));
  NEAP_ASSERT(w->stored == stored && w->waiting == waiting);
  uint64_t end = model->hd, missing = model->hd + 1;
  while (end != model->high && *place(model, end + 1)) end++;
  while (missing != model->high + 1 && *place(model, missing)) missing++;
  NEAP_ASSERT(neap_window_contiguous(w) == end);
  if (missing) /* Seqno 0 cannot be told from none. */
    NEAP_ASSERT(neap_window_missing(w, model->low, model->high) ==
                (missing == model->high + 1 ? 0 : missing));
}

static void walk(uint64_t seed, uint64_t at)
{
  struct proof p;
  struct neap_window w;
  struct model *model = calloc(1, sizeof *model);
  NEAP_ASSERT(model);
  proof_open(&p, seed);
  struct neap_random *r = &p.world.random;
  *model = (struct model){.at = at, .low = at, .hd = at, .high = at};
  neap_window_init(&w, at, 1u << neap_random_below(r, 10));
  bool keep = neap_random_chance(r, 0.5);
  uint64_t spread = 1 + neap_random_below(r, 200);
  for (int step = 0; step < 300 && w.high - at < SPAN - 1500; step++) {
    uint64_t what = neap_random_below(r, 16);
    if (what < 9)
      add(&p, &w, model, w.hd + neap_random_below(r, 1 + spread));
    else if (what < 13)
      next(&w, model, keep);
    else if (what < 15)
      purge(&w, model, w.low + neap_random_below(r, 20), false);
    else
      purge(&w, model, w.low + neap_random_below(r, 30), true);
    compare(&w, model);
  }
  neap_window_done(&w);
  free(model);
  proof_close(&p);
}

/* Bursts do not keep their memory, and 1 to n come out once and in order. */
static void burst(void)
{
  struct proof p;
  struct neap_window w;
  proof_open(&p, 1);
  neap_window_init(&w, 0, 4096);
  for (uint64_t s = 4096; s; s--) NEAP_ASSERT(neap_window_add(&w, s, msg(&p, 10)) == NEAP_ADDED);
  NEAP_ASSERT(w.size == 4096 && w.bytes == 40960);
  struct neap_msg *extra = msg(&p, 1);
  NEAP_ASSERT(neap_window_add(&w, 4097, extra) == NEAP_FAR);
  neap_msg_free(neap_window_next(&w, false));
  NEAP_ASSERT(neap_window_add(&w, 4097, extra) == NEAP_ADDED);
  for (struct neap_msg *m; (m = neap_window_next(&w, false));) neap_msg_free(m);
  NEAP_ASSERT(w.hd == 4097 && !w.stored);
  for (int i = 0; i < 10000; i++) {
    neap_window_add(&w, w.high + 1, msg(&p, 1));
    neap_msg_free(neap_window_next(&w, false));
  }
  NEAP_ASSERT(w.size <= 32);
  neap_window_done(&w);
  proof_close(&p);
}

void proof_window(void)
{
  static const uint64_t starts[] = {
    0, 1, (1ull << 31) - 10, (1ull << 32) - 10, (1ull << 53) - 10, (1ull << 63) - 11, -10ull};
  for (uint64_t seed = 0; seed < 70; seed++) walk(seed, starts[seed % 7]);
  burst();

  struct proof p; /* 2, 4, .. 30, and 15 is forced: three of the eight at most 15 stay away. */
  struct neap_window w;
  proof_open(&p, 1);
  neap_window_init(&w, 0, 64);
  for (uint64_t s = 2; s <= 30; s += 2) neap_window_add(&w, s, msg(&p, 1));
  neap_window_purge(&w, 15, true);
  NEAP_ASSERT(w.low == 15 && w.hd == 15 && w.high == 30 && w.stored == 8);
  neap_window_done(&w);
  proof_close(&p);
}
