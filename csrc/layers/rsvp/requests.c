/* rsvp's requests: sends that wait until their targets have answered.
 *
 *     ASK ----> message leaves ----> each target answers, leaves, or is reset ----> DONE
 *                    |                                                    |
 *                    +--- resend.c                                        +-- deadline: DONE
 *
 * A request that went without the own header can be answered by id alone: when its send has ended
 * it lingers, and its id is not used again, until everybody has answered or left.  Whoever answers
 * such a request does so by its own setting, and the result says so.
 *
 * How many may have begun is told to the gate: at most max_pending wait, and there is an id for
 * each.  So sends that nobody waits for are turned away when too many are under way. */

#include "layers/rsvp/rsvp.h"

#include <stdlib.h>

struct request *neap_rsvp_by_ticket(struct rsvp *r, uint32_t ticket)
{
  for (struct neap_link *at = r->requests.prev; at != &r->requests; at = at->prev)
    if (neap_rsvp_request(at)->ticket == ticket && !neap_rsvp_request(at)->over)
      return neap_rsvp_request(at);
  return NULL;
}

static struct request *by_id(const struct rsvp *r, uint16_t id)
{
  struct request *q = r->buckets[id % RSVP_BUCKETS];
  while (q && q->id != id) q = q->same;
  return q;
}

uint8_t neap_rsvp_ack_on(const struct rsvp *r, uint16_t id)
{
  const struct request *q = by_id(r, id);
  return q ? q->ack_on : (uint8_t)r->ack_on;
}

/* ---- room ---- */

static uint64_t ahead(uint64_t limit, uint64_t at)
{
  return limit > at ? limit - at : 0;
}

void neap_rsvp_publish(struct rsvp *r)
{
  uint64_t room = ahead(r->max_pending, r->pending);
  uint64_t free_ids = ahead(r->ids, r->pending + r->lingering);
  neap_gate_asks(&r->layer, r->begun + (room < free_ids ? room : free_ids));
}

/* ---- the end of a send ---- */

static void drop_payload(struct request *q)
{
  if (q->payload) neap_msg_free(q->payload);
  q->payload = NULL;
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
  drop_payload(q);
  free(q->targets);
  free(q);
}

static uint8_t bits_of(const struct request *q, const struct target *t)
{
  switch ((enum target_state)t->state) {
  case WAITING:
    return 0;
  case LEFT:
    return 1;
  case SPLIT:
    return 2;
  case ACKED:
    return q->plain && !t->peer->self ? 4 : UINT8_MAX;
  }
  return 0;
}

/* Who is missing (bits 0), went (1 left, 2 split), or answered by its own setting (4). */
static struct neap_found *outcome(const struct request *q)
{
  struct neap_found *found = neap_found_new(q->count);
  for (uint32_t i = 0; i < q->count; i++) {
    uint8_t bits = bits_of(q, &q->targets[i]);
    if (bits != UINT8_MAX)
      neap_found_add(found, (struct neap_found_row){.peer = q->targets[i].peer, .bits = bits});
  }
  return found;
}

void neap_rsvp_finish(struct rsvp *r, struct request *q, int code)
{
  struct neap_event event = {.code = code, .found = outcome(q)};
  if (q->sync) {
    event.kind = NEAP_EVENT_SYNCED;
    event.number = q->sync;
    neap_event_down(&r->layer, &event);
  } else {
    event.kind = NEAP_EVENT_DONE;
    event.ticket = q->ticket;
    neap_event_up(&r->layer, &event);
  }
  r->done++;
  r->pending--;
  r->lingering++;
  q->over = true;
  q->beacon = 0;
  drop_payload(q);
  if (!q->plain || !q->waiting) request_free(r, q);
  neap_rsvp_publish(r);
}

/* One target less to wait for. */
static void settle(struct rsvp *r, struct request *q, struct target *t, unsigned state)
{
  t->state = (uint8_t)state;
  q->waiting--;
  if (state == ACKED && !q->over && !q->sync) {
    struct neap_event acked = {.kind = NEAP_EVENT_ACKED,
      .ticket = q->ticket,
      .peer = neap_peer_ref(t->peer),
      .time = neap_now(&r->layer) - q->sent};
    neap_event_up(&r->layer, &acked);
  }
  if (q->waiting) return;
  if (q->over) {
    request_free(r, q);
    neap_rsvp_publish(r);
  } else {
    neap_rsvp_finish(r, q, !q->to || state == ACKED ? 0 : state == LEFT ? NEAP_LEFT : NEAP_SPLIT);
  }
}

struct target *neap_rsvp_target(const struct request *q, const struct neap_peer *peer)
{
  for (uint32_t i = 0; i < q->count; i++)
    if (q->targets[i].peer == peer && q->targets[i].state == WAITING) return &q->targets[i];
  return NULL;
}

void neap_rsvp_credit(
  struct rsvp *r, struct neap_peer *peer, uint16_t id, bool own, uint64_t number)
{
  struct request *q = by_id(r, id);
  struct target *t = q && q->flies ? neap_rsvp_target(q, peer) : NULL;
  bool meant = t && (own ? number == q->number : q->plain);
  if (NEAP_IS_MUTANT(453)) meant = t != NULL;
  if (meant)
    settle(r, q, t, ACKED);
  else
    r->stale++; /* A second answer, or one to a request that is over. */
}

