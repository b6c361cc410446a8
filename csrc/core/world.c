#include "core/world.h"

#include "core/capture.h"
#include "core/channel.h"
#include "core/layer.h"
#include "core/oracle.h"
#include "core/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* What an assertion prints of the world that was running. */
static void witness(void *context)
{
  const struct neap_world *world = context;
  fprintf(stderr, "neap: world %s, seed %" PRIu64 ", turn %" PRIu64 ", %.6f s\n",
    world->class->name, world->seed, world->turn, (double)world->now / 1e9);
  char *moves = neap_trace_text(world, 24);
  if (moves) fputs(moves, stderr);
  free(moves);
}

void neap_world_init(struct neap_world *world, const struct neap_world_class *class, uint64_t seed)
{
  *world = (struct neap_world){.class = class, .seed = seed};
  neap_random_seed(&world->random, seed);
  neap_link_init(&world->ready);
  neap_link_init(&world->stacks);
  neap_link_init(&world->busy);
}

void neap_world_done(struct neap_world *world)
{
  while (!neap_link_alone(&world->stacks))
    neap_stack_close(NEAP_HOLDER(world->stacks.next, struct neap_stack, link));
  struct neap_capture_counts unused;
  neap_capture_stop(world, &unused);
  neap_trace_start(world, 0);
  neap_oracle_free(world);
  NEAP_ASSERT(!world->slab_out); /* Pools are full again: nobody forgot a message or a packet. */
  while (world->slabs) {
    struct neap_slab *slab = world->slabs;
    world->slabs = slab->next;
    free(slab);
  }
  free(world->timers.heap);
  neap_assert_witness(NULL, NULL);
}

void neap_world_free(struct neap_world *world)
{
  if (world) world->class->free(world);
}

void neap_world_turns(struct neap_world *world, unsigned turns)
{
  while (turns-- && !neap_link_alone(&world->ready)) {
    struct neap_stack *stack = NEAP_HOLDER(world->ready.next, struct neap_stack, ready);
    neap_link_remove(&stack->ready);
    neap_assert_witness(witness, world);
    if (neap_stack_turn(stack)) neap_stack_ready(stack);
  }
  world->background = false;
}

void neap_world_fire(struct neap_world *world)
{
  struct neap_timer *timer;
  neap_assert_witness(witness, world);
  /* Only what was due when we came: a timer that starts itself again with no delay waits a turn. */
  uint64_t last = world->timers.next_id;
  while (
    (timer = neap_timers_first(&world->timers)) && timer->at <= world->now && timer->id <= last) {
    struct neap_layer *layer = timer->layer;
    struct neap_stack *stack = layer ? layer->stack : NULL;
    neap_timers_stop(&world->timers, timer);
    if (stack && stack->paused) { /* It stays armed and comes due when the member wakes. */
      timer->armed = true;
      if (!timer->background_now) world->timers.foreground++;
      timer->parked = stack->parked;
      stack->parked = timer;
      continue;
    }
    world->background = timer->background_now;
    if (layer) NEAP_TRACE(world, layer, NEAP_MOVE_TIMER, "", 0, 0);
    timer->fire(layer, timer);
    if (stack && !stack->closed) {
      if (!world->background) stack->foreground = true;
      neap_stack_ready(stack);
    }
  }
  world->background = false;
}
