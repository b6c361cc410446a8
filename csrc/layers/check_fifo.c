/* check_fifo: watches order, repetition and gaps.
 *
 * Each message gets its place among those of the same stream that this member has sent: multicasts,
 * or messages to one member, regular or out of band.  Coming up, regular ones must follow each
 * other without a gap; those out of band may come in any order, each once.
 *
 *     ann to all     0 1 2 3        bob got 1 2, then 3 is due      (he joined after 0)
 *     ann to bob     0 1            bob got 0, then 1 is due
 *
 * Numbers to one member start over when that member was away from the sender's view.
 *
 * `settled` compares the last that each member sent with the last that the others got: for when
 * nothing is on its way any more.  Put it above the layers that give mcast_fifo and ucast_fifo.
 * What is wrong it tells the oracle. */

#include "core/headers.h"
#include "core/oracle.h"

static const struct neap_header check_fifo_headers[] = {
  NEAP_HEADER_ROW(
    "check_fifo", NEAP_OWN_CHECK_FIFO, NEAP_OWN_CHECK_FIFO, neap_check_fifo_head, "place"),
  {0},
};
NEAP_ADOPT(neap_check_fifo_head, 0);

/* How far apart messages out of band may come and still be told apart. */
enum { SEEN_MAX = 4096 };

enum stream { MCAST, UCAST, STREAMS };

struct got {
  uint64_t life, life_oob; /* of the sender's side; it starts over when that does */
  uint64_t next;           /* regular; the place that is due */
  bool begun;
  uint64_t top; /* out of band: one more than the highest place */
  uint64_t seen[SEEN_MAX / 64];
};

struct peer {
  uint64_t sent, sent_oob; /* to this one alone, */
  uint64_t life;           /* since this time, plus 1 */
  struct got got[STREAMS];
};

struct check_fifo {
  struct neap_layer layer;
  uint64_t marked, compared; /* counters */
  uint64_t sent, sent_oob;   /* to all */
  struct neap_judge judge;
};

#define AT(member) offsetof(struct check_fifo, member)
static const struct neap_attr check_fifo_attrs[] = {
  {NEAP_COUNTER, "marked", AT(marked), "messages", .doc = "Went down with their place."},
  {NEAP_COUNTER, "compared", AT(compared), "messages", .doc = "Came up with it."},
  {NEAP_END},
};

static int check_fifo_open(struct neap_layer *layer, struct neap_trail *trail)
{
  (void)trail;
  neap_judge_open(&((struct check_fifo *)layer)->judge, layer);
  return 0;
}

static void check_fifo_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct check_fifo *c = (struct check_fifo *)layer;
  bool all_neap = layer->view && neap_view_all_neap(layer->view);
  for (struct neap_msg *m = batch->first; m; m = m->next) {
    if (m->flags & NEAP_NO_RELIABILITY || (m->to ? !m->to->generation : !all_neap)) continue;
    struct peer *p = m->to ? neap_peer_state(layer, m->to) : NULL;
    uint64_t *at = neap_oob(m) ? (p ? &p->sent_oob : &c->sent_oob) : (p ? &p->sent : &c->sent);
    if (p && !p->life) p->life = neap_now(layer) + 1;
    *neap_check_fifo_head_put(m, layer) =
      (struct neap_check_fifo_head){.place = (*at)++, .life = p ? p->life : 1};
    c->marked++;
  }
  neap_pass_down(layer, batch);
}

static void compare(struct neap_layer *layer, struct got *got, const struct neap_msg *m,
  const struct neap_check_fifo_head *head)
{
  char who[NEAP_ADDR_TEXT];
  const char *what = m->to ? "unicasts" : "multicasts";
  uint64_t place = head->place;
  neap_peer_text(m->from, who);
  if (head->life < got->life) {
    neap_judge_complain(layer, "a message of an older life of %s came late", who);
    return;
  }
  if (head->life > got->life) got->begun = false;
  got->life = head->life;
  if (!got->begun) got->next = place; /* This member joined in the middle. */
  got->begun = true;
  if (place < got->next)
    neap_judge_complain(layer, "of %s's %s #%llu came again or late, #%llu was due", who, what,
      (unsigned long long)place, (unsigned long long)got->next);
  else if (place > got->next && !m->from->self) /* One's own need not come back. */
    neap_judge_complain(layer, "of %s's %s #%llu came, #%llu was due", who, what,
      (unsigned long long)place, (unsigned long long)got->next);
  if (place >= got->next) got->next = place + 1;
}

