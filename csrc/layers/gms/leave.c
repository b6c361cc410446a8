/* leave: how a member goes in good order.
 *
 * It asks the first member that stays (the heir: the coordinator, or after a leaving
 * coordinator the next one) and waits for the answer, for a view without it, or for
 * `leave_timeout`.  Whoever leaves and is asked by others that leave passes their
 * requests on, so that however many leave at once, the first that stays hears of all of
 * them.  When nobody stays, all are done.
 *
 *     ann*  bob*  cho  dee*         * leaving
 *      |     ^ |   ^    |
 *      +-----+ +---+    +-> ann -> bob -> cho     cho makes {cho} of it, in one view
 *
 * A coordinator first ends the view change that runs, for at most half of its time. */

#include "layers/gms/gms.h"

static void send_req(struct gms *g, struct neap_peer *to, const struct neap_peer *leaver)
{
  gms_send(g, gms_message(g, to, NEAP_OOB, NEAP_GMS_LEAVE_REQ, &leaver->addr));
}

static void send_rsp(struct gms *g, struct neap_peer *to)
{
  gms_send(g, gms_message(g, to, NEAP_OOB | NEAP_NO_RELIABILITY, NEAP_GMS_LEAVE_RSP, NULL));
}

void gms_left(struct gms *g)
{
  struct neap_event event = {.kind = NEAP_EVENT_LEFT};
  if (g->state == GMS_GONE) return;
  gms_names_flush(g);
  g->state = GMS_GONE;
  gms_stop(g);
  neap_event_up(&g->layer, &event);
}

/* Everybody leaves, so nobody is left to make a view of it. */
static void dissolve(struct gms *g)
{
  for (uint32_t i = 0; i < gms_view(g)->count; i++) {
    struct neap_peer *peer = gms_view(g)->members[i];
    const struct gms_peer *p = neap_peer_state_have(&g->layer, peer);
    if (p && p->leaving && !peer->self) send_rsp(g, peer);
  }
  gms_left(g);
}

void gms_leave_ask(struct gms *g)
{
  if (g->state != GMS_LEAVING) return;
  bool busy = g->gathering || g->collecting;
  if (busy && neap_now(&g->layer) + g->leave_timeout / 2 < g->leave_until) return;
  struct neap_peer *heir = gms_acting(g);
  if (!heir) {
    dissolve(g);
    return;
  }
  if (heir == g->heir) return;
  neap_peer_ref(heir);
  if (g->heir) neap_peer_unref(g->heir);
  g->heir = heir;
  for (uint32_t i = 0; i < gms_view(g)->count; i++) {
    const struct neap_peer *peer = gms_view(g)->members[i];
    const struct gms_peer *p = neap_peer_state_have(&g->layer, peer);
    if (p && p->leaving) send_req(g, heir, peer); /* this member itself is one of them */
  }
}

/* The one behind the heir hears of it as well: it need not find out by silence. */
static void ask_next(struct gms *g)
{
  const struct neap_view *view = gms_view(g);
  int rank = neap_rank(view, g->heir);
  for (uint32_t i = (uint32_t)(rank + 1); i < view->count; i++) {
    if (view->members[i]->self || gms_peer_going(g, view->members[i])) continue;
    send_req(g, view->members[i], gms_self(g));
    return;
  }
}

void gms_leave_step(struct neap_layer *layer, struct neap_timer *timer)
{
  struct gms *g = (struct gms *)layer;
  uint64_t now = neap_now(layer);
  if (now >= g->leave_until) {
    gms_left(g);
    return;
  }
  struct neap_peer *before = g->heir;
  gms_leave_ask(g);
  if (g->state != GMS_LEAVING) return;
  if (g->heir == before) ask_next(g); /* It may be dead, and nobody knows yet. */
  neap_timer_start(layer, timer, g->leave_until - now);
}

void gms_leave(struct gms *g)
{
  if (g->state == GMS_GONE || g->state == GMS_LEAVING) return;
  if (g->state != GMS_MEMBER) {
    if (g->state == GMS_ASKED) send_req(g, g->asked, gms_self(g)); /* It may count us in by now. */
    gms_left(g);
    return;
  }
  g->state = GMS_LEAVING;
  gms_policy_drop(g);
  gms_decide(g, gms_self(g), "leaves: asked to");
  gms_peer_of(g, gms_self(g))->leaving = true;
  g->leave_until = neap_now(&g->layer) + g->leave_timeout;
  neap_timer_start(&g->layer, &g->leave, g->leave_timeout / 2);
  gms_lone_update(g);
  gms_leave_ask(g);
}

void gms_leave_req(struct gms *g, struct neap_msg *m, const struct neap_gms_head *head)
{
  struct neap_view *view = gms_view(g);
  struct neap_peer *leaver = neap_peer_find(g->layer.stack, &head->member);
  if (!view || g->state == GMS_GONE) return;
  if (!leaver || !neap_in_view(view, leaver)) { /* It is out already and did not hear of it. */
    if (leaver == m->from) send_rsp(g, leaver);
    return;
  }
  if (leaver->self) { /* Somebody thinks that we are in another group, and is told otherwise. */
    g->conflicts++;
    return;
  }
  struct gms_peer *p = gms_peer_of(g, leaver);
  bool news = !p->leaving;
  struct neap_peer *acting = gms_acting(g);
  p->leaving = true;
  if (g->state == GMS_LEAVING) { /* With a new heir, it hears of all of them. */
    gms_leave_ask(g);
  } else if (gms_is_acting(g)) {
    gms_kick(g);
  } else if (news && acting && acting != m->from && acting != leaver && !NEAP_IS_MUTANT(505)) {
    send_req(g, acting, leaver);
  }
  gms_watch_update(g);
}

void gms_leave_rsp(struct gms *g, struct neap_msg *m)
{
  if (g->state == GMS_LEAVING && neap_in_view(gms_view(g), m->from)) gms_left(g);
}

/* ---- whoever makes the view ---- */

const char *gms_why_going(const struct gms_peer *p)
{
  if (p->leaving) return "it leaves";
  if (p->suspected) return "it is suspected";
  return p->apart ? "it went on without us" : "it has to come again, its digest is void";
}

void gms_answer_leavers(struct gms *g, uint64_t number)
{
  const struct neap_view *view = gms_view(g);
  for (uint32_t i = 0; i < view->count; i++) {
    struct neap_peer *peer = view->members[i];
    const struct gms_peer *p = neap_peer_state_have(&g->layer, peer);
    if (!gms_going(p) || peer->self) continue;
    if (p->leaving) {
      g->leaves++;
      gms_decide(g, peer, "let go: it leaves");
      gms_send(g, gms_message(g, peer, NEAP_OOB | NEAP_NO_RELIABILITY, NEAP_GMS_LEAVE_RSP, NULL));
    } else {
      g->exclusions++;
      gms_decide(g, peer, "excluded: %s", gms_why_going(p));
      gms_tell_excluded(g, peer, &gms_self(g)->addr, number);
    }
  }
}
