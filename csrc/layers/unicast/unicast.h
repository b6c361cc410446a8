/* unicast: what the parts of the layer share; what it promises stands in layers/unicast.c.
 *
 *     send.c      the sending half: numbers, keeps, resends until it is reported
 *     receive.c   the receiving half: orders, asks for gaps, reports what is applied
 *     life.c      connections: numbering, forgetting, remembering, views and age
 *     show.c      what the prompt can ask and do */

#ifndef NEAP_LAYERS_UNICAST_H
#define NEAP_LAYERS_UNICAST_H

#include "core/headers.h"
#include "core/layer.h"
#include "core/seqnos.h"
#include "core/window.h"

/* 2^18 seqnos between low and high: the largest message in the smallest fragments, and a full
 * window beside it.  A ring has as many places as are in use. */
enum { NEAP_UNI_SEQNOS = 1 << 18 };

/* Connection ids are 15 bits and wrap. */
enum { NEAP_UNI_CONNS = 1 << 15 };

/* Types of the own header. */
enum neap_uni_own_type {
  NEAP_UNI_MODE = 1,
  NEAP_UNI_STABLE = 2,
  NEAP_UNI_EMPTY = 3,
  NEAP_UNI_NONE = 4,
};

/* The sending half of a connection.  window.low: everything up to here was reported;
 * window.high: the last number given. */
struct out {
  struct neap_window window;
  uint16_t conn; /* its id; stays when the entry is closed, the next one is one more */
  bool open;
  bool numbered;            /* `conn` was used before */
  bool first;               /* the next message says that everything before it was reported */
  bool heard;               /* the peer has reported on this conn-id */
  bool stamped;             /* `stamp` is one */
  uint32_t stamp;           /* the last timestamp of the peer: what is not newer is ignored */
  uint64_t used;            /* when the last message was sent */
  uint64_t until;           /* who is in no view gets nothing again after this */
  uint64_t progress;        /* when low or high last moved, or the highest was sent again */
  uint64_t pause;           /* before the highest is sent again; 0: as the round trip says */
  uint64_t probe, probe_at; /* the message whose round trip is measured; 0 none */
  uint64_t answered_at, answered_from, answered_to; /* the last request */
  struct neap_gate_position taken, freed;           /* charges that came down; that are done with */
  struct neap_timer tail;
};

/* The receiving half.  window.hd: everything up to here was handed up. */
struct in {
  struct neap_window window;
  struct neap_receipts *run; /* also this member's own, for messages to itself */
  uint16_t conn;
  bool open;
  bool closing;             /* to be forgotten as soon as everything handed up is released */
  bool halted;              /* the peer is in no view and silent: nothing is asked of it */
  uint64_t heard;           /* highest known to exist: stored, or dropped for lack of room */
  uint64_t asked;           /* highest that was asked for, or looked at */
  uint64_t reported;        /* as the last ACK said */
  uint64_t risen;           /* bytes handed up since then */
  uint64_t pause;           /* before gaps are asked for again */
  uint64_t repaired;        /* hd when they were asked for */
  uint64_t probe, probe_at; /* the gap whose round trip is measured; 0 none */
  uint64_t used;            /* when something last came */
  struct neap_timer gap, repeat, report;

  bool remembered; /* the last entry that was forgotten: */
  uint16_t old_conn;
  uint64_t old_applied, old_until;

  struct neap_batch early; /* came without an entry to go to */
  uint64_t asked_first;    /* when the first seqno was last asked for; 0 never */
  uint32_t stamp;          /* of that request */
  uint32_t tries;
  struct neap_timer ask;
};

struct peer {
  struct neap_peer *peer; /* NULL: not in use; not counted, the layer holds it */
  uint8_t form;           /* of the headers that the peer sends */
  bool member;            /* of the last view */
  bool held;
  uint64_t left;            /* when it stopped to be one, or was first seen */
  uint64_t rtt, rtt_spread; /* smoothed round trip and its mean deviation; 0: not measured */
  struct out out;
  struct in in;
  struct neap_timer age;
};

struct unicast {
  struct neap_layer layer;
  /* params */
  uint64_t retransmission, window_messages, window_bytes, xmit_interval, gap_delay, tail_delay,
    ack_delay;
  uint64_t ack_threshold, max_xmit_req_size, sync_min_interval, early_max, first_seqno, first_conn;
  uint64_t conn_expiry_timeout, conn_close_timeout, max_retransmit_time;
  /* gauges */
  uint64_t unacked, unacked_bytes, waiting, early, senders, receivers;
  /* counters */
  uint64_t sent, received, looped, acks_sent, acks_received, xmits, tail_xmits;
  uint64_t requests_sent, requests_received, firsts_sent, firsts_received, firsts_answered;
  uint64_t twice, stale, full, far, early_dropped, resets, closed, forgotten, moved, bad;

  uint32_t stamp;               /* of the last report or request, to anybody */
  uint64_t handed, handed_turn; /* bytes handed up in this turn: not in the inboxes yet */
  struct neap_msg *delivered;   /* stands in a window for what was handed up out of order */
};

NEAP_ADOPT(neap_uni_head, 0);
NEAP_ADOPT(neap_uni_own_head, 1);

static inline bool neap_after(uint64_t a, uint64_t b)
{
  return (int64_t)(a - b) > 0;
}

