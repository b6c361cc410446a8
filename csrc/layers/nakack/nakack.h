/* nakack, private: what the parts of the layer share.
 *
 *   send.c     numbers own multicasts, keeps them, purges them, publishes the room
 *   receive.c  puts what arrives in order and hands it up
 *   pace.c     how much may be on its way
 *   gaps.c     asks for what is missing          resend.c  answers those who ask
 *   tail.c     announces the last seqno          report.c  says and hears who has what
 *   mode.c     the toggle                        digest.c  digests and holds
 *   views.c    streams come and go               show.c    what the prompt shows
 *
 * "Bound" is the window's limit in bytes and messages; a "share" is an eighth of it. */

#ifndef NEAP_LAYERS_NAKACK_H
#define NEAP_LAYERS_NAKACK_H

#include "core/headers.h"
#include "core/layer.h"
#include "core/seqnos.h"
#include "core/window.h"

enum {
  NAKACK_NAK, /* receivers find a loss at the tail by announcements, `stable` frees */
  NAKACK_ACK, /* the sender announces until all have reported, reports free */
};

enum {
  NAKACK_BOUND_MAX = 1 << 18,  /* messages; a ring of that size takes two megabytes */
  NAKACK_WINDOW_MAX = 1 << 20, /* seqnos in a window: twice the bound, and layers' own */
  NAKACK_HOLDS = 32,           /* digests given out and not yet installed by all */
  NAKACK_RECENT = 1024,        /* answered seqnos that are remembered for their hold-off */
  NAKACK_MENDED = 64,          /* answers that are remembered of each stream */
  NAKACK_ROUND = 2,            /* requests to one sender at once; the rest at the next round */
  NAKACK_OPEN = 2048,          /* seqnos of a stream that may be asked for and not here */
  NAKACK_MARKS = 16,           /* announcements that not all have answered, of the last ones */
  NAKACK_ROUNDS = 32,          /* of requests of one stream, each repeated for itself */
  NAKACK_CROWD = 32,           /* members from which on requests go to all, if not told otherwise */
};

/* use_mcast_xmit_req */
enum { NAKACK_ASK_ONE, NAKACK_ASK_ALL, NAKACK_ASK_AUTO };

/* What was asked for at one time: holes in from .. to. */
struct round {
  uint64_t from, to;
  uint64_t pause, due; /* before it is asked for again, and when that is */
  uint32_t count;      /* so many holes; 0: somebody else asked, or nobody yet */
};

/* One member: its stream as it comes in, and what it has of ours. */
struct stream {
  struct neap_peer *peer;
  bool known; /* its window is there */
  struct neap_window win;
  struct neap_receipts *run;
  uint64_t cap;     /* holds: what may be reported at most */
  uint64_t said;    /* the most that was ever told of it, in a report or a digest */
  uint64_t back_at; /* rewound for a state: so far it had been applied; 0: it was not */
  uint64_t behind;  /* bytes that wait for what is missing, as told to those above */
  uint64_t kept;    /* bytes of bodies that are kept for others though they have risen */
  uint32_t epoch;   /* of its mode, as consumed */
  uint8_t mode;

  /* what is missing */
  uint64_t hearsay;                   /* what `stable` says somebody has; believed a little later */
  uint64_t told;                      /* the highest seqno somebody said there is */
  uint64_t seen;                      /* what `gap` will ask for when it is due */
  uint64_t asked;                     /* holes up to here were asked for once at least */
  struct round rounds[NAKACK_ROUNDS]; /* `again` is for the one that is due first */
  uint32_t round_count;
  uint32_t open, most;            /* asked for and not here; so many may be */
  uint64_t hole, hole_at;         /* one that is measured: noticed then; 0: none is */
  uint64_t rtt;                   /* from asking to getting; 0 unknown */
  uint64_t probe, probe_at;       /* the seqno that measures it, and when it was asked for */
  uint64_t mended[NAKACK_MENDED]; /* what answers brought, by seqno: the original may come too */
  uint8_t patience;               /* gap_delay is doubled so often: answers were needless */
  uint8_t useful;                 /* answers since the last needless one */
  uint8_t eager, calm;            /* repeats are doubled so often: there were two answers; since */
  bool twice;                     /* there were, since `again` was started */
  bool stopped; /* what is missing is gone at its sender: a view or digest helps */
  bool full;    /* something was dropped because the application is behind */
  struct neap_timer gap, again;

