/* ping: who is there?  Asked of everybody at once, answered by each on its own.
 *
 *   ann  request to all  ->  bob  answer to ann: bob, joined, not coordinator, place
 *                        ->  cho  answer to ann: cho, joined, coordinator, place
 *
 * A search asks `num_discovery_runs` times within its time and ends early, `linger`
 * after the first coordinator answered.  Whoever asks tells about itself too, so two
 * that search at the same time find each other even if every answer gets lost.  Names
 * and places that pass by are kept by the peers and by the transport.  A member whose
 * place or name is missing is asked for in the same way: only it answers.
 *
 * The reference asks once.  At 20 % loss that leaves one in three unheard, who then
 * begins a group of its own; eight small packets leave one in three thousand.  Answers
 * to Neap members say how many members the answerer's view has.
 *
 * Invariant: while a search runs its timer is armed; nobody is wanted without a request
 * to come. */

#include "core/headers.h"
#include "core/layer.h"
#include "core/payload.h"

#include <stdio.h>

/* A request with the largest list of wanted members: 17 bytes each. */
enum { SCRATCH = 32768, WANTED_MAX = 800 };

static const struct neap_header ping_headers[] = {
  NEAP_HEADER_ROW("ping", NEAP_P_PING, 53, neap_ping_head, "discovery"),
  NEAP_HEADER_ROW(
    "ping", NEAP_OWN_PING, NEAP_OWN_PING, neap_ping_own_head, "more about who answers"),
  {0},
};
NEAP_ADOPT(neap_ping_head, 0);
NEAP_ADOPT(neap_ping_own_head, 1);

enum { JOINED = 1, COORDINATOR = 2 };

struct known {
  struct neap_peer *peer;
  struct neap_addr place; /* kind 0: unknown */
  uint64_t search;        /* the last in which it was found */
  uint32_t members;
  uint8_t bits;
  bool wanted, asked; /* to be asked for; asked for, NAMED follows */
};

struct ping {
  struct neap_layer layer;
  uint64_t runs, linger, wanted_max; /* params */
  bool break_on_coord;
  uint64_t requests_sent, requests_received, responses_sent, responses_received; /* counters */
  uint64_t searches, early, stopped, late, foreign, malformed;
  struct neap_addr place; /* where I am */
  uint64_t search;        /* number of the one that runs, or ran last */
  uint64_t until, pause;  /* when it ends; between two requests */
  uint64_t due;           /* when its timer should fire */
  uint64_t time;          /* how long it takes */
  bool asked;             /* it begins when I know where I am */
  bool searching, whole, leaving;
  struct neap_timer next, ask;
};

#define AT(member) offsetof(struct ping, member)
static const struct neap_attr ping_attrs[] = {
  {NEAP_PARAM, "num_discovery_runs", AT(runs), "requests", 8, 1, 100, .live = NEAP_NOW,
    .doc = "Requests per search, spread evenly over its time; the reference sends one. A search "
           "that runs keeps its pauses."},
  {NEAP_PARAM, "break_on_coord_rsp", AT(break_on_coord), "", 1, .type = NEAP_BOOL, .live = NEAP_NOW,
    .doc = "End a search early once a coordinator has answered."},
  {NEAP_PARAM, "linger", AT(linger), "ns", NEAP_MS(20), 0, NEAP_S(10), .live = NEAP_NOW,
    .doc = "How long an early end waits for others to answer as well; 0: not at all."},
  {NEAP_PARAM, "max_members_in_discovery_request", AT(wanted_max), "members", 500, 1, WANTED_MAX,
    .live = NEAP_NOW, .doc = "Members that one request may look for; the rest is asked for next."},
  {NEAP_COUNTER, "searches", AT(searches), "searches", .doc = "Begun."},
  {NEAP_COUNTER, "early", AT(early), "searches", .doc = "Ended early: a coordinator answered."},
  {NEAP_COUNTER, "stopped", AT(stopped), "searches",
    .doc = "Begun again: this member was stopped while one ran."},
  {NEAP_COUNTER, "requests_sent", AT(requests_sent), "messages", .doc = "Questions to everybody."},
  {NEAP_COUNTER, "requests_received", AT(requests_received), "messages",
    .doc = "Questions of others."},
  {NEAP_COUNTER, "responses_sent", AT(responses_sent), "messages", .doc = "Answers given."},
  {NEAP_COUNTER, "responses_received", AT(responses_received), "messages", .doc = "Answers got."},
  {NEAP_COUNTER, "late", AT(late), "messages",
    .doc = "Of these, after the search was over; names and places are learned all the same."},
  {NEAP_COUNTER, "foreign", AT(foreign), "messages", .doc = "Questions of another group; dropped."},
  {NEAP_COUNTER, "malformed", AT(malformed), "messages", .doc = "Unreadable or too long; dropped."},
  {NEAP_END},
};

