/* nakack: multicasts arrive, once, in their sender's order, whatever the wire does.
 *
 *   sender      number -> keep -> send                    purge to the least that all have applied
 *   receiver    out of order? wait, ask -> in order -> up with a receipt -> applied -> report
 *
 * One stream per sender, one window per stream, and two ways to care for the end of it, which can
 * be changed while messages flow:
 *
 *            who finds a loss at the tail       who reports           what frees
 *     nak    receivers, by an announcement      `stable`, in rounds   its result
 *     ack    the sender, by missing reports     each receiver         the reports
 *
 * In both, receivers ask for what is missing by the same timers.  The wire is that of NAKACK2 (nak)
 * and NAKACK4 (ack); both are understood in both modes. Parts: see nakack/nakack.h.
 *
 * Deviations from the reference: gaps are asked for within milliseconds, not at ticks; a request
 * for what is purged is answered; a message is dropped when the application is far behind.
 *
 * Invariant: what a member has reported it has applied; what is purged all have reported. */

#include "layers/nakack/nakack.h"

#include <stdio.h>

static const struct neap_header nakack_headers[] = {
  NEAP_HEADER_ROW("nakack", NEAP_P_NAKACK2, 78, neap_nak_head, "nak mode: message, request, end"),
  NEAP_HEADER_ROW("nakack", NEAP_P_NAKACK3, 99, neap_nak_head, "the same, understood only"),
  NEAP_HEADER_ROW("nakack", NEAP_P_NAKACK4, 99, neap_nak_head, "ack mode: the same, and reports"),
  NEAP_HEADER_ROW("nakack", NEAP_OWN_NAKACK, NEAP_OWN_NAKACK, neap_nak_own_head, "toggle, purged"),
  {0},
};

