/* Connections: how they begin, end, and what is remembered of them.
 *
 *     sending     open -- idle conn_expiry_timeout, then conn_close_timeout --> closed, CLOSE sent
 *                   \---- out of the view for conn_close_timeout -----> closed; RESET if something
 *                                                                       was not reported
 *     receiving   open -- CLOSE, idle, or out of the view --> closing -- everything handed up is
 *                 released --> remembered for conn_close_timeout --> nothing
 *
 * A connection id is never used again while anybody could remember it: the counter outlives
 * everything else by a second conn_close_timeout. */

#include "layers/unicast/unicast.h"

/* What is closing looks so often whether the application is done. */
#define RECHECK NEAP_S(1)

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

static void age_due(struct neap_layer *layer, struct neap_timer *timer);

struct peer *neap_unicast_peer(struct unicast *u, struct neap_peer *peer)
{
  struct neap_layer *layer = &u->layer;
  struct peer *p = neap_peer_state(layer, peer);
  if (p->peer) return p;
  p->peer = peer;
  p->member = neap_in_view(layer->view, peer);
  p->left = neap_now(layer);
  neap_timer_init(layer, &p->out.tail, neap_unicast_tail);
  neap_timer_init(layer, &p->in.gap, neap_unicast_gap_due);
  neap_timer_init(layer, &p->in.repeat, neap_unicast_repeat_due);
  neap_timer_init(layer, &p->in.report, neap_unicast_report_due);
  neap_timer_init(layer, &p->in.ask, neap_unicast_ask_due);
  neap_timer_init_background(layer, &p->age, age_due);
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
  o->numbered = o->open = true;
  o->heard = o->first = false;
  o->pause = o->probe = o->answered_at = 0;
  o->used = neap_now(&u->layer);
  neap_window_init(&o->window, u->first_seqno - 1, NEAP_UNI_SEQNOS);
  u->senders++;
  if (!p->peer->self) hold(u, p);
}

void neap_unicast_close_out(struct unicast *u, struct peer *p, bool tell)
{
  struct out *o = &p->out;
  if (!o->open) return;
  bool lost = o->window.low != o->window.high;
  neap_unicast_purge(u, p, o->window.high);
  neap_window_done(&o->window);
  neap_timer_stop(&o->tail);
  o->open = false;
  u->senders--;
  if (!tell) return;
  u->closed++;
  if (p->member) { /* It may forget as well. */
    struct neap_uni_head head = {.type = NEAP_UNI_CLOSE, .conn = (int16_t)o->conn};
    neap_pass_down_msg(&u->layer, neap_unicast_own(u, p, head, NEAP_NO_FC));
  }
  if (lost) {
    u->resets++;
    neap_event_up(
      &u->layer, &(struct neap_event){.kind = NEAP_EVENT_RESET, .peer = neap_peer_ref(p->peer)});
  }
  neap_unicast_publish(u, p);
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
  in->open = in->closing = false;
  u->receivers--;
  neap_timer_stop(&in->gap);
  neap_timer_stop(&in->repeat);
  neap_timer_stop(&in->report);
}

void neap_unicast_open_in(struct unicast *u, struct peer *p, uint16_t conn, uint64_t at)
{
  struct in *in = &p->in;
  stop_in(u, p);
  if (in->remembered && in->old_conn == conn && neap_after(in->old_applied, at))
    at = NEAP_IS_MUTANT(406) ? at : in->old_applied;
  in->remembered = false;
  in->conn = conn;
  in->open = true;
  in->heard = in->asked = in->reported = at;
  in->risen = in->pause = in->probe = 0;
  in->used = neap_now(&u->layer);
  neap_window_init(&in->window, at, NEAP_UNI_SEQNOS);
  in->run = neap_receipts_new(&u->layer, p->peer, at);
  u->receivers++;
  hold(u, p);
}

void neap_unicast_move_in(struct unicast *u, struct peer *p, uint64_t at)
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

