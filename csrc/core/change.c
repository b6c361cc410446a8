/* change: setting attributes while a stack runs, all or nothing.
 *
 * What is asked for is looked at as a stack file would be, all of it, and all that is wrong is said
 * at once.  Then everything is set, and only then is anybody told. */

#include "base/text.h"
#include "core/channel.h"
#include "core/layer.h"
#include "core/promise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
  int code =
    class->may ? class->may(change->layer, change->attr, &change->value, text, sizeof text) : 0;
  if (code >= 0) return 0;
  snprintf(line, sizeof line, "%s.%s: %s", change->layer->name, change->attr->name, text);
  add_problem(why, line);
  return code;
}

uint64_t neap_will_be(const struct neap_layer *layer, size_t at, uint64_t now)
{
  const struct neap_set *set = layer->stack->considered;
  for (unsigned i = 0; set && i < set->count; i++)
    if (set->changes[i].layer == layer && set->changes[i].attr->at == at)
      now = set->changes[i].value.number;
  return now;
}

int neap_stack_may(struct neap_stack *stack, const struct neap_set *set, char *text, size_t size)
{
  struct neap_text why = neap_text_of(text, size);
  int code = 0;
  stack->considered = set;
  for (unsigned i = 0; i < set->count; i++) {
    int one = may_one(&set->changes[i], &why);
    if (!code) code = one;
  }
  stack->considered = NULL;
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

/* ---- a stack that starts over ---- */

/* A change that the journal remembers. */
struct again {
  struct neap_change change;
  char text[TEXT];
};

/* Has this member set the attribute of row `n` for itself, and not since? */
static bool last_own(const struct neap_journal *journal, uint64_t n)
{
  const struct neap_journal_row *row = neap_journal_at(journal, n), *newer;
  if (!row || row->epoch || !row->mine) return false;
  while ((newer = neap_journal_at(journal, ++n)))
    if (!newer->epoch && newer->mine && !strcmp(newer->layer, row->layer) &&
        !strcmp(newer->attr, row->attr))
      return false;
  return true;
}

static bool read_again(
  const struct neap_stack *stack, const struct neap_journal_row *row, struct again *again)
{
  char why[TEXT];
  struct neap_change *change = &again->change;
  *change = (struct neap_change){.layer = neap_stack_layer(stack, row->layer)};
  change->attr = change->layer ? neap_attr_find(change->layer->class, row->attr) : NULL;
  snprintf(again->text, sizeof again->text, "%s", row->to);
  return change->attr &&
         !neap_attr_parse(change->attr, again->text, &change->value, why, sizeof why);
}

void neap_stack_set_again(struct neap_stack *stack)
{
  const struct neap_journal *journal = &stack->channel->journal;
  uint64_t at = journal->written > NEAP_JOURNAL ? journal->written - NEAP_JOURNAL : 0;
  char by[NEAP_NAME_MAX + 8], why[NEAP_EVENT_TEXT];
  if (!journal->written) return;
  struct again *list = calloc(NEAP_JOURNAL, sizeof *list);
  struct neap_change *changes = calloc(NEAP_JOURNAL, sizeof *changes);
  struct neap_set set = {.changes = changes, .by = by};
  NEAP_ASSERT(list && changes);
  snprintf(by, sizeof by, "%s, again", stack->channel->name);
  for (; at < journal->written; at++) {
    struct again *again = &list[set.count];
    if (!last_own(journal, at) || !read_again(stack, neap_journal_at(journal, at), again)) continue;
    changes[set.count++] = again->change;
  }
  if (set.count && neap_stack_set(stack, &set, why, sizeof why) < 0)
    neap_trouble(stack->layers[0], NULL, "what was set cannot be set again: %s", why);
  free(changes);
  free(list);
}
