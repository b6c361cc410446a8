/* table: the figures of the README, each beside its goal.
 *
 * A row is measured `RUNS` times, the baseline before each; best and median of either side go into
 * it, and ratios of the best ones.  A row whose goal is missed says so; nothing fails. */

#include "bench/bench.h"

#include "core/layer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUNS = 5, PATH_BATCH = 64, PATH_ROUNDS = 6000, MILLION = 1000000 };

static const char lan[] =
  "rsvp frag ufc mfc settings gms stable unicast nakack verify_suspect fd_all ping udp";
static const char lossy[] =
  "rsvp frag ufc mfc settings gms stable unicast nakack verify_suspect fd_all ping discard udp";

static struct bench_load load_of(uint32_t size)
{
  return (struct bench_load){.receivers = 3,
    .size = size,
    .window = 2 << 20,
    .seconds = 0.35,
    .run = bench_number(),
    .stack = lan};
}

/* ---- one line ---- */

/* A figure and what it should be: at least, or (below 0) at most. */
struct figure {
  const char *name;
  double value, goal;
};

static void line(bool json, const char *row, const struct figure *figures, unsigned count)
{
  if (json)
    printf("{\"row\":\"%s\"", row);
  else
    printf("%-34s", row);
  for (unsigned i = 0; i < count; i++) {
    const struct figure *f = &figures[i];
    bool met = f->goal < 0 ? f->value <= -f->goal : f->value >= f->goal;
    if (json) {
      printf(",\"%s\":%.6g", f->name, f->value);
      if (f->goal != 0) printf(",\"%s_goal\":%.6g", f->name, fabs(f->goal));
    } else {
      printf("  %s %.4g", f->name, f->value);
      if (f->goal != 0)
        printf(" (%s %.4g%s)", f->goal < 0 ? "at most" : "at least", fabs(f->goal),
          met ? "" : ": missed");
    }
  }
  printf(json ? "}\n" : "\n");
  fflush(stdout);
}

static void remark(bool json, const char *row, const char *text)
{
  if (json)
    printf("{\"row\":\"%s\",\"skipped\":\"%s\"}\n", row, text);
  else
    printf("%-34s  skipped: %s\n", row, text);
}

/* ---- best and median ---- */

struct series {
  double values[RUNS];
  unsigned count;
};

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void add(struct series *s, double value)
{
  if (value > 0) s->values[s->count++] = value;
  qsort(s->values, s->count, sizeof *s->values, by_value);
}

static double best(const struct series *s)
{
  return s->count ? s->values[s->count - 1] : 0;
}

static double least(const struct series *s)
{
  return s->count ? s->values[0] : 0;
}

static double median(const struct series *s)
{
  return s->count ? s->values[s->count / 2] : 0;
}

/* Rates and CPU per byte of a load, run after run. */
struct rates {
  struct series bytes, messages, cost;
};

static void measure(struct rates *r, const struct bench_load *load, bench_work *work)
{
  struct bench_result result = bench_measure(load, work);
  if (!result.good || result.bytes <= 0) return;
  add(&r->bytes, result.bytes);
  add(&r->messages, result.messages);
  add(&r->cost, result.cpu / result.bytes * 1e9);
}

/* ---- rows ---- */

/* A group against bare datagrams of `bare` bytes. */
static void against_bare(bool json, const char *row, const struct bench_load *load, uint32_t bare,
  double share, double cost, double rate)
{
  struct bench_load base = *load;
  struct rates ours = {0}, theirs = {0};
  base.size = bare;
  for (int i = 0; i < RUNS; i++) {
    measure(&theirs, &base, bench_bare);
    measure(&ours, load, bench_group);
  }
  double other = best(&theirs.bytes), cheapest = least(&theirs.cost);
  struct figure figures[] = {
    {"M/s", best(&ours.messages) / MILLION, rate / MILLION},
    {"median", median(&ours.messages) / MILLION, 0},
    {"GB/s", best(&ours.bytes) / 1e9, 0},
    {"bare_GB/s", other / 1e9, 0},
    {"of_bare", other > 0 ? best(&ours.bytes) / other : 0, share},
    {"cpu_ns/B", least(&ours.cost), 0},
    {"cpu_to_bare", cheapest > 0 ? least(&ours.cost) / cheapest : 0, -cost},
  };
  line(json, row, figures, sizeof figures / sizeof *figures);
}

/* One way to run a group against another. */
static void against_itself(bool json, const char *row, const struct bench_load *load,
  const struct bench_load *base, double share)
{
  struct rates ours = {0}, theirs = {0};
  for (int i = 0; i < RUNS; i++) {
    measure(&theirs, base, bench_group);
    measure(&ours, load, bench_group);
  }
  double other = best(&theirs.messages);
  struct figure figures[] = {
    {"M/s", best(&ours.messages) / MILLION, 0},
    {"median", median(&ours.messages) / MILLION, 0},
    {"without", other / MILLION, 0},
    {"share", other > 0 ? best(&ours.messages) / other : 0, share},
  };
  line(json, row, figures, sizeof figures / sizeof *figures);
}

