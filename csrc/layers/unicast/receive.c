/* The receiving half: order, gaps, reports.
 *
 *        applied      hd                heard
 *           |  handed  |                  |      gap: a number below `heard` that did not come is
 *       ----+----------+--[ ][8][ ][10]---       asked for after gap_delay, again after two round
 *                                                trips, then with growing pauses
 *
 * What is reported is *applied*: the application is done with it. */

#include "layers/unicast/unicast.h"

/* A foreign peer that answers no request for its first seqno is given up after so many; so is one
 * that is in no view. */
enum { TRIES = 5 };

/* Strangers are cheap to forge: all together have no more early messages than so many peers. */
enum { EARLY_PEERS = 16 };

/* ---- gaps ---- */

/* Asks for what is missing in `from` .. `to`; returns how far it looked. */
static uint64_t ask(struct unicast *u, struct peer *p, uint64_t from, uint64_t to)
{
  struct in *in = &p->in;
  struct neap_uni_head head = {.type = NEAP_UNI_XMIT_REQ};
  uint64_t first = neap_window_missing(&in->window, from, to);
  if (!first) return to;
  struct neap_msg *m = neap_unicast_own(u, p, head, NEAP_OOB | NEAP_NO_FC);
  to = neap_seqnos_ask(m, &in->window, first, to, (uint32_t)u->max_xmit_req_size);
  u->requests_sent++;
  if (!in->probe) {
    in->probe = first;
    in->probe_at = neap_now(&u->layer);
  }
  neap_pass_down_msg(&u->layer, m);
  return to;
}

/* Two round trips, or as long as answers have taken; and what a busy moment takes. */
static uint64_t repeat_base(const struct unicast *u, const struct peer *p)
{
  uint64_t trip = neap_unicast_trip(p), base = NEAP_MS(2);
  if (base < 2 * trip) base = 2 * trip;
  if (base < trip + 4 * p->rtt_spread) base = trip + 4 * p->rtt_spread;
  return base < u->xmit_interval ? base : u->xmit_interval;
}

void neap_unicast_watch_gaps(struct unicast *u, struct peer *p)
{
  struct in *in = &p->in;
  if (!neap_after(in->heard, in->window.hd)) {
    neap_timer_stop(&in->gap);
    neap_timer_stop(&in->repeat);
    in->asked = in->heard;
    in->pause = 0;
    return;
  }
  if (in->halted && !p->member) return;
  in->halted = false;
  if (neap_after(in->heard, in->asked))
    neap_arm(&u->layer, &in->gap, u->gap_delay);
  else
    neap_arm(&u->layer, &in->repeat, in->pause ? in->pause : repeat_base(u, p));
}

/* The application takes nothing: what would come could not be kept. */
static bool full(const struct unicast *u)
{
  return !neap_rx_space(&u->layer);
}

/* Gaps that nobody has asked for yet. */
void neap_unicast_gap_due(struct neap_layer *layer, struct neap_timer *timer)
{
  struct unicast *u = (struct unicast *)layer;
  struct peer *p = NEAP_HOLDER(timer, struct peer, in.gap);
  struct in *in = &p->in;
  if (neap_after(in->window.hd, in->asked)) in->asked = in->window.hd;
  if (full(u))
    in->asked = in->heard;
  else
    in->asked = ask(u, p, in->asked + 1, in->heard);
  /* The rest of a wide range waits for the answers to the first part. */
  if (neap_after(in->heard, in->asked)) neap_timer_start(layer, timer, neap_unicast_trip(p));
  in->repaired = in->window.hd;
  neap_arm(layer, &in->repeat, repeat_base(u, p));
}

/* Those that were asked for and have not come. */
void neap_unicast_repeat_due(struct neap_layer *layer, struct neap_timer *timer)
{
  struct unicast *u = (struct unicast *)layer;
  struct peer *p = NEAP_HOLDER(timer, struct peer, in.repeat);
  struct in *in = &p->in;
  uint64_t base = repeat_base(u, p);
  if (!p->member && neap_now(layer) - in->used >= u->max_retransmit_time) {
    in->halted = true; /* Until it is heard again. */
    neap_timer_stop(&in->gap);
    return;
  }
  uint64_t pause = in->window.hd != in->repaired ? base : 2 * (in->pause ? in->pause : base);
  in->pause = pause < u->xmit_interval ? pause : u->xmit_interval;
  in->repaired = in->window.hd;
  if (!full(u)) ask(u, p, in->window.hd + 1, in->asked);
  neap_timer_start(layer, timer, in->pause);
}

