/* sync: a receiver that lost its table finds its place again.
 *
 * What comes without an entry to go to is kept, bounded, and its sender is asked where its window
 * begins, once per sync_min_interval however much comes, until it says so.  Two ways to ask, both
 * understood by everybody:
 *
 *     timestamp                                  handshake (JGRP-1875)
 *     SEND_FIRST_SEQNO(timestamp)  ------->      SYNC(nonce, timestamp, what is known)  ------->
 *       <------- the lowest, first               the window gets a new connection id
 *                or EMPTY, or NONE                 <------- SYNC-OK(nonce, id, base, low, high)
 *                                                SYNC-ACK  ------->
 *
 * A report from before the table was lost would free what the receiver never saw.  Its timestamp is
 * older than the question's, or its connection id is another: either way it does not count.
 *
 * The window keeps its first id as base.  Who knew any of its ids keeps position and messages and
 * takes the new id only; a SYNC that names one of them reports at the same time. */

#include "layers/unicast/unicast.h"

/* A foreign peer that answers no request for its first seqno is given up after so many; so is one
 * that is in no view. */
enum { TRIES = 5 };

/* Strangers are cheap to forge: all together have no more early messages than so many peers. */
enum { EARLY_PEERS = 16 };

/* Ids that one window may have, far from half of all, where older and newer could be mistaken.
 * Beyond them timestamps alone have to do. */
enum { RENAMES = 1024 };

/* ---- asking ---- */

/* Asks in a while: not before the interval is over. */
static void plan(struct unicast *u, struct peer *p, uint64_t wait)
{
  struct in *in = &p->in;
  uint64_t now = neap_now(&u->layer), next = in->asked_first + u->sync_min_interval;
  if (in->asked_first && next > now + wait && !NEAP_IS_MUTANT(412)) wait = next - now;
  neap_arm(&u->layer, &in->ask, wait);
}

void neap_unicast_early(struct unicast *u, struct peer *p, struct neap_msg *m)
{
  struct in *in = &p->in;
  if (in->early.count >= u->early_max || u->early >= EARLY_PEERS * u->early_max) {
    u->early_dropped++;
    in->syncing = true; /* It is not kept, and asked for all the same. */
    neap_msg_free(m);
  } else {
    u->early++;
    neap_put(&in->early, m);
  }
  plan(u, p, u->gap_delay);
}

static void ask_by_handshake(struct unicast *u, struct peer *p)
{
  struct in *in = &p->in;
  int16_t conn = NEAP_UNI_NO_CONN;
  uint64_t applied = 0;
  if (in->open) {
    conn = (int16_t)in->conn;
    applied = in->run->applied;
  } else if (in->remembered) {
    conn = (int16_t)in->old_conn;
    applied = in->old_applied;
  }
  while (!in->nonce) in->nonce = (uint32_t)neap_chance_below(&u->layer, UINT32_MAX);
  struct neap_msg *m = neap_msg_own(&u->layer, p->peer, NEAP_OOB | NEAP_NO_FC);
  *neap_uni_own_head_put(m, &u->layer) = (struct neap_uni_own_head){.type = NEAP_UNI_SYNC,
    .conn = conn,
    .base = conn,
    .epoch = in->epoch,
    .mode = in->mode,
    .stamp = in->stamp,
    .nonce = in->nonce,
    .low = applied};
  u->syncs_sent++;
  neap_pass_down_msg(&u->layer, m);
}

static void ask(struct unicast *u, struct peer *p)
{
  struct in *in = &p->in;
  in->tries++;
  in->stamp = ++u->stamp;
  in->asked_first = neap_now(&u->layer);
  if (u->sync == NEAP_UNI_HANDSHAKE && p->peer->generation) {
    ask_by_handshake(u, p);
  } else {
    struct neap_uni_head head = {.type = NEAP_UNI_FIRST, .stamp = in->stamp};
    u->firsts_sent++;
    neap_pass_down_msg(&u->layer, neap_unicast_own(u, p, head, NEAP_OOB | NEAP_NO_FC));
  }
  neap_timer_start(&u->layer, &in->ask, u->sync_min_interval);
}

void neap_unicast_ask_due(struct neap_layer *layer, struct neap_timer *timer)
{
  struct unicast *u = (struct unicast *)layer;
  struct peer *p = NEAP_HOLDER(timer, struct peer, in.ask);
  struct in *in = &p->in;
  if (!in->early.first && !in->syncing) return;
  if (in->tries >= TRIES && (!p->peer->generation || !p->member)) {
    u->early_dropped += in->early.count;
    neap_unicast_drop_early(u, p);
    return;
  }
  ask(u, p);
}

void neap_unicast_sync(struct unicast *u, struct peer *p)
{
  p->in.syncing = true;
  p->in.tries = 0;
  ask(u, p);
}

/* ---- the answer ---- */

void neap_unicast_drain(struct unicast *u, struct peer *p, struct neap_batch *up)
{
  struct neap_batch early = p->in.early;
  struct neap_msg *m;
  p->in.early = (struct neap_batch){0};
  u->early -= early.count;
  neap_unicast_drop_early(u, p);
  while ((m = neap_take(&early))) {
    const struct neap_uni_head *head = neap_uni_head_get(m, &u->layer);
    if (neap_conn_within(p->in.base, p->in.conn, (uint16_t)head->conn)) {
      neap_unicast_store(u, p, m, head->seqno, up);
    } else {
      u->early_dropped++;
      neap_msg_free(m);
    }
  }
}

