/* gms: who is in the group.
 *
 * Members agree on a series of views: each a number and a list, the first of the list
 * (the coordinator) makes the next one.  A view travels as a reliable multicast of the
 * coordinator, goes down the stack and then up, and is acknowledged.
 *
 *   joiner          coordinator              member
 *     | JOIN_REQ ---->|                        |
 *     |               | digest, hold           |
 *     |               | VIEW ----------------->|
 *     |<-- JOIN_RSP --|                        |      view and digest
 *     | VIEW_ACK ---->|<------------ VIEW_ACK -|      all have it: the hold ends
 *
 * Suspects leave by the next view.  When the first members of a view are suspected or
 * leave, the next one acts: takeover goes by rank.  View numbers only grow, so of two
 * views the larger wins; there is no agreement beyond that, and members can be in
 * different views for a moment.  The parts that deviate from the JGroups rules say so:
 * joins hold until acknowledged (coord.c), conflicting coordinators are told (view.c),
 * the excluded come again (view.c), a lone coordinator goes where others are (join.c).
 *
 * Invariant: the view lists this member; the one that rose last is that view, unless it
 * waits for names; whoever waits for somebody has a timer. */

#include "layers/gms/gms.h"

#include <stdarg.h>
#include <stdio.h>

static const struct neap_header gms_headers[] = {
  NEAP_HEADER_ROW("gms", NEAP_P_GMS, 55, neap_gms_head, "membership"),
  NEAP_HEADER_ROW("gms", NEAP_OWN_GMS, NEAP_OWN_GMS, neap_gms_own_head,
    "epochs of a digest, numbered acks, a word to the excluded"),
  {0},
};

