/* view: how views come in.
 *
 * A view is taken when its number is above ours, it lists us, and both who sent it and
 * who made it are members of ours.  Everything else is one of these:
 *
 *   number not above, ours            an echo
 *   number not above, another maker   two coordinators: the sender is shown our view and makes a
 *                                     new one with a number above both
 *   without us, by our coordinator    we are excluded: come again under a new address
 *   without us, by somebody else      its members went apart: out of ours with them; if no more
 *                                     than they are left here, we come again, there
 *   changes against another view      ask for all of it
 *   from a stranger                   foreign, dropped; one that made a view with us in it, while
 *                                     we were out of its reach, is told to let us go
 *
 * Views before the first one of ours are not needed: the join digest starts before the
 * view it came with, so later ones are sent again by the reliable layer below.
 *
 * An excluded member that lives is told by the coordinator as soon as it is heard.  It
 * believes it if the view that excludes it was made by its coordinator, or by the
 * member that it would follow itself. */

#include "layers/gms/gms.h"

#include <stdarg.h>
#include <stdio.h>

/* Pauses of the watch grow up to this. */
#define WATCH_MAX NEAP_S(10)

static bool made_by(const struct neap_view *view, const struct neap_peer *peer)
{
  return neap_addr_equal(&view->creator, &peer->addr);
}

struct neap_view *gms_view_of(
  struct gms *g, const struct neap_addr *creator, uint64_t number, struct neap_slice members)
{
  struct neap_peer *peers[NEAP_MEMBERS_MAX];
  uint32_t count = 0;
  struct neap_addr addr;
  struct neap_addrs it = neap_addrs_of(members);
  while (neap_addrs_next(&it, &addr)) {
    struct neap_peer *peer =
      count < NEAP_MEMBERS_MAX ? neap_peer_intern(g->layer.stack, &addr) : NULL;
    if (!peer) return NULL;
    for (uint32_t i = 0; i < count; i++)
      if (peers[i] == peer) return NULL;
    peers[count++] = peer;
  }
  if (!count || creator->kind != NEAP_ADDR_UUID) return NULL;
  return neap_view_new(g->layer.stack, creator, number, peers, count, gms_view(g));
}

/* ---- sending ---- */

void gms_send_ack(struct gms *g, struct neap_peer *to)
{
  if (to->self) return;
  struct neap_msg *m = gms_message(g, to, NEAP_OOB | NEAP_NO_FC, NEAP_GMS_VIEW_ACK, NULL);
  if (to->generation)
    *neap_gms_own_head_put(m, &g->layer) =
      (struct neap_gms_own_head){.type = NEAP_GMS_INSTALLED, .number = gms_view(g)->number};
  gms_send(g, m);
}

void gms_send_view(struct gms *g, struct neap_peer *to)
{
  uint8_t bytes[NEAP_SLAB_BYTES / 2];
  struct neap_writer w = {bytes, bytes + sizeof bytes, false};
  neap_write_view_digest(&w, gms_view(g), NULL);
  NEAP_ASSERT(!w.full);
  struct neap_msg *m = gms_message(g, to, NEAP_OOB | NEAP_NO_FC, NEAP_GMS_VIEW, NULL);
  neap_msg_body(m, bytes, (uint32_t)(w.at - bytes));
  gms_send(g, m);
}

void gms_ask_view(struct gms *g, struct neap_peer *to)
{
  if (!gms_view(g) || to->self) return;
  uint8_t bytes[64];
  struct neap_writer w = {bytes, bytes + sizeof bytes, false};
  neap_write_u8(&w, 1);
  neap_write_view_id(&w, &gms_view(g)->creator, gms_view(g)->number);
  NEAP_ASSERT(!w.full);
  struct neap_msg *m = gms_message(g, to, NEAP_OOB | NEAP_NO_FC, NEAP_GMS_GET_VIEW, NULL);
  neap_msg_body(m, bytes, (uint32_t)(w.at - bytes));
  gms_send(g, m);
}

