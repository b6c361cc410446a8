/* send: own multicasts get a number and stay until everybody has applied them.
 *
 *     freed ------------ low ============ high      charge: what the gate counted for a message
 *     charges given back  |  charges kept           horizon = charges given back + bound
 *
 * What is kept goes down as it is: window and transport share the descriptor. A clone goes back up
 * at once, for this member is a receiver like the others. What needs no repair passes, and its
 * charge is given back on the spot.
 *
 * Invariant: window_used is the sum of the charges of what is kept. */

#include "layers/nakack/nakack.h"

/* A packet at least, whatever somebody says.  On its way 2 MB at most: more gains nothing, and each
 * repair waits for all of it.  Kept 12 MB: what a loopback carries in the time of two repairs. */
enum { WINDOW_LEAST = 64000, PACE_MOST = 2000000, KEPT_AUTO = 12000000 };

void nakack_publish(struct nakack *n)
{
  struct neap_gate_position pace = nakack_pace_horizon(n);
  neap_gate_horizon(&n->layer, NULL, nakack_least(n->freed.bytes + n->bound_bytes, pace.bytes),
    nakack_least(n->freed.messages + n->window_messages, pace.messages));
}

/* On its way, and where not all are ours kept as well: what the least of the others can take.  Who
 * has not said is taken to be like this member, and nobody is believed to take next to nothing. */
void nakack_size(struct nakack *n)
{
  const struct neap_view *view = n->layer.view;
  uint64_t least = UINT64_MAX;
  n->buffer = neap_window_auto(&n->layer);
  for (uint32_t i = 0; view && i < view->count; i++) {
    const struct stream *s = neap_peer_state_have(&n->layer, view->members[i]);
    if (!s || s == n->own) continue;
    least = nakack_least(least, s->window ? nakack_most(s->window, WINDOW_LEAST) : n->buffer);
  }
  if (least == UINT64_MAX) least = n->buffer;
  n->bound_bytes = n->window_bytes ? n->window_bytes : n->all_ours ? KEPT_AUTO : least;
  least = nakack_least(least, PACE_MOST);
  n->pace_most = n->pace_bytes ? n->pace_bytes : least;
  n->pace_bound = nakack_least(n->bound_bytes, n->pace_most);
  nakack_publish(n);
}

/* Half of the bound is in use: time to learn what may go. */
bool nakack_full(const struct nakack *n)
{
  return n->window_used > n->bound_bytes / 2 || n->window_stored > n->window_messages / 2;
}

bool nakack_pressed(const struct nakack *n)
{
  return nakack_full(n) || nakack_pace_pressed(n);
}

void nakack_tell(struct nakack *n, struct neap_msg *m, struct neap_event event)
{
  event.msg = m;
  m->refs++;
  if (event.kind == NEAP_EVENT_STORED) event.peer = neap_peer_ref(m->from);
  neap_event_up(&n->layer, &event);
}

/* The clone that goes back up, or the receipt of one that does not. */
static inline __attribute__((always_inline)) void loop_back(
  struct nakack *n, struct neap_msg *m, uint64_t seqno, struct neap_batch *loop)
{
  if (!loop || m->marks & NEAP_NO_LOOPBACK) {
    neap_receipt_done(n->own->run, seqno);
    return;
  }
  struct neap_msg *copy = neap_msg_clone(m);
  neap_receipt_give(n->own->run, copy, seqno);
  if (m->flags & NEAP_RSVP)
    nakack_tell(n, copy,
      (struct neap_event){.kind = NEAP_EVENT_STORED, .number = seqno, .flag = true, .fresh = true});
  neap_put(loop, copy);
}

static inline __attribute__((always_inline)) void number(
  struct nakack *n, struct neap_msg *m, struct neap_batch *loop)
{
  struct neap_window *w = &n->own->win;
  uint64_t seqno = w->high + 1;
  struct neap_nak_head *head = neap_nak_head_put_form(m, &n->layer, nakack_form(n->mode));
  head->type = NEAP_NAK_MSG;
  head->seqno = seqno;

  neap_window_append(w, m); /* The gate bounds what comes; layers' own are few. */
  m->refs++;
  n->window_used += m->charge;
  n->window_stored++;
  n->sent++;
  if (m->flags & NEAP_RSVP)
    nakack_tell(n, m, (struct neap_event){.kind = NEAP_EVENT_SENT, .number = seqno});
  loop_back(n, m, seqno, loop);
}

/* Numbers it and keeps it; the caller passes it down.  `loop` NULL: nobody here wants it. */
void nakack_number(struct nakack *n, struct neap_msg *m, struct neap_batch *loop)
{
  number(n, m, loop);
}

/* Not kept: it is lost or not, and takes no room. */
static void let_pass(struct nakack *n, struct neap_msg *m, struct neap_batch *loop)
{
  n->freed.bytes += m->charge;
  n->freed.messages += m->charges;
  if (!(m->marks & (NEAP_OWN | NEAP_NO_LOOPBACK))) neap_put(loop, neap_msg_clone(m));
}

/* The window fills: asks the others how far they are, at most once per share. */
static void press(struct nakack *n)
{
  uint64_t high = n->own->win.high;
  if (!nakack_pressed(n)) {
    n->pressed_at = 0;
    return;
  }
  uint64_t sent = high - n->pressed_at, bytes = n->freed.bytes + n->window_used;
  uint64_t share = bytes - n->pressed_bytes;
  if (n->pressed_at && sent < nakack_least(n->window_messages / 2, n->pace_room.messages) / 4 &&
      share < nakack_least(n->pace_bound, n->pace_room.bytes) / 4)
    return;
  n->pressed_at = high;
  n->pressed_bytes = bytes;
  if (nakack_tail_due(n)) nakack_announce(n);
}

void nakack_send(struct nakack *n, struct neap_batch *batch)
{
  struct neap_batch loop = {0};
  uint64_t bytes = 0;
  bool passed = false, numbered = false;

  for (struct neap_msg *m = batch->first; m; m = m->next) {
    if (m->flags & NEAP_NO_RELIABILITY) {
      let_pass(n, m, &loop);
      passed = true;
    } else {
      number(n, m, &loop);
      bytes += m->len;
      numbered = true;
    }
  }
  neap_pass_down(&n->layer, batch);
  neap_pass_up(&n->layer, &loop);
  n->current_seqno = n->own->win.high;
  if (passed || nakack_pace_moved(n)) nakack_publish(n);
  if (!numbered) return;
  nakack_tail_sent(n, bytes);
  press(n);
}

/* ---- purge ---- */

/* Frees what everybody has: the others by what they reported, this member by what it has applied
 * now, which can fall when a digest rewinds it; low does not. */
void nakack_purge(struct nakack *n)
{
  struct neap_window *w = &n->own->win;
  if (!n->layer.view) return;
  uint64_t to = nakack_least(n->others, nakack_position(n, n->own));
  if (NEAP_IS_MUTANT(301)) to = w->hd;
  if (nakack_after(to, w->hd)) to = w->hd;
  if (!nakack_after(to, w->low)) return;

  uint64_t bytes = 0, messages = 0;
  n->purged += to - w->low;
  n->window_stored -= to - w->low;
  neap_window_release(w, to, &bytes, &messages);
  n->window_used -= bytes;
  n->freed.bytes += bytes;
  n->freed.messages += messages;
  n->current_low = w->low;
  if (nakack_pressed(n)) n->rounds = 0; /* It moves: who waits for room asks soon again. */
  if (messages) nakack_publish(n);
}