/* ---- records ---- */

static uint8_t my_bits(const struct ping *p)
{
  int rank = neap_rank(p->layer.view, neap_self(&p->layer));
  return rank < 0 ? 0 : rank ? JOINED : JOINED | COORDINATOR;
}

/* A message with one record about this member, which may ask for others. */
static struct neap_msg *message(struct ping *p, struct neap_peer *to, struct neap_slice wanted)
{
  uint8_t bytes[SCRATCH];
  struct neap_writer w = {bytes, bytes + sizeof bytes, false};
  const struct neap_peer *self = neap_self(&p->layer);
  struct neap_ping_record record = {
    .member = self->addr,
    .bits = (int8_t)my_bits(p),
    .name = {(const uint8_t *)self->name, (uint32_t)strlen(self->name)},
    .place = p->place,
    .wanted = wanted,
  };
  neap_write_u32(&w, 1);
  neap_write_record(&w, &record);
  NEAP_ASSERT(!w.full);
  struct neap_msg *m = neap_msg_own(&p->layer, to, NEAP_OOB | NEAP_DONT_BUNDLE);
  neap_msg_body(m, bytes, (uint32_t)(w.at - bytes));
  return m;
}

static void send_request(struct ping *p, struct neap_slice wanted)
{
  const char *cluster = p->layer.stack->cluster;
  struct neap_msg *m = message(p, NULL, wanted);
  *neap_ping_head_put(m, &p->layer) = (struct neap_ping_head){
    .type = NEAP_PING_REQUEST,
    .cluster = {(const uint8_t *)cluster, (uint32_t)strlen(cluster)},
    .initial = !p->layer.view,
  };
  p->requests_sent++;
  neap_pass_down_msg(&p->layer, m);
}

static void send_response(struct ping *p, struct neap_peer *to)
{
  struct neap_msg *m = message(p, to, (struct neap_slice){0});
  *neap_ping_head_put(m, &p->layer) = (struct neap_ping_head){.type = NEAP_PING_RESPONSE};
  if (to->generation && p->layer.view)
    *neap_ping_own_head_put(m, &p->layer) =
      (struct neap_ping_own_head){.members = p->layer.view->count};
  p->responses_sent++;
  neap_pass_down_msg(&p->layer, m);
}

/* ---- what we know ---- */

static struct known *known_of(struct ping *p, struct neap_peer *peer)
{
  struct known *k = neap_peer_state(&p->layer, peer);
  k->peer = peer;
  return k;
}

static void tell_place(struct ping *p, const struct known *k)
{
  struct neap_event event = {
    .kind = NEAP_EVENT_PLACE, .peer = neap_peer_ref(k->peer), .place = k->place};
  neap_event_down(&p->layer, &event);
}

static void tell_named(struct ping *p, struct known *k)
{
  struct neap_event event = {.kind = NEAP_EVENT_NAMED, .peer = neap_peer_ref(k->peer)};
  k->asked = k->wanted = false;
  neap_event_up(&p->layer, &event);
}

