/* stable's votes: when this member votes and what it says, rounds, and rounds on demand. */

#include "layers/stable/stable.h"

/* Votes by bytes are told apart by rank, so that the coordinator is not hit by all at once. */
#define RANK_DELAY NEAP_US(50)
/* Time between two votes for each member of the view, `spacing` at most. */
#define MEMBER_SPACING NEAP_US(250)
/* Pauses between repeats double from `spacing` up to these: of votes, and of requests for a round
 * while there is no room because somebody is slow. */
#define PAUSE_MAX NEAP_S(10)
#define WANT_PAUSE_MAX NEAP_S(1)

static bool later(uint64_t a, uint64_t b)
{
  return (int64_t)(a - b) > 0;
}

/* ---- rounds ---- */

void neap_stable_ask(struct stable *s)
{
  if (s->asking || !s->view) return;
  s->asking = true;
  struct neap_event get = {.kind = NEAP_EVENT_DIGEST_GET};
  neap_ask_down(&s->layer, &get);
}

void neap_stable_reset(struct stable *s)
{
  for (uint32_t i = 0; i < neap_stable_members(s); i++) s->voted[i] = 0;
  s->votes = 0;
  s->missing = 0;
  s->collecting = false;
}

static void want_again(struct stable *s)
{
  neap_timer_start(&s->layer, &s->wanted, s->want_pause);
  s->want_pause = s->want_pause * 2 < WANT_PAUSE_MAX ? s->want_pause * 2 : WANT_PAUSE_MAX;
}

/* What everybody has is known: `rows` by rank.  Tells those below, and ends what waited for it. */
void neap_stable_conclude(struct stable *s, const struct row *rows)
{
  struct neap_event stable = {
    .kind = NEAP_EVENT_STABLE, .digest = neap_digest_new(neap_stable_members(s))};
  for (uint32_t i = 0; i < neap_stable_members(s); i++)
    neap_digest_add(stable.digest,
      (struct neap_digest_row){
        .peer = s->view->members[i], .delivered = rows[i].low, .received = rows[i].high});
  neap_event_down(&s->layer, &stable);

  s->bytes = 0;
  s->repeating = false;
  neap_timer_stop(&s->vote);
  neap_timer_stop(&s->answer);
  int rank = neap_rank(s->view, neap_self(&s->layer));
  uint64_t own = rank < 0 ? s->own_stable : rows[rank].low;
  bool room = own != s->own_stable || !later(s->sent_high, own);
  s->own_stable = own;
  if (s->want == ROUND || (s->want == ROOM && room)) {
    s->want = NOTHING;
    neap_timer_stop(&s->wanted);
  } else if (s->want == ROOM) {
    want_again(s);
  }
}

/* Adds the digest in `read`.  The coordinator's own vote is asked for when it is the last that
 * lacks; with it the round is over. */
void neap_stable_count(struct stable *s, uint32_t rank)
{
  uint32_t count = neap_stable_members(s);
  NEAP_ASSERT(!s->voted[rank]);
  for (uint32_t i = 0; i < count; i++) {
    const struct row *read = &s->read[i];
    if (!s->votes || later(s->sums[i].low, read->low)) {
      s->sums[i].low = read->low;
      s->least[i] = rank;
    }
    if (!s->votes || later(read->high, s->sums[i].high)) s->sums[i].high = read->high;
  }
  s->voted[rank] = s->seen[rank] = neap_now(&s->layer) + 1;
  s->votes++;
  s->received++;
  if (s->votes < count) { /* Its own comes last. */
    s->missing = count - 1 - s->votes;
    if (!s->missing) neap_stable_ask(s);
    return;
  }

  for (uint32_t i = 0; i < count; i++) {
    if (!s->concluded || s->last[i].low != s->sums[i].low) s->stuck[i] = neap_now(&s->layer);
    s->holder[i] = s->least[i];
    s->last[i] = s->sums[i];
  }
  s->concluded = true;
  s->rounds++;
  neap_stable_reset(s);
  if (count > 1) neap_stable_send(s, NULL, NEAP_STABLE_STABILITY, s->last);
  neap_stable_conclude(s, s->last);
}

/* Is it time for the coordinator's own vote? */
static bool last_to_vote(const struct stable *s)
{
  return !s->voted[0] && s->votes + 1 == neap_stable_members(s);
}

/* ---- this member's votes ---- */

/* A coordinator can take some thousands of votes a second, so few members may vote more often: at
 * 20 ms a sender whose window is 4 MB would be held to 200 MB/s. */
uint64_t neap_stable_spaced(const struct stable *s, uint64_t delay)
{
  uint64_t few = neap_stable_members(s) * MEMBER_SPACING;
  uint64_t ready = s->voted_last + (few < s->spacing ? few : s->spacing);
  uint64_t now = neap_now(&s->layer);
  return s->voted_last && ready > now + delay ? ready - now : delay;
}

