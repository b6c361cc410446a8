/* rsvp's answers: when this member tells a sender that it has what was asked for.
 *
 *                     reception        completion             delivery
 *     stored          answer, TOLD     answer, TOLD if all    -
 *                                      before it is there
 *     rises           (answer) gone    (answer) gone,         HANDED
 *                                      out of band: RISEN
 *     all before it   -                RISEN: answer, gone    -
 *     freed           -                -                      answer, gone
 *
 * In brackets: only where the layer below did not say that it was stored.
 *
 * A beacon comes in the order of the stream, so when it rises everything before it has risen: it is
 * answered unless its request is with the application still. */

#include "layers/rsvp/rsvp.h"

#include <stdlib.h>

/* What rides on a message that was handed up: its id, and whether its own header came with it. */
enum { DONE_OWN = 1 << 16 };

static struct owed *find(struct peer *p, uint16_t id, uint64_t number)
{
  for (struct neap_link *at = p->listed ? p->owed.next : &p->owed; p->listed && at != &p->owed;
       at = at->next) {
    struct owed *o = NEAP_HOLDER(at, struct owed, link);
    if (o->id == id && o->number == number) return o;
  }
  return NULL;
}

static void drop(struct rsvp *r, struct owed *o)
{
  neap_link_remove(&o->link);
  free(o);
  r->owed--;
}

static void keep(struct rsvp *r, struct peer *p, uint16_t id, uint64_t number, unsigned state)
{
  if (!p->listed) neap_link_init(&p->owed);
  p->listed = true;
  struct owed *o = calloc(1, sizeof *o);
  NEAP_ASSERT(o);
  o->id = id;
  o->number = number;
  o->state = (uint8_t)state;
  neap_link_before(&p->owed, &o->link);
  r->owed++;
}

static void answer(struct rsvp *r, struct neap_peer *peer, uint16_t id, bool own, uint64_t number)
{
  if (peer->self) { /* To oneself without a message. */
    neap_rsvp_credit(r, peer, id, own, number);
    return;
  }
  if (!neap_in_view(r->layer.view, peer)) return; /* Nobody waits there any more. */
  struct neap_msg *m = neap_msg_own(&r->layer, peer, NEAP_OOB | NEAP_DONT_BUNDLE | NEAP_RSVP);
  *neap_rsvp_head_put(m, &r->layer) =
    (struct neap_rsvp_head){.type = NEAP_RSVP_RESPONSE, .id = (int16_t)id};
  if (own) *neap_rsvp_own_head_put(m, &r->layer) = (struct neap_rsvp_own_head){.number = number};
  r->answered++;
  neap_pass_down_msg(&r->layer, m);
}

/* What a message asks for; false: it is no request. */
struct asked {
  uint16_t id;
  uint64_t number;
  uint8_t ack_on;
  bool own;
};

static bool asked(const struct rsvp *r, const struct neap_msg *m, unsigned type, struct asked *a)
{
  const struct neap_rsvp_head *head = neap_rsvp_head_get(m, &r->layer);
  const struct neap_rsvp_own_head *own = neap_rsvp_own_head_get(m, &r->layer);
  if (!head || head->type != (int8_t)type) return false;
  *a = (struct asked){.id = (uint16_t)head->id,
    .number = own ? own->number : 0,
    .ack_on = own ? own->ack_on : (uint8_t)r->ack_on,
    .own = own != NULL};
  return true;
}

void neap_rsvp_stored(struct rsvp *r, const struct neap_event *event)
{
  struct neap_msg *m = event->msg;
  struct asked a;
  if (!m || !asked(r, m, NEAP_RSVP_REQUEST, &a) || a.ack_on >= ON_DELIVERY) return;
  if (a.ack_on == ON_RECEPTION && neap_oob(m)) return; /* It rises in this very turn. */
  if (a.ack_on == ON_COMPLETION && !event->flag) return;

  struct peer *p = neap_peer_state(&r->layer, m->from);
  struct owed *o = find(p, a.id, a.number);
  if (o && o->state == TOLD) return;
  answer(r, m->from, a.id, a.own, a.number);
  if (o)
    drop(r, o); /* It has risen. */
  else
    keep(r, p, a.id, a.number, TOLD);
}

void neap_rsvp_rise(struct rsvp *r, struct neap_msg *m)
{
  struct asked a;
  if (!asked(r, m, NEAP_RSVP_REQUEST, &a)) return;
  struct peer *p = neap_peer_state(&r->layer, m->from);
  struct owed *o = find(p, a.id, a.number);
  bool told = o && o->state == TOLD;
  if (o) drop(r, o);
  if (told) return;
  if (a.ack_on >= ON_DELIVERY) {
    neap_done_give(&r->layer, m, a.own ? a.id | DONE_OWN : a.id, a.number);
    keep(r, p, a.id, a.number, HANDED);
  } else if (a.ack_on == ON_COMPLETION && neap_oob(m)) {
    keep(r, p, a.id, a.number, RISEN);
  } else {
    answer(r, m->from, a.id, a.own, a.number);
  }
}

void neap_rsvp_finished(struct rsvp *r, const struct neap_event *event)
{
  uint16_t id = (uint16_t)event->number;
  struct peer *p = neap_peer_state_have(&r->layer, event->peer);
  struct owed *o = p ? find(p, id, event->time) : NULL;
  if (!o || o->state != HANDED) return; /* The member has left meanwhile. */
  drop(r, o);
  answer(r, event->peer, id, event->number & DONE_OWN, event->time);
}

void neap_rsvp_beacon(struct rsvp *r, const struct neap_msg *m)
{
  struct asked a;
  if (m->from->self || !asked(r, m, NEAP_RSVP_BEACON, &a)) return;
  struct peer *p = neap_peer_state(&r->layer, m->from);
  struct owed *o = find(p, a.id, a.number);
  if (o && o->state == HANDED) return;
  if (o) drop(r, o);
  r->reanswered++;
  answer(r, m->from, a.id, a.own, a.number);
}

void neap_rsvp_forget(struct rsvp *r, struct peer *p)
{
  while (p->listed && !neap_link_alone(&p->owed))
    drop(r, NEAP_HOLDER(p->owed.next, struct owed, link));
}