#define AT(member) offsetof(struct nakack, member)
static const struct neap_attr nakack_attrs[] = {
  {NEAP_PARAM, "retransmission", AT(retransmission), "", NAKACK_NAK, NAKACK_NAK, NAKACK_ACK,
    .type = NEAP_CHOICE, .live = NEAP_NOW, .choices = "nak ack",
    .doc = "Who finds a loss at the end of this member's stream, and what frees its window. A "
           "set switches the stream where it stands and is settled when all members have "
           "followed."},
  {NEAP_PARAM, "mode_timeout", AT(mode_timeout), "ns", NEAP_S(10), 0, NEAP_S(3600),
    .live = NEAP_NOW,
    .doc = "How long a set of `retransmission` waits for the others; the mode changes all the "
           "same. 0: as long as it takes."},
  {NEAP_PARAM, "xmit_interval", AT(xmit_interval), "ns", NEAP_MS(500), NEAP_MS(1), NEAP_S(60),
    .or_zero = true, .live = NEAP_TICK,
    .doc = "The longest pause between two requests for the same gap, and the pause between two "
           "announcements. 0: no gap is asked for and nothing is announced, until it is more "
           "again; by hand both go."},
  {NEAP_PARAM, "gap_delay", AT(gap_delay), "ns", NEAP_MS(1), 0, UINT64_MAX, .live = NEAP_NOW,
    .words = "tick=18446744073709551615",
    .doc = "How long a gap may be a message that was overtaken before it is asked for; a random "
           "part is added, larger in larger groups. tick: each xmit_interval what was missing at"
           " the one before. 0: at once."},
  {NEAP_PARAM, "announce_delay", AT(announce_delay), "ns", NEAP_MS(5), 0, NEAP_S(60),
    .live = NEAP_NOW,
    .doc = "From the last send to the first announcement of its seqno. 0: in the next turn."},
  {NEAP_PARAM, "resend_last_seqno", AT(resend_last_seqno), "", 1, .type = NEAP_BOOL,
    .live = NEAP_NOW,
    .doc = "Announce the last seqno after sending. Off: in nak mode a loss at the end is left to "
           "`stable`; where reports are wanted it is announced all the same."},
  {NEAP_PARAM, "resend_last_seqno_max_times", AT(max_times), "announcements", 2, 0, 1000,
    .live = NEAP_TICK,
    .doc = "In nak mode the last seqno is announced so often, then there is silence. 0: until "
           "all members have reported, as in ack mode."},
  {NEAP_PARAM, "force", AT(force), "", 0, .type = NEAP_BOOL, .live = NEAP_NOW,
    .doc = "Nak mode also where nobody finds out what all have: it is asked for when the window "
           "is half full. Off: such a stack, or such a set, is refused."},
  {NEAP_PARAM, "resend_last_seqno_bytes", AT(announce_bytes), "bytes", 0, 0, 1u << 30,
    .live = NEAP_NOW, .doc = "Also announce whenever so much was sent. 0: not by bytes."},
  {NEAP_PARAM, "ack_delay", AT(ack_delay), "ns", NEAP_MS(5), 0, NEAP_S(60), .live = NEAP_NOW,
    .doc = "In ack mode what was applied is reported so much later, at most; a share of the "
           "window is reported at once. 0: in the next turn."},
  {NEAP_PARAM, "window_bytes", AT(window_bytes), "bytes", 0, 0, 1u << 30, .live = NEAP_NOW,
    .words = "auto=0",
    .doc = "So much of this member's multicasts may be kept for those who lack some; a send beyond "
           "it waits. Lowered, what is kept stays kept. auto: 12MB; where not all are Neap's, "
           "60 % of the receive buffer that this one was granted, 4MB at most."},
  {NEAP_PARAM, "pace_bytes", AT(pace_bytes), "bytes", 0, 0, 1u << 30, .live = NEAP_NOW,
    .words = "auto=0",
    .doc = "So much of it may be on its way to somebody; what came out of order has come. auto: "
           "60 % of the smallest receive buffer that a member was granted, 2MB at most."},
  {NEAP_PARAM, "window_messages", AT(window_messages), "messages", 16384, 8, NAKACK_BOUND_MAX,
    .live = NEAP_NOW, .doc = "The same in messages, fragments counted one by one."},
  {NEAP_PARAM, "max_xmit_req_size", AT(list_max), "seqnos", 1024, 64, NEAP_SEQNOS_MAX,
    .live = NEAP_NOW, .doc = "The longest stretch that one request covers; more takes several."},
  {NEAP_PARAM, "use_mcast_xmit", AT(use_mcast_xmit), "", 1, .type = NEAP_BOOL, .live = NEAP_NOW,
    .doc = "Multicast a message again when three or more ask for it; else each gets a copy."},
  {NEAP_PARAM, "use_mcast_xmit_req", AT(use_mcast_xmit_req), "", NAKACK_ASK_AUTO, NAKACK_ASK_ONE,
    NAKACK_ASK_AUTO, .type = NEAP_CHOICE, .choices = "off on auto", .live = NEAP_NOW,
    .doc = "Ask by multicast, so that others who lack the same need not ask. auto: in views of 32 "
           "Neap members or more."},
  {NEAP_PARAM, "xmit_from_random_member", AT(xmit_from_random_member), "", 0, .type = NEAP_BOOL,
    .live = NEAP_NOW,
    .doc = "Ask any member, not the sender alone. Each member then keeps what it has got until it "
           "is stable, a window of each sender at most; set to false, that is freed at once."},
  {NEAP_PARAM, "first_seqno", AT(first_seqno), "seqno", 1, 1, UINT64_MAX / 2 + 1,
    .doc = "Of each member's first multicast, the same at all members: to see large numbers."},
  {NEAP_PARAM, "become_server_queue_size", AT(early_max), "messages", 50, 0, 1024, .live = NEAP_NOW,
    .doc = "Messages that may wait for the first view; the others come again. 0: none waits."},

  {NEAP_GAUGE, "current_seqno", AT(current_seqno), "seqno", .doc = "The last one given."},
  {NEAP_GAUGE, "current_low", AT(current_low), "seqno", .doc = "All have it, and it is freed."},
  {NEAP_GAUGE, "mode_pending", AT(mode_pending), "members",
    .doc = "Have not reported the newest toggle yet."},
  {NEAP_GAUGE, "window_bound", AT(bound_bytes), "bytes", .doc = "What window_bytes comes to."},
  {NEAP_GAUGE, "pace_bound", AT(pace_bound), "bytes", .doc = "Of it, what may be on its way."},
  {NEAP_GAUGE, "window_used", AT(window_used), "bytes", .doc = "Of own multicasts that are kept."},
  {NEAP_GAUGE, "window_stored", AT(window_stored), "messages", .doc = "Own multicasts kept."},
  {NEAP_GAUGE, "waiting", AT(waiting), "messages", .doc = "Arrived, and wait behind a gap."},
  {NEAP_GAUGE, "copies", AT(copies), "messages",
    .doc = "Others' multicasts that are kept for members who ask."},
  {NEAP_GAUGE, "repair_time", AT(repair_time), "ns",
    .doc = "From noticing that a message is missing until it is here; smoothed."},
  {NEAP_GAUGE, "early", AT(early_count), "messages", .doc = "Wait for the first view."},
  {NEAP_GAUGE, "holds", AT(holds_count), "digests",
    .doc = "Given out and not installed by all: what they cover is kept."},

  {NEAP_COUNTER, "sent", AT(sent), "messages", .doc = "Own multicasts that got a number."},
  {NEAP_COUNTER, "received", AT(received), "messages", .doc = "Others' multicasts, each once."},
  {NEAP_COUNTER, "purged", AT(purged), "messages", .doc = "Own, freed because all have them."},
  {NEAP_COUNTER, "announcements_sent", AT(announcements), "messages", .doc = "Of the last seqno."},
  {NEAP_COUNTER, "announcements_received", AT(announced), "messages", .doc = "From members."},
  {NEAP_COUNTER, "toggles", AT(toggles), "changes", .doc = "Of this member's mode."},
  {NEAP_COUNTER, "toggles_followed", AT(modes), "changes", .doc = "Of others' modes."},
  {NEAP_COUNTER, "toggles_settled", AT(settled), "changes",
    .doc = "Sets of the mode that ended, in time or not."},
  {NEAP_COUNTER, "xmit_reqs_sent", AT(reqs_sent), "messages", .doc = "Requests for gaps."},
  {NEAP_COUNTER, "xmit_reqs_received", AT(reqs_received), "messages", .doc = "Of our stream."},
  {NEAP_COUNTER, "xmit_asked", AT(asked), "seqnos", .doc = "In requests sent."},
  {NEAP_COUNTER, "xmit_rsps_sent", AT(rsps_sent), "messages", .doc = "Sent again when asked."},
  {NEAP_COUNTER, "xmit_rsps_multicast", AT(rsps_mcast), "messages", .doc = "Of these, to all."},
  {NEAP_COUNTER, "xmit_rsps_received", AT(rsps_received), "messages",
    .doc = "Sent again to this member alone."},
  {NEAP_COUNTER, "xmit_rsps_others", AT(rsps_others), "messages",
    .doc = "Others' multicasts, sent again from here."},
  {NEAP_COUNTER, "xmit_spared", AT(spared), "seqnos",
    .doc = "Requests and answers left out because one was on its way."},
  {NEAP_COUNTER, "xmit_not_found", AT(not_found), "messages",
    .doc = "Requests for what was never sent."},
  {NEAP_COUNTER, "repaired", AT(repaired), "messages", .doc = "Were missing and came when asked."},
  {NEAP_COUNTER, "needless", AT(needless), "messages", .doc = "Came again though they were here."},
  {NEAP_COUNTER, "duplicates", AT(duplicates), "messages", .doc = "Dropped: here already."},
  {NEAP_COUNTER, "purged_sent", AT(purged_sent), "messages",
    .doc = "Told a member that what it asks for is gone."},
  {NEAP_COUNTER, "purged_received", AT(purged_received), "messages", .doc = "Was told so."},
  {NEAP_COUNTER, "dropped_full", AT(dropped_full), "messages",
    .doc = "The application is behind; asked for again when it has caught up."},
  {NEAP_COUNTER, "dropped_far", AT(dropped_far), "messages",
    .doc = "More than twice the window ahead; asked for again."},
  {NEAP_COUNTER, "dropped_early", AT(dropped_early), "messages",
    .doc = "No room to wait for the first view; asked for again."},
  {NEAP_COUNTER, "strangers", AT(strangers), "messages", .doc = "From outside the view, dropped."},
  {NEAP_COUNTER, "malformed", AT(malformed), "messages", .doc = "Made no sense, dropped."},
  {NEAP_COUNTER, "acks_sent", AT(acks_sent), "messages", .doc = "Reports on others' streams."},
  {NEAP_COUNTER, "acks_received", AT(acks_received), "messages", .doc = "Reports on ours."},
  {NEAP_COUNTER, "acks_foreign", AT(acks_foreign), "messages",
    .doc = "Of these, from outside the view: without effect."},
  {NEAP_COUNTER, "stable_wanted", AT(stable_wanted), "rounds",
    .doc = "Asked of `stable` because the window was half full in nak mode."},
  {NEAP_END},
};

