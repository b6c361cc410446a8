#include "core/gate.h"

#include "core/channel.h"
#include "core/layer.h"

#include <stdlib.h>

static __attribute__((noinline)) struct neap_gate_class *class_make(
  struct neap_stack *stack, uint32_t at)
{
  if (at >= stack->gates_room) {
    uint32_t room = stack->gates_room ? stack->gates_room : 8;
    while (room <= at) room *= 2;
    stack->gates = realloc(stack->gates, room * sizeof *stack->gates);
    NEAP_ASSERT(stack->gates);
    for (uint32_t i = stack->gates_room; i < room; i++) stack->gates[i] = NULL;
    stack->gates_room = room;
  }
  if (!stack->gates[at]) {
    stack->gates[at] = calloc(1, sizeof **stack->gates);
    NEAP_ASSERT(stack->gates[at]);
    stack->gates[at]->limit = (struct neap_gate_position){UINT64_MAX, UINT64_MAX};
  }
  return stack->gates[at];
}

static inline struct neap_gate_class *class_of(
  struct neap_stack *stack, const struct neap_peer *peer)
{
  uint32_t at = peer ? peer->slot + 1 : 0;
  if (at < stack->gates_room && stack->gates[at]) return stack->gates[at];
  return class_make(stack, at);
}

/* The layer's row, taken at its first word. */
static unsigned row_of(struct neap_layer *layer)
{
  struct neap_stack *stack = layer->stack;
  if (layer->gate_owner) return layer->gate_owner - 1u;
  unsigned row = 0;
  while (row < NEAP_GATE_OWNERS && stack->gate_owners[row]) row++;
  NEAP_ASSERT(row < NEAP_GATE_OWNERS);
  stack->gate_owners[row] = layer;
  layer->gate_owner = (uint8_t)(row + 1);
  return row;
}

static uint64_t ahead(uint64_t horizon, uint64_t at)
{
  return horizon > at ? horizon - at : 0;
}

/* Room of the class; half: whether each owner has at least half of its best room. */
static struct neap_gate_position room_of(const struct neap_gate_class *class, bool *half)
{
  struct neap_gate_position room = {UINT64_MAX, UINT64_MAX};
  *half = true;
  for (unsigned i = 0; i < NEAP_GATE_OWNERS; i++) {
    if (!class->owned[i]) continue;
    uint64_t bytes = ahead(class->horizon[i].bytes, class->at.bytes);
    uint64_t messages = ahead(class->horizon[i].messages, class->at.messages);
    if (bytes < room.bytes) room.bytes = bytes;
    if (messages < room.messages) room.messages = messages;
    if (bytes < class->best[i] / 2 || !bytes) *half = false;
  }
  return room;
}

static void find_limit(struct neap_gate_class *class)
{
  struct neap_gate_position limit = {UINT64_MAX, UINT64_MAX};
  for (unsigned i = 0; i < NEAP_GATE_OWNERS; i++) {
    const struct neap_gate_position *horizon = &class->horizon[i];
    if (!class->owned[i]) continue;
    if (horizon->bytes < limit.bytes) limit.bytes = horizon->bytes;
    if (horizon->messages < limit.messages) limit.messages = horizon->messages;
  }
  class->limit = limit;
}

static void tell(struct neap_stack *stack, struct neap_gate_class *class, struct neap_peer *peer)
{
  bool half;
  struct neap_gate_position room = room_of(class, &half);
  /* A little room would be used up at once and wake the sender for every message. */
  if (!class->wanted || !half || !room.messages) return;
  class->wanted = false;
  neap_channel_room(stack->channel, peer);
}

void neap_gate_horizon(
  struct neap_layer *layer, struct neap_peer *peer, uint64_t bytes, uint64_t messages)
{
  struct neap_gate_class *class = class_of(layer->stack, peer);
  unsigned row = row_of(layer);
  uint64_t room = ahead(bytes, class->at.bytes);
  if (!class->owned[row] || bytes < class->horizon[row].bytes || room > class->best[row])
    class->best[row] = room; /* A lowered limit starts over. */
  class->owned[row] = true;
  class->horizon[row] = (struct neap_gate_position){bytes, messages};
  find_limit(class);
  tell(layer->stack, class, peer);
}

void neap_gate_open(struct neap_layer *layer, struct neap_peer *peer)
{
  if (!layer->gate_owner) return;
  struct neap_gate_class *class = class_of(layer->stack, peer);
  class->owned[layer->gate_owner - 1] = false;
  find_limit(class);
  tell(layer->stack, class, peer);
}

struct neap_gate_position neap_gate_at(struct neap_layer *layer, struct neap_peer *peer)
{
  return class_of(layer->stack, peer)->at;
}

bool neap_gate_wanted(struct neap_layer *layer, struct neap_peer *peer)
{
  return class_of(layer->stack, peer)->wanted;
}

static void want(struct neap_stack *stack, struct neap_gate_class *class, struct neap_peer *peer)
{
  if (class->wanted) return;
  class->wanted = true;
  struct neap_event event = {.kind = NEAP_EVENT_WANTED, .peer = neap_peer_ref(peer)};
  neap_stack_event_down(stack, &event);
}

/* Near the end of the room it takes a closer look. */
static __attribute__((noinline)) bool may_pass(const struct neap_gate_class *class, uint32_t len)
{
  bool half;
  struct neap_gate_position room = room_of(class, &half);
  return room.messages && (len <= room.bytes || half);
}

bool neap_gate_admit(struct neap_stack *stack, struct neap_peer *to, uint32_t len)
{
  struct neap_gate_class *class = class_of(stack, to);
  if (!neap_gate_far(class, len) && !may_pass(class, len)) {
    want(stack, class, to);
    return false;
  }
  class->at.bytes += len;
  class->at.messages++;
  return true;
}

bool neap_gate_may_ask(struct neap_stack *stack)
{
  bool may = !stack->asks_bound || stack->asks < stack->asks_horizon;
  stack->asks_wanted |= !may;
  return may;
}

void neap_gate_ask(struct neap_stack *stack)
{
  stack->asks++;
}

void neap_gate_asks(struct neap_layer *layer, uint64_t horizon)
{
  struct neap_stack *stack = layer->stack;
  stack->asks_horizon = horizon;
  stack->asks_bound = true;
  if (!stack->asks_wanted || stack->asks >= horizon) return;
  stack->asks_wanted = false;
  neap_channel_room(stack->channel, NULL); /* Whatever class it is for. */
}

struct neap_gate_position neap_gate_room(struct neap_stack *stack, struct neap_peer *peer)
{
  bool half;
  return room_of(class_of(stack, peer), &half);
}
