/* age: what goes by itself, and when.
 *
 *     idle, a member   conn_expiry_timeout, then conn_close_timeout -> CLOSE sent; forgotten
 *     in no view       conn_close_timeout -> the same; RESET if something was not reported
 *     memory           conn_close_timeout after forgetting
 *     counter of ids   twice conn_close_timeout after the peer left, and everything else is gone
 *
 * So an id is never used again while anybody could remember it.  A member's connection with
 * messages that are not reported does not age.
 *
 * At least once begins here: who comes back after its memory is gone may get again what it applied
 * and could not report.  Shorter times free memory sooner, longer ones keep the promise longer. */

#include "layers/unicast/unicast.h"

/* What is closing looks so often whether the application is done. */
#define RECHECK NEAP_S(1)

static uint64_t later(uint64_t a, uint64_t b)
{
  return a > b ? a : b;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

/* When a half that was last used then may end; UINT64_MAX: never. */
static uint64_t half_end(const struct unicast *u, const struct peer *p, uint64_t used)
{
  if (!u->conn_close_timeout) return UINT64_MAX;
  if (!p->member) return later(p->left, used) + u->conn_close_timeout;
  if (!u->conn_expiry_timeout) return UINT64_MAX;
  return used + u->conn_expiry_timeout + u->conn_close_timeout;
}

static uint64_t out_end(const struct unicast *u, const struct peer *p)
{
  const struct out *o = &p->out;
  if (!o->open || (p->member && neap_unicast_unreported(o))) return UINT64_MAX;
  return half_end(u, p, o->used);
}

static uint64_t in_end(const struct unicast *u, const struct peer *p)
{
  const struct in *in = &p->in;
  if (!in->open) return UINT64_MAX;
  if (in->closing) return in->used + RECHECK;
  /* A member's messages that wait for a gap are not idle: the gap is asked for. */
  if (p->member && in->window.stored) return UINT64_MAX;
  return half_end(u, p, in->used);
}

/* When the last of it goes, the counter of connection ids too. */
static uint64_t end(const struct unicast *u, const struct peer *p)
{
  if (p->member || !p->held || p->out.open || p->in.open || p->in.remembered) return UINT64_MAX;
  if (!u->conn_close_timeout) return UINT64_MAX;
  uint64_t last = later(p->left, later(p->out.used, p->in.used));
  return last + 2 * u->conn_close_timeout;
}

static uint64_t memory_end(const struct peer *p)
{
  return p->in.remembered ? p->in.old_until : UINT64_MAX;
}

void neap_unicast_plan(struct unicast *u, struct peer *p)
{
  if (p->peer->self) return;
  uint64_t at = sooner(sooner(out_end(u, p), in_end(u, p)), sooner(memory_end(p), end(u, p)));
  uint64_t now = neap_now(&u->layer);
  if (at == UINT64_MAX)
    neap_timer_stop(&p->age);
  else
    neap_timer_start(&u->layer, &p->age, at > now ? at - now : 0);
}

void neap_unicast_expire(struct unicast *u, struct peer *p)
{
  if (!neap_unicast_unreported(&p->out)) neap_unicast_close_out(u, p, true);
  neap_unicast_forget(u, p);
}

void neap_unicast_age_due(struct neap_layer *layer, struct neap_timer *timer)
{
  struct unicast *u = (struct unicast *)layer;
  struct peer *p = NEAP_HOLDER(timer, struct peer, age);
  uint64_t now = neap_now(layer);
  if (out_end(u, p) <= now) neap_unicast_close_out(u, p, true);
  if (in_end(u, p) <= now) neap_unicast_forget(u, p);
  if (memory_end(p) <= now) p->in.remembered = false;
  if (end(u, p) <= now) {
    p->held = false;
    neap_peer_release(layer, p->peer);
  }
  neap_unicast_plan(u, p);
}
