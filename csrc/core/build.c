/* build: from a description to a running stack and back, and changes while it runs. */

#include "core/stack.h"

#include "core/channel.h"
#include "core/layer.h"
#include "core/promise.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { WHERE = 160, WHY = 400 };

/* Names that `ann.stack.<name>` needs for itself. */
static const char *const reserved[] = {
  "set",
  "undo",
  "layers",
  "metrics",
  "journal",
  "applied",
  "insert",
  "remove",
};

struct report {
  neap_problem *problem;
  void *context;
  unsigned count;
};

static void __attribute__((format(printf, 2, 3)))
tell(struct report *report, const char *format, ...)
{
  char text[2 * WHY];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  report->count++;
  report->problem(report->context, text);
}

static void where(const struct neap_stack_spec *spec, uint32_t line, char *text)
{
  if (line)
    snprintf(text, WHERE, "%s:%u", spec->file, line);
  else
    snprintf(text, WHERE, "%s", spec->file);
}

static const char *name_of(const struct neap_layer_spec *layer)
{
  return layer->as ? layer->as : layer->class->name;
}

/* ---- checking a description ---- */

static int parse_setting(const struct neap_attr *attr, const struct neap_setting *setting,
  struct neap_value *value, char *why)
{
  return setting->is_number ? neap_attr_number(attr, setting->number, value, why, WHY)
                            : neap_attr_parse(attr, setting->text, value, why, WHY);
}

static void check_settings(
  const struct neap_stack_spec *spec, const struct neap_layer_spec *layer, struct report *report)
{
  for (uint32_t s = 0; s < layer->setting_count; s++) {
    const struct neap_setting *setting = &layer->settings[s];
    char at[WHERE], why[WHY];
    struct neap_value value;
    where(spec, setting->line ? setting->line : layer->line, at);
    const struct neap_attr *attr = neap_attr_find(layer->class, setting->attr);
    if (!attr || attr->kind != NEAP_PARAM) {
      neap_attr_unknown(layer->class, name_of(layer), setting->attr, why, sizeof why);
      tell(report, "%s: %s", at, why);
    } else if (parse_setting(attr, setting, &value, why) < 0) {
      tell(report, "%s: %s.%s: %s", at, name_of(layer), attr->name, why);
    }
  }
}

static void check_names(const struct neap_stack_spec *spec, struct report *report)
{
  char at[WHERE];
  for (uint32_t i = 0; i < spec->count; i++) {
    const char *name = name_of(&spec->layers[i]);
    where(spec, spec->layers[i].line, at);
    for (size_t r = 0; r < sizeof reserved / sizeof *reserved; r++)
      if (!strcmp(name, reserved[r]))
        tell(
          report, "%s: a layer cannot be called '%s': stacks have a method of that name", at, name);
    for (uint32_t k = 0; k < i; k++)
      if (!strcmp(name, name_of(&spec->layers[k])))
        tell(report,
          "%s: there are two layers called '%s': give one of them another name with "
          "as = \"...\"",
          at, name);
    const struct neap_class *class = spec->layers[i].class;
    for (const struct neap_op *op = class->ops; op && op->name; op++)
      if (neap_attr_find(class, op->name))
        tell(report, "%s: %s has an operation and an attribute called '%s'", at, name, op->name);
  }
}

static void check_headers(const struct neap_stack_spec *spec, struct report *report)
{
  struct neap_registry *registry = malloc(sizeof *registry);
  NEAP_ASSERT(registry);
  neap_registry_init(registry);
  for (uint32_t i = 0; i < spec->count; i++) {
    char at[WHERE], why[WHY];
    uint8_t slots[NEAP_LAYER_HEADERS];
    const struct neap_class *class = spec->layers[i].class;
    where(spec, spec->layers[i].line, at);
    if (class->headers &&
        neap_registry_add(registry, class->headers, i, slots, why, sizeof why) < 0)
      tell(report, "%s: %s: %s", at, name_of(&spec->layers[i]), why);
  }
  free(registry);
}

/* What an attribute of a described layer will be, as text: its setting or the default. */
struct described {
  const struct neap_layer_spec *layer;
  char text[WHY];
};

static const char *described_value(const void *context, const char *name)
{
  struct described *d = (struct described *)(uintptr_t)context;
  const struct neap_attr *attr = neap_attr_find(d->layer->class, name);
  char why[WHY];
  if (!attr) return NULL;
  struct neap_value value = neap_attr_default(attr);
  for (uint32_t s = 0; s < d->layer->setting_count; s++) {
    struct neap_value set;
    if (!strcmp(d->layer->settings[s].attr, name) &&
        parse_setting(attr, &d->layer->settings[s], &set, why) == 0)
      value = set;
  }
  return neap_attr_text(attr, &value, d->text, sizeof d->text);
}

