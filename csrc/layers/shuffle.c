/* shuffle: messages overtake each other on purpose.
 *
 * So many messages, or as many as come in a given time, are collected and then go on in an order
 * that is drawn from the stack's own stream, going up and going down apart:
 *
 *     up = 4      1 2 3 4 5 6   ->   3 1 4 2   and, after `wait`,   6 5
 *
 * A view goes on at once, and what came before it goes before it. */

#include "layers/chosen/chosen.h"

struct shuffle {
  struct neap_layer layer;
  uint64_t up, down, wait, honest; /* params */
  char *when;
  uint64_t held_up, held_down; /* gauges */
  uint64_t shuffled, rounds;   /* counters */
  struct neap_chosen chosen;
  struct neap_held rising, falling;
};

#define AT(member) offsetof(struct shuffle, member)
static const struct neap_attr shuffle_attrs[] = {
  {NEAP_PARAM, "up", AT(up), "messages", 0, 2, NEAP_HELD_MAX, .or_zero = true, .live = NEAP_NOW,
    .doc = "So many coming up go on together, in a drawn order; 0: none wait."},
  {NEAP_PARAM, "down", AT(down), "messages", 0, 2, NEAP_HELD_MAX, .or_zero = true, .live = NEAP_NOW,
    .doc = "So many going down go on together, in a drawn order; 0: none wait."},
  {NEAP_PARAM, "wait", AT(wait), "ns", NEAP_MS(10), NEAP_US(1), NEAP_S(600), .live = NEAP_NOW,
    .doc = "The longest that the first of them waits for the others."},
  NEAP_CHOSEN_WHEN(struct shuffle),
  NEAP_CHOSEN_HONEST(struct shuffle),
  {NEAP_GAUGE, "held_up", AT(held_up), "messages", .doc = "Waiting for others on their way up."},
  {NEAP_GAUGE, "held_down", AT(held_down), "messages",
    .doc = "Waiting for others on their way down."},
  {NEAP_COUNTER, "shuffled", AT(shuffled), "messages", .doc = "Went on in a drawn order."},
  {NEAP_COUNTER, "rounds", AT(rounds), "rounds", .doc = "Times that a collection went on."},
  {NEAP_END},
};

static void count(struct shuffle *s)
{
  s->held_up = s->rising.count;
  s->held_down = s->falling.count;
}

/* The keys were drawn as they came. */
static void go_on(struct shuffle *s, struct neap_held *held)
{
  s->shuffled += held->count;
  s->rounds += held->count != 0;
  neap_held_flush(held);
  count(s);
}

static void loud_due(struct neap_layer *layer, struct neap_timer *timer)
{
  go_on((struct shuffle *)layer, NEAP_HOLDER(timer, struct neap_held, timer));
}

static void quiet_due(struct neap_layer *layer, struct neap_timer *timer)
{
  go_on((struct shuffle *)layer, NEAP_HOLDER(timer, struct neap_held, quiet));
}

/* A smaller collection that is full already goes on. */
static void resize(struct shuffle *s, struct neap_held *held, uint64_t size)
{
  if (held->count >= size) go_on(s, held);
  neap_held_room(held, size ? (uint32_t)size : 1);
}

static int shuffle_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct shuffle *s = (struct shuffle *)layer;
  neap_held_open(&s->rising, layer, true, loud_due, quiet_due);
  neap_held_open(&s->falling, layer, false, loud_due, quiet_due);
  resize(s, &s->rising, s->up);
  resize(s, &s->falling, s->down);
  return neap_chosen_open(layer, &s->chosen, s->when, trail);
}

static void pass(struct shuffle *s, struct neap_held *held, struct neap_batch *batch, uint64_t size)
{
  struct neap_batch out = {0};
  struct neap_msg *m;
  if (!size) { /* The usual case passes whole. */
    neap_held_pass(held, batch);
    return;
  }
  while ((m = neap_take(batch))) {
    if (!neap_chosen_hit(&s->layer, &s->chosen, m, held->up)) {
      neap_put(&out, m);
      continue;
    }
    neap_held_put(held, m, neap_random_next(&s->layer.stack->random), s->wait);
    if (held->count < size) continue;
    neap_held_pass(held, &out);
    go_on(s, held);
  }
  neap_held_pass(held, &out);
  count(s);
}

static void shuffle_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct shuffle *s = (struct shuffle *)layer;
  pass(s, &s->falling, batch, s->down);
}

static void shuffle_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct shuffle *s = (struct shuffle *)layer;
  pass(s, &s->rising, batch, s->up);
}

static enum neap_verdict shuffle_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct shuffle *s = (struct shuffle *)layer;
  if (event->kind == NEAP_EVENT_VIEW) go_on(s, up ? &s->rising : &s->falling);
  return NEAP_PASS;
}

static void shuffle_changed(struct neap_layer *layer, const struct neap_attr *attr)
{
  struct shuffle *s = (struct shuffle *)layer;
  if (attr->at == AT(when)) neap_chosen_set(layer, &s->chosen, s->when);
  if (attr->at == AT(up)) resize(s, &s->rising, s->up);
  if (attr->at == AT(down)) resize(s, &s->falling, s->down);
}

static void shuffle_close(struct neap_layer *layer)
{
  struct shuffle *s = (struct shuffle *)layer;
  neap_held_close(&s->rising);
  neap_held_close(&s->falling);
  neap_chosen_free(&s->chosen);
}

static void shuffle_check(const struct neap_layer *layer)
{
  const struct shuffle *s = (const struct shuffle *)layer;
  neap_held_check(&s->rising);
  neap_held_check(&s->falling);
  NEAP_ASSERT(s->held_up == s->rising.count && s->held_down == s->falling.count);
  NEAP_ASSERT(s->up ? s->held_up < s->up : !s->held_up);
}

const struct neap_class neap_shuffle = {
  .name = "shuffle",
  .doc = "Lets messages overtake each other on purpose.",
  .breaks = "mcast_fifo(honest=true) ucast_fifo(honest=true) total(honest=true)",
  .size = sizeof(struct shuffle),
  .attrs = shuffle_attrs,
  .open = shuffle_open,
  .down = shuffle_down,
  .up = shuffle_up,
  .event = shuffle_event,
  .may = neap_chosen_may,
  .changed = shuffle_changed,
  .close = shuffle_close,
  .check = shuffle_check,
};
