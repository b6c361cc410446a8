#include "bench/bench.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A group that has not formed after this many seconds never will. */
enum { READY_SECONDS = 20 };

/* Before the first look; the most of all CPU time that may be stolen; for a process to end. */
static const double warm_seconds = 0.15, stolen_most = 0.05, end_seconds = 3;

uint64_t bench_now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

unsigned bench_number(void)
{
  return (unsigned)getpid() % 20000;
}

void bench_rest(double seconds)
{
  struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&t, NULL);
}

void bench_time(struct bench_shared *shared, uint64_t ns)
{
  uint32_t n = atomic_fetch_add_explicit(&shared->times_count, 1, memory_order_relaxed);
  shared->times[n % BENCH_TIMES] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

uint64_t bench_resident(pid_t pid)
{
  char name[64];
  unsigned long all, resident = 0;
  snprintf(name, sizeof name, "/proc/%d/statm", (int)pid);
  FILE *f = fopen(name, "r");
  if (f && fscanf(f, "%lu %lu", &all, &resident) != 2) resident = 0;
  if (f) fclose(f);
  return resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* ---- looking ---- */

static double cpu_of(pid_t pid)
{
  clockid_t clock;
  struct timespec t = {0};
  if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t)) return 0;
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void look_at_host(struct bench_look *look)
{
  unsigned long long v[8] = {0};
  FILE *f = fopen("/proc/stat", "r");
  look->ticks = look->stolen = 0;
  if (f && fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3],
             &v[4], &v[5], &v[6], &v[7]) == 8) {
    for (int i = 0; i < 8; i++) look->ticks += v[i];
    look->stolen = v[7];
  }
  if (f) fclose(f);
}

void bench_look(const struct bench_run *run, struct bench_look *look)
{
  look->time = bench_now();
  for (unsigned i = 0; i < run->members; i++) {
    look->messages[i] = run->shared->member[i].messages;
    look->bytes[i] = run->shared->member[i].bytes;
    look->overflow[i] = run->shared->member[i].overflow;
    look->cpu[i] = cpu_of(run->pids[i]);
  }
  look_at_host(look);
}

struct bench_result bench_compare(
  const struct bench_look *a, const struct bench_look *b, const struct bench_load *load)
{
  struct bench_result r = {0};
  double seconds = (double)(b->time - a->time) / 1e9;
  unsigned first = load->all_send ? 0 : 1;
  for (unsigned i = first; i <= load->receivers; i++) {
    double messages = (double)(b->messages[i] - a->messages[i]) / seconds;
    double bytes = (double)(b->bytes[i] - a->bytes[i]) / seconds;
    if (i == first || messages < r.messages) r.messages = messages;
    if (i == first || bytes < r.bytes) r.bytes = bytes;
  }
  for (unsigned i = 0; i <= load->receivers; i++) {
    double cpu = (b->cpu[i] - a->cpu[i]) / seconds;
    r.cpu += cpu;
    if (!i)
      r.cpu_sender = cpu;
    else
      r.cpu_receiver += cpu / load->receivers;
  }
  for (unsigned i = 0; i <= load->receivers; i++) r.overflow += (double)b->overflow[i];
  uint64_t ticks = b->ticks - a->ticks;
  if (ticks) r.stolen = (double)(b->stolen - a->stolen) / (double)ticks;
  r.good = r.stolen <= stolen_most;
  return r;
}

static int by_size(const void *a, const void *b)
{
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static void round_trips(struct bench_shared *shared, struct bench_result *r)
{
  uint32_t count = shared->times_count < BENCH_TIMES ? shared->times_count : BENCH_TIMES;
  if (!count) return;
  qsort(shared->times, count, sizeof *shared->times, by_size);
  r->p50 = shared->times[count / 2] / 1e9;
  r->p99 = shared->times[count - 1 - count / 100] / 1e9;
}

/* ---- running ---- */

static bool all_ready(const struct bench_run *run)
{
  for (unsigned i = 0; i < run->members; i++)
    if (!run->shared->member[i].ready) return false;
  return true;
}

static void settle_on(unsigned cores, unsigned me)
{
  cpu_set_t set;
  if (!cores) return;
  CPU_ZERO(&set);
  CPU_SET(me % cores, &set);
  sched_setaffinity(0, sizeof set, &set);
}

bool bench_start(struct bench_run *run, const struct bench_load *load, bench_work *work)
{
  *run = (struct bench_run){.load = load, .members = load->receivers + 1};
  run->shared =
    mmap(NULL, sizeof *run->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (run->shared == MAP_FAILED) return false;
  fflush(stdout);
  for (unsigned i = 0; i < run->members; i++) {
    run->pids[i] = fork();
    if (run->pids[i]) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    settle_on(load->cores, i);
    if (load->namespaces) bench_net_enter(i);
    work(load, run->shared, i);
    _exit(0);
  }
  uint64_t limit = bench_now() + (uint64_t)READY_SECONDS * 1000000000u;
  while (!all_ready(run) && bench_now() < limit) bench_rest(0.005);
  bool ready = all_ready(run);
  run->shared->go = ready;
  return ready;
}

void bench_stop(struct bench_run *run)
{
  uint64_t limit = bench_now() + (uint64_t)(end_seconds * 1e9);
  run->shared->stop = true;
  for (unsigned i = 0; i < run->members; i++) {
    while (waitpid(run->pids[i], NULL, WNOHANG) == 0) {
      bench_rest(0.005);
      if (bench_now() > limit) kill(run->pids[i], SIGKILL);
    }
  }
  munmap(run->shared, sizeof *run->shared);
}

struct bench_result bench_measure(const struct bench_load *load, bench_work *work)
{
  struct bench_run run;
  struct bench_look before, after;
  struct bench_result result = {0};
  if (bench_start(&run, load, work)) {
    bench_rest(warm_seconds);
    run.shared->times_count = 0;
    bench_look(&run, &before);
    bench_rest(load->seconds);
    bench_look(&run, &after);
    result = bench_compare(&before, &after, load);
    round_trips(run.shared, &result);
  }
  bench_stop(&run);
  return result;
}
