/* sim: how much of the simulator a second of CPU buys, and what a network of a given capacity gives
 * when nothing costs CPU: rates that no other load of the machine disturbs. */

#include "bench/bench.h"

#include "core/channel.h"
#include "core/layer.h"
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MEMBERS = 64, POUR = 32, FLOW_POUR = 256, ACKED = 100 };

/* A link as loopback is here: bytes per second, one way, bytes that a receiver's buffer holds. */
static const struct neap_sim_setting loopback[] = {
  {.name = "capacity", .text = "2GB"},
  {.name = "latency", .text = "50us"},
  {.name = "queue", .text = "16MB"},
};

struct group {
  struct neap_world *world;
  struct neap_channel *channels[MEMBERS];
  unsigned members, views; /* who has everybody in its view */
  uint64_t deliveries, taken[MEMBERS];
};

static double cpu_now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void take(struct group *g, unsigned member)
{
  struct neap_channel *channel = g->channels[member];
  struct neap_row row;
  while (neap_channel_next(channel, &row)) {
    if (row.note) {
      if (row.note->kind == NEAP_NOTE_VIEW && row.note->view->count == g->members) g->views++;
      neap_note_free(row.note);
      continue;
    }
    struct neap_msg *msg;
    while ((msg = neap_inbox_take(channel, row.inbox))) {
      g->deliveries++;
      g->taken[member]++;
      neap_msg_free(msg);
    }
  }
}

static void run(struct group *g, uint64_t virtual_ns)
{
  uint64_t until = g->world->now + virtual_ns;
  while (g->world->class->step(g->world, until) == NEAP_STEP_WORK)
    for (unsigned i = 0; i < g->members && g->channels[i]; i++) take(g, i);
}

static bool form(struct group *g, const struct bench_load *load, unsigned members)
{
  struct neap_sim_options options = {.seed = 1};
  struct neap_trail trail = {""};
  *g = (struct group){.world = neap_sim_new(&options), .members = members};
  for (unsigned i = 0; i < members; i++) {
    char name[16];
    snprintf(name, sizeof name, "m%u", i);
    g->channels[i] = neap_channel_open(g->world, bench_plan(load), "bench", name, &trail);
    if (!g->channels[i]) return false;
    run(g, NEAP_MS(i ? 100 : 1500));
  }
  for (int i = 0; i < 100 && g->views < members; i++) run(g, NEAP_MS(100));
  return g->views >= members;
}

static void end(struct group *g)
{
  for (unsigned i = 0; i < g->members; i++) {
    if (!g->channels[i]) continue;
    neap_channel_close(g->channels[i]);
    neap_channel_free(g->channels[i]);
  }
  neap_world_free(g->world);
}

double bench_sim_busy(const struct bench_load *load, unsigned members)
{
  struct group g;
  double result = 0;
  uint8_t *body = calloc(1, load->size + 1u);
  if (form(&g, load, members)) {
    struct neap_send send = {.body = body, .len = load->size, .timeout = UINT64_MAX};
    double begun = cpu_now();
    g.deliveries = 0;
    while (cpu_now() - begun < load->seconds) {
      for (unsigned i = 0; i < members; i++)
        for (int n = 0; n < POUR && neap_channel_send(g.channels[i], &send) >= 0; n++) continue;
      run(&g, NEAP_MS(2));
    }
    result = (double)g.deliveries / (cpu_now() - begun);
  }
  end(&g);
  free(body);
  return result;
}

double bench_sim_idle(const struct bench_load *load, unsigned members)
{
  struct group g;
  double result = 0;
  if (form(&g, load, members)) {
    double begun = cpu_now();
    uint64_t from = g.world->now;
    while (cpu_now() - begun < load->seconds) run(&g, NEAP_S(10));
    result = (double)(g.world->now - from) / 1e9 / (cpu_now() - begun);
  }
  end(&g);
  return result;
}

/* Reports on the first member's stream that it has got. */
static double acks(const struct group *g)
{
  const struct neap_stack *stack = g->channels[0]->stack;
  for (uint32_t i = 0; i < stack->count; i++)
    for (const struct neap_attr *a = stack->layers[i]->class->attrs; a && a->kind; a++)
      if (!strcmp(a->name, "acks_received") && !strcmp(stack->layers[i]->class->name, "nakack"))
        return (double)neap_attr_get(stack->layers[i], a).number;
  return 0;
}

double bench_sim_acks(const struct bench_load *load, unsigned members)
{
  struct group g;
  double result = 0;
  uint8_t *body = calloc(1, load->size + 1u);
  if (form(&g, load, members)) {
    struct neap_send send = {
      .body = body, .len = load->size, .timeout = UINT64_MAX, .no_loopback = true};
    double before = acks(&g);
    for (int i = 0; i < ACKED; i++) {
      neap_channel_send(g.channels[0], &send);
      run(&g, NEAP_MS(1));
    }
    run(&g, NEAP_MS(20)); /* Longer than any report waits. */
    result = (acks(&g) - before) / ACKED;
  }
  end(&g);
  free(body);
  return result;
}

double bench_sim_flow(const struct bench_load *load, unsigned members)
{
  struct group g;
  double result = 0;
  uint8_t *body = calloc(1, load->size + 1u);
  if (form(&g, load, members)) {
    struct neap_send send = {
      .body = body, .len = load->size, .timeout = UINT64_MAX, .no_loopback = true};
    for (unsigned i = 0; i < sizeof loopback / sizeof *loopback; i++)
      neap_sim_set(g.world, &loopback[i], NULL, 0);
    uint64_t from = g.world->now, until = from + (uint64_t)(load->seconds * 1e9);
    for (unsigned i = 0; i < members; i++) g.taken[i] = 0;
    while (g.world->now < until) {
      for (int n = 0; n < FLOW_POUR && neap_channel_send(g.channels[0], &send) >= 0; n++) continue;
      run(&g, NEAP_US(10));
    }
    uint64_t least = g.taken[1];
    for (unsigned i = 2; i < members; i++)
      if (g.taken[i] < least) least = g.taken[i];
    result = (double)least / ((double)(g.world->now - from) / 1e9);
    if (getenv("BENCH_TELL"))
      for (unsigned i = 0; i < 2; i++) bench_tell(g.channels[i]);
  }
  end(&g);
  free(body);
  return result;
}