static struct start start_of(const struct neap_uni_own_head *own, uint64_t at)
{
  return (struct start){.conn = (uint16_t)own->conn,
    .base = (uint16_t)own->base,
    .mode = own->mode,
    .epoch = own->epoch,
    .at = at};
}

void neap_unicast_empty(
  struct unicast *u, struct peer *p, const struct neap_uni_own_head *own, struct neap_batch *up)
{
  struct start start = start_of(own, own->high);
  if (neap_unicast_over(&p->in, start.conn)) {
    u->stale++;
    return;
  }
  neap_unicast_begin(u, p, &start, up);
  neap_unicast_watch_gaps(u, p);
}

void neap_unicast_none(struct unicast *u, struct peer *p, uint32_t stamp)
{
  struct in *in = &p->in;
  if ((!in->early.first && !in->syncing) || stamp != in->stamp || !in->asked_first) {
    u->stale++;
    return;
  }
  u->early_dropped += in->early.count;
  neap_unicast_drop_early(u, p);
  in->ended = in->open; /* What it knew of is no more at its sender. */
  neap_unicast_forget(u, p);
}

/* ---- the handshake, at the sender ---- */

/* The same window under the next id: reports of the ones before are of no use any more. */
static void renumber(struct out *o)
{
  if ((unsigned)(o->conn - o->base) % NEAP_UNI_CONNS >= RENAMES) return;
  if (!NEAP_IS_MUTANT(413)) o->conn = (uint16_t)((o->conn + 1u) % NEAP_UNI_CONNS);
  o->heard = false;
  o->pause = o->probe = o->answered_at = 0;
}

void neap_unicast_sync_asked(struct unicast *u, struct peer *p, const struct neap_uni_own_head *own)
{
  struct out *o = &p->out;
  u->syncs_received++;
  if (!own->nonce) {
    u->bad++;
    return;
  }
  if (!neap_unicast_newer(u, o, own->stamp)) return;
  if (!o->open) {
    neap_unicast_say(u, p, NEAP_UNI_NONE, own->stamp, 0);
    return;
  }
  bool ours = own->conn >= 0 && neap_conn_within(o->base, o->conn, (uint16_t)own->conn);
  if (ours && !neap_after(own->low, o->window.high)) neap_unicast_reported(u, p, own->low);
  if (own->nonce != o->nonce || NEAP_IS_MUTANT(414)) renumber(o);
  o->nonce = own->nonce;
  o->syncing = true;
  o->sync_until = neap_now(&u->layer) + u->sync_min_interval;
  o->progress = neap_now(&u->layer);
  neap_unicast_say(u, p, NEAP_UNI_SYNC_OK, own->stamp, o->nonce);
  neap_unicast_watch_tail(u, p);
}

void neap_unicast_sync_ack(struct unicast *u, struct peer *p, const struct neap_uni_own_head *own)
{
  struct out *o = &p->out;
  if (!o->open || !o->syncing || own->nonce != o->nonce || (uint16_t)own->conn != o->conn) {
    u->stale++;
    return;
  }
  o->syncing = false;
  o->heard = true;
  o->pause = 0;
}

/* The other way to ask. */
void neap_unicast_first_asked(struct unicast *u, struct peer *p, uint32_t stamp)
{
  u->firsts_received++;
  if (neap_unicast_newer(u, &p->out, stamp)) neap_unicast_answer(u, p, stamp);
}

/* ---- the handshake, at the receiver ---- */

static void conclude(struct unicast *u, struct peer *p, uint32_t nonce)
{
  struct neap_msg *m = neap_msg_own(&u->layer, p->peer, NEAP_OOB | NEAP_NO_FC);
  *neap_uni_own_head_put(m, &u->layer) = (struct neap_uni_own_head){.type = NEAP_UNI_SYNC_ACK,
    .conn = (int16_t)p->in.conn,
    .base = (int16_t)p->in.base,
    .epoch = p->in.epoch,
    .mode = p->in.mode,
    .stamp = ++u->stamp,
    .nonce = nonce};
  neap_pass_down_msg(&u->layer, m);
}

void neap_unicast_sync_ok(
  struct unicast *u, struct peer *p, const struct neap_uni_own_head *own, struct neap_batch *up)
{
  struct in *in = &p->in;
  struct start start = start_of(own, own->low);
  uint64_t far = own->high - own->low;
  if (own->nonce && own->nonce == in->synced && in->open && start.conn == in->conn) {
    conclude(u, p, own->nonce); /* The last one got lost. */
    return;
  }
  if (!in->nonce || own->nonce != in->nonce || neap_unicast_over(in, start.conn)) {
    u->stale++;
    return;
  }
  if (far > NEAP_UNI_SEQNOS) {
    u->bad++;
    return;
  }
  in->synced = in->nonce;
  neap_unicast_begin(u, p, &start, up);
  neap_unicast_drain(u, p, up);
  /* More than a sender may have sent is heard of later, when there is room. */
  if (far > 2 * u->window_messages) far = 2 * u->window_messages;
  if (neap_after(own->low + far, in->heard)) in->heard = own->low + far;
  neap_unicast_ask_gaps(u, p);
  conclude(u, p, in->synced);
}
