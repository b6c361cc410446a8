/* discard: loses messages on purpose.
 *
 * Each message that passes is lost with a given chance, going up and going down
 * apart, drawn from the stack's own stream, so a seed repeats the same losses.
 * Messages of a packet are lost one by one, and each receiver loses for itself.
 * What members hear of the group's own beginnings is lost like everything else:
 * who stands above has to repair it.
 *
 *     up = 0.1, from = "ann"     one in ten of ann's messages never rises */

#include "core/layer.h"

struct discard {
  struct neap_layer layer;
  double up, down; /* params */
  char *from;
  uint64_t dropped_up, dropped_down, passed_up, passed_down; /* counters */
};

#define AT(member) offsetof(struct discard, member)
static const struct neap_attr discard_attrs[] = {
  {NEAP_PARAM, "up", AT(up), "", 0, 0, 1000000, .type = NEAP_REAL, .live = NEAP_NOW,
    .doc = "Chance that a message coming up is lost; 0 loses none, 1 all."},
  {NEAP_PARAM, "down", AT(down), "", 0, 0, 1000000, .type = NEAP_REAL, .live = NEAP_NOW,
    .doc = "Chance that a message going down is lost; 0 loses none, 1 all."},
  {NEAP_PARAM, "from", AT(from), "", .type = NEAP_TEXT, .text = "", .live = NEAP_NOW,
    .doc = "Lose only what this member (name or address) has sent, on its way up; empty: anybody."},
  {NEAP_COUNTER, "dropped_up", AT(dropped_up), "messages", .doc = "Lost on the way up."},
  {NEAP_COUNTER, "dropped_down", AT(dropped_down), "messages", .doc = "Lost on the way down."},
  {NEAP_COUNTER, "passed_up", AT(passed_up), "messages", .doc = "Spared on the way up."},
  {NEAP_COUNTER, "passed_down", AT(passed_down), "messages", .doc = "Spared on the way down."},
  {NEAP_END},
};

static bool meant(const struct discard *d, const struct neap_peer *from)
{
  char text[NEAP_ADDR_TEXT];
  return !*d->from || !strcmp(d->from, neap_peer_text(from, text)) ||
         !strcmp(d->from, neap_addr_text(&from->addr, text));
}

static bool lost(struct discard *d, double chance)
{
  return neap_random_chance(&d->layer.stack->random, chance);
}

/* Takes out of the batch what is lost; returns how many that is. */
static uint32_t thin_out(struct discard *d, struct neap_batch *batch, double chance)
{
  struct neap_msg **at = &batch->first, *m, *last = NULL;
  uint32_t before = batch->count;
  while ((m = *at)) {
    if (!lost(d, chance)) {
      last = m;
      at = &m->next;
      continue;
    }
    *at = m->next;
    m->next = NULL;
    batch->count--;
    batch->bytes -= m->len;
    neap_msg_free(m);
  }
  batch->last = last;
  return before - batch->count;
}

static void discard_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct discard *d = (struct discard *)layer;
  if (d->down > 0) d->dropped_down += thin_out(d, batch, d->down);
  d->passed_down += batch->count;
  neap_pass_down(layer, batch);
}

static void discard_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct discard *d = (struct discard *)layer;
  /* A batch has one sender. */
  if (d->up > 0 && batch->first && meant(d, batch->first->from))
    d->dropped_up += thin_out(d, batch, d->up);
  d->passed_up += batch->count;
  neap_pass_up(layer, batch);
}

const struct neap_class neap_discard = {
  .name = "discard",
  .doc = "Loses messages on purpose, each with a given chance.",
  .breaks = "mcast_reliable mcast_fifo ucast_reliable ucast_fifo",
  .size = sizeof(struct discard),
  .attrs = discard_attrs,
  .down = discard_down,
  .up = discard_up,
};
