/* Connections: how they begin, end, and what is remembered of them.
 *
 *     sending     nothing -- a message --> open, the next id -- by hand, by age --> closed
 *     receiving   nothing -- a first --> open -- CLOSE, by hand, by age --> closing
 *                 -- all that was handed up is released, what was stored is gone --> remembered
 *                 -- by age --> nothing
 *
 * A memory knows the id, what was applied, and the mode: a first of that window goes on there.  A
 * first of an id that is not newer than entry or memory is a zombie of an older life. */

#include "layers/unicast/unicast.h"

struct neap_msg *neap_unicast_own(
  struct unicast *u, struct peer *p, struct neap_uni_head head, unsigned flags)
{
  struct neap_msg *m = neap_msg_own(&u->layer, p->peer, flags);
  *neap_uni_head_put_form(m, &u->layer, p->form) = head;
  return m;
}

/* Reports wait for the application, so most samples are too long: they count little, and the short
 * ones much. */
void neap_unicast_rtt(struct peer *p, uint64_t sample)
{
  if (!sample) sample = 1; /* 0 says that nobody has measured. */
  if (!p->rtt) {
    p->rtt = sample;
    p->rtt_spread = sample / 2;
    return;
  }
  if (sample > 4 * p->rtt) sample = 4 * p->rtt;
  uint64_t off = sample > p->rtt ? sample - p->rtt : p->rtt - sample;
  p->rtt_spread = (3 * p->rtt_spread + off) / 4;
  p->rtt = sample > p->rtt ? p->rtt + off / 8 : p->rtt - off / 2;
}

/* ---- peers ---- */

struct peer *neap_unicast_peer(struct unicast *u, struct neap_peer *peer)
{
  struct neap_layer *layer = &u->layer;
  struct peer *p = neap_peer_state(layer, peer);
  if (p->peer) return p;
  p->peer = peer;
  p->mode = (uint8_t)u->retransmission;
  p->member = neap_in_view(layer->view, peer);
  p->left = neap_now(layer);
  neap_timer_init(layer, &p->out.tail, neap_unicast_tail);
  neap_timer_init(layer, &p->in.gap, neap_unicast_gap_due);
  neap_timer_init(layer, &p->in.repeat, neap_unicast_repeat_due);
  neap_timer_init(layer, &p->in.report, neap_unicast_report_due);
  neap_timer_init(layer, &p->in.ask, neap_unicast_ask_due);
  neap_timer_init_background(layer, &p->age, neap_unicast_age_due);
  /* Sends to a member start after its view, which made this state: nothing is on its way here. */
  p->out.taken = p->out.freed = neap_gate_at(layer, peer);
  neap_unicast_publish(u, p);
  return p;
}

static void hold(struct unicast *u, struct peer *p)
{
  p->held = true;
  neap_peer_hold(&u->layer, p->peer);
  neap_unicast_plan(u, p);
}

/* ---- the sending half ---- */

void neap_unicast_open_out(struct unicast *u, struct peer *p)
{
  struct out *o = &p->out;
  o->conn = (uint16_t)(o->numbered ? (o->conn + 1u) % NEAP_UNI_CONNS : u->first_conn);
  o->base = o->conn;
  o->numbered = o->open = true;
  o->heard = o->first = o->syncing = false;
  o->mode = (uint8_t)neap_unicast_mode(p);
  o->epoch = o->mode == NEAP_UNI_NAK_MODE; /* A window begins in ack mode. */
  o->pause = o->probe = o->answered_at = o->turn = 0;
  o->nonce = o->turns = 0;
  o->used = neap_now(&u->layer);
  neap_window_init(&o->window, u->first_seqno - 1, NEAP_UNI_SEQNOS);
  u->senders++;
  if (!p->peer->self) hold(u, p);
}

/* True: something was not reported. */
static bool stop_out(struct unicast *u, struct peer *p)
{
  struct out *o = &p->out;
  bool lost = neap_unicast_unreported(o);
  if (!o->open) return false;
  neap_unicast_purge(u, p, o->window.high);
  neap_window_done(&o->window);
  neap_timer_stop(&o->tail);
  o->open = o->syncing = false;
  o->turn = o->turns = 0;
  u->senders--;
  return lost;
}

