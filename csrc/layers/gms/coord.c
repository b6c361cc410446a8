/* coord: how views are made.
 *
 * What waits (joiners, leavers, suspects) is worked off in one view change, by the
 * first member that is not on its way out itself.  One change at a time:
 *
 *   kick    next turn: everything that came in this one counts
 *   order   only with a membership policy: what it says (policy.c)
 *   gather  only for joiners: HOLD, then the digest of what everybody has applied
 *   commit  LEAVE_RSP to leavers; view installed here, then multicast; JOIN_RSP to joiners
 *   acks    of all members, or `view_ack_collection_timeout`; then the next change, and the view
 *           once more to those that are missing.  With view_ack = rsvp also the end of a
 *           synchronous send behind the view, which shows a lost one to whoever lacks it
 *
 * The hold of a join digest ends when every member has that view or a later one.  If
 * that takes longer than `hold_timeout` the digest is void: its joiners are excluded
 * and have to come again.  A joiner whose answer got lost is given the same digest again,
 * since others count on it from that view on; by another coordinator it cannot be, and it
 * has to come again, too. */

#include "layers/gms/gms.h"

/* A view of NEAP_MEMBERS_MAX members with digest, epochs and names: below 60 kB. */
enum { SCRATCH = NEAP_SLAB_BYTES, NAMES_MAX = 16384 };

/* The view of a hold whose view is not made yet. */
#define PENDING UINT64_MAX

/* Until the digest lacks nobody. */
#define DIGEST_RETRY NEAP_MS(100)

/* ---- holds ---- */

static void hold_event(struct gms *g, unsigned kind, uint64_t ticket, struct neap_digest *digest)
{
  struct neap_event event = {
    .kind = (uint8_t)kind, .number = ticket, .digest = neap_digest_ref(digest)};
  neap_event_down(&g->layer, &event);
}

static struct gms_hold *hold_find(struct gms *g, uint64_t ticket)
{
  for (unsigned i = 0; i < GMS_HOLDS; i++)
    if (g->holds[i].ticket == ticket) return &g->holds[i];
  return NULL;
}

static void hold_end(struct gms *g, struct gms_hold *hold)
{
  hold_event(g, NEAP_EVENT_RELEASE, hold->ticket, NULL);
  if (hold->digest) neap_digest_unref(hold->digest);
  *hold = (struct gms_hold){0};
  g->holds_out--;
}

void gms_holds_drop(struct gms *g)
{
  for (unsigned i = 0; i < GMS_HOLDS; i++) {
    if (g->holds[i].digest) neap_digest_unref(g->holds[i].digest);
    g->holds[i].digest = NULL;
  }
}

/* Its join digest does not hold, or is not known any more: it has to come again. */
static void void_digest(struct gms *g, struct gms_peer *p)
{
  p->voided = true;
  g->voids++;
  gms_decide(g, p->peer, "void: its digest is not kept any more");
}

static void limit_update(struct gms *g)
{
  uint64_t first = UINT64_MAX, now = neap_now(&g->layer);
  for (unsigned i = 0; i < GMS_HOLDS; i++)
    if (g->holds[i].ticket && g->holds[i].until < first) first = g->holds[i].until;
  if (first == UINT64_MAX)
    neap_timer_stop(&g->limit);
  else
    neap_timer_start(&g->layer, &g->limit, first > now ? first - now : 0);
}

void gms_holds_limit(struct neap_layer *layer, struct neap_timer *timer)
{
  struct gms *g = (struct gms *)layer;
  (void)timer;
  for (unsigned i = 0; i < GMS_HOLDS; i++) {
    struct gms_hold *hold = &g->holds[i];
    struct gms_peer *p;
    if (!hold->ticket || hold->until > neap_now(layer)) continue;
    neap_each_peer (layer, p) {
      if (p->came != hold->view || !neap_in_view(gms_view(g), p->peer)) continue;
      void_digest(g, p);
    }
    hold_end(g, hold);
  }
  limit_update(g);
  gms_kick(g);
}

/* ---- acks ---- */

