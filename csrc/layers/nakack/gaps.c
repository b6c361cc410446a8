/* gaps: what is missing is asked for, not too early, not too often.
 *
 *          hd      asked        seen            told
 *     ------|--[ ]--[ ]--|---[ ]--[ ]--|---[ ][ ]|
 *              `again`:       `gap`:       wait for the next `gap`
 *              asked before   first time
 *
 * A hole may be a message that was overtaken: the first request waits for gap_delay and a random
 * part that grows with the group.  The next ones wait for two round trips at least, then longer and
 * longer; what was asked for at one time is a round, which is repeated for itself.
 * gap_delay = "tick" is the rule of the reference instead: each xmit_interval everything that was
 * missing at the tick before is asked for.
 *
 * A request lists seqnos (core/seqnos.h); it goes to the sender, which answers (resend.c) or says
 * that they are gone.  A hole that cannot be filled stops its stream: skipping is not ours to
 * decide.
 *
 * Invariant: while something is missing one of the two timers runs, or the stream waits for room
 * or is stopped, or nothing is to be asked for (xmit_interval = 0). */

#include "layers/nakack/nakack.h"

#define TICK UINT64_MAX

/* 10 ms: more than any local network takes; 2 ms: less is lost in the noise of busy machines. */
#define REPEAT_UNKNOWN NEAP_MS(10)
#define REPEAT_LEAST NEAP_MS(2)
#define SPREAD_MOST NEAP_MS(10)
/* 64 times gap_delay, and back by half after 8 answers that were needed: guesses. */
enum { PATIENCE_MOST = 6, USEFUL = 8 };

/* ---- requests ---- */

/* All members hear it, and whoever lacks the same need not ask. */
static bool ask_all(const struct nakack *n)
{
  if (!n->layer.view) return false;
  if (n->use_mcast_xmit_req != NAKACK_ASK_AUTO) return n->use_mcast_xmit_req == NAKACK_ASK_ALL;
  return n->all_ours && n->layer.view->count >= NAKACK_CROWD;
}

/* The sender, or any member, which may have a copy.  Each request goes to another one. */
static struct neap_peer *whom(struct nakack *n, const struct stream *s)
{
  const struct neap_view *view = n->layer.view;
  if (!n->xmit_from_random_member || !view) return s->peer;
  struct neap_peer *any = view->members[neap_chance_below(&n->layer, view->count)];
  return any->self || !any->generation ? s->peer : any;
}

static uint64_t request(struct nakack *n, struct stream *s, uint64_t from, uint64_t to)
{
  struct neap_peer *to_whom = ask_all(n) ? NULL : whom(n, s);
  struct neap_msg *m = neap_msg_own(&n->layer, to_whom, NEAP_OOB | NEAP_NO_FC);
  *neap_nak_head_put_form(m, &n->layer, nakack_form(s->mode)) =
    (struct neap_nak_head){.type = NEAP_NAK_XMIT_REQ, .sender = s->peer->addr};
  uint64_t last = neap_seqnos_ask(m, &s->win, from, to, (uint32_t)n->list_max);
  struct neap_seqnos it;
  uint64_t seqno;
  uint32_t count = 0;
  if (neap_seqnos_of(&it, m))
    while (neap_seqnos_next(&it, &seqno)) count++;
  n->asked += count;
  s->open += count;
  n->reqs_sent++;
  neap_pass_down_msg(&n->layer, m);
  return last;
}

/* How many are missing in from .. to, `most` at most; *end: the last of these, or `to`. */
static uint32_t missing_in(const struct stream *s, uint64_t from, uint64_t *end, uint32_t most)
{
  uint64_t to = *end, last = from - 1;
  uint32_t count = 0;
  for (; !nakack_after(from, to); from = last + 1) {
    uint64_t next = neap_window_missing(&s->win, from, to);
    if (!next) return count;
    if (count == most) break;
    last = next;
    count++;
  }
  if (!nakack_after(from, to)) *end = last;
  return count;
}

/* Asks for what is missing in from .. to, oldest first; returns how far it came. */
static uint64_t ask(struct nakack *n, struct stream *s, uint64_t from, uint64_t to)
{
  missing_in(s, from, &to, s->most > s->open ? s->most - s->open : 0);
  for (unsigned round = 0; round < NAKACK_ROUND; round++) {
    if (nakack_after(from, to) || !neap_window_missing(&s->win, from, to)) return to;
    from = request(n, s, from, to) + 1;
  }
  return from - 1;
}

/* ---- when ---- */

