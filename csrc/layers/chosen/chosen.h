/* chosen: which messages a layer that breaks things on purpose deals with, and those it holds; what
 * drop, dupl, delay and shuffle share.
 *
 * A rule (core/rule.h) is asked about each message that passes, with one row more, `way` (up or
 * down).  Going down a message has only headers of the layers above; coming up it has all of them.
 * The same words as sim:drop, with two differences: `from` and `to` also take addresses, and a
 * multicast on its way down goes to nobody in particular, so no `to` fits it.
 *
 * What is held waits in a bounded heap, by a key and then in the order it came:
 *
 *     put(m, key)  ->  [ lowest key first ]  ->  out(up to a key): pass, as one batch
 *
 * A view lets everything pass that came before it, in either direction: it is the border of what
 * its members have got, and after it their peers may be gone.
 *
 * Invariant: while something is held, a timer is armed. */

#ifndef NEAP_LAYERS_CHOSEN_H
#define NEAP_LAYERS_CHOSEN_H

#include "core/layer.h"
#include "core/rule.h"

enum { NEAP_HELD_MAX = 65536 };

struct neap_chosen {
  struct neap_rule rule;
  bool all;      /* no rule: every message */
  bool up, down; /* the ways it is asked on */
};

/* Reads `text`; "" is every message.  0, or negative and `why`, and nothing to free. */
int neap_chosen_read(
  struct neap_layer *layer, struct neap_chosen *chosen, const char *text, char *why, size_t size);
void neap_chosen_free(struct neap_chosen *chosen);

/* Is this one meant?  Counts a hit of the rule. */
bool neap_chosen_hit(
  struct neap_layer *layer, struct neap_chosen *chosen, const struct neap_msg *m, bool up);

/* For layers with one rule, in an attribute `when`: reads it as the layer opens, and when it is
 * set; says whether it may be. */
int neap_chosen_open(
  struct neap_layer *layer, struct neap_chosen *chosen, const char *when, struct neap_trail *trail);
void neap_chosen_set(struct neap_layer *layer, struct neap_chosen *chosen, const char *when);
int neap_chosen_may(const struct neap_layer *layer, const struct neap_attr *attr,
  const struct neap_value *value, char *why, size_t size);

/* The rows they have in common, of a struct with these members. */
#define NEAP_CHOSEN_WHEN(owner)                                                                    \
  {                                                                                                \
    NEAP_PARAM, "when", offsetof(owner, when), "",                                                 \
      .type = NEAP_TEXT, .text = "", .live = NEAP_NOW,                                             \
      .doc = "Only messages that fit this rule, such as layer=nakack type=msg seqno=5 way=up; "    \
             "empty: any. Set anew, its count starts over."                                        \
  }
#define NEAP_CHOSEN_HONEST(owner)                                                                  \
  {                                                                                                \
    NEAP_PARAM, "honest", offsetof(owner, honest), "", 1,                                          \
      .type = NEAP_BOOL,                                                                           \
      .doc =                                                                                       \
        "Says what no longer holds above. Off, a stack is built as if nothing were broken: to "    \
        "see what layers do that rely on it."                                                      \
  }

/* ---- what is held ---- */

struct neap_held {
  struct neap_layer *layer;
  struct neap_held_row *heap; /* from 1 */
  uint32_t count, room;
  uint64_t next_id, last; /* last: the highest key so far */
  bool up;
  /* The second for what background work sends: the simulator settles without it. */
  struct neap_timer timer, quiet;
};

void neap_held_open(
  struct neap_held *held, struct neap_layer *layer, bool up, neap_fire *fire, neap_fire *quiet);
/* Room for so many; what is beyond it passes first. */
void neap_held_room(struct neap_held *held, uint32_t room);
/* Takes the message, for which there must be room, and sees that its owner is called by then. */
void neap_held_put(struct neap_held *held, struct neap_msg *m, uint64_t key, uint64_t delay);
/* Moves those with a key of `until` and below behind `out`, the lowest first, `most` at most. */
void neap_held_out(struct neap_held *held, uint64_t until, uint32_t most, struct neap_batch *out);
/* Passes the batch on the way of this heap. */
void neap_held_pass(struct neap_held *held, struct neap_batch *out);
/* Everything leaves, lowest key first. */
void neap_held_flush(struct neap_held *held);
/* Calls its owner again in so long; nothing held, not at all. */
void neap_held_again(struct neap_held *held, uint64_t delay);
uint64_t neap_held_first(const struct neap_held *held);
void neap_held_close(struct neap_held *held);
void neap_held_check(const struct neap_held *held);

#endif