void neap_unicast_ask_gaps(struct unicast *u, struct peer *p)
{
  if (p->in.open && neap_after(p->in.heard, p->in.window.hd))
    ask(u, p, p->in.window.hd + 1, p->in.heard);
}

/* ---- reports ---- */

void neap_unicast_report(struct unicast *u, struct peer *p)
{
  struct in *in = &p->in;
  uint64_t done = NEAP_IS_MUTANT(403) ? in->window.hd : in->run->applied;
  struct neap_uni_head head = {
    .type = NEAP_UNI_ACK, .seqno = done, .conn = (int16_t)in->conn, .stamp = ++u->stamp};
  in->reported = in->run->applied;
  in->risen = 0;
  u->acks_sent++;
  neap_timer_stop(&in->report);
  neap_pass_down_msg(&u->layer, neap_unicast_own(u, p, head, NEAP_NO_FC));
}

void neap_unicast_report_due(struct neap_layer *layer, struct neap_timer *timer)
{
  neap_unicast_report((struct unicast *)layer, NEAP_HOLDER(timer, struct peer, in.report));
}

void neap_unicast_applied(struct unicast *u, struct peer *p)
{
  struct in *in = &p->in;
  if (in->run->applied != in->reported) {
    /* An eighth of the window in bytes is a share that the sender can wait for. */
    if (in->run->applied - in->reported >= u->ack_threshold || in->risen >= u->window_bytes / 8)
      neap_unicast_report(u, p);
    else
      neap_arm(&u->layer, &in->report, u->ack_delay);
  }
  if (in->closing) neap_unicast_forget(u, p);
}

/* ---- what is tagged ---- */

static void tell_stored(
  struct unicast *u, struct peer *p, struct neap_msg *m, uint64_t seqno, bool all, bool fresh)
{
  m->refs++;
  neap_event_up(&u->layer, &(struct neap_event){.kind = NEAP_EVENT_STORED,
                             .msg = m,
                             .peer = neap_peer_ref(p->peer),
                             .number = seqno,
                             .code = p->in.conn,
                             .flag = all,
                             .fresh = fresh});
}

/* ---- messages ---- */

/* Something rises: what went up in this turn is not in the inboxes yet. */
static void rise(
  struct unicast *u, struct in *in, struct neap_msg *m, uint64_t seqno, struct neap_batch *up)
{
  in->risen += m->len;
  u->handed += m->len;
  neap_receipt_give(in->run, m, seqno);
  neap_put(up, m);
}

/* Hands up what is in order; `seqno` is the one that was just stored. */
static void release(struct unicast *u, struct peer *p, uint64_t seqno, struct neap_batch *up)
{
  struct in *in = &p->in;
  struct neap_msg *m;
  while ((m = neap_window_next(&in->window, false))) {
    uint64_t at = in->window.hd;
    u->waiting--;
    if (neap_tagged(m) && at != seqno) tell_stored(u, p, m, at, true, false);
    if (neap_oob(m)) { /* It was handed up when it came. */
      neap_msg_free(m);
      continue;
    }
    rise(u, in, m, at, up);
  }
}

/* Twice as far ahead as a sender may be.  The next in order never is; what is, is heard of only as
 * far as it will be asked for. */
static bool too_far(struct unicast *u, struct in *in, const struct neap_msg *m, uint64_t seqno)
{
  uint64_t most = in->window.hd + 2 * u->window_messages;
  if (seqno == in->window.hd + 1) return false;
  if (!neap_after(seqno, most) && in->window.bytes + m->len <= 2 * u->window_bytes) return false;
  u->far++;
  if (neap_after(seqno, most)) seqno = most;
  if (neap_after(seqno, in->heard)) in->heard = seqno;
  return true;
}

