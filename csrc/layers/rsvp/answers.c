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
 * A beacon comes in the order of the stream, so when it rises everything before it has risen: its
 * request as well, or it lies below where this member began.  It is answered unless the request is
 * with the application still.  One that is early is answered only if it was before.
 *
 * While a state is being taken this member's streams say what it will have: what would be answered
 * on the strength of that is answered when the state is there; or when there will be none, for then
 * the streams go on where they were and nothing was left out.
 *
 * Invariant: a peer is held exactly while something of it is owed, so a message that is with the
 * application is known even when its sender left the view and came back. */

#include "layers/rsvp/rsvp.h"

#include <stdlib.h>

static struct owed *find(struct peer *p, uint16_t id, uint64_t number, unsigned states)
{
  if (!p || !p->who) return NULL;
  for (struct neap_link *at = p->owed.next; at != &p->owed; at = at->next) {
    struct owed *o = NEAP_HOLDER(at, struct owed, link);
    if (o->id == id && o->number == number && o->state & states) return o;
  }
  return NULL;
}

static void drop(struct rsvp *r, struct peer *p, struct owed *o)
{
  neap_link_remove(&o->link);
  p->told -= o->state == TOLD;
  free(o);
  r->owed--;
  if (neap_link_alone(&p->owed)) neap_peer_release(&r->layer, p->who);
}

/* Takes out those in one of these states; `most`: so many of them at most. */
static void drop_all(struct rsvp *r, struct peer *p, unsigned states, uint32_t most)
{
  if (!p->who) return;
  for (struct neap_link *at = p->owed.next, *next; at != &p->owed && most; at = next) {
    struct owed *o = NEAP_HOLDER(at, struct owed, link);
    next = at->next;
    if (!(o->state & states)) continue;
    drop(r, p, o);
    most--;
  }
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
  *a =
    (struct asked){.id = (uint16_t)head->id, .number = own ? own->number : 0, .own = own != NULL};
  a->ack_on = own ? own->ack_on : m->from->self ? neap_rsvp_ack_on(r, a->id) : (uint8_t)r->ack_on;
  return true;
}

static void keep(struct rsvp *r, struct neap_peer *peer, const struct asked *a, unsigned state)
{
  /* Nobody waits there any more, and what its streams still lack may never come. */
  if (state & (HERE | TOLD | RISEN) && !neap_in_view(r->layer.view, peer)) return;
  struct peer *p = neap_peer_state(&r->layer, peer);
  if (!p->who) neap_link_init(&p->owed);
  p->who = peer;
  if (neap_link_alone(&p->owed)) neap_peer_hold(&r->layer, peer);
  struct owed *o = calloc(1, sizeof *o);
  NEAP_ASSERT(o);
  *o = (struct owed){.number = a->number, .id = a->id, .own = a->own, .state = (uint8_t)state};
  neap_link_init(&o->link);
  neap_link_before(&p->owed, &o->link);
  r->owed++;
  /* Some may never rise: their connection was given up.  An answer too many does no harm. */
  if (state == TOLD && ++p->told > RSVP_TOLD) drop_all(r, p, TOLD, 1);
}

static void answer(struct rsvp *r, struct neap_peer *peer, const struct asked *a)
{
  if (peer->self) { /* To oneself without a message. */
    neap_rsvp_credit(r, peer, a->id, a->own, a->number);
    return;
  }
  if (!neap_in_view(r->layer.view, peer)) return; /* Nobody waits there any more. */
  struct neap_msg *m = neap_msg_own(&r->layer, peer, NEAP_OOB | NEAP_DONT_BUNDLE | NEAP_RSVP);
  *neap_rsvp_head_put(m, &r->layer) =
    (struct neap_rsvp_head){.type = NEAP_RSVP_RESPONSE, .id = (int16_t)a->id};
  if (a->own)
    *neap_rsvp_own_head_put(m, &r->layer) =
      (struct neap_rsvp_own_head){.ack_on = a->ack_on, .number = a->number};
  r->answered++;
  neap_pass_down_msg(&r->layer, m);
}

/* Answers what is so by where the streams are; that counts only when a state is there. */
static void answer_position(struct rsvp *r, struct neap_peer *peer, const struct asked *a)
{
  if (r->taking && !peer->self && !NEAP_IS_MUTANT(454))
    keep(r, peer, a, LATE);
  else
    answer(r, peer, a);
}