#define AT(member) offsetof(struct gms, member)
static const struct neap_attr gms_attrs[] = {
  {NEAP_PARAM, "join_timeout", AT(join_timeout), "ns", NEAP_S(2), NEAP_MS(1), NEAP_S(600),
    .live = NEAP_NOW,
    .doc = "How long discovery looks for a coordinator, and how long a coordinator has to answer. "
           "What runs keeps its time."},
  {NEAP_PARAM, "max_join_attempts", AT(max_join_attempts), "attempts", 10, 0, 1000000,
    .live = NEAP_NOW,
    .doc = "Attempts before it begins alone; 0: it does only when it hears nobody. Not counted "
           "while members answer and their coordinator does not: they will have another."},
  {NEAP_PARAM, "all_clients_retry_timeout", AT(retry_timeout), "ns", NEAP_MS(100), NEAP_MS(1),
    NEAP_S(600), .live = NEAP_NOW,
    .doc = "Pause before the next search when nobody that was found can be asked."},
  {NEAP_PARAM, "leave_timeout", AT(leave_timeout), "ns", NEAP_S(1), NEAP_MS(1), NEAP_S(600),
    .live = NEAP_NOW, .doc = "How long a leave waits to be heard; then it is done all the same."},
  {NEAP_PARAM, "view_ack_collection_timeout", AT(ack_timeout), "ns", NEAP_S(2), NEAP_MS(1),
    NEAP_S(600), .live = NEAP_NOW,
    .doc = "How long the next view change waits for acks of this one. Also how long a view is "
           "waited for after a coordinator was suspected, before the next member is asked for it."},
  {NEAP_PARAM, "view_ack", AT(view_ack), "", GMS_ACK_MESSAGE, .type = NEAP_CHOICE, .live = NEAP_NOW,
    .choices = "message rsvp",
    .doc = "message: a view change waits for the members' acks. rsvp: and for a synchronous send "
           "behind the view, which shows one that was lost to whoever lacks it and is repeated; "
           "not where members could not answer that. From the next view on."},
  {NEAP_PARAM, "hold_timeout", AT(hold_timeout), "ns", NEAP_S(60), NEAP_MS(100), NEAP_S(3600),
    .live = NEAP_NOW,
    .doc = "How long a join digest protects what it promised while acks are missing. Then the "
           "joiner is excluded and comes again. Longer than it takes to exclude the dead."},
  {NEAP_PARAM, "policy_timeout", AT(policy_timeout), "ns", NEAP_MS(500), NEAP_MS(1), NEAP_S(60),
    .live = NEAP_NOW,
    .doc = "How long a view change waits for the application's membership policy, if there is "
           "one; then members stand in order of age."},
  {NEAP_PARAM, "name_timeout", AT(name_timeout), "ns", NEAP_MS(200), 0, NEAP_S(60),
    .live = NEAP_NOW, .doc = "How long a view waits for the names of its members; 0: not at all."},
  {NEAP_PARAM, "lone_timeout", AT(lone_timeout), "ns", NEAP_S(10), NEAP_MS(10), NEAP_S(3600),
    .live = NEAP_NOW,
    .doc = "A coordinator alone looks for others after join_timeout, and again with pauses that "
           "double up to this."},
  {NEAP_PARAM, "max_members", AT(members_max), "members", NEAP_MEMBERS_MAX, 1, NEAP_MEMBERS_MAX,
    .live = NEAP_NOW,
    .doc = "Whoever asks this member, as coordinator, to join beyond that is refused."},
  {NEAP_PARAM, "use_delta_views", AT(delta_views), "", 1, .type = NEAP_BOOL, .live = NEAP_NOW,
    .doc = "Send only what changed, after a coordinator's first view."},
  {NEAP_PARAM, "num_prev_mbrs", AT(former_max), "members", 50, 0, GMS_FORMERS, .live = NEAP_NOW,
    .doc = "Former members remembered, to be told that they are excluded when they are heard; 0: "
           "nobody is told."},
  {NEAP_PARAM, "num_prev_views", AT(history_max), "views", 10, 0, GMS_VIEWS, .live = NEAP_NOW,
    .doc = "Views that the operation `history` shows; 0: none."},
  {NEAP_GAUGE, "view", AT(view_text), "", .type = NEAP_TEXT,
    .doc = "The view: its coordinator and its number."},
  {NEAP_GAUGE, "coordinator", AT(coordinator_text), "", .type = NEAP_TEXT,
    .doc = "Name of the first member."},
  {NEAP_GAUGE, "is_coordinator", AT(is_coordinator), "", .type = NEAP_BOOL,
    .doc = "This member is it."},
  {NEAP_GAUGE, "members", AT(members), "members", .doc = "In the view."},
  {NEAP_GAUGE, "joiners", AT(joiners_waiting), "members", .doc = "Asked to join, not in yet."},
  {NEAP_GAUGE, "holds", AT(holds_out), "digests",
    .doc = "Join digests that protect what they promised, until everybody has the view."},
  {NEAP_GAUGE, "installing", AT(collecting), "", .type = NEAP_BOOL,
    .doc = "A view of this member is not known to be everywhere; the next one waits for it."},
  {NEAP_GAUGE, "install_time", AT(install_time), "ns",
    .doc = "From sending the last view that all members had in time until that was known."},
  {NEAP_COUNTER, "installs", AT(installs), "views", .doc = "Of this member, that all had in time."},
  {NEAP_COUNTER, "views", AT(views), "views", .doc = "Installed."},
  {NEAP_COUNTER, "joins", AT(joins), "members", .doc = "Taken in by this member."},
  {NEAP_COUNTER, "leaves", AT(leaves), "members", .doc = "Let go by this member."},
  {NEAP_COUNTER, "exclusions", AT(exclusions), "members", .doc = "Put out by this member."},
  {NEAP_COUNTER, "takeovers", AT(takeovers), "views",
    .doc = "Views made by this member in place of the coordinator before."},
  {NEAP_COUNTER, "ordered", AT(ordered), "views",
    .doc = "Whose order the membership policy chose."},
  {NEAP_COUNTER, "policy_failures", AT(policy_failures), "views",
    .doc = "For which the membership policy failed, or did not answer in time."},
  {NEAP_COUNTER, "decided", AT(decided), "decisions",
    .doc = "About who is in the group; see the operation `decisions`."},
  {NEAP_COUNTER, "requests", AT(requests), "messages", .doc = "Requests to join, as coordinator."},
  {NEAP_COUNTER, "retries", AT(retries), "attempts", .doc = "To join, after the first."},
  {NEAP_COUNTER, "searches_alone", AT(searches_alone), "searches",
    .doc = "For others, as a coordinator alone."},
  {NEAP_COUNTER, "views_sent", AT(views_sent), "messages", .doc = "Multicast."},
  {NEAP_COUNTER, "deltas_sent", AT(deltas_sent), "messages", .doc = "Of these, changes only."},
  {NEAP_COUNTER, "acks", AT(acks), "messages", .doc = "Received for views of this member."},
  {NEAP_COUNTER, "acks_missing", AT(acks_missing), "members",
    .doc = "Had not acknowledged when the next change stopped waiting for it."},
  {NEAP_COUNTER, "stale", AT(stale), "views", .doc = "Received with a number not above ours."},
  {NEAP_COUNTER, "foreign", AT(foreign), "messages",
    .doc = "Views, answers and exclusions of others than our members; ignored."},
  {NEAP_COUNTER, "unknown_reference", AT(unknown_reference), "views",
    .doc = "Changes against a view that this member does not have: asked for the whole."},
  {NEAP_COUNTER, "conflicts", AT(conflicts), "views",
    .doc = "Signs of a second coordinator among our members."},
  {NEAP_COUNTER, "voids", AT(voids), "members",
    .doc = "Joiners put out because acks were missing for hold_timeout."},
  {NEAP_COUNTER, "told", AT(told), "messages", .doc = "Words to the excluded."},
  {NEAP_COUNTER, "unnamed", AT(unnamed), "members", .doc = "Shown by address: no name in time."},
  {NEAP_COUNTER, "outside", AT(outside), "messages",
    .doc = "Multicasts of members that left with a view before they could rise; dropped."},
  {NEAP_COUNTER, "early_dropped", AT(early_dropped), "messages",
    .doc = "Unreliable ones beyond 1024 that came while a view waited for names."},
  {NEAP_COUNTER, "replayed", AT(replayed), "messages",
    .doc = "Came again because a stream was set back for a state; without effect."},
  {NEAP_COUNTER, "malformed", AT(malformed), "messages", .doc = "Unreadable or senseless."},
  {NEAP_END},
};