/* There is room for more than so many bytes, beside those that went up in this turn. */
static bool room(struct unicast *u, uint64_t bytes)
{
  uint64_t turn = u->layer.stack->turns;
  if (turn != u->handed_turn) u->handed = 0;
  u->handed_turn = turn;
  return neap_rx_space(&u->layer) > u->handed + bytes;
}

/* No room: counts it as heard of, so that it is asked for again.  What layers say to each other
 * passes: it may be what makes room. */
static bool no_room(struct unicast *u, struct in *in, const struct neap_msg *m, uint64_t seqno)
{
  if (room(u, seqno == in->window.hd + 1 ? 0 : in->window.bytes)) return false;
  if (m->flags & NEAP_NO_FC || (neap_oob(m) && !m->len)) return false;
  u->full++;
  if (neap_after(seqno, in->heard)) in->heard = seqno;
  return true;
}

static void store(
  struct unicast *u, struct peer *p, struct neap_msg *m, uint64_t seqno, struct neap_batch *up)
{
  struct in *in = &p->in;
  struct neap_msg *kept = m;
  if (!neap_after(seqno, in->window.hd) || neap_window_get(&in->window, seqno)) {
    u->twice++;
    /* The last report may be lost. */
    if (!neap_after(seqno, in->window.hd)) neap_arm(&u->layer, &in->report, u->ack_delay);
    neap_msg_free(m);
    return;
  }
  if (too_far(u, in, m, seqno) || no_room(u, in, m, seqno)) {
    neap_msg_free(m);
    return;
  }
  if (neap_oob(m)) { /* It rises at once; something else keeps its place in the order. */
    kept = neap_tagged(m) ? neap_msg_clone(m) : u->delivered;
    if (kept == u->delivered) kept->refs++;
  }
  NEAP_ASSERT(neap_window_add(&in->window, seqno, kept) == NEAP_ADDED);
  u->received++;
  u->waiting++;
  if (neap_after(seqno, in->heard)) in->heard = seqno;
  if (seqno == in->probe) {
    neap_unicast_rtt(p, neap_now(&u->layer) - in->probe_at);
    in->probe = 0;
  }
  if (neap_tagged(m)) tell_stored(u, p, m, seqno, seqno == in->window.hd + 1, true);
  if (kept != m) rise(u, in, m, seqno, up);
  release(u, p, seqno, up);
}

/* ---- without an entry ---- */

/* Keeps it for when the entry is there, and asks where the window begins. */
static void keep_early(struct unicast *u, struct peer *p, struct neap_msg *m)
{
  struct in *in = &p->in;
  uint64_t now = neap_now(&u->layer), wait = u->gap_delay;
  if (in->early.count >= u->early_max || u->early >= EARLY_PEERS * u->early_max) {
    u->early_dropped++;
    neap_msg_free(m);
  } else {
    u->early++;
    neap_put(&in->early, m);
  }
  if (!in->early.first) return;
  uint64_t next = in->asked_first + u->sync_min_interval;
  if (in->asked_first && next > now + wait) wait = next - now;
  neap_arm(&u->layer, &in->ask, wait);
}

void neap_unicast_ask_due(struct neap_layer *layer, struct neap_timer *timer)
{
  struct unicast *u = (struct unicast *)layer;
  struct peer *p = NEAP_HOLDER(timer, struct peer, in.ask);
  struct in *in = &p->in;
  if (!in->early.first) return;
  if (in->tries >= TRIES && (!p->peer->generation || !p->member)) {
    u->early_dropped += in->early.count;
    neap_unicast_drop_early(u, p);
    return;
  }
  in->tries++;
  in->stamp = ++u->stamp;
  in->asked_first = neap_now(layer);
  u->firsts_sent++;
  struct neap_uni_head head = {.type = NEAP_UNI_FIRST, .stamp = in->stamp};
  neap_pass_down_msg(layer, neap_unicast_own(u, p, head, NEAP_OOB | NEAP_NO_FC));
  neap_timer_start(layer, timer, u->sync_min_interval);
}

