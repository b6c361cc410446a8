/* settings: what the whole group sets, all members set, or nobody does.
 *
 * A member asks the coordinator for a change; the coordinator asks all members of the view, each of
 * which checks it as a stack file would be and may refuse with its reason; when all have agreed it
 * is made, by one multicast with the whole table of what the group has set.  Each set of that kind
 * has an epoch.
 *
 *     bob            ann (coordinator)           cho
 *      |--- ASK ------>|                          |
 *      |<-- CHECK -----|------- CHECK ----------->|    each: could I?  what was promised so stays
 *      |--- VOTE ----->|<------ VOTE -------------|    possible until the end
 *      |<-- COMMIT ----|------- COMMIT ---------->|    each sets it, every stream switches at a
 *      |--- DONE ----->|<------ DONE -------------|    seqno of its own
 *      |<-- RESULT ----|                          |
 *
 * In each view every member tells the coordinator what it knows (HERE), and the coordinator tells
 * (TABLE) whoever knows less: a joiner, or one that missed the last words of a coordinator that
 * died.  The highest (epoch, coordinator) counts.  So within one round trip after a view all have
 * the same settings.  (protocols 4, rule 14, but tables go by unicast to those who lack them: few
 * do, and a multicast may be missed for long where it is the last one.)
 *
 * A set of one member alone stays possible; it holds until the group's settings change next.
 *
 * Invariant: a round is open only at a coordinator to whom all have told; who waits for an answer
 * has a clock that runs. */

#include "layers/settings/settings.h"

#include <stdlib.h>
#include <string.h>

static const struct neap_header settings_headers[] = {
  NEAP_HEADER_ROW("settings", NEAP_OWN_SETTINGS, NEAP_OWN_SETTINGS, neap_settings_own_head,
    "what the group sets"),
  {0},
};

#define AT(member) offsetof(struct settings, member)
static const struct neap_attr settings_attrs[] = {
  {NEAP_PARAM, "timeout", AT(timeout), "ns", NEAP_S(5), NEAP_MS(1), NEAP_S(3600), .live = NEAP_NOW,
    .doc = "How long members may take to agree, and then to follow, if the set does not say; for "
           "changes asked for from now on. Who has never said that it has this layer is taken to "
           "have none when a view is that old."},
  {NEAP_PARAM, "max_bytes", AT(max_bytes), "bytes", 1000, 64, SETTINGS_TEXT - 1, .live = NEAP_NOW,
    .doc = "All that the group has set may be so long as text, and fit into a packet; of the "
           "coordinator, from the next change on."},
  {NEAP_PARAM, "queue_max", AT(queue_max), "changes", 16, 1, SETTINGS_QUEUE, .live = NEAP_NOW,
    .doc = "So many changes may wait at the coordinator; those that wait already stay."},

  {NEAP_GAUGE, "epoch", AT(epoch), "changes", .doc = "Counts what the group has set; 0: nothing."},
  {NEAP_GAUGE, "count", AT(count), "attributes", .doc = "Set by the group."},
  {NEAP_GAUGE, "pending", AT(pending), "changes", .doc = "Asked for by this member, under way."},
  {NEAP_GAUGE, "queued", AT(queued), "changes",
    .doc = "At the coordinator: under way, or waiting for their turn."},
  {NEAP_GAUGE, "missing", AT(missing), "members",
    .doc = "At the coordinator: have not answered in the round that is open."},

  {NEAP_COUNTER, "asked", AT(asked), "changes", .doc = "Asked of this coordinator."},
  {NEAP_COUNTER, "made", AT(made), "changes", .doc = "Agreed on by all, as coordinator."},
  {NEAP_COUNTER, "refused", AT(refused), "changes",
    .doc = "That somebody refused, as coordinator."},
  {NEAP_COUNTER, "late", AT(late), "changes", .doc = "Somebody did not answer in time."},
  {NEAP_COUNTER, "aborted", AT(aborted), "changes", .doc = "The view changed before all agreed."},
  {NEAP_COUNTER, "repeated", AT(repeated), "messages",
    .doc = "Own copies for members that did not answer, as coordinator."},
  {NEAP_COUNTER, "checked", AT(checked), "changes", .doc = "Looked at, whether they could be set."},
  {NEAP_COUNTER, "adopted", AT(adopted), "tables", .doc = "Newer ones, set here."},
  {NEAP_COUNTER, "told", AT(told), "members", .doc = "Said what they know, as coordinator."},
  {NEAP_COUNTER, "unable", AT(unable), "tables",
    .doc = "Held what cannot be set here: told as trouble."},
  {NEAP_COUNTER, "stale", AT(stale), "messages", .doc = "Of another view, round or epoch."},
  {NEAP_COUNTER, "malformed", AT(malformed), "messages", .doc = "Could not be read."},
  {NEAP_END},
};

