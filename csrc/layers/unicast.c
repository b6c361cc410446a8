/* unicast: messages from one member to another arrive, in order, once.
 *
 * A connection per peer and direction.  The sender numbers its messages from 1 and keeps them until
 * the receiver reports them; the receiver hands up what is in order and asks for what is missing.
 * Who finds a loss at the end is the connection's mode, ack or nak, and can be changed while
 * messages flow (unicast/mode.c).
 *
 *     sender                                         receiver
 *       DATA 1 first, 2, 3   ------------------->    no entry: the first one makes it
 *       DATA 5               ------------------->    4 is missing
 *       DATA 4               <-- XMIT_REQ 4 ------   asked for after gap_delay
 *       purge up to 5        <------ ACK 5 -------   5 is *applied*: what was made of it is freed
 *       DATA 7 (again)       --- 7 got lost ----->   the sender finds a loss at the tail: nothing
 *                                                    moved, so it sends its highest again
 *
 * Connection ids tell one life of a connection from the next; timestamps of the receiver order its
 * reports, so that one from before it lost its table is never believed.  A receiver without an
 * entry asks where the window begins (unicast/sync.c).
 *
 * Out-of-band messages rise when they come, once, and keep their place in the numbers.  Messages to
 * oneself do not touch the network but are kept and reported in the same way.
 *
 * Once means: as long as neither side's process dies or forgets by age (unicast/age.c).  Then it is
 * at least once: what was applied and could not be reported may come again.
 *
 * Wire format: UNICAST3's, and own headers to Neap peers.  Towards others a connection is always in
 * ack mode and found by timestamps.  Deviations from UNICAST3:
 * what is reported is applied, not received; gaps and the tail have timers of milliseconds; the
 * request for the first seqno is repeated by timer; a newer connection id is told by difference, so
 * that it may wrap.
 *
 * Invariant: what can rise has risen; what is missing is watched by a timer, and so is what is not
 * reported. */

#include "layers/unicast/unicast.h"

#include <stdio.h>

static const struct neap_header unicast_headers[] = {
  NEAP_HEADER_ROW("unicast", NEAP_P_UNICAST3, 82, neap_uni_head, "one message of a connection"),
  NEAP_HEADER_ROW("unicast", NEAP_P_UNICAST4, 100, neap_uni_head, "the same in its later form"),
  NEAP_HEADER_ROW("unicast", NEAP_OWN_UNICAST, NEAP_OWN_UNICAST, neap_uni_own_head,
    "what the common format has no word for"),
  {0},
};

