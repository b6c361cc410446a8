/* The receiving half: order.
 *
 *        applied      hd                heard
 *           |  handed  |                  |      what is early waits in its place; what is in order
 *       ----+----------+--[ ][8][ ][10]---       rises with a receipt, and is applied when all that
 *                                                was made of it is freed */

#include "layers/unicast/unicast.h"

/* ---- what is tagged ---- */

static void tell_stored(
  struct unicast *u, struct peer *p, struct neap_msg *m, uint64_t seqno, bool all, bool fresh)
{
  m->refs++;
  neap_event_up(&u->layer, &(struct neap_event){.kind = NEAP_EVENT_STORED,
                             .msg = m,
                             .peer = neap_peer_ref(p->peer),
                             .number = seqno,
                             .code = p->in.base,
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

void neap_unicast_release(struct unicast *u, struct peer *p, uint64_t seqno, struct neap_batch *up)
{
  struct in *in = &p->in;
  struct neap_msg *m;
  while ((m = neap_window_next(&in->window, false))) {
    uint64_t at = in->window.hd;
    u->waiting--;
    if (neap_unicast_is_mode(u, m)) { /* It ends here. */
      neap_unicast_consume(u, p, m, at);
      continue;
    }
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
  if (!neap_after(seqno, most) && in->window.bytes + m->len <= 2 * u->bound_bytes) return false;
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

void neap_unicast_store(
  struct unicast *u, struct peer *p, struct neap_msg *m, uint64_t seqno, struct neap_batch *up)
{
  struct in *in = &p->in;
  struct neap_msg *kept = m;
  /* Neither out of band nor answered by somebody above, whatever it says. */
  if (neap_unicast_is_mode(u, m)) m->flags &= (uint16_t) ~(NEAP_OOB | NEAP_RSVP | NEAP_RSVP_NB);
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
  neap_unicast_release(u, p, seqno, up);
}

/* ---- with an entry or without ---- */

/* An entry has this id, or had it before a handshake. */
static bool known(const struct in *in, uint16_t conn)
{
  return in->open && neap_conn_within(in->base, in->conn, conn);
}

/* What the message says of its window's beginning. */
static struct start start_of(struct unicast *u, const struct neap_msg *m)
{
  const struct neap_uni_head *head = neap_uni_head_get(m, &u->layer);
  const struct neap_uni_own_head *own = neap_uni_own_head_get(m, &u->layer);
  uint16_t conn = (uint16_t)head->conn;
  struct start start = {.conn = conn, .base = conn, .at = head->seqno - 1};
  if (!own || (own->type != NEAP_UNI_EPOCH && own->type != NEAP_UNI_MODE)) return start;
  start.base = (uint16_t)own->base;
  start.epoch = own->epoch;
  start.mode = own->mode;
  return start;
}

void neap_unicast_data(struct unicast *u, struct peer *p, struct neap_msg *m, struct neap_batch *up)
{
  const struct neap_uni_head *head = neap_uni_head_get(m, &u->layer);
  struct in *in = &p->in;
  uint16_t conn = (uint16_t)head->conn;
  uint64_t seqno = head->seqno;
  bool first = head->first;
  in->used = neap_now(&u->layer);
  in->halted = false;
  if (!known(in, conn) && neap_unicast_over(in, conn)) {
    u->stale++;
    neap_msg_free(m);
  } else if (first && (!in->open || conn == in->conn || !known(in, conn))) {
    struct start start = start_of(u, m);
    neap_unicast_begin(u, p, &start, up);
    neap_unicast_store(u, p, m, seqno, up);
  } else if (known(in, conn)) {
    neap_unicast_store(u, p, m, seqno, up);
  } else {
    neap_unicast_early(u, p, m);
  }
}

/* ---- a run ---- */

/* What a loss-free stream looks like: the next numbers, one after the other, and nothing waits. */
static bool in_line(struct unicast *u, const struct in *in, const struct neap_batch *batch)
{
  uint64_t next = in->window.hd + 1;
  if (!in->open || in->closing || in->heard != in->window.hd) return false;
  if (neap_batch_has(batch, &u->layer, 1)) return false;
  if (!room(u, batch->bytes)) return false;
  for (const struct neap_msg *m = batch->first; m; m = m->next) {
    const struct neap_uni_head *head = neap_uni_head_get(m, &u->layer);
    if (!head || head->type != NEAP_UNI_DATA || head->seqno != next++) return false;
    if ((uint16_t)head->conn != in->conn || neap_oob(m) || neap_tagged(m)) return false;
    if (m->receipts) return false; /* Somebody below has taken it into a stream. */
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