  /* what we say */
  uint64_t reported;  /* the last position that was reported */
  uint64_t report_at; /* report at once when this is reached; 0: nowhere */
  uint64_t fresh;     /* bytes handed up since the last report */
  bool asked_report;  /* the next report is wanted even if it says nothing new */
  struct neap_timer report;

  /* what it says about our stream */
  bool member; /* it is in the view: what it has counts */
  bool heard;  /* it has reported since it came */
  uint64_t have;
  uint64_t have_at; /* when that moved last */
  uint64_t got;     /* the highest that came to it, whatever it lacks below */
  uint64_t window;  /* bytes that it can take of one stream; 0: it has not said */
  bool mute;        /* it takes no part in stability rounds, it said */
};

/* An answered seqno, for the hold-off. */
struct answer {
  uint64_t seqno, at;
  uint32_t stream;        /* slot + 1 of its sender */
  uint32_t first, second; /* slots + 1 of those who got it to themselves */
  bool all;               /* it went to everybody */
};

struct hold {
  uint64_t number;
  struct neap_digest *digest; /* NULL: the place is free */
};

/* An announcement: what was sent up to `seqno` took so many bytes at the gate. */
struct mark {
  uint64_t seqno, at;
  uint64_t sent; /* messages up to there */
};

struct nakack {
  struct neap_layer layer;
  /* params */
  uint64_t retransmission, mode_timeout, xmit_interval, announce_delay, gap_delay, ack_delay;
  uint64_t window_bytes, pace_bytes, window_messages;
  uint64_t max_times, announce_bytes, list_max, early_max;
  uint64_t use_mcast_xmit_req, first_seqno;
  bool use_mcast_xmit, xmit_from_random_member, resend_last_seqno, force;
  /* gauges */
  uint64_t current_seqno, current_low, mode_pending, window_used, window_stored, waiting,
    repair_time;
  uint64_t early_count, holds_count, copies;
  /* counters */
  uint64_t sent, received, purged, announced, announcements, toggles, modes, settled;
  uint64_t reqs_sent, reqs_received, asked, rsps_sent, rsps_received, rsps_mcast, rsps_others,
    spared, not_found;
  uint64_t repaired, duplicates, needless, purged_sent, purged_received;
  uint64_t dropped_full, dropped_far, dropped_early, strangers, malformed;
  uint64_t acks_sent, acks_received, acks_foreign, stable_wanted;

  struct stream *own;
  uint64_t bound_bytes; /* window_bytes, or what `auto` means: a gauge, too */
  uint64_t pace_most;   /* pace_bytes, or what `auto` means, heads included */
  uint64_t pace_bound;  /* so much of it may be on its way: a gauge, too */
  uint64_t buffer;      /* what this member can take of one stream */
  uint64_t votes_at;    /* when it looked whether its stack votes in rounds of `stable` */
  uint8_t votes;        /* as in the header WINDOW */
  uint8_t mode;         /* of the own stream */
  uint32_t epoch;
  bool mode_due; /* the others have not been told: there was nobody to follow */

  bool awaits; /* a state: what has risen counts as stored, and is reported as such */
  bool caught; /* it was said that all is stored which was reported before */

  /* who has what of the own stream */
  uint64_t others;                 /* the least that any other member has; UINT64_MAX when alone */
  uint32_t unheard;                /* members of ours that have not reported since they came */
  bool all_ours;                   /* every member of the view is Neap's */
  struct neap_gate_position freed; /* charges given back since the channel began */

  /* what is on its way */
  uint64_t paced;      /* bytes at the gate up to which all is there, as far as marks tell */
  uint64_t paced_sent; /* messages that had been sent then */
  struct mark marks[NAKACK_MARKS];
  uint32_t mark_first, mark_count;
  uint64_t mean_len; /* of bodies, as last seen; 0: nothing was sent, or nothing but heads */
  struct neap_gate_position pace_room; /* what may be on its way, bodies of that size */