void neap_stable_vote_soon(struct stable *s, struct neap_timer *timer)
{
  int rank = neap_rank(s->view, neap_self(&s->layer));
  if (rank < 0 || (neap_stable_coordinator(s) && !last_to_vote(s))) return;
  if (timer == &s->vote) {
    s->repeating = true;
    s->pause = s->spacing;
  }
  neap_timer_sooner(&s->layer, timer, neap_stable_spaced(s, (uint64_t)rank * RANK_DELAY));
}

void neap_stable_vote_due(struct neap_layer *layer, struct neap_timer *timer)
{
  struct stable *s = (struct stable *)layer;
  neap_stable_ask(s);
  if (timer != &s->vote || !s->repeating) return;
  neap_timer_start(layer, timer, s->pause);
  s->pause = s->pause * 2 < PAUSE_MAX ? s->pause * 2 : PAUSE_MAX;
}

void neap_stable_tick_start(struct stable *s)
{
  if (s->interval)
    neap_timer_start(&s->layer, &s->tick, 1 + neap_chance_below(&s->layer, 2 * s->interval));
  else
    neap_timer_stop(&s->tick);
}

void neap_stable_tick_due(struct neap_layer *layer, struct neap_timer *timer)
{
  struct stable *s = NEAP_HOLDER(timer, struct stable, tick);
  (void)layer;
  if (s->view && (!neap_stable_coordinator(s) || last_to_vote(s))) neap_stable_ask(s);
  neap_stable_tick_start(s);
}

/* Fills `read` from this member's digest, within what it has promised; false: a member lacks. */
static bool own_rows(struct stable *s, const struct neap_digest *digest)
{
  for (uint32_t i = 0; i < neap_stable_members(s); i++) {
    const struct neap_peer *member = s->view->members[i];
    const struct neap_digest_row *row = neap_digest_find(digest, member);
    if (!row) return false;
    s->read[i] = (struct row){row->delivered, row->received};
    for (const struct hold *h = s->first; h; h = h->next) {
      const struct neap_digest_row *cap = neap_digest_find(h->digest, member);
      if (cap && later(s->read[i].low, cap->delivered)) s->read[i].low = cap->delivered;
    }
  }
  return true;
}

void neap_stable_digest(struct stable *s, const struct neap_event *event)
{
  s->asking = false;
  int rank = neap_rank(s->view, neap_self(&s->layer));
  if (rank < 0) return;
  s->owed = neap_stable_muted(s);
  if (s->owed) return;
  if (event->none || !own_rows(s, event->digest)) { /* A view is on its way: once more, then not. */
    s->incomplete += s->retried;
    s->retried = !s->retried;
    if (s->retried) neap_timer_sooner(&s->layer, &s->vote, s->spacing);
    return;
  }
  s->retried = false;
  if (neap_stable_coordinator(s) && !last_to_vote(s)) return;
  s->voted_last = neap_now(&s->layer);
  s->sent_high = s->read[rank].high;
  s->bytes = 0;
  s->sent++;
  if (neap_stable_coordinator(s))
    neap_stable_count(s, 0);
  else
    neap_stable_send(s, s->view->members[0], NEAP_STABLE_VOTE, s->read);
}

/* ---- on demand ---- */

/* The coordinator starts over, or asks those that have not answered. */
static void collect(struct stable *s)
{
  bool again = s->collecting;
  if (!again) neap_stable_reset(s);
  s->collecting = true;
  s->missing = neap_stable_members(s) - 1 - s->votes;
  if (last_to_vote(s)) {
    neap_stable_ask(s);
  } else if (!again && neap_view_all_neap(s->view)) {
    neap_stable_send_own(s, NULL, NEAP_STABLE_COLLECT);
  } else {
    for (uint32_t i = 1; i < neap_stable_members(s); i++)
      if (!s->voted[i] && s->view->members[i]->generation)
        neap_stable_send_own(s, s->view->members[i], NEAP_STABLE_COLLECT);
  }
}

void neap_stable_want_due(struct neap_layer *layer, struct neap_timer *timer)
{
  struct stable *s = NEAP_HOLDER(timer, struct stable, wanted);
  (void)layer;
  (void)timer;
  if (!s->view || s->want == NOTHING || neap_stable_suspended(s)) return;
  want_again(s);
  if (neap_stable_coordinator(s))
    collect(s);
  else if (s->view->members[0]->generation)
    neap_stable_send_own(s, s->view->members[0], NEAP_STABLE_WANTED);
  else
    neap_stable_vote_soon(s, &s->answer);
}

void neap_stable_want(struct stable *s, enum want want)
{
  if (s->want == NOTHING) {
    s->want_pause = s->spacing;
    s->asked++;
    neap_timer_start(&s->layer, &s->wanted, neap_stable_spaced(s, 0));
  }
  if (want > s->want) s->want = want;
}
