/* delay: holds messages up on purpose.
 *
 * Each message that passes, or each that a rule means, waits before it goes on, going up and going
 * down apart, for the time that is set or for one drawn evenly below it.  Nothing is lost: when the
 * queue is full, the one that is due first leaves early.
 *
 *     up = 10ms, drawn, ordered      1 at 4 ms, 2 at 9 ms, 3 at 9 ms (drew less, stays behind 2)
 *                       not ordered  1 at 4 ms, 3 at 6 ms, 2 at 9 ms
 *
 * A view goes on at once, and what came before it goes before it. */

#include "layers/chosen/chosen.h"

struct delay {
  struct neap_layer layer;
  uint64_t up, down; /* params */
  uint64_t drawn, ordered, queue, honest;
  char *when;
  uint64_t held_up, held_down; /* gauges */
  uint64_t delayed, early;     /* counters */
  struct neap_chosen chosen;
  struct neap_held rising, falling;
};

#define AT(member) offsetof(struct delay, member)
static const struct neap_attr delay_attrs[] = {
  {NEAP_PARAM, "up", AT(up), "ns", 0, NEAP_US(1), NEAP_S(600), .or_zero = true, .live = NEAP_NOW,
    .doc = "How long a message coming up waits; 0: not at all. What waits keeps its time."},
  {NEAP_PARAM, "down", AT(down), "ns", 0, NEAP_US(1), NEAP_S(600), .or_zero = true,
    .live = NEAP_NOW,
    .doc = "How long a message going down waits; 0: not at all. What waits keeps its time."},
  {NEAP_PARAM, "drawn", AT(drawn), "", 0, .type = NEAP_BOOL, .live = NEAP_NOW,
    .doc = "Each waits for a time drawn evenly from 0 to that."},
  {NEAP_PARAM, "ordered", AT(ordered), "", 1, .type = NEAP_BOOL, .live = NEAP_NOW,
    .doc = "None overtakes one that waits, not even one that need not wait itself."},
  {NEAP_PARAM, "queue", AT(queue), "messages", 1024, 1, NEAP_HELD_MAX, .live = NEAP_NOW,
    .doc = "Most that wait, each way; beyond that the one that is due first leaves early."},
  NEAP_CHOSEN_WHEN(struct delay),
  NEAP_CHOSEN_HONEST(struct delay),
  {NEAP_GAUGE, "held_up", AT(held_up), "messages", .doc = "Waiting on their way up."},
  {NEAP_GAUGE, "held_down", AT(held_down), "messages", .doc = "Waiting on their way down."},
  {NEAP_COUNTER, "delayed", AT(delayed), "messages", .doc = "Had to wait."},
  {NEAP_COUNTER, "early", AT(early), "messages", .doc = "Left early: the queue was full."},
  {NEAP_END},
};

static void count(struct delay *d)
{
  d->held_up = d->rising.count;
  d->held_down = d->falling.count;
}

/* What is due goes on; the next one calls again. */
static void due(struct delay *d, struct neap_held *held)
{
  struct neap_batch out = {0};
  uint64_t now = neap_now(&d->layer);
  neap_held_out(held, now, UINT32_MAX, &out);
  neap_held_pass(held, &out);
  neap_held_again(held, neap_held_first(held) - now);
  count(d);
}

static void loud_due(struct neap_layer *layer, struct neap_timer *timer)
{
  due((struct delay *)layer, NEAP_HOLDER(timer, struct neap_held, timer));
}

static void quiet_due(struct neap_layer *layer, struct neap_timer *timer)
{
  due((struct delay *)layer, NEAP_HOLDER(timer, struct neap_held, quiet));
}

static void resize(struct delay *d, struct neap_held *held)
{
  if (held->count > d->queue) d->early += held->count - d->queue;
  neap_held_room(held, (uint32_t)d->queue);
}

static int delay_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct delay *d = (struct delay *)layer;
  neap_held_open(&d->rising, layer, true, loud_due, quiet_due);
  neap_held_open(&d->falling, layer, false, loud_due, quiet_due);
  resize(d, &d->rising);
  resize(d, &d->falling);
  return neap_chosen_open(layer, &d->chosen, d->when, trail);
}

static void hold(struct delay *d, struct neap_held *held, struct neap_msg *m, uint64_t length)
{
  uint64_t now = neap_now(&d->layer), at = now + length;
  struct neap_batch out = {0};
  if (d->ordered && held->count && at < held->last) at = held->last;
  if (held->count == held->room) {
    neap_held_out(held, UINT64_MAX, 1, &out);
    d->early++;
    neap_held_pass(held, &out);
  }
  neap_held_put(held, m, at, at - now);
}

static void pass(struct delay *d, struct neap_held *held, struct neap_batch *batch, uint64_t most)
{
  struct neap_batch out = {0};
  struct neap_msg *m;
  if (!most && !held->count) { /* The usual case passes whole. */
    neap_held_pass(held, batch);
    return;
  }
  while ((m = neap_take(batch))) {
    uint64_t length = most && neap_chosen_hit(&d->layer, &d->chosen, m, held->up) ? most : 0;
    d->delayed += length != 0;
    if (length && d->drawn) length = neap_chance_below(&d->layer, most + 1);
    if (!length && (!d->ordered || !held->count)) {
      neap_put(&out, m);
      continue;
    }
    neap_held_pass(held, &out); /* It came before, and leaves before. */
    hold(d, held, m, length);
  }
  neap_held_pass(held, &out);
  count(d);
}

static void delay_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct delay *d = (struct delay *)layer;
  pass(d, &d->falling, batch, d->down);
}

static void delay_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct delay *d = (struct delay *)layer;
  pass(d, &d->rising, batch, d->up);
}

static enum neap_verdict delay_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct delay *d = (struct delay *)layer;
  if (event->kind == NEAP_EVENT_VIEW) neap_held_flush(up ? &d->rising : &d->falling);
  count(d);
  return NEAP_PASS;
}

static void delay_changed(struct neap_layer *layer, const struct neap_attr *attr)
{
  struct delay *d = (struct delay *)layer;
  if (attr->at == AT(when)) neap_chosen_set(layer, &d->chosen, d->when);
  if (attr->at != AT(queue)) return;
  resize(d, &d->rising);
  resize(d, &d->falling);
  count(d);
}

static void delay_close(struct neap_layer *layer)
{
  struct delay *d = (struct delay *)layer;
  neap_held_close(&d->rising);
  neap_held_close(&d->falling);
  neap_chosen_free(&d->chosen);
}

static void delay_check(const struct neap_layer *layer)
{
  const struct delay *d = (const struct delay *)layer;
  neap_held_check(&d->rising);
  neap_held_check(&d->falling);
  NEAP_ASSERT(d->held_up == d->rising.count && d->held_down == d->falling.count);
}

const struct neap_class neap_delay = {
  .name = "delay",
  .doc = "Holds messages up on purpose, for a time that is set or drawn.",
  .breaks = "mcast_fifo(ordered=false,honest=true) ucast_fifo(ordered=false,honest=true) "
            "total(ordered=false,honest=true)",
  .size = sizeof(struct delay),
  .attrs = delay_attrs,
  .open = delay_open,
  .down = delay_down,
  .up = delay_up,
  .event = delay_event,
  .may = neap_chosen_may,
  .changed = delay_changed,
  .close = delay_close,
  .check = delay_check,
};
