#include "layers/flow/flow.h"

#include "base/text.h"

#include <inttypes.h>

NEAP_ADOPT(neap_fc_head, 0);

#define AT(member) offsetof(struct neap_flow, member)
const struct neap_attr neap_flow_attrs[] = {
  {NEAP_PARAM, "max_credits", AT(max_credits), "bytes", 4000000, 1000, 1u << 30, .live = NEAP_NOW,
    .doc = "Bytes that may be sent and not be done with at a receiver. All members should have "
           "the same. Lowered, what is on its way stays on its way."},
  {NEAP_PARAM, "min_threshold", AT(min_threshold), "", 400000, 0, 900000, .type = NEAP_REAL,
    .live = NEAP_NOW,
    .doc =
      "A receiver gives credits back when a sender has no more than this share left, or half."},
  {NEAP_PARAM, "min_credits", AT(min_credits), "bytes", 0, 0, 1u << 30, .live = NEAP_NOW,
    .words = "auto=0", .doc = "The same in bytes, instead of min_threshold. auto: as that says."},
  {NEAP_PARAM, "max_block_time", AT(max_block_time), "ns", NEAP_S(5), NEAP_MS(1), NEAP_S(3600),
    .or_zero = true, .live = NEAP_TICK,
    .doc = "A send that waits so long asks the receivers for credits. 0: never, "
           "and credits that got lost stay lost."},
  {NEAP_GAUGE, "waiting", AT(waiting), "bytes",
    .doc = "Came from peers, and the application is not done with it."},
  {NEAP_COUNTER, "blocked", AT(blocked), "sends",
    .doc = "Times a send was turned away while credits were low."},
  {NEAP_COUNTER, "replenishes_sent", AT(replenishes_sent), "messages", .doc = "Credits given."},
  {NEAP_COUNTER, "replenishes_received", AT(replenishes_received), "messages",
    .doc = "Credits got."},
  {NEAP_COUNTER, "requests_sent", AT(requests_sent), "messages", .doc = "Requests for credits."},
  {NEAP_COUNTER, "requests_received", AT(requests_received), "messages",
    .doc = "Requests of peers."},
  {NEAP_COUNTER, "bad", AT(bad), "messages", .doc = "Credits without sense; dropped."},
  {NEAP_END},
};

/* ---- streams ---- */

static struct neap_stream *stream_of(struct neap_flow *f, struct neap_credit *c)
{
  return f->multicast ? &f->all : &c->stream;
}

/* Credits left of what lets the stream go up to `limit`; below 0 when one large message took more
 * than there was. */
static int64_t left_of(const struct neap_stream *s, uint64_t limit)
{
  return (int64_t)(limit - s->spent);
}

static uint64_t low_mark(const struct neap_flow *f)
{
  uint64_t low = (uint64_t)((double)f->credits * f->min_threshold);
  if (f->min_credits) low = f->min_credits;
  return low < f->credits ? low : f->credits;
}

/* Tells the gate how far the stream may go. */
static void publish(struct neap_flow *f, struct neap_stream *s, uint64_t limit)
{
  int64_t left = left_of(s, limit);
  uint64_t horizon = s->passed + (uint64_t)left;
  if (left < 0 && s->passed < (uint64_t)-left) horizon = 0;
  if (horizon == s->horizon) return;
  s->horizon = horizon;
  neap_gate_horizon(&f->layer, s->peer, horizon, UINT64_MAX);
}

/* The lowest limit of all members bounds the multicasts; with nobody else there is none. */
static void publish_all(struct neap_flow *f)
{
  const struct neap_credit *c;
  bool any = false;
  neap_each_peer (&f->layer, c) {
    if (!c->member && !NEAP_IS_MUTANT(443)) continue;
    if (!any || (int64_t)(c->limit - f->limit) < 0) f->limit = c->limit;
    any = true;
  }
  if (any) {
    publish(f, &f->all, f->limit);
  } else {
    f->all.horizon = UINT64_MAX;
    f->limit = f->all.spent + f->credits;
    neap_gate_open(&f->layer, NULL);
  }
}

