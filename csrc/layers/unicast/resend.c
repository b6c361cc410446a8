/* What goes again: the end of the window by itself, the rest when it is asked for.
 *
 *     low            high
 *      |  unreported  |         tail: when nothing moved for a while, the highest goes again, so
 *     -[ ][ ][ ][ ][ ]-         that the receiver sees what it lacks and asks for it
 *
 * In ack mode, and in nak mode as long as the receiver was not heard, a toggle is not reported or
 * the window is half full, a while is a round trip; else it is stable_interval.  While a handshake
 * is not concluded its answer goes again instead.
 *
 * The connection id is written each time: it may be a newer one than at the first. */

#include "layers/unicast/unicast.h"

static void resend(
  struct unicast *u, struct peer *p, uint64_t seqno, bool first, struct neap_batch *batch)
{
  struct out *o = &p->out;
  struct neap_msg *m = neap_msg_again(neap_window_get(&o->window, seqno));
  struct neap_uni_head head = *neap_uni_head_get(m, &u->layer);
  m->marks |= NEAP_SENT;
  head.conn = (int16_t)o->conn;
  head.first |= first; /* It stays true: what was reported never is unreported. */
  *neap_uni_head_put_form(m, &u->layer, p->form) = head;
  if (head.first) neap_unicast_mark(u, p, m);
  if (seqno == o->probe) o->probe = 0; /* An answer could be for either. */
  neap_put(batch, m);
}

void neap_unicast_say(
  struct unicast *u, struct peer *p, enum neap_uni_own_type type, uint32_t stamp, uint32_t nonce)
{
  const struct out *o = &p->out;
  struct neap_msg *m = neap_msg_own(&u->layer, p->peer, NEAP_OOB | NEAP_NO_FC);
  *neap_uni_own_head_put(m, &u->layer) = (struct neap_uni_own_head){.type = (uint8_t)type,
    .conn = (int16_t)o->conn,
    .base = (int16_t)o->base,
    .epoch = o->epoch,
    .mode = o->mode,
    .stamp = stamp,
    .nonce = nonce,
    .low = o->window.low,
    .high = o->window.high};
  neap_pass_down_msg(&u->layer, m);
}

/* ---- the tail ---- */

bool neap_unicast_pressed(const struct unicast *u, const struct out *o)
{
  return o->mode == NEAP_UNI_NAK_MODE &&
         (o->taken.bytes - o->freed.bytes >= u->bound_bytes / 2 ||
           o->taken.messages - o->freed.messages >= u->window_messages / 2);
}

/* The receiver finds it, if it is there at all. */
static bool receiver_finds(const struct unicast *u, const struct out *o)
{
  if (o->mode == NEAP_UNI_ACK_MODE || NEAP_IS_MUTANT(411)) return o->mode != NEAP_UNI_ACK_MODE;
  return o->heard && !o->turn && !neap_unicast_pressed(u, o);
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
  if (wait > u->xmit_interval) wait = u->xmit_interval;
  return receiver_finds(u, &p->out) ? wait + u->stable_interval : wait;
}

/* Pauses grow up to this. */
static uint64_t longest(const struct unicast *u, const struct peer *p)
{
  uint64_t most = receiver_finds(u, &p->out) ? 4 * u->stable_interval : 0;
  return most > u->xmit_interval ? most : u->xmit_interval;
}

static bool to_watch(const struct unicast *u, const struct peer *p)
{
  if (!neap_unicast_unreported(&p->out) && !p->out.syncing) return false;
  return p->member || neap_now(&u->layer) < p->out.until;
}

void neap_unicast_watch_tail(struct unicast *u, struct peer *p)
{
  struct out *o = &p->out;
  if (!to_watch(u, p) || p->peer->self || NEAP_IS_MUTANT(404)) return;
  if (o->pause > longest(u, p)) o->pause = longest(u, p);
  neap_arm(&u->layer, &o->tail, o->pause ? o->pause : patience(u, p));
}

void neap_unicast_resend_tail(struct unicast *u, struct peer *p)
{
  struct out *o = &p->out;
  struct neap_batch batch = {0};
  o->progress = neap_now(&u->layer);
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
  if (o->syncing && now >= o->sync_until) o->syncing = false; /* It asks again if it wants to. */
  if (!to_watch(u, p)) return;

  uint64_t pause = o->pause ? o->pause : patience(u, p), idle = now - o->progress;
  if (idle < pause) { /* Something moved meanwhile. */
    neap_timer_start(layer, timer, pause - idle);
    return;
  }
  if (o->syncing)
    neap_unicast_say(u, p, NEAP_UNI_SYNC_OK, 0, o->nonce);
  else
    neap_unicast_resend_tail(u, p);
  o->pause = 2 * pause < longest(u, p) ? 2 * pause : longest(u, p);
  o->progress = now;
  neap_timer_start(layer, timer, o->pause);
}

/* ---- what is asked for ---- */

void neap_unicast_answer(struct unicast *u, struct peer *p, uint32_t stamp)
{
  struct out *o = &p->out;
  struct neap_batch batch = {0};
  u->firsts_answered++;
  if (neap_unicast_unreported(o)) {
    resend(u, p, o->window.low + 1, true, &batch);
    u->xmits++;
    neap_pass_down(&u->layer, &batch);
  } else if (p->peer->generation) {
    neap_unicast_say(u, p, o->open ? NEAP_UNI_EMPTY : NEAP_UNI_NONE, stamp, 0);
  } else {
    o->first = true; /* A foreign peer learns it from the next message. */
  }
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
    else if (batch.bytes < u->bound_bytes / 8) /* A burst would be lost as well: it asks again. */
      resend(u, p, seqno, false, &batch);
  }
  u->xmits += batch.count;
  neap_pass_down(&u->layer, &batch);
  if (outside) neap_unicast_answer(u, p, 0);
}
