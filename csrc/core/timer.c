#include "core/timer.h"

#include "core/layer.h"

#include <stdlib.h>

enum { HEAP_MIN = 64 };

static bool before(const struct neap_timer *a, const struct neap_timer *b)
{
  return a->at < b->at || (a->at == b->at && a->id < b->id);
}

static void set(struct neap_timers *timers, uint32_t place, struct neap_timer *timer)
{
  timers->heap[place] = timer;
  timer->place = place;
}

static void rise(struct neap_timers *timers, struct neap_timer *timer)
{
  uint32_t place = timer->place;
  while (place > 1 && before(timer, timers->heap[place / 2])) {
    set(timers, place, timers->heap[place / 2]);
    place /= 2;
  }
  set(timers, place, timer);
}

static void sink(struct neap_timers *timers, struct neap_timer *timer)
{
  uint32_t place = timer->place;
  for (;;) {
    uint32_t child = 2 * place;
    if (child > timers->count) break;
    if (child < timers->count && before(timers->heap[child + 1], timers->heap[child])) child++;
    if (!before(timers->heap[child], timer)) break;
    set(timers, place, timers->heap[child]);
    place = child;
  }
  set(timers, place, timer);
}

void neap_timers_start(struct neap_timers *timers, struct neap_timer *timer, uint64_t at)
{
  if (timer->armed) neap_timers_stop(timers, timer);
  if (timers->count + 1 >= timers->room) {
    timers->room = timers->room ? timers->room * 2 : HEAP_MIN;
    timers->heap = realloc(timers->heap, timers->room * sizeof *timers->heap);
    NEAP_ASSERT(timers->heap);
  }
  timer->at = at;
  timer->id = ++timers->next_id;
  timer->armed = true;
  if (!timer->background_now) timers->foreground++;
  set(timers, ++timers->count, timer);
  rise(timers, timer);
}

/* Takes a timer off the list of those that wait for a paused member. */
static void unpark(struct neap_timer *timer)
{
  struct neap_timer **at = &timer->layer->stack->parked;
  while (*at != timer) at = &(*at)->parked;
  *at = timer->parked;
}

void neap_timers_stop(struct neap_timers *timers, struct neap_timer *timer)
{
  if (!timer->armed) return;
  timer->armed = false;
  if (!timer->background_now) timers->foreground--;
  uint32_t place = timer->place;
  timer->place = 0;
  if (!place) {
    unpark(timer);
    return;
  }
  struct neap_timer *last = timers->heap[timers->count--];
  if (last == timer) return;
  set(timers, place, last);
  rise(timers, last);
  sink(timers, last);
}

struct neap_timer *neap_timers_first(const struct neap_timers *timers)
{
  return timers->count ? timers->heap[1] : NULL;
}

void neap_timer_init(struct neap_layer *layer, struct neap_timer *timer, neap_fire *fire)
{
  NEAP_ASSERT(!timer->armed);
  *timer = (struct neap_timer){.layer = layer, .fire = fire, .world = layer->stack->world};
}

void neap_timer_init_background(struct neap_layer *layer, struct neap_timer *timer, neap_fire *fire)
{
  neap_timer_init(layer, timer, fire);
  timer->background = true;
}

void neap_timer_start(struct neap_layer *layer, struct neap_timer *timer, uint64_t delay)
{
  struct neap_world *world = layer->stack->world;
  uint64_t at = world->now + delay;
  neap_timers_stop(&world->timers, timer);
  timer->background_now = timer->background || world->background;
  neap_timers_start(&world->timers, timer, at < world->now ? UINT64_MAX : at);
}

void neap_timer_sooner(struct neap_layer *layer, struct neap_timer *timer, uint64_t delay)
{
  if (!timer->armed || timer->at > neap_now(layer) + delay) neap_timer_start(layer, timer, delay);
}

void neap_timer_stop(struct neap_timer *timer)
{
  if (timer->armed) neap_timers_stop(&timer->world->timers, timer);
}