/* An old life's may come after a new one's: they are not told apart any more. */
static void compare_oob(struct neap_layer *layer, struct got *got, const struct neap_msg *m,
  const struct neap_check_fifo_head *head)
{
  char who[NEAP_ADDR_TEXT];
  uint64_t place = head->place;
  if (head->life < got->life_oob || place > UINT64_MAX / 2) return; /* Nobody counts that far. */
  if (head->life > got->life_oob) {
    got->top = 0;
    memset(got->seen, 0, sizeof got->seen);
  }
  got->life_oob = head->life;
  if (place > got->top && place - got->top >= SEEN_MAX) { /* All that was seen is too long ago. */
    memset(got->seen, 0, sizeof got->seen);
    got->top = place;
  }
  for (; got->top <= place; got->top++)
    got->seen[got->top % SEEN_MAX / 64] &= ~((uint64_t)1 << (got->top % 64));
  if (got->top - place > SEEN_MAX) return; /* Nobody remembers. */
  uint64_t *word = &got->seen[place % SEEN_MAX / 64], bit = (uint64_t)1 << (place % 64);
  if (*word & bit)
    neap_judge_complain(layer, "of %s's %s out of band #%llu came again",
      neap_peer_text(m->from, who), m->to ? "unicasts" : "multicasts", (unsigned long long)place);
  *word |= bit;
}

static void check_fifo_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct check_fifo *c = (struct check_fifo *)layer;
  for (const struct neap_msg *m = batch->first; m; m = m->next) {
    const struct neap_check_fifo_head *head = neap_check_fifo_head_get(m, layer);
    if (!head) continue;
    struct peer *p = neap_peer_state(layer, m->from);
    struct got *got = &p->got[m->to ? UCAST : MCAST];
    c->compared++;
    if (neap_oob(m))
      compare_oob(layer, got, m, head);
    else
      compare(layer, got, m, head);
  }
  neap_pass_up(layer, batch);
}

/* Has everybody in the same view got the last of this member's multicasts, and of its unicasts? */
static int settled(struct neap_layer *layer, const char *argument, char *out)
{
  struct check_fifo *c = (struct check_fifo *)layer;
  (void)argument;
  *out = 0;
  for (struct neap_judge *j = NULL; (j = neap_judge_next(layer, j));) {
    const struct neap_peer *me = neap_peer_find(j->layer->stack, &neap_self(layer)->addr);
    const struct neap_peer *it = neap_peer_find(layer->stack, &neap_self(j->layer)->addr);
    if (!me || !it || it->self || !neap_in_view(layer->view, it) ||
        !neap_in_view(j->layer->view, me))
      continue;
    const struct peer *there = neap_peer_state_have(j->layer, me);
    const struct peer *here = neap_peer_state_have(layer, it);
    if (there && there->got[MCAST].begun && there->got[MCAST].next != c->sent)
      neap_judge_complain(j->layer, "of %s's %llu multicasts #%llu never came",
        neap_self(layer)->name, (unsigned long long)c->sent,
        (unsigned long long)there->got[MCAST].next);
    uint64_t came = there ? there->got[UCAST].next : 0;
    if (here && here->sent != came)
      neap_judge_complain(j->layer, "of %s's %llu unicasts #%llu never came",
        neap_self(layer)->name, (unsigned long long)here->sent, (unsigned long long)came);
  }
  return 0;
}

static const struct neap_op check_fifo_ops[] = {
  {"settled", "When nothing is on its way: have all got what this member sent?", settled},
  {0},
};

static void check_fifo_close(struct neap_layer *layer)
{
  neap_judge_close(&((struct check_fifo *)layer)->judge);
}

const struct neap_class neap_check_fifo = {
  .name = "check_fifo",
  .doc = "Watches that messages come in order, once and without gaps.",
  .needs = "mcast_fifo mcast_reliable ucast_fifo ucast_reliable",
  .hears = "view",
  .breaks = "jgroups5",
  .size = sizeof(struct check_fifo),
  .peer_size = sizeof(struct peer),
  .headers = check_fifo_headers,
  .attrs = check_fifo_attrs,
  .ops = check_fifo_ops,
  .open = check_fifo_open,
  .down = check_fifo_down,
  .up = check_fifo_up,
  .close = check_fifo_close,
};