static int group(struct neap_layer *layer, const char *argument, char *out)
{
  const struct settings *s = (const struct settings *)layer;
  char name[NEAP_ADDR_TEXT];
  struct neap_text text = neap_text_of(out, NEAP_OP_TEXT);
  struct neap_peer *creator = neap_peer_find(layer->stack, &s->now.creator);
  (void)argument;
  if (!s->epoch) {
    neap_text_add(&text, "the group has set nothing");
    return 0;
  }
  neap_text_add(&text, "epoch %llu, made by the coordinator %s\n%.*s", (unsigned long long)s->epoch,
    creator ? neap_peer_text(creator, name) : neap_addr_text(&s->now.creator, name),
    (int)s->now.len, s->now.text);
  return 0;
}

static const struct neap_op settings_ops[] = {
  {.name = "group", .doc = "What the whole group has set, and its epoch.", .run = group},
  {0},
};

/* ---- messages ---- */

struct neap_settings_own_head settings_head(unsigned type, const struct table *table)
{
  return (struct neap_settings_own_head){.type = (uint8_t)type,
    .epoch = table->epoch,
    .ticket = table->ticket,
    .bits = table->undo ? NEAP_SETTINGS_UNDO : 0,
    .creator = table->creator,
    .asker = table->asker};
}

struct neap_msg *settings_message(struct settings *s, struct neap_peer *to,
  const struct neap_settings_own_head *head, struct neap_slice body)
{
  struct neap_msg *m = neap_msg_own(&s->layer, to, 0);
  struct neap_settings_own_head own = *head;
  own.view = s->layer.view->number;
  *neap_settings_own_head_put(m, &s->layer) = own;
  if (body.len) neap_msg_body(m, body.at, body.len < s->room ? body.len : s->room);
  return m;
}

void settings_send(struct settings *s, struct neap_msg *m)
{
  neap_pass_down_msg(&s->layer, m);
}

void settings_send_all(
  struct settings *s, const struct neap_settings_own_head *head, struct neap_slice body)
{
  const struct neap_view *view = s->layer.view;
  if (view->count == 1) return;
  if (!settings_foreigner(s)) {
    settings_send(s, settings_message(s, NULL, head, body));
    return;
  }
  for (uint32_t i = 0; i < view->count; i++)
    if (view->members[i]->generation && !view->members[i]->self)
      settings_send(s, settings_message(s, view->members[i], head, body));
}

struct neap_peer *settings_foreigner(const struct settings *s)
{
  const struct neap_view *view = s->layer.view;
  for (uint32_t i = 0; i < view->count; i++)
    if (!view->members[i]->generation) return view->members[i];
  return NULL;
}

/* ---- what arrives ---- */

static bool has_table(unsigned type)
{
  return type == NEAP_SETTINGS_HERE || type == NEAP_SETTINGS_CHECK ||
         type == NEAP_SETTINGS_COMMIT || type == NEAP_SETTINGS_TABLE;
}

/* Not of a kind that points into the packet. */
static bool is_member(const struct neap_addr *addr)
{
  return addr->kind == NEAP_ADDR_UUID;
}

static bool read_table(
  const struct neap_msg *m, const struct neap_settings_own_head *head, struct table *table)
{
  *table = (struct table){.epoch = head->epoch,
    .creator = head->creator,
    .asker = head->asker,
    .ticket = head->ticket,
    .undo = head->bits & NEAP_SETTINGS_UNDO,
    .len = m->len};
  if (m->len >= SETTINGS_TEXT || (m->len && memchr(m->body, 0, m->len))) return false;
  if (m->len) memcpy(table->text, m->body, m->len);
  bool set = table->epoch > 0;
  return settings_valid(table->text) && is_member(&table->creator) == set &&
         is_member(&table->asker) == set;
}