/* The random part.  Where all hear who asks, one is enough, so the others should still be waiting:
 * the largest of several draws, which is early for few (of 64 members one or two ask). */
static uint64_t spread_of(struct nakack *n, uint64_t most)
{
  uint64_t spread = neap_chance_below(&n->layer, most);
  for (uint32_t left = ask_all(n) ? n->layer.view->count : 0; left > 3; left /= 4)
    spread = nakack_most(spread, neap_chance_below(&n->layer, most));
  return spread;
}

static uint64_t first_delay(struct nakack *n, const struct stream *s, bool soon)
{
  uint64_t delay = n->gap_delay, members = n->layer.view ? n->layer.view->count : 1;
  uint64_t most = nakack_least(delay / 8 * members, SPREAD_MOST);
  delay = nakack_least(delay << s->patience, nakack_most(delay, n->xmit_interval));
  return (soon ? 0 : delay) + spread_of(n, most);
}

static uint64_t repeat_delay(const struct nakack *n, const struct stream *s)
{
  uint64_t delay = s->rtt ? nakack_most(2 * s->rtt, REPEAT_LEAST) : REPEAT_UNKNOWN;
  return nakack_least(delay << s->eager, n->xmit_interval);
}

/* Holes in from .. to are asked for now.  Where there are too many rounds it joins the last one. */
static void round_add(struct nakack *n, struct stream *s, struct round r)
{
  r.due = neap_now(&n->layer) + r.pause;
  if (s->round_count == NAKACK_ROUNDS) {
    const struct round *last = &s->rounds[--s->round_count];
    if (nakack_after(r.from, last->from)) r.from = last->from;
    r.to = nakack_most(r.to, last->to);
    r.due = nakack_least(r.due, last->due);
    r.count += last->count;
  }
  s->rounds[s->round_count++] = r;
}

/* Answers are lost like anything else where there is not enough room on the way.  Asked for all at
 * once they would take it from each other for good: half as many next time if less than half of
 * them came, twice as many if all did. */
static void adapt(struct stream *s, uint32_t hoped, uint32_t came)
{
  if (came < hoped / 2)
    s->most = s->most > 1 ? s->most / 2 : 1;
  else if (came >= hoped && s->most < NAKACK_OPEN)
    s->most *= 2;
}

/* The round that is due first; those of which everything has come are over. */
static struct round *round_next(struct stream *s)
{
  struct round *first = NULL;
  for (uint32_t i = 0; i < s->round_count; i++) {
    struct round *r = &s->rounds[i];
    if (!neap_window_missing(&s->win, r->from, r->to)) {
      if (r->count) adapt(s, r->count, r->count);
      s->rounds[i--] = s->rounds[--s->round_count];
    } else if (!first || r->due < first->due) {
      first = r;
    }
  }
  return first;
}

static void repeat_later(struct nakack *n, struct stream *s)
{
  uint64_t now = neap_now(&n->layer);
  const struct round *r = round_next(s);
  if (r) neap_timer_start(&n->layer, &s->again, r->due > now ? r->due - now : 0);
}

static void rounds_end(struct stream *s)
{
  s->round_count = s->open = 0;
  neap_timer_stop(&s->again);
}

/* Of what is missing, the part that there would be room for. */
static uint64_t in_reach(const struct nakack *n, const struct stream *s)
{
  uint64_t most = s->win.hd + 2 * n->window_messages;
  return nakack_after(s->told, most) ? most : s->told;
}

/* Sees to it that what is missing is asked for. */
void nakack_watch(struct nakack *n, struct stream *s, bool soon)
{
  uint64_t reach = in_reach(n, s);
  if (!nakack_lacks(s) || s->stopped || s->full || !n->xmit_interval) return;
  if (n->gap_delay == TICK) {
    if (!s->gap.armed) neap_timer_start(&n->layer, &s->gap, n->xmit_interval);
  } else if (nakack_after(reach, s->asked) && s->open < s->most) {
    if (s->gap.armed && !soon) return; /* What is new waits for the next round. */
    s->seen = reach;
    neap_timer_sooner(&n->layer, &s->gap, first_delay(n, s, soon));
  } else if (!s->again.armed && !s->gap.armed) {
    struct round r = {
      s->win.hd + 1, nakack_most(s->asked, s->win.hd + 1), repeat_delay(n, s), 0, 0};
    if (!round_next(s)) round_add(n, s, r);
    repeat_later(n, s);
  }
}

