/* mode: from ack to nak and back, in the connection itself.
 *
 *            who finds a loss at the tail         who reports                what frees
 *     ack    the sender: no report came           each share, or ack_delay   the report
 *     nak    the receiver: its report is lower,   each larger share, or      the report
 *            or the sender after stable_interval  stable_interval
 *
 *     seqno   ... 41  42 [MODE 1 nak] 44  45 ...     nothing is drained, nobody stops
 *                         T = 43
 *
 * T is an empty message with a number, so it is lost, repaired and put in order like all others.
 * Sending it switches the sender, consuming it the receiver, which reports when it has applied T.
 * Until then the sender finds losses as in ack mode.  The epoch counts the toggles of one window;
 * what says where a window begins says its epoch too, and the higher one wins.
 *
 * Whoever waits for a set waits for the newest T of every connection.
 *
 * Invariant: turn is set exactly while T is not reported. */

#include "layers/unicast/unicast.h"

#include <stdio.h>

enum neap_uni_mode neap_unicast_mode(const struct peer *p)
{
  return p->peer->generation && !p->peer->self ? (enum neap_uni_mode)p->mode : NEAP_UNI_ACK_MODE;
}

/* ---- who waits ---- */

static bool behind(const struct peer *p)
{
  return p->peer && p->member && p->out.open && p->out.turn;
}

static struct neap_found *missing(const struct unicast *u)
{
  const struct neap_view *view = u->layer.view;
  struct neap_found *found = neap_found_new(view ? view->count : 0);
  const struct peer *p;
  neap_each_peer (&u->layer, p) {
    if (!behind(p)) continue;
    neap_found_add(found, (struct neap_found_row){.peer = neap_peer_ref(p->peer)});
  }
  return found;
}

static void settle(struct unicast *u, int code)
{
  struct neap_event event = {.kind = NEAP_EVENT_SETTLED, .code = code, .found = missing(u)};
  snprintf(event.text, sizeof event.text, "%.64s.retransmission", u->layer.name);
  u->waited = false;
  u->toggles_settled++;
  neap_timer_stop(&u->mode_timer);
  neap_event_up(&u->layer, &event);
}

void neap_unicast_mode_due(struct neap_layer *layer, struct neap_timer *timer)
{
  struct unicast *u = NEAP_HOLDER(timer, struct unicast, mode_timer);
  (void)layer;
  if (u->waited) settle(u, NEAP_TIMEOUT);
}

void neap_unicast_follow(struct unicast *u)
{
  const struct peer *p;
  u->mode_pending = 0;
  neap_each_peer (&u->layer, p) u->mode_pending += behind(p);
  if (!u->mode_pending && u->waited) settle(u, NEAP_OK);
}

/* ---- toggling ---- */

/* The connection goes on in that mode from its next number on. */
static void say_mode(struct unicast *u, struct peer *p)
{
  struct out *o = &p->out;
  struct neap_msg *m = neap_msg_own(&u->layer, p->peer, 0);
  *neap_uni_own_head_put(m, &u->layer) = (struct neap_uni_own_head){.type = NEAP_UNI_MODE,
    .conn = (int16_t)o->conn,
    .base = (int16_t)o->base,
    .epoch = o->epoch,
    .mode = o->mode};
  neap_unicast_send(u, p, m);
  o->turn = o->window.high;
  o->turns++;
  neap_pass_down_msg(&u->layer, m);
}

void neap_unicast_toggle(struct unicast *u, struct peer *p, enum neap_uni_mode mode)
{
  struct out *o = &p->out;
  enum neap_uni_mode before = neap_unicast_mode(p);
  p->mode = (uint8_t)mode;
  if (neap_unicast_mode(p) == before) return;
  u->toggles++;
  if (o->open) {
    o->mode = p->mode;
    o->epoch++;
    o->probe = 0; /* Reports of the other mode come at another pace. */
    say_mode(u, p);
    o->pause = 0;
    neap_unicast_watch_tail(u, p);
  }
  neap_event_up(&u->layer, &(struct neap_event){.kind = NEAP_EVENT_MODE_CHANGED,
                             .peer = neap_peer_ref(p->peer),
                             .flag = mode == NEAP_UNI_ACK_MODE});
}

void neap_unicast_toggle_all(struct unicast *u)
{
  struct peer *p;
  neap_each_peer (&u->layer, p)
    if (p->peer) neap_unicast_toggle(u, p, (enum neap_uni_mode)u->retransmission);
  u->waited = true;
  if (u->mode_timeout) neap_timer_start(&u->layer, &u->mode_timer, u->mode_timeout);
  neap_unicast_follow(u);
}

/* ---- following ---- */

void neap_unicast_mark(struct unicast *u, struct peer *p, struct neap_msg *m)
{
  const struct out *o = &p->out;
  const struct neap_uni_own_head *had = neap_uni_own_head_get(m, &u->layer);
  struct neap_uni_own_head own = {.type = NEAP_UNI_EPOCH, .epoch = o->epoch, .mode = o->mode};
  if (had && had->type == NEAP_UNI_MODE) own = *had; /* Its place in the order counts. */
  if (!had && (!p->peer->generation || (!o->epoch && o->base == o->conn))) return;
  own.conn = (int16_t)o->conn;
  own.base = (int16_t)o->base;
  *neap_uni_own_head_put(m, &u->layer) = own;
}

void neap_unicast_adopt(struct unicast *u, struct peer *p, uint32_t epoch, uint8_t mode)
{
  struct in *in = &p->in;
  if (mode > NEAP_UNI_NAK_MODE) {
    u->bad++;
  } else if ((int32_t)(epoch - in->epoch) > 0 || NEAP_IS_MUTANT(407)) {
    in->epoch = epoch;
    in->mode = mode;
    u->toggles_followed++;
    neap_timer_stop(&in->report); /* It is due at the other mode's pace. */
    neap_unicast_applied(u, p);
  }
}

bool neap_unicast_is_mode(const struct unicast *u, const struct neap_msg *m)
{
  const struct neap_uni_own_head *own = neap_uni_own_head_get(m, &u->layer);
  return own && own->type == NEAP_UNI_MODE;
}

void neap_unicast_consume(struct unicast *u, struct peer *p, struct neap_msg *m, uint64_t seqno)
{
  const struct neap_uni_own_head *own = neap_uni_own_head_get(m, &u->layer);
  if (!NEAP_IS_MUTANT(408)) p->in.report_at = seqno;
  neap_receipt_done(p->in.run, seqno); /* APPLIED comes of it, and then the report. */
  neap_unicast_adopt(u, p, own->epoch, own->mode);
  neap_msg_free(m);
}
