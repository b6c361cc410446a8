/* stable's parts: csrc/layers/stable.c (the layer), stable/votes.c, holds.c, held.c and wire.c. */

#ifndef NEAP_LAYERS_STABLE_H
#define NEAP_LAYERS_STABLE_H

#include "core/headers.h"
#include "core/layer.h"

NEAP_ADOPT(neap_stable_head, 0);
NEAP_ADOPT(neap_stable_own_head, 1);

/* What one digest says of one sender. */
struct row {
  uint64_t low, high; /* applied, received */
};

/* A digest that this member has handed out: votes stay at or below it.  Or a suspension. */
struct hold {
  struct hold *next;
  const struct neap_layer *origin; /* its numbers are its own; NULL: an operation */
  uint64_t number, since, until;
  struct neap_digest *digest; /* NULL: not known yet, no vote at all */
  bool suspends;
  bool timed; /* whoever began it said how long */
  char by[NEAP_NAME_MAX];
};

/* What a round is asked for: any, or one that makes room for this member's stream. */
enum want { NOTHING, ROUND, ROOM };

struct stable {
  struct neap_layer layer;
  uint64_t interval, max_bytes, spacing, hold_max, suspend_max;     /* params */
  uint64_t bytes, missing, holds, suspensions;                      /* gauges */
  uint64_t sent, received, dropped, repeated, rounds, heard, asked; /* counters */
  uint64_t ignored, expired, incomplete;

  struct neap_view *view;         /* the one that the arrays are for; counted */
  struct row *sums, *read, *last; /* by rank: this round, a digest being read, last STABILITY */
  uint64_t *voted;                /* by rank: when, in this round, plus 1; 0: not yet */
  uint64_t *seen;                 /* by rank: last vote in this view */
  uint64_t *least;                /* by rank: whose vote, by rank, has the least of it */
  uint64_t *holder, *stuck;       /* by rank: the same in `last`, and since when that is so low */
  uint8_t *scratch;               /* a message being written */
  uint32_t votes;                 /* in this round */
  bool concluded;                 /* `last` holds one */
  bool collecting;                /* the coordinator asked for this round */
  bool repeating;                 /* this member's vote awaits STABILITY */
  bool asking, retried;           /* for the digest */
  bool owed;                      /* a vote was due while a hold forbade it */
  bool unheard;                   /* it was suspended: votes may have come in vain */
  uint64_t voted_last, pause, want_pause;
  uint64_t sent_high;  /* own stream, as of the last vote */
  uint64_t own_stable; /* own stream, as of the last STABILITY */
  enum want want;
  struct hold *first;
  struct neap_found *laggards; /* what nakack said last: whom it keeps messages for */
  uint64_t laggards_last;      /* of so many */
  struct neap_timer tick, vote, answer, wanted, hold; /* answer: a vote that was asked for */
};

static inline uint32_t neap_stable_members(const struct stable *s)
{
  return s->view ? s->view->count : 0;
}

static inline bool neap_stable_coordinator(const struct stable *s)
{
  return s->view && s->view->members[0] == neap_self(&s->layer);
}

/* ---- stable/votes.c ---- */

/* `delay`, or more if the last vote was just now. */
uint64_t neap_stable_spaced(const struct stable *s, uint64_t delay);
/* Asks for the digest, which is this member's next vote. */
void neap_stable_ask(struct stable *s);
void neap_stable_digest(struct stable *s, const struct neap_event *event);
/* By `vote`: in the background, repeated until STABILITY comes.  By `answer`: once. */
void neap_stable_vote_soon(struct stable *s, struct neap_timer *timer);
void neap_stable_tick_start(struct stable *s);

/* Forgets the votes of the round. */
void neap_stable_reset(struct stable *s);
/* Adds the digest in `read`; the last vote ends the round. */
void neap_stable_count(struct stable *s, uint32_t rank);
/* What everybody has is known: `rows` by rank. */
void neap_stable_conclude(struct stable *s, const struct row *rows);
void neap_stable_want(struct stable *s, enum want want);

neap_fire neap_stable_vote_due, neap_stable_tick_due, neap_stable_want_due, neap_stable_hold_due;

/* ---- stable/holds.c ---- */

/* No votes, no rounds, no STABILITY. */
bool neap_stable_suspended(const struct stable *s);
/* That, or a digest was handed out that is not known yet. */
bool neap_stable_muted(const struct stable *s);
void neap_stable_hold(struct stable *s, const struct neap_event *event);
void neap_stable_release(struct stable *s, const struct neap_event *event);
/* `by` NULL: an operation.  `time` 0: suspend_max. */
void neap_stable_suspend(
  struct stable *s, const struct neap_layer *by, uint64_t number, uint64_t time);
void neap_stable_resume(struct stable *s, const struct neap_layer *by, uint64_t number);
/* What was forbidden and no longer is happens now. */
void neap_stable_speak_up(struct stable *s);
void neap_stable_holds_close(struct stable *s);

/* ---- stable/held.c ---- */

/* The operation held_back_by: first nakack is asked, its answer is kept, then all is told. */
void neap_stable_ask_others(struct neap_layer *layer);
void neap_stable_laggards(struct stable *s, struct neap_event *event);
void neap_stable_forget_laggards(struct stable *s);
int neap_stable_held_back_by(struct neap_layer *layer, const char *argument, char *out);

/* ---- stable/wire.c ---- */

/* Arrays for this view, zeroed; and without one. */
void neap_stable_arrays(struct stable *s, struct neap_view *view);

/* A vote or STABILITY (rows by rank); WANTED or COLLECT.  `to` NULL: everybody else. */
void neap_stable_send(
  struct stable *s, struct neap_peer *to, unsigned type, const struct row *rows);
void neap_stable_send_own(struct stable *s, struct neap_peer *to, unsigned type);

/* Is it for the view that this member has? */
bool neap_stable_my_view(const struct stable *s, struct neap_slice id);

/* Reads the digest in `m` into `read`; false unless each member of the view is there. */
bool neap_stable_read(struct stable *s, const struct neap_msg *m);

#endif
