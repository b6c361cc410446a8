/* check_stable: watches that nothing is freed that somebody lacks, or was promised.
 *
 * Above the layer that numbers multicasts, at each member, the numbers of those that rose and are
 * not done with yet are remembered per sender.  When STABLE passes on its way down and says that
 * everybody has applied a sender up to a number, no member of the view may still be busy with one
 * up to there.
 *
 *     bob is busy with ann's 5 and 7       STABLE ann 6: wrong      STABLE ann 4: right
 *
 * A digest that passes with HOLD is a promise until RELEASE: nobody who has its giver in the view
 * may call stable, or free, what lies above it, in either mode.  How far a member has freed its own
 * it shows as the gauge current_low.
 *
 *     bob promised ann from 6 on           ann frees up to 6: wrong
 *
 * Put it between stable and nakack.  What is wrong it tells the oracle. */

#include "core/oracle.h"

#include <stdlib.h>

struct busy {
  struct busy *next;
  uint64_t seqno;
  bool stored; /* it rose while a state was awaited: then it counts as soon as it is here */
};

struct peer {
  struct busy *busy; /* in no order */
};

/* A digest that this member has handed out. */
struct promise {
  struct promise *next;
  const struct neap_layer *by;
  uint64_t number;
  struct neap_digest *digest; /* NULL: to follow */
};

struct check_stable {
  struct neap_layer layer;
  uint64_t busy, promises;           /* gauges */
  uint64_t watched, compared, freed; /* counters */
  struct promise *first;
  bool awaits;                     /* a state is on its way to this member */
  const struct neap_layer *keeper; /* who frees, and shows how far */
  const struct neap_attr *shown;
  uint64_t low; /* what it showed last */
  struct neap_judge judge;
};

#define AT(member) offsetof(struct check_stable, member)
static const struct neap_attr check_stable_attrs[] = {
  {NEAP_GAUGE, "busy", AT(busy), "messages", .doc = "Multicasts that rose and are not freed yet."},
  {NEAP_GAUGE, "promises", AT(promises), "digests", .doc = "Handed out by this member, and held."},
  {NEAP_COUNTER, "watched", AT(watched), "messages", .doc = "Multicasts that rose."},
  {NEAP_COUNTER, "compared", AT(compared), "members", .doc = "Rows of STABLE held against them."},
  {NEAP_COUNTER, "freed", AT(freed), "times",
    .doc = "This member freed some of its own, held against all promises."},
  {NEAP_END},
};

static int check_stable_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct check_stable *c = (struct check_stable *)layer;
  (void)trail;
  for (uint32_t i = layer->position + 1u; i < layer->stack->count && !c->shown; i++) {
    c->keeper = layer->stack->layers[i];
    c->shown = neap_attr_find(c->keeper->class, "current_low");
  }
  neap_judge_open(&c->judge, layer);
  return 0;
}

static void check_stable_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct check_stable *c = (struct check_stable *)layer;
  for (struct neap_msg *m = batch->first; m; m = m->next) {
    if (m->to || !m->receipts) continue;
    struct peer *p = neap_peer_state(layer, m->from);
    struct busy *b = calloc(1, sizeof *b);
    NEAP_ASSERT(b);
    *b = (struct busy){p->busy, m->seqno, c->awaits};
    p->busy = b;
    c->busy++;
    c->watched++;
    neap_done_give(layer, m, m->seqno, 0);
  }
  neap_pass_up(layer, batch);
}

static void done(struct check_stable *c, const struct neap_event *event)
{
  struct peer *p = neap_peer_state_have(&c->layer, event->peer);
  for (struct busy **at = p ? &p->busy : NULL; at && *at; at = &(*at)->next) {
    if ((*at)->seqno != event->number) continue;
    struct busy *b = *at;
    *at = b->next;
    free(b);
    c->busy--;
    return;
  }
}

/* ---- promises ---- */

/* `sender` has freed up to `low`, or is about to: has this member promised some of it? */
static void promised(struct check_stable *c, const struct neap_layer *giver,
  const struct neap_peer *sender, uint64_t low)
{
  char who[NEAP_ADDR_TEXT], by[NEAP_ADDR_TEXT];
  for (const struct promise *p = ((const struct check_stable *)giver)->first; p; p = p->next) {
    const struct neap_peer *there = neap_peer_find(giver->stack, &sender->addr);
    const struct neap_digest_row *row =
      p->digest && there ? neap_digest_find(p->digest, there) : NULL;
    if (row && low > row->delivered)
      neap_judge_complain(&c->layer, "%s's #%llu goes, and %s has promised it from #%llu on",
        neap_peer_text(sender, who), (unsigned long long)low, neap_peer_text(neap_self(giver), by),
        (unsigned long long)row->delivered + 1);
  }
}

/* Something of this member's own was freed. */
static void check_stable_still(struct neap_layer *layer)
{
  struct check_stable *c = (struct check_stable *)layer;
  uint64_t low = c->shown ? neap_attr_get(c->keeper, c->shown).number : 0;
  if (low == c->low) return;
  c->low = low;
  c->freed++;
  for (uint32_t i = 0; layer->view && i < layer->view->count; i++) {
    const struct neap_judge *there = neap_judge_of(layer, &layer->view->members[i]->addr);
    if (there) promised(c, there->layer, neap_self(layer), low);
  }
}

