/* stable: finds out what everybody has, so that senders may free it.
 *
 * Each member tells the coordinator how far it has applied every sender (a vote).  When all members
 * of the view have voted, the coordinator multicasts for each sender the least that was applied and
 * the most that was received (STABILITY), and everybody passes that down as STABLE.  Its own vote
 * comes last, so it is fresh.
 *
 *     ann (coordinator)    bob            cho
 *       |<---- vote 7 5 3 --|              |     every `interval` on the mean, after `max_bytes` of
 *       |<---------------------- vote 6 5 3|     multicasts, or when asked to
 *       |----- STABILITY 6 5 3 ----------->|     nobody needs ann's up to 6 any more
 *
 * A sender without room cannot wait for everybody's next vote: it tells the coordinator (WANTED),
 * which starts over and asks everybody (COLLECT).  These two are our own and go to Neap members
 * only; a JGroups coordinator is sent a vote instead.
 *
 * Nothing here is reliable and all of it heals: a vote by bytes that no STABILITY follows is
 * repeated with growing pauses, a member that votes twice in a round has missed the last STABILITY
 * and gets it again, and COLLECT goes on until all have voted.  A vote never says more than the
 * digests that this member has handed out promise (HOLD, protocols 2).
 *
 * Invariant: no row of the round says more than any vote in it; a round with all votes is over. */

#include "layers/stable/stable.h"

#include "base/text.h"

#include <stdlib.h>

static const struct neap_header stable_headers[] = {
  NEAP_HEADER_ROW("stable", NEAP_P_STABLE, 56, neap_stable_head, "votes and stability"),
  NEAP_HEADER_ROW("stable", NEAP_OWN_STABLE, NEAP_OWN_STABLE, neap_stable_own_head, "rounds asked"),
  {0},
};

#define AT(member) offsetof(struct stable, member)
static const struct neap_attr stable_attrs[] = {
  {NEAP_PARAM, "interval", AT(interval), "ns", NEAP_S(20), NEAP_MS(1), NEAP_S(86400),
    .or_zero = true, .live = NEAP_TIMER,
    .doc = "Mean time between this member's votes; the next one is drawn anew. 0: by bytes only."},
  {NEAP_PARAM, "max_bytes", AT(max_bytes), "bytes", 2000000, 0, 0, .live = NEAP_NOW,
    .doc = "Multicast bytes after which this member votes at once; what was counted so far "
           "counts. 0: by time only."},
  {NEAP_PARAM, "spacing", AT(spacing), "ns", NEAP_MS(20), NEAP_MS(1), NEAP_S(10), .live = NEAP_NOW,
    .doc = "Least time between two votes, or 250 us for each member if that is less; and before a "
           "vote is repeated. From the next on."},
  {NEAP_PARAM, "hold_max", AT(hold_max), "ns", NEAP_S(200), NEAP_S(1), NEAP_S(86400),
    .live = NEAP_NOW,
    .doc = "A hold that nobody ends is given up after this, with trouble; for holds from now on."},
  {NEAP_PARAM, "suspend_max", AT(suspend_max), "ns", NEAP_S(200), NEAP_MS(1), NEAP_S(86400),
    .live = NEAP_NOW,
    .doc = "A suspension without a time of its own that nobody ends is over after this, with "
           "trouble; for those from now on."},
  {NEAP_GAUGE, "bytes", AT(bytes), "bytes", .doc = "Multicast bytes counted since the last vote."},
  {NEAP_GAUGE, "missing", AT(missing), "members",
    .doc = "At the coordinator: others that have not voted in the round that is open."},
  {NEAP_GAUGE, "holds", AT(holds), "digests", .doc = "Handed out, and votes held back for them."},
  {NEAP_GAUGE, "suspensions", AT(suspensions), "suspensions",
    .doc = "While there is one: no vote, no round, no STABILITY."},
  {NEAP_COUNTER, "votes_sent", AT(sent), "messages", .doc = "Own votes, also to oneself."},
  {NEAP_COUNTER, "votes_received", AT(received), "messages", .doc = "Votes that counted."},
  {NEAP_COUNTER, "dropped", AT(dropped), "messages",
    .doc = "Of another view, from a stranger, or not to be read."},
  {NEAP_COUNTER, "ignored", AT(ignored), "messages",
    .doc = "Votes and STABILITY that came while it was suspended."},
  {NEAP_COUNTER, "repeated", AT(repeated), "messages",
    .doc = "Second votes in a round, answered with the last STABILITY."},
  {NEAP_COUNTER, "rounds", AT(rounds), "rounds", .doc = "Concluded here, as coordinator."},
  {NEAP_COUNTER, "stabilities", AT(heard), "messages", .doc = "STABILITY that came and counted."},
  {NEAP_COUNTER, "wanted", AT(asked), "rounds", .doc = "Asked for: room ran out, or by hand."},
  {NEAP_COUNTER, "expired", AT(expired), "holds",
    .doc = "Holds and suspensions that nobody ended in time."},
  {NEAP_COUNTER, "incomplete", AT(incomplete), "digests",
    .doc = "Lacked a member twice; that vote was left out."},
  {NEAP_END},
};

