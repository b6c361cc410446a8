/* rsvp: a send waits until its targets have it.
 *
 * Targets are the members of the view when the message is sent, or the one that it is for.  Each
 * answers when it has what was asked for:
 *
 *     reception    this message in its buffer
 *     completion   and every earlier one of the same stream
 *     delivery     and the callbacks of this one and of the earlier regular ones have returned
 *
 *     ann               bob
 *      |--- request 7 -->|  stored, handed up
 *      |                 |  callback returns
 *      |<-- response 7 --|
 *      |--- beacon 7 --->|  only if nothing came back for long
 *      |<-- response 7 --|
 *
 * A member that leaves the view is not waited for.  What is sent again meanwhile, if anything, is
 * the business of rsvp/resend.c; what was lost the layers below repair.
 *
 * It sits above the layers that put messages in order and cannot see an early one, so these tell by
 * the event STORED what is in their buffers.  Deviations from the reference: a receiver answers
 * beacons; 0 as a timeout waits for ever; an answer names the request by a number that is never
 * used again, not only by an id (towards Neap members); unicasts are waited for like multicasts.
 *
 * Whoever makes views can ask it (SYNC) to wait until all members have what was multicast so far.
 *
 * Invariant: a request waits exactly for the targets that are marked so, and a timer watches it. */

#include "layers/rsvp/rsvp.h"

static const struct neap_header rsvp_headers[] = {
  NEAP_HEADER_ROW("rsvp", NEAP_P_RSVP, 76, neap_rsvp_head, "synchronous sends"),
  NEAP_HEADER_ROW("rsvp", NEAP_OWN_RSVP, NEAP_OWN_RSVP, neap_rsvp_own_head, "ack_on, number"),
  {0},
};

#define AT(member) offsetof(struct rsvp, member)
static const struct neap_attr rsvp_attrs[] = {
  {NEAP_PARAM, "timeout", AT(timeout), "ns", NEAP_S(10), 0, NEAP_S(86400), .live = NEAP_NOW,
    .doc = "How long a synchronous send waits at most, if it does not say; for sends from now on. "
           "0: for ever."},
  {NEAP_PARAM, "ack_on", AT(ack_on), "", ON_DELIVERY, .type = NEAP_CHOICE, .live = NEAP_NOW,
    .choices = "reception completion delivery",
    .doc = "What a target has to have before the send returns, if it does not say; for sends, and "
           "answers to requests that do not say, from now on."},
  {NEAP_PARAM, "resend_interval", AT(resend_interval), "ns", NEAP_S(2), NEAP_MS(1), NEAP_S(86400),
    .or_zero = true, .live = NEAP_TIMER,
    .doc = "Pause between two beacons of a request, also of those that wait now. 0: no beacons."},
  {NEAP_PARAM, "resend", AT(resend), "", RESEND_AUTO, .type = NEAP_CHOICE, .live = NEAP_TIMER,
    .choices = "auto beacon payload off",
    .doc = "auto: beacons where receivers find losses at the tail, rarely where the sender does; "
           "beacon: always; payload: the message again, for sends from now on; off: nothing. Those "
           "that wait now follow, with beacons in place of payloads."},
  {NEAP_PARAM, "release_on_suspect", AT(release_on_suspect), "", false, .type = NEAP_BOOL,
    .live = NEAP_NOW,
    .doc = "A suspicion that comes this far is enough not to wait; from the next one on."},
  {NEAP_PARAM, "max_pending", AT(max_pending), "requests", 4096, 1, RSVP_IDS, .live = NEAP_NOW,
    .doc =
      "So many may wait at a time, also of those that nobody waits for; a send beyond it would "
      "block. Lowered, those that wait go on."},
  {NEAP_PARAM, "ids", AT(ids), "ids", RSVP_IDS, 2, RSVP_IDS,
    .doc = "How many there are before one is used again: for tests of that."},
  {NEAP_GAUGE, "pending", AT(pending), "requests", .doc = "Sends that wait right now."},
  {NEAP_GAUGE, "lingering", AT(lingering), "requests",
    .doc = "Ended; their ids are not free while a member that knows only ids could answer."},
  {NEAP_GAUGE, "owed", AT(owed), "requests", .doc = "Of others: stored here and not done with."},
  {NEAP_COUNTER, "requests", AT(sent), "requests", .doc = "Synchronous sends begun."},
  {NEAP_COUNTER, "ended", AT(done), "requests", .doc = "Synchronous sends ended, however."},
  {NEAP_COUNTER, "timeouts", AT(timeouts), "requests", .doc = "Ended because time was up."},
  {NEAP_COUNTER, "resets", AT(resets), "requests", .doc = "Ended because a connection was reset."},
  {NEAP_COUNTER, "refused", AT(refused), "requests", .doc = "Ended at once: nobody could answer."},
  {NEAP_COUNTER, "beacons_sent", AT(beacons), "messages", .doc = "Sent behind requests."},
  {NEAP_COUNTER, "payloads_sent", AT(payloads), "messages", .doc = "The same, with the payload."},
  {NEAP_COUNTER, "payloads_skipped", AT(skipped), "messages", .doc = "There was no room for it."},
  {NEAP_COUNTER, "answers_sent", AT(answered), "messages", .doc = "To others, beacons included."},
  {NEAP_COUNTER, "beacons_answered", AT(reanswered), "messages", .doc = "Requests done before."},
  {NEAP_COUNTER, "answers_received", AT(responses), "messages", .doc = "From others."},
  {NEAP_COUNTER, "asked_again", AT(again), "messages",
    .doc = "A member said that its answers may have been lost with a connection."},
  {NEAP_COUNTER, "stale", AT(stale), "messages", .doc = "Answers that nobody waited for."},
  {NEAP_END},
};

