/* bench: how the figures are taken.
 *
 * The members of a workload are processes of their own, begun by fork, that share a page of
 * counters with the parent.  The parent says go, looks twice at the counters and at the processes'
 * CPU clocks, and says stop:
 *
 *      ready ............ go ... look ======== look ... stop
 *                             warm    measured
 *
 * A virtual machine's host takes CPU away after seconds of load: runs are short, the baseline is
 * interleaved, and a run in which more than a twentieth was stolen does not count.  What is quoted
 * is best and median, and ratios within one sitting. */

#ifndef NEAP_BENCH_BENCH_H
#define NEAP_BENCH_BENCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct neap_channel;
struct neap_stack_spec;

enum { BENCH_MEMBERS = 8, BENCH_TIMES = 1 << 16 };

/* Each on a cache line of its own. */
struct bench_member {
  _Alignas(64) _Atomic uint64_t messages, bytes; /* received */
  _Atomic uint64_t overflow;                     /* packets its socket buffers had no room for */
  _Atomic bool ready;
};

struct bench_shared {
  _Alignas(64) _Atomic bool go, stop;
  struct bench_member member[BENCH_MEMBERS]; /* [0] sends, or asks */
  _Atomic uint32_t times_count;              /* round trips */
  uint32_t times[BENCH_TIMES];               /* ns each, the last ones */
};

/* What is asked for. */
struct bench_load {
  unsigned receivers;
  uint32_t size;   /* bytes of a message, or of a bare datagram */
  uint64_t window; /* bare: bytes under way, at most */
  bool offload;    /* bare: let the kernel cut and join */
  bool all_send;
  bool namespaces;   /* each process in a network namespace of its own, see net.c */
  unsigned cores;    /* 0 where the kernel likes, 1 all on one, 2 one each */
  double loss;       /* chance at each receiver */
  uint64_t pause;    /* late: ns between two messages */
  uint64_t late;     /* late: one that took so long was lost, and the first that did is counted */
  double seconds;    /* measured */
  unsigned run;      /* tells apart what runs at the same time: bench_number */
  const char *stack; /* layers, top first */
  const char *set;   /* "layer.attr=value layer.attr=value" */
};

/* One look at everybody. */
struct bench_look {
  uint64_t time;
  uint64_t messages[BENCH_MEMBERS], bytes[BENCH_MEMBERS], overflow[BENCH_MEMBERS];
  double cpu[BENCH_MEMBERS]; /* seconds so far */
  uint64_t ticks, stolen;
};

struct bench_result {
  bool good;                            /* it ran, and the host did not interfere */
  double messages, bytes;               /* per second at the slowest receiver */
  double cpu_sender, cpu_receiver, cpu; /* seconds of CPU per second: one, one on average, all */
  double stolen;                        /* share of all CPU time */
  double p50, p99;                      /* of round trips, seconds */
  double overflow;                      /* packets lost in socket buffers, since the beginning */
};

/* What a process does until shared->stop. */
typedef void bench_work(const struct bench_load *load, struct bench_shared *shared, unsigned me);

/* A workload that is running. */
struct bench_run {
  const struct bench_load *load;
  struct bench_shared *shared;
  pid_t pids[BENCH_MEMBERS];
  unsigned members;
};

/* ---- bench.c ---- */

bool bench_start(struct bench_run *run, const struct bench_load *load, bench_work *work);
void bench_look(const struct bench_run *run, struct bench_look *look);
struct bench_result bench_compare(
  const struct bench_look *a, const struct bench_look *b, const struct bench_load *load);
void bench_stop(struct bench_run *run);
/* All of that: starts, warms, measures, stops. */
struct bench_result bench_measure(const struct bench_load *load, bench_work *work);

uint64_t bench_now(void);
/* Another one in each process: two sittings on one machine must not hear each other. */
unsigned bench_number(void);
void bench_rest(double seconds);
/* A round trip took so long. */
void bench_time(struct bench_shared *shared, uint64_t ns);
/* Kilobytes of memory that a process has resident. */
uint64_t bench_resident(pid_t pid);

/* ---- net.c ---- */

/* Namespaces on a bridge, MTU 1500; false, and why not, when there can be none. */
bool bench_net_up(unsigned members, const char **why);
void bench_net_down(void);
/* This process moves into its own. */
void bench_net_enter(unsigned me);

/* ---- workloads ---- */

bench_work bench_bare;      /* bare.c: datagrams as fast as the kernel takes them */
bench_work bench_bare_echo; /* bare.c: one request and one answer at a time, through poll */
bench_work bench_group;     /* group.c: a real group */
bench_work bench_group_echo;
bench_work bench_group_idle;
bench_work bench_group_late; /* how late is what was lost? */
bench_work bench_group_rsvp; /* one synchronous multicast at a time */

/* group.c: the stack of a load, checked. */
const struct neap_stack_spec *bench_plan(const struct bench_load *load);
/* BENCH_TELL=1: what the layers of a member counted. */
void bench_tell(const struct neap_channel *channel);

/* path.c: the whole path in one process, for callgrind.  Messages that arrived. */
uint64_t bench_path(const struct bench_load *load, unsigned batch, unsigned rounds);

/* sim.c: deliveries per second of CPU in a simulated group that sends, and virtual seconds per real
 * second in one that is idle. */
double bench_sim_busy(const struct bench_load *load, unsigned members);
double bench_sim_idle(const struct bench_load *load, unsigned members);
/* Messages per virtual second at the slowest receiver: one sends what the gate lets through. */
double bench_sim_flow(const struct bench_load *load, unsigned members);

/* Reports that a sender gets for each message, one message in a millisecond. */
double bench_sim_acks(const struct bench_load *load, unsigned members);

/* table.c: all of it. */
void bench_table(bool json);

#endif
