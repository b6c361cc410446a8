/* unicast: what the parts of the layer share; what it promises stands in layers/unicast.c.
 *
 *     send.c      the sending half: numbers, keeps, frees what is reported
 *     resend.c    its end: what goes again, by itself and when asked
 *     receive.c   the receiving half: orders, hands up
 *     gaps.c      asks for what is missing        report.c  says what is applied
 *     sync.c      halves that find each other again
 *     mode.c      from ack to nak and back
 *     life.c      connections begin, end, are remembered; views
 *     age.c       what goes by itself, and when
 *     show.c      what the prompt can ask and do  check.c   what must always be true */

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
  NEAP_UNI_SYNC = 5,
  NEAP_UNI_SYNC_OK = 6,
  NEAP_UNI_SYNC_ACK = 7,
  NEAP_UNI_EPOCH = 8,
};

/* Who finds a loss at the tail, and what frees. ORDER: the wire's, and the words of the choice. */
enum neap_uni_mode {
  NEAP_UNI_ACK_MODE, /* the sender, when no report comes; each message is reported soon */
  NEAP_UNI_NAK_MODE, /* the receiver, by a report now and then; the sender if none comes at all */
};

/* How halves find each other again: by timestamps, or by an answer under a new connection id. */
enum neap_uni_sync { NEAP_UNI_TIMESTAMP, NEAP_UNI_HANDSHAKE };

/* A SYNC of who knows of no connection. */
enum { NEAP_UNI_NO_CONN = -1 };

/* Changes of a connection's mode that its receiver has not reported: they take places in the
 * window beside its bound, and a script can make many. */
enum { NEAP_UNI_TURNS = 1024 };

/* The sending half of a connection.  window.low: everything up to here was reported;
 * window.high: the last number given. */
struct out {
  struct neap_window window;
  uint16_t conn;  /* its id; stays when the entry is closed, the next one is one more */
  uint16_t base;  /* the first id of this window; a handshake gives it another one */
  uint8_t mode;   /* enum neap_uni_mode */
  uint32_t epoch; /* counts the changes of mode of this window */
  uint64_t turn;  /* seqno of the newest MODE that is not reported; 0: none */
  uint32_t turns; /* MODEs since there was none */
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
  bool syncing;        /* a handshake was answered, and the peer has not said that it knows */
  uint32_t nonce;      /* of the last handshake; 0 none */
  uint64_t sync_until; /* when it is given up */
  struct neap_gate_position taken, freed; /* charges that came down; that are done with */
  struct neap_timer tail;
};

/* The receiving half.  window.hd: everything up to here was handed up. */
struct in {
  struct neap_window window;
  struct neap_receipts *run; /* also this member's own, for messages to itself */
  uint16_t conn, base;
  uint8_t mode;
  uint32_t epoch; /* of its mode, as consumed */
  bool open;
  bool closing;             /* to be forgotten as soon as everything handed up is released */
  bool ended;               /* and the sender has: what waits for a gap waits in vain */
  bool halted;              /* the peer is in no view and silent: nothing is asked of it */
  uint64_t heard;           /* highest known to exist: stored, or dropped for lack of room */
  uint64_t asked;           /* highest that was asked for, or looked at */
  uint64_t reported;        /* as the last report said */
  uint64_t report_at;       /* report at once when this is applied; 0: nowhere */
  uint64_t risen;           /* bytes handed up since then */
  uint64_t pause;           /* before gaps are asked for again */
  uint64_t repaired;        /* hd when they were asked for */
  uint64_t probe, probe_at; /* the gap whose round trip is measured; 0 none */
  uint64_t used;            /* when something last came */
  struct neap_timer gap, repeat, report;

  bool remembered; /* the last entry that was forgotten: */
  uint16_t old_conn;
  uint8_t old_mode;
  uint32_t old_epoch;
  uint64_t old_applied, old_until;

  struct neap_batch early; /* came without an entry to go to */
  bool syncing;            /* where the window begins is asked for, also if nothing came early */
  uint64_t asked_first;    /* when it was last asked for; 0 never */
  uint32_t stamp;          /* of that request */
  uint32_t nonce;          /* of the handshake that is on its way; 0 none */
  uint32_t synced;         /* of the last one that was answered; 0 none */
  uint32_t tries;
  struct neap_timer ask;
};