/* One hole at a time is measured, from its being noticed to its being filled. */
static void measure(struct nakack *n, struct stream *s, uint64_t seqno)
{
  uint64_t from = nakack_after(s->told, s->win.hd) ? s->told : s->win.hd;
  if (s->hole_at || !nakack_after(seqno, from)) return;
  s->hole = neap_window_missing(&s->win, from + 1, seqno);
  if (s->hole) s->hole_at = neap_now(&n->layer);
}

void nakack_filled(struct nakack *n, struct stream *s)
{
  if (nakack_after(s->hole, s->win.hd) && !neap_window_get(&s->win, s->hole)) return;
  uint64_t took = neap_now(&n->layer) - s->hole_at;
  n->repair_time = n->repair_time ? (7 * n->repair_time + took) / 8 : took;
  s->hole_at = 0;
}

void nakack_notice(struct nakack *n, struct stream *s, uint64_t seqno, bool soon)
{
  uint64_t most = s->win.low + NAKACK_WINDOW_MAX; /* Nobody can have more out. */
  if (nakack_after(seqno, most)) seqno = most;
  measure(n, s, seqno);
  if (nakack_after(seqno, s->told)) s->told = seqno;
  if (NEAP_IS_MUTANT(302)) return;
  /* The rule of the reference asks for the announced seqno at once; the holes before it show
   * then. */
  bool may = !s->stopped && !s->full && n->xmit_interval;
  if (soon && n->gap_delay == TICK && nakack_after(seqno, s->win.high) && may)
    request(n, s, seqno, seqno);
  nakack_watch(n, s, soon);
}

void nakack_moved(struct nakack *n, struct stream *s)
{
  if (nakack_lacks(s)) {
    nakack_watch(n, s, false);
    return;
  }
  neap_timer_stop(&s->gap);
  rounds_end(s);
}

/* ---- rounds ---- */

/* Measures a round trip by the first seqno of a request that is not a repeat. */
static void probe(struct nakack *n, struct stream *s, uint64_t seqno)
{
  if (s->probe_at) return;
  s->probe = seqno;
  s->probe_at = neap_now(&n->layer);
}

static void tick(struct nakack *n, struct stream *s)
{
  rounds_end(s); /* Each tick asks for all anew. */
  if (nakack_after(s->seen, s->win.hd)) ask(n, s, s->win.hd + 1, s->seen);
  s->seen = in_reach(n, s);
}

static void first_round(struct nakack *n, struct stream *s)
{
  uint64_t from = nakack_after(s->asked, s->win.hd) ? s->asked + 1 : s->win.hd + 1;
  if (nakack_after(from, s->seen)) return;
  uint64_t first = neap_window_missing(&s->win, from, s->seen);
  if (!s->again.armed) rounds_end(s);
  uint32_t before = s->open;
  s->asked = ask(n, s, from, s->seen);
  if (!first) return;
  probe(n, s, first);
  round_add(n, s, (struct round){from, s->asked, repeat_delay(n, s), 0, s->open - before});
  repeat_later(n, s);
}

void nakack_gap_fire(struct neap_layer *layer, struct neap_timer *timer)
{
  struct nakack *n = (struct nakack *)layer;
  struct stream *s = NEAP_HOLDER(timer, struct stream, gap);
  if (n->gap_delay == TICK)
    tick(n, s);
  else
    first_round(n, s);
  nakack_watch(n, s, false);
}

/* The round trip is known: what would have waited longer waits for two of them. */
static void hurry(struct nakack *n, struct stream *s)
{
  uint64_t pause = repeat_delay(n, s);
  for (uint32_t i = 0; i < s->round_count; i++)
    s->rounds[i].due = nakack_least(s->rounds[i].due, neap_now(&n->layer) + pause);
  repeat_later(n, s);
}

/* What is missing of a round is asked for again, as a round of its own; what that does not cover
 * waits for another.  Longer and longer while nothing comes. */
static void repeat(struct nakack *n, struct stream *s, struct round r)
{
  uint64_t end = r.to;
  r.from = nakack_most(r.from, s->win.hd + 1);
  uint32_t missing = missing_in(s, r.from, &end, NAKACK_OPEN);
  uint32_t came = r.count > missing ? r.count - missing : 0;
  if (r.count) adapt(s, r.count, came);
  r.pause = r.count && !came ? nakack_least(2 * r.pause, n->xmit_interval) : repeat_delay(n, s);
  s->open -= s->open < missing ? s->open : missing;
  /* An answer could be to either request. */
  if (!nakack_after(s->probe, r.to) && !nakack_after(r.from, s->probe)) s->probe_at = 0;
  uint32_t before = s->open;
  uint64_t last = ask(n, s, r.from, r.to);
  if (nakack_after(r.to, last)) round_add(n, s, (struct round){last + 1, r.to, r.pause, 0, 0});
  r.to = last;
  r.count = s->open - before;
  if (r.count) round_add(n, s, r);
}

