/* What must always be true of connections. */

#include "layers/unicast/unicast.h"

static void check_out(const struct unicast *u, const struct peer *p)
{
  const struct out *o = &p->out;
  struct neap_gate_position held = {0};
  bool watched = neap_unicast_unreported(o) || o->syncing;
  NEAP_ASSERT(o->open || !o->window.stored);
  if (o->open) neap_window_check(&o->window);
  for (uint64_t s = o->window.low + 1; o->open && !neap_after(s, o->window.high); s++) {
    held.bytes += neap_window_get(&o->window, s)->charge; /* Nothing is missing here. */
    held.messages += neap_window_get(&o->window, s)->charges;
  }
  NEAP_ASSERT(o->taken.bytes - o->freed.bytes == held.bytes);
  NEAP_ASSERT(o->taken.messages - o->freed.messages == held.messages);
  NEAP_ASSERT(!o->turn || (neap_after(o->turn, o->window.low) && o->open));
  /* What is not reported is watched, as long as the peer may be resent to. */
  if (watched && !p->peer->self && (p->member || neap_now(&u->layer) < o->until))
    NEAP_ASSERT(o->tail.armed);
}

static void check_in(const struct peer *p)
{
  const struct in *in = &p->in;
  NEAP_ASSERT((!in->early.first && !in->syncing) || in->ask.armed);
  if (!in->open) return;
  neap_window_check(&in->window);
  NEAP_ASSERT(!neap_window_get(&in->window, in->window.hd + 1)); /* What can rise has risen. */
  NEAP_ASSERT(!neap_after(in->run->applied, in->heard));
  NEAP_ASSERT(!neap_after(in->window.high, in->heard));
  /* A gap is watched, and a report is on its way. */
  if (neap_after(in->heard, in->window.hd) && !in->halted)
    NEAP_ASSERT(in->gap.armed || in->repeat.armed);
  if (in->run->mover.queued) return;
  NEAP_ASSERT(in->run->applied == in->reported || in->report.armed);
  NEAP_ASSERT(!in->report_at || neap_after(in->report_at, in->run->applied));
}

void neap_unicast_check(const struct neap_layer *layer)
{
  const struct unicast *u = (const struct unicast *)layer;
  uint64_t unacked = 0, waiting = 0, early = 0, pending = 0;
  const struct peer *p;
  neap_each_peer (layer, p) {
    if (!p->peer) continue;
    check_out(u, p);
    check_in(p);
    unacked += p->out.open ? p->out.window.stored : 0;
    waiting += p->in.open ? p->in.window.waiting : 0;
    early += p->in.early.count;
    pending += p->member && p->out.open && p->out.turn;
  }
  NEAP_ASSERT(unacked == u->unacked && waiting == u->waiting && early == u->early);
  NEAP_ASSERT(pending == u->mode_pending && (pending || !u->waited));
}