static void round_trip(bool json, const char *row, unsigned cores)
{
  struct bench_load load = load_of(64);
  struct series ours = {0}, theirs = {0}, tail = {0};
  load.receivers = 1;
  load.cores = cores;
  for (int i = 0; i < RUNS; i++) {
    struct bench_result bare = bench_measure(&load, bench_bare_echo);
    struct bench_result group = bench_measure(&load, bench_group_echo);
    if (bare.good) add(&theirs, bare.p50 * 1e6);
    if (group.good) add(&ours, group.p50 * 1e6);
    if (group.good) add(&tail, group.p99 * 1e6);
  }
  struct figure figures[] = {
    {"p50_us", least(&ours), 0},
    {"median", median(&ours), 0},
    {"p99_us", least(&tail), 0},
    {"bare_p50_us", least(&theirs), 0},
    {"to_bare", least(&theirs) > 0 ? least(&ours) / least(&theirs) : 0, -1.3},
  };
  line(json, row, figures, sizeof figures / sizeof *figures);
}

/* From a synchronous multicast until all members have delivered it.  (JGroups: 640 us.) */
static void synchronous(bool json, const char *row)
{
  struct bench_load load = load_of(100);
  struct series middle = {0}, tail = {0};
  for (int i = 0; i < RUNS; i++) {
    struct bench_result result = bench_measure(&load, bench_group_rsvp);
    if (result.good) add(&middle, result.p50 * 1e6);
    if (result.good) add(&tail, result.p99 * 1e6);
  }
  struct figure figures[] = {
    {"p50_us", least(&middle), -200},
    {"median", median(&middle), 0},
    {"p99_us", least(&tail), 0},
  };
  line(json, row, figures, sizeof figures / sizeof *figures);
}

/* Waits until every receiver has so many messages, or a minute. */
static uint64_t most_resident_at(const struct bench_run *run, uint64_t messages)
{
  uint64_t limit = bench_now() + 60000000000u, most = 0;
  for (unsigned i = 1; i < run->members; i++)
    while (run->shared->member[i].messages < messages && bench_now() < limit) bench_rest(0.02);
  for (unsigned i = 0; i < run->members; i++) {
    uint64_t resident = bench_resident(run->pids[i]);
    if (resident > most) most = resident;
  }
  return most;
}

/* How late a lost message is, where each receiver loses one in so many. */
static void lost(
  bool json, const char *row, double loss, uint64_t pause, uint64_t late, double goal)
{
  struct bench_load load = load_of(100);
  struct series ours = {0};
  load.receivers = 1;
  load.stack = lossy;
  load.loss = loss;
  load.pause = pause;
  load.late = late;
  load.set =
    "nakack.xmit_interval=20ms"; /* What comes after a longer pause is a burst of its own. */
  load.seconds = 1;
  for (int i = 0; i < RUNS; i++) add(&ours, bench_measure(&load, bench_group_late).p50 * 1e3);
  struct figure figures[] = {{"p50_ms", least(&ours), 0}, {"median", median(&ours), -goal}};
  line(json, row, figures, 2);
}

/* As fast as it goes into small or large socket buffers, where nothing may be lost. */
static void flood(bool json, const char *row, uint32_t size, const char *set)
{
  struct bench_load load = load_of(size);
  struct series rates = {0};
  double overflow = 0;
  load.set = set;
  for (int i = 0; i < RUNS; i++) {
    struct bench_result result = bench_measure(&load, bench_group);
    add(&rates, result.messages / MILLION);
    overflow += result.overflow;
  }
  struct figure figures[] = {
    {"M/s", best(&rates), 0},
    {"median", median(&rates), 0},
    {"least", least(&rates), best(&rates) / 4},
    {"lost_in_buffers", overflow, -0.5},
  };
  line(json, row, figures, sizeof figures / sizeof *figures);
}

/* Shares of what goes through loss-free where nothing costs CPU: the mechanism alone. */
static void simulated_loss(bool json)
{
  struct bench_load load = load_of(1000);
  load.stack = lossy;
  load.seconds = 1;
  double whole = bench_sim_flow(&load, 4);
  load.loss = 0.01;
  double one = bench_sim_flow(&load, 4);
  load.loss = 0.05;
  double five = bench_sim_flow(&load, 4);
  load.loss = 0;
  load.set = "nakack.retransmission=ack";
  double acks = bench_sim_flow(&load, 4);
  struct figure figures[] = {
    {"M/s", whole / MILLION, 0},
    {"share_1%", whole > 0 ? one / whole : 0, 0.7},
    {"share_5%", whole > 0 ? five / whole : 0, 0.45},
    {"ack_to_nak", whole > 0 ? acks / whole : 0, 0.85},
  };
  line(json, "1 kB, simulated loopback, lost", figures, sizeof figures / sizeof *figures);
}

