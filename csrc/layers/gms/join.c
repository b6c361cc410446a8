/* join: how a member comes in.
 *
 *   CONNECT -> search -> a coordinator: JOIN_REQ -> JOIN_RSP -> member
 *                     -> members, no coordinator: again, until they have one
 *                     -> only others that search: the smallest address begins, the others again
 *                     -> nobody: alone in a view of number 0
 *
 * An unanswered JOIN_REQ leads to a new search; of several coordinators the one with
 * most members is asked, then the one with the smallest address, then the next.  After
 * `max_join_attempts` a member begins alone; so does one that heard nobody.  Beginning
 * alone is never the end: until merging exists a lone coordinator searches on, with
 * growing pauses, and comes again under a new address where it finds others, or one
 * alone with a smaller address. */

#include "layers/gms/gms.h"

#include <stdio.h>

enum { JOINED = 1, COORDINATOR = 2 };

static void discover(struct gms *g, bool whole)
{
  struct neap_event event = {.kind = NEAP_EVENT_DISCOVER, .time = g->join_timeout, .flag = whole};
  neap_event_down(&g->layer, &event);
}

static void search(struct gms *g)
{
  g->state = GMS_SEARCH;
  neap_timer_stop(&g->step);
  discover(g, false);
}

void gms_connect(struct gms *g)
{
  if (g->state != GMS_IDLE) return;
  g->attempts = 1;
  search(g);
}

/* ---- the first view ---- */

static void begin_alone(struct gms *g, const char *why)
{
  struct neap_peer *self = gms_self(g);
  struct neap_digest *digest = neap_digest_new(1);
  neap_digest_add(digest, (struct neap_digest_row){.peer = self});
  g->state = GMS_MEMBER;
  neap_timer_stop(&g->step);
  gms_decide(g, self, "begins alone: %s", why);
  gms_install(g, neap_view_new(g->layer.stack, &self->addr, 0, &self, 1, NULL), digest);
  neap_digest_unref(digest);
}

/* One more attempt, unless there were enough. */
static void again(struct gms *g, uint64_t pause)
{
  if (g->max_join_attempts && g->attempts >= g->max_join_attempts) {
    begin_alone(g, "max_join_attempts came to nothing");
    return;
  }
  g->attempts++;
  g->retries++;
  g->state = GMS_PAUSE;
  neap_timer_start(&g->layer, &g->step, pause);
}

void gms_join_step(struct neap_layer *layer, struct neap_timer *timer)
{
  struct gms *g = (struct gms *)layer;
  (void)timer;
  if (g->state == GMS_PAUSE)
    search(g);
  else if (g->state == GMS_ASKED)
    again(g, 0);
}

/* ---- choosing ---- */

static bool better(const struct neap_found_row *a, const struct neap_found_row *b)
{
  if (!b || a->members != b->members) return !b || a->members > b->members;
  return neap_addr_compare(&a->peer->addr, &b->peer->addr) < 0;
}

/* The coordinator to go to; `not` is taken only when there is no other. */
static const struct neap_found_row *best(
  const struct neap_found *found, const struct neap_peer * not )
{
  const struct neap_found_row *best = NULL, *last = NULL;
  for (uint32_t i = 0; i < found->count; i++) {
    const struct neap_found_row *row = &found->rows[i];
    if (!(row->bits & COORDINATOR)) continue;
    if (row->peer == not )
      last = row;
    else if (better(row, best))
      best = row;
  }
  return best ? best : last;
}

static void ask(struct gms *g, struct neap_peer *coordinator)
{
  struct neap_msg *m = gms_message(g, coordinator, NEAP_OOB, NEAP_GMS_JOIN_REQ, &gms_self(g)->addr);
  m->type = NEAP_TYPE_BYTES;
  m->marks |= NEAP_NULL_BODY;
  neap_peer_ref(coordinator);
  if (g->asked) neap_peer_unref(g->asked);
  g->asked = coordinator;
  g->state = GMS_ASKED;
  gms_send(g, m);
  neap_timer_start(&g->layer, &g->step, g->join_timeout);
}

static void found_joining(struct gms *g, const struct neap_found *found)
{
  const struct neap_found_row *coordinator = best(found, g->asked);
  bool members = false, smallest = true;
  if (coordinator) {
    ask(g, coordinator->peer);
    return;
  }
  for (uint32_t i = 0; i < found->count; i++) {
    const struct neap_found_row *row = &found->rows[i];
    if (row->bits & JOINED)
      members = true;
    else if (neap_addr_compare(&row->peer->addr, &gms_self(g)->addr) < 0)
      smallest = false;
  }
  if (!members && smallest) {
    begin_alone(g, found->count ? "first of those who begin" : "nobody was heard");
    return;
  }
  if (members) g->attempts--; /* They will have a coordinator once they see that theirs is gone. */
  again(g, g->retry_timeout);
}

/* ---- alone ---- */

void gms_lone_update(struct gms *g)
{
  if (g->state != GMS_MEMBER || gms_view(g)->count > 1) {
    neap_timer_stop(&g->lone);
    g->lone_search = false;
    return;
  }
  if (g->lone.armed || g->lone_search) return;
  g->lone_pause = g->join_timeout;
  neap_timer_start(&g->layer, &g->lone, g->lone_pause);
}

void gms_lone_step(struct neap_layer *layer, struct neap_timer *timer)
{
  struct gms *g = (struct gms *)layer;
  (void)timer;
  g->searches_alone++;
  g->lone_search = true;
  discover(g, true); /* Not ended by the first coordinator: all of them are to be compared. */
}

