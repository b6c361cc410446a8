/* The sending half: each message gets the next number and is kept until it is reported.
 *
 *     low            high
 *      |  unreported  |         tail: when nothing moved for a while, the highest goes again, so
 *     -[ ][ ][ ][ ][ ]-         that the receiver sees what it lacks and asks for it */

#include "layers/unicast/unicast.h"

/* ---- the gate ---- */

void neap_unicast_publish(struct unicast *u, struct peer *p)
{
  if (!p->member) return; /* The channel refuses to send there. */
  neap_gate_horizon(&u->layer, p->peer, p->out.freed.bytes + u->window_bytes,
    p->out.freed.messages + u->window_messages);
}

void neap_unicast_unkept(struct unicast *u, struct neap_msg *m)
{
  if (!m->charges && !m->charge) return;
  struct peer *p = neap_unicast_peer(u, m->to);
  p->out.taken.bytes += m->charge;
  p->out.freed.bytes += m->charge;
  p->out.taken.messages += m->charges;
  p->out.freed.messages += m->charges;
  neap_unicast_publish(u, p);
}

void neap_unicast_purge(struct unicast *u, struct peer *p, uint64_t seqno)
{
  struct out *o = &p->out;
  for (uint64_t s = o->window.low + 1; !neap_after(s, seqno); s++) {
    const struct neap_msg *m = neap_window_get(&o->window, s);
    if (!m) continue;
    o->freed.bytes += m->charge;
    o->freed.messages += m->charges;
    u->unacked--;
    u->unacked_bytes -= m->len;
  }
  neap_window_purge(&o->window, seqno, true);
}

/* ---- sending ---- */

static void tell_sent(struct unicast *u, struct peer *p, struct neap_msg *m, uint64_t seqno)
{
  m->refs++;
  neap_event_up(&u->layer, &(struct neap_event){.kind = NEAP_EVENT_SENT,
                             .msg = m,
                             .peer = neap_peer_ref(p->peer),
                             .number = seqno,
                             .code = p->out.conn});
}

/* Keeps it under the next number. */
static uint64_t keep(struct unicast *u, struct peer *p, struct neap_msg *m)
{
  struct out *o = &p->out;
  if (!o->open) neap_unicast_open_out(u, p);
  uint64_t seqno = o->window.high + 1;
  /* The gate bounds the bytes, fragments are at least 256 bytes, and layers send little. */
  NEAP_ASSERT(neap_window_add(&o->window, seqno, m) == NEAP_ADDED);
  o->taken.bytes += m->charge;
  o->taken.messages += m->charges;
  u->unacked++;
  u->unacked_bytes += m->len;
  o->used = o->progress = neap_now(&u->layer);
  if (neap_tagged(m)) tell_sent(u, p, m, seqno);
  return seqno;
}

void neap_unicast_send(struct unicast *u, struct peer *p, struct neap_msg *m)
{
  struct out *o = &p->out;
  bool fresh = !o->open;
  uint64_t seqno = keep(u, p, m);
  *neap_uni_head_put_form(m, &u->layer, p->form) = (struct neap_uni_head){
    .type = NEAP_UNI_DATA, .seqno = seqno, .conn = (int16_t)o->conn, .first = fresh || o->first};
  o->first = false;
  o->pause = 0;
  o->until = o->used + u->max_retransmit_time;
  if (!o->probe) {
    o->probe = seqno;
    o->probe_at = o->used;
  }
  u->sent++;
  m->refs++; /* The window has it, and so has who is below. */
  if (!o->tail.armed || o->tail.background_now) neap_unicast_watch_tail(u, p);
}

void neap_unicast_loop(struct unicast *u, struct peer *p, struct neap_msg *m, struct neap_batch *up)
{
  uint64_t seqno = keep(u, p, m);
  if (!p->in.run) p->in.run = neap_receipts_new(&u->layer, p->peer, seqno - 1);
  u->looped++;
  if (m->marks & NEAP_NO_LOOPBACK) {
    neap_receipt_done(p->in.run, seqno);
    return;
  }
  struct neap_msg *copy = neap_msg_clone(m);
  neap_receipt_give(p->in.run, copy, seqno);
  if (neap_tagged(m)) {
    m->refs++;
    neap_event_up(&u->layer, &(struct neap_event){.kind = NEAP_EVENT_STORED,
                               .msg = m,
                               .peer = neap_peer_ref(p->peer),
                               .number = seqno,
                               .code = p->out.conn,
                               .flag = true,
                               .fresh = true});
  }
  neap_put(up, copy);
}

