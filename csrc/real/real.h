/* real: the world as it is, on libuv.
 *
 * The clock is the machine's monotonic one, read once per turn; the network is its sockets; chance
 * is seeded by the caller.  One thread, one loop: neap_world_step runs it until something waits for
 * the application.
 *
 *     step:   sockets -> timers due -> turns of ready stacks -> something for the application?
 *                ^                                                 yes: return
 *                |                                                 no:  all still? block
 *                +-------------------------------------------------+
 *
 * Everything else that a program waits for (the prompt's input, a signal) is watched in the same
 * loop; a step returns NEAP_STEP_WORK after a watcher was called. */

#ifndef NEAP_REAL_REAL_H
#define NEAP_REAL_REAL_H

#include "core/error.h"
#include "core/world.h"

/* A world of class "real"; NULL and a trail when the system refuses.  Free it with
 * neap_world_free. */
struct neap_world *neap_real_new(uint64_t seed, struct neap_trail *trail);

/* Is called inside a step while `fd` can be read (or has ended). */
struct neap_watch;
typedef void neap_real_ready(void *context, int fd);

/* Watches a descriptor that stays the caller's; NULL when the system refuses. */
struct neap_watch *neap_real_watch(
  struct neap_world *world, int fd, neap_real_ready *ready, void *context);

/* The same for a signal: `ready` is called with its number. */
struct neap_watch *neap_real_signal(
  struct neap_world *world, int number, neap_real_ready *ready, void *context);

/* Ends either kind; also inside its own `ready`. */
void neap_real_unwatch(struct neap_watch *watch);

/* For a loop of one's own: a descriptor that can be read when a step has something to do, and the
 * time on the world's clock at which it has in any case (UINT64_MAX: never).  Step with until = 0
 * then. */
int neap_real_fd(struct neap_world *world);
uint64_t neap_real_next(struct neap_world *world);

/* Rounds of the loop, of these those that blocked, and those that came back from a yield with
 * something to do. */
struct neap_real_counts {
  uint64_t rounds, blocked, yielded;
};
const struct neap_real_counts *neap_real_counts(const struct neap_world *world);

#endif
