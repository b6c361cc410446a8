/* state_transfer: a member gets the state of the group from another one, while all go on.
 *
 *   taker                     giver
 *     | ASK ------------------->|   HOLD: nothing more is reported
 *     |<--------- DIGEST D -----|   the application reads its state, D is what it contains
 *     | streams to D; what      |
 *     | rises is held           |
 *     | STORED ---------------->|   all that was ever reported here is stored: the hold ends
 *     |<--------- PART ... -----|   as fast as the taker's application takes them
 *     | TAKEN ----------------->|
 *     |<--------- END E --------|   what the state may contain
 *     | state set, held rises   |
 *
 * Of what is held, messages up to D are in the state and vanish; those up to E may be in it and are
 * marked as replayed; the others come once.  E is D when the application reads its state in one go
 * and no callback is at work.  In mode applied nothing stops anywhere else; in mode barrier both
 * sides close the barrier below while D is taken and while the state is set.  The taker's mode
 * holds.  Parts: see state_transfer/state_transfer.h.
 *
 * Deviations from the reference: messages are held, not dropped; the digest is what is applied; a
 * hold in place of the suspension of `stable`; the state comes in parts, few at a time.
 *
 * Invariant: a digest is never ahead of the state that comes with it, nor below a report. */

#include "layers/state_transfer/state_transfer.h"

static const struct neap_header state_transfer_headers[] = {
  NEAP_HEADER_ROW("state_transfer", NEAP_OWN_STATE, NEAP_OWN_STATE, neap_state_own_head,
    "state in parts, digest and promises"),
  {0},
};

#define AT(member) offsetof(struct state_transfer, member)
static const struct neap_attr state_transfer_attrs[] = {
  {NEAP_PARAM, "mode", AT(mode), "", STATE_APPLIED, STATE_APPLIED, STATE_BARRIER,
    .type = NEAP_CHOICE, .live = NEAP_NOW, .choices = "applied barrier",
    .doc = "How this member asks for a state: applied: nobody stops; barrier: both sides hold what "
           "rises for a moment (needs the layer `barrier` at both). What runs keeps its mode."},
  {NEAP_PARAM, "hold_timeout", AT(hold_timeout), "ns", NEAP_S(30), NEAP_MS(10), NEAP_S(3600),
    .live = NEAP_NOW,
    .doc = "How long a digest that was given protects what it promised while the taker has not "
           "stored it. Then it is void, and the taker starts over."},
  {NEAP_PARAM, "close_timeout", AT(close_timeout), "ns", NEAP_S(5), NEAP_MS(1), NEAP_S(3600),
    .live = NEAP_NOW,
    .doc = "Mode barrier: how long callbacks may take to return before the transfer fails."},
  {NEAP_PARAM, "hold_bytes", AT(hold_bytes), "bytes", 8000000, 1000, (uint64_t)1 << 40,
    .live = NEAP_NOW,
    .doc = "Multicasts that are held while a state is on its way, before their senders are made to "
           "wait by silence: their windows fill."},
  {NEAP_PARAM, "window", AT(window), "bytes", 256000, 1000, 4000000, .live = NEAP_NOW,
    .doc = "Bytes of a state that are sent ahead of what the taker's application has taken."},
  {NEAP_PARAM, "chunk_size", AT(chunk_size), "bytes", 16000, 100, 1000000, .live = NEAP_NOW,
    .doc = "Bytes of one part of a state."},
  {NEAP_GAUGE, "fetching", AT(fetching), "", .type = NEAP_BOOL, .doc = "A state is on its way."},
  {NEAP_GAUGE, "giving", AT(giving), "", .type = NEAP_BOOL, .doc = "A state is being given."},
  {NEAP_GAUGE, "queued", AT(queued), "members", .doc = "Asked for the state and wait."},
  {NEAP_GAUGE, "held", AT(held), "bytes", .doc = "Of multicasts that wait for the state."},
  {NEAP_GAUGE, "held_messages", AT(held_count), "messages", .doc = "That wait for the state."},
  {NEAP_COUNTER, "asked", AT(asked), "transfers", .doc = "Asked for by this member."},
  {NEAP_COUNTER, "got", AT(got), "transfers", .doc = "Ended with a state."},
  {NEAP_COUNTER, "given", AT(given), "transfers", .doc = "States sent to the end."},
  {NEAP_COUNTER, "bytes_in", AT(bytes_in), "bytes", .doc = "Of states, received."},
  {NEAP_COUNTER, "bytes_out", AT(bytes_out), "bytes", .doc = "Of states, sent."},
  {NEAP_COUNTER, "restarts", AT(restarts), "transfers",
    .doc = "Started over: the giver left or said no, or its digest was of no use."},
  {NEAP_COUNTER, "aborts", AT(aborts), "transfers",
    .doc = "Given up after the application was told of a beginning."},
  {NEAP_COUNTER, "refused", AT(refused), "requests", .doc = "Of others, with the reason."},
  {NEAP_COUNTER, "voids", AT(voids), "digests", .doc = "Given, and not stored in time."},
  {NEAP_COUNTER, "skipped", AT(skipped), "messages", .doc = "Held and found in the state."},
  {NEAP_COUNTER, "replayed", AT(replayed), "messages", .doc = "May be in the state; marked."},
  {NEAP_COUNTER, "pushed_back", AT(pushed_back), "times", .doc = "Used up hold_bytes."},
  {NEAP_COUNTER, "unfit", AT(unfit), "messages", .doc = "Of transfers that are over; dropped."},
  {NEAP_COUNTER, "malformed", AT(malformed), "messages", .doc = "Made no sense, dropped."},
  {NEAP_END},
};

