/* The engine: one turn of one stack.
 *
 *      sweep up                      sweep down
 *      layers[n-1] ... layers[0]     layers[0] ... layers[n-1]
 *      rising boxes, channel last    falling boxes
 *
 * and again until nothing is left or the budget is used up; between sweeps the owners of receipts
 * hear what moved.  When it is still, layers send what they collected and departed peers go. */

#include "core/stack.h"

#include "core/channel.h"
#include "core/layer.h"
#include "core/trace.h"

/* Mailbox items per turn; the rest goes on after timers and sockets had their chance. */
enum { TURN_BUDGET = 4096 };

/* Mailbox items of one box per sweep: with batches of 64 these are some hundred kilobytes. */
enum { SWEEP_ITEMS = 2 };

static void pass_batch(struct neap_layer *layer, struct neap_batch *batch, bool up)
{
  NEAP_TRACE(layer->stack->world, layer, up ? NEAP_MOVE_UP : NEAP_MOVE_DOWN, "", batch->count,
    batch->first->seqno);
  void (*handler)(struct neap_layer *, struct neap_batch *) =
    up ? layer->class->up : layer->class->down;
  if (!handler)
    (up ? neap_pass_up : neap_pass_down)(layer, batch);
  else
    handler(layer, batch);
  NEAP_ASSERT(!batch->first); /* Each message was passed, kept or freed. */
}

/* Sends a dealt-with event on, from where this layer stands. */
static void forward(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct neap_stack *stack = layer->stack;
  if (up) {
    neap_box_event(
      stack, layer->position ? stack->layers[layer->position - 1]->rising : &stack->top, event);
  } else if (layer->position + 1u < stack->count) {
    neap_box_event(stack, stack->layers[layer->position + 1]->falling, event);
  } else if (event->query && !event->answered) {
    event->answered = event->none = true;
    if (event->origin == layer && layer->class->event) {
      layer->class->event(layer, event, true);
      neap_event_drop(event);
    } else {
      forward(layer, event, true);
    }
  } else {
    neap_event_drop(event);
  }
}

static void pass_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  enum neap_verdict verdict = NEAP_PASS;
  NEAP_TRACE(layer->stack->world, layer, up ? NEAP_MOVE_EVENT_UP : NEAP_MOVE_EVENT_DOWN,
    neap_event_name(event->kind), 0, event->number);
  if (event->answered) { /* On its way back: it concerns nobody but who asked. */
    if (event->origin != layer) {
      forward(layer, event, up);
      return;
    }
    if (layer->class->event) layer->class->event(layer, event, up);
    neap_event_drop(event);
    return;
  }
  if (event->kind == NEAP_EVENT_VIEW && layer->view != event->view) {
    struct neap_view *before = layer->view;
    layer->view = neap_view_ref(event->view);
    if (before) neap_view_unref(before);
    layer->stack->gone_due = true;
  }
  if (layer->class->event) verdict = layer->class->event(layer, event, up);
  if (verdict == NEAP_PASS) {
    forward(layer, event, up);
  } else if (verdict == NEAP_ANSWER) {
    NEAP_ASSERT(event->query);
    event->answered = true;
    forward(layer, event, !up);
  } else {
    neap_event_drop(event);
  }
}

/* Works off what lay in the box when we came, a few items at most: the layers after this one get
 * them while they are warm, and a long queue does not pass the whole cache layer by layer. */
static unsigned drain(struct neap_layer *layer, struct neap_mailbox *box, bool up)
{
  unsigned done = 0;
  uint32_t n = box->count < SWEEP_ITEMS ? box->count : SWEEP_ITEMS;
  for (; n; n--, done++) {
    struct neap_item *item = neap_box_take(layer->stack, box);
    if (item->is_event)
      pass_event(layer, item->event, up);
    else
      pass_batch(layer, &item->batch, up);
    neap_item_free(layer->stack, item);
  }
  return done;
}

static unsigned drain_top(struct neap_stack *stack)
{
  unsigned done = 0;
  for (uint32_t n = stack->top.count; n; n--, done++) {
    struct neap_item *item = neap_box_take(stack, &stack->top);
    if (item->is_event) {
      if (item->event->query && !item->event->answered) { /* Nobody above answers. */
        item->event->answered = item->event->none = true;
        neap_box_event(stack, stack->layers[0]->falling, item->event);
      } else {
        neap_channel_event(stack->channel, item->event);
        neap_event_drop(item->event);
      }
    } else {
      neap_channel_up(stack->channel, &item->batch);
      NEAP_ASSERT(!item->batch.first);
    }
    neap_item_free(stack, item);
  }
  return done;
}

