/* gms, inside: what its parts share.
 *
 *   join.c    how a member comes in: search, ask, first view; alone and looking for others
 *   coord.c   how views are made: requests, digest and hold, order of sends, acks
 *   leave.c   how a member goes, and how the leaving ones agree who tells whom
 *   view.c    how views come in: read, judged, installed; the excluded
 *   policy.c  the order of the members of a new view, which the application may choose
 *   ops.c     what can be asked by hand
 *   names.c   what rises waits until the members of a new view have names */

#ifndef NEAP_LAYERS_GMS_H
#define NEAP_LAYERS_GMS_H

#include "core/headers.h"
#include "core/layer.h"
#include "core/payload.h"

NEAP_ADOPT(neap_gms_head, 0);
NEAP_ADOPT(neap_gms_own_head, 1);

enum {
  GMS_HOLDS = 8,    /* join digests that wait for acks at the same time */
  GMS_FORMERS = 64, /* most that num_prev_mbrs can ask for */
  GMS_VIEWS = 32,   /* the same of num_prev_views */
  GMS_EARLY = 1024, /* unreliable messages that wait for a view's names */
  GMS_LINE = 192,
  GMS_DECISIONS = 32, /* the last ones are shown */
};

enum gms_state {
  GMS_IDLE,   /* before CONNECT */
  GMS_SEARCH, /* discovery runs */
  GMS_PAUSE,  /* somebody else has to begin, or nobody could be asked: again soon */
  GMS_ASKED,  /* JOIN_REQ is out */
  GMS_MEMBER,
  GMS_LEAVING, /* LEAVE_REQ is out, or waits for a view change to end */
  GMS_GONE,    /* left, failed, or on the way to a new life */
};

/* How the end of a view change is known. */
enum gms_view_ack { GMS_ACK_MESSAGE, GMS_ACK_RSVP };

/* One member, or one that asks to become one. */
struct gms_peer {
  struct neap_peer *peer;
  struct neap_link asks; /* in gms->joiners, in the order in which they asked */
  uint64_t acked;        /* number of the newest view it is known to have */
  uint64_t ahead;        /* it has said so of a view that I do not have yet; or 0 */
  uint64_t came;         /* number of the view that brought it; 0: nobody knows */
  uint32_t place;        /* in the next view, as the policy says, from 1; 0: where it is */
  bool joining;          /* in gms->joiners */
  bool answer;           /* a member that asks to join: the answer got lost */
  bool leaving;          /* said so, or is said to */
  bool suspected;
  bool apart;  /* went on in a view of others without us */
  bool voided; /* its join digest may be void: it has to come again */
};

/* A join digest that was handed out: nobody purges above it yet (protocols 2). */
struct gms_hold {
  uint64_t ticket; /* number in HOLD and RELEASE; 0: free */
  uint64_t view;   /* all its members must have this one, or a later one */
  uint64_t until;
  struct neap_digest *digest; /* counted: what was promised, once its view is made */
};

/* Somebody who was in a view, and the view that it was not in any more. */
struct gms_former {
  struct neap_addr addr, creator;
  uint64_t number;
};

struct gms {
  struct neap_layer layer;
  /* params */
  uint64_t join_timeout, max_join_attempts, retry_timeout, leave_timeout, ack_timeout;
  uint64_t hold_timeout, name_timeout, lone_timeout, members_max, former_max, history_max;
  uint64_t view_ack, policy_timeout;
  bool delta_views;
  /* gauges */
  char *view_text, *coordinator_text;
  uint64_t members, holds_out, joiners_waiting, install_time;
  bool is_coordinator;
  /* counters */
  uint64_t views, joins, leaves, exclusions, requests, retries, views_sent, deltas_sent;
  uint64_t acks, acks_missing, stale, foreign, unknown_reference, conflicts, voids, told;
  uint64_t malformed, replayed, unnamed, outside, early_dropped, searches_alone, takeovers;
  uint64_t installs, ordered, policy_failures, decided;

  uint8_t state;  /* enum gms_state */
  uint64_t seen;  /* highest view number ever met */
  uint64_t first; /* number of our first view */