/* ---- sending again ---- */

static void resend(
  struct unicast *u, struct peer *p, uint64_t seqno, bool first, struct neap_batch *batch)
{
  struct neap_msg *m = neap_msg_again(neap_window_get(&p->out.window, seqno));
  m->marks |= NEAP_SENT;
  if (first) {
    struct neap_uni_head head = *neap_uni_head_get(m, &u->layer);
    head.first = true; /* It stays true: what was reported never is unreported. */
    *neap_uni_head_put_form(m, &u->layer, p->form) = head;
  }
  if (seqno == p->out.probe) p->out.probe = 0; /* An answer could be for either. */
  neap_put(batch, m);
}

static bool unreported(const struct out *o)
{
  return o->open && o->window.low != o->window.high;
}

/* Longer than the slowest report that is on its way: the round trip and the peer's ack_delay, which
 * is taken to be as our own.  A slow application makes reports late without end; xmit_interval is
 * the longest. */
static uint64_t patience(const struct unicast *u, const struct peer *p)
{
  uint64_t trip = neap_unicast_trip(p);
  uint64_t spread = 4 * p->rtt_spread > trip ? 4 * p->rtt_spread : trip;
  uint64_t wait = u->ack_delay + trip + spread;
  if (wait < u->tail_delay) wait = u->tail_delay;
  return wait < u->xmit_interval ? wait : u->xmit_interval;
}

void neap_unicast_watch_tail(struct unicast *u, struct peer *p)
{
  if (!unreported(&p->out) || p->peer->self || NEAP_IS_MUTANT(404)) return;
  if (!p->member && neap_now(&u->layer) >= p->out.until) return;
  neap_arm(&u->layer, &p->out.tail, p->out.pause ? p->out.pause : patience(u, p));
}

void neap_unicast_resend_tail(struct unicast *u, struct peer *p)
{
  struct out *o = &p->out;
  struct neap_batch batch = {0};
  /* Until it reports, the receiver may have no window: its first message opens one. */
  if (!o->heard && o->window.low + 1 != o->window.high)
    resend(u, p, o->window.low + 1, true, &batch);
  resend(u, p, o->window.high, !o->heard && o->window.low + 1 == o->window.high, &batch);
  u->tail_xmits += batch.count;
  neap_pass_down(&u->layer, &batch);
}

void neap_unicast_tail(struct neap_layer *layer, struct neap_timer *timer)
{
  struct unicast *u = (struct unicast *)layer;
  struct peer *p = NEAP_HOLDER(timer, struct peer, out.tail);
  struct out *o = &p->out;
  uint64_t now = neap_now(layer);
  if (!unreported(o) || (!p->member && now >= o->until)) return;

  uint64_t pause = o->pause ? o->pause : patience(u, p), idle = now - o->progress;
  if (idle < pause) { /* Something moved meanwhile. */
    neap_timer_start(layer, timer, pause - idle);
    return;
  }
  neap_unicast_resend_tail(u, p);
  o->pause = 2 * pause < u->xmit_interval ? 2 * pause : u->xmit_interval;
  o->progress = now;
  neap_timer_start(layer, timer, o->pause);
}

/* ---- what the peer says ---- */

/* A timestamp counts once, and only if it is newer than all before it. */
static bool newer_stamp(struct unicast *u, struct out *o, uint32_t stamp)
{
  if (o->stamped && (int32_t)(stamp - o->stamp) <= 0 && !NEAP_IS_MUTANT(401)) {
    u->stale++;
    return false;
  }
  o->stamped = true;
  o->stamp = stamp;
  return true;
}

