/* receive: what arrives is put in order, once, and handed up with a receipt.
 *
 *     hd = 4; 5 6 7 arrive:           they pass as they are
 *     hd = 4; 6 7 arrive, then 5:     6 7 wait in the window, 5 takes them along
 *     an out-of-band 7 while hd = 4:  rises at once; a copy without effect keeps its place
 *
 * Nothing is stored that the application has no room for: it is dropped and counted, and asked for
 * again when there is room.  What comes before the first view waits, bounded.
 *
 * Invariant: between turns nothing is stored at hd + 1. */

#include "layers/nakack/nakack.h"

/* In the header of a copy whose original has risen already. */
enum { RISEN = 0 };

static struct stream *stream_of(struct nakack *n, const struct neap_peer *peer)
{
  return neap_peer_state_have(&n->layer, peer);
}

static bool has_header(const struct nakack *n, const struct neap_msg *m, unsigned header)
{
  return m->present >> n->layer.slots[header] & 1;
}

/* ---- room ---- */

/* Bytes that went up in this turn are not in the inboxes yet. */
static bool room_for(struct nakack *n, uint64_t waiting)
{
  uint64_t turn = n->layer.stack->turns;
  if (turn != n->handed_turn) {
    n->handed_turn = turn;
    n->handed = 0;
  }
  return neap_rx_space(&n->layer) > n->handed + waiting;
}

static void no_room(struct nakack *n, struct stream *s, uint64_t seqno)
{
  n->dropped_full++;
  s->full = true;
  nakack_notice(n, s, seqno, false);
  if (!n->room.armed) neap_timer_start(&n->layer, &n->room, n->xmit_interval + NEAP_MS(1));
}

void nakack_room_fire(struct neap_layer *layer, struct neap_timer *timer)
{
  struct nakack *n = (struct nakack *)layer;
  neap_timer_start(layer, timer, n->xmit_interval + NEAP_MS(1));
  nakack_caught_up(n);
}

/* Whoever was held back for want of room asks again at once. */
void nakack_caught_up(struct nakack *n)
{
  struct stream *s;
  if (!n->room.armed || !room_for(n, 0)) return;
  neap_timer_stop(&n->room);
  neap_each_peer (&n->layer, s) {
    if (!s->full) continue;
    s->full = false;
    if (n->xmit_interval) nakack_ask_now(n, s);
  }
}

/* ---- in order ---- */

/* A tagged message is here, early or (`whole`) with everything before it. */
static void stored(struct nakack *n, struct neap_msg *m, bool whole, bool fresh)
{
  if (!(m->flags & NEAP_RSVP)) return;
  nakack_tell(n, m,
    (struct neap_event){
      .kind = NEAP_EVENT_STORED,
      .number = neap_nak_head_get(m, &n->layer)->seqno,
      .flag = whole,
      .fresh = fresh,
    });
}

/* Rises a second time, because a state has to come first. */
static bool replayed(const struct stream *s, uint64_t seqno)
{
  return s->back_at && !nakack_after(seqno, s->back_at);
}

/* Hands up what is next; the receipt comes back when everything made from it is done. */
static void deliver(struct nakack *n, struct stream *s, struct neap_msg *m, struct neap_batch *out)
{
  const struct neap_nak_head *head = neap_nak_head_get(m, &n->layer);
  uint64_t seqno = head->seqno;
  if (head->type == RISEN) {
    neap_msg_free(m);
    return;
  }
  if (has_header(n, m, 1)) {
    nakack_consume(n, s, m, seqno);
    return;
  }
  if (replayed(s, seqno)) m->marks |= NEAP_REPLAYED;
  neap_receipt_give(s->run, m, seqno);
  s->fresh += m->len;
  n->handed += m->len;
  neap_put(out, m);
}

/* It stays for others who ask; what rises is another descriptor of it. */
static struct neap_msg *copied(struct nakack *n, struct stream *s, struct neap_msg *m)
{
  struct neap_msg *up = neap_msg_clone(m);
  uint8_t form = neap_nak_head_form(m, &n->layer);
  neap_nak_head_put_form(m, &n->layer, form)->type = NEAP_NAK_MSG; /* It may have risen before. */
  s->kept += m->len;
  n->copies++;
  return up;
}