/* Has everybody who was in this view of mine, and still is here, said to have it or a later one? */
static bool all_have(struct gms *g, uint64_t number)
{
  const struct neap_view *view = gms_view(g);
  for (uint32_t i = 0; i < view->count && !NEAP_IS_MUTANT(501); i++) {
    const struct gms_peer *p = gms_peer_of(g, view->members[i]);
    if (!view->members[i]->self && p->acked < number && p->came <= number) return false;
  }
  return true;
}

void gms_acks_check(struct gms *g)
{
  const struct neap_view *view = gms_view(g);
  uint64_t staying = UINT64_MAX;
  for (unsigned i = 0; i < GMS_HOLDS; i++)
    if (g->holds[i].ticket && g->holds[i].view != PENDING && all_have(g, g->holds[i].view))
      hold_end(g, &g->holds[i]);
  limit_update(g);
  if (!g->collecting || g->sync) return;
  for (uint32_t i = 0; i < view->count; i++) {
    const struct gms_peer *p = gms_peer_of(g, view->members[i]);
    if (!view->members[i]->self && p->acked < staying && !gms_going(p)) staying = p->acked;
  }
  if (staying < view->number) return;
  g->collecting = false;
  g->installs++;
  g->install_time = neap_now(&g->layer) - g->sent;
  neap_timer_stop(&g->ack);
  gms_kick(g);
}

/* Asks whoever sends synchronously whether all have what was sent so far, the view too. */
static void sync(struct gms *g)
{
  struct neap_event event = {.kind = NEAP_EVENT_SYNC,
    .number = gms_view(g)->number,
    .time = g->ack_timeout,
    .view = neap_view_ref(gms_view(g))};
  g->sync = event.number;
  neap_event_up(&g->layer, &event);
}

/* That has ended, well or not.  Who has answered has got the view; whether it could use it (a delta
 * against one that it does not have it cannot) only its ack says. */
void gms_synced(struct gms *g, const struct neap_event *event)
{
  if (!g->sync || event->number != g->sync) return; /* There was another view since. */
  g->sync = 0;
  gms_acks_check(g);
}

void gms_acks_timeout(struct neap_layer *layer, struct neap_timer *timer)
{
  struct gms *g = (struct gms *)layer;
  const struct neap_view *view = gms_view(g);
  (void)timer;
  for (uint32_t i = 0; i < view->count; i++) {
    const struct gms_peer *p = gms_peer_of(g, view->members[i]);
    if (p->peer->self || p->acked >= view->number) continue;
    g->acks_missing++;
    /* A lost multicast that nothing follows may stay unnoticed: this one is repeated until it is
     * there. */
    if (!gms_going(p)) gms_send_view(g, p->peer);
  }
  g->collecting = false;
  g->sync = 0;
  gms_kick(g);
  gms_leave_ask(g);
}

void gms_view_ack(struct gms *g, struct neap_msg *m)
{
  const struct neap_gms_own_head *own = neap_gms_own_head_get(m, &g->layer);
  if (!gms_view(g) || !neap_in_view(gms_view(g), m->from)) return;
  struct gms_peer *p = gms_peer_of(g, m->from);
  /* JGroups members do not say which view they mean: the one that they were told last. */
  uint64_t number = own && own->type == NEAP_GMS_INSTALLED ? own->number : gms_view(g)->number;
  g->acks++;
  if (number > gms_view(g)->number) { /* Of another maker, and overtook it. */
    p->ahead = number;
    return;
  }
  if (number > p->acked) p->acked = number;
  gms_acks_check(g);
  gms_leave_ask(g);
}

/* ---- requests ---- */

void gms_joiner_forget(struct gms *g, struct gms_peer *p)
{
  if (!p->joining) return;
  neap_link_remove(&p->asks);
  p->joining = false;
  g->joiners_waiting--;
  neap_peer_release(&g->layer, p->peer);
}

void gms_joiners_forget(struct gms *g)
{
  while (!neap_link_alone(&g->joiners))
    gms_joiner_forget(g, NEAP_HOLDER(g->joiners.next, struct gms_peer, asks));
}

static void refuse(struct gms *g, struct neap_peer *to, const char *why)
{
  uint8_t bytes[256];
  struct neap_writer w = {bytes, bytes + sizeof bytes, false};
  neap_write_join_refused(&w, why);
  struct neap_msg *m = gms_message(g, to, NEAP_OOB, NEAP_GMS_JOIN_RSP, NULL);
  neap_msg_body(m, bytes, (uint32_t)(w.at - bytes));
  gms_send(g, m);
}