void neap_rsvp_release(struct rsvp *r, const struct neap_peer *peer, unsigned state)
{
  for (struct neap_link *at = r->requests.next, *next; at != &r->requests; at = next) {
    struct request *q = neap_rsvp_request(at);
    next = at->next;
    struct target *t = q->flies ? neap_rsvp_target(q, peer) : NULL;
    if (t) settle(r, q, t, state);
  }
}

void neap_rsvp_reset(struct rsvp *r, struct neap_peer *peer)
{
  for (struct neap_link *at = r->requests.next, *next; at != &r->requests; at = next) {
    struct request *q = neap_rsvp_request(at);
    next = at->next;
    if (!q->flies || q->over || !neap_rsvp_target(q, peer)) continue;
    if (q->to) { /* Its message may be among those that were given up. */
      r->resets++;
      neap_rsvp_finish(r, q, NEAP_RESET);
    } else { /* Its answer may have been. */
      neap_rsvp_beacon_soon(r, q);
    }
  }
  /* And our answers to it: they went the same way. */
  if (peer->self || !peer->generation || !neap_in_view(r->layer.view, peer)) return;
  struct neap_msg *m = neap_msg_own(&r->layer, peer, NEAP_OOB);
  *neap_rsvp_own_head_put(m, &r->layer) = (struct neap_rsvp_own_head){.number = 0};
  neap_pass_down_msg(&r->layer, m);
}

/* ---- the beginning of a send ---- */

/* The next id that nobody can still answer; false when there is none. */
static bool take_id(struct rsvp *r, struct request *q)
{
  for (uint32_t tried = 0; tried < r->ids; tried++) {
    q->id = r->next_id;
    r->next_id = (uint16_t)((r->next_id + 1u) % r->ids);
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
  q->targets[q->count++] = (struct target){neap_peer_ref(peer), WAITING};
  q->waiting++;
  q->plain |= !peer->generation;
}

/* Everybody in the view, or the one it is for. */
static void aim(struct rsvp *r, struct request *q, const struct neap_view *view,
  struct neap_peer *to, bool without_self)
{
  q->to = neap_peer_ref(to);
  q->targets = calloc(to || !view ? 1 : view->count, sizeof *q->targets);
  NEAP_ASSERT(q->targets);
  (void)r;
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
  if (!q->waiting) /* Nobody else is here. */
    neap_rsvp_finish(r, q, 0);
  else
    neap_rsvp_watch(r, q);
}

static void refuse(struct rsvp *r, struct request *q)
{
  r->refused++;
  q->plain = false; /* Nobody will answer it. */
  neap_rsvp_finish(r, q, NEAP_REFUSED);
}

void neap_rsvp_ask(struct rsvp *r, const struct neap_event *event)
{
  r->begun++;
  request_new(r, event);
}

void neap_rsvp_send(struct rsvp *r, struct neap_msg *m)
{
  struct request *q = neap_rsvp_by_ticket(r, m->ticket);
  NEAP_ASSERT(q && !q->flies); /* ASK came just before. */
  aim(r, q, r->layer.view, m->to, m->marks & NEAP_NO_LOOPBACK);
  if (!take_id(r, q)) {
    m->flags &= (uint16_t)~NEAP_RSVP; /* It goes, and nobody waits for it. */
    refuse(r, q);
    return;
  }
  if (r->resend == RESEND_PAYLOAD) q->payload = neap_msg_clone(m);
  neap_rsvp_head(r, m, q, NEAP_RSVP_REQUEST);
  launch(r, q);
}

/* Sends only the beacon, to those who answer one. */
static void launch_bare(struct rsvp *r, struct request *q)
{
  bool anybody = q->waiting;
  if (q->plain || !take_id(r, q)) {
    refuse(r, q);
    return;
  }
  launch(r, q);
  if (anybody) neap_rsvp_beacon_now(r, q);
}

void neap_rsvp_flush(struct rsvp *r, const struct neap_event *event)
{
  r->begun++;
  struct request *q = request_new(r, event);
  q->ack_on = ON_COMPLETION;
  aim(r, q, r->layer.view, event->peer, true);
  launch_bare(r, q);
}

void neap_rsvp_sync(struct rsvp *r, const struct neap_event *event)
{
  struct neap_event ask = {.time = event->time, .number = ON_COMPLETION};
  struct request *q = request_new(r, &ask);
  q->sync = event->number;
  aim(r, q, event->view, NULL, true);
  launch_bare(r, q);
}

/* ---- views ---- */

void neap_rsvp_view(struct rsvp *r)
{
  const struct neap_view *view = r->layer.view;
  for (struct neap_link *at = r->requests.next, *next; at != &r->requests; at = next) {
    struct request *q = neap_rsvp_request(at);
    next = at->next;
    /* Its view has not come so far when older ones rise. */
    if (!q->flies || view->number < q->sync) continue;
    uint32_t left = q->waiting; /* The last one to settle may free it. */
    for (uint32_t i = 0; left; i++) {
      if (q->targets[i].state != WAITING) continue;
      left--;
      if (!neap_in_view(view, q->targets[i].peer))
        settle(r, q, &q->targets[i], view->merged ? SPLIT : LEFT);
    }
  }
  for (struct neap_link *at = r->requests.next; at != &r->requests; at = at->next)
    if (neap_rsvp_request(at)->sender_finds) neap_rsvp_beacon_soon(r, neap_rsvp_request(at));
}

void neap_rsvp_close(struct rsvp *r)
{
  while (!neap_link_alone(&r->requests)) request_free(r, neap_rsvp_request(r->requests.next));
}