void nakack_drop_copies(struct nakack *n, struct stream *s, uint64_t to)
{
  struct neap_window *w = &s->win;
  uint64_t low = w->low, bytes = w->bytes;
  neap_window_purge(w, nakack_least(to, w->hd), false);
  n->copies -= w->low - low;
  s->kept -= bytes - w->bytes;
}

/* More than a window of copies is more than anybody can lack. */
static void trim(struct nakack *n, struct stream *s)
{
  const struct neap_window *w = &s->win;
  while (s->kept > n->bound_bytes || w->hd - w->low > n->window_messages)
    nakack_drop_copies(n, s, w->low + 1);
}

/* What has just come, and what waited for it, rises. */
static void run_on(struct nakack *n, struct stream *s, struct neap_batch *out)
{
  struct neap_window *w = &s->win;
  struct neap_msg *m;
  bool keep = n->xmit_from_random_member;
  uint64_t before = w->hd;
  while ((m = keep ? neap_window_next(w, true) : neap_window_rise(w))) {
    n->waiting--;
    if (keep) m = copied(n, s, m);
    stored(n, m, true, w->hd == before + 1);
    deliver(n, s, m, out);
  }
  if (keep) trim(n, s);
  if (!keep) neap_window_risen(w, w->hd - before);
  if (s->gap.armed || s->again.armed) nakack_moved(n, s);
}

/* Keeps it until it is its turn. */
static void keep(struct nakack *n, struct stream *s, struct neap_msg *m, uint64_t seqno)
{
  enum neap_add added = neap_window_add(&s->win, seqno, m);
  NEAP_ASSERT(added == NEAP_ADDED); /* The caller has looked. */
  n->waiting++;
}

/* Out of band: rises at once, and a copy keeps its place in the order. */
static void overtake(
  struct nakack *n, struct stream *s, struct neap_msg *m, uint64_t seqno, struct neap_batch *out)
{
  struct neap_msg *copy = neap_msg_clone(m);
  uint8_t form = neap_nak_head_form(m, &n->layer);
  neap_nak_head_put_form(copy, &n->layer, form)->type = RISEN;
  keep(n, s, copy, seqno);
  if (seqno != s->win.hd + 1) stored(n, m, false, true);
  if (replayed(s, seqno)) m->marks |= NEAP_REPLAYED;
  neap_receipt_give(s->run, m, seqno);
  s->fresh += m->len;
  n->handed += m->len;
  neap_put(out, m);
}

/* Bytes of bodies that wait for their turn. */
static uint64_t waits(const struct stream *s)
{
  return s->win.bytes - s->kept;
}

/* What waits for a message that lacks is not the application's to be done with: who counts credits
 * for that has to know. */
static void tell_behind(struct nakack *n, struct stream *s)
{
  uint64_t now = waits(s);
  if (now == s->behind) return;
  s->behind = now;
  neap_event_up(&n->layer,
    &(struct neap_event){
      .kind = NEAP_EVENT_BEHIND, .peer = neap_peer_ref(s->peer), .number = now});
}

/* Far beyond what its sender may have out: twice the bound.  The next in order never is. */
static bool too_far(const struct nakack *n, const struct stream *s, uint64_t seqno, uint32_t len)
{
  if (seqno == s->win.hd + 1) return false;
  return seqno - s->win.hd > 2 * n->window_messages || waits(s) + len > 2 * n->bound_bytes;
}

/* A numbered message of a known stream; `again`: sent to this member because it asked. */
static void data(
  struct nakack *n, struct stream *s, struct neap_msg *m, bool again, struct neap_batch *out)
{
  uint64_t seqno = neap_nak_head_get(m, &n->layer)->seqno;
  struct neap_window *w = &s->win;

  if (!nakack_after(seqno, w->hd) || neap_window_get(w, seqno)) {
    nakack_twice(n, s, seqno, again);
    neap_msg_free(m);
  } else if (too_far(n, s, seqno, m->len)) {
    n->dropped_far++;
    nakack_notice(n, s, seqno, false);
    neap_msg_free(m);
  } else if (!room_for(n, seqno == w->hd + 1 ? 0 : waits(s))) {
    no_room(n, s, seqno);
    neap_msg_free(m);
  } else {
    n->received++;
    if (s->open && !nakack_after(seqno, s->asked)) s->open--;
    if (again) nakack_mended(n, s, seqno);
    if (neap_oob(m) && !has_header(n, m, 1)) {
      overtake(n, s, m, seqno, out);
    } else {
      keep(n, s, m, seqno);
      if (seqno != w->hd + 1) stored(n, m, false, true);
    }
    if (seqno == w->hd + 1)
      run_on(n, s, out);
    else
      nakack_notice(n, s, seqno, false);
    if (s->hole_at) nakack_filled(n, s);
  }
}

