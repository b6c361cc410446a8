/* names: a view reaches the application with the names of its members.
 *
 * Whom discovery has not named yet is asked for, for at most `name_timeout`; then the address stands
 * for the name.  What rises meanwhile waits behind the view, so that views and messages keep their
 * order; before the first view everything waits.  What waits is bounded by the windows of its
 * senders; messages without a window are bounded by number. */

#include "layers/gms/gms.h"

static bool all_named(const struct neap_view *view)
{
  for (uint32_t i = 0; i < view->count; i++)
    if (!view->members[i]->name[0]) return false;
  return true;
}

void gms_names_over(struct neap_layer *layer, struct neap_timer *timer)
{
  struct gms *g = (struct gms *)layer;
  (void)timer;
  struct neap_event event = {.kind = NEAP_EVENT_VIEW, .view = g->naming};
  neap_timer_stop(&g->names);
  for (uint32_t i = 0; i < g->naming->count; i++) g->unnamed += !g->naming->members[i]->name[0];
  g->naming = NULL;
  g->risen = true;
  neap_event_up(layer, &event);
  neap_pass_up(layer, &g->early);
}

void gms_names_start(struct gms *g, struct neap_view *view)
{
  if (g->naming) gms_names_over(&g->layer, &g->names); /* Views do not queue: this one is newer. */
  g->naming = neap_view_ref(view);
  if (!g->name_timeout || all_named(view)) {
    gms_names_over(&g->layer, &g->names);
    return;
  }
  for (uint32_t i = 0; i < view->count; i++) {
    struct neap_event event = {.kind = NEAP_EVENT_LOCATE};
    if (view->members[i]->name[0]) continue;
    event.peer = neap_peer_ref(view->members[i]);
    neap_event_down(&g->layer, &event);
  }
  neap_timer_start(&g->layer, &g->names, g->name_timeout);
}

void gms_named(struct gms *g)
{
  if (gms_view(g)) gms_show(g);
  if (g->naming && all_named(g->naming)) gms_names_over(&g->layer, &g->names);
}

void gms_rise(struct gms *g, struct neap_batch *batch)
{
  if (g->risen && !g->naming) {
    neap_pass_up(&g->layer, batch);
    return;
  }
  struct neap_msg *m;
  while ((m = neap_take(batch))) {
    if (!m->receipts && g->early.count >= GMS_EARLY) {
      g->early_dropped++;
      neap_msg_free(m);
    } else {
      neap_put(&g->early, m);
    }
  }
}