void neap_unicast_forget(struct unicast *u, struct peer *p)
{
  struct in *in = &p->in;
  if (!in->open) return;
  if (in->run->mover.out &&
      !NEAP_IS_MUTANT(405)) { /* A message that comes again would be taken for a new one. */
    in->closing = true;
    in->used = neap_now(&u->layer);
    neap_unicast_plan(u, p);
    return;
  }
  in->remembered = true;
  in->old_conn = in->conn;
  in->old_applied = in->run->applied;
  in->old_until = neap_now(&u->layer) + u->conn_close_timeout;
  u->forgotten++;
  stop_in(u, p);
  neap_unicast_plan(u, p);
}

void neap_unicast_drop_early(struct unicast *u, struct peer *p)
{
  u->early -= p->in.early.count;
  neap_batch_free(&p->in.early);
  p->in.tries = 0;
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
}

/* ---- age ---- */

static uint64_t later(uint64_t a, uint64_t b)
{
  return a > b ? a : b;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

/* When a half that was last used then may end; UINT64_MAX: never. */
static uint64_t half_end(const struct unicast *u, const struct peer *p, uint64_t used)
{
  if (!u->conn_close_timeout) return UINT64_MAX;
  if (!p->member) return later(p->left, used) + u->conn_close_timeout;
  if (!u->conn_expiry_timeout) return UINT64_MAX;
  return used + u->conn_expiry_timeout + u->conn_close_timeout;
}

static uint64_t out_end(const struct unicast *u, const struct peer *p)
{
  const struct out *o = &p->out;
  if (!o->open || (p->member && o->window.low != o->window.high)) return UINT64_MAX;
  return half_end(u, p, o->used);
}

static uint64_t in_end(const struct unicast *u, const struct peer *p)
{
  const struct in *in = &p->in;
  if (!in->open) return UINT64_MAX;
  if (in->closing) return in->used + RECHECK;
  /* A member's messages that wait for a gap are not idle: the gap is asked for. */
  if (p->member && in->window.stored) return UINT64_MAX;
  return half_end(u, p, in->used);
}

/* When the last of it goes, the counter of connection ids too. */
static uint64_t end(const struct unicast *u, const struct peer *p)
{
  if (p->member || !p->held || p->out.open || p->in.open || p->in.remembered) return UINT64_MAX;
  if (!u->conn_close_timeout) return UINT64_MAX;
  uint64_t last = later(p->left, later(p->out.used, p->in.used));
  return last + 2 * u->conn_close_timeout;
}

static uint64_t memory_end(const struct peer *p)
{
  return p->in.remembered ? p->in.old_until : UINT64_MAX;
}

void neap_unicast_plan(struct unicast *u, struct peer *p)
{
  if (p->peer->self) return;
  uint64_t at = sooner(sooner(out_end(u, p), in_end(u, p)), sooner(memory_end(p), end(u, p)));
  uint64_t now = neap_now(&u->layer);
  if (at == UINT64_MAX)
    neap_timer_stop(&p->age);
  else
    neap_timer_start(&u->layer, &p->age, at > now ? at - now : 0);
}

static void age_due(struct neap_layer *layer, struct neap_timer *timer)
{
  struct unicast *u = (struct unicast *)layer;
  struct peer *p = NEAP_HOLDER(timer, struct peer, age);
  uint64_t now = neap_now(layer);
  if (out_end(u, p) <= now) neap_unicast_close_out(u, p, true);
  if (in_end(u, p) <= now) neap_unicast_forget(u, p);
  if (memory_end(p) <= now) p->in.remembered = false;
  if (end(u, p) <= now) {
    p->held = false;
    neap_peer_release(layer, p->peer);
  }
  neap_unicast_plan(u, p);
}

void neap_unicast_gone(struct neap_layer *layer, struct neap_peer *peer, void *state)
{
  struct unicast *u = (struct unicast *)layer;
  struct peer *p = state;
  if (!p->peer) return;
  neap_unicast_close_out(u, p, false);
  neap_unicast_drop_in(u, p);
  if (p->in.run) neap_receipts_close(p->in.run); /* this member's own */
  neap_timer_stop(&p->age);
  if (!peer->self) neap_gate_open(layer, peer);
}
