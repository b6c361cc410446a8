/* policy: in which order members stand in the next view.
 *
 * Those who stay, then those who come, in the order in which they asked: so the coordinator is the
 * oldest.  The application may have a policy of its own.  Then each change waits for its word, for
 * at most `policy_timeout`, before anything is promised to anybody:
 *
 *     kick -> ORDER (the view as it would be) -> ORDERED (places) -> gather -> commit
 *                \-- wrong, too late, or with an error: as it would be
 *
 * Whoever comes or goes meanwhile makes it be asked again while there is time; after that the
 * newest stand last.  A policy may put somebody else first, who then makes the next view; while
 * members of JGroups are there it may not, since they acknowledge a view to whoever made it only,
 * and holds of the maker before would never end.
 *
 * Invariant: what is proposed and not answered has a time limit. */

#include "layers/gms/gms.h"

#include <stdio.h>

static uint32_t plain(struct gms *g, bool with_joiners, struct neap_peer **members)
{
  const struct neap_view *view = gms_view(g);
  uint32_t count = 0;
  for (uint32_t i = 0; i < view->count; i++)
    if (!gms_peer_going(g, view->members[i])) members[count++] = view->members[i];
  if (!with_joiners) return count;
  for (struct neap_link *l = g->joiners.next; l != &g->joiners; l = l->next)
    if (count < NEAP_MEMBERS_MAX) members[count++] = NEAP_HOLDER(l, struct gms_peer, asks)->peer;
  return count;
}

static bool all_neap(struct neap_peer *const *members, uint32_t count)
{
  for (uint32_t i = 0; i < count; i++)
    if (!members[i]->generation) return false;
  return true;
}

/* Whoever has no place stands last. */
static uint32_t place_of(const struct gms *g, const struct neap_peer *peer)
{
  const struct gms_peer *p = neap_peer_state_have(&g->layer, peer);
  return p && p->place ? p->place : UINT32_MAX;
}

uint32_t gms_next_members(struct gms *g, bool with_joiners, struct neap_peer **members)
{
  uint32_t count = plain(g, with_joiners, members);
  if (!g->placed) return count;
  uint32_t first = all_neap(members, count) ? 0 : 1;
  for (uint32_t i = first + 1; i < count; i++) {
    struct neap_peer *peer = members[i];
    uint32_t at = i;
    for (; at > first && place_of(g, members[at - 1]) > place_of(g, peer); at--)
      members[at] = members[at - 1];
    members[at] = peer;
  }
  return count;
}

/* ---- asking ---- */

void gms_policy_drop(struct gms *g)
{
  neap_timer_stop(&g->policy_limit);
  neap_view_unref(g->proposed);
  g->proposed = NULL;
  g->placed = false;
  g->policy_until = 0;
}

static bool still(const struct gms *g, struct neap_peer *const *members, uint32_t count)
{
  if (g->proposed->count != count) return false;
  for (uint32_t i = 0; i < count; i++)
    if (g->proposed->members[i] != members[i]) return false;
  return true;
}

bool gms_policy_ask(struct gms *g, bool with_joiners)
{
  struct neap_peer *members[NEAP_MEMBERS_MAX];
  struct gms_peer *p;
  uint64_t now = neap_now(&g->layer);
  if (!g->policy) return false;
  uint32_t count = plain(g, with_joiners, members);
  if (g->placed && (now >= g->policy_until || still(g, members, count))) return false;
  if (count < 2) return false;
  if (!g->policy_until) g->policy_until = now + g->policy_timeout;
  neap_each_peer (&g->layer, p) p->place = 0;
  neap_view_unref(g->proposed);
  g->proposed =
    neap_view_new(g->layer.stack, &gms_self(g)->addr, g->seen + 1, members, count, gms_view(g));
  g->placed = false;
  struct neap_event event = {
    .kind = NEAP_EVENT_ORDER, .number = ++g->asks, .view = neap_view_ref(g->proposed)};
  neap_event_up(&g->layer, &event);
  neap_timer_start(&g->layer, &g->policy_limit, g->policy_until - now);
  return true;
}

/* The change goes on, with the places that are known now. */
static void go_on(struct gms *g)
{
  g->placed = true;
  neap_timer_stop(&g->policy_limit);
  gms_change(&g->layer, &g->kick);
}

void gms_policy_ordered(struct gms *g, const struct neap_event *event)
{
  const struct neap_view *view = g->proposed;
  const struct neap_msg *m = event->msg;
  uint16_t place;
  if (!view || g->placed || event->number != g->asks) return; /* Not asked any more. */
  bool good = m && m->len == view->count * sizeof place;
  for (uint32_t i = 0; good && i < view->count; i++) {
    memcpy(&place, m->body + i * sizeof place, sizeof place);
    gms_peer_of(g, view->members[place])->place = i + 1; /* The channel has looked at it. */
  }
  if (good)
    g->ordered++;
  else
    g->policy_failures++;
  go_on(g);
}

void gms_policy_step(struct neap_layer *layer, struct neap_timer *timer)
{
  struct gms *g = (struct gms *)layer;
  struct neap_event event = {.kind = NEAP_EVENT_TROUBLE};
  (void)timer;
  snprintf(event.text, sizeof event.text,
    "the membership policy has not answered within gms.policy_timeout; the order stays");
  g->policy_failures++;
  neap_event_up(layer, &event);
  go_on(g);
}
