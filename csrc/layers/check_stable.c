/* check_stable: watches that nobody is told that all have what somebody has not.
 *
 * Above the layer that numbers multicasts, at each member, the numbers of those that rose and are
 * not done with yet are remembered per sender.  When STABLE passes on its way down and says that
 * everybody has applied a sender up to a number, no member of the view may still be busy with one
 * up to there.  Put it between stable and nakack.  What is wrong it tells the oracle.
 *
 *     bob is busy with ann's 5 and 7       STABLE ann 6: wrong      STABLE ann 4: right */

#include "core/oracle.h"

#include <stdlib.h>

struct busy {
  struct busy *next;
  uint64_t seqno;
};

struct peer {
  struct busy *busy; /* in no order */
};

struct check_stable {
  struct neap_layer layer;
  uint64_t busy;              /* gauge */
  uint64_t watched, compared; /* counters */
  struct neap_judge judge;
};

#define AT(member) offsetof(struct check_stable, member)
static const struct neap_attr check_stable_attrs[] = {
  {NEAP_GAUGE, "busy", AT(busy), "messages", .doc = "Multicasts that rose and are not freed yet."},
  {NEAP_COUNTER, "watched", AT(watched), "messages", .doc = "Multicasts that rose."},
  {NEAP_COUNTER, "compared", AT(compared), "members", .doc = "Rows of STABLE held against them."},
  {NEAP_END},
};

static int check_stable_open(struct neap_layer *layer, struct neap_trail *trail)
{
  (void)trail;
  neap_judge_open(&((struct check_stable *)layer)->judge, layer);
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
    *b = (struct busy){p->busy, m->seqno};
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

/* Is this member still busy with something of `sender` up to `seqno`? */
static void look(
  struct check_stable *c, const struct neap_judge *there, const struct neap_digest_row *row)
{
  const struct neap_peer *sender = neap_peer_find(there->layer->stack, &row->peer->addr);
  const struct peer *p = sender ? neap_peer_state_have(there->layer, sender) : NULL;
  char who[NEAP_ADDR_TEXT], busy[NEAP_ADDR_TEXT];
  c->compared++;
  for (const struct busy *b = p ? p->busy : NULL; b; b = b->next)
    if (b->seqno <= row->delivered)
      neap_judge_complain(&c->layer, "%s's #%llu is called stable, and %s is busy with #%llu",
        neap_peer_text(row->peer, who), (unsigned long long)row->delivered,
        neap_peer_text(neap_self(there->layer), busy), (unsigned long long)b->seqno);
}

static enum neap_verdict check_stable_event(
  struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct check_stable *c = (struct check_stable *)layer;
  if (event->kind == NEAP_EVENT_FINISHED) {
    done(c, event);
    return NEAP_STOP;
  }
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
  neap_judge_close(&((struct check_stable *)layer)->judge);
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
  .doc = "Watches that nobody is told that all have what somebody has not.",
  .needs = "mcast_reliable digest",
  .hears = "stable view",
  .size = sizeof(struct check_stable),
  .peer_size = sizeof(struct peer),
  .peer_gone = check_stable_peer_gone,
  .attrs = check_stable_attrs,
  .open = check_stable_open,
  .up = check_stable_up,
  .event = check_stable_event,
  .close = check_stable_close,
};
