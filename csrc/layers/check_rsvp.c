/* check_rsvp: watches that a synchronous send does not return too early.
 *
 * Each message of such a send carries its ticket down.  Above the layer that gives rsvp, at each
 * member, it is remembered when it is said to be in a buffer below (STORED: alone, or with all
 * before it), when it rises, and when it is done with (freed: the callback returned).  When the
 * send ends well, each of its targets that is not said to have left must have come that far:
 *
 *     reception    stored, or risen
 *     completion   stored with all before it, or risen; and it must have risen soon
 *     delivery     done with
 *
 * What a send waits for that does not say is read from the layer below that gives rsvp.  What is
 * wrong it tells the oracle. */

#include "core/headers.h"
#include "core/oracle.h"

#include <stdlib.h>

static const struct neap_header check_rsvp_headers[] = {
  NEAP_HEADER_ROW(
    "check_rsvp", NEAP_OWN_CHECK_RSVP, NEAP_OWN_CHECK_RSVP, neap_check_rsvp_head, "ticket"),
  {0},
};
NEAP_ADOPT(neap_check_rsvp_head, 0);

enum ack_on { ON_RECEPTION, ON_COMPLETION, ON_DELIVERY };

/* A message of somebody's synchronous send, here; forgotten when that send has ended. */
struct seen {
  struct seen *next;
  struct neap_addr from;
  uint32_t ticket;
  bool whole; /* everything before it is stored, too */
  bool risen, done;
};

/* A synchronous send of this member. */
struct asked {
  struct asked *next;
  struct neap_view *view; /* counted; whom it is for, unless to */
  struct neap_peer *to;   /* counted */
  uint32_t ticket;
  uint8_t ack_on;
  bool without_self;
  bool ended;                 /* somebody's has to rise yet */
  struct neap_found *excuses; /* counted; then: who was not waited for */
};

struct check_rsvp {
  struct neap_layer layer;
  uint64_t ended, watched; /* counters */
  struct neap_judge judge;
  struct asked *asked;
  struct seen *seen;
  struct neap_timer again;
};

/* How soon: longer than a view waits for the names of its members. */
#define SOON NEAP_S(2)

#define AT(member) offsetof(struct check_rsvp, member)
static const struct neap_attr check_rsvp_attrs[] = {
  {NEAP_COUNTER, "ended", AT(ended), "requests", .doc = "Sends that ended well."},
  {NEAP_COUNTER, "watched", AT(watched), "members", .doc = "Targets of these that were looked at."},
  {NEAP_END},
};

static struct seen **seen_at(struct check_rsvp *c, const struct neap_addr *from, uint32_t ticket)
{
  struct seen **at = &c->seen;
  while (*at && ((*at)->ticket != ticket || !neap_addr_equal(&(*at)->from, from)))
    at = &(*at)->next;
  return at;
}

static void seen_free(struct seen **at)
{
  struct seen *s = *at;
  *at = s->next;
  free(s);
}

static struct asked **asked_at(struct check_rsvp *c, uint32_t ticket)
{
  struct asked **at = &c->asked;
  while (*at && (*at)->ticket != ticket) at = &(*at)->next;
  return at;
}

static void asked_free(struct asked **at)
{
  struct asked *a = *at;
  *at = a->next;
  neap_view_unref(a->view);
  neap_peer_unref(a->to);
  neap_found_unref(a->excuses);
  free(a);
}

/* ---- the sender ---- */

/* What the layer that gives rsvp says for sends that do not. */
static uint8_t usual(const struct neap_layer *layer)
{
  const struct neap_stack *stack = layer->stack;
  for (uint32_t i = layer->position + 1u; i < stack->count; i++) {
    const struct neap_class *class = stack->layers[i]->class;
    const struct neap_attr *attr = neap_attr_find(class, "ack_on");
    if (attr && class->gives && !strcmp(class->gives, "rsvp"))
      return (uint8_t)neap_attr_get(stack->layers[i], attr).number;
  }
  return ON_RECEPTION;
}