void nakack_again_fire(struct neap_layer *layer, struct neap_timer *timer)
{
  struct nakack *n = (struct nakack *)layer;
  struct stream *s = NEAP_HOLDER(timer, struct stream, again);
  if (!n->xmit_interval) return;
  struct round *next = round_next(s);
  if (n->gap_delay != TICK && next) { /* It could be set meanwhile, and has its own rounds. */
    struct round r = *next;
    *next = s->rounds[--s->round_count];
    s->twice = false;
    repeat(n, s, r);
    repeat_later(n, s);
  }
  nakack_watch(n, s, false);
}

/* Everything that is missing, by the rules of a round but now. */
void nakack_ask_now(struct nakack *n, struct stream *s)
{
  if (!nakack_lacks(s) || s->stopped || s->full) return;
  if (n->gap_delay == TICK) {
    tick(n, s);
  } else {
    rounds_end(s);
    s->asked = s->win.hd;
    s->most = NAKACK_OPEN;
    s->seen = in_reach(n, s);
    s->probe_at = 0;
    first_round(n, s);
  }
  nakack_watch(n, s, false);
}

void nakack_resume(struct nakack *n)
{
  struct stream *s;
  neap_each_peer (&n->layer, s) {
    if (!s->known || s == n->own) continue;
    if (n->xmit_interval) {
      nakack_watch(n, s, false);
      continue;
    }
    neap_timer_stop(&s->gap);
    neap_timer_stop(&s->again);
  }
  nakack_tail_anew(n);
}

/* ---- what comes of it ---- */

void nakack_mended(struct nakack *n, struct stream *s, uint64_t seqno)
{
  n->repaired++;
  s->mended[seqno % NAKACK_MENDED] = seqno;
  if (s->patience && ++s->useful >= USEFUL) {
    s->patience--;
    s->useful = 0;
  }
  if (s->eager && ++s->calm >= USEFUL) {
    s->eager--;
    s->calm = 0;
  }
  if (!s->probe_at || s->probe != seqno) return;
  uint64_t took = neap_now(&n->layer) - s->probe_at;
  bool first = !s->rtt;
  s->rtt = s->rtt ? (7 * s->rtt + took) / 8 : nakack_most(took, 1);
  s->probe_at = 0;
  if (first) hurry(n, s);
}

/* The answer was needless if the original came as well, before it or after. */
void nakack_twice(struct nakack *n, struct stream *s, uint64_t seqno, bool again)
{
  bool mended = s->mended[seqno % NAKACK_MENDED] == seqno;
  n->duplicates++;
  if (again && mended && !s->twice) { /* Asked for again while the answer was on its way. */
    s->twice = true;
    s->calm = 0;
    if (s->eager < PATIENCE_MOST) s->eager++;
  }
  if (again == mended) return; /* Not both ways: two answers, or the wire doubled it. */
  n->needless++;
  s->useful = 0;
  if (s->patience < PATIENCE_MOST) s->patience++;
}

/* Whoever asked from everybody asked for us too: ours counts as sent. */
void nakack_overheard(struct nakack *n, struct stream *s, uint64_t from, uint64_t to)
{
  uint64_t first = neap_window_missing(&s->win, s->win.hd + 1, s->seen);
  if (!s->gap.armed || n->gap_delay == TICK || !first) return;
  if (nakack_after(from, first) || neap_window_missing(&s->win, to + 1, s->seen)) return;
  neap_timer_stop(&s->gap);
  round_add(n, s, (struct round){first, s->seen, repeat_delay(n, s), 0, 0});
  s->asked = s->seen;
  n->spared++;
  nakack_watch(n, s, false);
}

void nakack_gone(struct nakack *n, struct stream *s, uint64_t low)
{
  n->purged_received++;
  if (s->stopped || !nakack_after(low, s->win.hd)) return;
  s->stopped = true;
  neap_timer_stop(&s->gap);
  neap_timer_stop(&s->again);
  if (n->awaits) return; /* Another state may bring it. */
  char name[NEAP_ADDR_TEXT];
  neap_trouble(&n->layer, s->peer, "%.32s no longer has %llu..%llu of its stream",
    neap_peer_text(s->peer, name), (unsigned long long)(s->win.hd + 1), (unsigned long long)low);
}
