/* Mailboxes, and what puts things into them. */

#include "core/layer.h"

#include "core/channel.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Batches that wait in one mailbox grow together up to this: beyond it longer ones gain nothing. */
enum { BATCH_MAX = 64, ITEMS_MAX = 1 << 20 };

/* ---- mailboxes ---- */

static struct neap_item *item_new(struct neap_stack *stack, struct neap_mailbox *box)
{
  struct neap_item *item = stack->items;
  if (item)
    stack->items = item->next;
  else
    item = malloc(sizeof *item);
  NEAP_ASSERT(item);
  item->next = NULL;
  if (box->last)
    box->last->next = item;
  else
    box->first = item;
  box->last = item;
  box->count++;
  if (box != &stack->top) stack->full |= (uint64_t)1 << (box - stack->boxes);
  stack->pending++;
  stack->items_out++;
  NEAP_ASSERT(stack->items_out < ITEMS_MAX); /* The gate bounds what can be on its way. */
  return item;
}

void neap_item_free(struct neap_stack *stack, struct neap_item *item)
{
  NEAP_ASSERT(stack->items_out);
  stack->items_out--;
  if (item->is_event) {
    item->event->next = stack->events;
    stack->events = item->event;
    stack->events_out--;
  }
  item->next = stack->items;
  stack->items = item;
}

struct neap_item *neap_box_take(struct neap_stack *stack, struct neap_mailbox *box)
{
  struct neap_item *item = box->first;
  if (!item) return NULL;
  box->first = item->next;
  if (!box->first) {
    box->last = NULL;
    if (box != &stack->top) stack->full &= ~((uint64_t)1 << (box - stack->boxes));
  }
  box->count--;
  stack->pending--;
  return item;
}

void neap_box_batch(struct neap_stack *stack, struct neap_mailbox *box, struct neap_batch *batch)
{
  struct neap_item *last = box->last;
  if (last && !last->is_event && last->batch.count + batch->count <= BATCH_MAX &&
      neap_same_run(last->batch.last, batch->first)) {
    neap_batch_append(&last->batch, batch);
    return;
  }
  struct neap_item *item = item_new(stack, box);
  item->is_event = false;
  item->batch = *batch;
  *batch = (struct neap_batch){0};
}

void neap_stack_down_msg(struct neap_stack *stack, struct neap_msg *m)
{
  struct neap_mailbox *box = stack->layers[0]->falling;
  struct neap_item *last = box->last;
  stack->foreground = true;
  if (last && !last->is_event && last->batch.count < BATCH_MAX &&
      neap_same_run(last->batch.last, m)) {
    struct neap_batch *run = &last->batch;
    run->last = run->last->next = m;
    run->count++;
    run->bytes += m->len;
    return; /* Something lies there, so its turn comes anyway. */
  }
  struct neap_batch batch = {0};
  neap_put(&batch, m);
  neap_box_batch(stack, box, &batch);
  neap_stack_ready(stack);
}

void neap_box_event(
  struct neap_stack *stack, struct neap_mailbox *box, const struct neap_event *event)
{
  struct neap_item *item = item_new(stack, box);
  struct neap_event *copy = stack->events;
  if (copy)
    stack->events = copy->next;
  else
    copy = malloc(sizeof *copy);
  NEAP_ASSERT(copy);
  stack->events_out++;
  *copy = *event;
  copy->next = NULL;
  item->is_event = true;
  item->event = copy;
}

/* ---- passing ---- */

/* The mailbox that a layer's upward traffic goes to. */
static struct neap_mailbox *box_above(const struct neap_layer *layer)
{
  struct neap_stack *stack = layer->stack;
  return layer->position ? stack->layers[layer->position - 1]->rising : &stack->top;
}

static struct neap_mailbox *box_below(const struct neap_layer *layer)
{
  struct neap_stack *stack = layer->stack;
  if (layer->position + 1u == stack->count) return NULL;
  return stack->layers[layer->position + 1]->falling;
}

/* The same, past layers that this batch goes by unseen. */
static struct neap_mailbox *box_rising(
  const struct neap_layer *layer, const struct neap_batch *batch)
{
  struct neap_stack *stack = layer->stack;
  uint8_t unseen = batch->first->to ? NEAP_UNSEEN_RISING_ONE : NEAP_UNSEEN_RISING_ALL;
  if (batch->stray || stack->world->trace) return box_above(layer);
  for (uint32_t i = layer->position; i--;) {
    const struct neap_layer *next = stack->layers[i];
    if (!(next->class->unseen & unseen) || batch->heads & next->heads || next->rising->first)
      return next->rising;
  }
  return &stack->top;
}

static struct neap_mailbox *box_falling(
  const struct neap_layer *layer, const struct neap_batch *batch)
{
  struct neap_stack *stack = layer->stack;
  uint8_t unseen = batch->first->to ? NEAP_UNSEEN_FALLING_ONE : NEAP_UNSEEN_FALLING_ALL;
  if (stack->world->trace) return box_below(layer);
  for (uint32_t i = layer->position + 1u; i < stack->count; i++) {
    const struct neap_layer *next = stack->layers[i];
    bool sees = next->class->down && !(next->class->unseen & unseen);
    if (sees || next->falling->first) return next->falling;
  }
  return NULL;
}