static void asks(struct check_rsvp *c, const struct neap_event *event)
{
  struct asked *a = calloc(1, sizeof *a);
  NEAP_ASSERT(a);
  a->next = c->asked;
  a->ticket = event->ticket;
  a->ack_on = event->number > ON_DELIVERY ? usual(&c->layer) : (uint8_t)event->number;
  a->view = neap_view_ref(c->layer.view);
  c->asked = a;
}

static bool excused(const struct neap_found *found, const struct neap_peer *peer)
{
  for (uint32_t i = 0; found && i < found->count; i++)
    if (found->rows[i].peer == peer) return true; /* Or it has a setting of its own. */
  return false;
}

static bool is_target(const struct asked *a, const struct neap_peer *member)
{
  return (!a->to || a->to == member) && !(a->without_self && member->self);
}

/* What `target` lacks when the send ends; NULL: it has come as far as it has to. */
static const char *lacks(const struct asked *a, const struct seen *s)
{
  if (!s || (a->ack_on >= ON_COMPLETION && !s->whole && !s->risen)) return "has not got it";
  if (a->ack_on < ON_DELIVERY || s->done) return NULL;
  return s->risen ? "is not done with it" : "has not got it";
}

/* Complains if `target` has not come as far as it has to; false: it may need some time. */
static bool look(struct check_rsvp *c, const struct asked *a, struct neap_peer *target)
{
  struct neap_layer *layer = &c->layer;
  struct neap_judge *there = neap_judge_of(layer, &target->addr);
  if (!there) return true; /* It has closed since. */
  const struct seen *s =
    *seen_at((struct check_rsvp *)there->layer, &neap_self(layer)->addr, a->ticket);
  if (!a->ended) {
    c->watched++;
    const char *what = lacks(a, s);
    if (what) neap_judge_complain(layer, "send %u ended, and %s %s", a->ticket, target->name, what);
    return what || (s && s->risen);
  }
  if (there->layer->stack->paused) return false;
  if (a->ack_on == ON_COMPLETION && !(s && s->risen))
    neap_judge_complain(layer, "send %u ended, and %s still has not got what came before it",
      a->ticket, target->name);
  return a->ack_on != ON_RECEPTION || (s && s->risen);
}

/* Nobody has to remember it any longer. */
static void forget(const struct check_rsvp *c, uint32_t ticket)
{
  for (struct neap_judge *j = NULL; (j = neap_judge_next(&c->layer, j));) {
    struct seen **at = seen_at((struct check_rsvp *)j->layer, &neap_self(&c->layer)->addr, ticket);
    if (*at && (*at)->risen && (*at)->done) seen_free(at);
  }
}

/* Looks at all targets; true when nobody needs more time. */
static bool look_at_all(struct check_rsvp *c, const struct asked *a)
{
  bool all = true;
  for (uint32_t i = 0; a->view && i < a->view->count; i++) {
    struct neap_peer *member = a->view->members[i];
    if (is_target(a, member) && neap_in_view(c->layer.view, member) && !excused(a->excuses, member))
      all &= look(c, a, member);
  }
  return all;
}

static void ends(struct check_rsvp *c, const struct neap_event *event)
{
  struct asked **at = asked_at(c, event->ticket), *a = *at;
  if (!a) return; /* Not a send: what was sent before is there. */
  if (event->code >= 0) {
    c->ended++;
    a->excuses = event->found;
    if (a->excuses) a->excuses->refs++;
    if (!look_at_all(c, a)) {
      a->ended = true;
      neap_timer_sooner(&c->layer, &c->again, SOON);
      return;
    }
  }
  forget(c, a->ticket);
  asked_free(at);
}

static void look_again(struct neap_layer *layer, struct neap_timer *timer)
{
  struct check_rsvp *c = (struct check_rsvp *)layer;
  bool more = false;
  for (struct asked **at = &c->asked; *at;) {
    if (!(*at)->ended || !look_at_all(c, *at)) {
      more |= (*at)->ended;
      at = &(*at)->next;
      continue;
    }
    forget(c, (*at)->ticket);
    asked_free(at);
  }
  if (more) neap_timer_start(layer, timer, SOON);
}