/* The entry is there: what came early goes in, if it belongs to it. */
static void drain_early(struct unicast *u, struct peer *p, struct neap_batch *up)
{
  struct neap_batch early = p->in.early;
  struct neap_msg *m;
  p->in.early = (struct neap_batch){0};
  neap_unicast_drop_early(u, p);
  u->early -= early.count;
  while ((m = neap_take(&early))) {
    const struct neap_uni_head *head = neap_uni_head_get(m, &u->layer);
    if ((uint16_t)head->conn == p->in.conn) {
      store(u, p, m, head->seqno, up);
    } else {
      u->early_dropped++;
      neap_msg_free(m);
    }
  }
}

/* ---- connections ---- */

/* An entry or a memory says that this connection is over. */
static bool over(const struct in *in, uint16_t conn)
{
  if (NEAP_IS_MUTANT(402)) return false;
  if (in->open) return conn != in->conn && !neap_conn_newer(conn, in->conn);
  return in->remembered && conn != in->old_conn && !neap_conn_newer(conn, in->old_conn);
}

/* The window of this connection begins after `at`, says its sender. */
static void begin(
  struct unicast *u, struct peer *p, uint16_t conn, uint64_t at, struct neap_batch *up)
{
  struct in *in = &p->in;
  if (!in->open || in->conn != conn) {
    neap_unicast_open_in(u, p, conn, at);
    drain_early(u, p, up);
  } else if (neap_after(at, in->window.hd)) {
    neap_unicast_move_in(u, p, at);
    release(u, p, at, up);
  }
}

void neap_unicast_data(struct unicast *u, struct peer *p, struct neap_msg *m, struct neap_batch *up)
{
  const struct neap_uni_head *head = neap_uni_head_get(m, &u->layer);
  struct in *in = &p->in;
  uint16_t conn = (uint16_t)head->conn;
  uint64_t seqno = head->seqno;
  in->used = neap_now(&u->layer);
  in->halted = false;
  if (over(in, conn)) {
    u->stale++;
    neap_msg_free(m);
  } else if (head->first) {
    begin(u, p, conn, seqno - 1, up);
    store(u, p, m, seqno, up);
  } else if (in->open && in->conn == conn) {
    store(u, p, m, seqno, up);
  } else {
    keep_early(u, p, m);
  }
}

void neap_unicast_empty(
  struct unicast *u, struct peer *p, const struct neap_uni_own_head *own, struct neap_batch *up)
{
  if (over(&p->in, (uint16_t)own->conn)) {
    u->stale++;
    return;
  }
  begin(u, p, (uint16_t)own->conn, own->high, up);
  neap_unicast_watch_gaps(u, p);
}

void neap_unicast_none(struct unicast *u, struct peer *p, uint32_t stamp)
{
  if (!p->in.early.first || stamp != p->in.stamp || !p->in.asked_first) {
    u->stale++;
    return;
  }
  u->early_dropped += p->in.early.count;
  neap_unicast_drop_early(u, p);
}

/* ---- a run ---- */

/* What a loss-free stream looks like: the next numbers, one after the other, and nothing waits. */
static bool in_line(struct unicast *u, const struct in *in, const struct neap_batch *batch)
{
  uint64_t next = in->window.hd + 1;
  if (!in->open || in->closing || in->heard != in->window.hd) return false;
  if (!room(u, batch->bytes)) return false;
  for (const struct neap_msg *m = batch->first; m; m = m->next) {
    const struct neap_uni_head *head = neap_uni_head_get(m, &u->layer);
    if (!head || head->type != NEAP_UNI_DATA || head->seqno != next++) return false;
    if ((uint16_t)head->conn != in->conn || neap_oob(m) || neap_tagged(m)) return false;
  }
  return true;
}

bool neap_unicast_run(struct unicast *u, struct peer *p, struct neap_batch *batch)
{
  struct in *in = &p->in;
  uint64_t seqno = in->window.hd;
  if (!in_line(u, in, batch)) return false;
  p->form = neap_uni_head_form(batch->first, &u->layer);
  for (struct neap_msg *m = batch->first; m; m = m->next) neap_receipt_give(in->run, m, ++seqno);
  neap_window_purge(&in->window, seqno, true); /* Nothing is in it: it only moves. */
  in->heard = in->asked = seqno;
  in->used = neap_now(&u->layer);
  in->halted = false;
  in->risen += batch->bytes;
  u->handed += batch->bytes;
  u->received += batch->count;
  return true;
}