/* ---- operations ---- */

static int trigger_xmit(struct neap_layer *layer, const char *argument, char *out)
{
  struct nakack *n = (struct nakack *)layer;
  struct stream *s;
  uint64_t before = n->asked;
  (void)argument;
  neap_each_peer (layer, s)
    if (s->known && s != n->own) nakack_ask_now(n, s);
  snprintf(out, NEAP_OP_TEXT, "asked for %llu", (unsigned long long)(n->asked - before));
  return 0;
}

static int announce_now(struct neap_layer *layer, const char *argument, char *out)
{
  struct nakack *n = (struct nakack *)layer;
  (void)argument;
  if (layer->view && n->current_seqno) nakack_announce(n);
  snprintf(out, NEAP_OP_TEXT, "last seqno %llu", (unsigned long long)n->current_seqno);
  return 0;
}

static const struct neap_op nakack_ops[] = {
  {"trigger_xmit", "Asks for everything that is missing now, without waiting.", trigger_xmit},
  {"announce_now", "Announces the last seqno of this member's stream.", announce_now},
  {"windows",
    "Each member's stream, one on a line, or that of the one named; has: of ours, as it "
    "reported.",
    nakack_windows},
  {0},
};

/* ---- life ---- */

static int nakack_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct nakack *n = (struct nakack *)layer;
  (void)trail;
  n->own = nakack_start(n, neap_self(layer), 0);
  n->current_seqno = n->current_low = n->own->win.high;
  n->others = UINT64_MAX;
  n->mode = (uint8_t)n->retransmission;
  n->epoch = n->mode_due = n->mode != NAKACK_NAK; /* A stream begins in nak mode. */
  n->freed = neap_gate_at(layer, NULL);
  neap_timer_init(layer, &n->tail, nakack_tail_fire);
  neap_timer_init(layer, &n->hearsay, nakack_hearsay_fire);
  neap_timer_init(layer, &n->mode_timer, nakack_mode_fire);
  neap_timer_init_background(layer, &n->room, nakack_room_fire);
  nakack_size(n);
  return 0;
}