#define AT(member) offsetof(struct unicast, member)
static const struct neap_attr unicast_attrs[] = {
  {NEAP_PARAM, "retransmission", AT(retransmission), "", NEAP_UNI_ACK_MODE, NEAP_UNI_ACK_MODE,
    NEAP_UNI_NAK_MODE, .type = NEAP_CHOICE, .live = NEAP_NOW, .choices = "ack nak",
    .doc =
      "Who finds a loss at the end of what this member sends: ack, the sender, soon; nak, the "
      "receiver by rare reports. A set switches each connection where it stands and is "
      "settled when all receivers have followed; to members that are not Neap's it stays ack."},
  {NEAP_PARAM, "mode_timeout", AT(mode_timeout), "ns", NEAP_S(10), 0, NEAP_S(3600),
    .live = NEAP_NOW,
    .doc = "How long a set of `retransmission` waits for the others; the mode changes all the "
           "same. 0: as long as it takes."},
  {NEAP_PARAM, "sync", AT(sync), "", NEAP_UNI_TIMESTAMP, NEAP_UNI_TIMESTAMP, NEAP_UNI_HANDSHAKE,
    .type = NEAP_CHOICE, .live = NEAP_NOW, .choices = "timestamp handshake",
    .doc = "How a receiver that lost its table asks where a connection begins, from the next "
           "question on: by a timestamp, or by a handshake that gives it a new id. Both are "
           "answered; members that are not Neap's are always asked by timestamp."},
  {NEAP_PARAM, "window_messages", AT(window_messages), "messages", 8192, 1, 65536, .live = NEAP_NOW,
    .doc = "Messages to one peer that may be unreported; a send beyond it would block. Lowered, "
           "what is on its way stays on its way."},
  {NEAP_PARAM, "window_bytes", AT(window_bytes), "bytes", 0, 1000, 1u << 30, .live = NEAP_NOW,
    .words = "auto=0",
    .doc = "The same in bytes of bodies; an eighth of it (nak: a quarter) is reported at once. "
           "auto: 60 % of the receive buffer that the system granted, 4MB at most."},
  {NEAP_PARAM, "xmit_interval", AT(xmit_interval), "ns", NEAP_MS(500), NEAP_MS(1), NEAP_S(60),
    .live = NEAP_TICK,
    .doc = "Longest pause between two attempts, of requests for a gap and of the highest message."},
  {NEAP_PARAM, "gap_delay", AT(gap_delay), "ns", NEAP_MS(1), 0, NEAP_S(10), .live = NEAP_TICK,
    .doc = "How long a gap may be mere reordering before it is asked for. 0: ask at once."},
  {NEAP_PARAM, "tail_delay", AT(tail_delay), "ns", NEAP_MS(5), NEAP_US(100), NEAP_S(10),
    .live = NEAP_TICK,
    .doc = "Least time without a report after which the highest message is sent "
           "again; more where the round trip is longer."},
  {NEAP_PARAM, "ack_delay", AT(ack_delay), "ns", NEAP_MS(5), 0, NEAP_S(10), .live = NEAP_TICK,
    .doc = "How long a report may wait for company. 0: each turn reports."},
  {NEAP_PARAM, "stable_interval", AT(stable_interval), "ns", NEAP_MS(500), NEAP_MS(1), NEAP_S(60),
    .live = NEAP_TICK,
    .doc = "In nak mode what is applied is reported so much later, and the highest is sent again "
           "when nothing was for longer: a loss at the end lasts so long."},
  {NEAP_PARAM, "ack_threshold", AT(ack_threshold), "messages", 100, 1, 65536, .live = NEAP_NOW,
    .doc = "So many applied messages are reported at once. 1: each."},
  {NEAP_PARAM, "max_xmit_req_size", AT(max_xmit_req_size), "messages", NEAP_SEQNOS_MAX, 1,
    NEAP_SEQNOS_MAX, .live = NEAP_NOW,
    .doc = "Width of the range that one request covers; the rest is asked for a round trip later."},
  {NEAP_PARAM, "sync_min_interval", AT(sync_min_interval), "ns", NEAP_S(2), NEAP_MS(1), NEAP_S(60),
    .live = NEAP_TICK,
    .doc = "Pause between two requests for a peer's first seqno; they are repeated that often."},
  {NEAP_PARAM, "early_max", AT(early_max), "messages", 64, 0, 65536, .live = NEAP_NOW,
    .doc = "Messages kept per peer that came before their connection was known. 0: none, they are "
           "asked for again."},
  {NEAP_PARAM, "first_seqno", AT(first_seqno), "seqno", 1, 1, UINT64_MAX / 4 * 3, .live = NEAP_TICK,
    .doc = "Number of the first message of a connection: for tests of large numbers."},
  {NEAP_PARAM, "first_conn", AT(first_conn), "id", 0, 0, NEAP_UNI_CONNS - 1, .live = NEAP_TICK,
    .doc = "Id of the first connection to a peer: for tests of their wrapping."},
  {NEAP_PARAM, "first_stamp", AT(first_stamp), "stamp", 1, 0, UINT32_MAX, .live = NEAP_NO,
    .doc = "The first timestamp of reports and questions: for tests of their wrapping."},
  {NEAP_PARAM, "conn_expiry_timeout", AT(conn_expiry_timeout), "ns", NEAP_S(120), 0, NEAP_S(86400),
    .live = NEAP_TIMER,
    .doc = "A connection that is idle for so long, with everything reported, is "
           "closed conn_close_timeout later. 0: never."},
  {NEAP_PARAM, "conn_close_timeout", AT(conn_close_timeout), "ns", NEAP_S(240), 0, NEAP_S(86400),
    .live = NEAP_TIMER,
    .doc =
      "How long the connections of a peer that left the view, and what is remembered of closed "
      "ones, are kept. A peer that comes back later may deliver a message twice. 0: for ever."},
  {NEAP_PARAM, "max_retransmit_time", AT(max_retransmit_time), "ns", NEAP_S(60), 0, NEAP_S(86400),
    .live = NEAP_TICK,
    .doc = "How long messages to a peer that is in no view are sent again. 0: they are sent once."},

  {NEAP_GAUGE, "unacked", AT(unacked), "messages", .doc = "Sent and not reported, to all peers."},
  {NEAP_GAUGE, "unacked_bytes", AT(unacked_bytes), "bytes", .doc = "Their bodies."},
  {NEAP_GAUGE, "waiting", AT(waiting), "messages", .doc = "Came, and wait behind a gap."},
  {NEAP_GAUGE, "early", AT(early), "messages", .doc = "Came before their connection was known."},
  {NEAP_GAUGE, "senders", AT(senders), "connections", .doc = "Open towards a peer."},
  {NEAP_GAUGE, "receivers", AT(receivers), "connections", .doc = "Open from a peer."},
  {NEAP_GAUGE, "mode_pending", AT(mode_pending), "connections",
    .doc = "Have not reported the newest toggle yet."},
  {NEAP_COUNTER, "sent", AT(sent), "messages", .doc = "Sent for the first time."},
  {NEAP_COUNTER, "received", AT(received), "messages", .doc = "Came for the first time."},
  {NEAP_COUNTER, "looped", AT(looped), "messages", .doc = "Sent to this member itself."},
  {NEAP_COUNTER, "acks_sent", AT(acks_sent), "messages", .doc = "Reports of what is applied."},
  {NEAP_COUNTER, "acks_received", AT(acks_received), "messages", .doc = "Reports of peers."},
  {NEAP_COUNTER, "xmits", AT(xmits), "messages", .doc = "Sent again because a peer asked."},
  {NEAP_COUNTER, "tail_xmits", AT(tail_xmits), "messages",
    .doc = "Sent again because nothing was reported for a while."},
  {NEAP_COUNTER, "requests_sent", AT(requests_sent), "messages", .doc = "Requests for gaps."},
  {NEAP_COUNTER, "requests_received", AT(requests_received), "messages",
    .doc = "Requests of peers for theirs."},
  {NEAP_COUNTER, "firsts_sent", AT(firsts_sent), "messages",
    .doc = "Requests for the first seqno of a peer's connection."},
  {NEAP_COUNTER, "firsts_received", AT(firsts_received), "messages",
    .doc = "Requests of peers for ours."},
  {NEAP_COUNTER, "firsts_answered", AT(firsts_answered), "messages",
    .doc = "Times a peer was told where the window begins."},
  {NEAP_COUNTER, "syncs_sent", AT(syncs_sent), "messages", .doc = "Handshakes asked for."},
  {NEAP_COUNTER, "syncs_received", AT(syncs_received), "messages", .doc = "Peers asked for one."},
  {NEAP_COUNTER, "toggles", AT(toggles), "changes", .doc = "Of the mode towards one peer."},
  {NEAP_COUNTER, "toggles_followed", AT(toggles_followed), "changes", .doc = "Of peers' modes."},
  {NEAP_COUNTER, "toggles_settled", AT(toggles_settled), "changes",
    .doc = "Sets of the mode that ended, in time or not."},
  {NEAP_COUNTER, "twice", AT(twice), "messages", .doc = "Came again; dropped."},
  {NEAP_COUNTER, "stale", AT(stale), "messages",
    .doc = "Of a connection that is over, or a report older than one seen; ignored."},
  {NEAP_COUNTER, "full", AT(full), "messages",
    .doc = "Dropped because the application takes no more now; asked for again later."},
  {NEAP_COUNTER, "far", AT(far), "messages",
    .doc = "Dropped: twice as far ahead as a "
           "sender may be; asked for again later."},
  {NEAP_COUNTER, "early_dropped", AT(early_dropped), "messages",
    .doc = "Early ones that were too many, of another connection, or never claimed."},
  {NEAP_COUNTER, "resets", AT(resets), "connections",
    .doc = "Ended with messages that were not reported."},
  {NEAP_COUNTER, "closed", AT(closed), "connections", .doc = "Ended by age or by hand."},
  {NEAP_COUNTER, "forgotten", AT(forgotten), "connections",
    .doc = "Receiving halves that ended and are remembered for a while."},
  {NEAP_COUNTER, "moved", AT(moved), "connections",
    .doc = "Windows that went on further up: what was skipped had been reported before."},
  {NEAP_COUNTER, "bad", AT(bad), "messages", .doc = "Headers or requests without sense."},
  {NEAP_END},
};