void gms_get_view(struct gms *g, struct neap_msg *m)
{
  struct neap_addr creator;
  struct neap_reader r = neap_reader_of(m->body, m->len);
  if (!gms_view(g)) return;
  if (neap_left(&r) && neap_read_u8(&r)) {
    neap_read_addr(&r, &creator);
    uint64_t number = neap_read_clong(&r);
    if (r.fault) g->malformed++;
    if (r.fault || neap_view_compare(gms_view(g), number, &creator) == 0) return;
  }
  gms_send_view(g, m->from);
}

/* ---- the excluded ---- */

void gms_rejoin(struct gms *g, const char *format, ...)
{
  struct neap_event event = {.kind = NEAP_EVENT_REJOIN};
  va_list list;
  if (g->state == GMS_LEAVING) { /* It wanted to go anyway. */
    gms_left(g);
    return;
  }
  va_start(list, format);
  vsnprintf(event.text, sizeof event.text, format, list);
  va_end(list);
  gms_decide(g, gms_self(g), "begins anew: %s", event.text);
  g->state = GMS_GONE;
  gms_stop(g);
  neap_event_up(&g->layer, &event);
}

void gms_tell_excluded(
  struct gms *g, struct neap_peer *peer, const struct neap_addr *creator, uint64_t number)
{
  if (!peer->generation) return; /* JGroups members find out by merging. */
  struct neap_msg *m = neap_msg_own(&g->layer, peer, NEAP_OOB | NEAP_NO_RELIABILITY);
  *neap_gms_own_head_put(m, &g->layer) =
    (struct neap_gms_own_head){.type = NEAP_GMS_EXCLUDED, .number = number, .creator = *creator};
  g->told++;
  gms_send(g, m);
}

bool gms_tell_former(struct gms *g, struct neap_peer *peer)
{
  for (uint64_t i = 0; i < g->former_max && i < g->former_count; i++) {
    const struct gms_former *former = &g->formers[(g->former_count - 1 - i) % GMS_FORMERS];
    if (!neap_addr_equal(&former->addr, &peer->addr)) continue;
    gms_tell_excluded(g, peer, &former->creator, former->number);
    return true;
  }
  return false;
}

void gms_unsuspected_stranger(struct gms *g, struct neap_peer *peer)
{
  if (g->state == GMS_MEMBER && gms_view(g)->members[0] == gms_self(g)) gms_tell_former(g, peer);
}

/* May a view of this maker and number put us out? */
static bool has_authority(const struct gms *g, const struct neap_addr *creator, uint64_t number)
{
  const struct neap_view *view = gms_view(g);
  const struct neap_peer *acting = gms_acting(g);
  if (neap_addr_equal(creator, &view->creator))
    return !made_by(view, gms_self(g)) && number > view->number;
  if (acting && acting != gms_self(g) && neap_addr_equal(creator, &acting->addr)) return true;
  return made_by(view, gms_self(g)) && neap_addr_equal(creator, &g->before_creator) &&
         number > g->before_number;
}

void gms_excluded(struct gms *g, struct neap_msg *m, const struct neap_gms_own_head *head)
{
  char name[NEAP_ADDR_TEXT];
  if (g->state == GMS_ASKED && m->from == g->asked) { /* It took us in, and we never knew. */
    gms_rejoin(g, "taken in by %s, and out", neap_peer_text(m->from, name));
    return;
  }
  if (g->state != GMS_MEMBER && g->state != GMS_LEAVING) return;
  if (!neap_in_view(gms_view(g), m->from)) {
    g->foreign++;
    return;
  }
  if (!has_authority(g, &head->creator, head->number)) {
    gms_ask_view(g, m->from); /* It may still be that most of us went on without us. */
    return;
  }
  gms_rejoin(g, "excluded, says %s", neap_peer_text(m->from, name));
}

