/* provide: the giver's side.
 *
 *   ASK -> queue -> [VIEW] -> [CLOSING] -> TOLD ----> READING -----> ENDED -> next
 *                   the       mode         HOLD       HOLD D         END is out,
 *                   taker's   barrier      without,   DIGEST, PART   STORED is not here
 *                   is newer               ASKED up   ...
 *
 * From TOLD on nothing more is reported, so the digest that the application's driver takes when it
 * begins to read (READ) is not below a report.  In mode barrier what no callback has got yet waits
 * until then: a backlog delays nothing, and is not counted.  From READ on that digest is what is
 * held, until the taker has STORED what it has to, leaves, or `hold_timeout` is over, which voids
 * the digest and tells it.  Parts are written as far as the taker's application has taken others.
 *
 * Invariant: a hold stands exactly from TOLD until STORED; while it does, `patience` is armed. */

#include "layers/state_transfer/state_transfer.h"

#include <stdio.h>
#include <string.h>

static void next(struct state_transfer *s);

/* ---- holds ---- */

static void hold(struct state_transfer *s, struct neap_digest *digest)
{
  struct neap_event event = {
    .kind = NEAP_EVENT_HOLD, .number = s->hold, .digest = neap_digest_ref(digest)};
  neap_event_down(&s->layer, &event);
}

static void release(struct state_transfer *s)
{
  if (!s->hold) return;
  struct neap_event event = {.kind = NEAP_EVENT_RELEASE, .number = s->hold};
  s->hold = 0;
  neap_timer_stop(&s->patience);
  neap_event_down(&s->layer, &event);
}

/* ---- the end ---- */

static void barrier_open(struct state_transfer *s)
{
  struct neap_event event = {.kind = NEAP_EVENT_BARRIER_OPEN, .number = s->give_ticket};
  if (s->now.mode == STATE_BARRIER) neap_event_down(&s->layer, &event);
}

static void refuse(
  struct state_transfer *s, struct neap_peer *peer, uint32_t number, int code, const char *why)
{
  struct neap_msg *m = state_message(s, peer,
    (struct neap_state_own_head){.type = NEAP_STATE_NO, .number = number, .code = (uint8_t)-code});
  neap_msg_body(m, why, (uint32_t)strlen(why));
  s->refused++;
  neap_pass_down_msg(&s->layer, m);
}

static void over(struct state_transfer *s)
{
  release(s);
  s->give = GIVE_NOT;
  neap_peer_unref(s->now.peer);
  s->now = (struct request){0};
  neap_digest_unref(s->given_digest);
  s->given_digest = NULL;
  s->sent = s->allowed = 0;
  next(s);
}

/* Breaks off what runs; the application hears that nobody wants it any more. */
void state_give_stop(struct state_transfer *s)
{
  if (!s->give) return;
  if (s->give == GIVE_CLOSING || s->give == GIVE_TOLD) barrier_open(s);
  if (s->give == GIVE_TOLD || s->give == GIVE_READING)
    state_tell(s, (struct neap_event){.number = NEAP_STATE_UNWANTED, .ticket = s->give_ticket});
  over(s);
}

static void give_up(struct state_transfer *s, int code, const char *why)
{
  refuse(s, s->now.peer, s->now.number, code, why);
  state_give_stop(s);
}

void state_patience_fire(struct neap_layer *layer, struct neap_timer *timer)
{
  struct state_transfer *s = (struct state_transfer *)layer;
  (void)timer;
  s->voids++;
  give_up(s, NEAP_RESET, "it took too long: the digest is void");
}

/* ---- the queue ---- */

static void told(struct state_transfer *s)
{
  s->give = GIVE_TOLD;
  s->hold = STATE_HOLD | ++s->last_hold;
  hold(s, NULL);
  neap_timer_start(&s->layer, &s->patience, s->hold_timeout);
  state_tell(
    s, (struct neap_event){
         .number = NEAP_STATE_ASKED, .ticket = s->give_ticket, .peer = neap_peer_ref(s->now.peer)});
}

static void start(struct state_transfer *s)
{
  if (s->layer.view->number < s->now.view) {
    s->give = GIVE_VIEW;
  } else if (s->now.mode == STATE_BARRIER) {
    s->give = GIVE_CLOSING;
    struct neap_event event = {.kind = NEAP_EVENT_BARRIER_CLOSE,
      .number = s->give_ticket,
      .peer = neap_peer_ref(s->now.peer),
      .time = s->close_timeout,
      .flag = true};
    neap_ask_down(&s->layer, &event);
  } else {
    told(s);
  }
}

static void next(struct state_transfer *s)
{
  if (s->give || !s->queued) return;
  s->now = s->queue[0];
  s->queued--;
  for (uint64_t i = 0; i < s->queued; i++) s->queue[i] = s->queue[i + 1];
  if (!++s->give_ticket) s->give_ticket = 1;
  start(s);
}

/* Takes out what is asked for by `peer`, or by members that are not in the view. */
static void unqueue(struct state_transfer *s, const struct neap_peer *peer)
{
  uint64_t kept = 0;
  for (uint64_t i = 0; i < s->queued; i++) {
    struct neap_peer *who = s->queue[i].peer;
    if (who == peer || !neap_in_view(s->layer.view, who))
      neap_peer_unref(who);
    else
      s->queue[kept++] = s->queue[i];
  }
  s->queued = kept;
}