/* Everybody's buffers are taken to be like this member's. */
static void size_window(struct unicast *u)
{
  u->bound_bytes = u->window_bytes ? u->window_bytes : neap_window_auto(&u->layer);
}

static int unicast_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct unicast *u = (struct unicast *)layer;
  (void)trail;
  u->stamp = (uint32_t)u->first_stamp - 1;
  size_window(u);
  neap_timer_init(layer, &u->mode_timer, neap_unicast_mode_due);
  u->delivered = neap_msg_own(layer, NULL, NEAP_OOB);
  return 0;
}

/* To somebody else, and to be kept. */
static bool plain(const struct neap_msg *m)
{
  return !m->to->self && !(m->flags & NEAP_NO_RELIABILITY);
}

static void unicast_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct unicast *u = (struct unicast *)layer;
  struct neap_batch out = {0}, up = {0};
  struct neap_msg *m = batch->first;
  if (!m->to) { /* A run of multicasts. */
    neap_pass_down(layer, batch);
    return;
  }
  while (m && plain(m)) m = m->next;
  if (!m) { /* Nothing but what is to be kept: it passes as it is. */
    for (m = batch->first; m; m = m->next) neap_unicast_send(u, neap_unicast_peer(u, m->to), m);
    neap_pass_down(layer, batch);
    return;
  }
  while ((m = neap_take(batch))) {
    if (m->flags & NEAP_NO_RELIABILITY) {
      neap_unicast_unkept(u, m);
      if (m->to->self && m->marks & NEAP_NO_LOOPBACK)
        neap_msg_free(m);
      else
        neap_put(m->to->self ? &up : &out, m);
    } else if (m->to->self) {
      neap_unicast_loop(u, neap_unicast_peer(u, m->to), m, &up);
    } else {
      neap_unicast_send(u, neap_unicast_peer(u, m->to), m);
      neap_put(&out, m);
    }
  }
  neap_pass_down(layer, &out);
  neap_pass_up(layer, &up);
}

