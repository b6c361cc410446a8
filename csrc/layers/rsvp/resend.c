/* rsvp's resends: what is sent again while a request waits.
 *
 *     auto      beacons: one each resend_interval where receivers find a loss at the tail; where
 *               the sender finds it only for an answer that died with its sender's table: one
 *               after each view, toggle or reset, else with pauses that double up to a minute
 *     beacon    one each resend_interval, whoever finds it
 *     payload   the same with the body of the message (the sender's flush of JGRP-1389); not while
 *               there is no room for it
 *     off       nothing
 *
 * A beacon is a message behind the request, in its stream: a gap shows, and who has the request
 * answers when the beacon rises.  With the payload it is the same message, and the receiver, which
 * has the original before anything behind it can rise, drops what it brings: so an original never
 * comes twice.  (That is why it goes in order even when the original was out of band.)  Members
 * that are not Neap's ignore both.
 *
 * The copy of a payload costs little: who has not answered has not applied the message, mostly, so
 * a window keeps the same bytes. */

#include "layers/rsvp/rsvp.h"

/* Where the sender finds losses itself: the first after 2 s, then twice as long, up to 60 s. */
#define QUIET_PAUSE NEAP_S(2)
#define QUIET_PAUSE_MAX NEAP_S(60)

static bool quiet(const struct rsvp *r, const struct request *q)
{
  return r->resend == RESEND_AUTO && q->sender_finds;
}

static uint64_t first_pause(const struct rsvp *r, const struct request *q)
{
  if (r->resend == RESEND_OFF || !r->resend_interval) return 0;
  uint64_t pause = r->resend_interval;
  if (quiet(r, q)) return pause > QUIET_PAUSE ? pause : QUIET_PAUSE;
  uint64_t third = q->deadline ? (q->deadline - q->sent) / 3 : 0;
  return third && pause >= 3 * third ? third : pause; /* Some time is left for the answer. */
}

static void schedule(struct rsvp *r, struct request *q)
{
  q->pause = first_pause(r, q);
  q->beacon = q->pause ? neap_now(&r->layer) + q->pause : 0;
  if (q->beacon) neap_timer_sooner(&r->layer, &r->tick, q->pause);
}

void neap_rsvp_beacon_soon(struct rsvp *r, struct request *q)
{
  if (q->over || !q->flies || !q->beacon) return;
  q->pause = first_pause(r, q);
  q->beacon = neap_now(&r->layer);
  neap_timer_sooner(&r->layer, &r->tick, 0);
}

void neap_rsvp_head(struct rsvp *r, struct neap_msg *m, const struct request *q, unsigned type)
{
  *neap_rsvp_head_put(m, &r->layer) =
    (struct neap_rsvp_head){.type = (int8_t)type, .id = (int16_t)q->id};
  if (!q->plain)
    *neap_rsvp_own_head_put(m, &r->layer) =
      (struct neap_rsvp_own_head){.ack_on = q->ack_on, .number = q->number};
}

/* The tagged message again, admitted like any other; NULL when there is no room. */
static struct neap_msg *payload(struct rsvp *r, const struct request *q)
{
  struct neap_stack *stack = r->layer.stack;
  struct neap_gate_position room = neap_gate_room(stack, q->to);
  uint32_t len = q->payload->len;
  if (!room.messages || room.bytes < len || !neap_gate_admit(stack, q->to, len)) return NULL;
  struct neap_msg *m = neap_msg_clone(q->payload);
  m->charge = len;
  m->charges = 1;
  m->ticket = 0;
  m->flags = (uint16_t)((m->flags & ~NEAP_OOB) | NEAP_RSVP);
  m->marks |= NEAP_NO_LOOPBACK;
  r->payloads++;
  return m;
}

/* Without a body; it takes a place in the window all the same: beacons to one that is silent for
 * long would fill the memory otherwise. */
static struct neap_msg *bare(struct rsvp *r, const struct request *q)
{
  struct neap_stack *stack = r->layer.stack;
  if (!neap_gate_room(stack, q->to).messages || !neap_gate_admit(stack, q->to, 0)) return NULL;
  struct neap_msg *m = neap_msg_own(&r->layer, q->to, NEAP_RSVP);
  m->charges = 1;
  return m;
}

