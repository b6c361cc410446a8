/* loop: one step of the real world: sockets, timers that are due, turns, and when to block. */

#include "real/private.h"

#include "core/layer.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* While packets flow an empty socket is read again, after a yield each time, before the loop
 * blocks: to be woken costs tens of microseconds, and who is woken for each packet never finds two.
 * Four tries always; 40, about 20 us on a core of one's own, if the last time something came
 * within SOON of the beginning of the wait, and not for a while after 40 were in vain. */
#define SOON NEAP_US(50)
enum { TRIES_FEW = 4, TRIES_MANY = 40, VAIN_PAUSE = 16 };

/* Steps that begin with work to do before one begins with a look at all sockets; and tries. */
enum { LOOK_EACH = 8 };

/* Turns of ready stacks before sockets and timers have their chance again. */
enum { ROUND_TURNS = 16 };

static uint64_t clock_now(void)
{
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * NEAP_S(1) + (uint64_t)time.tv_nsec;
}

/* ---- the clock's descriptor ---- */

static void clock_rang(uv_poll_t *poll, int status, int events)
{
  struct real *real = poll->data;
  uint64_t times;
  (void)status, (void)events;
  if (read(real->clock_fd, &times, sizeof times) == (ssize_t)sizeof times) real->clock_at = 0;
}

/* Sees to it that the loop wakes at `at` at the latest.  A clock that is set earlier is left alone:
 * waking once too often is cheaper than setting it for each message. */