static void own_up(struct unicast *u, struct peer *p, struct neap_msg *m, struct neap_batch *up)
{
  const struct neap_uni_own_head *own = neap_uni_own_head_get(m, &u->layer);
  switch (own->type) {
  case NEAP_UNI_STABLE:
    neap_unicast_stable(u, p, own);
    break;
  case NEAP_UNI_EMPTY:
    neap_unicast_empty(u, p, own, up);
    break;
  case NEAP_UNI_NONE:
    neap_unicast_none(u, p, own->stamp);
    break;
  case NEAP_UNI_SYNC:
    neap_unicast_sync_asked(u, p, own);
    break;
  case NEAP_UNI_SYNC_OK:
    neap_unicast_sync_ok(u, p, own, up);
    break;
  case NEAP_UNI_SYNC_ACK:
    neap_unicast_sync_ack(u, p, own);
    break;
  default:
    u->bad++;
  }
  neap_msg_free(m);
}

static void close_asked(struct unicast *u, struct peer *p, uint16_t conn)
{
  struct in *in = &p->in;
  /* A newer id says the same: the sender has gone on. */
  if (!in->open || (conn != in->conn && !neap_conn_newer(conn, in->conn))) {
    u->stale++;
    return;
  }
  in->ended = true;
  neap_unicast_forget(u, p);
}

static void head_up(struct unicast *u, struct peer *p, struct neap_msg *m, struct neap_batch *up)
{
  const struct neap_uni_head *head = neap_uni_head_get(m, &u->layer);
  p->form = neap_uni_head_form(m, &u->layer);
  switch (head->type) {
  case NEAP_UNI_DATA:
    neap_unicast_data(u, p, m, up);
    return;
  case NEAP_UNI_ACK:
    neap_unicast_acked(u, p, (uint16_t)head->conn, head->stamp, head->seqno);
    break;
  case NEAP_UNI_FIRST:
    neap_unicast_first_asked(u, p, head->stamp);
    break;
  case NEAP_UNI_XMIT_REQ:
    neap_unicast_asked(u, p, m);
    break;
  case NEAP_UNI_CLOSE:
    close_asked(u, p, (uint16_t)head->conn);
    break;
  default:
    u->bad++;
  }
  neap_msg_free(m);
}