static int rsvp_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct rsvp *r = (struct rsvp *)layer;
  (void)trail;
  neap_link_init(&r->requests);
  neap_timer_init(layer, &r->tick, neap_rsvp_tick);
  neap_rsvp_publish(r);
  return 0;
}

static void rsvp_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct rsvp *r = (struct rsvp *)layer;
  for (struct neap_msg *m = batch->first; m; m = m->next)
    if (m->ticket && m->flags & NEAP_RSVP) neap_rsvp_send(r, m);
  neap_pass_down(layer, batch);
}

/* One of this layer's own words; false: it goes on up. */
static bool word(struct rsvp *r, struct neap_msg *m)
{
  const struct neap_rsvp_head *head = neap_rsvp_head_get(m, &r->layer);
  const struct neap_rsvp_own_head *own = neap_rsvp_own_head_get(m, &r->layer);
  if (!head && own) {
    neap_rsvp_again(r, m->from);
  } else if (head && head->type == NEAP_RSVP_BEACON) {
    neap_rsvp_beacon(r, m);
  } else if (head && head->type == NEAP_RSVP_RESPONSE) {
    r->responses++;
    neap_rsvp_credit(r, m->from, (uint16_t)head->id, own != NULL, own ? own->number : 0);
  } else {
    return false;
  }
  return true;
}

static void rsvp_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct rsvp *r = (struct rsvp *)layer;
  struct neap_batch out = {0};
  struct neap_msg *m;
  bool ours = neap_batch_has(batch, layer, 0) || neap_batch_has(batch, layer, 1);

  while (ours && (m = neap_take(batch))) {
    if (word(r, m)) {
      neap_msg_free(m);
      continue;
    }
    neap_rsvp_rise(r, m);
    neap_put(&out, m);
  }
  neap_pass_up(layer, ours ? &out : batch);
}

/* It goes first: who hears that a send ended must see before why it did. */
static void pass_first(struct neap_layer *layer, const struct neap_event *event)
{
  struct neap_event on = *event;
  if (on.view) neap_view_ref(on.view);
  if (on.msg) on.msg->refs++;
  neap_peer_ref(on.peer);
  neap_event_up(layer, &on);
}