/* Drops the messages whose last owner is this layer: nobody above may see them. */
static void drop_strays(struct neap_layer *layer, struct neap_batch *batch)
{
  struct neap_batch keep = {0};
  struct neap_msg *m;
  while ((m = neap_take(batch))) {
    if (m->marks & NEAP_STRAY && layer->position <= m->stray_below) {
      layer->stack->strays++;
      neap_msg_free(m);
    } else {
      neap_put(&keep, m);
    }
  }
  *batch = keep;
}

static void pass(struct neap_stack *stack, struct neap_mailbox *box, struct neap_batch *batch)
{
  if (!batch->mixed) {
    neap_box_batch(stack, box, batch);
    return;
  }
  struct neap_batch run = {0};
  struct neap_msg *m;
  while ((m = neap_take(batch))) {
    if (run.last && !neap_same_run(run.last, m)) neap_box_batch(stack, box, &run);
    neap_put(&run, m);
  }
  neap_box_batch(stack, box, &run);
}

void neap_pass_up(struct neap_layer *layer, struct neap_batch *batch)
{
  if (batch->stray) drop_strays(layer, batch);
  if (!batch->first) return;
  pass(layer->stack, box_rising(layer, batch), batch);
}

void neap_pass_down(struct neap_layer *layer, struct neap_batch *batch)
{
  if (!batch->first) return;
  struct neap_mailbox *box = box_falling(layer, batch);
  NEAP_ASSERT(box); /* The lowest layer is a transport: it sends, it does not pass down. */
  pass(layer->stack, box, batch);
}

void neap_pass_up_msg(struct neap_layer *layer, struct neap_msg *m)
{
  struct neap_batch batch = {0};
  neap_put(&batch, m);
  neap_pass_up(layer, &batch);
}

void neap_pass_down_msg(struct neap_layer *layer, struct neap_msg *m)
{
  struct neap_batch batch = {0};
  neap_put(&batch, m);
  neap_pass_down(layer, &batch);
}

void neap_event_up(struct neap_layer *layer, struct neap_event *event)
{
  event->origin = layer;
  neap_box_event(layer->stack, box_above(layer), event);
  neap_stack_ready(layer->stack);
}

void neap_event_down(struct neap_layer *layer, struct neap_event *event)
{
  struct neap_mailbox *box = box_below(layer);
  event->origin = layer;
  if (!box && event->query) { /* Nobody is below: the answer is none, from here. */
    event->answered = event->none = true;
    box = layer->rising;
  }
  if (box)
    neap_box_event(layer->stack, box, event);
  else
    neap_event_drop(event);
  neap_stack_ready(layer->stack);
}

void neap_ask_up(struct neap_layer *layer, struct neap_event *event)
{
  event->query = true;
  neap_event_up(layer, event);
}

void neap_ask_down(struct neap_layer *layer, struct neap_event *event)
{
  event->query = true;
  neap_event_down(layer, event);
}

/* ---- operations ---- */

int neap_op_run(struct neap_layer *layer, const struct neap_op *op, const char *argument, char *out)
{
  struct neap_stack *stack = layer->stack;
  if (!layer->class->ask || stack->turning || stack->paused) return op->run(layer, argument, out);
  uint32_t pending = stack->pending;
  layer->class->ask(layer, op);
  if (stack->pending == pending) return op->run(layer, argument, out); /* Nothing was asked. */
  /* The turn may close it. */
  stack->holders++;
  bool left = neap_stack_turn(stack);
  stack->holders--;
  if (stack->closed) {
    if (!stack->msgs_out && !stack->holders) neap_stack_bury(stack);
    return NEAP_CLOSED;
  }
  if (left) neap_stack_ready(stack);
  return op->run(layer, argument, out);
}

enum { AUTO_MOST = 4000000, AUTO_LEAST = 64000, AUTO_SHARE = 60 };

uint64_t neap_window_auto(const struct neap_layer *layer)
{
  uint64_t buffer = layer->stack->rx_buffer, bytes = buffer / 100 * AUTO_SHARE;
  if (!buffer || bytes > AUTO_MOST) return AUTO_MOST;
  return bytes < AUTO_LEAST ? AUTO_LEAST : bytes;
}

void neap_trouble(struct neap_layer *layer, struct neap_peer *peer, const char *format, ...)
{
  struct neap_event event = {.kind = NEAP_EVENT_TROUBLE, .peer = neap_peer_ref(peer)};
  int at = snprintf(event.text, sizeof event.text, "%s: ", layer->name);
  va_list list;
  va_start(list, format);
  vsnprintf(event.text + at, sizeof event.text - (size_t)at, format, list);
  va_end(list);
  neap_event_up(layer, &event);
}
