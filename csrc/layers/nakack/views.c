/* views: streams begin with a view or a digest and end with a view.
 *
 * A member that is new begins at the digest it came with, or at 0.  One that left takes its
 * stream along, with what had not been delivered of it.  In each view the least that all have is
 * another: a joiner has said nothing yet and blocks the purge until it does. */

#include "layers/nakack/nakack.h"

struct stream *nakack_start(struct nakack *n, struct neap_peer *peer, uint64_t at)
{
  struct stream *s = neap_peer_state(&n->layer, peer);
  NEAP_ASSERT(!s->known);
  if (at < n->first_seqno - 1) at = n->first_seqno - 1; /* Nobody begins lower. */
  s->peer = peer;
  s->known = true;
  s->hearsay = s->told = s->asked = s->seen = s->reported = s->said = at;
  s->have = n->first_seqno - 1;
  s->most = NAKACK_OPEN;
  neap_window_init(&s->win, at, NAKACK_WINDOW_MAX);
  s->run = neap_receipts_new(&n->layer, peer, at);
  s->cap = nakack_cap(n, peer);
  neap_timer_init(&n->layer, &s->gap, nakack_gap_fire);
  neap_timer_init(&n->layer, &s->again, nakack_again_fire);
  neap_timer_init(&n->layer, &s->report, nakack_report_fire);
  return s;
}

void nakack_forget(struct nakack *n, struct stream *s)
{
  if (!s->known) return;
  n->waiting -= s->win.waiting;
  if (s != n->own) nakack_drop_copies(n, s, s->win.hd);
  neap_timer_stop(&s->gap);
  neap_timer_stop(&s->again);
  neap_timer_stop(&s->report);
  neap_window_done(&s->win);
  neap_receipts_close(s->run);
  *s = (struct stream){0};
}

static void forget_departed(struct nakack *n, const struct neap_view *view)
{
  struct stream *s;
  neap_each_peer (&n->layer, s)
    if (s->known && s != n->own && !neap_in_view(view, s->peer)) nakack_forget(n, s);
}

/* True if it is new to us. */
static bool welcome(struct nakack *n, struct neap_peer *peer)
{
  struct stream *s = neap_peer_state(&n->layer, peer);
  if (s == n->own) return false;
  if (!s->known) nakack_start(n, peer, 0);
  s->stopped = false;
  nakack_watch(n, s, false);
  if (s->member) return false;
  s->member = true;
  s->got = n->own->win.high; /* Nothing is on its way to it. */
  return true;
}

void nakack_view(struct nakack *n, const struct neap_view *view)
{
  bool joined = false;
  n->all_ours = neap_view_all_neap(view);
  forget_departed(n, view);
  for (uint32_t i = 0; i < view->count; i++) joined |= welcome(n, view->members[i]);
  nakack_size(n);
  nakack_survey(n);
  nakack_purge(n);
  nakack_pace(n);
  nakack_publish(n);
  nakack_follow(n);
  nakack_mode_due(n);
  if (joined) nakack_tail_view(n);
  nakack_tail_check(n);
  nakack_catch(n);
  if (n->early.first) nakack_early(n);
}
