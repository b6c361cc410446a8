/* timer: one heap per world, ordered by (time, id), so ties fall the same way on every run. */

#ifndef NEAP_CORE_TIMER_H
#define NEAP_CORE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#define NEAP_US(n) ((uint64_t)(n)*1000u)
#define NEAP_MS(n) ((uint64_t)(n)*1000000u)
#define NEAP_S(n) ((uint64_t)(n)*1000000000u)

struct neap_layer;
struct neap_world;
struct neap_timer;

/* What a timer does when it is due; it may start itself again. */
typedef void neap_fire(struct neap_layer *layer, struct neap_timer *timer);

struct neap_timer {
  uint64_t at;              /* due, on the world's clock */
  uint64_t id;              /* breaks ties: in the order of starting */
  struct neap_world *world;
  struct neap_layer *layer; /* NULL for a world's own timers */
  neap_fire *fire;
  struct neap_timer *parked; /* the next one that waits for a paused member */
  uint32_t place;           /* in the heap, from 1; 0 while parked or not armed */
  bool armed;
  bool background;          /* heartbeats, votes, periodic checks: the simulator settles without */
  bool background_now;      /* this start: also what background work starts */
};

void neap_timer_init(struct neap_layer *layer, struct neap_timer *timer, neap_fire *fire);
void neap_timer_init_background(struct neap_layer *layer, struct neap_timer *timer,
  neap_fire *fire);

/* Due `delay` nanoseconds from now; started again it moves.  A delay of 0 is the next turn. */
void neap_timer_start(struct neap_layer *layer, struct neap_timer *timer, uint64_t delay);
/* Starts it, or moves it earlier; never later. */
void neap_timer_sooner(struct neap_layer *layer, struct neap_timer *timer, uint64_t delay);
void neap_timer_stop(struct neap_timer *timer);

/* For the world itself. */
struct neap_timers {
  struct neap_timer **heap; /* from 1 */
  uint32_t count, room;
  uint32_t foreground; /* armed timers that are not background */
  uint64_t next_id;
};

void neap_timers_start(struct neap_timers *timers, struct neap_timer *timer, uint64_t at);
void neap_timers_stop(struct neap_timers *timers, struct neap_timer *timer);
struct neap_timer *neap_timers_first(const struct neap_timers *timers);

#endif
