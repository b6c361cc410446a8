/* fifo: multicasts of one sender come out in the order they went in.
 *
 * Going down, each multicast gets the next number.  Coming up, one that is early waits in a slot
 * until those before it have come.  Nobody is asked to send again: a gap that stays open longer
 * than `patience`, or that the sender is `window` past, is given up.
 *
 *     next = 4, then 7, 5 and 4 arrive:   [4][5][ ][7]   4 and 5 rise, 7 waits
 *
 * Who joins late meets a large number first: the gap before it is given up like any other.
 *
 * Invariant: slot[next] is empty between turns.  What can rise has risen. */

#include "core/headers.h"
#include "core/layer.h"

enum { SLOTS = 256 };

static const struct neap_header fifo_headers[] = {
  NEAP_HEADER_ROW("fifo", NEAP_OWN_FIFO, NEAP_OWN_FIFO, neap_fifo_head, "place in order"),
  {0},
};
NEAP_ADOPT(neap_fifo_head, 0);

struct peer {
  uint64_t next;
  struct neap_msg *slot[SLOTS];
};

struct fifo {
  struct neap_layer layer;
  uint64_t window, patience;     /* params */
  uint64_t held, skipped, stale; /* metrics */
  uint64_t next_down;
  struct neap_timer gap;
};

#define AT(member) offsetof(struct fifo, member)
static const struct neap_attr fifo_attrs[] = {
  {NEAP_PARAM, "window", AT(window), "messages", 64, 1, SLOTS, .live = NEAP_NOW,
    .doc = "How far a sender may run ahead of a gap; what waits further ahead stays."},
  {NEAP_PARAM, "patience", AT(patience), "ns", NEAP_MS(50), NEAP_MS(1), NEAP_S(60),
    .live = NEAP_NOW, .doc = "How long a gap may stay open before it is given up, from the next."},
  {NEAP_GAUGE, "held", AT(held), "messages", .doc = "Waiting behind a gap right now."},
  {NEAP_COUNTER, "skipped", AT(skipped), "messages", .doc = "Never came; given up on."},
  {NEAP_COUNTER, "stale", AT(stale), "messages", .doc = "Twice, or too late."},
  {NEAP_END},
};

static void release(struct fifo *f, struct peer *p, struct neap_batch *out)
{
  struct neap_msg *m;
  while ((m = p->slot[p->next % SLOTS])) {
    p->slot[p->next++ % SLOTS] = NULL;
    f->held--;
    neap_put(out, m);
  }
}

static void store(struct fifo *f, struct peer *p, struct neap_msg *m, uint64_t seq)
{
  struct neap_msg **slot = &p->slot[seq % SLOTS];
  if (*slot) {
    f->stale++;
    neap_msg_free(m);
  } else {
    f->held++;
    *slot = m;
  }
}

/* Whatever is missing before `seq` is given up; what waits there rises. */
static void give_up(struct fifo *f, struct peer *p, uint64_t seq, struct neap_batch *out)
{
  for (unsigned s = 0; s < SLOTS && p->next != seq; s++) {
    release(f, p, out);
    if (p->next == seq) return;
    p->next++;
    f->skipped++;
  }
  f->skipped += seq - p->next; /* Further ahead than there are slots: nobody waits there. */
  p->next = seq;
}

static void skip_gaps(struct neap_layer *layer, struct neap_timer *timer)
{
  struct fifo *f = NEAP_HOLDER(timer, struct fifo, gap);
  struct neap_batch out = {0};

  struct peer *p;
  neap_each_peer (layer, p) {
    unsigned gap = 0;
    while (gap < SLOTS && !p->slot[(p->next + gap) % SLOTS]) gap++;
    if (gap == SLOTS) continue; /* nobody waits here */
    give_up(f, p, p->next + gap, &out);
    release(f, p, &out);
  }
  neap_pass_up(layer, &out);
  if (f->held) neap_timer_start(layer, &f->gap, f->patience);
}

static int fifo_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct fifo *f = (struct fifo *)layer;
  (void)trail;
  neap_timer_init(layer, &f->gap, skip_gaps);
  return 0;
}

static void fifo_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct fifo *f = (struct fifo *)layer;
  for (struct neap_msg *m = batch->first; m; m = m->next)
    if (!m->to) *neap_fifo_head_put(m, layer) = (struct neap_fifo_head){.seq = f->next_down++};
  neap_pass_down(layer, batch);
}

static void fifo_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct fifo *f = (struct fifo *)layer;
  struct neap_batch out = {0};
  struct neap_msg *m;

  while ((m = neap_take(batch))) {
    struct peer *p = neap_peer_state(layer, m->from); /* also for one outside the view */
    const struct neap_fifo_head *head = neap_fifo_head_get(m, layer);

    if (!head) {
      neap_put(&out, m); /* not one of ours: it passes */
    } else if (head->seq < p->next) {
      f->stale++;
      neap_msg_free(m);
    } else {
      if (head->seq - p->next >= f->window) give_up(f, p, head->seq - f->window + 1, &out);
      store(f, p, m, head->seq);
      release(f, p, &out);
    }
  }
  neap_pass_up(layer, &out);
  if (f->held && !f->gap.armed) neap_timer_start(layer, &f->gap, f->patience);
}

static void fifo_close(struct neap_layer *layer)
{
  struct fifo *f = (struct fifo *)layer;
  neap_timer_stop(&f->gap);
}

/* A member left, or the layer closes: what waits for its gap goes with it. */
static void fifo_peer_gone(struct neap_layer *layer, struct neap_peer *peer, void *state)
{
  struct fifo *f = (struct fifo *)layer;
  struct peer *p = state;
  (void)peer;
  for (unsigned s = 0; s < SLOTS; s++) {
    if (!p->slot[s]) continue;
    f->held--;
    neap_msg_free(p->slot[s]);
  }
}

static void fifo_check(const struct neap_layer *layer)
{
  const struct fifo *f = (const struct fifo *)layer;
  uint64_t held = 0;
  const struct peer *p;
  neap_each_peer (layer, p) {
    NEAP_ASSERT(!p->slot[p->next % SLOTS]);
    for (unsigned s = 0; s < SLOTS; s++) held += p->slot[s] != NULL;
  }
  NEAP_ASSERT(held == f->held);
  NEAP_ASSERT(!held || f->gap.armed);
}

const struct neap_class neap_fifo = {
  .name = "fifo",
  .doc = "Multicasts of one sender come out in the order they went in.",
  .needs = "multicast",
  .gives = "mcast_fifo",
  .breaks = "jgroups5",
  .size = sizeof(struct fifo),
  .peer_size = sizeof(struct peer), /* zeroed for each member, found by its slot */
  .peer_gone = fifo_peer_gone,
  .headers = fifo_headers, /* protocol id, class id, fields */
  .attrs = fifo_attrs,
  .open = fifo_open,
  .down = fifo_down,
  .up = fifo_up,
  .close = fifo_close,
  .check = fifo_check,
};