/* What a record says; `own`: by the member itself, whose word replaces what others said. */
static struct known *learn(struct ping *p, const struct neap_ping_record *record, bool own)
{
  struct neap_peer *peer = neap_peer_intern(p->layer.stack, &record->member);
  if (!peer || peer->self) return NULL;
  struct known *k = known_of(p, peer);
  bool named = record->name.len && (own || !peer->name[0]);
  bool placed = record->place.kind == NEAP_ADDR_IP && (own || !k->place.kind);
  if (named) neap_peer_name(peer, (const char *)record->name.at, record->name.len);
  if (placed) {
    k->place = record->place;
    tell_place(p, k);
  }
  if (k->asked && (named || placed)) tell_named(p, k);
  return k;
}

/* ---- searching ---- */

static void found(struct ping *p, struct known *k, const struct neap_ping_record *record)
{
  k->bits = (uint8_t)record->bits & JOINED;
  if (record->bits & COORDINATOR) k->bits = JOINED | COORDINATOR;
  k->search = p->search;
  neap_peer_hold(&p->layer, k->peer); /* Strangers are forgotten after a while; not these, yet. */
}

static bool is_found(const struct ping *p, const struct known *k)
{
  return p->searching && k->peer && k->search == p->search;
}

static void search_end(struct ping *p)
{
  struct known *k;
  uint32_t count = 0;
  neap_each_peer (&p->layer, k) count += is_found(p, k);
  struct neap_found *list = neap_found_new(count);
  neap_each_peer (&p->layer, k) {
    if (!is_found(p, k)) continue;
    neap_found_add(
      list, (struct neap_found_row){
              .peer = k->peer, .place = k->place, .bits = k->bits, .members = k->members});
    neap_peer_release(&p->layer, k->peer);
  }
  p->searching = false;
  struct neap_event event = {.kind = NEAP_EVENT_FOUND, .found = list};
  neap_event_up(&p->layer, &event);
}

static void search_next(struct ping *p, uint64_t pause)
{
  p->due = neap_now(&p->layer) + pause;
  neap_timer_start(&p->layer, &p->next, pause);
}

static void search_on(struct neap_layer *layer, struct neap_timer *timer)
{
  struct ping *p = (struct ping *)layer;
  uint64_t now = neap_now(layer);
  (void)timer;
  if (now - p->due >= p->pause &&
      !NEAP_IS_MUTANT(521)) { /* Stopped meanwhile: the answers are still to be read. */
    p->stopped++;
    p->until = now + p->time;
  }
  if (now >= p->until) {
    search_end(p);
    return;
  }
  send_request(p, (struct neap_slice){0});
  search_next(p, p->until - now < p->pause ? p->until - now : p->pause);
}

static void search(struct ping *p)
{
  struct known *k;
  neap_each_peer (&p->layer, k) /* One that still runs is not answered any more. */
    if (is_found(p, k)) neap_peer_release(&p->layer, k->peer);
  p->searches++;
  p->search++;
  p->searching = true;
  p->until = neap_now(&p->layer) + p->time;
  p->pause = p->time / p->runs + 1;
  p->due = neap_now(&p->layer);
  p->asked = false;
  search_on(&p->layer, &p->next);
}

static void ask_place(struct ping *p)
{
  struct neap_event event = {.kind = NEAP_EVENT_SELF_PLACE};
  neap_ask_down(&p->layer, &event);
}

/* A place can change, so it is asked for each time; the search begins with the answer. */
static void discover(struct ping *p, const struct neap_event *event)
{
  p->time = event->time;
  p->asked = true;
  p->whole = event->flag; /* all of the time, whoever answers */
  ask_place(p);
}

static void search_early(struct ping *p)
{
  uint64_t end = neap_now(&p->layer) + p->linger;
  if (p->whole || !p->break_on_coord || p->until <= end) return;
  p->early++;
  p->until = end;
  search_next(p, p->linger);
}