static enum neap_verdict rising(struct rsvp *r, struct neap_event *event)
{
  switch (event->kind) {
  case NEAP_EVENT_STORED:
    pass_first(&r->layer, event);
    neap_rsvp_stored(r, event);
    return NEAP_STOP;
  case NEAP_EVENT_SENT: /* The request's place in the stream, which nothing here needs. */
    return NEAP_STOP;
  case NEAP_EVENT_FINISHED:
    neap_rsvp_finished(r, event);
    return NEAP_STOP;
  case NEAP_EVENT_TAIL:
    if (!event->answered) return NEAP_PASS; /* Somebody else asks. */
    neap_rsvp_tail(r, event);
    return NEAP_STOP;
  case NEAP_EVENT_SYNC:
    neap_rsvp_sync(r, event);
    return NEAP_STOP;
  case NEAP_EVENT_MODE_CHANGED:
    neap_rsvp_mode(r, event->peer);
    return NEAP_PASS;
  case NEAP_EVENT_RESET:
    neap_rsvp_reset(r, event->peer);
    return NEAP_PASS;
  case NEAP_EVENT_VIEW:
    pass_first(&r->layer, event);
    neap_rsvp_view(r);
    neap_rsvp_departed(r);
    return NEAP_STOP;
  case NEAP_EVENT_SUSPECT:
    if (r->release_on_suspect) neap_rsvp_release(r, event->peer, LEFT);
    return NEAP_PASS;
  default:
    return NEAP_PASS;
  }
}

static enum neap_verdict falling(struct rsvp *r, struct neap_event *event)
{
  switch (event->kind) {
  case NEAP_EVENT_ASK:
    neap_rsvp_ask(r, event);
    return NEAP_STOP;
  case NEAP_EVENT_FLUSH_SENT:
    neap_rsvp_flush(r, event);
    return NEAP_STOP;
  case NEAP_EVENT_DIGEST_OVERWRITE:
    if (event->flag) neap_rsvp_taking(r, true);
    return NEAP_PASS;
  case NEAP_EVENT_DIGEST_COMMIT:
  case NEAP_EVENT_DIGEST_ABORT:
    neap_rsvp_taking(r, false);
    return NEAP_PASS;
  default:
    return NEAP_PASS;
  }
}

static enum neap_verdict rsvp_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  return (up ? rising : falling)((struct rsvp *)layer, event);
}

static void rsvp_changed(struct neap_layer *layer, const struct neap_attr *attr)
{
  struct rsvp *r = (struct rsvp *)layer;
  if (attr->at == AT(resend_interval) || attr->at == AT(resend)) neap_rsvp_schedule(r);
  if (attr->at == AT(max_pending)) neap_rsvp_publish(r);
}

static void rsvp_close(struct neap_layer *layer)
{
  struct rsvp *r = (struct rsvp *)layer;
  neap_timer_stop(&r->tick);
  neap_rsvp_close(r);
}

static void rsvp_peer_gone(struct neap_layer *layer, struct neap_peer *peer, void *state)
{
  (void)peer;
  neap_rsvp_forget((struct rsvp *)layer, state);
}

static void rsvp_check(const struct neap_layer *layer)
{
  const struct rsvp *r = (const struct rsvp *)layer;
  uint64_t pending = 0, lingering = 0, owed = 0;
  for (struct neap_link *at = r->requests.next; at != &r->requests; at = at->next) {
    const struct request *q = NEAP_HOLDER(at, struct request, link);
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < q->count; i++) waiting += q->targets[i].state == WAITING;
    NEAP_ASSERT(waiting == q->waiting && (waiting || !q->flies));
    NEAP_ASSERT(q->over || !(q->deadline || q->beacon) || !q->flies || r->tick.armed);
    *(q->over ? &lingering : &pending) += 1;
  }
  const struct peer *p;
  neap_each_peer (layer, p) {
    uint32_t told = 0;
    for (struct neap_link *at = p->who ? p->owed.next : NULL; at && at != &p->owed; at = at->next) {
      told += NEAP_HOLDER(at, struct owed, link)->state == TOLD;
      owed++;
    }
    NEAP_ASSERT(told == p->told && told <= RSVP_TOLD);
  }
  NEAP_ASSERT(pending == r->pending && lingering == r->lingering && owed == r->owed);
}

const struct neap_class neap_rsvp = {
  .name = "rsvp",
  .doc = "A send waits until its targets have it.",
  .needs = "mcast_reliable ucast_reliable view",
  .gives = "rsvp",
  .size = sizeof(struct rsvp),
  .peer_size = sizeof(struct peer),
  .peer_gone = rsvp_peer_gone,
  .headers = rsvp_headers,
  .attrs = rsvp_attrs,
  .open = rsvp_open,
  .down = rsvp_down,
  .up = rsvp_up,
  .unseen = NEAP_UNSEEN_RISING_ALL | NEAP_UNSEEN_RISING_ONE,
  .event = rsvp_event,
  .changed = rsvp_changed,
  .close = rsvp_close,
  .check = rsvp_check,
};
