/* rsvp's parts, shared by csrc/layers/rsvp.c (the layer), rsvp/requests.c (who waits) and
 * rsvp/answers.c (who answers). */

#ifndef NEAP_LAYERS_RSVP_H
#define NEAP_LAYERS_RSVP_H

#include "core/headers.h"
#include "core/layer.h"

NEAP_ADOPT(neap_rsvp_head, 0);
NEAP_ADOPT(neap_rsvp_own_head, 1);

enum ack_on { ON_RECEPTION, ON_COMPLETION, ON_DELIVERY };
enum resend { RESEND_AUTO, RESEND_BEACON, RESEND_OFF };
enum { RSVP_BUCKETS = 256 };

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
  uint64_t number;         /* counted by this member, never used again */
  uint64_t sent, deadline; /* deadline 0: waits for ever */
  uint64_t beacon, pause;  /* when the next is due, 0: none; time to the one after */
  uint32_t ticket, count, room, waiting;
  uint16_t id;       /* on the wire; used again when nobody can answer it any more */
  uint8_t ack_on;    /* enum ack_on */
  bool plain;        /* without the own header: answers match by id alone */
  bool flies;        /* it has left */
  bool over;         /* the send ended; only the id is still taken */
  bool sender_finds; /* a loss at the tail is found by the layers below */
};

/* ---- the receiver's side ---- */

/* A request that was stored here and is not answered, or not risen yet. */
enum owed_state {
  TOLD,   /* answered before it rose */
  RISEN,  /* out of band, waits until everything before it is stored */
  HANDED, /* with the application */
};

struct owed {
  struct neap_link link; /* in struct peer, in the order of coming */
  uint64_t number;
  uint16_t id;
  uint8_t state; /* enum owed_state */
};

struct peer {
  bool listed; /* the list's head links to itself only after the first use */
  struct neap_link owed;
};

struct rsvp {
  struct neap_layer layer;
  uint64_t timeout, resend_interval, ack_on, resend; /* params */
  bool release_on_suspect;
  uint64_t pending, lingering, owed;                         /* gauges */
  uint64_t sent, done, timeouts, resets, beacons, responses; /* counters */
  uint64_t answered, reanswered, stale, refused;
  uint64_t next_number;
  uint16_t next_id;
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
/* `peer` has answered. */
void neap_rsvp_credit(
  struct rsvp *r, struct neap_peer *peer, uint16_t id, bool own, uint64_t number);
void neap_rsvp_view(struct rsvp *r);
void neap_rsvp_release(struct rsvp *r, const struct neap_peer *peer, unsigned state);
void neap_rsvp_reset(struct rsvp *r, const struct neap_peer *peer);
void neap_rsvp_tail(struct rsvp *r, const struct neap_event *event);
/* Who finds a loss at the tail towards `peer` (NULL: all) has changed: ask again, beacon soon. */
void neap_rsvp_mode(struct rsvp *r, const struct neap_peer *peer);
/* Pauses between beacons follow the attributes as they are now. */
void neap_rsvp_schedule(struct rsvp *r);
void neap_rsvp_close(struct rsvp *r);
neap_fire neap_rsvp_tick;

/* ---- answers.c ---- */

void neap_rsvp_stored(struct rsvp *r, const struct neap_event *event);
void neap_rsvp_rise(struct rsvp *r, struct neap_msg *m);
void neap_rsvp_finished(struct rsvp *r, const struct neap_event *event);
void neap_rsvp_beacon(struct rsvp *r, const struct neap_msg *m);
void neap_rsvp_forget(struct rsvp *r, struct peer *p);

#endif
