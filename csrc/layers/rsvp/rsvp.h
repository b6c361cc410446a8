/* rsvp's parts, shared by csrc/layers/rsvp.c (the layer):
 *
 *   requests.c   who waits, for whom, and how it ends
 *   resend.c     what is sent again meanwhile: nothing, beacons, or the payload
 *   answers.c    who answers, and when */

#ifndef NEAP_LAYERS_RSVP_H
#define NEAP_LAYERS_RSVP_H

#include "core/headers.h"
#include "core/layer.h"

NEAP_ADOPT(neap_rsvp_head, 0);
NEAP_ADOPT(neap_rsvp_own_head, 1);

enum ack_on { ON_RECEPTION, ON_COMPLETION, ON_DELIVERY };
enum resend { RESEND_AUTO, RESEND_BEACON, RESEND_PAYLOAD, RESEND_OFF };
enum { RSVP_BUCKETS = 256, RSVP_IDS = 1 << 16, RSVP_TOLD = 4096 };

/* ---- the sender's side ---- */

enum target_state { WAITING, ACKED, LEFT, SPLIT };

struct target {
  struct neap_peer *peer; /* counted */
  uint8_t state;          /* enum target_state */
};

struct request {
  struct neap_link link; /* in rsvp->requests, in the order of asking */
  struct request *same;  /* next one in the bucket of its id */
  struct neap_peer *to;  /* counted; NULL: everybody */
  struct target *targets;
  struct neap_msg *payload; /* a copy, to be sent again; or NULL */
  uint64_t number;          /* counted by this member, never used again */
  uint64_t sent, deadline;  /* deadline 0: waits for ever */
  uint64_t beacon, pause;   /* when the next is due, 0: none; time to the one after */
  uint64_t sync;            /* 0, or the number of the view that is waited for by who made it */
  uint32_t ticket, count, waiting;
  uint16_t id;       /* on the wire; used again when nobody can answer it any more */
  uint8_t ack_on;    /* enum ack_on */
  bool plain;        /* without the own header: answers match by id alone */
  bool flies;        /* it has left */
  bool over;         /* the send ended; only the id is still taken */
  bool sender_finds; /* a loss at the tail is found by the layers below */
};

/* ---- the receiver's side ---- */

/* A request that was stored here and is not answered, or not risen yet.  Bits, for `find`. */
enum owed_state {
  TOLD = 1,   /* answered before it rose */
  RISEN = 2,  /* out of band, waits until everything before it is stored */
  HANDED = 4, /* with the application */
  LATE = 8,   /* to be answered when the state that is being taken is there */
  HERE = 16,  /* out of band, about to rise; not everything before it is stored */
};

struct owed {
  struct neap_link link; /* in struct peer, in the order of coming */
  uint64_t number;
  uint16_t id;
  uint8_t state; /* enum owed_state */
  bool own;      /* the own header came with it: the answer has it, too */
};

struct peer {
  struct neap_peer *who;  /* held while the list is not empty; NULL: never used */
  struct neap_link owed;
  uint32_t told;          /* of these, TOLD */
};

struct rsvp {
  struct neap_layer layer;
  uint64_t timeout, resend_interval, ack_on, resend, max_pending, ids; /* params */
  bool release_on_suspect;
  uint64_t pending, lingering, owed;                         /* gauges */
  uint64_t sent, done, timeouts, resets, beacons, responses; /* counters */
  uint64_t answered, reanswered, stale, refused, payloads, skipped, again;
  uint64_t begun;       /* as the gate counts them */
  uint64_t next_number;
  uint16_t next_id;
  bool taking; /* a state: what rises is not what this member has */
  struct neap_link requests;
  struct request *buckets[RSVP_BUCKETS];
  struct neap_timer tick;
};

/* ---- requests.c ---- */

void neap_rsvp_ask(struct rsvp *r, const struct neap_event *event);
/* The message of a request is about to leave. */
void neap_rsvp_send(struct rsvp *r, struct neap_msg *m);
/* A request that is only a beacon: what was sent before it has come when that has. */
void neap_rsvp_flush(struct rsvp *r, const struct neap_event *event);
/* The same for all members of a view, for who made it. */
void neap_rsvp_sync(struct rsvp *r, const struct neap_event *event);
/* `peer` has answered. */
void neap_rsvp_credit(
  struct rsvp *r, struct neap_peer *peer, uint16_t id, bool own, uint64_t number);
/* What the request of this id, of this member itself, waits for. */
uint8_t neap_rsvp_ack_on(const struct rsvp *r, uint16_t id);
void neap_rsvp_finish(struct rsvp *r, struct request *q, int code);
struct target *neap_rsvp_target(const struct request *q, const struct neap_peer *peer);
struct request *neap_rsvp_by_ticket(struct rsvp *r, uint32_t ticket);
void neap_rsvp_view(struct rsvp *r);
void neap_rsvp_release(struct rsvp *r, const struct neap_peer *peer, unsigned state);
void neap_rsvp_reset(struct rsvp *r, struct neap_peer *peer);
/* Tells the gate how many may begin. */
void neap_rsvp_publish(struct rsvp *r);
void neap_rsvp_close(struct rsvp *r);

static inline struct request *neap_rsvp_request(struct neap_link *link)
{
  return NEAP_HOLDER(link, struct request, link);
}

/* ---- resend.c ---- */

void neap_rsvp_head(struct rsvp *r, struct neap_msg *m, const struct request *q, unsigned type);
/* A request has left: when is something sent again? */
void neap_rsvp_watch(struct rsvp *r, struct request *q);
void neap_rsvp_beacon_now(struct rsvp *r, struct request *q);
/* The same at the next tick, if beacons are sent at all. */
void neap_rsvp_beacon_soon(struct rsvp *r, struct request *q);
void neap_rsvp_tail(struct rsvp *r, const struct neap_event *event);
/* Who finds a loss at the tail towards `peer` (NULL: all) has changed: ask again, beacon soon. */
void neap_rsvp_mode(struct rsvp *r, const struct neap_peer *peer);
/* `peer` asks to be asked again. */
void neap_rsvp_again(struct rsvp *r, const struct neap_peer *peer);
/* Pauses between beacons follow the attributes as they are now. */
void neap_rsvp_schedule(struct rsvp *r);
neap_fire neap_rsvp_tick;

/* ---- answers.c ---- */

void neap_rsvp_stored(struct rsvp *r, const struct neap_event *event);
void neap_rsvp_rise(struct rsvp *r, struct neap_msg *m);
void neap_rsvp_finished(struct rsvp *r, const struct neap_event *event);
void neap_rsvp_beacon(struct rsvp *r, const struct neap_msg *m);
/* A view went by: of those that left only what the application has is waited for. */
void neap_rsvp_departed(struct rsvp *r);
/* A state is being taken, or that has ended. */
void neap_rsvp_taking(struct rsvp *r, bool taking);
void neap_rsvp_forget(struct rsvp *r, struct peer *p);

#endif