void gms_join_req(struct gms *g, struct neap_msg *m, const struct neap_gms_head *head)
{
  if (!neap_addr_equal(&head->member, &m->from->addr)) {
    g->malformed++;
    return;
  }
  if (g->state != GMS_MEMBER || !gms_is_acting(g)) return; /* It finds the right one by itself. */
  g->requests++;
  struct gms_peer *p = gms_peer_of(g, m->from);
  if (neap_in_view(gms_view(g), m->from)) {
    p->answer = true;
  } else if (m->from->generation && !p->joining && gms_tell_former(g, m->from)) {
    return; /* It was taken in and never knew; who comes again has another address. */
  } else if (gms_view(g)->count + g->joiners_waiting >= g->members_max) {
    gms_decide(g, m->from, "refused: the group is full");
    refuse(g, m->from, "the group is full");
    return;
  } else if (!p->joining) {
    p->joining = true;
    p->voided = false;
    p->acked = 0;
    neap_link_before(&g->joiners, &p->asks);
    g->joiners_waiting++;
    neap_peer_hold(&g->layer, m->from);
  }
  gms_kick(g);
}

void gms_kick(struct gms *g)
{
  if (g->state == GMS_MEMBER && gms_is_acting(g)) neap_timer_sooner(&g->layer, &g->kick, 0);
}

/* ---- the change ---- */

static bool somebody_goes(struct gms *g)
{
  for (uint32_t i = 0; i < gms_view(g)->count; i++)
    if (gms_peer_going(g, gms_view(g)->members[i])) return true;
  return false;
}

static void commit(struct gms *g, struct neap_digest *digest);
static void answer_again(struct gms *g);

/* Makes the change that waits, if it is mine to make and none runs. */
void gms_change(struct neap_layer *layer, struct neap_timer *timer)
{
  struct gms *g = (struct gms *)layer;
  (void)timer;
  if (g->state != GMS_MEMBER || g->gathering || g->collecting || !gms_is_acting(g)) return;
  if (g->proposed && !g->placed) return; /* The policy will answer. */
  answer_again(g);
  struct gms_hold *hold = neap_link_alone(&g->joiners) ? NULL : hold_find(g, 0);
  if (!hold && !somebody_goes(g) && !g->renumber) return;
  if (gms_policy_ask(g, hold != NULL)) return;
  if (!hold) { /* Nobody comes, or too many holds are out: those who want to come wait. */
    commit(g, NULL);
    return;
  }
  *hold = (struct gms_hold){.ticket = ++g->ticket, .view = PENDING, .until = UINT64_MAX};
  g->holds_out++;
  g->gathering = true;
  if (!NEAP_IS_MUTANT(502))
    hold_event(
      g, NEAP_EVENT_HOLD, g->ticket, NULL); /* Nothing moves between this and the digest. */
  struct neap_event event = {.kind = NEAP_EVENT_DIGEST_GET, .number = g->ticket};
  neap_ask_down(layer, &event);
}

static bool lacks_nobody(const struct gms *g, const struct neap_digest *digest)
{
  for (uint32_t i = 0; digest && i < gms_view(g)->count; i++) {
    const struct neap_peer *member = gms_view(g)->members[i];
    if (!gms_peer_going(g, member) && !neap_digest_find(digest, member)) return false;
  }
  return digest != NULL;
}

/* The answer to what gms_change asked. */
void gms_digest(struct gms *g, struct neap_digest *digest)
{
  if (!g->gathering) return;
  g->gathering = false;
  if (g->state != GMS_MEMBER || !gms_is_acting(g) || !lacks_nobody(g, digest)) {
    hold_end(g, hold_find(g, g->ticket));
    if (g->state == GMS_MEMBER && gms_is_acting(g))
      neap_timer_sooner(&g->layer, &g->kick, DIGEST_RETRY);
    gms_leave_ask(g);
    return;
  }
  hold_event(g, NEAP_EVENT_HOLD, g->ticket, digest);
  commit(g, digest);
}