static void publish_credit(struct neap_flow *f, struct neap_credit *c)
{
  if (f->multicast)
    publish_all(f);
  else if (c->member)
    publish(f, &c->stream, c->limit);
}

/* ---- credits on the wire ---- */

static void tell(struct neap_flow *f, struct neap_credit *c, unsigned type, uint64_t bytes)
{
  uint8_t number[9];
  struct neap_writer w = {number, number + sizeof number, false};
  struct neap_msg *m = neap_msg_own(&f->layer, c->peer, NEAP_OOB | NEAP_DONT_BUNDLE | NEAP_NO_FC);
  neap_write_clong(&w, bytes);
  neap_msg_body(m, number, (uint32_t)(w.at - number));
  m->type = NEAP_TYPE_LONG;
  *neap_fc_head_put(m, &f->layer) = (struct neap_fc_head){.type = (int8_t)type};
  ++*(type == NEAP_FC_REPLENISH ? &f->replenishes_sent : &f->requests_sent);
  neap_pass_down_msg(&f->layer, m);
}

/* ---- as a receiver ---- */

/* Gives back what is done with, once it is worth a message.  Half is always worth one: the gate
 * admits a message that is larger than the room when half of the credits are there, and who waits
 * for that has sent more than the other half. */
static void replenish(struct neap_flow *f, struct neap_credit *c)
{
  uint64_t enough = f->credits - low_mark(f), half = f->credits / 2;
  uint64_t behind = c->behind < f->credits ? c->behind : f->credits;
  int64_t due = (int64_t)(c->tally->bytes + behind - c->replenished);
  if (NEAP_IS_MUTANT(441)) due = (int64_t)(c->arrived - c->replenished);
  if (enough > half) enough = half;
  if (c->behind) enough /= 4; /* There is more on its way: it may not stop for the last bit. */
  if (due <= 0 || due < (int64_t)enough) return;
  c->replenished += (uint64_t)due;
  tell(f, c, NEAP_FC_REPLENISH, (uint64_t)due);
}

/* A sender lacks so much.  What waits here is given when it is done with, as ever. */
static void requested(struct neap_flow *f, struct neap_credit *c, uint64_t lacks)
{
  uint64_t waits = c->tally ? c->arrived - c->tally->bytes : 0;
  f->requests_received++;
  if (NEAP_IS_MUTANT(442)) waits = 0;
  if (lacks <= waits) return;
  if (c->tally) c->replenished = c->tally->bytes;
  tell(f, c, NEAP_FC_REPLENISH, lacks - waits);
}

/* So many bytes wait below for a message that was lost. */
static void waits_behind(struct neap_flow *f, struct neap_credit *c, uint64_t bytes)
{
  if (!c->tally) c->tally = neap_tally_new(&f->layer, c->peer);
  c->behind = NEAP_IS_MUTANT(446) ? 0 : bytes;
  if (bytes > c->behind_most) c->behind_most = bytes;
  replenish(f, c);
}

/* ---- as a sender ---- */

/* The members that hold a stream back: so much is missing that the gate may wait for it. */
static bool scarce(const struct neap_flow *f, const struct neap_stream *s, uint64_t limit)
{
  uint64_t low = low_mark(f), half = f->credits / 2;
  return left_of(s, limit) < (int64_t)(low > half ? low : half);
}

static void replenished(struct neap_flow *f, struct neap_credit *c, uint64_t bytes)
{
  struct neap_stream *s = stream_of(f, c);
  f->replenishes_received++;
  if (!c->member) return;
  uint64_t lacks = (uint64_t)((int64_t)f->credits - left_of(s, c->limit));
  c->limit += bytes < lacks || NEAP_IS_MUTANT(444) ? bytes : lacks;
  publish_credit(f, c);
  if (s->wait.armed || s->again.armed) { /* It waits for the next ones from now on. */
    neap_timer_stop(&s->again);
    if (neap_gate_wanted(&f->layer, s->peer) && f->max_block_time)
      neap_timer_start(&f->layer, &s->wait, f->max_block_time);
    else
      neap_timer_stop(&s->wait);
  }
}