void neap_unicast_close_out(struct unicast *u, struct peer *p, bool tell)
{
  struct out *o = &p->out;
  if (!o->open) return;
  bool lost = stop_out(u, p);
  u->closed++;
  if (tell && p->member) { /* It may forget as well. */
    struct neap_uni_head head = {.type = NEAP_UNI_CLOSE, .conn = (int16_t)o->conn};
    neap_pass_down_msg(&u->layer, neap_unicast_own(u, p, head, NEAP_NO_FC));
  }
  if (lost) {
    u->resets++;
    neap_event_up(
      &u->layer, &(struct neap_event){.kind = NEAP_EVENT_RESET, .peer = neap_peer_ref(p->peer)});
  }
  neap_unicast_publish(u, p);
  neap_unicast_follow(u);
}

/* ---- the receiving half ---- */

static void stop_in(struct unicast *u, struct peer *p)
{
  struct in *in = &p->in;
  if (!in->open) return;
  u->waiting -= in->window.waiting;
  neap_window_done(&in->window);
  neap_receipts_close(in->run);
  in->run = NULL;
  in->open = in->closing = in->ended = false;
  u->receivers--;
  neap_timer_stop(&in->gap);
  neap_timer_stop(&in->repeat);
  neap_timer_stop(&in->report);
}

/* A window that begins there, or further up where memory says so. */
static void open_in(struct unicast *u, struct peer *p, const struct start *start)
{
  struct in *in = &p->in;
  uint64_t at = start->at;
  stop_in(u, p);
  in->mode = NEAP_UNI_ACK_MODE;
  in->epoch = 0;
  if (in->remembered && neap_conn_within(start->base, start->conn, in->old_conn)) {
    if (neap_after(in->old_applied, at) && !NEAP_IS_MUTANT(406)) at = in->old_applied;
    in->mode = in->old_mode;
    in->epoch = in->old_epoch;
  }
  in->remembered = false;
  in->conn = start->conn;
  in->base = start->base;
  in->open = true;
  in->heard = in->asked = in->reported = at;
  in->risen = in->pause = in->probe = in->report_at = 0;
  in->used = neap_now(&u->layer);
  neap_window_init(&in->window, at, NEAP_UNI_SEQNOS);
  in->run = neap_receipts_new(&u->layer, p->peer, at);
  u->receivers++;
  hold(u, p);
}

/* Everything up to `at` was reported by an earlier life of this window: goes on behind it. */
static void move_in(struct unicast *u, struct peer *p, uint64_t at)
{
  struct in *in = &p->in;
  u->moved++;
  u->waiting -= in->window.waiting;
  neap_window_purge(&in->window, at, true);
  u->waiting += in->window.waiting;
  neap_receipts_close(in->run); /* What is still with the application was reported before. */
  in->run = neap_receipts_new(&u->layer, p->peer, at);
  in->reported = at;
  if (neap_after(at, in->heard)) in->heard = at;
  if (neap_after(at, in->asked)) in->asked = at;
}

bool neap_unicast_over(const struct in *in, uint16_t conn)
{
  if (NEAP_IS_MUTANT(402)) return false;
  if (in->open) return conn != in->conn && !neap_conn_newer(conn, in->conn);
  return in->remembered && conn != in->old_conn && !neap_conn_newer(conn, in->old_conn);
}