/* ---- what is sent ---- */

/* A digest of exactly this view's members, in order. */
static struct neap_digest *digest_of(const struct neap_view *view, const struct neap_digest *digest)
{
  struct neap_digest *ordered = neap_digest_new(view->count);
  for (uint32_t i = 0; i < view->count; i++) {
    const struct neap_digest_row *row = neap_digest_find(digest, view->members[i]);
    neap_digest_add(ordered, row ? *row : (struct neap_digest_row){.peer = view->members[i]});
  }
  return ordered;
}

/* (epoch, mode) of each stream, as consumed here. */
static void write_epochs(struct neap_writer *w, const struct neap_digest *digest)
{
  for (uint32_t i = 0; i < digest->count; i++) {
    neap_write_u32(w, digest->rows[i].epoch);
    neap_write_u8(w, digest->rows[i].mode);
  }
}

/* So that a joiner need not ask everybody, and knows the dead as well. */
static void write_names(struct neap_writer *w, const struct neap_digest *digest)
{
  uint32_t room = NAMES_MAX;
  for (uint32_t i = 0; i < digest->count; i++) {
    const char *name = digest->rows[i].peer->name;
    uint32_t len = (uint32_t)strlen(name);
    if (len > room) len = 0;
    room -= len;
    neap_write_u8(w, (uint8_t)len);
    neap_write_bytes(w, name, len);
  }
}

static void send_join_rsp(
  struct gms *g, struct neap_peer *to, unsigned flags, const struct neap_digest *digest)
{
  uint8_t bytes[SCRATCH];
  struct neap_writer w = {bytes, bytes + sizeof bytes, false};
  neap_write_join(&w, gms_view(g), digest);
  uint32_t len = (uint32_t)(w.at - bytes);
  if (to->generation) write_epochs(&w, digest);
  uint32_t epochs_len = (uint32_t)(w.at - bytes) - len;
  if (to->generation) write_names(&w, digest);
  NEAP_ASSERT(!w.full);
  uint32_t names_len = (uint32_t)(w.at - bytes) - len - epochs_len;
  struct neap_msg *m = gms_message(g, to, flags, NEAP_GMS_JOIN_RSP, NULL);
  neap_msg_body(m, bytes, (uint32_t)(w.at - bytes));
  m->len = len;
  if (to->generation) /* Its bytes stand behind the body, in the same slab. */
    *neap_gms_own_head_put(m, &g->layer) = (struct neap_gms_own_head){
      .type = NEAP_GMS_EPOCHS,
      .epochs = {m->body + len, epochs_len},
      .names = {m->body + len + epochs_len, names_len},
    };
  gms_send(g, m);
}

/* Writes the list of an address list that a delta carries. */
static struct neap_slice peers_slice(
  struct neap_writer *w, struct neap_peer *const *peers, uint32_t count)
{
  uint8_t *at = w->at;
  neap_write_peers(w, peers, count);
  return (struct neap_slice){at, (uint32_t)(w->at - at)};
}

/* To everybody; as what changed against `before`, or whole when that is NULL. */
static void multicast_view(struct gms *g, const struct neap_view *before)
{
  uint8_t bytes[SCRATCH], lists[SCRATCH];
  struct neap_writer w = {bytes, bytes + sizeof bytes, false};
  const struct neap_view *view = gms_view(g);
  if (before) {
    struct neap_writer l = {lists, lists + sizeof lists, false};
    uint8_t *ids = l.at;
    neap_write_view_id(&l, &view->creator, view->number);
    neap_write_view_id(&l, &before->creator, before->number);
    peers_slice(&l, view->left, view->left_count);
    peers_slice(&l, view->joined, view->joined_count);
    struct neap_view_digest payload = {.bits = NEAP_VD_VIEW | NEAP_VD_DELTA | NEAP_VD_MEMBERS,
      .delta_view = {ids, (uint32_t)(l.at - ids)}};
    neap_view_digest_write(&w, &payload);
    g->deltas_sent++;
  } else {
    neap_write_view_digest(&w, view, NULL);
  }
  NEAP_ASSERT(!w.full);
  struct neap_msg *m = gms_message(g, NULL, NEAP_NO_FC | NEAP_NO_RELAY, NEAP_GMS_VIEW, NULL);
  m->marks |= NEAP_NO_LOOPBACK;
  neap_msg_body(m, bytes, (uint32_t)(w.at - bytes));
  g->views_sent++;
  gms_send(g, m);
}