  /* toggle */
  uint64_t turn; /* seqno of the newest MODE that not all have reached; 0: none */
  bool waited;   /* somebody waits for SETTLED */
  struct neap_timer mode_timer;

  /* tail */
  uint64_t owing_at;            /* since then not everybody has everything; 0: all have */
  uint64_t last_sent, mean_gap; /* when; smoothed, 0 at the beginning of a burst */
  uint64_t rounds;              /* announcements since the last send */
  uint64_t bytes_since;         /* sent since bytes last brought about an announcement */
  uint64_t pressed_at;          /* seqno at which room was last asked for */
  uint64_t pressed_bytes;       /* the same place in bytes at the gate */
  struct neap_timer tail;
  struct neap_timer hearsay;

  struct neap_batch early;      /* arrived before the first view */
  struct neap_timer room;       /* looks whether the application has caught up */
  uint64_t handed, handed_turn; /* bytes handed up in this turn: not in the inboxes yet */
  struct hold holds[NAKACK_HOLDS];
  struct answer recent[NAKACK_RECENT];
};

NEAP_ADOPT(neap_nak_head, 0);
NEAP_ADOPT(neap_nak_own_head, 1);

static inline bool nakack_after(uint64_t a, uint64_t b)
{
  return (int64_t)(a - b) > 0;
}