/* ---- what else arrives ---- */

/* Nobody knows its sender: before the first view it waits, afterwards it is a stranger's. */
static void unknown(struct nakack *n, struct neap_msg *m)
{
  if (n->layer.view) {
    n->strangers++;
    neap_msg_free(m);
  } else if (n->early.count >= n->early_max) {
    n->dropped_early++;
    neap_msg_free(m);
  } else {
    neap_put(&n->early, m);
    n->early_count = n->early.count;
  }
}

/* A header of our own alone: PURGED. */
static void own_word(struct nakack *n, struct stream *s, struct neap_msg *m)
{
  const struct neap_nak_own_head *own = neap_nak_own_head_get(m, &n->layer);
  if (own->type != NEAP_NAK_PURGED || !neap_addr_equal(&own->sender, &m->from->addr))
    n->malformed++;
  else if (s && s->known)
    nakack_gone(n, s, own->low);
  neap_msg_free(m);
}

static void reported(struct nakack *n, struct stream *s, const struct neap_msg *m, uint64_t seqno)
{
  const struct neap_nak_own_head *own = neap_nak_own_head_get(m, &n->layer);
  n->acks_received++;
  if (!s || !s->member) {
    n->acks_foreign++;
    return;
  }
  if (own && own->type == NEAP_NAK_WINDOW) {
    nakack_windowed(n, s, own);
    nakack_got(n, s, own->received);
  }
  nakack_heard(n, s, seqno);
  nakack_pace(n);
}

/* A request, an announcement or a report. */
static void word(
  struct nakack *n, struct stream *s, struct neap_msg *m, const struct neap_nak_head *head)
{
  bool known = s && s->known && s != n->own;
  uint8_t form = neap_nak_head_form(m, &n->layer);
  if (head->type == NEAP_NAK_XMIT_REQ) {
    nakack_requested(n, m, head);
  } else if (head->type == NEAP_NAK_HIGHEST) {
    if (known) nakack_announced(n, s, head->seqno, form != NEAP_NAK_FORM_2);
  } else if (head->type == NEAP_NAK_ACK) {
    reported(n, s, m, head->seqno);
  } else {
    n->malformed++;
  }
  neap_msg_free(m);
}

static void sort(struct nakack *n, struct neap_msg *m, struct neap_batch *out)
{
  struct stream *s = stream_of(n, m->from);
  const struct neap_nak_head *head = neap_nak_head_get(m, &n->layer);

  if (!head && has_header(n, m, 1)) {
    own_word(n, s, m);
  } else if (!head) {
    neap_put(out, m); /* Nobody numbered it: it passes. */
  } else if (head->type != NEAP_NAK_MSG && head->type != NEAP_NAK_XMIT_RSP) {
    word(n, s, m, head);
  } else if (m->from->self) {
    n->duplicates++; /* The wire brought back what went up at once. */
    neap_msg_free(m);
  } else if (!s || !s->known || !n->layer.view) {
    unknown(n, m);
  } else {
    bool again = head->type == NEAP_NAK_XMIT_RSP;
    if (again) { /* It was a multicast, and is one again. */
      neap_msg_to(m, NULL);
      neap_nak_head_put_form(m, &n->layer, neap_nak_head_form(m, &n->layer))->type = NEAP_NAK_MSG;
      n->rsps_received++;
    }
    data(n, s, m, again, out);
  }
}

/* A member that is not Neap's has one mode for good: the one its form says. */
static void adopt_form(struct nakack *n, struct stream *s, const struct neap_msg *m)
{
  if (m->from->generation || !has_header(n, m, 0)) return;
  uint8_t mode = neap_nak_head_form(m, &n->layer) == NEAP_NAK_FORM_2 ? NAKACK_NAK : NAKACK_ACK;
  if (mode == s->mode) return;
  s->mode = mode;
  nakack_applied(n, s);
}

/* ---- runs ---- */

/* Which headers a message of a run carries: ours as `want` says. */
struct kind {
  uint64_t mask, want;
};