/* What only the coordinator of this view says. */
static void take_led(struct settings *s, const struct neap_msg *m,
  const struct neap_settings_own_head *head, const struct table *table)
{
  struct neap_settings_own_head done = {.type = NEAP_SETTINGS_DONE, .round = head->round};
  bool newer =
    has_table(head->type) && (settings_compare(table, &s->now) > 0 || NEAP_IS_MUTANT(653));
  bool here = head->view == s->layer.view->number;
  if (head->type == NEAP_SETTINGS_ABORT || head->type == NEAP_SETTINGS_COMMIT)
    s->over = head->round > s->over ? head->round : s->over;
  if (head->type == NEAP_SETTINGS_ABORT) {
    settings_unpromise(s);
  } else if (head->type == NEAP_SETTINGS_CHECK && newer && here && head->round > s->over) {
    settings_checked(s, m->from, head, table);
  } else if (head->type == NEAP_SETTINGS_COMMIT && newer) {
    settings_adopt(s, table);
    settings_send(s, settings_message(s, m->from, &done, (struct neap_slice){0}));
  } else if (head->type == NEAP_SETTINGS_TABLE) {
    if (newer) settings_adopt(s, table);
    if (here && head->bits & NEAP_SETTINGS_ALL_TOLD) settings_resolve(s);
  } else {
    s->stale++;
  }
}

static void take(struct settings *s, struct neap_msg *m)
{
  const struct neap_settings_own_head *head = neap_settings_own_head_get(m, &s->layer);
  const struct neap_view *view = s->layer.view;
  struct neap_slice body = {m->body, m->len};
  struct table table;
  int rank = neap_rank(view, m->from);
  if (!head->type || head->type > NEAP_SETTINGS_RESULT ||
      (has_table(head->type) && !read_table(m, head, &table)))
    s->malformed++;
  else if (rank < 0 || m->from->self)
    s->stale++;
  else if (head->type == NEAP_SETTINGS_ASK) /* Answered whoever it is meant for. */
    settings_ask(s, settings_request(s, m->from, head, body));
  else if (head->type == NEAP_SETTINGS_ABORT && s->leads)
    settings_withdrawn(s, m->from, head->ticket);
  else if (head->type == NEAP_SETTINGS_RESULT)
    settings_agreed(s, &(struct ended){head->ticket, head->code, head->epoch, body, !head->code});
  else if (head->type == NEAP_SETTINGS_VOTE)
    settings_vote(s, m->from, head, body);
  else if (head->type == NEAP_SETTINGS_DONE)
    settings_done(s, m->from, head);
  else if (head->type == NEAP_SETTINGS_HERE && s->leads && head->view == view->number)
    settings_here(s, m->from, head, &table);
  else if (head->type != NEAP_SETTINGS_HERE && rank == 0)
    take_led(s, m, head, &table);
  else
    s->stale++;
}

/* ---- life ---- */

void settings_clock(struct settings *s)
{
  uint64_t due = UINT64_MAX, now = neap_now(&s->layer);
  if (s->open) due = s->repeat_at ? s->repeat_at : s->round_due;
  if (s->open && s->round_due < due) due = s->round_due;
  if (s->promise_due && s->promise_due < due) due = s->promise_due;
  for (struct neap_link *at = s->queue.next; at != &s->queue; at = at->next) {
    const struct request *r = NEAP_HOLDER(at, struct request, link);
    if (s->open && at == s->queue.next) continue;
    if (r->due < due) due = r->due;
    if (s->untold && s->view_at + s->timeout > now && s->view_at + s->timeout < due)
      due = s->view_at + s->timeout;
  }
  for (unsigned i = 0; i < SETTINGS_MINE; i++)
    if (s->mine[i].ticket && s->mine[i].due < due) due = s->mine[i].due;
  if (due == UINT64_MAX)
    neap_timer_stop(&s->clock);
  else
    neap_timer_start(&s->layer, &s->clock, due > now ? due - now : 0);
}