static void nakack_down(struct neap_layer *layer, struct neap_batch *batch)
{
  if (batch->first && batch->first->to)
    neap_pass_down(layer, batch);
  else
    nakack_send((struct nakack *)layer, batch);
}

static void nakack_up(struct neap_layer *layer, struct neap_batch *batch)
{
  nakack_receive((struct nakack *)layer, batch);
}

static enum neap_verdict nakack_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct nakack *n = (struct nakack *)layer;
  struct neap_digest *digest = event->digest;
  switch (event->kind) {
  case NEAP_EVENT_APPLIED:
    nakack_applied(n, neap_peer_state(layer, event->receipts->mover.peer));
    return NEAP_STOP;
  case NEAP_EVENT_VIEW:
    if (!up) nakack_view(n, event->view);
    return NEAP_PASS;
  case NEAP_EVENT_DIGEST_GET:
    event->digest = nakack_digest(n, event->peer);
    event->flag = nakack_whole(n);
    return NEAP_ANSWER;
  case NEAP_EVENT_DIGEST_SET:
  case NEAP_EVENT_DIGEST_MERGE:
  case NEAP_EVENT_DIGEST_OVERWRITE:
    nakack_digest_set(n, event);
    return NEAP_STOP;
  case NEAP_EVENT_DIGEST_COMMIT:
  case NEAP_EVENT_DIGEST_ABORT:
    nakack_await_over(n, event->kind == NEAP_EVENT_DIGEST_ABORT);
    return NEAP_STOP;
  case NEAP_EVENT_HOLD:
    nakack_hold(n, event->number, digest ? neap_digest_ref(digest) : nakack_digest(n, NULL));
    return NEAP_PASS;
  case NEAP_EVENT_RELEASE:
    nakack_release(n, event->number);
    return NEAP_PASS;
  case NEAP_EVENT_STABLE:
    nakack_stable(n, digest);
    return NEAP_PASS;
  case NEAP_EVENT_HELD_BACK:
    nakack_held_back(n, event);
    return NEAP_ANSWER;
  case NEAP_EVENT_TAIL:
    if (event->peer) return NEAP_PASS;
    event->flag = n->mode == NAKACK_ACK;
    return NEAP_ANSWER;
  default: /* Not ours. */
    return NEAP_PASS;
  }
}