/* The layers as promisers; `values` and `places` have room for each. */
static void describe(const struct neap_stack_spec *spec, struct described *values,
  char (*places)[WHERE], struct neap_promiser *layers)
{
  for (uint32_t i = 0; i < spec->count; i++) {
    values[i].layer = &spec->layers[i];
    where(spec, spec->layers[i].line, places[i]);
    layers[i] = (struct neap_promiser){
      spec->layers[i].class, name_of(&spec->layers[i]), places[i], described_value, &values[i]};
  }
}

static void check_promises(const struct neap_stack_spec *spec, struct report *report)
{
  struct neap_promiser layers[NEAP_LAYERS_MAX];
  struct described *values = calloc(spec->count, sizeof *values);
  char(*places)[WHERE] = calloc(spec->count, sizeof *places);
  NEAP_ASSERT(values && places);
  describe(spec, values, places, layers);
  report->count += neap_promises_check(layers, spec->count, report->problem, report->context);
  free(values);
  free(places);
}

bool neap_stack_promises(const struct neap_stack_spec *spec, const char *word)
{
  struct neap_promiser layers[NEAP_LAYERS_MAX];
  struct described *values = calloc(spec->count, sizeof *values);
  char(*places)[WHERE] = calloc(spec->count, sizeof *places);
  NEAP_ASSERT(values && places && spec->count <= NEAP_LAYERS_MAX);
  describe(spec, values, places, layers);
  bool holds = neap_promise_holds(layers, spec->count, 0, word);
  free(values);
  free(places);
  return holds;
}

unsigned neap_stack_check(const struct neap_stack_spec *spec, neap_problem *problem, void *context)
{
  struct report report = {problem, context, 0};
  if (!spec->count || spec->count > NEAP_LAYERS_MAX) {
    tell(&report, "%s: a stack has 1 to %d layers, this one has %u", spec->file, NEAP_LAYERS_MAX,
      spec->count);
    return report.count;
  }
  check_names(spec, &report);
  for (uint32_t i = 0; i < spec->count; i++) check_settings(spec, &spec->layers[i], &report);
  check_headers(spec, &report);
  if (!spec->partial) check_promises(spec, &report);
  return report.count;
}

/* ---- opening ---- */

static void set_attributes(struct neap_layer *layer, const struct neap_layer_spec *spec)
{
  for (const struct neap_attr *attr = layer->class->attrs; attr && attr->kind; attr++) {
    if (attr->kind != NEAP_PARAM) continue;
    struct neap_value value = neap_attr_default(attr);
    neap_attr_put(layer, attr, &value);
  }
  for (uint32_t s = 0; s < spec->setting_count; s++) {
    char why[WHY];
    struct neap_value value;
    const struct neap_attr *attr = neap_attr_find(layer->class, spec->settings[s].attr);
    NEAP_ASSERT(attr && parse_setting(attr, &spec->settings[s], &value, why) == 0);
    neap_attr_put(layer, attr, &value);
  }
}

static void layer_make(struct neap_stack *stack, unsigned i, const struct neap_layer_spec *spec)
{
  struct neap_layer *layer = calloc(1, spec->class->size);
  NEAP_ASSERT(layer);
  layer->class = spec->class;
  layer->stack = stack;
  layer->name = strdup(name_of(spec));
  layer->position = (uint8_t)i;
  layer->rising = &stack->boxes[2 * i];
  layer->falling = &stack->boxes[2 * i + 1]; /* ORDER: sweeps go by place in `boxes`. */
  char why[WHY];
  if (spec->class->headers) {
    int added =
      neap_registry_add(&stack->registry, spec->class->headers, i, layer->slots, why, sizeof why);
    NEAP_ASSERT(added >= 0); /* Checked with the description. */
    for (uint32_t s = 0; s < stack->registry.count; s++)
      if (stack->registry.slots[s].owner == i) layer->heads |= (uint64_t)1 << s;
    for (int h = 0; h < NEAP_LAYER_HEADERS; h++)
      layer->at[h] = stack->registry.slots[layer->slots[h]].at;
  }
  stack->layers[i] = layer;
  if (spec->class->still) stack->stills |= (uint32_t)1 << i;
  set_attributes(layer, spec);
}