/* ---- what the parts share ---- */

void state_tell(struct state_transfer *s, struct neap_event event)
{
  event.kind = NEAP_EVENT_STATE_TOLD;
  neap_event_up(&s->layer, &event);
}

/* A word of this side; who hears it in a closed barrier needs it. */
struct neap_msg *state_message(
  struct state_transfer *s, struct neap_peer *to, struct neap_state_own_head head)
{
  struct neap_msg *m = neap_msg_own(&s->layer, to, NEAP_NO_FC | NEAP_SKIP_BARRIER);
  *neap_state_own_head_put(m, &s->layer) = head;
  return m;
}

static void update(struct state_transfer *s)
{
  s->fetching = state_taking(s);
  s->giving = s->give != GIVE_NOT;
}

/* ---- life ---- */

static int state_transfer_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct state_transfer *s = (struct state_transfer *)layer;
  (void)trail;
  neap_timer_init(layer, &s->patience, state_patience_fire);
  return 0;
}

static void take(struct state_transfer *s, struct neap_msg *m)
{
  const struct neap_state_own_head head = *neap_state_own_head_get(m, &s->layer);
  if (!s->layer.view || !m->to) {
    s->malformed++;
    neap_msg_free(m);
    return;
  }
  switch ((enum neap_state_type)head.type) {
  case NEAP_STATE_DIGEST:
  case NEAP_STATE_PART:
  case NEAP_STATE_END:
  case NEAP_STATE_NO:
    state_fetch_msg(s, m, &head);
    return;
  case NEAP_STATE_ASK:
    state_request(s, m, &head);
    break;
  case NEAP_STATE_STORED:
  case NEAP_STATE_TAKEN:
  case NEAP_STATE_OVER:
    state_give_msg(s, m, &head);
    break;
  default:
    s->malformed++;
  }
  neap_msg_free(m);
}

static void state_transfer_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct state_transfer *s = (struct state_transfer *)layer;
  struct neap_batch out = {0};
  struct neap_msg *m;
  if (!neap_batch_has(batch, layer, 0)) {
    state_rise(s, batch);
    return;
  }
  while ((m = neap_take(batch))) {
    if (!neap_state_own_head_get(m, layer)) {
      neap_put(&out, m);
      continue;
    }
    if (out.first) state_rise(s, &out);
    take(s, m);
  }
  if (out.first) state_rise(s, &out);
  update(s);
}

/* Words from above. */
static void state_do(struct state_transfer *s, struct neap_event *event)
{
  if (event->number == NEAP_STATE_GET)
    state_get(s, event);
  else if (event->number == NEAP_STATE_DROP)
    state_drop(s, event->ticket);
  else if (event->number == NEAP_STATE_TOOK)
    state_took(s, event);
  else if (event->number == NEAP_STATE_SET)
    state_set(s, event->ticket);
  else
    state_give_do(s, event);
}