void state_request(
  struct state_transfer *s, struct neap_msg *m, const struct neap_state_own_head *head)
{
  struct neap_peer *peer = m->from;
  if (!neap_in_view(s->layer.view, peer)) {
    s->unfit++;
    return;
  }
  unqueue(s, peer); /* It asks anew: what it asked before is over. */
  if (s->give && s->now.peer == peer) state_give_stop(s);
  if (state_taking(s)) {
    refuse(s, peer, head->number, NEAP_REFUSED, "it waits for a state itself");
  } else if (s->queued == STATE_QUEUE) {
    refuse(s, peer, head->number, NEAP_REFUSED, "too many ask at once");
  } else {
    s->queue[s->queued++] =
      (struct request){neap_peer_ref(peer), head->view, head->number, head->mode == STATE_BARRIER};
    next(s);
  }
}

void state_give_view(struct state_transfer *s)
{
  unqueue(s, NULL);
  if (s->give && !neap_in_view(s->layer.view, s->now.peer))
    state_give_stop(s);
  else if (s->give == GIVE_VIEW)
    start(s);
}

void state_give_closed(struct state_transfer *s, int code)
{
  if (s->give != GIVE_CLOSING && !(s->give == GIVE_TOLD && code < 0)) return;
  if (code >= 0)
    told(s);
  else
    give_up(s, code,
      code == NEAP_REFUSED ? "its stack has no layer that closes"
                           : "callbacks have not returned in time");
}

/* ---- reading ---- */

/* The application begins to read; a digest is missing when none can be given now. */
static void begin(struct state_transfer *s, struct neap_digest *digest)
{
  if (!digest) {
    give_up(s, NEAP_REFUSED, "it has told more than it has applied");
    return;
  }
  if (NEAP_IS_MUTANT(544))
    release(s);
  else
    hold(s, digest);
  struct neap_msg *m = state_message(s, s->now.peer,
    (struct neap_state_own_head){.type = NEAP_STATE_DIGEST,
      .number = s->now.number,
      .mode = s->now.mode,
      .view = s->layer.view->number});
  state_write_digest(m, digest);
  neap_pass_down_msg(&s->layer, m);
  s->given_digest = neap_digest_ref(digest);
  s->give = GIVE_READING;
  barrier_open(s);
  s->allowed = s->window;
  state_tell(s,
    (struct neap_event){.number = NEAP_STATE_ROOM, .ticket = s->give_ticket, .time = s->allowed});
}

/* Of members that left since reading began nobody knows how much is in the state: perhaps all. */
static void was_read(struct state_transfer *s, const struct neap_digest *seen)
{
  struct neap_digest *sure = s->given_digest;
  struct neap_digest *perhaps = neap_digest_new(sure->count + seen->count);
  for (uint32_t i = 0; i < seen->count; i++) neap_digest_add(perhaps, seen->rows[i]);
  for (uint32_t i = 0; i < sure->count; i++) {
    struct neap_digest_row row = sure->rows[i];
    if (neap_digest_find(seen, row.peer)) continue;
    row.delivered = row.received = INT64_MAX;
    neap_digest_add(perhaps, row);
  }
  neap_digest_unref(sure);
  s->given_digest = perhaps;
}

static void write_part(struct state_transfer *s, struct neap_event *event)
{
  struct neap_msg *m = event->msg;
  event->msg = NULL;
  neap_msg_to(m, s->now.peer);
  m->flags = NEAP_NO_FC | NEAP_SKIP_BARRIER;
  m->marks |= NEAP_OWN;
  *neap_state_own_head_put(m, &s->layer) = (struct neap_state_own_head){
    .type = NEAP_STATE_PART, .number = s->now.number, .total = event->time};
  s->sent += m->len;
  s->bytes_out += m->len;
  neap_pass_down_msg(&s->layer, m);
}

static void end(struct state_transfer *s)
{
  struct neap_msg *m = state_message(
    s, s->now.peer, (struct neap_state_own_head){.type = NEAP_STATE_END, .number = s->now.number});
  state_write_digest(m, s->given_digest);
  neap_pass_down_msg(&s->layer, m);
  s->given++;
  s->give = GIVE_ENDED;
  if (!s->hold) over(s);
}

/* What the application's driver does. */
void state_give_do(struct state_transfer *s, struct neap_event *event)
{
  if (!s->give || event->ticket != s->give_ticket) return;
  if (event->number == NEAP_STATE_READ && s->give == GIVE_TOLD) {
    begin(s, event->digest);
  } else if (event->number == NEAP_STATE_REFUSE) {
    give_up(s, NEAP_REFUSED, event->text);
  } else if (s->give != GIVE_READING) {
    return;
  } else if (event->number == NEAP_STATE_WAS_READ) {
    if (event->digest) was_read(s, event->digest);
  } else if (event->number == NEAP_STATE_WRITE) {
    write_part(s, event);
  } else if (event->number == NEAP_STATE_DONE) {
    end(s);
  }
}

void state_give_msg(
  struct state_transfer *s, struct neap_msg *m, const struct neap_state_own_head *head)
{
  bool mine = s->give && m->from == s->now.peer && head->number == s->now.number;
  if (!mine && head->type == NEAP_STATE_OVER) {
    for (uint64_t i = 0; i < s->queued; i++)
      if (s->queue[i].peer == m->from && s->queue[i].number == head->number) unqueue(s, m->from);
  } else if (!mine) {
    s->unfit++;
  } else if (head->type == NEAP_STATE_OVER) {
    state_give_stop(s);
  } else if (head->type == NEAP_STATE_STORED && s->give >= GIVE_READING) {
    release(s);
    if (s->give == GIVE_ENDED) over(s);
  } else if (head->type == NEAP_STATE_TAKEN && s->give == GIVE_READING) {
    if (head->bytes > s->sent || head->bytes + s->window <= s->allowed) return;
    s->allowed = head->bytes + s->window;
    state_tell(s,
      (struct neap_event){.number = NEAP_STATE_ROOM, .ticket = s->give_ticket, .time = s->allowed});
  }
}