static void answer_joiners(struct gms *g, const struct neap_digest *digest)
{
  const struct neap_view *view = gms_view(g);
  struct neap_digest *ordered = digest_of(view, digest);
  for (uint32_t i = 0; i < view->count; i++) {
    struct gms_peer *p = neap_peer_state_have(&g->layer, view->members[i]);
    if (!p || !p->joining) continue;
    send_join_rsp(g, p->peer, 0, ordered);
    p->came = view->number;
    g->joins++;
    gms_decide(g, p->peer, "taken in: it asked");
    gms_joiner_forget(g, p);
  }
  neap_digest_unref(ordered);
}

/* Members who ask to join: their answer got lost.  Others have counted on them since that view, so
 * they must begin where its digest said, and where nobody knows that any more begin anew. */
static void answer_again(struct gms *g)
{
  const struct neap_view *view = gms_view(g);
  for (uint32_t i = 0; i < view->count; i++) {
    struct gms_peer *p = neap_peer_state_have(&g->layer, view->members[i]);
    if (!p || !p->answer) continue;
    p->answer = false;
    if (p->acked) continue; /* It has come in meanwhile. */
    struct neap_digest *digest = NULL;
    for (unsigned k = 0; k < GMS_HOLDS; k++)
      if (g->holds[k].digest && g->holds[k].view == p->came) digest = g->holds[k].digest;
    if (!digest) {
      void_digest(g, p);
      continue;
    }
    struct neap_digest *ordered = digest_of(view, digest);
    send_join_rsp(g, p->peer, NEAP_OOB, ordered);
    neap_digest_unref(ordered);
  }
}

static void take_over(struct gms *g, struct neap_peer *from)
{
  const struct gms_peer *p = neap_peer_state_have(&g->layer, from);
  g->takeovers++;
  gms_decide(g, from, "took over from it: %s", p ? gms_why_going(p) : "it goes");
}

/* Makes the new view of what is known now. */
static void commit(struct gms *g, struct neap_digest *digest)
{
  struct neap_peer *members[NEAP_MEMBERS_MAX];
  uint32_t count = gms_next_members(g, digest != NULL, members);
  struct neap_view *before = gms_view(g);
  struct gms_hold *hold = digest ? hold_find(g, g->ticket) : NULL;
  bool same = count == before->count && !g->renumber;
  for (uint32_t i = 0; same && i < count; i++) same = members[i] == before->members[i];
  if (same) { /* Who wanted to come has gone meanwhile. */
    gms_policy_drop(g);
    if (hold) hold_end(g, hold);
    return;
  }
  uint64_t number = (g->seen > before->number ? g->seen : before->number) + 1;
  bool mine = neap_addr_equal(&before->creator, &gms_self(g)->addr);
  bool delta = g->delta_views && g->full_sent && mine;
  if (before->members[0] != gms_self(g)) take_over(g, before->members[0]);
  gms_answer_leavers(g, number);
  g->renumber = false;
  neap_view_ref(before);
  gms_install(
    g, neap_view_new(g->layer.stack, &gms_self(g)->addr, number, members, count, before), NULL);
  multicast_view(g, delta && gms_is_delta(before, gms_view(g)) ? before : NULL);
  neap_view_unref(before);
  g->full_sent = true;
  if (digest) answer_joiners(g, digest);
  if (!gms_is_acting(g)) gms_joiners_forget(g); /* A policy put another first: they ask there. */
  if (hold) {
    hold->view = number;
    hold->until = neap_now(&g->layer) + g->hold_timeout;
    hold->digest = neap_digest_ref(digest);
  }
  g->collecting = true;
  g->sync = 0;
  g->sent = neap_now(&g->layer);
  neap_timer_start(&g->layer, &g->ack, g->ack_timeout);
  if (g->view_ack == GMS_ACK_RSVP && count > 1) sync(g);
  gms_acks_check(g); /* Alone, nobody else has to say anything. */
}
