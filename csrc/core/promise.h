/* promise: words that layers give and need.
 *
 * A class lists words, separated by spaces.  A word may depend on attributes of the same layer:
 * "stable(retransmission=nak,force!=on)" counts only while all of that is so; a word that is listed
 * twice counts if one of the two does.
 *
 *   needs   must hold below me: given by a layer below and not broken in between
 *   hears   must be given by some layer above me (or be me)
 *   gives   holds above me
 *   breaks  no longer holds above me
 */

#ifndef NEAP_CORE_PROMISE_H
#define NEAP_CORE_PROMISE_H

#include "core/stack.h"

/* Every word there is, ended by NULL, and what it says. */
struct neap_word {
  const char *word, *doc;
};
extern const struct neap_word neap_words[];

/* A layer with the value its attributes will have. */
struct neap_promiser {
  const struct neap_class *class;
  const char *name;
  const char *where; /* "stacks/mine.lua:7", or "" at run time */
  /* Value of an attribute as text; used for conditions. */
  const char *(*value)(const void *context, const char *attr);
  const void *context;
};

/* Checks layers, top first; tells each problem, with what holds there and which layer would
 * help. */
unsigned neap_promises_check(const struct neap_promiser *layers, unsigned count,
  neap_problem *problem, void *context);

/* True if `word` holds above layer `position` (0: at the application). */
bool neap_promise_holds(
  const struct neap_promiser *layers, unsigned count, unsigned position, const char *word);

/* The same of a running stack. */
bool neap_stack_gives(const struct neap_stack *stack, const char *word);

#endif