/* A view of members of ours without us, which is not a matter of an old number. */
static void without_us(struct gms *g, const struct neap_peer *from, const struct neap_view *view)
{
  char name[NEAP_ADDR_TEXT];
  if (has_authority(g, &view->creator, view->number)) {
    gms_rejoin(g, "excluded by %s", neap_peer_text(from, name));
    return;
  }
  uint32_t there = 0, here = 0;
  for (uint32_t i = 0; i < gms_view(g)->count; i++) {
    struct neap_peer *member = gms_view(g)->members[i];
    bool went = neap_in_view(view, member);
    if (went) gms_peer_of(g, member)->apart = true;
    there += went;
    here += !gms_peer_going(g, member);
  }
  g->conflicts++;
  if (there >= here) {
    gms_rejoin(g, "%s went on without us", neap_peer_text(from, name));
    return;
  }
  gms_kick(g);
  gms_watch_update(g);
}

/* ---- judging ---- */

static void newer(
  struct gms *g, struct neap_msg *m, struct neap_view *view, struct neap_digest *digest)
{
  struct neap_peer *creator = neap_peer_find(g->layer.stack, &view->creator);
  if (!neap_in_view(view, gms_self(g))) {
    without_us(g, m->from, view);
  } else if ((creator && neap_in_view(gms_view(g), creator)) || NEAP_IS_MUTANT(503)) {
    struct neap_peer *maker = neap_peer_find(g->layer.stack, &gms_view(g)->creator);
    gms_install(g, neap_view_ref(view), digest);
    gms_send_ack(g, m->from);
    /* A policy put another first: who made the views before may hold what it promised. */
    if (maker && maker != m->from && neap_in_view(view, maker) && !NEAP_IS_MUTANT(509))
      gms_send_ack(g, maker);
  } else if (gms_is_acting(g)) { /* A member of ours follows one who is none of ours any more. */
    g->conflicts++;
    g->renumber = true;
    gms_kick(g);
  } else {
    g->foreign++;
  }
}

static void older(struct gms *g, struct neap_msg *m, struct neap_view *view)
{
  const struct neap_view *mine = gms_view(g);
  if (neap_view_compare(mine, view->number, &view->creator) == 0) return;
  g->stale++;
  if (made_by(mine, m->from)) return; /* Overtaken by its own next one. */
  /* Made since we came, whatever we have made meanwhile; or by who has to. */
  bool counts = view->number > g->first || has_authority(g, &view->creator, view->number);
  if (made_by(view, m->from) && !neap_in_view(view, gms_self(g)) && counts) {
    without_us(g, m->from, view);
  } else if (!m->to && made_by(view, m->from)) {
    g->conflicts++;
    if (!NEAP_IS_MUTANT(504)) gms_send_view(g, m->from);
  } else if (m->to && made_by(mine, gms_self(g)) && view->number == mine->number) {
    g->conflicts++;
    g->renumber = true;
    gms_kick(g);
  }
}

bool gms_is_delta(const struct neap_view *before, const struct neap_view *view)
{
  uint32_t at = 0;
  for (uint32_t i = 0; i < before->count; i++)
    if (neap_in_view(view, before->members[i]) && view->members[at++] != before->members[i])
      return NEAP_IS_MUTANT(508);
  return true; /* What joined stands behind, in its order. */
}

/* Old minus left, then joined; NULL when that is no view. */
static struct neap_view *from_delta(struct gms *g, const struct neap_delta_view_parts *parts)
{
  struct neap_peer *peers[NEAP_MEMBERS_MAX];
  const struct neap_view *mine = gms_view(g);
  struct neap_addr addr;
  uint32_t count = 0;
  for (uint32_t i = 0; i < mine->count; i++) {
    bool left = false;
    struct neap_addrs it = neap_addrs_of(parts->left);
    while (!left && neap_addrs_next(&it, &addr))
      left = neap_addr_equal(&addr, &mine->members[i]->addr);
    if (!left) peers[count++] = mine->members[i];
  }
  struct neap_addrs it = neap_addrs_of(parts->joined);
  while (neap_addrs_next(&it, &addr)) {
    struct neap_peer *peer =
      count < NEAP_MEMBERS_MAX ? neap_peer_intern(g->layer.stack, &addr) : NULL;
    if (!peer) return NULL;
    for (uint32_t i = 0; i < count; i++)
      if (peers[i] == peer) return NULL;
    peers[count++] = peer;
  }
  if (!count) return NULL;
  return neap_view_new(g->layer.stack, &parts->creator, parts->number, peers, count, mine);
}