struct peer {
  struct neap_peer *peer; /* NULL: not in use; not counted, the layer holds it */
  uint8_t form;           /* of the headers that the peer sends */
  uint8_t mode;           /* of what is sent there; the attribute's, or as the prompt said */
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
  uint64_t retransmission, mode_timeout, sync;
  uint64_t window_messages, window_bytes, xmit_interval, gap_delay, tail_delay, ack_delay;
  uint64_t stable_interval, ack_threshold, max_xmit_req_size, sync_min_interval, early_max;
  uint64_t first_seqno, first_conn, first_stamp;
  uint64_t conn_expiry_timeout, conn_close_timeout, max_retransmit_time;
  /* gauges */
  uint64_t unacked, unacked_bytes, waiting, early, senders, receivers, mode_pending;
  /* counters */
  uint64_t sent, received, looped, acks_sent, acks_received, xmits, tail_xmits;
  uint64_t requests_sent, requests_received, firsts_sent, firsts_received, firsts_answered;
  uint64_t syncs_sent, syncs_received, toggles, toggles_followed, toggles_settled;
  uint64_t twice, stale, full, far, early_dropped, resets, closed, forgotten, moved, bad;

  uint64_t bound_bytes; /* window_bytes, or what auto means */
  bool waited;          /* somebody waits for SETTLED */
  struct neap_timer mode_timer;
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

/* `conn` is one of the ids that a window had which began as `base` and is `last` now. */
static inline bool neap_conn_within(uint16_t base, uint16_t last, uint16_t conn)
{
  return (unsigned)(conn - base) % NEAP_UNI_CONNS <= (unsigned)(last - base) % NEAP_UNI_CONNS;
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

/* What a first, an EMPTY and a SYNC-OK say of a window: it begins after `at`. */
struct start {
  uint16_t conn, base;
  uint8_t mode;
  uint32_t epoch;
  uint64_t at;
};

/* ---- life.c ---- */

/* The state of a peer, made ready when new. */
struct peer *neap_unicast_peer(struct unicast *u, struct neap_peer *peer);
/* Gives the sending half an entry, under the next connection id. */
void neap_unicast_open_out(struct unicast *u, struct peer *p);
/* Ends it; if something was not reported that is lost, and RESET is raised.  `tell`: the peer is
 * told. */
void neap_unicast_close_out(struct unicast *u, struct peer *p, bool tell);
/* The window of this connection begins there, says its sender. */
void neap_unicast_begin(
  struct unicast *u, struct peer *p, const struct start *start, struct neap_batch *up);
/* An entry or a memory says that this connection is over. */
bool neap_unicast_over(const struct in *in, uint16_t conn);
/* Forgets the window, now or as soon as that can do no harm. */
void neap_unicast_forget(struct unicast *u, struct peer *p);
/* Drops window, memory and early messages at once. */
void neap_unicast_drop_in(struct unicast *u, struct peer *p);
/* Drops early messages, and asks no more. */
void neap_unicast_drop_early(struct unicast *u, struct peer *p);
void neap_unicast_view(struct unicast *u);
void neap_unicast_gone(struct neap_layer *layer, struct neap_peer *peer, void *state);
/* One more sample of a round trip. */
void neap_unicast_rtt(struct peer *p, uint64_t sample);
/* A message of this layer with a UNICAST3 header of that type. */
struct neap_msg *neap_unicast_own(
  struct unicast *u, struct peer *p, struct neap_uni_head head, unsigned flags);

/* ---- age.c ---- */

/* Sets the timer of age by what is due next. */
void neap_unicast_plan(struct unicast *u, struct peer *p);
/* What age would do now: forgets the receiving half, closes the sending one if all is reported. */
void neap_unicast_expire(struct unicast *u, struct peer *p);
neap_fire neap_unicast_age_due;

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
/* The peer has applied everything up to `seqno`. */
void neap_unicast_reported(struct unicast *u, struct peer *p, uint64_t seqno);
/* It says so; false: it is not believed. */
bool neap_unicast_acked(
  struct unicast *u, struct peer *p, uint16_t conn, uint32_t stamp, uint64_t seqno);
/* The same in nak mode, which also says what was received. */
void neap_unicast_stable(struct unicast *u, struct peer *p, const struct neap_uni_own_head *own);
/* A timestamp counts once, and only if it is newer than all before it. */
bool neap_unicast_newer(struct unicast *u, struct out *o, uint32_t stamp);
void neap_unicast_publish(struct unicast *u, struct peer *p);

/* ---- resend.c ---- */

/* Somebody asks for some of the messages. */
void neap_unicast_asked(struct unicast *u, struct peer *p, const struct neap_msg *m);
/* Says where the window begins: the lowest message that is not reported, or that there is none. */
void neap_unicast_answer(struct unicast *u, struct peer *p, uint32_t stamp);
/* A message of this layer with an own header about the sending half. */
void neap_unicast_say(
  struct unicast *u, struct peer *p, enum neap_uni_own_type type, uint32_t stamp, uint32_t nonce);
/* Sends the highest again, now. */
void neap_unicast_resend_tail(struct unicast *u, struct peer *p);
/* Starts the timer of the tail if something is not reported and the peer may be resent to. */
void neap_unicast_watch_tail(struct unicast *u, struct peer *p);
/* Nak mode, and the window is half full: reports are wanted as in ack mode. */
bool neap_unicast_pressed(const struct unicast *u, const struct out *o);
neap_fire neap_unicast_tail;

static inline bool neap_unicast_unreported(const struct out *o)
{
  return o->open && o->window.low != o->window.high;
}

/* ---- receive.c ---- */

/* Takes a whole batch that is in order as it is, for passing up; false: message by message. */
bool neap_unicast_run(struct unicast *u, struct peer *p, struct neap_batch *batch);
/* A message with a number; what can rise is put into `up`. */
void neap_unicast_data(
  struct unicast *u, struct peer *p, struct neap_msg *m, struct neap_batch *up);
void neap_unicast_store(
  struct unicast *u, struct peer *p, struct neap_msg *m, uint64_t seqno, struct neap_batch *up);
/* Hands up what is in order; `seqno` is the one that was just stored. */
void neap_unicast_release(struct unicast *u, struct peer *p, uint64_t seqno, struct neap_batch *up);

/* ---- gaps.c ---- */

/* Sets the timers of gaps by what is missing. */
void neap_unicast_watch_gaps(struct unicast *u, struct peer *p);
/* Asks for every gap, now. */
void neap_unicast_ask_gaps(struct unicast *u, struct peer *p);
neap_fire neap_unicast_gap_due, neap_unicast_repeat_due;

/* ---- report.c ---- */

/* The applied position moved. */
void neap_unicast_applied(struct unicast *u, struct peer *p);
neap_fire neap_unicast_report_due;

/* ---- sync.c ---- */

/* A message that has no entry to go to: keeps it, and asks where its window begins. */
void neap_unicast_early(struct unicast *u, struct peer *p, struct neap_msg *m);
/* The question was answered: what came early goes in, if it belongs to the entry. */
void neap_unicast_drain(struct unicast *u, struct peer *p, struct neap_batch *up);
/* Asks now, whatever is known. */
void neap_unicast_sync(struct unicast *u, struct peer *p);
/* What arrives, by the header's type. */
void neap_unicast_first_asked(struct unicast *u, struct peer *p, uint32_t stamp);
void neap_unicast_empty(
  struct unicast *u, struct peer *p, const struct neap_uni_own_head *own, struct neap_batch *up);
void neap_unicast_none(struct unicast *u, struct peer *p, uint32_t stamp);
void neap_unicast_sync_asked(
  struct unicast *u, struct peer *p, const struct neap_uni_own_head *own);
void neap_unicast_sync_ok(
  struct unicast *u, struct peer *p, const struct neap_uni_own_head *own, struct neap_batch *up);
void neap_unicast_sync_ack(struct unicast *u, struct peer *p, const struct neap_uni_own_head *own);
neap_fire neap_unicast_ask_due;

/* ---- mode.c ---- */

/* The mode that messages to this peer are sent in; of who could not follow: ack. */
enum neap_uni_mode neap_unicast_mode(const struct peer *p);
/* False: too many changes are on the way to this peer. */
static inline bool neap_unicast_may_toggle(const struct peer *p)
{
  return !p->out.open || p->out.turns < NEAP_UNI_TURNS;
}

/* Everything that is sent to this peer, in this mode from now on. */
void neap_unicast_toggle(struct unicast *u, struct peer *p, enum neap_uni_mode mode);
/* The attribute was set. */
void neap_unicast_toggle_all(struct unicast *u);
/* Who has not followed yet; tells who waits when all have. */
void neap_unicast_follow(struct unicast *u);
/* Says base and epoch beside a first. */
void neap_unicast_mark(struct unicast *u, struct peer *p, struct neap_msg *m);
/* A MODE was reached in order. */
void neap_unicast_consume(struct unicast *u, struct peer *p, struct neap_msg *m, uint64_t seqno);
/* The higher epoch wins. */
void neap_unicast_adopt(struct unicast *u, struct peer *p, uint32_t epoch, uint8_t mode);
/* It goes through the window and ends there. */
bool neap_unicast_is_mode(const struct unicast *u, const struct neap_msg *m);
neap_fire neap_unicast_mode_due;

/* ---- show.c, check.c ---- */

extern const struct neap_op neap_unicast_ops[];
void neap_unicast_check(const struct neap_layer *layer);

#endif