static void unicast_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct unicast *u = (struct unicast *)layer;
  struct neap_batch up = {0};
  struct neap_msg *m;
  if (!batch->first->to) { /* A run of multicasts. */
    neap_pass_up(layer, batch);
    return;
  }
  struct peer *p = neap_unicast_peer(u, batch->first->from);
  if (neap_unicast_run(u, p, batch)) {
    neap_pass_up(layer, batch);
    return;
  }
  while ((m = neap_take(batch))) {
    bool head = neap_uni_head_get(m, layer), own = neap_uni_own_head_get(m, layer);
    if (!head && !own) {
      neap_put(&up, m);
    } else if (p->peer->self || m->receipts) {
      /* What this member sends to itself never leaves, and a message has one place in one stream:
       * it is forged. */
      u->bad++;
      neap_msg_free(m);
    } else if (head) {
      head_up(u, p, m, &up);
    } else {
      own_up(u, p, m, &up);
    }
  }
  neap_pass_up(layer, &up);
  if (p->in.open) neap_unicast_watch_gaps(u, p);
}

static enum neap_verdict unicast_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct unicast *u = (struct unicast *)layer;
  (void)up;
  if (event->kind == NEAP_EVENT_VIEW) {
    neap_unicast_view(u);
  } else if (event->kind == NEAP_EVENT_APPLIED) {
    struct peer *p = neap_unicast_peer(u, event->peer);
    if (event->peer->self) {
      neap_unicast_purge(u, p, p->in.run->applied);
      neap_unicast_publish(u, p);
    } else {
      neap_unicast_applied(u, p);
    }
  } else if (event->kind == NEAP_EVENT_TAIL && event->peer) {
    event->flag = neap_unicast_mode(neap_unicast_peer(u, event->peer)) == NEAP_UNI_ACK_MODE;
    return NEAP_ANSWER;
  }
  return NEAP_PASS;
}

static int unicast_may(const struct neap_layer *layer, const struct neap_attr *attr,
  const struct neap_value *value, char *why, size_t size)
{
  const struct peer *p;
  (void)value;
  if (attr->at != AT(retransmission)) return 0;
  neap_each_peer (layer, p) {
    if (!p->peer || neap_unicast_may_toggle(p)) continue;
    char name[NEAP_ADDR_TEXT];
    snprintf(why, size, "%s has not followed the last %d changes of it",
      neap_peer_text(p->peer, name), NEAP_UNI_TURNS);
    return NEAP_REFUSED;
  }
  return 0;
}

static void unicast_changed(struct neap_layer *layer, const struct neap_attr *attr)
{
  struct unicast *u = (struct unicast *)layer;
  struct peer *p;
  if (attr->at == AT(retransmission)) neap_unicast_toggle_all(u);
  if (attr->at == AT(window_bytes)) size_window(u);
  neap_each_peer (layer, p) {
    if (!p->peer) continue;
    if (attr->at == AT(window_messages) || attr->at == AT(window_bytes)) neap_unicast_publish(u, p);
    if (attr->live == NEAP_TIMER) neap_unicast_plan(u, p);
  }
}

static void unicast_close(struct neap_layer *layer)
{
  struct unicast *u = (struct unicast *)layer;
  neap_timer_stop(&u->mode_timer);
  neap_msg_free(u->delivered); /* Windows that still count on it hold it too. */
}

const struct neap_class neap_unicast = {
  .name = "unicast",
  .doc = "Messages from one member to another arrive, in order, once.",
  .needs = "unicast",
  .hears = "view",
  .gives = "ucast_reliable ucast_fifo",
  .size = sizeof(struct unicast),
  .peer_size = sizeof(struct peer),
  .peer_gone = neap_unicast_gone,
  .headers = unicast_headers,
  .attrs = unicast_attrs,
  .ops = neap_unicast_ops,
  .open = unicast_open,
  .down = unicast_down,
  .up = unicast_up,
  .unseen = NEAP_UNSEEN_RISING_ALL | NEAP_UNSEEN_FALLING_ALL,
  .event = unicast_event,
  .may = unicast_may,
  .changed = unicast_changed,
  .close = unicast_close,
  .check = neap_unicast_check,
};
