/* rsvp's requests: sends that wait until their targets have answered.
 *
 *     ASK ----> message leaves ----> each target answers, leaves, or is reset ----> DONE
 *                    |                                                    |
 *                    +--- beacons, by who finds a loss at the tail        +-- deadline: DONE
 *
 * A request that went without the own header can be answered by id alone: when its send has ended
 * it lingers, and its id is not used again, until everybody has answered or left. */

#include "layers/rsvp/rsvp.h"

#include <stdlib.h>

/* Where the sender finds losses itself a beacon serves only answers that died with their sender's
 * table: the first after 2 s, then with pauses doubling up to 60 s. */
#define QUIET_PAUSE NEAP_S(2)
#define QUIET_PAUSE_MAX NEAP_S(60)

static struct request *holder(struct neap_link *link)
{
  return NEAP_HOLDER(link, struct request, link);
}

static struct request *by_ticket(struct rsvp *r, uint32_t ticket)
{
  for (struct neap_link *at = r->requests.prev; at != &r->requests; at = at->prev)
    if (holder(at)->ticket == ticket && !holder(at)->over) return holder(at);
  return NULL;
}

static struct request *by_id(const struct rsvp *r, uint16_t id)
{
  struct request *q = r->buckets[id % RSVP_BUCKETS];
  while (q && q->id != id) q = q->same;
  return q;
}

static void request_free(struct rsvp *r, struct request *q)
{
  for (struct request **at = &r->buckets[q->id % RSVP_BUCKETS]; *at; at = &(*at)->same) {
    if (*at != q) continue;
    *at = q->same;
    break;
  }
  neap_link_remove(&q->link);
  *(q->over ? &r->lingering : &r->pending) -= 1;
  for (uint32_t i = 0; i < q->count; i++) neap_peer_unref(q->targets[i].peer);
  neap_peer_unref(q->to);
  free(q->targets);
  free(q);
}

/* ---- the end of a send ---- */

/* Who is missing (bits 0), or went (1 left, 2 split). */
static struct neap_found *outcome(const struct request *q)
{
  struct neap_found *found = neap_found_new(q->count);
  for (uint32_t i = 0; i < q->count; i++)
    if (q->targets[i].state != ACKED)
      neap_found_add(found, (struct neap_found_row){.peer = q->targets[i].peer,
                              .bits = (uint8_t)(q->targets[i].state == LEFT    ? 1
                                                : q->targets[i].state == SPLIT ? 2
                                                                               : 0)});
  return found;
}

static void finish(struct rsvp *r, struct request *q, int code)
{
  struct neap_event done = {
    .kind = NEAP_EVENT_DONE, .ticket = q->ticket, .code = code, .found = outcome(q)};
  neap_event_up(&r->layer, &done);
  r->done++;
  r->pending--;
  r->lingering++;
  q->over = true;
  q->beacon = 0;
  if (!q->plain || !q->waiting) request_free(r, q);
}

/* One target less to wait for. */
static void settle(struct rsvp *r, struct request *q, struct target *t, unsigned state)
{
  t->state = (uint8_t)state;
  q->waiting--;
  if (state == ACKED && !q->over) {
    struct neap_event acked = {.kind = NEAP_EVENT_ACKED,
      .ticket = q->ticket,
      .peer = neap_peer_ref(t->peer),
      .time = neap_now(&r->layer) - q->sent};
    neap_event_up(&r->layer, &acked);
  }
  if (q->waiting) return;
  if (q->over)
    request_free(r, q);
  else
    finish(r, q, !q->to || state == ACKED ? 0 : state == LEFT ? NEAP_LEFT : NEAP_SPLIT);
}

static struct target *target_of(const struct request *q, const struct neap_peer *peer)
{
  for (uint32_t i = 0; i < q->count; i++)
    if (q->targets[i].peer == peer && q->targets[i].state == WAITING) return &q->targets[i];
  return NULL;
}

void neap_rsvp_credit(
  struct rsvp *r, struct neap_peer *peer, uint16_t id, bool own, uint64_t number)
{
  struct request *q = by_id(r, id);
  struct target *t = q && q->flies ? target_of(q, peer) : NULL;
  if (t && (own ? number == q->number : q->plain))
    settle(r, q, t, ACKED);
  else
    r->stale++; /* A second answer, or one to a request that is over. */
}

void neap_rsvp_release(struct rsvp *r, const struct neap_peer *peer, unsigned state)
{
  for (struct neap_link *at = r->requests.next, *next; at != &r->requests; at = next) {
    struct request *q = holder(at);
    next = at->next;
    struct target *t = q->flies ? target_of(q, peer) : NULL;
    if (t) settle(r, q, t, state);
  }
}

