/* The world's life, its steps, and the hash over everything that happened.
 *
 *     turns until still -> something for the application? -> the earliest packet or timer -> again
 *
 * Of what is due at the same time packets come first, in the order in which they were sent, then
 * timers, in the order in which they were started. */

#include "sim/net.h"

#include "core/trace.h"

#include <stdio.h>
#include <stdlib.h>

enum {
  TURNS = 4096,         /* at a time, before looking for the application */
  STILL_MAX = 10000000, /* rounds without time going on: something runs in a circle */
  TRACE_ROWS = 1024,    /* moves for an assertion to print; about a percent of a run's time */
};

/* ---- the hash ---- */

static uint64_t fold(uint64_t a, uint64_t b)
{
  __uint128_t product = (__uint128_t)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Two odd numbers without pattern: fractions of e and pi. */
#define SALT_A 0xb7e151628aed2a6bu
#define SALT_B 0x243f6a8885a308d3u

static uint64_t word_at(const uint8_t *at)
{
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

uint64_t neap_sim_digest(const void *bytes, size_t len)
{
  const uint8_t *at = bytes;
  uint64_t hash = SALT_A ^ len;
  for (; len >= 16; at += 16, len -= 16) hash = fold(word_at(at) ^ hash, word_at(at + 8) ^ SALT_B);
  uint8_t tail[16] = {0};
  if (len) memcpy(tail, at, len);
  return fold(word_at(tail) ^ hash, word_at(tail + 8) ^ SALT_B);
}

void neap_sim_event(struct sim *sim, enum sim_event kind, const struct host *host, uint64_t what)
{
  uint64_t place = host ? host->index + 1u : 0;
  uint64_t head = fold(sim->world.now ^ SALT_A, (place << 8 | kind) ^ SALT_B);
  sim->hash = fold(sim->hash ^ head, what ^ SALT_B) + head;
}

const char *neap_sim_hash(const struct neap_world *world, char *text)
{
  snprintf(text, 17, "%016llx", (unsigned long long)neap_sim_of(world)->hash);
  return text;
}

void neap_sim_note(struct neap_world *world, const char *name, const void *bytes, size_t len)
{
  struct sim *sim = neap_sim_of(world);
  neap_sim_event(sim, SIM_NOTE, neap_sim_host_find(sim, name), neap_sim_digest(bytes, len));
}

const struct neap_sim_counts *neap_sim_counts(const struct neap_world *world)
{
  return &neap_sim_of(world)->counts;
}

/* ---- steps ---- */

/* Timers that are more than background work, of members that are not paused. */
static bool foreground_timers(const struct sim *sim)
{
  const struct neap_timers *timers = &sim->world.timers;
  if (!timers->foreground) return false;
  bool paused = false;
  for (uint32_t h = 0; h < sim->host_count; h++) paused |= sim->hosts[h]->paused;
  if (!paused) return true;
  for (uint32_t t = 1; t <= timers->count; t++) {
    const struct neap_timer *timer = timers->heap[t];
    if (!timer->background_now && !(timer->layer && timer->layer->stack->paused)) return true;
  }
  return false;
}

static void fire(struct sim *sim)
{
  struct neap_timer *first = neap_timers_first(&sim->world.timers);
  if (!first || first->at > sim->world.now) return;
  struct host *host = first->layer ? first->layer->stack->host : NULL;
  neap_sim_event(sim, SIM_FIRED, host, first->id);
  neap_world_fire(&sim->world);
}

static int run(struct sim *sim, uint64_t until, bool settle)
{
  struct neap_world *world = &sim->world;
  for (uint32_t still = 0;; still++) {
    neap_world_turns(world, TURNS);
    if (!neap_link_alone(&world->busy)) return NEAP_STEP_WORK;
    if (!neap_link_alone(&world->ready)) continue;
    bool flying = sim->foreground && !NEAP_IS_MUTANT(205);
    if (settle && !flying && !foreground_timers(sim)) return NEAP_STEP_IDLE;

    struct neap_timer *timer = neap_timers_first(&world->timers);
    uint64_t next = neap_sim_due(sim);
    if (timer && timer->at < next) next = timer->at;
    if (next > until || next == UINT64_MAX) {
      if (until == UINT64_MAX) return NEAP_STEP_IDLE;
      if (until > world->now) world->now = until;
      return NEAP_STEP_TIME;
    }
    NEAP_ASSERT(still < STILL_MAX);
    if (next > world->now) {
      world->now = next;
      still = 0;
    }
    neap_sim_arrive(sim);
    fire(sim);
  }
}

static int sim_step(struct neap_world *world, uint64_t until)
{
  return run(neap_sim_of(world), until, false);
}

int neap_sim_settle(struct neap_world *world, uint64_t deadline)
{
  return run(neap_sim_of(world), deadline, true);
}

/* ---- life ---- */

static void sim_free(struct neap_world *world)
{
  struct sim *sim = neap_sim_of(world);
  sim->closing = true;
  neap_sim_flights_drop(sim);
  neap_sim_log_start(world, 0);
  neap_world_done(world);
  neap_sim_flights_done(sim);
  neap_sim_rules_done(sim);
  neap_sim_net_done(sim);
  free(sim);
}

/* What is sent flies at once. */
static void sim_flush(struct neap_port *port)
{
  (void)port;
}

/* Whoever steps looks for work first, so nobody has to be woken. */
static void sim_wake(struct neap_world *world)
{
  (void)world;
}

static const struct neap_world_class sim_class = {
  .name = "sim",
  .free = sim_free,
  .port_open = neap_sim_port_open,
  .port_send = neap_sim_port_send,
  .port_flush = sim_flush,
  .port_close = neap_sim_port_close,
  .step = sim_step,
  .wake = sim_wake,
};

struct neap_world *neap_sim_new(const struct neap_sim_options *options)
{
  struct sim *sim = calloc(1, sizeof *sim);
  NEAP_ASSERT(sim);
  neap_world_init(&sim->world, &sim_class, options->seed);
  sim->hash = fold(options->seed ^ SALT_A, SALT_B);
  neap_sim_net_init(sim);
  neap_trace_start(&sim->world, TRACE_ROWS);
  neap_sim_log_start(&sim->world, options->log);
  return &sim->world;
}