/* Rising mailboxes have even places in `boxes`, the highest layer the lowest. */
#define RISING (UINT64_MAX / 3)

static unsigned sweep(struct neap_stack *stack)
{
  unsigned done = 0;
  uint64_t left = UINT64_MAX, full; /* what the sweep has not come by */
  while ((full = stack->full & RISING & left)) {
    unsigned at = 63 - (unsigned)__builtin_clzll(full);
    left = ((uint64_t)1 << at) - 1;
    done += drain(stack->layers[at / 2], &stack->boxes[at], true);
  }
  if (stack->top.first) done += drain_top(stack);
  left = UINT64_MAX;
  while ((full = stack->full & ~RISING & left)) {
    unsigned at = (unsigned)__builtin_ctzll(full);
    left = at == 63 ? 0 : UINT64_MAX << (at + 1);
    done += drain(stack->layers[at / 2], &stack->boxes[at], false);
  }
  return done;
}

bool neap_stack_turn(struct neap_stack *stack)
{
  struct neap_world *world = stack->world;
  unsigned done = 0;
  if (stack->paused || stack->closed) return false;
  NEAP_ASSERT(!stack->turning);
  stack->turning = true;
  stack->turns++;
  world->turn++;
  world->background = !stack->foreground;
  stack->foreground = false;
  bool left = true; /* Until it was seen to be still: what is collected leaves only then. */
  while (left && done < TURN_BUDGET && !stack->closing) {
    if (stack->moved) neap_movers_tell(stack);
    if (!stack->pending) {
      for (uint32_t left_still = stack->stills; left_still; left_still &= left_still - 1) {
        struct neap_layer *layer = stack->layers[__builtin_ctz(left_still)];
        layer->class->still(layer);
      }
      left = stack->pending || stack->moved;
    }
    if (left) done += sweep(stack);
  }
  if (!left && stack->gone_due) neap_peers_collect(stack);
  /* A turn that used up its budget goes on: what layers collected has not left yet. */
  if (world->checking && !left && !stack->closing) neap_stack_checks(stack);
  stack->turning = false;
  if (left && !world->background) stack->foreground = true;
  world->background = false;
  if (!stack->closing) return left;
  neap_stack_close(stack);
  return false;
}

void neap_stack_ready(struct neap_stack *stack)
{
  if (stack->closed || stack->paused || !neap_link_alone(&stack->ready)) return;
  if (stack->turning) return; /* Whoever runs the turn asks whether something is left. */
  neap_link_before(&stack->world->ready, &stack->ready);
  if (stack->world->class->wake) stack->world->class->wake(stack->world);
}

void neap_stack_pause(struct neap_stack *stack)
{
  stack->paused = true;
  neap_link_remove(&stack->ready);
}

void neap_stack_resume(struct neap_stack *stack)
{
  stack->paused = false;
  struct neap_timer *first = NULL;
  while (stack->parked) { /* Parking put the latest first; they come due in the order they had. */
    struct neap_timer *timer = stack->parked;
    stack->parked = timer->parked;
    timer->parked = first;
    first = timer;
  }
  while (first) {
    struct neap_timer *timer = first;
    first = timer->parked;
    timer->armed = false;
    if (!timer->background_now) stack->world->timers.foreground--;
    neap_timers_start(&stack->world->timers, timer, stack->world->now);
  }
  neap_stack_ready(stack);
}

void neap_stack_down(struct neap_stack *stack, struct neap_batch *batch)
{
  stack->foreground = true;
  neap_box_batch(stack, stack->layers[0]->falling, batch);
  neap_stack_ready(stack);
}

void neap_stack_event_down(struct neap_stack *stack, struct neap_event *event)
{
  stack->foreground = true;
  event->origin = NULL;
  neap_box_event(stack, stack->layers[0]->falling, event);
  neap_stack_ready(stack);
}

void neap_stack_checks(const struct neap_stack *stack)
{
  uint32_t pending = stack->top.count;
  for (uint32_t i = 0; i < stack->count; i++) {
    const struct neap_layer *layer = stack->layers[i];
    pending += layer->rising->count + layer->falling->count;
    if (layer->class->check) layer->class->check(layer);
  }
  NEAP_ASSERT(pending == stack->pending && pending <= stack->items_out);
  NEAP_ASSERT(!stack->moved == !stack->moved_last);
  neap_channel_check(stack->channel);
}