void neap_rsvp_reset(struct rsvp *r, const struct neap_peer *peer)
{
  for (struct neap_link *at = r->requests.next, *next; at != &r->requests; at = next) {
    struct request *q = holder(at);
    next = at->next;
    if (!q->flies || q->over || !target_of(q, peer)) continue;
    if (q->to) { /* Its message may be among those that were given up. */
      r->resets++;
      finish(r, q, NEAP_RESET);
    } else if (q->beacon) { /* Its answer may have been. */
      q->beacon = neap_now(&r->layer);
      neap_timer_sooner(&r->layer, &r->tick, 0);
    }
  }
}

/* ---- beacons ---- */

static uint64_t first_pause(const struct rsvp *r, const struct request *q)
{
  if (r->resend == RESEND_OFF || !r->resend_interval) return 0;
  uint64_t pause = r->resend_interval;
  if (r->resend == RESEND_AUTO && q->sender_finds) return pause > QUIET_PAUSE ? pause : QUIET_PAUSE;
  uint64_t left = q->deadline ? (q->deadline - q->sent) / 3 : 0;
  return left && pause >= 3 * left ? left : pause; /* Some time is left for the answer. */
}

static void schedule(struct rsvp *r, struct request *q, bool soon)
{
  q->pause = first_pause(r, q);
  q->beacon = q->pause ? neap_now(&r->layer) + (soon ? 0 : q->pause) : 0;
  if (q->beacon) neap_timer_sooner(&r->layer, &r->tick, q->beacon - neap_now(&r->layer));
}

static void head_put(struct rsvp *r, struct neap_msg *m, const struct request *q, unsigned type)
{
  *neap_rsvp_head_put(m, &r->layer) =
    (struct neap_rsvp_head){.type = (int8_t)type, .id = (int16_t)q->id};
  if (!q->plain)
    *neap_rsvp_own_head_put(m, &r->layer) =
      (struct neap_rsvp_own_head){.ack_on = q->ack_on, .number = q->number};
}

/* A message of the same stream behind the request: a gap shows, and who has it answers. */
static void send_beacon(struct rsvp *r, struct request *q)
{
  struct neap_msg *m = neap_msg_own(&r->layer, q->to, NEAP_RSVP);
  head_put(r, m, q, NEAP_RSVP_BEACON);
  r->beacons++;
  neap_pass_down_msg(&r->layer, m);
  if (r->resend == RESEND_AUTO && q->sender_finds)
    q->pause = q->pause * 2 < QUIET_PAUSE_MAX ? q->pause * 2 : QUIET_PAUSE_MAX;
  q->beacon = q->pause ? neap_now(&r->layer) + q->pause : 0;
}

void neap_rsvp_tick(struct neap_layer *layer, struct neap_timer *timer)
{
  struct rsvp *r = NEAP_HOLDER(timer, struct rsvp, tick);
  uint64_t now = neap_now(layer), due = UINT64_MAX;
  for (struct neap_link *at = r->requests.next, *next; at != &r->requests; at = next) {
    struct request *q = holder(at);
    next = at->next;
    if (q->over || !q->flies) continue;
    if (q->deadline && q->deadline <= now) {
      r->timeouts++;
      finish(r, q, NEAP_TIMEOUT);
      continue;
    }
    if (q->beacon && q->beacon <= now) send_beacon(r, q);
    if (q->deadline && q->deadline < due) due = q->deadline;
    if (q->beacon && q->beacon < due) due = q->beacon;
  }
  if (due != UINT64_MAX) neap_timer_start(layer, timer, due - now);
}

static void ask_tail(struct rsvp *r, const struct request *q)
{
  struct neap_event tail = {
    .kind = NEAP_EVENT_TAIL, .ticket = q->ticket, .peer = neap_peer_ref(q->to)};
  if (r->resend == RESEND_AUTO)
    neap_ask_down(&r->layer, &tail);
  else
    neap_event_drop(&tail);
}

void neap_rsvp_tail(struct rsvp *r, const struct neap_event *event)
{
  struct request *q = by_ticket(r, event->ticket);
  if (!q || !q->flies) return;
  q->sender_finds = !event->none && event->flag;
  schedule(r, q, false);
}

void neap_rsvp_mode(struct rsvp *r, const struct neap_peer *peer)
{
  for (struct neap_link *at = r->requests.next, *next; at != &r->requests; at = next) {
    struct request *q = holder(at);
    next = at->next;
    if (!q->flies || q->over || q->to != peer) continue;
    ask_tail(r, q);
    if (r->resend == RESEND_AUTO && q->beacon) send_beacon(r, q);
  }
}

void neap_rsvp_schedule(struct rsvp *r)
{
  for (struct neap_link *at = r->requests.next; at != &r->requests; at = at->next)
    if (holder(at)->flies && !holder(at)->over) schedule(r, holder(at), false);
}