void neap_unicast_begin(
  struct unicast *u, struct peer *p, const struct start *said, struct neap_batch *up)
{
  struct in *in = &p->in;
  struct start start = *said;
  if ((unsigned)(start.conn - start.base) % NEAP_UNI_CONNS >= NEAP_UNI_CONNS / 2) {
    u->bad++;
    start.base = start.conn;
  }
  bool same = in->open && in->conn == start.conn, fresh = false;
  if (in->open && neap_conn_within(start.base, start.conn, in->conn) && !NEAP_IS_MUTANT(415)) {
    in->conn = start.conn; /* A handshake gave this window another id, or it is the same. */
    in->base = start.base;
    if (neap_after(start.at, in->window.hd)) move_in(u, p, start.at);
  } else {
    fresh = true;
    open_in(u, p, &start);
    neap_pass_up(&u->layer, up);
    neap_event_up(
      &u->layer, &(struct neap_event){.kind = NEAP_EVENT_BEGUN, .peer = neap_peer_ref(p->peer)});
  }
  neap_unicast_adopt(u, p, start.epoch, start.mode);
  /* A sender in nak mode wants to be sure that somebody is there. */
  if (fresh && in->mode == NEAP_UNI_NAK_MODE) in->report_at = in->window.hd + 1;
  neap_unicast_release(u, p, in->window.hd, up);
  /* While a handshake is on its way only that is an answer to it. */
  if (!same || (in->syncing && !in->nonce)) neap_unicast_drain(u, p, up);
}

void neap_unicast_forget(struct unicast *u, struct peer *p)
{
  struct in *in = &p->in;
  if (!in->open) return;
  /* A message that comes again would be taken for a new one; one that waits may have been answered
   * for, or handed up out of order. */
  bool busy = in->run->mover.out || (in->window.stored && p->member && !in->ended);
  if (busy && !NEAP_IS_MUTANT(405)) {
    in->closing = true;
    in->used = neap_now(&u->layer);
    neap_unicast_plan(u, p);
    return;
  }
  in->remembered = true;
  in->old_conn = in->conn;
  in->old_mode = in->mode;
  in->old_epoch = in->epoch;
  in->old_applied = in->run->applied;
  in->old_until = u->conn_close_timeout ? neap_now(&u->layer) + u->conn_close_timeout : UINT64_MAX;
  u->forgotten++;
  stop_in(u, p);
  neap_unicast_plan(u, p);
}

void neap_unicast_drop_early(struct unicast *u, struct peer *p)
{
  u->early -= p->in.early.count;
  neap_batch_free(&p->in.early);
  p->in.tries = p->in.nonce = 0;
  p->in.syncing = false;
  neap_timer_stop(&p->in.ask);
}

void neap_unicast_drop_in(struct unicast *u, struct peer *p)
{
  stop_in(u, p);
  neap_unicast_drop_early(u, p);
  p->in.remembered = false;
}

/* ---- views ---- */

static void set_member(struct unicast *u, struct peer *p, bool member)
{
  if (p->member == member) return;
  p->member = member;
  if (member) {
    neap_unicast_publish(u, p);
    neap_unicast_watch_tail(u, p);
    if (p->in.open) neap_unicast_watch_gaps(u, p);
  } else { /* It is kept for a while in case it comes back, and left in peace. */
    p->left = neap_now(&u->layer);
    p->out.until = p->left;
    p->in.halted = true;
    neap_timer_stop(&p->out.tail);
    neap_timer_stop(&p->in.gap);
    neap_timer_stop(&p->in.repeat);
    neap_unicast_drop_early(u, p);
  }
  neap_unicast_plan(u, p);
}

void neap_unicast_view(struct unicast *u)
{
  struct neap_view *view = u->layer.view;
  struct peer *p;
  neap_each_peer (&u->layer, p) {
    if (p->peer) set_member(u, p, neap_in_view(view, p->peer));
  }
  /* Each member has its room at the gate before the application sees the view. */
  for (uint32_t i = 0; i < view->count; i++) neap_unicast_peer(u, view->members[i]);
  neap_unicast_follow(u); /* Who left is not waited for. */
}

void neap_unicast_gone(struct neap_layer *layer, struct neap_peer *peer, void *state)
{
  struct unicast *u = (struct unicast *)layer;
  struct peer *p = state;
  if (!p->peer) return;
  stop_out(u, p);
  neap_unicast_drop_in(u, p);
  if (p->in.run) neap_receipts_close(p->in.run); /* this member's own */
  neap_timer_stop(&p->age);
  if (!peer->self) neap_gate_open(layer, peer);
}