static void clock_due(struct neap_layer *layer, struct neap_timer *timer)
{
  struct settings *s = NEAP_HOLDER(timer, struct settings, clock);
  if (s->promise_due && s->promise_due <= neap_now(layer)) settings_unpromise(s);
  if (s->repeat_at && s->repeat_at <= neap_now(layer)) settings_repeat(s);
  settings_mine_due(s, neap_now(layer));
  settings_round_due(s, neap_now(layer));
  settings_next(s);
  settings_clock(s);
}

static int settings_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct settings *s = (struct settings *)layer;
  uint64_t body = layer->stack->max_body;
  (void)trail;
  neap_link_init(&s->queue);
  neap_timer_init(layer, &s->clock, clock_due);
  s->room = body < SETTINGS_TEXT ? (uint32_t)body : SETTINGS_TEXT;
  return 0;
}

static void settings_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct settings *s = (struct settings *)layer;
  struct neap_batch out = {0};
  struct neap_msg *m;
  bool ours = neap_batch_has(batch, layer, 0);
  while (ours && (m = neap_take(batch))) {
    if (!neap_settings_own_head_get(m, layer)) {
      neap_put(&out, m);
      continue;
    }
    neap_pass_up(layer, &out); /* What it changes comes behind what came before. */
    take(s, m);
    neap_msg_free(m);
  }
  neap_pass_up(layer, ours ? &out : batch);
  if (ours) settings_clock(s);
}

/* The view goes first: who hears of an end must see who left. */
static void pass_view(struct neap_layer *layer, const struct neap_event *event)
{
  struct neap_event on = *event;
  neap_view_ref(on.view);
  neap_event_up(layer, &on);
}

static enum neap_verdict settings_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct settings *s = (struct settings *)layer;
  if (event->kind == NEAP_EVENT_AGREE) {
    settings_agree(s, event);
    settings_clock(s);
    return NEAP_STOP;
  }
  if (event->kind != NEAP_EVENT_VIEW || !up) return NEAP_PASS;
  pass_view(layer, event);
  settings_lead_view(s);
  settings_member_view(s);
  settings_next(s);
  settings_clock(s);
  return NEAP_STOP;
}

static void settings_close(struct neap_layer *layer)
{
  struct settings *s = (struct settings *)layer;
  neap_timer_stop(&s->clock);
  settings_unpromise(s);
  settings_lead_close(s);
}

static void settings_check(const struct neap_layer *layer)
{
  const struct settings *s = (const struct settings *)layer;
  uint64_t mine = 0, queued = 0, missing = 0, untold = 0;
  for (unsigned i = 0; i < SETTINGS_MINE; i++) mine += s->mine[i].ticket != 0;
  for (struct neap_link *at = s->queue.next; at != &s->queue; at = at->next) queued++;
  for (uint32_t i = 0; layer->view && i < layer->view->count; i++) {
    const struct peer *p = neap_peer_state_have(layer, layer->view->members[i]);
    missing += p && p->owes;
    untold += !p || !p->told;
  }
  NEAP_ASSERT(s->now.len == strlen(s->now.text) && settings_valid(s->now.text));
  NEAP_ASSERT(s->epoch == s->now.epoch && s->count == settings_count(s->now.text));
  NEAP_ASSERT(mine == s->pending && queued == s->queued && missing == s->missing);
  NEAP_ASSERT(!s->leads || untold == s->untold);
  NEAP_ASSERT(s->leads || (!queued && !s->open));
  NEAP_ASSERT(!s->open || (queued && missing && !s->untold) || s->committed);
  NEAP_ASSERT(!queued || s->open || s->untold); /* What can begin has begun. */
  NEAP_ASSERT(!(mine || queued) || s->clock.armed);
}

const struct neap_class neap_settings = {
  .name = "settings",
  .doc = "What the whole group sets, all members set, or nobody does.",
  .needs = "mcast_reliable mcast_fifo ucast_reliable ucast_fifo view",
  .gives = "settings",
  .size = sizeof(struct settings),
  .peer_size = sizeof(struct peer),
  .headers = settings_headers,
  .attrs = settings_attrs,
  .ops = settings_ops,
  .open = settings_open,
  .up = settings_up,
  .unseen = NEAP_UNSEEN_RISING_ALL | NEAP_UNSEEN_RISING_ONE | NEAP_UNSEEN_FALLING_ALL |
            NEAP_UNSEEN_FALLING_ONE,
  .event = settings_event,
  .close = settings_close,
  .check = settings_check,
};