static inline uint64_t nakack_least(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

static inline uint64_t nakack_most(uint64_t a, uint64_t b)
{
  return a > b ? a : b;
}

/* The form that data, requests and reports of a stream in this mode have. */
static inline uint8_t nakack_form(uint8_t mode)
{
  return mode == NAKACK_ACK ? NEAP_NAK_FORM_4 : NEAP_NAK_FORM_2;
}

/* Where this member is in a stream: what it has applied.  One that waits for a state applies
 * nothing; what has risen is kept above until the state is there, so it counts (protocols 1). */
static inline uint64_t nakack_reached(const struct nakack *n, const struct stream *s)
{
  return n->awaits && s != n->own ? s->win.hd : s->run->applied;
}

/* What may be said of it: not beyond what a digest promised. */
static inline uint64_t nakack_position(const struct nakack *n, const struct stream *s)
{
  return nakack_least(nakack_reached(n, s), s->cap);
}

/* Something is missing of this stream. */
static inline bool nakack_lacks(const struct stream *s)
{
  return nakack_after(s->told, s->win.hd);
}

/* send.c */
void nakack_send(struct nakack *n, struct neap_batch *batch);
void nakack_number(struct nakack *n, struct neap_msg *m, struct neap_batch *loop);
void nakack_purge(struct nakack *n);
void nakack_publish(struct nakack *n);
/* The window's bound may be another one now. */
void nakack_size(struct nakack *n);
bool nakack_full(const struct nakack *n);
bool nakack_pressed(const struct nakack *n);
/* Says of a tagged message that it was SENT or is STORED. */
void nakack_tell(struct nakack *n, struct neap_msg *m, struct neap_event event);

/* pace.c */
/* Bytes that are on their way to somebody, and how far the gate may open for their sake. */
uint64_t nakack_flight(const struct nakack *n);
struct neap_gate_position nakack_pace_horizon(struct nakack *n);
/* Bodies have become so much larger or smaller that the gate has to stand elsewhere. */
bool nakack_pace_moved(const struct nakack *n);
/* A good part of what may be on its way is: time to learn what has come. */
bool nakack_pace_pressed(const struct nakack *n);
/* The end of the stream is announced now. */
void nakack_mark(struct nakack *n);
/* Of our stream something has come to member `s`, up to `seqno`. */
void nakack_got(struct nakack *n, struct stream *s, uint64_t seqno);
/* More has come to somebody, or somebody is no longer waited for. */
void nakack_pace(struct nakack *n);

/* receive.c */
void nakack_receive(struct nakack *n, struct neap_batch *batch);
void nakack_early(struct nakack *n);     /* the first view is there */
void nakack_caught_up(struct nakack *n); /* the application has taken something */
/* Copies up to `to` are needed no more. */
void nakack_drop_copies(struct nakack *n, struct stream *s, uint64_t to);
neap_fire nakack_room_fire;

/* gaps.c */
/* There is a message of this seqno at least; `soon`: its delay is over, only the spread remains. */
void nakack_notice(struct nakack *n, struct stream *s, uint64_t seqno, bool soon);
void nakack_watch(struct nakack *n, struct stream *s, bool soon);
/* Less is missing than before, perhaps nothing. */
void nakack_moved(struct nakack *n, struct stream *s);
/* Something came: perhaps the hole that is measured. */
void nakack_filled(struct nakack *n, struct stream *s);
void nakack_ask_now(struct nakack *n, struct stream *s);
/* An answer came and was new. */
void nakack_mended(struct nakack *n, struct stream *s, uint64_t seqno);
/* A message came that was there; `again`: as an answer. */
void nakack_twice(struct nakack *n, struct stream *s, uint64_t seqno, bool again);
/* Another member asked for from .. to of this stream. */
void nakack_overheard(struct nakack *n, struct stream *s, uint64_t from, uint64_t to);
/* Everything up to `low` is gone at its sender. */
void nakack_gone(struct nakack *n, struct stream *s, uint64_t low);
/* xmit_interval was set: repair stops, or goes on. */
void nakack_resume(struct nakack *n);
neap_fire nakack_gap_fire, nakack_again_fire;

/* resend.c */
void nakack_requested(struct nakack *n, struct neap_msg *m, const struct neap_nak_head *head);

/* tail.c */
void nakack_tail_sent(struct nakack *n, uint64_t bytes);
void nakack_tail_view(struct nakack *n);
void nakack_tail_anew(struct nakack *n);
void nakack_tail_check(struct nakack *n);
bool nakack_wants_report(const struct nakack *n);
void nakack_announce(struct nakack *n);
void nakack_announced(struct nakack *n, struct stream *s, uint64_t seqno, bool wants);
bool nakack_tail_due(const struct nakack *n);
neap_fire nakack_tail_fire;

/* report.c */
void nakack_applied(struct nakack *n, struct stream *s);
void nakack_report(struct nakack *n, struct stream *s);
void nakack_windowed(struct nakack *n, struct stream *s, const struct neap_nak_own_head *own);
/* Member `s` has our stream up to `seqno`. */
void nakack_heard(struct nakack *n, struct stream *s, uint64_t seqno);
void nakack_stable(struct nakack *n, const struct neap_digest *digest);
/* The least that the others have, and who has not spoken. */
void nakack_survey(struct nakack *n);
neap_fire nakack_report_fire, nakack_hearsay_fire;

/* mode.c */
void nakack_toggle(struct nakack *n);
void nakack_mode_due(struct nakack *n);
/* Who has not followed yet; tells who waits when all have. */
void nakack_follow(struct nakack *n);
/* A MODE was reached in order. */
void nakack_consume(struct nakack *n, struct stream *s, struct neap_msg *m, uint64_t seqno);
neap_fire nakack_mode_fire;

/* digest.c */
struct neap_digest *nakack_digest(struct nakack *n, struct neap_peer *one);
void nakack_digest_set(struct nakack *n, const struct neap_event *event);
/* Is everything applied that was reported? */
bool nakack_whole(const struct nakack *n);
void nakack_hold(struct nakack *n, uint64_t number, struct neap_digest *digest);
void nakack_release(struct nakack *n, uint64_t number);
/* Of a member that waits for a state: is there what it had reported before?  And: it waits no more,
 * because the state is there or will not come. */
void nakack_catch(struct nakack *n);
void nakack_risen(struct nakack *n);
void nakack_await_over(struct nakack *n, bool aborted);
uint64_t nakack_cap(const struct nakack *n, const struct neap_peer *peer);

/* views.c */
void nakack_view(struct nakack *n, const struct neap_view *view);
struct stream *nakack_start(struct nakack *n, struct neap_peer *peer, uint64_t at);
void nakack_forget(struct nakack *n, struct stream *s);

/* show.c */
int nakack_windows(struct neap_layer *layer, const char *argument, char *out);
/* Answers HELD_BACK: who does not have all of our stream, as far as we know. */
void nakack_held_back(const struct nakack *n, struct neap_event *event);
void nakack_check(const struct neap_layer *layer);

#endif