static int gossip_now(struct neap_layer *layer, const char *argument, char *out)
{
  struct stable *s = (struct stable *)layer;
  (void)argument;
  *out = 0;
  if (!s->view) return NEAP_NOT_JOINED;
  neap_stable_want(s, ROUND);
  return 0;
}

static int suspend(struct neap_layer *layer, const char *argument, char *out)
{
  struct stable *s = (struct stable *)layer;
  uint64_t time = 0;
  if (*argument && neap_quantity_parse(argument, "ns", &time, out, NEAP_OP_TEXT) < 0)
    return NEAP_REFUSED;
  neap_stable_suspend(s, NULL, 0, time);
  return 0;
}

static int resume(struct neap_layer *layer, const char *argument, char *out)
{
  (void)argument;
  (void)out;
  neap_stable_resume((struct stable *)layer, NULL, 0);
  return 0;
}

static const struct neap_op stable_ops[] = {
  {"gossip_now", "Asks for a round of votes now.", gossip_now},
  {"held_back_by",
    "Who keeps this member from freeing what it sent, and for how long; at the "
    "coordinator, who keeps anybody. One on a line.",
    neap_stable_held_back_by},
  {"suspend",
    "No votes, no rounds, nothing freed in nak mode, for a time such as 30s; without one "
    "for suspend_max.",
    suspend},
  {"resume", "Ends what `suspend` began; what was due follows at once.", resume},
  {0},
};

/* ---- what others say ---- */

static void take_vote(struct stable *s, const struct neap_msg *m, int rank)
{
  if (!neap_stable_coordinator(s) || rank < 1 || !neap_stable_read(s, m)) {
    s->dropped++;
  } else if (s->voted[rank]) {
    s->repeated++;
    if (s->concluded) neap_stable_send(s, m->from, NEAP_STABLE_STABILITY, s->last);
  } else {
    neap_stable_count(s, (uint32_t)rank);
  }
}

static void take_stability(struct stable *s, const struct neap_msg *m, int rank)
{
  if (m->from == neap_self(&s->layer)) return;
  if (rank < 0 || !neap_stable_read(s, m)) {
    s->dropped++;
    return;
  }
  s->heard++;
  neap_stable_conclude(s, s->read);
}

static void take(struct stable *s, const struct neap_msg *m)
{
  const struct neap_stable_head *head = neap_stable_head_get(m, &s->layer);
  const struct neap_stable_own_head *own = neap_stable_own_head_get(m, &s->layer);
  int rank = neap_rank(s->view, m->from);
  if (!neap_stable_my_view(s, head ? head->view : own->view)) {
    s->dropped++;
  } else if (head && neap_stable_suspended(s)) {
    s->ignored++;
    s->unheard = true;
  } else if (head && head->type == NEAP_STABLE_VOTE) {
    take_vote(s, m, rank);
  } else if (head && head->type == NEAP_STABLE_STABILITY) {
    take_stability(s, m, rank);
  } else if (own && own->type == NEAP_STABLE_WANTED && rank > 0 && neap_stable_coordinator(s)) {
    neap_stable_want(s, ROUND);
  } else if (own && own->type == NEAP_STABLE_COLLECT && rank == 0 && !neap_stable_coordinator(s)) {
    neap_stable_vote_soon(s, &s->answer);
  } else {
    s->dropped++;
  }
}

/* ---- life ---- */

static void new_view(struct stable *s, struct neap_view *view)
{
  neap_stable_arrays(s, view);
  s->concluded = false;
  neap_stable_reset(s);
  for (uint32_t i = 0; i < view->count; i++) s->seen[i] = neap_now(&s->layer) + 1;
  bool again = s->repeating;
  s->repeating = false;
  neap_timer_stop(&s->vote);
  neap_timer_stop(&s->answer);
  if (again) neap_stable_vote_soon(s, &s->vote);
  if (s->want != NOTHING) neap_timer_sooner(&s->layer, &s->wanted, neap_stable_spaced(s, 0));
  neap_stable_speak_up(s); /* A member of JGroups may have left. */
}

static int stable_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct stable *s = (struct stable *)layer;
  (void)trail;
  neap_timer_init_background(layer, &s->tick, neap_stable_tick_due);
  neap_timer_init_background(layer, &s->vote, neap_stable_vote_due);
  neap_timer_init_background(layer, &s->hold, neap_stable_hold_due);
  neap_timer_init(layer, &s->answer, neap_stable_vote_due); /* Somebody waits for it. */
  neap_timer_init(layer, &s->wanted, neap_stable_want_due);
  neap_stable_tick_start(s);
  return 0;
}

static void count_bytes(struct stable *s, uint64_t bytes)
{
  s->bytes += bytes;
  if (s->max_bytes && s->bytes >= s->max_bytes && !s->repeating) neap_stable_vote_soon(s, &s->vote);
}

