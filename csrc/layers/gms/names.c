/* names: a view reaches the application with the names of its members.
 *
 * A joiner is told all names with the answer to its request, and others know it from
 * its search.  Who is new and has no name yet is asked for it, for at most
 * `name_timeout`; then the address stands for the name.  What rises meanwhile waits
 * behind the view, so that views and messages keep their order; before the first view
 * everything waits.  What waits is bounded by the windows of its senders; messages
 * without a window are bounded by number. */

#include "layers/gms/gms.h"

/* A question can get lost. */
enum { TRIES = 4 };

/* Nobody waits twice for a name: only that of a new member. */
static bool all_named(const struct neap_view *view)
{
  for (uint32_t i = 0; i < view->joined_count; i++)
    if (!view->joined[i]->name[0]) return false;
  return true;
}

static void over(struct gms *g)
{
  struct neap_event event = {.kind = NEAP_EVENT_VIEW, .view = g->naming};
  neap_timer_stop(&g->names);
  for (uint32_t i = 0; i < g->naming->joined_count; i++)
    g->unnamed += !g->naming->joined[i]->name[0];
  g->naming = NULL;
  g->risen = true;
  neap_event_up(&g->layer, &event);
  neap_pass_up(&g->layer, &g->early);
}

/* Asks for those without a name, or gives up. */
void gms_names_step(struct neap_layer *layer, struct neap_timer *timer)
{
  struct gms *g = (struct gms *)layer;
  if (!g->names_left) {
    over(g);
    return;
  }
  g->names_left--;
  for (uint32_t i = 0; i < g->naming->joined_count; i++) {
    struct neap_event event = {.kind = NEAP_EVENT_LOCATE};
    if (g->naming->joined[i]->name[0]) continue;
    event.peer = neap_peer_ref(g->naming->joined[i]);
    neap_event_down(layer, &event);
  }
  neap_timer_start(layer, timer, g->name_timeout / TRIES);
}

void gms_names_flush(struct gms *g)
{
  if (g->naming) over(g);
}

void gms_names_start(struct gms *g, struct neap_view *view)
{
  gms_names_flush(g); /* Views do not queue: this one is newer. */
  g->naming = neap_view_ref(view);
  g->names_left = g->name_timeout && !all_named(view) ? TRIES : 0;
  gms_names_step(&g->layer, &g->names);
}

void gms_named(struct gms *g)
{
  if (gms_view(g)) gms_show(g);
  if (g->naming && all_named(g->naming)) over(g);
}

void gms_rise(struct gms *g, struct neap_batch *batch)
{
  if ((g->risen && !g->naming) || NEAP_IS_MUTANT(506)) {
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