void neap_rsvp_beacon_now(struct rsvp *r, struct request *q)
{
  bool whole = q->payload && r->resend == RESEND_PAYLOAD;
  struct neap_msg *m = whole ? payload(r, q) : bare(r, q);
  if (quiet(r, q)) q->pause = q->pause * 2 < QUIET_PAUSE_MAX ? q->pause * 2 : QUIET_PAUSE_MAX;
  q->beacon = q->pause ? neap_now(&r->layer) + q->pause : 0;
  if (!m) {
    r->skipped++;
    return;
  }
  r->beacons += !whole;
  neap_rsvp_head(r, m, q, NEAP_RSVP_BEACON);
  neap_pass_down_msg(&r->layer, m);
}

void neap_rsvp_tick(struct neap_layer *layer, struct neap_timer *timer)
{
  struct rsvp *r = NEAP_HOLDER(timer, struct rsvp, tick);
  uint64_t now = neap_now(layer), due = UINT64_MAX;
  for (struct neap_link *at = r->requests.next, *next; at != &r->requests; at = next) {
    struct request *q = neap_rsvp_request(at);
    next = at->next;
    if (q->over || !q->flies) continue;
    if (q->deadline && q->deadline <= now) {
      r->timeouts++;
      neap_rsvp_finish(r, q, NEAP_TIMEOUT);
      continue;
    }
    if (q->beacon && q->beacon <= now) neap_rsvp_beacon_now(r, q);
    if (q->deadline && q->deadline < due) due = q->deadline;
    if (q->beacon && q->beacon < due) due = q->beacon;
  }
  if (due != UINT64_MAX) neap_timer_start(layer, timer, due - now);
}

/* ---- who finds a loss at the tail ---- */

static void ask_tail(struct rsvp *r, const struct request *q)
{
  struct neap_event tail = {.kind = NEAP_EVENT_TAIL,
    .ticket = q->ticket,
    .number = q->number,
    .peer = neap_peer_ref(q->to)};
  neap_ask_down(&r->layer, &tail);
}

void neap_rsvp_watch(struct rsvp *r, struct request *q)
{
  if (q->deadline) neap_timer_sooner(&r->layer, &r->tick, q->deadline - q->sent);
  schedule(r, q);
  ask_tail(r, q);
}

/* The newest requests are last, and answers come in the turn in which they were asked for. */
static struct request *by_number(struct rsvp *r, uint64_t number)
{
  for (struct neap_link *at = r->requests.prev; at != &r->requests; at = at->prev)
    if (neap_rsvp_request(at)->number == number) return neap_rsvp_request(at);
  return NULL;
}

void neap_rsvp_tail(struct rsvp *r, const struct neap_event *event)
{
  struct request *q = by_number(r, event->number);
  if (!q || !q->flies || q->over) return;
  bool before = q->sender_finds;
  q->sender_finds = !event->none && event->flag;
  if (q->sender_finds != before) schedule(r, q);
}

void neap_rsvp_mode(struct rsvp *r, const struct neap_peer *peer)
{
  for (struct neap_link *at = r->requests.next; at != &r->requests; at = at->next) {
    struct request *q = neap_rsvp_request(at);
    if (!q->flies || q->over || q->to != peer) continue;
    ask_tail(r, q);
    if (r->resend == RESEND_AUTO && q->beacon) neap_rsvp_beacon_now(r, q);
  }
}

void neap_rsvp_again(struct rsvp *r, const struct neap_peer *peer)
{
  r->again++;
  for (struct neap_link *at = r->requests.next; at != &r->requests; at = at->next)
    if (neap_rsvp_target(neap_rsvp_request(at), peer))
      neap_rsvp_beacon_soon(r, neap_rsvp_request(at));
}

void neap_rsvp_schedule(struct rsvp *r)
{
  for (struct neap_link *at = r->requests.next; at != &r->requests; at = at->next)
    if (neap_rsvp_request(at)->flies && !neap_rsvp_request(at)->over)
      schedule(r, neap_rsvp_request(at));
}