/* How many members a coordinator has, if only by what else was found. */
static uint32_t weight(const struct neap_found *found, const struct neap_found_row *row)
{
  uint32_t coordinators = 0, others = 0;
  if (row->members) return row->members;
  for (uint32_t i = 0; i < found->count; i++) {
    coordinators += (found->rows[i].bits & COORDINATOR) != 0;
    others += found->rows[i].bits == JOINED;
  }
  return coordinators == 1 && others ? others + 1 : 1;
}

static void found_alone(struct gms *g, const struct neap_found *found)
{
  const struct neap_found_row *row = best(found, NULL);
  char name[NEAP_ADDR_TEXT];
  g->lone_search = false;
  if (row && !g->gathering && neap_link_alone(&g->joiners) && !NEAP_IS_MUTANT(507) &&
      (weight(found, row) > 1 || neap_addr_compare(&row->peer->addr, &gms_self(g)->addr) < 0)) {
    gms_rejoin(g, "alone, and found %s", neap_peer_text(row->peer, name));
    return;
  }
  g->lone_pause = g->lone_pause * 2 < g->lone_timeout ? g->lone_pause * 2 : g->lone_timeout;
  neap_timer_start(&g->layer, &g->lone, g->lone_pause);
}

void gms_found(struct gms *g, const struct neap_found *found)
{
  if (g->state == GMS_SEARCH)
    found_joining(g, found);
  else if (g->lone_search)
    found_alone(g, found);
}

/* ---- the answer ---- */

/* (epoch, mode) of each stream, as the giver consumed it; and what the members are called. */
static void read_own(struct gms *g, struct neap_msg *m, struct neap_digest *digest)
{
  const struct neap_gms_own_head *own = neap_gms_own_head_get(m, &g->layer);
  if (!own || own->type != NEAP_GMS_EPOCHS || own->epochs.len != digest->count * 5) return;
  struct neap_reader r = neap_reader_of(own->epochs.at, own->epochs.len);
  struct neap_reader names = neap_reader_of(own->names.at, own->names.len);
  for (uint32_t i = 0; i < digest->count; i++) {
    struct neap_digest_row *row = &digest->rows[i];
    row->epoch = neap_read_u32(&r);
    row->mode = neap_read_u8(&r);
    struct neap_slice name = neap_read_slice(&names, neap_read_u8(&names));
    if (name.len && !row->peer->name[0]) neap_peer_name(row->peer, (const char *)name.at, name.len);
  }
}

static void accepted(
  struct gms *g, struct neap_msg *m, struct neap_view *view, const struct neap_join_rsp *rsp)
{
  struct neap_reader r = neap_reader_of(rsp->pairs.at, rsp->pairs.len);
  struct neap_digest *digest = neap_read_digest_pairs(&r, view->members, view->count);
  if (!digest) {
    g->malformed++;
    neap_view_unref(view);
    return;
  }
  read_own(g, m, digest);
  struct neap_peer *creator = neap_peer_find(g->layer.stack, &view->creator);
  if (!creator) creator = m->from;
  if (g->state != GMS_LEAVING) g->state = GMS_MEMBER;
  neap_timer_stop(&g->step);
  gms_install(g, view, digest);
  neap_digest_unref(digest);
  gms_send_ack(g, creator);
}

/* Somebody counts on us who is not of our group: it must not. */
static void decline(struct gms *g, struct neap_msg *m)
{
  g->foreign++;
  gms_send(g, gms_message(g, m->from, NEAP_OOB, NEAP_GMS_LEAVE_REQ, &gms_self(g)->addr));
}

static void refused(struct gms *g, struct neap_slice why)
{
  struct neap_event event = {.kind = NEAP_EVENT_FAILED, .code = NEAP_REFUSED};
  if (gms_view(g)) return;
  snprintf(event.text, sizeof event.text, "%.*s", (int)why.len, (const char *)why.at);
  g->state = GMS_GONE;
  neap_timer_stop(&g->step);
  neap_event_up(&g->layer, &event);
}

void gms_join_rsp(struct gms *g, struct neap_msg *m)
{
  struct neap_join_rsp rsp;
  struct neap_view_parts parts;
  bool joining = g->state == GMS_SEARCH || g->state == GMS_PAUSE || g->state == GMS_ASKED;
  if (!joining && g->state != GMS_MEMBER) return;
  if (!neap_join_rsp_read((struct neap_slice){m->body, m->len}, &rsp)) {
    g->malformed++;
    return;
  }
  if (rsp.bits & NEAP_JOIN_FAILURE) {
    refused(g, rsp.failure);
    return;
  }
  if (!rsp.view.at || !rsp.pairs.at || !neap_view_parts_read(rsp.view, &parts)) {
    g->malformed++;
    return;
  }
  struct neap_view *view = gms_view_of(g, &parts.creator, parts.number, parts.members);
  if (!view || !neap_in_view(view, gms_self(g))) {
    g->malformed++;
    neap_view_unref(view);
    return;
  }
  if (joining) {
    accepted(g, m, view, &rsp);
    return;
  }
  if (!neap_in_view(gms_view(g), m->from)) {
    decline(g, m);
  } else if (view->number > gms_view(g)->number) {
    accepted(g, m, view, &rsp);
    return;
  }
  neap_view_unref(view);
}
