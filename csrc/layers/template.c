/* template: what it promises, in one sentence.
 *
 * How: what it does going down, what it does coming up, what it does when time passes.  A picture,
 * if there is a state machine or a layout.  The paper it follows, and where it deviates.
 *
 * Invariant: what is true between turns; `check` says the same in assertions. */

#include "core/headers.h"
#include "core/layer.h"

/* What goes on the wire.  Ids from 2048 on are yours. */
#define TEMPLATE_HEAD(FIELD, WHEN) FIELD(clong, number, "of this message, per sender")
NEAP_HEADER(template_head, TEMPLATE_HEAD)

static const struct neap_header template_headers[] = {
  NEAP_HEADER_ROW("template", NEAP_USER_HEADERS, NEAP_USER_HEADERS, template_head, "a number"),
  {0},
};
NEAP_ADOPT(template_head, 0);

/* Per member, zeroed; comes with its first message and goes when it has left. */
struct peer {
  uint64_t seen;
};

struct template
{
  struct neap_layer layer;
  uint64_t period;         /* params */
  uint64_t passed, rounds; /* counters */
  uint64_t next_down;
  struct neap_timer tick;
};

#define AT(member) offsetof(struct template, member)
static const struct neap_attr template_attrs[] = {
  {NEAP_PARAM, "period", AT(period), "ns", NEAP_S(1), NEAP_MS(1), NEAP_S(3600), .or_zero = true,
    .live = NEAP_TIMER, .doc = "Time between two rounds, from now on; 0 holds none."},
  {NEAP_COUNTER, "passed", AT(passed), "messages", .doc = "Numbered messages that came up."},
  {NEAP_COUNTER, "rounds", AT(rounds), "rounds", .doc = "How often the timer was due."},
  {NEAP_END},
};

static void schedule(struct template *t)
{
  if (t->period)
    neap_timer_start(&t->layer, &t->tick, t->period);
  else
    neap_timer_stop(&t->tick);
}

static void hold_round(struct neap_layer *layer, struct neap_timer *timer)
{
  struct template *t = NEAP_HOLDER(timer, struct template, tick);
  (void)layer;
  t->rounds++;
  schedule(t);
}

static int again(struct neap_layer *layer, const char *argument, char *out)
{
  (void)argument;
  *out = 0;
  neap_timer_sooner(layer, &((struct template *)layer)->tick, 0);
  return 0;
}

static const struct neap_op template_ops[] = {
  {"again", "Holds a round now.", again},
  {0},
};

static int template_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct template *t = (struct template *)layer;
  (void)trail; /* neap_trail(trail, NEAP_SYSTEM, "why") and return it when it cannot open. */
  neap_timer_init_background(layer, &t->tick, hold_round);
  schedule(t);
  return 0;
}

static void template_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct template *t = (struct template *)layer;
  for (struct neap_msg *m = batch->first; m; m = m->next)
    if (!m->to) *template_head_put(m, layer) = (struct template_head){.number = ++t->next_down};
  neap_pass_down(layer, batch);
}

/* Each branch over a message ends in exactly one of pass, keep, free. */
static void template_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct template *t = (struct template *)layer;
  struct neap_batch out = {0};
  struct neap_msg *m;

  while ((m = neap_take(batch))) {
    const struct template_head *head = template_head_get(m, layer);
    if (head) {
      struct peer *p = neap_peer_state(layer, m->from);
      p->seen++;
      t->passed++;
    }
    neap_put(&out, m);
  }
  neap_pass_up(layer, &out);
}

static enum neap_verdict template_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  (void)layer;
  (void)event; /* event->kind == NEAP_EVENT_VIEW: layer->view is the new one already. */
  (void)up;
  return NEAP_PASS;
}

static void template_changed(struct neap_layer *layer, const struct neap_attr *attr)
{
  struct template *t = (struct template *)layer;
  if (attr->at == AT(period)) schedule(t);
}

static void template_close(struct neap_layer *layer)
{
  struct template *t = (struct template *)layer;
  neap_timer_stop(&t->tick);
}

/* A member left, or the layer closes: free what its state holds. */
static void template_peer_gone(struct neap_layer *layer, struct neap_peer *peer, void *state)
{
  (void)layer;
  (void)peer;
  (void)state;
}

static void template_check(const struct neap_layer *layer)
{
  const struct template *t = (const struct template *)layer;
  uint64_t seen = 0;
  const struct peer *p;
  neap_each_peer (layer, p) seen += p->seen;
  NEAP_ASSERT(seen <= t->passed); /* Those of departed members are no longer counted. */
  NEAP_ASSERT(!t->period || t->tick.armed);
}

const struct neap_class neap_template = {
  .name = "template",
  .doc = "What it promises, in one sentence.",
  .needs = "multicast", /* words of core/promise.h that must hold below */
  .gives = "",          /* those that hold above because of it */
  .size = sizeof(struct template),
  .peer_size = sizeof(struct peer),
  .peer_gone = template_peer_gone,
  .headers = template_headers,
  .attrs = template_attrs,
  .ops = template_ops,
  .open = template_open,
  .down = template_down,
  .up = template_up,
  .event = template_event,
  .changed = template_changed,
  .close = template_close,
  .check = template_check,
};
