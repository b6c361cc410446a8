#include "layers/chosen/chosen.h"

#include <stdio.h>
#include <stdlib.h>

enum { WHY = 256 };

/* ---- members by name or address ---- */

static bool called(const struct neap_peer *peer, const char *name)
{
  char text[NEAP_ADDR_TEXT];
  return !strcmp(peer->name, name) || !strcmp(neap_addr_text(&peer->addr, text), name);
}

static bool address_of(const void *context, const char *name, struct neap_addr *addr)
{
  const struct neap_layer *layer = context;
  const struct neap_view *view = layer->stack->view;
  const struct neap_peer *found = called(neap_self(layer), name) ? neap_self(layer) : NULL;
  for (uint32_t i = 0; view && i < view->count && !found; i++)
    if (called(view->members[i], name)) found = view->members[i];
  if (found) *addr = found->addr;
  return found != NULL;
}

static bool ends_fit(
  const struct neap_layer *layer, const struct neap_rule *rule, const struct neap_msg *m, bool up)
{
  if (rule->from && !called(m->from, rule->from)) return false;
  if (!rule->to) return true;
  const struct neap_peer *to = m->to ? m->to : up ? neap_self(layer) : NULL;
  return to && called(to, rule->to);
}

bool neap_chosen_hit(
  struct neap_layer *layer, struct neap_chosen *chosen, const struct neap_msg *m, bool up)
{
  struct neap_rule_scene scene = {&layer->stack->registry, address_of, layer};
  if (!(up ? chosen->up : chosen->down)) return false;
  if (chosen->all) return true;
  return ends_fit(layer, &chosen->rule, m, up) && neap_rule_fits(&chosen->rule, &scene, m) &&
         neap_rule_hit(&chosen->rule);
}

/* ---- reading ---- */

/* Takes the row `way` out of the others, which the core does not know. */
static int take_way(
  struct neap_chosen *chosen, struct neap_rule_row *rows, int count, char *why, size_t size)
{
  int kept = 0;
  for (int r = 0; r < count; r++) {
    if (strcmp(rows[r].name, "way") != 0) {
      rows[kept++] = rows[r];
      continue;
    }
    bool up = rows[r].text && !strcmp(rows[r].text, "up");
    if (!up && (!rows[r].text || strcmp(rows[r].text, "down") != 0)) {
      snprintf(why, size, "way: up or down is expected");
      return NEAP_CONFIG;
    }
    chosen->up = up;
    chosen->down = !up;
  }
  return kept;
}

int neap_chosen_read(
  struct neap_layer *layer, struct neap_chosen *chosen, const char *text, char *why, size_t size)
{
  struct neap_rule_row rows[NEAP_RULE_ROWS_MAX];
  char *copy = strdup(text);
  NEAP_ASSERT(copy);
  *chosen = (struct neap_chosen){.up = true, .down = true};
  int count = neap_rule_read(copy, rows, why, size), code = count;
  chosen->all = count == 0;
  if (code > 0) code = take_way(chosen, rows, count, why, size);
  if (code >= 0)
    code = neap_rule_make(&chosen->rule, &layer->stack->registry, rows, (uint32_t)code, why, size);
  if (code >= 0) neap_random_seed(&chosen->rule.random, neap_random_next(&layer->stack->random));
  free(copy);
  return code;
}

void neap_chosen_free(struct neap_chosen *chosen)
{
  neap_rule_free(&chosen->rule);
}

int neap_chosen_open(
  struct neap_layer *layer, struct neap_chosen *chosen, const char *when, struct neap_trail *trail)
{
  char why[WHY] = "";
  int code = neap_chosen_read(layer, chosen, when, why, sizeof why);
  return code < 0 ? neap_trail(trail, code, "when: %s", why) : 0;
}

void neap_chosen_set(struct neap_layer *layer, struct neap_chosen *chosen, const char *when)
{
  char why[WHY];
  neap_chosen_free(chosen);
  int code = neap_chosen_read(layer, chosen, when, why, sizeof why);
  NEAP_ASSERT(code >= 0); /* It was asked about before. */
}

int neap_chosen_may(const struct neap_layer *layer, const struct neap_attr *attr,
  const struct neap_value *value, char *why, size_t size)
{
  struct neap_chosen tried;
  struct neap_rule_row rows[NEAP_RULE_ROWS_MAX];
  if (strcmp(attr->name, "when") != 0) return 0;
  char *copy = strdup(value->text);
  NEAP_ASSERT(copy);
  int code = neap_rule_read(copy, rows, why, size);
  if (code > 0) code = take_way(&tried, rows, code, why, size);
  if (code >= 0) {
    code = neap_rule_make(&tried.rule, &layer->stack->registry, rows, (uint32_t)code, why, size);
    if (code >= 0) neap_chosen_free(&tried);
  }
  free(copy);
  return code;
}