/* ---- looking for single members ---- */

static void ask_wanted(struct neap_layer *layer, struct neap_timer *timer)
{
  struct ping *p = (struct ping *)layer;
  uint8_t bytes[SCRATCH / 2];
  struct neap_writer w = {bytes + 2, bytes + sizeof bytes, false};
  struct known *k;
  uint16_t count = 0;
  neap_each_peer (layer, k) {
    if (!k->wanted) continue;
    if (count == p->wanted_max || w.end - w.at < 2 * NEAP_ADDR_TEXT) {
      neap_timer_start(layer, timer, 0);
      break;
    }
    neap_write_addr(&w, &k->peer->addr);
    k->wanted = false;
    k->asked = true;
    count++;
  }
  if (!count) return;
  NEAP_ASSERT(!w.full);
  struct neap_writer head = {bytes, bytes + 2, false};
  neap_write_u16(&head, count);
  send_request(p, (struct neap_slice){bytes, (uint32_t)(w.at - bytes)});
}

static void locate(struct ping *p, struct neap_peer *peer)
{
  if (peer->self) return;
  struct known *k = known_of(p, peer);
  if (k->place.kind) tell_place(p, k);
  if (k->place.kind && peer->name[0]) {
    tell_named(p, k);
    return;
  }
  k->wanted = true;
  if (!p->ask.armed) neap_timer_start(&p->layer, &p->ask, 0);
}

/* ---- messages ---- */

static bool wants_me(const struct ping *p, struct neap_slice wanted)
{
  if (!wanted.at) return true;
  struct neap_addrs it = neap_addrs_of(wanted);
  struct neap_addr addr;
  while (neap_addrs_next(&it, &addr))
    if (neap_addr_equal(&addr, &neap_self(&p->layer)->addr)) return true;
  return false;
}

static void request(struct ping *p, struct neap_msg *m, const struct neap_ping_head *head,
  const struct neap_ping_record *record)
{
  const char *cluster = p->layer.stack->cluster;
  p->requests_received++;
  if (head->cluster.at && (head->cluster.len != strlen(cluster) ||
                            memcmp(head->cluster.at, cluster, head->cluster.len))) {
    p->foreign++;
    return;
  }
  bool own = neap_addr_equal(&record->member, &m->from->addr);
  struct known *k = learn(p, record, own);
  if (!k || !own || p->leaving) return;
  if (p->searching && !record->wanted.at) found(p, k, record);
  if (wants_me(p, record->wanted)) send_response(p, m->from);
}

static void response(struct ping *p, struct neap_msg *m, const struct neap_ping_record *record)
{
  bool own = neap_addr_equal(&record->member, &m->from->addr);
  struct known *k = learn(p, record, own);
  if (!k) return;
  if (!p->searching) {
    p->late++;
    return;
  }
  const struct neap_ping_own_head *more = own ? neap_ping_own_head_get(m, &p->layer) : NULL;
  if (own || k->search != p->search) found(p, k, record);
  if (more) k->members = more->members;
  if (record->bits & COORDINATOR) search_early(p);
}

static void read_message(struct ping *p, struct neap_msg *m, const struct neap_ping_head *head)
{
  struct neap_records it = neap_records_of((struct neap_slice){m->body, m->len});
  struct neap_ping_record record;
  bool asks = head->type == NEAP_PING_REQUEST, first = true;
  p->responses_received += !asks;
  while (neap_records_next(&it, &record)) {
    if (!asks)
      response(p, m, &record);
    else if (first)
      request(p, m, head, &record);
    first = false;
  }
  p->malformed += it.r.fault != NEAP_FAULT_NONE;
}

/* ---- life ---- */

static int ping_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct ping *p = (struct ping *)layer;
  (void)trail;
  p->place.kind = NEAP_ADDR_NONE;
  neap_timer_init(layer, &p->next, search_on);
  neap_timer_init(layer, &p->ask, ask_wanted);
  ask_place(p); /* answers to others need it before the first search */
  return 0;
}