static void request(struct neap_flow *f, struct neap_stream *s)
{
  struct neap_credit *c;
  neap_each_peer (&f->layer, c) {
    if (!c->member || stream_of(f, c) != s || !scarce(f, s, c->limit)) continue;
    tell(f, c, NEAP_FC_REQUEST, (uint64_t)((int64_t)f->credits - left_of(s, c->limit)));
  }
}

/* A send has waited for max_block_time.  The receivers know it from now on; asking again, in case
 * what they gave was lost too, is not worth keeping a simulation going. */
static void wait_due(struct neap_layer *layer, struct neap_timer *timer)
{
  struct neap_flow *f = (struct neap_flow *)layer;
  struct neap_stream *s = NEAP_HOLDER(timer, struct neap_stream, wait);
  if (!neap_gate_wanted(layer, s->peer)) return;
  request(f, s);
  if (f->max_block_time) neap_timer_start(layer, &s->again, f->max_block_time);
}

static void again_due(struct neap_layer *layer, struct neap_timer *timer)
{
  wait_due(layer, &NEAP_HOLDER(timer, struct neap_stream, again)->wait);
}

/* A send was turned away, perhaps because of credits. */
static void wanted(struct neap_flow *f, struct neap_stream *s, uint64_t limit)
{
  f->blocked += scarce(f, s, limit);
  if (f->max_block_time) neap_timer_start(&f->layer, &s->wait, f->max_block_time);
}

/* ---- peers ---- */

static void stream_begin(struct neap_flow *f, struct neap_stream *s, struct neap_peer *peer)
{
  s->layer = &f->layer;
  s->peer = peer;
  s->passed = neap_gate_at(&f->layer, peer).bytes;
  s->horizon = UINT64_MAX;
  neap_timer_init(&f->layer, &s->wait, wait_due);
  neap_timer_init_background(&f->layer, &s->again, again_due);
}

static void stream_end(struct neap_stream *s)
{
  neap_timer_stop(&s->wait);
  neap_timer_stop(&s->again);
}

static struct neap_credit *credit_of(struct neap_flow *f, struct neap_peer *peer)
{
  struct neap_credit *c = neap_peer_state(&f->layer, peer);
  if (c->peer) return c;
  c->peer = peer;
  if (!f->multicast) stream_begin(f, &c->stream, peer);
  return c;
}

/* A joiner has full credits, both ways; who left holds nobody back. */
static void set_member(struct neap_flow *f, struct neap_credit *c, bool member)
{
  if (c->member == member) return;
  c->member = member;
  if (member) {
    c->limit = stream_of(f, c)->spent + f->credits;
    if (c->tally) c->replenished = c->tally->bytes;
  } else if (!f->multicast) {
    stream_end(&c->stream);
    c->stream.horizon = UINT64_MAX;
    neap_gate_open(&f->layer, c->peer);
  }
  if (!f->multicast) publish_credit(f, c);
}

static void view(struct neap_flow *f)
{
  const struct neap_view *v = f->layer.view;
  struct neap_credit *c;
  for (uint32_t i = 0; i < v->count; i++)
    if (!v->members[i]->self) credit_of(f, v->members[i]);
  neap_each_peer (&f->layer, c) set_member(f, c, neap_in_view(v, c->peer));
  if (f->multicast) publish_all(f);
}

/* ---- life ---- */

int neap_flow_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct neap_flow *f = (struct neap_flow *)layer;
  (void)trail;
  f->credits = f->max_credits;
  if (f->multicast) stream_begin(f, &f->all, NULL);
  return 0;
}

static bool counts(const struct neap_msg *m)
{
  return m->len && !(m->flags & NEAP_NO_FC);
}

