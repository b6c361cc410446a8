/* Gaps: a number below `heard` that did not come.
 *
 *        applied      hd                heard
 *           |  handed  |                  |      asked for after gap_delay, again after two round
 *       ----+----------+--[ ][8][ ][10]---       trips, then with growing pauses
 *
 * Nothing is asked for while the application has no room for it. */

#include "layers/unicast/unicast.h"

/* Asks for what is missing in `from` .. `to`; returns how far it looked. */
static uint64_t ask(struct unicast *u, struct peer *p, uint64_t from, uint64_t to)
{
  struct in *in = &p->in;
  struct neap_uni_head head = {.type = NEAP_UNI_XMIT_REQ};
  uint64_t first = neap_window_missing(&in->window, from, to);
  if (!first) return to;
  struct neap_msg *m = neap_unicast_own(u, p, head, NEAP_OOB | NEAP_NO_FC);
  to = neap_seqnos_ask(m, &in->window, first, to, (uint32_t)u->max_xmit_req_size);
  u->requests_sent++;
  if (!in->probe) {
    in->probe = first;
    in->probe_at = neap_now(&u->layer);
  }
  neap_pass_down_msg(&u->layer, m);
  return to;
}

/* Two round trips, or as long as answers have taken; and what a busy moment takes. */
static uint64_t repeat_base(const struct unicast *u, const struct peer *p)
{
  uint64_t trip = neap_unicast_trip(p), base = NEAP_MS(2);
  if (base < 2 * trip) base = 2 * trip;
  if (base < trip + 4 * p->rtt_spread) base = trip + 4 * p->rtt_spread;
  return base < u->xmit_interval ? base : u->xmit_interval;
}

void neap_unicast_watch_gaps(struct unicast *u, struct peer *p)
{
  struct in *in = &p->in;
  if (!neap_after(in->heard, in->window.hd)) {
    neap_timer_stop(&in->gap);
    neap_timer_stop(&in->repeat);
    in->asked = in->heard;
    in->pause = 0;
    return;
  }
  if (in->halted && !p->member) return;
  in->halted = false;
  if (neap_after(in->heard, in->asked))
    neap_arm(&u->layer, &in->gap, u->gap_delay);
  else
    neap_arm(&u->layer, &in->repeat, in->pause ? in->pause : repeat_base(u, p));
}

/* The application takes nothing: what would come could not be kept. */
static bool full(const struct unicast *u)
{
  return !neap_rx_space(&u->layer);
}

/* Gaps that nobody has asked for yet. */
void neap_unicast_gap_due(struct neap_layer *layer, struct neap_timer *timer)
{
  struct unicast *u = (struct unicast *)layer;
  struct peer *p = NEAP_HOLDER(timer, struct peer, in.gap);
  struct in *in = &p->in;
  if (neap_after(in->window.hd, in->asked)) in->asked = in->window.hd;
  if (full(u))
    in->asked = in->heard;
  else
    in->asked = ask(u, p, in->asked + 1, in->heard);
  /* The rest of a wide range waits for the answers to the first part. */
  if (neap_after(in->heard, in->asked)) neap_timer_start(layer, timer, neap_unicast_trip(p));
  in->repaired = in->window.hd;
  neap_arm(layer, &in->repeat, repeat_base(u, p));
}

/* Those that were asked for and have not come. */
void neap_unicast_repeat_due(struct neap_layer *layer, struct neap_timer *timer)
{
  struct unicast *u = (struct unicast *)layer;
  struct peer *p = NEAP_HOLDER(timer, struct peer, in.repeat);
  struct in *in = &p->in;
  uint64_t base = repeat_base(u, p);
  if (!p->member && neap_now(layer) - in->used >= u->max_retransmit_time) {
    in->halted = true; /* Until it is heard again. */
    neap_timer_stop(&in->gap);
    return;
  }
  uint64_t pause = in->window.hd != in->repaired ? base : 2 * (in->pause ? in->pause : base);
  in->pause = pause < u->xmit_interval ? pause : u->xmit_interval;
  in->repaired = in->window.hd;
  if (!full(u)) ask(u, p, in->window.hd + 1, in->asked);
  neap_timer_start(layer, timer, in->pause);
}

void neap_unicast_ask_gaps(struct unicast *u, struct peer *p)
{
  struct in *in = &p->in;
  if (!in->open || !neap_after(in->heard, in->window.hd) || full(u)) return;
  uint64_t looked = ask(u, p, in->window.hd + 1, in->heard);
  if (neap_after(looked, in->asked)) in->asked = looked;
  in->repaired = in->window.hd;
  neap_unicast_watch_gaps(u, p);
}