static void closed(struct state_transfer *s, uint64_t number, int code)
{
  if (number == (STATE_TAKER | s->number)) state_fetch_closed(s, code);
  if (number == s->give_ticket) state_give_closed(s, code);
}

static enum neap_verdict state_transfer_event(
  struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct state_transfer *s = (struct state_transfer *)layer;
  enum neap_verdict verdict = NEAP_STOP;
  switch (event->kind) {
  case NEAP_EVENT_STATE_DO:
    state_do(s, event);
    break;
  case NEAP_EVENT_VIEW:
    if (up) state_fetch_view(s);
    if (up) state_give_view(s);
    verdict = NEAP_PASS;
    break;
  case NEAP_EVENT_REWOUND:
    state_fetch_rewound(s);
    break;
  case NEAP_EVENT_DIGEST_STORED:
    state_fetch_stored(s, event->code);
    break;
  case NEAP_EVENT_BARRIER_CLOSE:
    if (event->none || event->code < 0) closed(s, event->number, NEAP_REFUSED);
    break;
  case NEAP_EVENT_BARRIER_CLOSED:
    closed(s, event->number, event->code);
    break;
  default: /* Not ours. */
    return NEAP_PASS;
  }
  update(s);
  return verdict;
}

static void state_transfer_close(struct neap_layer *layer)
{
  struct state_transfer *s = (struct state_transfer *)layer;
  neap_timer_stop(&s->patience);
  neap_batch_free(&s->parts);
  neap_batch_free(&s->waiting);
  neap_digest_unref(s->sure);
  neap_digest_unref(s->perhaps);
  neap_digest_unref(s->given_digest);
  neap_peer_unref(s->provider);
  neap_peer_unref(s->now.peer);
  for (uint64_t i = 0; i < s->queued; i++) neap_peer_unref(s->queue[i].peer);
}

static void state_transfer_peer_gone(struct neap_layer *layer, struct neap_peer *peer, void *state)
{
  (void)peer;
  state_forget((struct state_transfer *)layer, state);
  *(struct place *)state = (struct place){0};
}

static void state_transfer_check(const struct neap_layer *layer)
{
  const struct state_transfer *s = (const struct state_transfer *)layer;
  const struct place *p;
  uint64_t held = 0, places = 0;
  neap_each_peer (layer, p) places += p->known;
  for (const struct neap_msg *m = s->waiting.first; m; m = m->next) held += m->len;
  NEAP_ASSERT(places == s->places && held == s->held && s->waiting.count == s->held_count);
  NEAP_ASSERT(s->rewound || !s->held_count);
  NEAP_ASSERT(s->rewound == (s->step >= FETCH_READING));
  NEAP_ASSERT(!s->provider == !state_taking(s));
  NEAP_ASSERT(!s->sure == (s->step <= FETCH_ASKED));
  NEAP_ASSERT(!s->hold == !s->patience.armed && !s->now.peer == !s->give);
  NEAP_ASSERT(!s->hold || s->give >= GIVE_TOLD);
  NEAP_ASSERT(s->queued <= STATE_QUEUE && (s->give || !s->queued));
}

const struct neap_class neap_state_transfer = {
  .name = "state_transfer",
  .doc = "A member gets the state of the group, and nothing twice or never.",
  .needs = "mcast_reliable mcast_fifo ucast_reliable ucast_fifo digest view",
  .gives = "state",
  .breaks = "jgroups5",
  .size = sizeof(struct state_transfer),
  .peer_size = sizeof(struct place),
  .peer_gone = state_transfer_peer_gone,
  .headers = state_transfer_headers,
  .attrs = state_transfer_attrs,
  .open = state_transfer_open,
  .up = state_transfer_up,
  .unseen = NEAP_UNSEEN_FALLING_ALL | NEAP_UNSEEN_FALLING_ONE,
  .event = state_transfer_event,
  .close = state_transfer_close,
  .check = state_transfer_check,
};
