/* mode: from nak to ack and back, in the stream itself.
 *
 *     seqno   ... 41  42 [MODE 1 ack] 44  45 ...         nothing is drained, nobody stops
 *                         T = 43
 *
 * T is an empty message with a header of our own.  It goes through the window like all others, so
 * it is lost, repaired and put in order like them.  Sending it switches the sender, consuming it in
 * order switches a receiver, and each receiver reports when it has applied T.  Until all have, the
 * tail is announced.  Epochs count the toggles of a stream; a known one changes nothing.
 *
 * Whoever waits for a toggle waits for the newest T.
 *
 * Invariant: turn is set exactly while somebody in the view has not reported so far. */

#include "layers/nakack/nakack.h"

#include <stdio.h>

/* The names of those who have not followed; NULL when all have. */
static struct neap_found *missing(const struct nakack *n)
{
  const struct neap_view *view = n->layer.view;
  struct neap_found *found = neap_found_new(view ? view->count : 0);
  for (uint32_t i = 0; view && n->turn && i < view->count; i++) {
    struct neap_peer *peer = view->members[i];
    const struct stream *s = neap_peer_state_have(&n->layer, peer);
    if (peer->self || !nakack_after(n->turn, s->have)) continue;
    neap_found_add(found, (struct neap_found_row){.peer = neap_peer_ref(peer)});
  }
  return found;
}

static void settle(struct nakack *n, int code)
{
  struct neap_event event = {
    .kind = NEAP_EVENT_SETTLED, .code = code, .ticket = n->epoch, .found = missing(n)};
  snprintf(event.text, sizeof event.text, "%.64s.retransmission", n->layer.name);
  n->waited = false;
  n->settled++;
  neap_timer_stop(&n->mode_timer);
  neap_event_up(&n->layer, &event);
}

void nakack_mode_fire(struct neap_layer *layer, struct neap_timer *timer)
{
  struct nakack *n = (struct nakack *)layer;
  (void)timer;
  if (n->waited) settle(n, NEAP_TIMEOUT);
}

void nakack_follow(struct nakack *n)
{
  const struct neap_view *view = n->layer.view;
  uint64_t pending = 0;
  for (uint32_t i = 0; view && n->turn && i < view->count; i++) {
    const struct stream *s = neap_peer_state_have(&n->layer, view->members[i]);
    if (s != n->own && nakack_after(n->turn, s->have)) pending++;
  }
  n->mode_pending = pending;
  if (!pending) n->turn = 0;
  if (!n->turn && n->waited) settle(n, NEAP_OK);
}

/* Says the mode in the stream, if there is a view of members who understand it. */
void nakack_mode_due(struct nakack *n)
{
  if (!n->mode_due || !n->layer.view || !n->all_ours) return;
  struct neap_msg *m = neap_msg_own(&n->layer, NULL, 0);
  *neap_nak_own_head_put(m, &n->layer) =
    (struct neap_nak_own_head){.type = NEAP_NAK_MODE, .epoch = n->epoch, .mode = n->mode};
  n->mode_due = false;
  nakack_number(n, m, NULL);
  n->turn = n->current_seqno = n->own->win.high;
  neap_pass_down_msg(&n->layer, m);
  nakack_tail_sent(n, 0);
  nakack_follow(n);
}

/* The attribute was set. */
void nakack_toggle(struct nakack *n)
{
  n->waited = true;
  if (n->retransmission != n->mode) {
    n->mode = (uint8_t)n->retransmission;
    n->epoch++;
    n->toggles++;
    n->mode_due = true;
    nakack_mode_due(n);
    neap_event_up(&n->layer,
      &(struct neap_event){.kind = NEAP_EVENT_MODE_CHANGED, .flag = n->mode == NAKACK_ACK});
  }
  if (n->waited && n->mode_timeout) neap_timer_start(&n->layer, &n->mode_timer, n->mode_timeout);
  nakack_follow(n);
}

void nakack_consume(struct nakack *n, struct stream *s, struct neap_msg *m, uint64_t seqno)
{
  const struct neap_nak_own_head *own = neap_nak_own_head_get(m, &n->layer);
  if (own->type != NEAP_NAK_MODE || own->mode > NAKACK_ACK) {
    n->malformed++;
  } else if ((int32_t)(own->epoch - s->epoch) > 0) {
    s->epoch = own->epoch;
    s->mode = own->mode;
    n->modes++;
  }
  s->report_at = nakack_most(s->report_at, seqno);
  if (NEAP_IS_MUTANT(303)) s->report_at = 0;
  neap_receipt_done(s->run, seqno);
  neap_msg_free(m);
  nakack_applied(n, s); /* What nobody had to hear before is to be reported now. */
}
