/* hold: multicasts that rise while a state is on its way, and what counts of them afterwards.
 *
 *     D = 5, E = 8 of ann's:    3 4 5 | 6 7 8 | 9 10
 *     the state is set          gone    rise,   rise
 *                                       marked
 *     it came to nothing        all rise, except those that had been delivered before and came
 *                               again because the stream was set back
 *
 * What is held is not applied, so nobody is told that it is; `nakack` reports it as stored.  Beyond
 * `hold_bytes` nothing is reported any more: the windows of the senders fill, and they wait.
 *
 * Invariant: `held` counts the bytes of what is held; nothing is held unless a state is on its
 * way. */

#include "layers/state_transfer/state_transfer.h"

/* A numbered multicast, or one that was put together from such. */
static bool numbered(const struct neap_msg *m)
{
  return !m->to && (m->receipts || m->origin);
}

/* Is it in the state?  Marks it when it may be; forgets what no longer matters. */
static bool in_state(struct state_transfer *s, struct neap_msg *m)
{
  struct place *p = neap_peer_state_have(&s->layer, m->from);
  m->marks &= (uint8_t)~NEAP_REPLAYED;
  if (!p || !p->known) return false;
  if ((int64_t)(m->seqno - p->skip) <= 0) {
    s->skipped++;
    return true;
  }
  if ((int64_t)(m->seqno - p->replay) <= 0) {
    s->replayed++;
    m->marks |= NEAP_REPLAYED;
  } else if (!neap_oob(m)) {
    state_forget(s, p); /* Regular ones come in order. */
  }
  return false;
}

void state_forget(struct state_transfer *s, struct place *p)
{
  s->places -= p->known;
  *p = (struct place){.declined = p->declined};
}

/* Passes what counts. */
static void sift(struct state_transfer *s, struct neap_batch *batch)
{
  struct neap_batch out = {0};
  struct neap_msg *m;
  while ((m = neap_take(batch))) {
    if (numbered(m) && ((s->aborted && m->marks & NEAP_REPLAYED) || in_state(s, m)))
      neap_msg_free(m);
    else
      neap_put(&out, m);
  }
  neap_pass_up(&s->layer, &out);
}

static void push_back(struct state_transfer *s, bool full)
{
  if (s->full == full) return;
  s->full = full;
  s->pushed_back += full;
  struct neap_event event = {
    .kind = full ? NEAP_EVENT_HOLD : NEAP_EVENT_RELEASE, .number = STATE_PUSH};
  neap_event_down(&s->layer, &event);
}

void state_rise(struct state_transfer *s, struct neap_batch *batch)
{
  if (!s->rewound) {
    if ((s->places || s->aborted) && !batch->first->to)
      sift(s, batch);
    else
      neap_pass_up(&s->layer, batch);
    return;
  }
  struct neap_batch out = {0};
  struct neap_msg *m;
  while ((m = neap_take(batch))) {
    if (numbered(m) && s->fetch_mode == STATE_APPLIED) {
      s->held += m->len;
      s->held_count++;
      neap_put(&s->waiting, m);
    } else {
      neap_put(&out, m);
    }
  }
  neap_pass_up(&s->layer, &out);
  if (s->held > s->hold_bytes) push_back(s, true);
}

static void let_go(struct state_transfer *s)
{
  struct neap_batch waiting = s->waiting;
  s->waiting = (struct neap_batch){0};
  s->held = s->held_count = 0;
  s->rewound = false;
  sift(s, &waiting);
  push_back(s, false);
}

static struct place *place_of(struct state_transfer *s, struct neap_peer *peer)
{
  struct place *p = neap_peer_state(&s->layer, peer);
  s->places += !p->known;
  p->known = true;
  return p;
}

/* Of a member that only the second digest knows nothing is in the state for sure. */
static void learn(struct state_transfer *s)
{
  struct place *p;
  neap_each_peer (&s->layer, p) state_forget(s, p);
  for (uint32_t i = 0; i < s->perhaps->count; i++)
    place_of(s, s->perhaps->rows[i].peer)->replay = s->perhaps->rows[i].delivered;
  const struct neap_digest *sure = NEAP_IS_MUTANT(542) ? s->perhaps : s->sure;
  for (uint32_t i = 0; i < sure->count; i++)
    place_of(s, sure->rows[i].peer)->skip = sure->rows[i].delivered;
}

void state_commit(struct state_transfer *s)
{
  learn(s);
  s->aborted = false;
  let_go(s);
  struct neap_event event = {.kind = NEAP_EVENT_DIGEST_COMMIT};
  neap_event_down(&s->layer, &event);
}

void state_abort(struct state_transfer *s)
{
  s->aborted = true;
  let_go(s);
  struct neap_event event = {.kind = NEAP_EVENT_DIGEST_ABORT};
  neap_event_down(&s->layer, &event);
}