/* Why this member keeps us from `mode`; NULL: it does not.  A member without stability rounds would
 * have everybody keep what is sent in nak mode, as far as it knows. */
static const char *cannot(const struct nakack *n, struct neap_peer *peer, uint64_t mode)
{
  const struct stream *s = neap_peer_state_have(&n->layer, peer);
  if (!peer->generation) return "is not a Neap member and could not follow";
  if (mode != NAKACK_NAK || !s || !s->mute) return NULL;
  if (neap_will_be(&n->layer, AT(force), n->force)) return NULL;
  if (!neap_will_be(&n->layer, AT(max_times), n->max_times)) return NULL;
  return "takes no part in stability rounds, so that nothing would be freed; see `force`";
}

static int nakack_may(const struct neap_layer *layer, const struct neap_attr *attr,
  const struct neap_value *value, char *why, size_t size)
{
  const struct nakack *n = (const struct nakack *)layer;
  const struct neap_view *view = layer->view;
  if (attr->at != AT(retransmission) || value->number == n->mode) return 0;
  for (uint32_t i = 0; view && i < view->count; i++) {
    const char *reason = cannot(n, view->members[i], value->number);
    char name[NEAP_ADDR_TEXT];
    if (!reason) continue;
    snprintf(why, size, "%s %s", neap_peer_text(view->members[i], name), reason);
    return NEAP_REFUSED;
  }
  return 0;
}

static void nakack_changed(struct neap_layer *layer, const struct neap_attr *attr)
{
  struct nakack *n = (struct nakack *)layer;
  if (attr->at == AT(retransmission)) {
    nakack_toggle(n);
  } else if (attr->at == AT(window_bytes) || attr->at == AT(pace_bytes) ||
             attr->at == AT(window_messages)) {
    nakack_size(n);
  } else if (attr->at == AT(xmit_interval)) {
    nakack_resume(n);
  } else if (attr->at == AT(resend_last_seqno)) {
    nakack_tail_anew(n);
  } else if (attr->at == AT(xmit_from_random_member) && !n->xmit_from_random_member) {
    struct stream *s;
    neap_each_peer (layer, s)
      if (s->known && s != n->own) nakack_drop_copies(n, s, s->win.hd);
  }
  nakack_tail_check(n);
}

static void nakack_close(struct neap_layer *layer)
{
  struct nakack *n = (struct nakack *)layer;
  neap_timer_stop(&n->tail);
  neap_timer_stop(&n->hearsay);
  neap_timer_stop(&n->mode_timer);
  neap_timer_stop(&n->room);
  neap_gate_open(layer, NULL);
  neap_batch_free(&n->early);
  for (unsigned i = 0; i < NAKACK_HOLDS; i++)
    if (n->holds[i].digest) neap_digest_unref(n->holds[i].digest);
}

static void nakack_peer_gone(struct neap_layer *layer, struct neap_peer *peer, void *state)
{
  (void)peer;
  nakack_forget((struct nakack *)layer, state);
}

const struct neap_class neap_nakack = {
  .name = "nakack",
  .doc = "Multicasts arrive, once, in their sender's order, in nak or ack mode.",
  .needs = "multicast unicast",
  .hears = "view stable(retransmission=nak,resend_last_seqno_max_times!=0,force=false) "
           "stable(xmit_from_random_member=true)",
  .gives = "mcast_reliable mcast_fifo digest",
  .size = sizeof(struct nakack),
  .peer_size = sizeof(struct stream),
  .peer_gone = nakack_peer_gone,
  .headers = nakack_headers,
  .attrs = nakack_attrs,
  .ops = nakack_ops,
  .open = nakack_open,
  .down = nakack_down,
  .up = nakack_up,
  .unseen = NEAP_UNSEEN_RISING_ONE | NEAP_UNSEEN_FALLING_ONE,
  .event = nakack_event,
  .may = nakack_may,
  .changed = nakack_changed,
  .close = nakack_close,
  .check = nakack_check,
};
