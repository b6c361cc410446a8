/* tail: a loss at the end of a stream leaves no gap, so the end is announced.
 *
 *     send  send  send      !               !       silence (nak), or on, with growing pauses,
 *                     delay   xmit_interval         until all have reported (ack)
 *
 * The delay is announce_delay, or twice the mean gap between sends: while messages flow they tell
 * themselves.  An announcement in the form of NAKACK4 wants a report, in any mode: besides ack mode
 * that is so after a toggle, while a joiner has not spoken, and while the window is more than half
 * full. Nothing is announced to whom has everything.
 *
 * Invariant: while a report is wanted and due, the timer runs. */

#include "layers/nakack/nakack.h"

/* 100 us a rank: after a view all senders announce, and a switch has room for some packets only. */
#define SPREAD NEAP_US(100)
#define PRESSED_PAUSE NEAP_MS(1)
enum { DOUBLINGS = 20, PAUSE_MOST = 16 };

bool nakack_wants_report(const struct nakack *n)
{
  if (n->mode == NAKACK_ACK) return true;
  if (!n->all_ours) return false; /* They would not understand. */
  return n->turn || n->unheard || !n->max_times || nakack_pressed(n);
}

/* Somebody is there who does not have everything, as far as we know. */
bool nakack_tail_due(const struct nakack *n)
{
  if (!n->layer.view || n->others == UINT64_MAX || !n->xmit_interval) return false;
  return nakack_after(n->own->win.high, n->others);
}

/* There is reason for one more announcement. */
static bool goes_on(const struct nakack *n)
{
  if (NEAP_IS_MUTANT(304)) return n->rounds < n->max_times;
  if (nakack_wants_report(n) || nakack_pressed(n)) return true;
  return n->resend_last_seqno && (n->rounds < n->max_times || !n->max_times);
}

/* From the last send to the first announcement.  Sooner where it may be want of room that ended the
 * sending: what was asked for, or its answer, may be lost. */
static uint64_t first_pause(const struct nakack *n)
{
  uint64_t pause = nakack_least(nakack_most(n->announce_delay, 2 * n->mean_gap), n->xmit_interval);
  return nakack_pressed(n) ? nakack_least(pause, PRESSED_PAUSE) : pause;
}

/* Where a report is wanted the pauses grow from small ones: an answer was lost, mostly.  Whoever
 * waits for room does not wait longer than xmit_interval. */
static uint64_t next_pause(const struct nakack *n)
{
  uint64_t least = nakack_pressed(n) ? PRESSED_PAUSE : nakack_most(n->announce_delay, NEAP_MS(1));
  uint64_t pause = least << nakack_least(n->rounds, DOUBLINGS);
  uint64_t most = nakack_pressed(n) ? n->xmit_interval : PAUSE_MOST * n->xmit_interval;
  return nakack_wants_report(n) || nakack_pressed(n) ? nakack_least(pause, most) : n->xmit_interval;
}

void nakack_announce(struct nakack *n)
{
  struct neap_msg *m = neap_msg_own(&n->layer, NULL, NEAP_OOB | NEAP_NO_FC);
  uint8_t form = nakack_wants_report(n) ? NEAP_NAK_FORM_4 : NEAP_NAK_FORM_2;
  *neap_nak_head_put_form(m, &n->layer, form) =
    (struct neap_nak_head){.type = NEAP_NAK_HIGHEST, .seqno = n->own->win.high};
  nakack_mark(n);
  n->announcements++;
  neap_pass_down_msg(&n->layer, m);
  if (n->mode == NAKACK_ACK || !nakack_full(n)) return;
  n->stable_wanted++;
  neap_event_up(&n->layer, &(struct neap_event){.kind = NEAP_EVENT_STABLE_WANTED});
}

void nakack_tail_fire(struct neap_layer *layer, struct neap_timer *timer)
{
  struct nakack *n = (struct nakack *)layer;
  uint64_t since = neap_now(layer) - n->last_sent;
  if (!nakack_tail_due(n)) return;
  if (!n->rounds && since < first_pause(n)) { /* There were sends meanwhile. */
    neap_timer_start(layer, timer, first_pause(n) - since);
    return;
  }
  if (!goes_on(n)) return;
  nakack_announce(n);
  n->rounds++;
  if (goes_on(n)) neap_timer_start(layer, timer, next_pause(n));
}

/* Messages were sent: the announcements begin anew. */
void nakack_tail_sent(struct nakack *n, uint64_t bytes)
{
  uint64_t now = neap_now(&n->layer), gap = now - n->last_sent;
  if (!n->last_sent || gap >= n->xmit_interval)
    n->mean_gap = 0; /* A new burst knows no rhythm yet. */
  else
    n->mean_gap = n->mean_gap ? (7 * n->mean_gap + gap) / 8 : gap;
  n->last_sent = now;
  n->rounds = 0;
  if (!nakack_tail_due(n)) return;
  if (!n->owing_at) n->owing_at = now;
  neap_timer_sooner(&n->layer, &n->tail, first_pause(n));

  n->bytes_since += bytes;
  if (!n->announce_bytes || n->bytes_since < n->announce_bytes) return;
  n->bytes_since = 0;
  nakack_announce(n);
}

/* Joiners do not know how far we are, nor we how far they are: announced once, and on until
 * those who can have reported. */
void nakack_tail_view(struct nakack *n)
{
  int rank = neap_rank(n->layer.view, neap_self(&n->layer));
  if (!nakack_tail_due(n)) return;
  if (!n->tail.armed) n->rounds = n->max_times > 1 ? n->max_times - 1 : 0;
  neap_timer_sooner(
    &n->layer, &n->tail, n->announce_delay + SPREAD * (uint64_t)(rank > 0 ? rank : 0));
}

/* As if something had been sent just now. */
void nakack_tail_anew(struct nakack *n)
{
  n->rounds = 0;
  if (nakack_tail_due(n)) neap_timer_sooner(&n->layer, &n->tail, first_pause(n));
}

/* Stops when all have everything; begins when somebody has to be asked now. */
void nakack_tail_check(struct nakack *n)
{
  if (!nakack_tail_due(n)) {
    neap_timer_stop(&n->tail);
    n->owing_at = 0;
  } else if (!n->tail.armed && nakack_wants_report(n)) {
    neap_timer_start(&n->layer, &n->tail, first_pause(n));
  }
}

/* Somebody says how far its stream goes. */
void nakack_announced(struct nakack *n, struct stream *s, uint64_t seqno, bool wants)
{
  int rank = neap_rank(n->layer.view, neap_self(&n->layer));
  n->announced++;
  nakack_caught_up(n);
  nakack_notice(n, s, seqno, true);
  if (!wants) return;
  s->asked_report = true;
  if (nakack_after(seqno, nakack_position(n, s)))
    s->report_at = nakack_most(s->report_at, nakack_least(seqno, s->told));
  neap_timer_sooner(&n->layer, &s->report, SPREAD / 2 * (uint64_t)(rank > 0 ? rank : 0));
}