static void check_rsvp_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct check_rsvp *c = (struct check_rsvp *)layer;
  bool all_neap = layer->view && neap_view_all_neap(layer->view);
  for (struct neap_msg *m = batch->first; m; m = m->next) {
    if (!m->ticket) continue;
    struct asked **at = asked_at(c, m->ticket);
    if (!*at) continue;
    if (m->to ? !m->to->generation : !all_neap) { /* The ticket could not be read there. */
      asked_free(at);
      continue;
    }
    (*at)->to = neap_peer_ref(m->to);
    (*at)->without_self = (m->marks & NEAP_NO_LOOPBACK) != 0;
    *neap_check_rsvp_head_put(m, layer) = (struct neap_check_rsvp_head){.ticket = m->ticket};
  }
  neap_pass_down(layer, batch);
}

/* ---- the receiver ---- */

static struct seen *recall(struct check_rsvp *c, const struct neap_msg *m)
{
  const struct neap_check_rsvp_head *head = neap_check_rsvp_head_get(m, &c->layer);
  return head ? *seen_at(c, &m->from->addr, head->ticket) : NULL;
}

static struct seen *remember(struct check_rsvp *c, const struct neap_msg *m)
{
  const struct neap_check_rsvp_head *head = neap_check_rsvp_head_get(m, &c->layer);
  struct seen *s = recall(c, m);
  if (s || !head) return s;
  s = calloc(1, sizeof *s);
  NEAP_ASSERT(s);
  *s = (struct seen){.next = c->seen, .from = m->from->addr, .ticket = head->ticket};
  return c->seen = s;
}

static void stored(struct check_rsvp *c, const struct neap_event *event)
{
  struct seen *s = event->fresh ? remember(c, event->msg) : recall(c, event->msg);
  if (s) s->whole |= event->flag;
}

static void check_rsvp_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct check_rsvp *c = (struct check_rsvp *)layer;
  for (struct neap_msg *m = batch->first; m; m = m->next) {
    struct seen *s = remember(c, m);
    if (!s) continue;
    s->risen = true;
    neap_done_give(layer, m, s->ticket, 0);
  }
  neap_pass_up(layer, batch);
}

static enum neap_verdict check_rsvp_event(
  struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct check_rsvp *c = (struct check_rsvp *)layer;
  if (event->kind == NEAP_EVENT_ASK && !up) {
    asks(c, event);
  } else if (event->kind == NEAP_EVENT_DONE && up) {
    ends(c, event);
  } else if (event->kind == NEAP_EVENT_STORED && up) {
    stored(c, event);
  } else if (event->kind == NEAP_EVENT_FINISHED) {
    struct seen *s = *seen_at(c, &event->peer->addr, (uint32_t)event->number);
    if (s) s->done = true;
    return NEAP_STOP;
  }
  return NEAP_PASS;
}

/* ---- life ---- */

static int check_rsvp_open(struct neap_layer *layer, struct neap_trail *trail)
{
  (void)trail;
  struct check_rsvp *c = (struct check_rsvp *)layer;
  neap_judge_open(&c->judge, layer);
  neap_timer_init_background(layer, &c->again, look_again);
  return 0;
}

static void check_rsvp_close(struct neap_layer *layer)
{
  struct check_rsvp *c = (struct check_rsvp *)layer;
  neap_judge_close(&c->judge);
  neap_timer_stop(&c->again);
  while (c->asked) asked_free(&c->asked);
  while (c->seen) seen_free(&c->seen);
}

const struct neap_class neap_check_rsvp = {
  .name = "check_rsvp",
  .doc = "Watches that a synchronous send does not return too early.",
  .needs = "rsvp view",
  .breaks = "jgroups5",
  .size = sizeof(struct check_rsvp),
  .headers = check_rsvp_headers,
  .attrs = check_rsvp_attrs,
  .open = check_rsvp_open,
  .down = check_rsvp_down,
  .up = check_rsvp_up,
  .event = check_rsvp_event,
  .close = check_rsvp_close,
};