static void stable_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct stable *s = (struct stable *)layer;
  uint64_t bytes = 0;
  for (const struct neap_msg *m = batch->first->to ? NULL : batch->first; m; m = m->next)
    if (m->marks & NEAP_NO_LOOPBACK) bytes += m->len; /* These do not come up again. */
  neap_pass_down(layer, batch);
  if (bytes) count_bytes(s, bytes);
}

static void stable_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct stable *s = (struct stable *)layer;
  struct neap_batch out = {0};
  struct neap_msg *m;
  uint64_t bytes = batch->first && !batch->first->to ? batch->bytes : 0;
  bool ours = neap_batch_has(batch, layer, 0) || neap_batch_has(batch, layer, 1);

  while (ours && (m = neap_take(batch))) {
    if (!neap_stable_head_get(m, layer) && !neap_stable_own_head_get(m, layer)) {
      neap_put(&out, m);
      continue;
    }
    take(s, m);
    neap_msg_free(m);
  }
  neap_pass_up(layer, ours ? &out : batch);
  if (bytes) count_bytes(s, bytes);
}

static enum neap_verdict stable_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct stable *s = (struct stable *)layer;
  (void)up;
  switch (event->kind) {
  case NEAP_EVENT_VIEW:
    if (s->view != event->view) new_view(s, event->view);
    return NEAP_PASS;
  case NEAP_EVENT_DIGEST_GET:
    if (!event->answered) return NEAP_PASS; /* Somebody else's. */
    neap_stable_digest(s, event);
    return NEAP_STOP;
  case NEAP_EVENT_STABLE_WANTED:
    neap_stable_want(s, ROOM);
    return NEAP_STOP;
  case NEAP_EVENT_HOLD:
    neap_stable_hold(s, event);
    return NEAP_PASS;
  case NEAP_EVENT_RELEASE:
    neap_stable_release(s, event);
    return NEAP_PASS;
  case NEAP_EVENT_STABLE_SUSPEND:
    neap_stable_suspend(s, event->origin, event->number, event->time);
    return NEAP_STOP;
  case NEAP_EVENT_STABLE_RESUME:
    neap_stable_resume(s, event->origin, event->number);
    return NEAP_STOP;
  case NEAP_EVENT_HELD_BACK:
    if (!event->answered) return NEAP_PASS;
    neap_stable_laggards(s, event);
    return NEAP_STOP;
  default:
    return NEAP_PASS;
  }
}

static void stable_changed(struct neap_layer *layer, const struct neap_attr *attr)
{
  struct stable *s = (struct stable *)layer;
  if (attr->at == AT(interval)) neap_stable_tick_start(s);
  if (attr->at == AT(max_bytes)) count_bytes(s, 0);
  if (s->max_bytes || !s->repeating) return;
  s->repeating = false; /* Off: nor is the vote repeated that bytes brought about. */
  neap_timer_stop(&s->vote);
}

/* Before held_back_by. */
static void stable_ask(struct neap_layer *layer, const struct neap_op *op)
{
  if (op->run == neap_stable_held_back_by) neap_stable_ask_others(layer);
}

static void stable_close(struct neap_layer *layer)
{
  struct stable *s = (struct stable *)layer;
  neap_timer_stop(&s->tick);
  neap_timer_stop(&s->vote);
  neap_timer_stop(&s->answer);
  neap_timer_stop(&s->wanted);
  neap_stable_holds_close(s);
  neap_stable_forget_laggards(s);
  neap_stable_arrays(s, NULL);
}

static void stable_check(const struct neap_layer *layer)
{
  const struct stable *s = (const struct stable *)layer;
  uint32_t votes = 0, holds = 0, suspensions = 0, count = neap_stable_members(s);
  for (uint32_t i = 0; i < count; i++) votes += s->voted[i] != 0;
  for (const struct hold *h = s->first; h; h = h->next) {
    holds += !h->suspends;
    suspensions += h->suspends;
  }
  NEAP_ASSERT(votes == s->votes && holds == s->holds && suspensions == s->suspensions);
  NEAP_ASSERT(!count || votes < count); /* With all votes it is over. */
  NEAP_ASSERT(!s->votes || (!s->voted[0] && s->missing == count - 1 - votes));
  NEAP_ASSERT(!s->repeating || s->vote.armed);
  NEAP_ASSERT(s->want == NOTHING || !s->view || s->wanted.armed || neap_stable_suspended(s));
  NEAP_ASSERT(!s->first || s->hold.armed);
}

const struct neap_class neap_stable = {
  .name = "stable",
  .doc = "Finds out what everybody has, so that senders may free it.",
  .needs = "multicast unicast digest",
  .hears = "view",
  .gives = "stable(interval!=0) stable(max_bytes!=0)",
  .size = sizeof(struct stable),
  .headers = stable_headers,
  .attrs = stable_attrs,
  .ops = stable_ops,
  .open = stable_open,
  .down = stable_down,
  .up = stable_up,
  .unseen = NEAP_UNSEEN_RISING_ONE | NEAP_UNSEEN_FALLING_ONE,
  .event = stable_event,
  .ask = stable_ask,
  .changed = stable_changed,
  .close = stable_close,
  .check = stable_check,
};