/* ---- the beginning of a send ---- */

/* The next id that nobody can still answer; false when there is none. */
static bool take_id(struct rsvp *r, struct request *q)
{
  for (uint32_t tried = 0; tried <= UINT16_MAX; tried++) {
    q->id = r->next_id++;
    if (by_id(r, q->id)) continue;
    q->same = r->buckets[q->id % RSVP_BUCKETS];
    r->buckets[q->id % RSVP_BUCKETS] = q;
    return true;
  }
  return false;
}

static struct request *request_new(struct rsvp *r, const struct neap_event *event)
{
  struct request *q = calloc(1, sizeof *q);
  NEAP_ASSERT(q);
  q->room = r->layer.view ? r->layer.view->count : 1;
  q->targets = calloc(q->room, sizeof *q->targets);
  NEAP_ASSERT(q->targets);
  uint64_t timeout = event->time == UINT64_MAX ? r->timeout : event->time;
  q->number = ++r->next_number;
  q->ticket = event->ticket;
  q->sent = neap_now(&r->layer);
  q->deadline = timeout ? q->sent + timeout : 0;
  q->ack_on = (uint8_t)(event->number > ON_DELIVERY ? r->ack_on : event->number);
  neap_link_before(&r->requests, &q->link);
  r->pending++;
  return q;
}

static void add_target(struct request *q, struct neap_peer *peer)
{
  NEAP_ASSERT(q->count < q->room);
  q->targets[q->count++] = (struct target){neap_peer_ref(peer), WAITING};
  q->waiting++;
  q->plain |= !peer->generation;
}

/* Everybody in the view, or the one it is for. */
static void aim(struct rsvp *r, struct request *q, struct neap_peer *to, bool without_self)
{
  const struct neap_view *view = r->layer.view;
  q->to = neap_peer_ref(to);
  if (to && !(to->self && without_self)) add_target(q, to);
  for (uint32_t i = 0; !to && view && i < view->count; i++) {
    if (view->members[i]->self && without_self) continue;
    add_target(q, view->members[i]);
  }
}

static void launch(struct rsvp *r, struct request *q)
{
  q->flies = true;
  r->sent++;
  if (!q->waiting) { /* Nobody else is here. */
    finish(r, q, 0);
    return;
  }
  if (q->deadline) neap_timer_sooner(&r->layer, &r->tick, q->deadline - q->sent);
  schedule(r, q, false);
  ask_tail(r, q);
}

void neap_rsvp_ask(struct rsvp *r, const struct neap_event *event)
{
  request_new(r, event);
}

void neap_rsvp_send(struct rsvp *r, struct neap_msg *m)
{
  struct request *q = by_ticket(r, m->ticket);
  NEAP_ASSERT(q && !q->flies); /* ASK came just before. */
  aim(r, q, m->to, m->marks & NEAP_NO_LOOPBACK);
  if (!take_id(r, q)) {
    r->refused++;
    m->flags &= (uint16_t)~NEAP_RSVP; /* It goes, and nobody waits for it. */
    finish(r, q, NEAP_REFUSED);
    return;
  }
  head_put(r, m, q, NEAP_RSVP_REQUEST);
  launch(r, q);
}

void neap_rsvp_flush(struct rsvp *r, const struct neap_event *event)
{
  struct request *q = request_new(r, event);
  q->ack_on = ON_COMPLETION;
  aim(r, q, event->peer, true);
  if (q->plain || !take_id(r, q)) { /* A beacon is not answered by everybody. */
    r->refused++;
    finish(r, q, NEAP_REFUSED);
    return;
  }
  bool anybody = q->waiting;
  launch(r, q);
  if (anybody) send_beacon(r, q);
}

/* ---- views ---- */

void neap_rsvp_view(struct rsvp *r)
{
  const struct neap_view *view = r->layer.view;
  for (struct neap_link *at = r->requests.next, *next; at != &r->requests; at = next) {
    struct request *q = holder(at);
    next = at->next;
    if (!q->flies) continue;
    uint32_t left = q->waiting; /* The last one to settle may free it. */
    for (uint32_t i = 0; left; i++) {
      if (q->targets[i].state != WAITING) continue;
      left--;
      if (!neap_in_view(view, q->targets[i].peer))
        settle(r, q, &q->targets[i], view->merged ? SPLIT : LEFT);
    }
  }
  for (struct neap_link *at = r->requests.next; at != &r->requests; at = at->next)
    if (holder(at)->sender_finds && holder(at)->beacon) schedule(r, holder(at), true);
}

void neap_rsvp_close(struct rsvp *r)
{
  while (!neap_link_alone(&r->requests)) request_free(r, holder(r->requests.next));
}
