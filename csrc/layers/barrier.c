/* barrier: application messages wait below while somebody above needs stillness.
 *
 *   open      everything rises
 *   CLOSE     what rises from now on is held; what rose before is with the application: DRAIN goes
 *             up behind it, and comes back as DRAINED when callbacks are done with it.  Who only
 *             wants them to be between two messages has the application's backlog wait, too, until
 *             THAW: then a backlog, however long, costs no more than the callbacks at work
 *   closed    said to who asked; or, after `drain_timeout`, that it could not be
 *   OPEN      what was held rises, in order; `max_close_time` opens by itself
 *
 * Held are messages that a reliable layer numbered, so they are not applied and not reported: their
 * senders' windows fill, and beyond `hold_bytes` nothing at all is reported.  It stands above the
 * membership: views, stability and their like pass.  So do unicasts that may overtake, what is
 * flagged to skip barriers, and the unicasts of the one member that the closer names.
 *
 *     a stream is set back to D = 5 while 4 6 7 are held       4 stays, 6 7 are freed: they come
 *                                                              again, and count as new
 *
 * Deviations from the reference: it holds, where that one drops and lets the last be sent again.
 *
 * Invariant: nothing is held while it is open; `held` counts the bytes of what is held. */

#include "core/layer.h"

#include <stdio.h>

/* One member. */
struct place {
  bool seen;      /* below are its numbers */
  uint64_t fresh; /* from here on nothing of its stream has risen past this barrier */
};

struct barrier {
  struct neap_layer layer;
  /* params */
  uint64_t max_close_time, drain_timeout, hold_bytes;
  /* gauges */
  bool closed, drained;
  uint64_t held, held_count;
  /* counters */
  uint64_t closings, late, opened_itself, waited, passed, again, pushed_back;

  uint64_t number;            /* of who closed it */
  struct neap_peer *hole;     /* counted: its unicasts pass */
  struct neap_digest *digest; /* streams are being set back to it */
  struct neap_batch waiting;
  bool full;
  bool frozen; /* the application gets nothing, until this opens */
  struct neap_timer drain, limit;
};

/* Numbers of holds and of closings by hand, apart from those of other layers. */
#define PUSH ((uint64_t)1 << 43)
#define BY_HAND ((uint64_t)1 << 44)

#define AT(member) offsetof(struct barrier, member)
static const struct neap_attr barrier_attrs[] = {
  {NEAP_PARAM, "max_close_time", AT(max_close_time), "ns", NEAP_S(60), 0, NEAP_S(3600),
    .live = NEAP_NOW,
    .doc = "It opens by itself after that long; a layer that closed it gives up what it closed it "
           "for, and opens it. 0: never. What is closed keeps its time."},
  {NEAP_PARAM, "drain_timeout", AT(drain_timeout), "ns", NEAP_S(5), 0, NEAP_S(3600),
    .live = NEAP_NOW,
    .doc = "How long callbacks may take to return before a closing counts as failed, where who "
           "closes does not say. 0: as long as it takes."},
  {NEAP_PARAM, "hold_bytes", AT(hold_bytes), "bytes", 8000000, 1000, (uint64_t)1 << 40,
    .live = NEAP_NOW, .doc = "Held messages, before their senders are made to wait by silence."},
  {NEAP_GAUGE, "closed", AT(closed), "", .type = NEAP_BOOL, .doc = "It is closed."},
  {NEAP_GAUGE, "drained", AT(drained), "", .type = NEAP_BOOL,
    .doc = "It is closed, and the application is done with what rose before."},
  {NEAP_GAUGE, "held", AT(held), "bytes", .doc = "Wait until it opens."},
  {NEAP_GAUGE, "held_messages", AT(held_count), "messages", .doc = "Wait until it opens."},
  {NEAP_COUNTER, "closings", AT(closings), "times", .doc = "It was closed."},
  {NEAP_COUNTER, "late", AT(late), "times", .doc = "Callbacks had not returned in time."},
  {NEAP_COUNTER, "opened_itself", AT(opened_itself), "times", .doc = "It was closed for too long."},
  {NEAP_COUNTER, "waited", AT(waited), "messages", .doc = "Were held."},
  {NEAP_COUNTER, "passed", AT(passed), "messages", .doc = "Rose while it was closed."},
  {NEAP_COUNTER, "again", AT(again), "messages",
    .doc = "Held and freed, because their stream was set back and they came again."},
  {NEAP_COUNTER, "pushed_back", AT(pushed_back), "times", .doc = "Used up hold_bytes."},
  {NEAP_END},
};

