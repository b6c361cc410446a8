/* change: setting attributes while a stack runs, all or nothing.
 *
 * What is asked for is looked at as a stack file would be, all of it, and all that is wrong is said
 * at once.  Then everything is set, and only then is anybody told. */

#include "base/text.h"
#include "core/channel.h"
#include "core/layer.h"
#include "core/promise.h"

#include <stdio.h>

enum { TEXT = 256 };

/* What an attribute will be once the changes are made, and those that were promised besides. */
struct planned {
  const struct neap_layer *layer;
  const struct neap_set *set;
  char text[TEXT];
};

static void plan_value(const struct planned *plan, const struct neap_set *set,
  const struct neap_attr *attr, struct neap_value *value)
{
  for (unsigned i = 0; set && i < set->count; i++)
    if (set->changes[i].layer == plan->layer && set->changes[i].attr == attr)
      *value = set->changes[i].value;
}

static const char *planned_value(const void *context, const char *name)
{
  struct planned *plan = (struct planned *)(uintptr_t)context;
  const struct neap_attr *attr = neap_attr_find(plan->layer->class, name);
  if (!attr) return NULL;
  struct neap_value value = neap_attr_get(plan->layer, attr);
  plan_value(plan, plan->set, attr, &value);
  plan_value(plan, plan->layer->stack->promised, attr, &value);
  return neap_attr_text(attr, &value, plan->text, sizeof plan->text);
}

static unsigned plan_all(const struct neap_stack *stack, const struct neap_set *set,
  struct planned *plans, struct neap_promiser *layers)
{
  for (uint32_t i = 0; i < stack->count; i++) {
    plans[i] = (struct planned){stack->layers[i], set, ""};
    layers[i] = (struct neap_promiser){
      stack->layers[i]->class, stack->layers[i]->name, "", planned_value, &plans[i]};
  }
  return stack->count;
}

/* One problem a line. */
static void add_problem(void *context, const char *text)
{
  while (*text == ':' || *text == ' ') text++; /* There is no file and line here. */
  struct neap_text *why = context;
  neap_text_add(why, "%s%s", why->len ? "\n" : "", text);
}

static int may_one(const struct neap_change *change, struct neap_text *why)
{
  const struct neap_class *class = change->layer->class;
  char text[TEXT] = "", line[2 * TEXT];
  if (change->attr->kind != NEAP_PARAM || change->attr->live == NEAP_NO) {
    snprintf(line, sizeof line, "%s.%s cannot be changed while running", change->layer->name,
      change->attr->name);
    add_problem(why, line);
    return NEAP_REFUSED;
  }
  int code = class->may
               ? class->may(change->layer, change->attr, &change->value, text, sizeof text)
               : 0;
  if (code >= 0) return 0;
  snprintf(line, sizeof line, "%s.%s: %s", change->layer->name, change->attr->name, text);
  add_problem(why, line);
  return code;
}

int neap_stack_may(
  const struct neap_stack *stack, const struct neap_set *set, char *text, size_t size)
{
  struct neap_text why = neap_text_of(text, size);
  int code = 0;
  for (unsigned i = 0; i < set->count; i++) {
    int one = may_one(&set->changes[i], &why);
    if (!code) code = one;
  }
  struct planned plans[NEAP_LAYERS_MAX];
  struct neap_promiser layers[NEAP_LAYERS_MAX];
  unsigned count = plan_all(stack, set, plans, layers);
  if (neap_promises_check(layers, count, add_problem, &why) && !code) code = NEAP_REFUSED;
  return code;
}

/* Writes down what is about to be. */
static void note_down(struct neap_stack *stack, const struct neap_set *set)
{
  if (!stack->channel) return;
  struct neap_journal *journal = &stack->channel->journal;
  char from[TEXT], to[TEXT];
  journal->sets++;
  for (unsigned i = 0; i < set->count; i++) {
    const struct neap_change *change = &set->changes[i];
    struct neap_value before = neap_attr_get(change->layer, change->attr);
    neap_journal_add(journal, &(struct neap_journal_row){
                                .set = journal->sets,
                                .time = stack->world->now,
                                .epoch = set->epoch,
                                .by = set->by ? set->by : stack->channel->name,
                                .layer = change->layer->name,
                                .attr = change->attr->name,
                                .from = neap_attr_text(change->attr, &before, from, sizeof from),
                                .to = neap_attr_text(change->attr, &change->value, to, sizeof to),
                                .live = change->attr->live,
                                .mine = !set->by || set->mine,
                                .was_own = change->own,
                                .undo = set->undo,
                              });
  }
}

int neap_stack_set(struct neap_stack *stack, const struct neap_set *set, char *why, size_t size)
{
  int code = neap_stack_may(stack, set, why, size);
  if (code < 0) return code;
  note_down(stack, set);
  stack->foreground = true;
  for (unsigned i = 0; i < set->count; i++)
    neap_attr_put(set->changes[i].layer, set->changes[i].attr, &set->changes[i].value);
  for (unsigned i = 0; i < set->count; i++)
    if (set->changes[i].layer->class->changed)
      set->changes[i].layer->class->changed(set->changes[i].layer, set->changes[i].attr);
  neap_stack_ready(stack);
  return 0;
}