  /* joining: join.c */
  uint64_t attempts;
  struct neap_peer *asked; /* counted: whom JOIN_REQ went to */
  uint64_t lone_pause;     /* until the next search of a lone coordinator */
  bool lone_search;        /* it runs */
  struct neap_timer step, lone;

  /* view changes: coord.c */
  struct neap_link joiners;
  bool gathering;  /* a digest was asked for */
  bool collecting; /* the current view waits for acks, and for the end of `sync` */
  uint64_t sync;   /* number of the view that all members are asked for; 0: none */
  uint64_t sent;   /* when the current view was, if it is mine */
  bool renumber;   /* somebody has this number under another view: make a new one */
  bool full_sent;  /* the last view was made by me and everybody has it, or can ask */
  uint64_t ticket; /* of the hold that is being made; last given */
  struct gms_hold holds[GMS_HOLDS];
  struct neap_timer kick, ack, limit;

  /* the order of members: policy.c */
  bool policy;                /* the application has one */
  bool placed;                /* it has been asked for the change that is to be made now */
  struct neap_view *proposed; /* counted: what it is being asked about; or NULL */
  uint64_t asks, policy_until;
  struct neap_timer policy_limit;

  /* leaving: leave.c */
  struct neap_peer *heir; /* counted: whom LEAVE_REQ went to */
  uint64_t leave_until;
  struct neap_timer leave;

  /* views: view.c */
  struct gms_former formers[GMS_FORMERS];
  uint64_t former_count;
  char history[GMS_VIEWS][GMS_LINE], decisions[GMS_DECISIONS][GMS_LINE];
  struct neap_addr before_creator; /* of the last view that I did not make */
  uint64_t before_number;
  uint64_t watch_pause;
  struct neap_timer watch;

  /* names: names.c */
  struct neap_view *naming; /* counted: waits for names before it rises */
  struct neap_batch early;  /* what rises after it */
  unsigned names_left;      /* times to ask before it rises without */
  bool risen;               /* the application has a view */
  struct neap_timer names;

  char view_buffer[NEAP_NAME_MAX + 24], coordinator_buffer[NEAP_ADDR_TEXT];
};

static inline struct neap_view *gms_view(const struct gms *g)
{
  return g->layer.view;
}

static inline struct neap_peer *gms_self(const struct gms *g)
{
  return neap_self(&g->layer);
}

/* ---- gms.c ---- */

struct gms_peer *gms_peer_of(struct gms *g, struct neap_peer *peer);

/* On its way out of the view: it does not count when somebody has to act. */
static inline bool gms_going(const struct gms_peer *p)
{
  return p && (p->leaving || p->suspected || p->apart || p->voided);
}
bool gms_peer_going(const struct gms *g, const struct neap_peer *peer);

/* The first member that is not on its way out: who has to make the next view.  NULL: nobody. */
struct neap_peer *gms_acting(const struct gms *g);
static inline bool gms_is_acting(const struct gms *g)
{
  return gms_acting(g) == gms_self(g);
}

/* A message of type `type` about `member` (NULL: nobody). */
struct neap_msg *gms_message(
  struct gms *g, struct neap_peer *to, unsigned flags, int type, const struct neap_addr *member);
void gms_send(struct gms *g, struct neap_msg *m);

void gms_suspect(struct gms *g, struct neap_peer *peer, const char *why);
extern const struct neap_op gms_ops[]; /* ops.c */

/* Stops every timer: it is over. */
void gms_stop(struct gms *g);

/* Tells that something was decided about `peer`, and why. */
void gms_decide(struct gms *g, struct neap_peer *peer, const char *format, ...)
  __attribute__((format(printf, 3, 4)));

/* ---- join.c ---- */

void gms_connect(struct gms *g);
void gms_found(struct gms *g, const struct neap_found *found);
void gms_join_step(struct neap_layer *layer, struct neap_timer *timer);
void gms_join_rsp(struct gms *g, struct neap_msg *m);
void gms_lone_step(struct neap_layer *layer, struct neap_timer *timer);
/* Starts or stops looking for others, as the view says. */
void gms_lone_update(struct gms *g);

/* ---- coord.c ---- */

