/* The sending half: each message gets the next number and is kept until it is reported.
 *
 *     low            high
 *     -[ ][ ][ ][ ][ ]-         freed, and room for others, up to what the peer reports
 *
 * Reports are believed once: of this connection id, and newer than all before them. */

#include "layers/unicast/unicast.h"

/* ---- the gate ---- */

void neap_unicast_publish(struct unicast *u, struct peer *p)
{
  if (!p->member) return; /* The channel refuses to send there. */
  neap_gate_horizon(&u->layer, p->peer, p->out.freed.bytes + u->bound_bytes,
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
                             .code = p->out.base});
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
  if (fresh) neap_unicast_mark(u, p, m);
  o->first = false;
  o->pause = 0;
  o->until = o->used + u->max_retransmit_time;
  if (!o->probe && o->mode == NEAP_UNI_ACK_MODE) { /* Else a report says nothing of the way. */
    o->probe = seqno;
    o->probe_at = o->used;
  }
  u->sent++;
  m->refs++; /* The window has it, and so has who is below. */
  if (!o->tail.armed || o->tail.background_now || neap_unicast_pressed(u, o))
    neap_unicast_watch_tail(u, p);
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
                               .code = p->out.base,
                               .flag = true,
                               .fresh = true});
  }
  neap_put(up, copy);
}

/* ---- what the peer says ---- */

bool neap_unicast_newer(struct unicast *u, struct out *o, uint32_t stamp)
{
  if (o->stamped && (int32_t)(stamp - o->stamp) <= 0 && !NEAP_IS_MUTANT(401)) {
    u->stale++;
    return false;
  }
  o->stamped = true;
  o->stamp = stamp;
  return true;
}

void neap_unicast_reported(struct unicast *u, struct peer *p, uint64_t seqno)
{
  struct out *o = &p->out;
  uint64_t now = neap_now(&u->layer);
  if (!neap_after(seqno, o->window.low)) return;
  if (o->probe && !neap_after(o->probe, seqno)) {
    uint64_t sample = now - o->probe_at; /* Its wait for company is not the way's. */
    neap_unicast_rtt(p, sample > u->ack_delay ? sample - u->ack_delay : sample);
    o->probe = 0;
  }
  neap_unicast_purge(u, p, seqno);
  o->progress = now;
  o->pause = 0;
  if (!neap_unicast_unreported(o)) neap_timer_stop(&o->tail);
  neap_unicast_publish(u, p);
  if (!o->turn || neap_after(o->turn, seqno)) return;
  o->turn = o->turns = 0;
  neap_unicast_follow(u);
}

bool neap_unicast_acked(
  struct unicast *u, struct peer *p, uint16_t conn, uint32_t stamp, uint64_t seqno)
{
  struct out *o = &p->out;
  u->acks_received++;
  if (!o->open || (conn != o->conn && !NEAP_IS_MUTANT(409)) || neap_after(seqno, o->window.high)) {
    u->stale++;
    return false;
  }
  if (!neap_unicast_newer(u, o, stamp)) return false;
  o->heard = true;
  o->syncing = false;
  neap_unicast_reported(u, p, seqno);
  return true;
}

/* In nak mode the receiver finds what is lost at the end: it knows of less than was sent.  What
 * was sent within a round trip may still be on its way. */
void neap_unicast_stable(struct unicast *u, struct peer *p, const struct neap_uni_own_head *own)
{
  const struct out *o = &p->out;
  if (!neap_unicast_acked(u, p, (uint16_t)own->conn, own->stamp, own->low)) return;
  if (!neap_unicast_unreported(o) || !neap_after(o->window.high, own->high)) return;
  if (neap_now(&u->layer) - o->used > neap_unicast_trip(p) && !NEAP_IS_MUTANT(410))
    neap_unicast_resend_tail(u, p);
}
