/* report: who has what.
 *
 * Out: this member says how far it has applied somebody's stream.  In ack mode after each share of
 * the window, or ack_delay after the first that was not reported; in any mode when asked by an
 * announcement, and at once when the position reaches what was asked for or a toggle.
 *
 * In: have[m] is the most that m ever said, by an ack or through `stable`, whichever mode.  The
 * least of the others, and this member's own live position, is what everybody has.
 *
 *     others = min over the view without us of have        a joiner has 0 until it reports
 *
 * A report is a fact and has no mode; one from outside the view says nothing about the group. */

#include "layers/nakack/nakack.h"

#include "core/promise.h"

#define VOTES_KNOWN NEAP_MS(100)

/* Whether what others send in nak mode can be freed because of this member.  It takes a look at
 * the whole stack, so not each time. */
static uint8_t votes(struct nakack *n)
{
  uint64_t now = neap_now(&n->layer);
  if (n->votes && now - n->votes_at < VOTES_KNOWN) return n->votes;
  n->votes_at = now;
  return n->votes = neap_stack_gives(n->layer.stack, "stable") ? 1 : 2;
}

/* Beside what was applied: what has come, and how much this member can take. */
static void add_window(struct nakack *n, const struct stream *s, struct neap_msg *m)
{
  if (!s->peer->generation) return;
  *neap_nak_own_head_put(m, &n->layer) = (struct neap_nak_own_head){
    .type = NEAP_NAK_WINDOW,
    .bytes = n->buffer,
    .received = s->win.high,
    .votes = s->asked_report ? votes(n) : 0,
  };
}

/* What a member says it can take bounds this member's window. */
void nakack_windowed(struct nakack *n, struct stream *s, const struct neap_nak_own_head *own)
{
  uint64_t bytes = nakack_least(own->bytes, 1u << 30); /* As window_bytes could be. */
  if (own->votes) s->mute = own->votes == 2;
  if (s->window == bytes) return;
  s->window = bytes;
  nakack_size(n);
}

void nakack_report(struct nakack *n, struct stream *s)
{
  uint64_t position = nakack_position(n, s);
  struct neap_msg *m = neap_msg_own(&n->layer, s->peer, NEAP_OOB | NEAP_NO_FC);
  *neap_nak_head_put_form(m, &n->layer, NEAP_NAK_FORM_4) =
    (struct neap_nak_head){.type = NEAP_NAK_ACK, .seqno = position};
  add_window(n, s, m);
  s->reported = position;
  s->said = nakack_most(s->said, position);
  s->fresh = 0;
  s->asked_report = false;
  if (!nakack_after(s->report_at, position)) s->report_at = 0;
  neap_timer_stop(&s->report);
  n->acks_sent++;
  neap_pass_down_msg(&n->layer, m);
}

void nakack_report_fire(struct neap_layer *layer, struct neap_timer *timer)
{
  struct nakack *n = (struct nakack *)layer;
  struct stream *s = NEAP_HOLDER(timer, struct stream, report);
  if (s->asked_report || nakack_after(nakack_position(n, s), s->reported)) nakack_report(n, s);
}

/* Between half and the whole of ack_delay, by rank: reports of many do not meet. */
static uint64_t report_delay(const struct nakack *n)
{
  const struct neap_view *view = n->layer.view;
  int rank = neap_rank(view, neap_self(&n->layer));
  if (rank < 0) return n->ack_delay;
  return n->ack_delay / 2 + n->ack_delay / 2 * (uint64_t)rank / view->count;
}

/* The position of a stream moved. */
void nakack_applied(struct nakack *n, struct stream *s)
{
  uint64_t position = nakack_position(n, s);
  bool part = s->fresh >= n->pace_bound / 4; /* The sender may be waiting for it. */
  nakack_caught_up(n);
  if (s == n->own) {
    s->have_at = neap_now(&n->layer);
    nakack_purge(n);
  } else if (s->report_at && (!nakack_after(s->report_at, position) || part)) {
    nakack_report(n, s);
  } else if (s->mode == NAKACK_ACK && nakack_after(position, s->reported)) {
    if (position - s->reported >= n->window_messages / 8 || part)
      nakack_report(n, s);
    else
      neap_timer_sooner(&n->layer, &s->report, report_delay(n));
  }
}

/* ---- what the others have ---- */

void nakack_survey(struct nakack *n)
{
  const struct neap_view *view = n->layer.view;
  n->others = UINT64_MAX;
  n->unheard = 0;
  for (uint32_t i = 0; view && i < view->count; i++) {
    if (view->members[i]->self) continue;
    const struct stream *s = neap_peer_state_have(&n->layer, view->members[i]);
    if (s->have < n->others) n->others = s->have;
    if (!s->heard && view->members[i]->generation) n->unheard++;
  }
}

static void settled_down(struct nakack *n)
{
  nakack_survey(n);
  nakack_purge(n);
  nakack_pace(n);
  if (n->turn) nakack_follow(n);
  nakack_tail_check(n);
}

/* It never has less. */
static void has(struct nakack *n, struct stream *s, uint64_t seqno)
{
  if (!nakack_after(seqno, s->have)) return;
  s->have = seqno;
  s->have_at = neap_now(&n->layer);
}

void nakack_heard(struct nakack *n, struct stream *s, uint64_t seqno)
{
  if (nakack_after(seqno, n->own->win.high)) {
    n->malformed++;
    return;
  }
  bool first = !s->heard, least = s->have == n->others;
  s->heard = true;
  if (!first && !nakack_after(seqno, s->have)) return;
  has(n, s, seqno);
  if (first || least || n->turn) settled_down(n);
}

/* What somebody had then is missing only if it has not come meanwhile: a member that reads slower
 * than others would ask for everything that waits in its socket. */
void nakack_hearsay_fire(struct neap_layer *layer, struct neap_timer *timer)
{
  struct nakack *n = (struct nakack *)layer;
  struct stream *s;
  (void)timer;
  neap_each_peer (layer, s)
    if (s->known && nakack_after(s->hearsay, s->win.hd)) nakack_notice(n, s, s->hearsay, false);
}

/* Everybody has applied `delivered` of each stream, and somebody has received `received`. */
void nakack_stable(struct nakack *n, const struct neap_digest *digest)
{
  for (uint32_t i = 0; i < digest->count; i++) {
    const struct neap_digest_row *row = &digest->rows[i];
    struct stream *s = neap_peer_state_have(&n->layer, row->peer);
    if (!s || !s->known) continue;
    if (s != n->own) {
      nakack_drop_copies(n, s, row->delivered);
      if (nakack_after(row->received, s->hearsay)) s->hearsay = row->received;
      if (nakack_after(s->hearsay, s->win.hd) && !n->hearsay.armed)
        neap_timer_start(&n->layer, &n->hearsay, n->xmit_interval + NEAP_MS(1));
      continue;
    }
    if (nakack_after(row->delivered, s->win.high)) continue;
    struct stream *m;
    neap_each_peer (&n->layer, m) {
      if (!m->member) continue;
      m->heard = true;
      has(n, m, row->delivered);
    }
    settled_down(n);
  }
}