void gms_join_req(struct gms *g, struct neap_msg *m, const struct neap_gms_head *head);
void gms_view_ack(struct gms *g, struct neap_msg *m);
/* Something waits for a view change: it is made in the next turn, if it is mine to make. */
void gms_kick(struct gms *g);
void gms_change(struct neap_layer *layer, struct neap_timer *timer);
void gms_digest(struct gms *g, struct neap_digest *digest);
void gms_acks_check(struct gms *g);
void gms_synced(struct gms *g, const struct neap_event *event);
void gms_acks_timeout(struct neap_layer *layer, struct neap_timer *timer);
void gms_holds_limit(struct neap_layer *layer, struct neap_timer *timer);
void gms_holds_drop(struct gms *g);
void gms_joiner_forget(struct gms *g, struct gms_peer *p);
void gms_joiners_forget(struct gms *g);

/* ---- policy.c ---- */

/* The members of the next view, in its order; at most NEAP_MEMBERS_MAX. */
uint32_t gms_next_members(struct gms *g, bool with_joiners, struct neap_peer **members);
/* Asks the application for that order, if it has to be asked; true: its answer comes later. */
bool gms_policy_ask(struct gms *g, bool with_joiners);
void gms_policy_ordered(struct gms *g, const struct neap_event *event);
void gms_policy_step(struct neap_layer *layer, struct neap_timer *timer);
/* What was asked does not matter any more. */
void gms_policy_drop(struct gms *g);

/* ---- leave.c ---- */

void gms_leave(struct gms *g);
void gms_leave_req(struct gms *g, struct neap_msg *m, const struct neap_gms_head *head);
void gms_leave_rsp(struct gms *g, struct neap_msg *m);
/* Finds whom to ask, when that may have changed. */
void gms_leave_ask(struct gms *g);
void gms_leave_step(struct neap_layer *layer, struct neap_timer *timer);
void gms_left(struct gms *g);
/* Why it is on its way out. */
const char *gms_why_going(const struct gms_peer *p);
/* Tells those who are not in the next view, of that number. */
void gms_answer_leavers(struct gms *g, uint64_t number);

/* ---- view.c ---- */

void gms_view_msg(struct gms *g, struct neap_msg *m);
/* "Show me your view, unless it is this one." */
void gms_ask_view(struct gms *g, struct neap_peer *to);
void gms_get_view(struct gms *g, struct neap_msg *m);
void gms_excluded(struct gms *g, struct neap_msg *m, const struct neap_gms_own_head *head);
/* Takes over one reference.  `digest` (not counted for) may be NULL. */
void gms_install(struct gms *g, struct neap_view *view, struct neap_digest *digest);
/* The view and its coordinator, as texts, once names are known or have changed. */
void gms_show(struct gms *g);
void gms_send_view(struct gms *g, struct neap_peer *to);
void gms_send_ack(struct gms *g, struct neap_peer *to);
/* Is `view` the one before without those who left, then those who joined? */
bool gms_is_delta(const struct neap_view *before, const struct neap_view *view);
/* Builds the view of these addresses; NULL: too many, or one twice. */
struct neap_view *gms_view_of(
  struct gms *g, const struct neap_addr *creator, uint64_t number, struct neap_slice members);
/* Tells one that it was excluded, by which view. */
void gms_tell_excluded(
  struct gms *g, struct neap_peer *peer, const struct neap_addr *creator, uint64_t number);
/* If it was a member, tells it so; false: it was not, as far as is remembered. */
bool gms_tell_former(struct gms *g, struct neap_peer *peer);
void gms_unsuspected_stranger(struct gms *g, struct neap_peer *peer);
void gms_rejoin(struct gms *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A suspicion must end in a view: asks for it if it does not. */
void gms_watch_update(struct gms *g);
void gms_watch_step(struct neap_layer *layer, struct neap_timer *timer);

/* ---- names.c ---- */

void gms_names_start(struct gms *g, struct neap_view *view);
void gms_named(struct gms *g);
void gms_names_step(struct neap_layer *layer, struct neap_timer *timer);
/* What waits for names rises without them. */
void gms_names_flush(struct gms *g);
/* Passes up what may rise, behind the view that waits. */
void gms_rise(struct gms *g, struct neap_batch *batch);

#endif