/* Both: where what is spent is what the gate counted, the distance to the horizon is as it was. */
static void spend_all(struct neap_flow *f, const struct neap_batch *batch)
{
  uint64_t passed = 0, spent = 0, other = 0;
  for (const struct neap_msg *m = batch->first; m; m = m->next) {
    uint64_t cost = counts(m) ? m->len : 0;
    passed += m->charge;
    spent += cost;
    other |= cost ^ m->charge;
  }
  f->all.passed += passed;
  f->all.spent += spent;
  if (other) publish_all(f);
}

static void spend_each(struct neap_flow *f, const struct neap_batch *batch)
{
  for (const struct neap_msg *m = batch->first; m; m = m->next) {
    if (m->to->self) continue;
    struct neap_credit *c = credit_of(f, m->to);
    uint64_t cost = counts(m) ? m->len : 0;
    c->stream.passed += m->charge;
    c->stream.spent += cost;
    if (cost != m->charge) publish_credit(f, c);
  }
}

void neap_flow_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct neap_flow *f = (struct neap_flow *)layer;
  if (!batch->first->to == f->multicast) {
    if (f->multicast)
      spend_all(f, batch);
    else
      spend_each(f, batch);
  }
  neap_pass_down(layer, batch);
}

static void credits_up(struct neap_flow *f, struct neap_msg *m)
{
  struct neap_credit *c = credit_of(f, m->from);
  struct neap_reader r = neap_reader_of(m->body, m->len);
  unsigned type = (unsigned)neap_fc_head_get(m, &f->layer)->type;
  uint64_t bytes = neap_read_clong(&r);
  if (m->type != NEAP_TYPE_LONG || r.fault || c->peer->self)
    f->bad++;
  else if (type == NEAP_FC_REPLENISH)
    replenished(f, c, bytes);
  else if (type == NEAP_FC_REQUEST)
    requested(f, c, bytes);
  else
    f->bad++;
  neap_msg_free(m);
}

/* Counts a run of messages from one peer, up to the first that carries credits; returns that. */
static struct neap_msg *count_up(struct neap_flow *f, struct neap_msg *m)
{
  struct neap_layer *layer = &f->layer;
  bool ours = !m->to == f->multicast && !m->from->self;
  struct neap_credit *c = ours ? credit_of(f, m->from) : NULL;
  for (; m && !neap_fc_head_get(m, layer); m = m->next) {
    if (!ours || !counts(m)) continue;
    if (!c->tally) c->tally = neap_tally_new(layer, c->peer);
    neap_tally_give(c->tally, m);
    c->arrived += m->len;
    f->waiting += m->len;
  }
  return m;
}

void neap_flow_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct neap_flow *f = (struct neap_flow *)layer;
  struct neap_batch out = {0};
  struct neap_msg *m = NULL;
  if (!batch->first->to == f->multicast || neap_batch_has(batch, layer, 0))
    m = count_up(f, batch->first);
  if (!m) { /* Nothing to take out. */
    neap_pass_up(layer, batch);
    return;
  }
  while ((m = neap_take(batch))) {
    if (neap_fc_head_get(m, layer)) {
      credits_up(f, m);
      if (batch->first) count_up(f, batch->first);
    } else {
      neap_put(&out, m);
    }
  }
  neap_pass_up(layer, &out);
}

enum neap_verdict neap_flow_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct neap_flow *f = (struct neap_flow *)layer;
  (void)up;
  if (event->kind == NEAP_EVENT_VIEW) {
    view(f);
  } else if (event->kind == NEAP_EVENT_WANTED && !event->peer == f->multicast) {
    if (f->multicast)
      wanted(f, &f->all, f->limit);
    else if (!event->peer->self && credit_of(f, event->peer)->member)
      wanted(f, &credit_of(f, event->peer)->stream, credit_of(f, event->peer)->limit);
  } else if (event->kind == NEAP_EVENT_TALLIED) {
    struct neap_credit *c = credit_of(f, event->peer);
    f->waiting -= c->tally->bytes - c->done;
    c->done = c->tally->bytes;
    replenish(f, c);
  } else if (event->kind == NEAP_EVENT_BEHIND && f->multicast) {
    waits_behind(f, credit_of(f, event->peer), event->number);
    return NEAP_STOP;
  }
  return NEAP_PASS;
}