void neap_rsvp_stored(struct rsvp *r, const struct neap_event *event)
{
  struct neap_msg *m = event->msg;
  struct asked a;
  struct peer *p = m ? neap_peer_state_have(&r->layer, m->from) : NULL;
  if (m && asked(r, m, NEAP_RSVP_BEACON, &a)) {
    if (!event->flag && find(p, a.id, a.number, TOLD) && !find(p, a.id, a.number, LATE))
      answer_position(r, m->from, &a);
    return;
  }
  if (!m || !asked(r, m, NEAP_RSVP_REQUEST, &a) || a.ack_on >= ON_DELIVERY) return;
  if (a.ack_on == ON_RECEPTION && neap_oob(m)) return; /* It rises in this very turn. */
  if (a.ack_on == ON_COMPLETION && !event->flag && !NEAP_IS_MUTANT(452)) {
    if (neap_oob(m) && event->fresh) keep(r, m->from, &a, HERE);
    return;
  }
  if (find(p, a.id, a.number, TOLD)) return;
  struct owed *waits = find(p, a.id, a.number, HERE | RISEN);
  answer_position(r, m->from, &a);
  if (waits && waits->state == HERE) {
    waits->state = TOLD;
    p->told++;
  } else if (waits) {
    drop(r, p, waits);
  } else if (event->fresh || !neap_oob(m)) { /* Else it rose, and was forgotten with its sender. */
    keep(r, m->from, &a, TOLD);
  }
}

/* What rides on a message that was handed up: its id, and whether its own header came with it. */
enum { DONE_OWN = 1 << 16 };

void neap_rsvp_rise(struct rsvp *r, struct neap_msg *m)
{
  struct asked a;
  if (!asked(r, m, NEAP_RSVP_REQUEST, &a)) return;
  struct peer *p = neap_peer_state_have(&r->layer, m->from);
  struct owed *told = p && p->told ? find(p, a.id, a.number, TOLD) : NULL;
  if (told) {
    drop(r, p, told);
  } else if (a.ack_on >= ON_DELIVERY) {
    neap_done_give(&r->layer, m, a.own ? a.id | DONE_OWN : a.id, a.number);
    keep(r, m->from, &a, HANDED);
  } else if (a.ack_on == ON_COMPLETION && neap_oob(m)) {
    struct owed *here = find(p, a.id, a.number, HERE);
    if (here)
      here->state = RISEN;
    else
      keep(r, m->from, &a, RISEN);
  } else {
    answer_position(r, m->from, &a);
  }
}

void neap_rsvp_finished(struct rsvp *r, const struct neap_event *event)
{
  struct asked a = {.id = (uint16_t)event->number,
    .number = event->time,
    .own = event->number & DONE_OWN,
    .ack_on = ON_DELIVERY};
  struct peer *p = neap_peer_state_have(&r->layer, event->peer);
  struct owed *o = find(p, a.id, a.number, HANDED);
  if (!o) return; /* The layer closes. */
  drop(r, p, o);
  answer(r, event->peer, &a);
}

void neap_rsvp_beacon(struct rsvp *r, const struct neap_msg *m)
{
  struct asked a;
  if (m->from->self || !asked(r, m, NEAP_RSVP_BEACON, &a)) return;
  struct peer *p = neap_peer_state_have(&r->layer, m->from);
  if (find(p, a.id, a.number, NEAP_IS_MUTANT(451) ? LATE : HANDED | LATE)) return;
  struct owed *o = find(p, a.id, a.number, TOLD | RISEN);
  if (o) drop(r, p, o);
  r->reanswered++;
  answer_position(r, m->from, &a);
}

/* ---- departures, and states ---- */

void neap_rsvp_departed(struct rsvp *r)
{
  struct peer *p;
  neap_each_peer (&r->layer, p)
    if (p->who && !neap_in_view(r->layer.view, p->who))
      drop_all(r, p, HERE | TOLD | RISEN | LATE, UINT32_MAX);
}

void neap_rsvp_taking(struct rsvp *r, bool taking)
{
  struct peer *p;
  r->taking = taking;
  neap_each_peer (&r->layer, p) {
    if (taking || !p->who) continue;
    for (struct neap_link *at = p->owed.next; at != &p->owed; at = at->next) {
      const struct owed *o = NEAP_HOLDER(at, struct owed, link);
      if (o->state == LATE)
        answer(r, p->who, &(struct asked){.id = o->id, .number = o->number, .own = o->own});
    }
    drop_all(r, p, LATE, UINT32_MAX);
  }
}

void neap_rsvp_forget(struct rsvp *r, struct peer *p)
{
  drop_all(r, p, HERE | TOLD | RISEN | HANDED | LATE, UINT32_MAX);
}