/* The view in a message; NULL when it is unreadable, or against one that we do not have. */
static struct neap_view *read_view(
  struct gms *g, struct neap_msg *m, struct neap_view_digest *payload)
{
  struct neap_view_parts parts;
  struct neap_merge_view_parts merged;
  struct neap_delta_view_parts delta;
  struct neap_view *view = NULL;
  neap_view_digest_read((struct neap_slice){m->body, m->len}, payload); /* zeros: no view */
  if (payload->delta_view.at && neap_delta_view_parts_read(payload->delta_view, &delta)) {
    if (delta.number > gms_view(g)->number &&
        neap_view_compare(gms_view(g), delta.old_number, &delta.old_creator) != 0) {
      g->unknown_reference++;
      gms_ask_view(g, m->from);
      return NULL;
    }
    if (delta.number <= gms_view(g)->number) { /* Its members do not matter, only whose it is. */
      g->stale += neap_view_compare(gms_view(g), delta.number, &delta.creator) != 0;
      return NULL;
    }
    view = from_delta(g, &delta);
  } else if (payload->merge_view.at && neap_merge_view_parts_read(payload->merge_view, &merged)) {
    view = gms_view_of(g, &merged.creator, merged.number, merged.members);
    if (view) view->merged = true;
  } else if (payload->view.at && neap_view_parts_read(payload->view, &parts)) {
    view = gms_view_of(g, &parts.creator, parts.number, parts.members);
  }
  if (!view) g->malformed++;
  return view;
}

static struct neap_digest *read_digest(
  struct gms *g, const struct neap_view_digest *payload, const struct neap_view *view)
{
  struct neap_slice with = payload->digest, pairs = payload->pairs;
  struct neap_reader r =
    neap_reader_of(with.at ? with.at : pairs.at, with.at ? with.len : pairs.len);
  if (with.at) return neap_read_digest(&r, g->layer.stack);
  return pairs.at ? neap_read_digest_pairs(&r, view->members, view->count) : NULL;
}

/* Somebody who went apart still counts on us, and would do so for ever: it must not. */
static void let_go(struct gms *g, struct neap_msg *m)
{
  struct neap_view_digest payload;
  struct neap_view_parts parts;
  struct neap_addr addr;
  neap_view_digest_read((struct neap_slice){m->body, m->len}, &payload); /* zeros: no view */
  if (!payload.view.at || !neap_view_parts_read(payload.view, &parts)) return;
  if (!neap_addr_equal(&parts.creator, &m->from->addr)) return;
  struct neap_addrs it = neap_addrs_of(parts.members);
  while (neap_addrs_next(&it, &addr)) {
    if (!neap_addr_equal(&addr, &gms_self(g)->addr)) continue;
    gms_send(g, gms_message(g, m->from, NEAP_OOB, NEAP_GMS_LEAVE_REQ, &addr));
    return;
  }
}

void gms_view_msg(struct gms *g, struct neap_msg *m)
{
  struct neap_view_digest payload;
  if (g->state != GMS_MEMBER && g->state != GMS_LEAVING) return;
  if (!neap_in_view(gms_view(g), m->from) || m->from->self) {
    g->foreign++;
    if (!m->from->self) let_go(g, m);
    return;
  }
  struct neap_view *view = read_view(g, m, &payload);
  if (!view) return;
  if (view->number > g->seen) g->seen = view->number;
  if (view->number > gms_view(g)->number) {
    struct neap_digest *digest = read_digest(g, &payload, view);
    newer(g, m, view, digest);
    neap_digest_unref(digest);
  } else {
    older(g, m, view);
  }
  neap_view_unref(view);
}

/* ---- installing ---- */

void gms_show(struct gms *g)
{
  const struct neap_view *view = gms_view(g);
  char name[NEAP_ADDR_TEXT];
  neap_view_text(view, g->view_buffer, sizeof g->view_buffer);
  snprintf(g->coordinator_buffer, sizeof g->coordinator_buffer, "%s",
    neap_peer_text(view->members[0], name));
}