void neap_unicast_acked(
  struct unicast *u, struct peer *p, uint16_t conn, uint32_t stamp, uint64_t seqno)
{
  struct out *o = &p->out;
  u->acks_received++;
  if (!o->open || conn != o->conn || neap_after(seqno, o->window.high)) {
    u->stale++;
    return;
  }
  if (!newer_stamp(u, o, stamp)) return;
  o->heard = true;
  if (!neap_after(seqno, o->window.low)) return;

  uint64_t now = neap_now(&u->layer);
  if (o->probe && !neap_after(o->probe, seqno)) {
    uint64_t sample = now - o->probe_at; /* Its wait for company is not the way's. */
    neap_unicast_rtt(p, sample > u->ack_delay ? sample - u->ack_delay : sample);
    o->probe = 0;
  }
  neap_unicast_purge(u, p, seqno);
  o->progress = now;
  o->pause = 0;
  if (!unreported(o)) neap_timer_stop(&o->tail);
  neap_unicast_publish(u, p);
}

static void send_own(struct unicast *u, struct peer *p, enum neap_uni_own_type type, uint32_t stamp)
{
  const struct out *o = &p->out;
  struct neap_msg *m = neap_msg_own(&u->layer, p->peer, NEAP_OOB | NEAP_NO_FC);
  *neap_uni_own_head_put(m, &u->layer) = (struct neap_uni_own_head){.type = (uint8_t)type,
    .conn = (int16_t)o->conn,
    .base = (int16_t)o->conn,
    .stamp = stamp,
    .low = o->window.low,
    .high = o->window.high};
  neap_pass_down_msg(&u->layer, m);
}

/* Where the window begins: the lowest message that is not reported, or that there is none. */
static void answer_first(struct unicast *u, struct peer *p, uint32_t stamp)
{
  struct out *o = &p->out;
  struct neap_batch batch = {0};
  u->firsts_answered++;
  if (unreported(o)) {
    resend(u, p, o->window.low + 1, true, &batch);
    u->xmits++;
    neap_pass_down(&u->layer, &batch);
  } else if (p->peer->generation) {
    send_own(u, p, o->open ? NEAP_UNI_EMPTY : NEAP_UNI_NONE, stamp);
  } else {
    o->first = true; /* A foreign peer learns it from the next message. */
  }
}

void neap_unicast_first_asked(struct unicast *u, struct peer *p, uint32_t stamp)
{
  u->firsts_received++;
  if (newer_stamp(u, &p->out, stamp)) answer_first(u, p, stamp);
}

/* The same numbers within one round trip were asked for twice by the network, not by the peer. */
static bool answered(struct unicast *u, struct peer *p, const struct neap_seqnos *it)
{
  struct out *o = &p->out;
  uint64_t now = neap_now(&u->layer), last = it->first + it->bits - 1;
  uint64_t hold = p->rtt > NEAP_MS(1) ? p->rtt : NEAP_MS(1);
  if (o->answered_at && now - o->answered_at < hold && !neap_after(o->answered_from, it->first) &&
      !neap_after(last, o->answered_to))
    return true;
  o->answered_at = now;
  o->answered_from = it->first;
  o->answered_to = last;
  return false;
}

void neap_unicast_asked(struct unicast *u, struct peer *p, const struct neap_msg *m)
{
  struct out *o = &p->out;
  struct neap_seqnos it;
  u->requests_received++;
  if (!neap_seqnos_of(&it, m) || !it.bits) {
    u->bad++;
    return;
  }
  if (!o->open) { /* The connection it knows is no more. */
    if (!o->numbered) return;
    struct neap_uni_head head = {.type = NEAP_UNI_CLOSE, .conn = (int16_t)o->conn};
    neap_pass_down_msg(&u->layer, neap_unicast_own(u, p, head, NEAP_NO_FC));
    return;
  }
  if (answered(u, p, &it)) return;

  struct neap_batch batch = {0};
  bool outside = false;
  uint64_t seqno;
  while (neap_seqnos_next(&it, &seqno)) {
    if (!neap_window_get(&o->window, seqno))
      outside = true;
    else if (batch.bytes < u->window_bytes / 8) /* A burst would be lost as well: it asks again. */
      resend(u, p, seqno, false, &batch);
  }
  u->xmits += batch.count;
  neap_pass_down(&u->layer, &batch);
  if (outside) answer_first(u, p, 0);
}