static void ping_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct ping *p = (struct ping *)layer;
  struct neap_batch out = {0};
  struct neap_msg *m;
  if (!neap_batch_has(batch, layer, 0)) { /* Nothing of ours: it passes whole. */
    neap_pass_up(layer, batch);
    return;
  }
  while ((m = neap_take(batch))) {
    const struct neap_ping_head *head = neap_ping_head_get(m, layer);
    if (!head) {
      neap_put(&out, m); /* not ours: it passes */
      continue;
    }
    if (head->type == NEAP_PING_REQUEST || head->type == NEAP_PING_RESPONSE)
      read_message(p, m, head);
    else
      p->malformed++;
    neap_msg_free(m);
  }
  neap_pass_up(layer, &out);
}

static enum neap_verdict ping_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct ping *p = (struct ping *)layer;
  if (event->kind == NEAP_EVENT_SELF_PLACE && event->answered) {
    if (!event->none) p->place = event->place;
    if (p->asked) search(p);
    return NEAP_STOP;
  }
  if (event->kind == NEAP_EVENT_LOCATE) {
    locate(p, event->peer);
    return NEAP_STOP;
  }
  if (up) return NEAP_PASS;
  if (event->kind == NEAP_EVENT_DISCOVER) {
    discover(p, event);
    return NEAP_STOP;
  }
  if (event->kind == NEAP_EVENT_CONNECT) p->leaving = false;
  if (event->kind == NEAP_EVENT_LEAVE) p->leaving = true;
  return NEAP_PASS;
}

static void ping_close(struct neap_layer *layer)
{
  struct ping *p = (struct ping *)layer;
  neap_timer_stop(&p->next);
  neap_timer_stop(&p->ask);
}

static void ping_check(const struct neap_layer *layer)
{
  const struct ping *p = (const struct ping *)layer;
  const struct known *k;
  NEAP_ASSERT(p->searching == p->next.armed);
  neap_each_peer (layer, k) {
    if (!k->peer) continue;
    NEAP_ASSERT(!k->peer->self && k->search <= p->search);
    NEAP_ASSERT(!k->wanted || p->ask.armed);
    NEAP_ASSERT(!(k->bits & COORDINATOR) || k->bits & JOINED);
  }
}

/* ---- operations ---- */

static int op_known(struct neap_layer *layer, const char *argument, char *out)
{
  struct known *k;
  char who[NEAP_ADDR_TEXT], where[NEAP_ADDR_TEXT];
  size_t used = 0;
  (void)argument;
  out[0] = 0;
  neap_each_peer (layer, k) {
    if (!k->peer || used >= NEAP_OP_TEXT) continue;
    used += (size_t)snprintf(out + used, NEAP_OP_TEXT - used, "%s %s%s%s\n",
      neap_peer_text(k->peer, who), k->place.kind ? neap_addr_text(&k->place, where) : "?",
      k->bits & JOINED ? " joined" : "", k->bits & COORDINATOR ? " coordinator" : "");
  }
  return 0;
}

static const struct neap_op ping_ops[] = {
  {"known", "Whom discovery knows: name, place, and what it was when it last answered.", op_known},
  {0},
};

const struct neap_class neap_ping = {
  .name = "ping",
  .doc = "Finds members by asking everybody at once.",
  .needs = "multicast unicast",
  .gives = "discovery",
  .size = sizeof(struct ping),
  .peer_size = sizeof(struct known),
  .headers = ping_headers,
  .attrs = ping_attrs,
  .ops = ping_ops,
  .open = ping_open,
  .up = ping_up,
  .unseen = NEAP_UNSEEN_RISING_ALL | NEAP_UNSEEN_RISING_ONE,
  .event = ping_event,
  .close = ping_close,
  .check = ping_check,
};