static void remember(struct gms *g, const struct neap_view *view)
{
  char *line = g->history[g->views++ % GMS_VIEWS], name[NEAP_ADDR_TEXT];
  size_t used = 0;
  gms_show(g);
  used += (size_t)snprintf(line, GMS_LINE, "%s {", g->view_buffer);
  for (uint32_t i = 0; i < view->count && used < GMS_LINE; i++)
    used += (size_t)snprintf(
      line + used, GMS_LINE - used, "%s%s", i ? " " : "", neap_peer_text(view->members[i], name));
  if (used < GMS_LINE) snprintf(line + used, GMS_LINE - used, "}");
  for (uint32_t i = 0; i < view->left_count; i++)
    g->formers[g->former_count++ % GMS_FORMERS] =
      (struct gms_former){view->left[i]->addr, view->creator, view->number};
}

/* A view that another made: acks of it may have been here before it; who comes with it says to its
 * maker only that it has it. */
static void heard_ahead(struct gms *g)
{
  const struct neap_view *view = gms_view(g);
  for (uint32_t i = 0; i < view->joined_count; i++)
    gms_peer_of(g, view->joined[i])->came = view->number;
  for (uint32_t i = 0; i < view->count; i++) {
    struct gms_peer *p = neap_peer_state_have(&g->layer, view->members[i]);
    if (!p || !p->ahead || p->ahead > view->number) continue;
    if (p->ahead > p->acked) p->acked = p->ahead;
    p->ahead = 0;
  }
}

void gms_install(struct gms *g, struct neap_view *view, struct neap_digest *digest)
{
  struct neap_view *before = gms_view(g);
  struct neap_peer *self = gms_self(g);
  NEAP_ASSERT(neap_in_view(view, self));
  NEAP_ASSERT(!before || view->number > before->number);
  if (digest) {
    struct neap_event set = {.digest = neap_digest_ref(digest),
      .kind = view->merged ? NEAP_EVENT_DIGEST_MERGE : NEAP_EVENT_DIGEST_SET};
    neap_event_down(&g->layer, &set);
  }
  gms_policy_drop(g);
  g->layer.view = view;
  g->layer.stack->gone_due = true;
  if (view->number > g->seen) g->seen = view->number;
  if (!before) g->first = view->number;
  g->members = view->count;
  g->is_coordinator = view->members[0] == self;
  if (!made_by(view, self)) {
    g->before_creator = view->creator;
    g->before_number = view->number;
    g->full_sent = g->collecting = g->renumber = false;
    g->sync = 0;
    neap_timer_stop(&g->ack);
    heard_ahead(g);
    if (!gms_is_acting(g)) gms_joiners_forget(g);
  }
  remember(g, view);
  struct neap_event event = {.kind = NEAP_EVENT_VIEW, .view = neap_view_ref(view)};
  neap_event_down(&g->layer, &event);
  gms_names_start(g, view);
  if (before) neap_view_unref(before);
  gms_acks_check(g);
  gms_lone_update(g);
  gms_watch_update(g);
  gms_kick(g);
  gms_leave_ask(g);
}

/* ---- the watch ---- */

void gms_watch_update(struct gms *g)
{
  const struct neap_view *view = gms_view(g);
  bool waits = g->state == GMS_MEMBER && !gms_is_acting(g) && gms_acting(g) != view->members[0];
  if (!waits) {
    neap_timer_stop(&g->watch);
  } else if (!g->watch.armed) {
    g->watch_pause = g->ack_timeout;
    neap_timer_start(&g->layer, &g->watch, g->watch_pause);
  }
}

void gms_watch_step(struct neap_layer *layer, struct neap_timer *timer)
{
  struct gms *g = (struct gms *)layer;
  struct neap_peer *acting = gms_acting(g);
  if (acting) gms_ask_view(g, acting);
  g->watch_pause = g->watch_pause * 2 < WATCH_MAX ? g->watch_pause * 2 : WATCH_MAX;
  neap_timer_start(layer, timer, g->watch_pause);
}
