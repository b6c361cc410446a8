/* check_view: watches what is promised by `view`.
 *
 * View numbers rise; one id is one list of members everywhere; whoever installs a view is in it;
 * joined and left are the difference to the view before; no message of a member outside the view
 * rises.  Put it above the layer that gives views.  What is wrong it tells the oracle. */

#include "core/oracle.h"

struct check_view {
  struct neap_layer layer;
  uint64_t views, messages; /* counters */
  struct neap_judge judge;
  struct neap_view *before; /* counted */
};

#define AT(member) offsetof(struct check_view, member)
static const struct neap_attr check_view_attrs[] = {
  {NEAP_COUNTER, "views", AT(views), "views", .doc = "Looked at."},
  {NEAP_COUNTER, "messages", AT(messages), "messages", .doc = "Looked at, on their way up."},
  {NEAP_END},
};

/* Members of `a` that are not in `b` must be exactly this list. */
static bool differs(const struct neap_view *a, const struct neap_view *b,
  struct neap_peer *const *list, uint32_t count)
{
  uint32_t found = 0;
  for (uint32_t i = 0; i < a->count; i++) {
    if (neap_in_view(b, a->members[i])) continue;
    if (found == count || list[found] != a->members[i]) return true;
    found++;
  }
  return found != count;
}

static void look(struct check_view *c, struct neap_view *view)
{
  struct neap_layer *layer = &c->layer;
  char id[NEAP_ADDR_TEXT * 2], old[NEAP_ADDR_TEXT * 2];
  neap_view_text(view, id, sizeof id);
  c->views++;
  if (!neap_in_view(view, neap_self(layer)))
    neap_judge_complain(layer, "installed %s and is not in it", id);
  if (!neap_judge_view(layer, view))
    neap_judge_complain(layer, "%s has other members somewhere else", id);
  if (c->before) {
    neap_view_text(c->before, old, sizeof old);
    if (view->number <= c->before->number)
      neap_judge_complain(layer, "installed %s after %s", id, old);
    if (differs(view, c->before, view->joined, view->joined_count))
      neap_judge_complain(layer, "%s tells wrong who joined since %s", id, old);
    if (differs(c->before, view, view->left, view->left_count))
      neap_judge_complain(layer, "%s tells wrong who left since %s", id, old);
  }
  neap_view_unref(c->before);
  c->before = neap_view_ref(view);
}

static int check_view_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct check_view *c = (struct check_view *)layer;
  (void)trail;
  neap_judge_open(&c->judge, layer);
  return 0;
}

static void check_view_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct check_view *c = (struct check_view *)layer;
  char who[NEAP_ADDR_TEXT];
  for (const struct neap_msg *m = batch->first; m; m = m->next) {
    c->messages++;
    if (layer->view && !m->to && !neap_in_view(layer->view, m->from))
      neap_judge_complain(
        layer, "a multicast of %s rose, who is in no view of mine", neap_peer_text(m->from, who));
  }
  neap_pass_up(layer, batch);
}

static enum neap_verdict check_view_event(
  struct neap_layer *layer, struct neap_event *event, bool up)
{
  if (event->kind == NEAP_EVENT_VIEW && up) look((struct check_view *)layer, event->view);
  return NEAP_PASS;
}

static void check_view_close(struct neap_layer *layer)
{
  struct check_view *c = (struct check_view *)layer;
  neap_judge_close(&c->judge);
  neap_view_unref(c->before);
}

const struct neap_class neap_check_view = {
  .name = "check_view",
  .doc = "Watches that all members are told the same views, in one order.",
  .needs = "view",
  .size = sizeof(struct check_view),
  .attrs = check_view_attrs,
  .open = check_view_open,
  .up = check_view_up,
  .event = check_view_event,
  .close = check_view_close,
};