static void clock_set(struct real *real, uint64_t at)
{
  if (real->clock_at && real->clock_at <= at) return;
  real->clock_at = at;
  struct itimerspec when = {
    .it_value = {(time_t)(at / NEAP_S(1)), (long)(at % NEAP_S(1))},
  };
  timerfd_settime(real->clock_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* ---- watchers ---- */

struct neap_watch {
  struct real *real;
  struct neap_link link;
  neap_real_ready *ready;
  void *context;
  int fd;
  bool always; /* a plain file: it can be read at any time, and libuv cannot wait for it */
  bool gone;
  union {
    uv_handle_t handle;
    uv_poll_t poll;
    uv_signal_t signal;
  };
};

static void watch_call(struct neap_watch *watch)
{
  watch->real->called = true;
  watch->ready(watch->context, watch->fd);
}

static void watch_readable(uv_poll_t *poll, int status, int events)
{
  (void)status, (void)events; /* What is wrong shows when it is read. */
  watch_call(poll->data);
}

static void watch_signalled(uv_signal_t *signal, int number)
{
  (void)number;
  watch_call(signal->data);
}

static struct neap_watch *watch_new(
  struct neap_world *world, int fd, neap_real_ready *ready, void *context)
{
  struct real *real = (struct real *)world;
  struct neap_watch *watch = calloc(1, sizeof *watch);
  if (!watch) return NULL;
  watch->real = real;
  watch->ready = ready;
  watch->context = context;
  watch->fd = fd;
  neap_link_before(&real->watches, &watch->link);
  return watch;
}

static void watch_free(uv_handle_t *handle)
{
  struct neap_watch *watch = handle->data;
  watch->real->closing--;
  free(watch);
}

struct neap_watch *neap_real_watch(
  struct neap_world *world, int fd, neap_real_ready *ready, void *context)
{
  struct neap_watch *watch = watch_new(world, fd, ready, context);
  if (!watch) return NULL;
  int error = uv_poll_init(&watch->real->loop, &watch->poll, fd);
  watch->handle.data = watch;
  if (error == UV_EPERM) {
    watch->always = true;
  } else if (error) {
    neap_link_remove(&watch->link);
    free(watch);
    return NULL;
  } else {
    uv_poll_start(&watch->poll, UV_READABLE, watch_readable);
  }
  return watch;
}

struct neap_watch *neap_real_signal(
  struct neap_world *world, int number, neap_real_ready *ready, void *context)
{
  struct neap_watch *watch = watch_new(world, number, ready, context);
  if (!watch) return NULL;
  uv_signal_init(&watch->real->loop, &watch->signal);
  watch->handle.data = watch;
  if (!uv_signal_start(&watch->signal, watch_signalled, number)) return watch;
  neap_real_unwatch(watch);
  return NULL;
}

void neap_real_unwatch(struct neap_watch *watch)
{
  if (watch->gone) return;
  watch->gone = true;
  neap_link_remove(&watch->link);
  watch->real->closing++;
  if (watch->always)
    watch_free(&watch->handle);
  else
    uv_close(&watch->handle, watch_free);
}

/* A plain file is always ready; one of them is served in each step. */
static bool call_file(struct real *real)
{
  for (struct neap_link *l = real->watches.next; l != &real->watches; l = l->next) {
    struct neap_watch *watch = NEAP_HOLDER(l, struct neap_watch, link);
    if (!watch->always) continue;
    watch_call(watch);
    return true;
  }
  return false;
}

/* ---- steps ---- */

uint64_t neap_real_next(struct neap_world *world)
{
  struct neap_timer *first = neap_timers_first(&world->timers);
  if (!neap_link_alone(&world->ready)) return world->now;
  return first ? first->at : UINT64_MAX;
}

static bool nothing_open(const struct real *real)
{
  return neap_link_alone(&real->world.stacks) && neap_link_alone(&real->watches) &&
         !real->world.timers.count;
}

/* Looks at the sockets without waiting; what they bring makes stacks ready. */
static void look(struct real *real)
{
  real->unlooked = 0;
  uv_run(&real->loop, UV_RUN_NOWAIT);
}

/* Gives the core away and looks again, as often as it was worth lately: mostly at the socket where
 * something came last, now and then and in the end at all of them.  False: nothing came. */
static bool yield(struct real *real)
{
  uint32_t tries = real->tries;
  real->traffic = false;
  for (uint32_t i = 1; i <= tries; i++) {
    sched_yield();
    if (real->warm && i % LOOK_EACH && i < tries)
      neap_real_read(real->warm);
    else
      look(real);
    if (!real->traffic && !real->called) continue;
    real->counts.yielded++;
    return true;
  }
  if (tries == TRIES_MANY) real->vain = VAIN_PAUSE;
  return false;
}

/* Nothing is left to do before `until`: waits for a socket, a watcher or the clock. */
static void await(struct real *real, uint64_t until)
{
  struct neap_world *world = &real->world;
  uint64_t begun = world->now;
  if (real->traffic && yield(real)) return;
  uint64_t next = neap_real_next(world);
  if (next > until) next = until;
  if (next != UINT64_MAX) clock_set(real, next);
  real->counts.blocked++;
  uv_run(&real->loop, UV_RUN_ONCE);
  bool soon = real->traffic && clock_now() - begun < SOON;
  real->tries = soon && !real->vain ? TRIES_MANY : TRIES_FEW;
  if (real->vain) real->vain--;
}

static int real_step(struct neap_world *world, uint64_t until)
{
  struct real *real = (struct real *)world;
  real->called = false;
  /* What the application has just sent goes first, but not for ever. */
  if (neap_link_alone(&world->ready) || ++real->unlooked == LOOK_EACH) look(real);
  for (;;) {
    world->now = clock_now();
    real->counts.rounds++;
    neap_world_fire(world);
    neap_world_turns(world, ROUND_TURNS);
    if (call_file(real) || real->called || !neap_link_alone(&world->busy)) return NEAP_STEP_WORK;
    if (world->now >= until) return NEAP_STEP_TIME;
    if (until == UINT64_MAX && nothing_open(real)) return NEAP_STEP_IDLE;
    if (neap_real_next(world) <= world->now)
      look(real);
    else
      await(real, until);
  }
}

/* The loop is this thread's own and is not asleep while anybody else could make work. */
static void real_wake(struct neap_world *world)
{
  (void)world;
}

int neap_real_fd(struct neap_world *world)
{
  struct real *real = (struct real *)world;
  return uv_backend_fd(&real->loop);
}

const struct neap_real_counts *neap_real_counts(const struct neap_world *world)
{
  return &((const struct real *)world)->counts;
}

/* ---- life ---- */

static void ignore(uv_handle_t *handle)
{
  struct real *real = handle->data;
  real->closing--;
}

static void real_free(struct neap_world *world)
{
  struct real *real = (struct real *)world;
  while (!neap_link_alone(&world->stacks))
    neap_stack_close(NEAP_HOLDER(world->stacks.next, struct neap_stack, link));
  while (!neap_link_alone(&real->watches))
    neap_real_unwatch(NEAP_HOLDER(real->watches.next, struct neap_watch, link));
  NEAP_ASSERT(neap_link_alone(&real->ports)); /* Their layers have closed them. */
  real->closing++;
  uv_close((uv_handle_t *)&real->clock, ignore);
  while (real->closing) look(real);
  close(real->clock_fd);
  NEAP_ASSERT(!uv_loop_close(&real->loop));
  neap_real_reads_free(real);
  neap_world_done(world);
  free(real);
}

static const struct neap_world_class real_class = {
  .name = "real",
  .free = real_free,
  .port_open = neap_real_port_open,
  .port_vacant = neap_real_port_vacant,
  .port_send = neap_real_port_send,
  .port_flush = neap_real_port_flush,
  .port_close = neap_real_port_close,
  .step = real_step,
  .wake = real_wake,
};

struct neap_world *neap_real_new(uint64_t seed, struct neap_trail *trail)
{
  struct real *real = calloc(1, sizeof *real);
  int error = real ? uv_loop_init(&real->loop) : UV_ENOMEM;
  if (error) {
    free(real);
    neap_real_trail(trail, -error, "loop");
    return NULL;
  }
  neap_world_init(&real->world, &real_class, seed);
  neap_link_init(&real->ports);
  neap_link_init(&real->watches);
  real->clock_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (real->clock_fd < 0 || uv_poll_init(&real->loop, &real->clock, real->clock_fd)) {
    neap_real_trail(trail, errno, "clock");
    if (real->clock_fd >= 0) close(real->clock_fd);
    uv_loop_close(&real->loop);
    free(real);
    return NULL;
  }
  real->clock.data = real;
  real->tries = TRIES_FEW;
  uv_poll_start(&real->clock, UV_READABLE, clock_rang);
  real->world.now = clock_now();
  return &real->world;
}