struct neap_stack *neap_stack_open(struct neap_world *world, const struct neap_stack_spec *spec,
  struct neap_channel *channel, const char *cluster, const char *name, struct neap_trail *trail)
{
  struct neap_stack *stack = calloc(1, sizeof *stack);
  NEAP_ASSERT(stack && spec->count <= NEAP_LAYERS_MAX);
  stack->world = world;
  stack->channel = channel;
  stack->count = spec->count;
  stack->rx_space = stack->max_body = UINT64_MAX;
  neap_link_init(&stack->ready);
  neap_link_before(&world->stacks, &stack->link);
  neap_random_seed(&stack->random, neap_random_next(&world->random));
  snprintf(stack->name, sizeof stack->name, "%s", spec->name ? spec->name : "");
  snprintf(stack->cluster, sizeof stack->cluster, "%s", cluster);
  neap_registry_init(&stack->registry);
  neap_peers_open(stack);
  struct neap_addr address = neap_addr_new(&stack->random);
  stack->self = neap_peer_ref(neap_peer_intern(stack, &address));
  stack->self->self = true;
  neap_peer_name(stack->self, name, (uint32_t)strlen(name));
  for (uint32_t i = 0; i < spec->count; i++) layer_make(stack, i, &spec->layers[i]);
  for (uint32_t i = spec->count; i--;) { /* The wire first: the layers above may send at once. */
    struct neap_layer *layer = stack->layers[i];
    int code = layer->class->open ? layer->class->open(layer, trail) : 0;
    layer->open = code == 0;
    if (code == 0) continue;
    neap_trail(trail, code, "%s: cannot open", layer->name);
    neap_stack_close(stack);
    return NULL;
  }
  return stack;
}

/* ---- closing ---- */

static void box_clear(struct neap_stack *stack, struct neap_mailbox *box)
{
  struct neap_item *item;
  while ((item = neap_box_take(stack, box))) {
    if (item->is_event)
      neap_event_drop(item->event);
    else
      neap_batch_free(&item->batch);
    neap_item_free(stack, item);
  }
}

static void layer_free(struct neap_layer *layer)
{
  if (layer->view) neap_view_unref(layer->view);
  for (const struct neap_attr *attr = layer->class->attrs; attr && attr->kind; attr++)
    if (attr->type == NEAP_TEXT && attr->kind == NEAP_PARAM)
      free(*(char **)(void *)((char *)layer + attr->at));
  free(layer->peers);
  free(layer->held);
  free((char *)(uintptr_t)layer->name);
  free(layer);
}

void neap_stack_close(struct neap_stack *stack)
{
  if (stack->closed) return;
  stack->closing = true;
  if (stack->turning) return; /* The turn that runs ends with it. */
  for (uint32_t i = 0; i < stack->count; i++) {
    struct neap_layer *layer = stack->layers[i];
    if (layer->open && layer->class->close) layer->class->close(layer);
    layer->open = false;
  }
  neap_peers_close(stack);
  for (uint32_t i = 0; i < 2 * stack->count; i++) box_clear(stack, &stack->boxes[i]);
  box_clear(stack, &stack->top);
  neap_movers_tell(stack);
  if (stack->view) neap_view_unref(stack->view);
  stack->view = NULL;
  for (uint32_t i = 0; i < stack->count; i++) {
    if (stack->layers[i]->view) neap_view_unref(stack->layers[i]->view);
    stack->layers[i]->view = NULL;
  }
  neap_link_remove(&stack->ready);
  neap_link_remove(&stack->link);
  if (stack->filling) neap_slab_free(stack->world, stack->filling);
  stack->filling = NULL;
  stack->closed = true;
  while (stack->msgs) {
    struct neap_msg *m = stack->msgs;
    stack->msgs = m->next;
    free(m);
  }
  struct neap_channel *channel = stack->channel;
  stack->channel = NULL;
  if (channel && channel->stack == stack) neap_channel_closed(channel);
  /* What the application still holds comes back later; the last one buries the stack. */
  if (!stack->msgs_out && !stack->holders) neap_stack_bury(stack);
}

void neap_stack_bury(struct neap_stack *stack)
{
  neap_movers_tell(stack);
  NEAP_ASSERT(!stack->msgs_out && !stack->items_out && !stack->events_out);
  NEAP_ASSERT(!stack->movers_out && !stack->pending && !stack->parked);
  while (stack->items) {
    struct neap_item *item = stack->items;
    stack->items = item->next;
    free(item);
  }
  while (stack->events) {
    struct neap_event *event = stack->events;
    stack->events = event->next;
    free(event);
  }
  for (uint32_t i = 0; i < stack->count; i++)
    if (stack->layers[i]) layer_free(stack->layers[i]);
  for (uint32_t i = 0; i < stack->gates_room; i++) free(stack->gates[i]);
  free(stack->gates);
  neap_peers_free(stack);
  free(stack);
}

struct neap_layer *neap_stack_layer(const struct neap_stack *stack, const char *name)
{
  for (uint32_t i = 0; i < stack->count; i++)
    if (!strcmp(stack->layers[i]->name, name)) return stack->layers[i];
  return NULL;
}
