/* check_state: watches that a state and the messages around it fit together.
 *
 * At the giver, numbers of multicasts that rose and are not done with yet are remembered per
 * sender.  The digest that goes down with READ must not be ahead of the application: nothing up to
 * it may be busy.  The one with WAS_READ must not be behind: it covers all that was ever done with.
 *
 *     bob is busy with ann's 5     READ ann 4: right      READ ann 5: wrong
 *
 * At the taker no multicast may rise between BEGIN and SET; afterwards none that is in the state
 * (up to D), and those that may be in it (up to E) only as replayed, and no others so.
 *
 * Put it above the layer that gives state.  What is wrong it tells the oracle. */

#include "core/oracle.h"

#include <stdlib.h>

struct busy {
  struct busy *next;
  uint64_t seqno;
};

struct peer {
  struct busy *busy; /* in no order */
  uint64_t done;     /* highest that was done with */
  uint64_t before;   /* the same at the end of the last turn: digests are taken between turns */
};

struct check_state {
  struct neap_layer layer;
  uint64_t busy, watched, given, taken;
  bool fetching;
  struct neap_digest *sure, *perhaps; /* D and E of the last state that was set */
  struct neap_digest *next_sure, *next_perhaps;
  struct neap_judge judge;
};

#define AT(member) offsetof(struct check_state, member)
static const struct neap_attr check_state_attrs[] = {
  {NEAP_GAUGE, "busy", AT(busy), "messages", .doc = "Multicasts that rose and are not freed yet."},
  {NEAP_COUNTER, "watched", AT(watched), "messages", .doc = "Multicasts that rose."},
  {NEAP_COUNTER, "given", AT(given), "digests", .doc = "Of states given, held against them."},
  {NEAP_COUNTER, "taken", AT(taken), "digests", .doc = "Of states that were set here."},
  {NEAP_END},
};

static void replace(struct neap_digest **at, struct neap_digest *digest)
{
  neap_digest_ref(digest);
  neap_digest_unref(*at);
  *at = digest;
}

/* ---- at the taker ---- */

static void look(struct check_state *c, const struct neap_msg *m)
{
  char who[NEAP_ADDR_TEXT];
  const struct neap_digest_row *sure = neap_digest_find(c->sure, m->from);
  const struct neap_digest_row *perhaps = neap_digest_find(c->perhaps, m->from);
  bool replayed = m->marks & NEAP_REPLAYED;
  bool may_be = perhaps && m->seqno <= perhaps->delivered;
  const char *wrong = c->fetching                           ? "rose while a state was on its way"
                      : sure && m->seqno <= sure->delivered ? "is in the state and rose again"
                      : may_be && !replayed                 ? "may be in the state, unmarked"
                      : replayed && !may_be                 ? "is marked, and not in the state"
                                                            : NULL;
  if (wrong)
    neap_judge_complain(&c->layer, "%s's #%llu %s", neap_peer_text(m->from, who),
      (unsigned long long)m->seqno, wrong);
}

static void told(struct check_state *c, const struct neap_event *event)
{
  if (event->number == NEAP_STATE_BEGIN) {
    c->fetching = true;
    replace(&c->next_sure, event->digest);
  } else if (event->number == NEAP_STATE_WHOLE) {
    replace(&c->next_perhaps, event->digest);
  } else if (event->number == NEAP_STATE_BROKEN || event->number == NEAP_STATE_FAILED) {
    c->fetching = false;
  }
}

/* ---- at the giver ---- */

static void given(struct check_state *c, const struct neap_digest *digest, bool sure)
{
  char who[NEAP_ADDR_TEXT];
  c->given++;
  for (uint32_t i = 0; digest && i < digest->count; i++) {
    const struct neap_digest_row *row = &digest->rows[i];
    const struct peer *p = neap_peer_state_have(&c->layer, row->peer);
    if (p && !sure && p->before > row->delivered)
      neap_judge_complain(&c->layer, "a state that has %s's #%llu is said to end at #%llu",
        neap_peer_text(row->peer, who), (unsigned long long)p->before,
        (unsigned long long)row->delivered);
    for (const struct busy *b = p && sure ? p->busy : NULL; b; b = b->next)
      if (b->seqno <= row->delivered)
        neap_judge_complain(&c->layer, "a digest is at %s's #%llu, and #%llu is not done with",
          neap_peer_text(row->peer, who), (unsigned long long)row->delivered,
          (unsigned long long)b->seqno);
  }
}

static void asked(struct check_state *c, const struct neap_event *event)
{
  if (event->number == NEAP_STATE_READ) given(c, event->digest, true);
  if (event->number == NEAP_STATE_WAS_READ) given(c, event->digest, false);
  if (event->number != NEAP_STATE_SET || !c->fetching) return;
  c->fetching = false;
  c->taken++;
  replace(&c->sure, c->next_sure);
  replace(&c->perhaps, c->next_perhaps);
}

/* ---- life ---- */

static int check_state_open(struct neap_layer *layer, struct neap_trail *trail)
{
  (void)trail;
  neap_judge_open(&((struct check_state *)layer)->judge, layer);
  return 0;
}

static void check_state_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct check_state *c = (struct check_state *)layer;
  for (struct neap_msg *m = batch->first; m; m = m->next) {
    if (m->to || !(m->receipts || m->origin)) continue;
    look(c, m);
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

static void done(struct check_state *c, const struct neap_event *event)
{
  struct peer *p = neap_peer_state_have(&c->layer, event->peer);
  for (struct busy **at = p ? &p->busy : NULL; at && *at; at = &(*at)->next) {
    if ((*at)->seqno != event->number) continue;
    struct busy *b = *at;
    *at = b->next;
    if (b->seqno > p->done) p->done = b->seqno;
    free(b);
    c->busy--;
    return;
  }
}

static enum neap_verdict check_state_event(
  struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct check_state *c = (struct check_state *)layer;
  (void)up;
  if (event->kind == NEAP_EVENT_FINISHED) {
    done(c, event);
    return NEAP_STOP;
  }
  if (event->kind == NEAP_EVENT_STATE_DO) asked(c, event);
  if (event->kind == NEAP_EVENT_STATE_TOLD) told(c, event);
  return NEAP_PASS;
}

static void check_state_still(struct neap_layer *layer)
{
  struct peer *p;
  neap_each_peer (layer, p) p->before = p->done;
}

static void check_state_close(struct neap_layer *layer)
{
  struct check_state *c = (struct check_state *)layer;
  neap_digest_unref(c->sure);
  neap_digest_unref(c->perhaps);
  neap_digest_unref(c->next_sure);
  neap_digest_unref(c->next_perhaps);
  neap_judge_close(&c->judge);
}

static void check_state_peer_gone(struct neap_layer *layer, struct neap_peer *peer, void *state)
{
  struct check_state *c = (struct check_state *)layer;
  struct peer *p = state;
  (void)peer;
  while (p->busy) {
    struct busy *next = p->busy->next;
    free(p->busy);
    p->busy = next;
    c->busy--;
  }
}

const struct neap_class neap_check_state = {
  .name = "check_state",
  .doc = "Watches that no digest is ahead of its state, and no message comes twice.",
  .needs = "state",
  .size = sizeof(struct check_state),
  .peer_size = sizeof(struct peer),
  .peer_gone = check_state_peer_gone,
  .attrs = check_state_attrs,
  .open = check_state_open,
  .up = check_state_up,
  .event = check_state_event,
  .still = check_state_still,
  .close = check_state_close,
};