/* ---- what is held ---- */

static bool may_pass(const struct barrier *b, const struct neap_msg *m)
{
  if (!m->receipts || m->flags & NEAP_SKIP_BARRIER) return true;
  return m->to && (neap_oob(m) || m->from == b->hole);
}

static void push_back(struct barrier *b, bool full)
{
  if (b->full == full) return;
  b->full = full;
  b->pushed_back += full;
  struct neap_event event = {.kind = full ? NEAP_EVENT_HOLD : NEAP_EVENT_RELEASE, .number = PUSH};
  neap_event_down(&b->layer, &event);
}

static void hold(struct barrier *b, struct neap_msg *m)
{
  struct place *p = m->to ? NULL : neap_peer_state(&b->layer, m->from);
  if (p && !p->seen && !(m->marks & NEAP_REPLAYED)) *p = (struct place){true, m->seqno};
  if (p && p->seen && (int64_t)(m->seqno - p->fresh) >= 0) m->marks &= (uint8_t)~NEAP_REPLAYED;
  b->held += m->len;
  b->held_count++;
  b->waited++;
  neap_put(&b->waiting, m);
}

/* The streams of the digest are set back: what is held beyond it comes again. */
static void rewound(struct barrier *b)
{
  struct neap_batch keep = {0};
  struct neap_msg *m;
  while ((m = neap_take(&b->waiting))) {
    const struct neap_digest_row *row = m->to ? NULL : neap_digest_find(b->digest, m->from);
    if (!row || (int64_t)(m->seqno - row->delivered) <= 0) {
      neap_put(&keep, m);
      continue;
    }
    b->held -= m->len;
    b->held_count--;
    b->again++;
    neap_msg_free(m);
  }
  b->waiting = keep;
  neap_digest_unref(b->digest);
  b->digest = NULL;
}

/* ---- closing and opening ---- */

static void say(struct barrier *b, int code)
{
  struct neap_event event = {.kind = NEAP_EVENT_BARRIER_CLOSED, .number = b->number, .code = code};
  neap_timer_stop(&b->drain);
  if (!(b->number & BY_HAND)) neap_event_up(&b->layer, &event);
}

static void shut(struct barrier *b, const struct neap_event *close)
{
  uint64_t time = close->time ? close->time : b->drain_timeout;
  b->number = close->number;
  b->hole = neap_peer_ref(close->peer);
  b->frozen = close->flag && !NEAP_IS_MUTANT(546);
  b->closed = true;
  b->drained = false;
  b->closings++;
  if (time) neap_timer_start(&b->layer, &b->drain, time);
  if (b->max_close_time) neap_timer_start(&b->layer, &b->limit, b->max_close_time);
  struct neap_event event = {.kind = NEAP_EVENT_DRAIN, .number = b->number, .flag = b->frozen};
  neap_event_up(&b->layer, &event);
}

static void unlock(struct barrier *b)
{
  struct neap_batch waiting = b->waiting;
  struct place *p;
  neap_each_peer (&b->layer, p) *p = (struct place){0};
  b->waiting = (struct neap_batch){0};
  b->held = b->held_count = 0;
  b->closed = b->drained = false;
  neap_timer_stop(&b->drain);
  neap_timer_stop(&b->limit);
  neap_peer_unref(b->hole);
  b->hole = NULL;
  neap_digest_unref(b->digest);
  b->digest = NULL;
  neap_pass_up(&b->layer, &waiting);
  if (b->frozen) {
    struct neap_event event = {.kind = NEAP_EVENT_THAW};
    b->frozen = false;
    neap_event_up(&b->layer, &event);
  }
  push_back(b, false);
}

static void drain_fire(struct neap_layer *layer, struct neap_timer *timer)
{
  struct barrier *b = (struct barrier *)layer;
  (void)timer;
  b->late++;
  say(b, NEAP_TIMEOUT);
}

static void limit_fire(struct neap_layer *layer, struct neap_timer *timer)
{
  struct barrier *b = (struct barrier *)layer;
  (void)timer;
  b->opened_itself++;
  if (b->number & BY_HAND) {
    neap_trouble(layer, NULL, "nobody opened it in time: it is open now");
    unlock(b);
  } else {
    say(b, NEAP_TIMEOUT); /* First it undoes what nobody above may see; then it opens. */
  }
}

/* ---- life ---- */

static int barrier_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct barrier *b = (struct barrier *)layer;
  (void)trail;
  neap_timer_init(layer, &b->drain, drain_fire);
  neap_timer_init(layer, &b->limit, limit_fire);
  return 0;
}