void neap_flow_changed(struct neap_layer *layer, const struct neap_attr *attr)
{
  struct neap_flow *f = (struct neap_flow *)layer;
  struct neap_credit *c;
  uint64_t more = f->max_credits - f->credits; /* or less */
  (void)attr;
  f->credits = f->max_credits;
  neap_each_peer (layer, c) {
    if (c->member) c->limit += more;
    if (c->member && !f->multicast) publish_credit(f, c);
    if (c->tally) replenish(f, c);
  }
  if (f->multicast) publish_all(f);
}

void neap_flow_peer_gone(struct neap_layer *layer, struct neap_peer *peer, void *state)
{
  struct neap_flow *f = (struct neap_flow *)layer;
  struct neap_credit *c = state;
  (void)peer;
  if (!c->peer) return;
  stream_end(&c->stream);
  f->waiting -= c->arrived - c->done;
  if (c->tally) neap_tally_close(c->tally);
}

void neap_flow_close(struct neap_layer *layer)
{
  stream_end(&((struct neap_flow *)layer)->all);
}

void neap_flow_check(const struct neap_layer *layer)
{
  const struct neap_flow *f = (const struct neap_flow *)layer;
  const struct neap_credit *c;
  uint64_t waiting = 0;
  bool lowest = !f->multicast;
  neap_each_peer (layer, c) {
    const struct neap_stream *s = f->multicast ? &f->all : &c->stream;
    waiting += c->arrived - c->done;
    if (c->tally) NEAP_ASSERT(c->done <= c->tally->bytes);
    if (c->tally) NEAP_ASSERT(c->replenished <= c->tally->bytes + c->behind_most);
    if (!c->member) continue;
    NEAP_ASSERT(left_of(s, c->limit) <= (int64_t)f->credits);
    NEAP_ASSERT(!f->multicast || (int64_t)(c->limit - f->limit) >= 0);
    lowest |= c->limit == f->limit;
  }
  NEAP_ASSERT(waiting == f->waiting);
  NEAP_ASSERT(lowest || f->all.horizon == UINT64_MAX); /* The limit is somebody's. */
}

/* ---- for the prompt ---- */

static int show_credits(struct neap_layer *layer, const char *argument, char *out)
{
  struct neap_flow *f = (struct neap_flow *)layer;
  struct neap_text text = neap_text_of(out, NEAP_OP_TEXT);
  struct neap_credit *c;
  (void)argument;
  neap_each_peer (layer, c) {
    char name[NEAP_ADDR_TEXT];
    neap_text_add(&text, "%-12s", neap_peer_text(c->peer, name));
    if (c->member) neap_text_add(&text, "  %" PRId64 " left", left_of(stream_of(f, c), c->limit));
    if (c->tally)
      neap_text_add(&text, "  %" PRIu64 " waiting here, %" PRId64 " to give back",
        c->arrived - c->tally->bytes, (int64_t)(c->tally->bytes + c->behind - c->replenished));
    neap_text_add(&text, "\n");
  }
  return 0;
}

/* By hand: as if every receiver had given everything back. */
static int unblock(struct neap_layer *layer, const char *argument, char *out)
{
  struct neap_flow *f = (struct neap_flow *)layer;
  struct neap_credit *c;
  (void)argument;
  (void)out;
  neap_each_peer (layer, c) {
    if (!c->member) continue;
    c->limit = stream_of(f, c)->spent + f->credits;
    if (!f->multicast) publish_credit(f, c);
  }
  if (f->multicast) publish_all(f);
  return 0;
}

const struct neap_op neap_flow_ops[] = {
  {"credits", "A line per member: credits left towards it, bytes of it that wait here.",
    show_credits},
  {"unblock", "Takes full credits towards every member, unasked.", unblock},
  {0},
};