static inline bool goes_on(
  const struct nakack *n, struct kind kind, const struct neap_msg *m, uint64_t seqno)
{
  const struct neap_nak_head *head = neap_nak_head_get(m, &n->layer);
  return (m->present & kind.mask) == kind.want && head->type == NEAP_NAK_MSG &&
         head->seqno == seqno && !(m->flags & NEAP_RSVP);
}

/* Hands up the run that is next.  Most batches are such a run from end to end. */
static bool in_order(struct nakack *n, struct stream *s, struct kind kind, struct neap_batch *batch,
  struct neap_batch *out)
{
  uint64_t seqno = s->win.hd, bytes = 0;
  struct neap_msg *m = batch->first, *last = NULL;
  for (; m && goes_on(n, kind, m, seqno + 1); m = m->next) {
    neap_receipt_give(s->run, m, ++seqno);
    bytes += m->len;
    last = m;
  }
  if (!last) return false;
  uint32_t count = (uint32_t)(seqno - s->win.hd);
  neap_move_first(batch, last, count, (uint32_t)bytes, out);
  neap_window_skip(&s->win, count);
  s->fresh += bytes;
  n->handed += bytes;
  n->received += count;
  if (s->gap.armed || s->again.armed) nakack_moved(n, s);
  if (s->hole_at) nakack_filled(n, s);
  return true;
}

/* Keeps the run that is beyond everything else. Most batches behind a gap are one. */
static bool behind_gap(
  struct nakack *n, struct stream *s, struct kind kind, struct neap_batch *batch, uint64_t first)
{
  uint64_t seqno = first;
  neap_window_extend(&s->win, first + batch->count - 1);
  while (batch->first && goes_on(n, kind, batch->first, seqno))
    neap_window_put(&s->win, seqno++, neap_take(batch));
  if (seqno == first) return false;
  n->waiting += seqno - first;
  n->received += seqno - first;
  nakack_notice(n, s, seqno - 1, false);
  if (s->hole_at) nakack_filled(n, s);
  return true;
}

/* Takes the run that a batch begins with, if it is one that needs no look at each message: nothing
 * of it is kept for others, rises for a second time, was asked for, or lacks room. */
static bool take_run(
  struct nakack *n, struct stream *s, struct neap_batch *batch, struct neap_batch *out)
{
  const struct neap_msg *m = batch->first;
  const struct neap_nak_head *head = m ? neap_nak_head_get(m, &n->layer) : NULL;
  const struct neap_window *w = &s->win;
  if (!head || m->to || neap_oob(m) || n->xmit_from_random_member || n->awaits) return false;

  uint64_t want = (uint64_t)1 << n->layer.slots[0], seqno = head->seqno;
  struct kind kind = {want | (uint64_t)1 << n->layer.slots[1], want};
  if (seqno == w->hd + 1)
    return !w->stored && room_for(n, batch->bytes) && in_order(n, s, kind, batch, out);
  if (!nakack_after(seqno, w->high) || !nakack_after(seqno, s->asked)) return false;
  uint64_t most = seqno + batch->count - 1, bytes = waits(s) + batch->bytes;
  if (most - w->hd > 2 * n->window_messages || bytes > 2 * n->bound_bytes) return false;
  return room_for(n, bytes) && behind_gap(n, s, kind, batch, seqno);
}

void nakack_receive(struct nakack *n, struct neap_batch *batch)
{
  struct neap_msg *m = batch->first;
  struct stream *s = m ? stream_of(n, m->from) : NULL;
  struct neap_batch out = {0};
  bool known = s && s->known && s != n->own;

  if (known && n->layer.view && !m->to) adopt_form(n, s, m);
  for (;;) {
    if (known && n->layer.view && take_run(n, s, batch, &out)) continue;
    if (!(m = neap_take(batch))) break;
    sort(n, m, &out);
  }
  neap_pass_up(&n->layer, &out);
  if (s && s->known && s != n->own) tell_behind(n, s);
  if (n->awaits) nakack_risen(n);
}

void nakack_early(struct nakack *n)
{
  struct neap_batch early = n->early, out = {0};
  struct neap_msg *m;
  n->early = (struct neap_batch){0};
  n->early_count = 0;
  while ((m = neap_take(&early))) sort(n, m, &out);
  neap_pass_up(&n->layer, &out);
  if (n->awaits) nakack_risen(n);
}