static void barrier_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct barrier *b = (struct barrier *)layer;
  struct neap_batch out = {0};
  struct neap_msg *m;
  if (!b->closed) {
    neap_pass_up(layer, batch);
    return;
  }
  while ((m = neap_take(batch))) {
    if (may_pass(b, m)) {
      b->passed++;
      neap_put(&out, m);
    } else {
      hold(b, m);
    }
  }
  neap_pass_up(layer, &out);
  if (b->held > b->hold_bytes) push_back(b, true);
}

static enum neap_verdict barrier_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct barrier *b = (struct barrier *)layer;
  switch (event->kind) {
  case NEAP_EVENT_BARRIER_CLOSE:
    if (up) return NEAP_PASS;
    if (b->closed) {
      event->code = NEAP_REFUSED;
      return NEAP_ANSWER;
    }
    shut(b, event);
    return NEAP_ANSWER;
  case NEAP_EVENT_BARRIER_OPEN:
    if (b->closed && event->number == b->number) unlock(b);
    return NEAP_STOP;
  case NEAP_EVENT_DRAINED:
    if (!b->closed || event->number != b->number) return NEAP_PASS;
    if (event->code >= 0) b->drained = true;
    say(b, event->code);
    return NEAP_STOP;
  case NEAP_EVENT_DIGEST_OVERWRITE:
    neap_digest_unref(b->digest);
    b->digest = b->closed && event->flag ? neap_digest_ref(event->digest) : NULL;
    return NEAP_PASS;
  case NEAP_EVENT_DIGEST_COMMIT: /* What came again is told as new from here on. */
    for (struct neap_msg *m = b->waiting.first; m; m = m->next) m->marks &= (uint8_t)~NEAP_REPLAYED;
    return NEAP_PASS;
  case NEAP_EVENT_REWOUND:
    if (b->digest) rewound(b);
    return NEAP_PASS;
  default: /* Not ours. */
    return NEAP_PASS;
  }
}

static void barrier_close(struct neap_layer *layer)
{
  struct barrier *b = (struct barrier *)layer;
  neap_timer_stop(&b->drain);
  neap_timer_stop(&b->limit);
  neap_batch_free(&b->waiting);
  neap_peer_unref(b->hole);
  neap_digest_unref(b->digest);
}

static void barrier_peer_gone(struct neap_layer *layer, struct neap_peer *peer, void *state)
{
  (void)layer;
  (void)peer;
  *(struct place *)state = (struct place){0};
}

/* ---- check ---- */

static void barrier_check(const struct neap_layer *layer)
{
  const struct barrier *b = (const struct barrier *)layer;
  uint64_t held = 0;
  for (const struct neap_msg *m = b->waiting.first; m; m = m->next) held += m->len;
  NEAP_ASSERT(held == b->held && b->held_count == b->waiting.count);
  NEAP_ASSERT(b->closed || (!b->held_count && !b->hole && !b->drained && !b->full && !b->frozen));
}

/* ---- operations ---- */

static int op_close(struct neap_layer *layer, const char *argument, char *out)
{
  struct barrier *b = (struct barrier *)layer;
  (void)argument;
  if (b->closed) {
    snprintf(out, NEAP_OP_TEXT, "it is closed already");
    return NEAP_REFUSED;
  }
  shut(b, &(struct neap_event){.number = BY_HAND | b->closings});
  return 0;
}

static int op_open(struct neap_layer *layer, const char *argument, char *out)
{
  struct barrier *b = (struct barrier *)layer;
  (void)argument;
  snprintf(out, NEAP_OP_TEXT, "%llu held", (unsigned long long)b->held_count);
  if (b->closed) unlock(b);
  return 0;
}

static const struct neap_op barrier_ops[] = {
  {"close", "Holds what rises from now on, until `open` or max_close_time.", op_close},
  {"open", "Lets it rise again; says how many messages were held.", op_open},
  {0},
};

const struct neap_class neap_barrier = {
  .name = "barrier",
  .doc = "Application messages wait, in order and unharmed, while it is closed.",
  .needs = "mcast_reliable ucast_reliable view",
  .size = sizeof(struct barrier),
  .peer_size = sizeof(struct place),
  .peer_gone = barrier_peer_gone,
  .attrs = barrier_attrs,
  .ops = barrier_ops,
  .open = barrier_open,
  .up = barrier_up,
  .event = barrier_event,
  .close = barrier_close,
  .check = barrier_check,
};
