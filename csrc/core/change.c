/* change: setting attributes while a stack runs, all or nothing. */

#include "core/layer.h"
#include "core/promise.h"

#include <stdio.h>

enum { TEXT = 256 };

/* What an attribute will be once the changes are made. */
struct planned {
  const struct neap_layer *layer;
  const struct neap_change *changes;
  unsigned count;
  char text[TEXT];
};

static const char *planned_value(const void *context, const char *name)
{
  struct planned *plan = (struct planned *)(uintptr_t)context;
  const struct neap_attr *attr = neap_attr_find(plan->layer->class, name);
  if (!attr) return NULL;
  struct neap_value value = neap_attr_get(plan->layer, attr);
  for (unsigned i = 0; i < plan->count; i++)
    if (plan->changes[i].layer == plan->layer && plan->changes[i].attr == attr)
      value = plan->changes[i].value;
  return neap_attr_text(attr, &value, plan->text, sizeof plan->text);
}

static unsigned plan_all(const struct neap_stack *stack, const struct neap_change *changes,
  unsigned count, struct planned *plans, struct neap_promiser *layers)
{
  for (uint32_t i = 0; i < stack->count; i++) {
    plans[i] = (struct planned){stack->layers[i], changes, count, ""};
    layers[i] = (struct neap_promiser){
      stack->layers[i]->class, stack->layers[i]->name, "", planned_value, &plans[i]};
  }
  return stack->count;
}

struct first {
  char *why;
  size_t size;
  bool told;
};

/* One answer is enough for somebody who made one change: the first problem. */
static void keep_first(void *context, const char *text)
{
  struct first *first = context;
  if (first->told) return;
  first->told = true;
  while (*text == ':' || *text == ' ') text++; /* There is no file and line here. */
  snprintf(first->why, first->size, "%s", text);
}

static int may_all(struct neap_stack *stack, const struct neap_change *changes, unsigned count,
  char *why, size_t size)
{
  for (unsigned i = 0; i < count; i++) {
    const struct neap_change *change = &changes[i];
    char text[TEXT];
    const char *name = change->layer->name;
    if (change->attr->kind != NEAP_PARAM || change->attr->live == NEAP_NO) {
      snprintf(why, size, "%s.%s cannot be changed while running", name, change->attr->name);
      return NEAP_REFUSED;
    }
    if (!change->layer->class->may) continue;
    text[0] = 0;
    int code =
      change->layer->class->may(change->layer, change->attr, &change->value, text, sizeof text);
    if (code >= 0) continue;
    snprintf(why, size, "%s.%s: %s", name, change->attr->name, text);
    return code;
  }
  struct planned plans[NEAP_LAYERS_MAX];
  struct neap_promiser layers[NEAP_LAYERS_MAX];
  struct first first = {why, size, false};
  unsigned layer_count = plan_all(stack, changes, count, plans, layers);
  return neap_promises_check(layers, layer_count, keep_first, &first) ? NEAP_REFUSED : 0;
}

int neap_stack_set(struct neap_stack *stack, const struct neap_change *changes, unsigned count,
  char *why, size_t size)
{
  int code = may_all(stack, changes, count, why, size);
  if (code < 0) return code;
  stack->foreground = true;
  for (unsigned i = 0; i < count; i++)
    neap_attr_put(changes[i].layer, changes[i].attr, &changes[i].value);
  for (unsigned i = 0; i < count; i++)
    if (changes[i].layer->class->changed)
      changes[i].layer->class->changed(changes[i].layer, changes[i].attr);
  neap_stack_ready(stack);
  return 0;
}