/* ---- what all parts use ---- */

struct gms_peer *gms_peer_of(struct gms *g, struct neap_peer *peer)
{
  struct gms_peer *p = neap_peer_state(&g->layer, peer);
  if (!p->peer) {
    p->peer = peer;
    neap_link_init(&p->asks);
  }
  return p;
}

bool gms_peer_going(const struct gms *g, const struct neap_peer *peer)
{
  return gms_going(neap_peer_state_have(&g->layer, peer));
}

struct neap_peer *gms_acting(const struct gms *g)
{
  for (uint32_t i = 0; i < gms_view(g)->count; i++)
    if (!gms_peer_going(g, gms_view(g)->members[i])) return gms_view(g)->members[i];
  return NULL;
}

struct neap_msg *gms_message(
  struct gms *g, struct neap_peer *to, unsigned flags, int type, const struct neap_addr *member)
{
  struct neap_msg *m = neap_msg_own(&g->layer, to, flags);
  *neap_gms_head_put(m, &g->layer) = (struct neap_gms_head){
    .type = (int8_t)type, .member = member ? *member : (struct neap_addr){.kind = NEAP_ADDR_NONE}};
  return m;
}

void gms_send(struct gms *g, struct neap_msg *m)
{
  neap_pass_down_msg(&g->layer, m);
}

void gms_stop(struct gms *g)
{
  struct neap_timer *timers[] = {
    &g->step, &g->lone, &g->kick, &g->ack, &g->limit, &g->leave, &g->watch, &g->names};
  for (size_t i = 0; i < sizeof timers / sizeof *timers; i++) neap_timer_stop(timers[i]);
  g->lone_search = g->gathering = g->collecting = false;
  g->sync = 0;
  gms_policy_drop(g);
}

void gms_decide(struct gms *g, struct neap_peer *peer, const char *format, ...)
{
  struct neap_event event = {.kind = NEAP_EVENT_DECISION, .peer = neap_peer_ref(peer)};
  char *line = g->decisions[g->decided++ % GMS_DECISIONS], name[NEAP_ADDR_TEXT];
  va_list list;
  va_start(list, format);
  vsnprintf(event.text, sizeof event.text, format, list);
  va_end(list);
  snprintf(line, GMS_LINE, "%.31s %s", neap_peer_text(peer, name), event.text);
  neap_event_up(&g->layer, &event);
}

/* ---- suspicion ---- */

void gms_suspect(struct gms *g, struct neap_peer *peer, const char *why)
{
  if (!gms_view(g) || peer->self || !neap_in_view(gms_view(g), peer)) return;
  struct gms_peer *p = gms_peer_of(g, peer);
  if (!p->suspected) gms_decide(g, peer, "suspected: %s", why);
  p->suspected = true;
  gms_acks_check(g);
  gms_kick(g);
  gms_watch_update(g);
  gms_leave_ask(g);
}

static void unsuspect(struct gms *g, struct neap_peer *peer, const char *why)
{
  struct gms_peer *p = neap_peer_state_have(&g->layer, peer);
  if (!gms_view(g)) return;
  if (p && neap_in_view(gms_view(g), peer)) {
    if (p->suspected) gms_decide(g, peer, "not suspected any more: %s", why);
    p->suspected = false;
    gms_watch_update(g);
  } else {
    gms_unsuspected_stranger(g, peer);
  }
}