static void drop_promise(struct check_stable *c, const struct neap_layer *by, uint64_t number)
{
  for (struct promise **at = &c->first; *at;) {
    struct promise *p = *at;
    if (by && (p->by != by || p->number != number)) {
      at = &p->next;
      continue;
    }
    *at = p->next;
    neap_digest_unref(p->digest);
    free(p);
    c->promises--;
  }
}

/* It may not promise what is gone already, where it counts. */
static void take_promise(struct check_stable *c, const struct neap_event *event)
{
  drop_promise(c, event->origin, event->number);
  struct promise *p = calloc(1, sizeof *p);
  NEAP_ASSERT(p);
  *p = (struct promise){c->first, event->origin, event->number, neap_digest_ref(event->digest)};
  c->first = p;
  c->promises++;
  for (uint32_t r = 0; p->digest && r < p->digest->count; r++) {
    const struct neap_judge *there = neap_judge_of(&c->layer, &p->digest->rows[r].peer->addr);
    const struct neap_peer *me =
      there ? neap_peer_find(there->layer->stack, &neap_self(&c->layer)->addr) : NULL;
    if (!me || !neap_in_view(there->layer->view, me)) continue;
    promised(
      c, &c->layer, p->digest->rows[r].peer, ((const struct check_stable *)there->layer)->low);
  }
}

/* ---- STABLE ---- */

/* Is this member still busy with something of `sender` up to `seqno`? */
static void look(
  struct check_stable *c, const struct neap_judge *there, const struct neap_digest_row *row)
{
  const struct neap_peer *sender = neap_peer_find(there->layer->stack, &row->peer->addr);
  const struct peer *p = sender ? neap_peer_state_have(there->layer, sender) : NULL;
  char who[NEAP_ADDR_TEXT], busy[NEAP_ADDR_TEXT];
  c->compared++;
  promised(c, there->layer, row->peer, row->delivered);
  for (const struct busy *b = p ? p->busy : NULL; b; b = b->next)
    if (!b->stored && b->seqno <= row->delivered)
      neap_judge_complain(&c->layer, "%s's #%llu is called stable, and %s is busy with #%llu",
        neap_peer_text(row->peer, who), (unsigned long long)row->delivered,
        neap_peer_text(neap_self(there->layer), busy), (unsigned long long)b->seqno);
}

/* What waits for a state is reported as stored (protocols 1), what is with the application too. */
static void awaits(struct check_stable *c)
{
  struct peer *p;
  c->awaits = true;
  neap_each_peer (&c->layer, p)
    for (struct busy *b = p->busy; b; b = b->next) b->stored = true;
}

static enum neap_verdict check_stable_event(
  struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct check_stable *c = (struct check_stable *)layer;
  if (event->kind == NEAP_EVENT_FINISHED) {
    done(c, event);
    return NEAP_STOP;
  }
  if (event->kind == NEAP_EVENT_DIGEST_OVERWRITE && event->flag) awaits(c);
  if (event->kind == NEAP_EVENT_DIGEST_COMMIT || event->kind == NEAP_EVENT_DIGEST_ABORT)
    c->awaits = false;
  if (event->kind == NEAP_EVENT_HOLD) take_promise(c, event);
  if (event->kind == NEAP_EVENT_RELEASE) drop_promise(c, event->origin, event->number);
  if (event->kind != NEAP_EVENT_STABLE || up) return NEAP_PASS;
  for (uint32_t i = 0; layer->view && i < layer->view->count; i++) {
    const struct neap_judge *there = neap_judge_of(layer, &layer->view->members[i]->addr);
    for (uint32_t r = 0; there && r < event->digest->count; r++)
      look(c, there, &event->digest->rows[r]);
  }
  return NEAP_PASS;
}

static void check_stable_close(struct neap_layer *layer)
{
  struct check_stable *c = (struct check_stable *)layer;
  drop_promise(c, NULL, 0);
  neap_judge_close(&c->judge);
}

static void check_stable_peer_gone(struct neap_layer *layer, struct neap_peer *peer, void *state)
{
  struct check_stable *c = (struct check_stable *)layer;
  struct peer *p = state;
  (void)peer;
  while (p->busy) {
    struct busy *next = p->busy->next;
    free(p->busy);
    p->busy = next;
    c->busy--;
  }
}

const struct neap_class neap_check_stable = {
  .name = "check_stable",
  .doc = "Watches that nothing is freed that somebody lacks, or was promised.",
  .needs = "mcast_reliable digest",
  .hears = "stable view",
  .size = sizeof(struct check_stable),
  .peer_size = sizeof(struct peer),
  .peer_gone = check_stable_peer_gone,
  .attrs = check_stable_attrs,
  .open = check_stable_open,
  .up = check_stable_up,
  .event = check_stable_event,
  .still = check_stable_still,
  .close = check_stable_close,
};
