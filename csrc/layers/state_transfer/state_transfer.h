/* state_transfer, private: what the parts of the layer share.
 *
 *   provide.c   the giver's side: a queue, one request at a time
 *   fetch.c     the taker's side: ask, store, set, and over again when it breaks
 *   hold.c      what rises while a state is on its way, and what of it counts afterwards
 *   wire.c      digests with epochs, as the messages carry them */

#ifndef NEAP_LAYERS_STATE_TRANSFER_H
#define NEAP_LAYERS_STATE_TRANSFER_H

#include "core/headers.h"
#include "core/layer.h"

NEAP_ADOPT(neap_state_own_head, 0);

enum { STATE_APPLIED, STATE_BARRIER };

enum { STATE_QUEUE = 64 }; /* requests that wait at most */

/* The taker's side, in the order of events. */
enum fetch_step {
  FETCH_NOT,     /* nobody wants a state */
  FETCH_ASKED,   /* the request is out */
  FETCH_VIEW,    /* the digest is here; its view is not */
  FETCH_CLOSING, /* the barrier is about to close */
  FETCH_REWIND,  /* streams are being set back */
  FETCH_READING, /* parts go up, multicasts are held */
  FETCH_SETTING, /* all is there and was told; nothing can go wrong any more */
};

/* The giver's side. */
enum give_step {
  GIVE_NOT,     /* nobody is served */
  GIVE_VIEW,    /* the taker is in a view that is not here yet */
  GIVE_CLOSING, /* the barrier is about to close */
  GIVE_TOLD,    /* the application was asked */
  GIVE_READING, /* the digest was sent, parts follow */
  GIVE_ENDED,   /* all was sent; the taker has not stored what it has to */
};

/* A member that wants the state. */
struct request {
  struct neap_peer *peer; /* counted */
  uint64_t view;
  uint32_t number;
  uint8_t mode;
};

/* What counts of a member's multicasts after a state was set; and whether it said no. */
struct place {
  bool declined; /* it was asked for the state that is wanted now, and gave none */
  bool known;
  uint64_t skip;   /* up to here they are in the state */
  uint64_t replay; /* up to here they may be */
};

struct state_transfer {
  struct neap_layer layer;
  /* params */
  uint64_t mode, hold_timeout, close_timeout, hold_bytes, window, chunk_size;
  /* gauges */
  uint64_t queued, held, held_count;
  bool fetching, giving;
  /* counters */
  uint64_t asked, got, given, bytes_in, bytes_out, restarts, aborts, refused, voids;
  uint64_t skipped, replayed, unfit, malformed, pushed_back;

  /* taking: fetch.c */
  uint8_t step; /* enum fetch_step */
  bool chosen;  /* the application said from whom */
  bool begun;   /* it was told of a beginning */
  bool rewound; /* the digest is set: what rises from here on is held */
  bool stored;  /* what this member ever reported has risen */
  bool ended;   /* the last part is here */
  uint8_t fetch_mode;
  uint32_t ticket;
  uint32_t number; /* of the last transfer that was asked for */
  uint64_t provider_view, taken;
  struct neap_peer *provider;    /* counted */
  struct neap_digest *sure;      /* D: what the state contains */
  struct neap_digest *perhaps;   /* E: what it may contain */
  struct neap_batch parts;       /* came before the application could be told to begin */

  /* what is held: hold.c */
  struct neap_batch waiting;
  bool full;       /* too much is held: nothing more is reported */
  bool aborted;    /* the last one came to nothing: what came again does not count */
  uint64_t places; /* members whose multicasts are in the state or may be */

  /* giving: provide.c */
  uint8_t give; /* enum give_step */
  struct request now, queue[STATE_QUEUE];
  uint32_t give_ticket;
  uint64_t hold; /* number of the hold that stands; 0: none */
  uint64_t last_hold;
  uint64_t sent, allowed; /* bytes of parts: passed down; may be written, in all */
  struct neap_digest *given_digest;
  struct neap_timer patience;
};

/* Numbers of holds and barriers; the upper bits keep them apart from those of other layers. */
#define STATE_HOLD ((uint64_t)1 << 40)
#define STATE_PUSH ((uint64_t)1 << 41)
#define STATE_TAKER ((uint64_t)1 << 42) /* of a barrier: closed for taking, not for giving */

static inline bool state_taking(const struct state_transfer *s)
{
  return s->step != FETCH_NOT;
}

/* To the application. */
void state_tell(struct state_transfer *s, struct neap_event event);
struct neap_msg *state_message(
  struct state_transfer *s, struct neap_peer *to, struct neap_state_own_head head);

/* wire.c */
void state_write_digest(struct neap_msg *m, const struct neap_digest *digest);
struct neap_digest *state_read_digest(struct state_transfer *s, const struct neap_msg *m);

/* hold.c */
void state_forget(struct state_transfer *s, struct place *p);
void state_rise(struct state_transfer *s, struct neap_batch *batch);
/* The state is set: what is held rises as far as it is not in it. */
void state_commit(struct state_transfer *s);
/* There is none: what is held rises as if nothing had been. */
void state_abort(struct state_transfer *s);

/* fetch.c */
void state_get(struct state_transfer *s, const struct neap_event *event);
void state_drop(struct state_transfer *s, uint32_t ticket);
void state_took(struct state_transfer *s, const struct neap_event *event);
void state_set(struct state_transfer *s, uint32_t ticket);
void state_fetch_msg(
  struct state_transfer *s, struct neap_msg *m, const struct neap_state_own_head *head);
void state_fetch_view(struct state_transfer *s);
void state_fetch_closed(struct state_transfer *s, int code);
void state_fetch_rewound(struct state_transfer *s);
void state_fetch_stored(struct state_transfer *s, int code);

/* provide.c */
void state_request(
  struct state_transfer *s, struct neap_msg *m, const struct neap_state_own_head *head);
void state_give_msg(
  struct state_transfer *s, struct neap_msg *m, const struct neap_state_own_head *head);
void state_give_view(struct state_transfer *s);
void state_give_closed(struct state_transfer *s, int code);
void state_give_do(struct state_transfer *s, struct neap_event *event);
void state_give_stop(struct state_transfer *s);
neap_fire state_patience_fire;

#endif