static void memory(bool json)
{
  struct bench_load load = load_of(100);
  struct bench_run run;
  double idle = 0, two = 0, ten = 0;
  if (bench_start(&run, &load, bench_group_idle)) {
    bench_rest(1);
    idle = (double)most_resident_at(&run, 0) / 1000;
  }
  bench_stop(&run);
  if (bench_start(&run, &load, bench_group)) {
    two = (double)most_resident_at(&run, 2 * MILLION) / 1000;
    ten = (double)most_resident_at(&run, 10 * MILLION) / 1000;
  }
  bench_stop(&run);
  struct figure figures[] = {
    {"idle_MB", idle, -8},
    {"after_2M_MB", two, 0},
    {"after_10M_MB", ten, -40},
    {"growth_MB", ten - two, 0},
  };
  line(json, "memory of a member", figures, sizeof figures / sizeof *figures);
}

/* Instructions of one side for each message, by callgrind; 0 when it is not there. */
static double instructions(const char *program, const char *side)
{
  char command[512], text[256];
  double count = 0;
  snprintf(command, sizeof command,
    "valgrind --tool=callgrind --callgrind-out-file=/dev/null --collect-atstart=no "
    "--toggle-collect=%s '%s' path 2>&1",
    side, program);
  FILE *f = popen(command, "r");
  while (f && fgets(text, sizeof text, f)) {
    char *at = strstr(text, "Collected :");
    if (at) count = atof(at + strlen("Collected :"));
  }
  if (f) pclose(f);
  return count / (PATH_BATCH * PATH_ROUNDS);
}

static void path(bool json)
{
  char program[256];
  ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
  program[len > 0 ? len : 0] = 0;
  double sent = instructions(program, "bench_sender_side");
  double received = instructions(program, "bench_receiver_side");
  if (sent <= 0) {
    remark(json, "instructions, 100 B, 13 layers", "valgrind is not installed");
    return;
  }
  struct figure figures[] = {{"sent", sent, -600}, {"received", received, -500}};
  line(json, "instructions, 100 B, 13 layers", figures, 2);
}

/* How many reports one message costs its sender, where nobody votes on what is stable. */
static void ack_traffic(bool json)
{
  struct bench_load load = load_of(1000);
  load.set = "nakack.retransmission=ack";
  struct figure figures[] = {
    {"acks_8", bench_sim_acks(&load, 8), 0},
    {"acks_64", bench_sim_acks(&load, 64), 0},
  };
  line(json, "ack mode, reports a message", figures, sizeof figures / sizeof *figures);
}

static void simulator(bool json)
{
  struct bench_load load = load_of(100);
  load.seconds = 2;
  struct figure figures[] = {
    {"deliveries_per_cpu_s", bench_sim_busy(&load, 8), 400000},
    {"idle_virtual_to_real", bench_sim_idle(&load, 8), 5000},
  };
  line(json, "simulator, 8 members", figures, 2);
}

static void between_namespaces(bool json)
{
  static const char row[] = "1 kB, MTU 1500, 3 namespaces";
  const char *why;
  struct bench_load load = load_of(1000);
  load.receivers = 2;
  load.namespaces = load.offload = true;
  if (!bench_net_up(load.receivers + 1, &why)) {
    remark(json, row, why);
    return;
  }
  against_bare(json, row, &load, 1472, 0, 0, 0);
  bench_net_down();
}

void bench_table(bool json)
{
  struct bench_load load = load_of(1000), other = load;
  if (!json)
    printf(
      "1 sender, 3 receivers, processes on loopback; best of %d, bare 60 kB datagrams beside\n",
      RUNS);
  against_bare(json, "1 kB", &load, 60000, 0.45, 2.5, 0);
  load = load_of(100);
  against_bare(json, "100 B", &load, 60000, 0, 0, 2.5 * MILLION);
  load = load_of(10000);
  against_bare(json, "10 kB", &load, 60000, 0.6, 0, 0);
  load = load_of(1000);
  load.all_send = true;
  against_itself(json, "1 kB, all four send", &load, &other, 0.6);
  load = other;
  load.stack = other.stack = lossy;
  load.loss = 0.01;
  against_itself(json, "1 kB, 1 % lost at each", &load, &other, 0.7);
  load.loss = 0.05;
  against_itself(json, "1 kB, 5 % lost at each", &load, &other, 0.45);
  load = other = load_of(1000);
  load.set = "nakack.retransmission=ack";
  against_itself(json, "1 kB, ack mode", &load, &other, 0.85);
  static const char small[] = "udp.receive_buffer=212992B", large[] = "udp.receive_buffer=4MiB";
  flood(json, "10 kB, buffers of 208 kB", 10000, small);
  flood(json, "10 kB, buffers of 4 MB", 10000, large);
  flood(json, "100 B, buffers of 208 kB", 100, small);
  flood(json, "100 B, buffers of 4 MB", 100, large);
  lost(json, "last message lost", 0.1, NEAP_MS(30), NEAP_MS(3), 10);
  lost(json, "message in between lost", 0.01, NEAP_US(200), NEAP_US(800), 2);
  between_namespaces(json);
  round_trip(json, "round trip 64 B, one core each", 2);
  round_trip(json, "round trip 64 B, both on one core", 1);
  synchronous(json, "synchronous, 100 B to 4 members");
  memory(json);
  path(json);
  simulated_loss(json); /* What runs in this process makes every later one larger. */
  simulator(json);
  ack_traffic(json);
}
