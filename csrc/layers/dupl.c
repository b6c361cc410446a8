/* dupl: doubles messages on purpose.
 *
 * Each message that passes, or each that a rule means, is followed by copies with a given chance,
 * going up and going down apart, drawn from the stack's own stream, so a seed repeats them:
 *
 *     down = 1, copies = 2      1 2 3   ->   1 1 1 2 2 2 3 3 3
 *
 * A copy is a message of its own: below a layer that numbers them it has the same number and is
 * found out, above one it gets another and arrives twice.  Nobody waits for it: of a synchronous
 * send only the first answers the application. */

#include "layers/chosen/chosen.h"

enum { COPIES_MAX = 16 };

struct dupl {
  struct neap_layer layer;
  double up, down; /* params */
  uint64_t copies, honest;
  char *when;
  uint64_t doubled_up, doubled_down; /* counters */
  struct neap_chosen chosen;
};

#define AT(member) offsetof(struct dupl, member)
static const struct neap_attr dupl_attrs[] = {
  {NEAP_PARAM, "up", AT(up), "", 0, 0, 1000000, .type = NEAP_REAL, .live = NEAP_NOW,
    .doc = "Chance that a message coming up is doubled; 0 doubles none, 1 all."},
  {NEAP_PARAM, "down", AT(down), "", 0, 0, 1000000, .type = NEAP_REAL, .live = NEAP_NOW,
    .doc = "Chance that a message going down is doubled; 0 doubles none, 1 all."},
  {NEAP_PARAM, "copies", AT(copies), "messages", 1, 1, COPIES_MAX, .live = NEAP_NOW,
    .doc = "How many more of each one that is doubled."},
  NEAP_CHOSEN_WHEN(struct dupl),
  NEAP_CHOSEN_HONEST(struct dupl),
  {NEAP_COUNTER, "doubled_up", AT(doubled_up), "messages", .doc = "Copies made on the way up."},
  {NEAP_COUNTER, "doubled_down", AT(doubled_down), "messages",
    .doc = "Copies made on the way down."},
  {NEAP_END},
};

static int dupl_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct dupl *d = (struct dupl *)layer;
  return neap_chosen_open(layer, &d->chosen, d->when, trail);
}

/* The first passes as ever, the copies behind it. */
static void double_all(struct dupl *d, struct neap_batch *batch, bool up, struct neap_batch *out)
{
  struct neap_msg *m;
  double chance = up ? d->up : d->down;
  while ((m = neap_take(batch))) {
    bool twice = neap_random_chance(&d->layer.stack->random, chance) &&
                 neap_chosen_hit(&d->layer, &d->chosen, m, up);
    neap_put(out, m);
    for (uint64_t c = 0; twice && c < d->copies; c++) {
      struct neap_msg *copy = neap_msg_clone(m);
      copy->ticket = 0;
      neap_put(out, copy);
      ++*(up ? &d->doubled_up : &d->doubled_down);
    }
  }
}

static void dupl_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct dupl *d = (struct dupl *)layer;
  struct neap_batch out = {0};
  if (d->down > 0) double_all(d, batch, false, &out);
  neap_pass_down(layer, d->down > 0 ? &out : batch);
}

static void dupl_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct dupl *d = (struct dupl *)layer;
  struct neap_batch out = {0};
  if (d->up > 0) double_all(d, batch, true, &out);
  neap_pass_up(layer, d->up > 0 ? &out : batch);
}

static void dupl_changed(struct neap_layer *layer, const struct neap_attr *attr)
{
  struct dupl *d = (struct dupl *)layer;
  if (attr->at == AT(when)) neap_chosen_set(layer, &d->chosen, d->when);
}

static void dupl_close(struct neap_layer *layer)
{
  neap_chosen_free(&((struct dupl *)layer)->chosen);
}

const struct neap_class neap_dupl = {
  .name = "dupl",
  .doc = "Doubles messages on purpose, each with a given chance.",
  .breaks = "mcast_fifo(honest=true) ucast_fifo(honest=true) total(honest=true)",
  .size = sizeof(struct dupl),
  .attrs = dupl_attrs,
  .open = dupl_open,
  .down = dupl_down,
  .up = dupl_up,
  .may = neap_chosen_may,
  .changed = dupl_changed,
  .close = dupl_close,
};