/* ---- life ---- */

static int gms_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct gms *g = (struct gms *)layer;
  (void)trail;
  neap_link_init(&g->joiners);
  g->view_text = g->view_buffer;
  g->coordinator_text = g->coordinator_buffer;
  neap_timer_init(layer, &g->step, gms_join_step);
  neap_timer_init_background(layer, &g->lone, gms_lone_step);
  neap_timer_init(layer, &g->kick, gms_change);
  neap_timer_init(layer, &g->ack, gms_acks_timeout);
  neap_timer_init_background(layer, &g->limit, gms_holds_limit);
  neap_timer_init(layer, &g->leave, gms_leave_step);
  neap_timer_init_background(layer, &g->watch, gms_watch_step);
  neap_timer_init(layer, &g->names, gms_names_step);
  neap_timer_init(layer, &g->policy_limit, gms_policy_step);
  return 0;
}

static void take(struct gms *g, struct neap_msg *m, const struct neap_gms_head *head)
{
  switch (head->type) {
  case NEAP_GMS_JOIN_REQ:
  case NEAP_GMS_JOIN_STATE:
    gms_join_req(g, m, head);
    break;
  case NEAP_GMS_JOIN_RSP:
    gms_join_rsp(g, m);
    break;
  case NEAP_GMS_LEAVE_REQ:
    gms_leave_req(g, m, head);
    break;
  case NEAP_GMS_LEAVE_RSP:
    gms_leave_rsp(g, m);
    break;
  case NEAP_GMS_VIEW:
    gms_view_msg(g, m);
    break;
  case NEAP_GMS_VIEW_ACK:
    gms_view_ack(g, m);
    break;
  case NEAP_GMS_GET_VIEW:
    gms_get_view(g, m);
    break;
  default: /* Merging, and what nobody knows. */
    g->malformed++;
  }
}

/* A multicast of somebody who left with the view that has just been installed, or of anybody while
 * there is no view: before the first, and after the last. */
static bool outside(const struct gms *g, const struct neap_msg *m)
{
  return m && !m->to && !(gms_view(g) && neap_in_view(gms_view(g), m->from));
}

static void gms_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct gms *g = (struct gms *)layer;
  struct neap_batch out = {0};
  struct neap_msg *m;
  if (!neap_batch_has(batch, layer, 0) && !neap_batch_has(batch, layer, 1) &&
      !outside(g, batch->first)) { /* Nothing of ours: it passes whole. */
    gms_rise(g, batch);
    return;
  }
  while ((m = neap_take(batch))) {
    const struct neap_gms_head *head = neap_gms_head_get(m, layer);
    const struct neap_gms_own_head *own = neap_gms_own_head_get(m, layer);
    if (!head && !own && outside(g, m)) {
      g->outside++;
      neap_msg_free(m);
      continue;
    }
    if (!head && !own) {
      neap_put(&out, m);
      continue;
    }
    gms_rise(g, &out); /* A view goes up behind what came before it. */
    if (m->marks & NEAP_REPLAYED)
      g->replayed++; /* A stream was set back: that is the application's business. */
    else if (head)
      take(g, m, head);
    else if (own->type == NEAP_GMS_EXCLUDED)
      gms_excluded(g, m, own);
    neap_msg_free(m);
  }
  gms_rise(g, &out);
}

/* The application has an order of its own, or none any more: then nobody answers. */
static void policy(struct gms *g, bool on)
{
  g->policy = on;
  if (on || !g->proposed) return;
  gms_policy_drop(g);
  gms_kick(g);
}

static enum neap_verdict gms_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct gms *g = (struct gms *)layer;
  if (event->kind == NEAP_EVENT_DIGEST_GET && event->answered) {
    gms_digest(g, event->none ? NULL : event->digest);
    return NEAP_STOP;
  }
  if (!up) {
    if (event->kind == NEAP_EVENT_CONNECT) gms_connect(g);
    if (event->kind == NEAP_EVENT_LEAVE) gms_leave(g);
    if (event->kind == NEAP_EVENT_VIEW_WANTED) gms_ask_view(g, event->peer);
    if (event->kind == NEAP_EVENT_POLICY) policy(g, event->flag);
    if (event->kind == NEAP_EVENT_SYNCED) gms_synced(g, event);
    if (event->kind == NEAP_EVENT_ORDERED) gms_policy_ordered(g, event);
    bool ours = event->kind == NEAP_EVENT_SYNCED || event->kind == NEAP_EVENT_ORDERED ||
                event->kind == NEAP_EVENT_POLICY;
    return ours ? NEAP_STOP : NEAP_PASS;
  }
  switch (event->kind) {
  case NEAP_EVENT_FOUND:
    gms_found(g, event->found);
    return NEAP_STOP;
  case NEAP_EVENT_SUSPECT:
    gms_suspect(g, event->peer, event->text);
    return NEAP_PASS;
  case NEAP_EVENT_UNSUSPECT:
    unsuspect(g, event->peer, event->text);
    return NEAP_PASS;
  case NEAP_EVENT_NAMED:
    gms_named(g);
    return NEAP_PASS;
  case NEAP_EVENT_REWOUND:
    gms_names_flush(g); /* What waits is of before. */
    return NEAP_PASS;
  default:
    return NEAP_PASS;
  }
}

