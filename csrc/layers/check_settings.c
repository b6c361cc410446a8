/* check_settings: watches what is promised by `settings`.
 *
 * What the group has set gets only newer at each member; one epoch of one coordinator is the same
 * table everywhere; and who is told that a change is made finds it made at everybody who was there
 * when it was asked for and is in its view.  Put it above the layer that gives settings.  What is
 * wrong it tells the oracle. */

#include "core/oracle.h"

#include <string.h>

enum { ASKED = 16, TABLE = 4096 };

struct asked {
  uint32_t ticket;
  uint64_t time;
};

struct check_settings {
  struct neap_layer layer;
  uint64_t tables, ends; /* counters */
  struct neap_judge judge;
  uint64_t came; /* time of the first view */
  uint64_t epoch;
  struct neap_addr creator;
  char table[TABLE];
  struct asked asked[ASKED]; /* the last ones */
  unsigned next;
};

#define AT(member) offsetof(struct check_settings, member)
static const struct neap_attr check_settings_attrs[] = {
  {NEAP_COUNTER, "tables", AT(tables), "tables", .doc = "Looked at: what the group has set."},
  {NEAP_COUNTER, "ends", AT(ends), "changes", .doc = "Looked at: made, as their askers were told."},
  {NEAP_END},
};

static void look_table(struct check_settings *c, const struct neap_event *event)
{
  const struct neap_msg *m = event->msg;
  struct neap_layer *layer = &c->layer;
  char who[NEAP_ADDR_TEXT];
  int order = event->number < c->epoch   ? -1
              : event->number > c->epoch ? 1
                                         : neap_addr_compare(&event->place, &c->creator);
  c->tables++;
  if (order <= 0)
    neap_judge_complain(layer, "set what the group had set in epoch %llu, after epoch %llu",
      (unsigned long long)event->number, (unsigned long long)c->epoch);
  c->epoch = event->number;
  c->creator = event->place;
  memset(c->table, 0, sizeof c->table);
  if (m && m->len) memcpy(c->table, m->body, m->len < TABLE ? m->len : TABLE - 1);
  for (struct neap_judge *at = NULL; (at = neap_judge_next(layer, at));) {
    const struct check_settings *other = (const struct check_settings *)at->layer;
    if (other->epoch == c->epoch && neap_addr_equal(&other->creator, &c->creator) &&
        strcmp(other->table, c->table))
      neap_judge_complain(layer, "epoch %llu is another one at %s", (unsigned long long)c->epoch,
        neap_peer_text(neap_self(at->layer), who));
  }
}

/* A change is made, and all have it: who was there when it was asked for, and is in this view. */
static void look_end(struct check_settings *c, const struct neap_event *event)
{
  const struct neap_view *mine = c->layer.view;
  char who[NEAP_ADDR_TEXT];
  uint64_t asked = UINT64_MAX;
  for (unsigned i = 0; i < ASKED; i++)
    if (c->asked[i].ticket == event->ticket) asked = c->asked[i].time;
  c->ends++;
  for (struct neap_judge *at = NULL;
       asked != UINT64_MAX && (at = neap_judge_next(&c->layer, at));) {
    const struct check_settings *other = (const struct check_settings *)at->layer;
    const struct neap_view *view = at->layer->view;
    if (!view || other->came >= asked || other->epoch >= event->number) continue;
    if (view->number != mine->number || !neap_addr_equal(&view->creator, &mine->creator)) continue;
    neap_judge_complain(&c->layer, "was told that epoch %llu is made, and %s has %llu",
      (unsigned long long)event->number, neap_peer_text(neap_self(at->layer), who),
      (unsigned long long)other->epoch);
  }
}

static int check_settings_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct check_settings *c = (struct check_settings *)layer;
  (void)trail;
  c->came = UINT64_MAX;
  neap_judge_open(&c->judge, layer);
  return 0;
}

static enum neap_verdict check_settings_event(
  struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct check_settings *c = (struct check_settings *)layer;
  if (event->kind == NEAP_EVENT_AGREE && !up)
    c->asked[c->next++ % ASKED] = (struct asked){event->ticket, neap_now(layer)};
  if (event->kind == NEAP_EVENT_VIEW && up && c->came == UINT64_MAX) c->came = neap_now(layer);
  if (event->kind == NEAP_EVENT_SETTINGS && up) look_table(c, event);
  if (event->kind == NEAP_EVENT_AGREED && up && !event->code && event->flag) look_end(c, event);
  return NEAP_PASS;
}

static void check_settings_close(struct neap_layer *layer)
{
  neap_judge_close(&((struct check_settings *)layer)->judge);
}

const struct neap_class neap_check_settings = {
  .name = "check_settings",
  .doc = "Watches that all members set what the group sets.",
  .needs = "settings",
  .size = sizeof(struct check_settings),
  .attrs = check_settings_attrs,
  .open = check_settings_open,
  .unseen = NEAP_UNSEEN_RISING_ALL | NEAP_UNSEEN_RISING_ONE | NEAP_UNSEEN_FALLING_ALL |
            NEAP_UNSEEN_FALLING_ONE,
  .event = check_settings_event,
  .close = check_settings_close,
};
