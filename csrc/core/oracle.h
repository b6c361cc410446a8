/* oracle: sees all members of a world, and remembers which promise was broken.
 *
 * For each word that the wire does not give by itself there is a checker: an ordinary layer, put
 * above whoever made the promise, that records what passes.  Checkers of one world meet here: each
 * is a judge, and can look at the judges of its class in the other stacks.  What is wrong is told
 * as a line of text, which specs and the swarm read.
 *
 *     ann  [check_fifo]----+
 *     bob  [check_fifo]----+--- oracle ---  "bob check_fifo: of ann's multicasts #7 came after #5"
 *     cho  [check_fifo]----+ */

#ifndef NEAP_CORE_ORACLE_H
#define NEAP_CORE_ORACLE_H

#include "core/layer.h"

struct neap_judge {
  struct neap_link link;
  struct neap_layer *layer;
};

struct neap_oracle;

/* A checker opens and closes. */
void neap_judge_open(struct neap_judge *judge, struct neap_layer *layer);
void neap_judge_close(struct neap_judge *judge);

/* The judges of this layer's class in other stacks and its own, in the order of opening: start at
 * NULL; NULL at the end. */
struct neap_judge *neap_judge_next(const struct neap_layer *layer, struct neap_judge *at);

/* The judge of this class whose member has this address, or NULL. */
struct neap_judge *neap_judge_of(const struct neap_layer *layer, const struct neap_addr *addr);

/* A promise is broken. */
void neap_judge_complain(const struct neap_layer *layer, const char *format, ...)
  __attribute__((format(printf, 2, 3)));

/* The list of members that this view id has everywhere: false if another one was told before. */
bool neap_judge_view(const struct neap_layer *layer, const struct neap_view *view);

/* What has been complained of so far: lines, the first 64 kB of them; "" when all is well. */
const char *neap_oracle_text(const struct neap_world *world);
uint64_t neap_oracle_complaints(const struct neap_world *world);

void neap_oracle_free(struct neap_world *world);

#endif