static void gms_close(struct neap_layer *layer)
{
  struct gms *g = (struct gms *)layer;
  gms_stop(g);
  gms_holds_drop(g);
  neap_batch_free(&g->early);
  neap_view_unref(g->naming);
  g->naming = NULL;
  neap_peer_unref(g->asked);
  neap_peer_unref(g->heir);
  g->asked = g->heir = NULL;
  g->state = GMS_GONE;
}

static void gms_peer_gone(struct neap_layer *layer, struct neap_peer *peer, void *state)
{
  struct gms *g = (struct gms *)layer;
  struct gms_peer *p = state;
  (void)peer;
  if (!p->joining) return;
  neap_link_remove(&p->asks);
  g->joiners_waiting--;
}

/* ---- check ---- */

static void check_member(const struct gms *g)
{
  const struct neap_view *view = gms_view(g);
  const struct gms_peer *p;
  uint64_t joiners = 0;
  NEAP_ASSERT(view && neap_in_view(view, gms_self(g)) && view->number <= g->seen);
  NEAP_ASSERT(view->count == g->members);
  NEAP_ASSERT(g->is_coordinator == (view->members[0] == gms_self(g)));
  neap_each_peer (&g->layer, p) {
    if (!p->peer) continue;
    joiners += p->joining;
    NEAP_ASSERT(!p->joining || !neap_in_view(view, p->peer));
    NEAP_ASSERT(p->acked <= view->number || !neap_in_view(view, p->peer));
    NEAP_ASSERT(!p->suspected || !p->peer->self);
  }
  NEAP_ASSERT(joiners == g->joiners_waiting);
  NEAP_ASSERT(!g->collecting || (g->ack.armed && view->number > 0));
  NEAP_ASSERT(g->state != GMS_LEAVING || g->leave.armed);
}

static void gms_check(const struct neap_layer *layer)
{
  const struct gms *g = (const struct gms *)layer;
  uint64_t holds = 0, first = UINT64_MAX;
  for (unsigned i = 0; i < GMS_HOLDS; i++) {
    if (!g->holds[i].ticket) continue;
    holds++;
    NEAP_ASSERT(g->holds[i].ticket <= g->ticket);
    if (g->holds[i].until < first) first = g->holds[i].until;
  }
  NEAP_ASSERT(holds == g->holds_out);
  NEAP_ASSERT(!g->naming == !g->names.armed);
  NEAP_ASSERT((g->proposed && !g->placed) == g->policy_limit.armed);
  NEAP_ASSERT(!g->early.count || g->naming || !g->risen);
  NEAP_ASSERT(!g->naming || g->naming == gms_view(g));
  if (g->state == GMS_MEMBER || g->state == GMS_LEAVING) {
    check_member(g);
    NEAP_ASSERT(first == UINT64_MAX || g->limit.armed); /* Holds never last for ever. */
  } else if (g->state != GMS_GONE) {
    NEAP_ASSERT(!gms_view(g) && !holds && !g->risen);
    NEAP_ASSERT(g->step.armed == (g->state == GMS_PAUSE || g->state == GMS_ASKED));
  }
}

const struct neap_class neap_gms = {
  .name = "gms",
  .doc = "Members join, leave and crash; everybody who stays sees the same views.",
  .needs = "mcast_reliable ucast_reliable discovery suspicion digest",
  .hears = "rsvp(view_ack=rsvp)",
  .gives = "view",
  .size = sizeof(struct gms),
  .peer_size = sizeof(struct gms_peer),
  .peer_gone = gms_peer_gone,
  .headers = gms_headers,
  .attrs = gms_attrs,
  .ops = gms_ops,
  .open = gms_open,
  .up = gms_up,
  .unseen = NEAP_UNSEEN_RISING_ALL | NEAP_UNSEEN_RISING_ONE,
  .event = gms_event,
  .close = gms_close,
  .check = gms_check,
};