/* Of two connection ids of one sender: `a` came after `b`. */
static inline bool neap_conn_newer(uint16_t a, uint16_t b)
{
  unsigned ahead = (unsigned)(a - b) % NEAP_UNI_CONNS;
  return ahead >= 1 && ahead < NEAP_UNI_CONNS / 2;
}

static inline bool neap_tagged(const struct neap_msg *m)
{
  return (m->flags & (NEAP_RSVP | NEAP_RSVP_NB)) != 0;
}

/* Starts the timer, or moves it earlier.  What background work started is started anew by work that
 * is not: the simulator must not settle over it. */
static inline void neap_arm(struct neap_layer *layer, struct neap_timer *timer, uint64_t delay)
{
  if (timer->armed && timer->background_now && !timer->background &&
      !neap_world_of(layer)->background) {
    uint64_t left = timer->at > neap_now(layer) ? timer->at - neap_now(layer) : 0;
    neap_timer_start(layer, timer, left < delay ? left : delay);
  }
  neap_timer_sooner(layer, timer, delay);
}

/* A round trip that nobody has measured is taken for three milliseconds: a guess, for networks on
 * which one is rarely longer. */
static inline uint64_t neap_unicast_trip(const struct peer *p)
{
  return p->rtt ? p->rtt : NEAP_MS(3);
}

/* ---- life.c ---- */

/* The state of a peer, made ready when new. */
struct peer *neap_unicast_peer(struct unicast *u, struct neap_peer *peer);
/* Gives the sending half an entry, under the next connection id. */
void neap_unicast_open_out(struct unicast *u, struct peer *p);
/* Ends it; what was not reported is lost, and RESET is raised if `tell`. */
void neap_unicast_close_out(struct unicast *u, struct peer *p, bool tell);
/* Gives the receiving half a window that begins after `at`, or where memory says it is further. */
void neap_unicast_open_in(struct unicast *u, struct peer *p, uint16_t conn, uint64_t at);
/* Everything up to `at` was reported by an earlier life of this window: go on behind it. */
void neap_unicast_move_in(struct unicast *u, struct peer *p, uint64_t at);
/* Forgets the window, now or as soon as everything handed up is released. */
void neap_unicast_forget(struct unicast *u, struct peer *p);
/* Drops window, memory and early messages at once. */
void neap_unicast_drop_in(struct unicast *u, struct peer *p);
void neap_unicast_drop_early(struct unicast *u, struct peer *p);
void neap_unicast_view(struct unicast *u);
/* Sets the timer of age by what is due next. */
void neap_unicast_plan(struct unicast *u, struct peer *p);
void neap_unicast_gone(struct neap_layer *layer, struct neap_peer *peer, void *state);
/* One more sample of a round trip. */
void neap_unicast_rtt(struct peer *p, uint64_t sample);
/* A message of this layer with a UNICAST3 header of that type. */
struct neap_msg *neap_unicast_own(
  struct unicast *u, struct peer *p, struct neap_uni_head head, unsigned flags);

/* ---- send.c ---- */

/* Numbers and keeps a message that goes down. */
void neap_unicast_send(struct unicast *u, struct peer *p, struct neap_msg *m);
/* The same for one to this member itself; what rises is put into `up`. */
void neap_unicast_loop(
  struct unicast *u, struct peer *p, struct neap_msg *m, struct neap_batch *up);
/* A message that is not kept passes: its charge is done with. */
void neap_unicast_unkept(struct unicast *u, struct neap_msg *m);
/* Everything up to `seqno` is done with. */
void neap_unicast_purge(struct unicast *u, struct peer *p, uint64_t seqno);
void neap_unicast_acked(
  struct unicast *u, struct peer *p, uint16_t conn, uint32_t stamp, uint64_t seqno);
void neap_unicast_asked(struct unicast *u, struct peer *p, const struct neap_msg *m);
void neap_unicast_first_asked(struct unicast *u, struct peer *p, uint32_t stamp);
void neap_unicast_publish(struct unicast *u, struct peer *p);
/* Sends the highest again, now. */
void neap_unicast_resend_tail(struct unicast *u, struct peer *p);
/* Starts the timer of the tail if something is not reported and the peer may be resent to. */
void neap_unicast_watch_tail(struct unicast *u, struct peer *p);
neap_fire neap_unicast_tail;

/* ---- receive.c ---- */

/* Takes a whole batch that is in order as it is, for passing up; false: message by message. */
bool neap_unicast_run(struct unicast *u, struct peer *p, struct neap_batch *batch);
/* A message with a number; what can rise is put into `up`. */
void neap_unicast_data(
  struct unicast *u, struct peer *p, struct neap_msg *m, struct neap_batch *up);
void neap_unicast_empty(
  struct unicast *u, struct peer *p, const struct neap_uni_own_head *own, struct neap_batch *up);
void neap_unicast_none(struct unicast *u, struct peer *p, uint32_t stamp);
/* Sets the timers of gaps by what is missing. */
void neap_unicast_watch_gaps(struct unicast *u, struct peer *p);
/* The applied position moved. */
void neap_unicast_applied(struct unicast *u, struct peer *p);
void neap_unicast_report(struct unicast *u, struct peer *p);
/* Asks for every gap, now. */
void neap_unicast_ask_gaps(struct unicast *u, struct peer *p);
neap_fire neap_unicast_gap_due, neap_unicast_repeat_due, neap_unicast_report_due,
  neap_unicast_ask_due;

/* ---- show.c ---- */

extern const struct neap_op neap_unicast_ops[];

#endif
