/* neap-bench: the table of `make bench`, or one row of it.
 *
 *     neap-bench [--json]
 *     neap-bench bare|group|idle|bare-echo|group-echo|group-rsvp|group-late [-r receivers]
 *                [-s size] [-w window] [-t seconds] [-l loss] [-c cores] [-n runs] [-o] [-a]
 *                [-k stack] [-p pause] [-L late] [-x "layer.attr=value ..."]
 *     neap-bench path [-s size]
 *     neap-bench flow [-s size] [-r receivers] [-l loss] [-t seconds] [-k stack] [-x ...]
 *
 * -o: bare datagrams are cut and joined by the kernel; -a: every member sends; path: a fixed number
 * of messages in one process, for callgrind to count. */

#include "bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BATCH = 64, PATH_ROUNDS = 6000 };

static const char lan[] =
  "rsvp frag ufc mfc settings gms stable unicast nakack verify_suspect fd_all ping udp";

static const struct {
  const char *name;
  bench_work *work;
} kinds[] = {
  {"bare", bench_bare},
  {"group", bench_group},
  {"idle", bench_group_idle},
  {"bare-echo", bench_bare_echo},
  {"group-echo", bench_group_echo},
  {"group-rsvp", bench_group_rsvp},
  {"group-late", bench_group_late},
};

static int usage(const char *what)
{
  fprintf(stderr,
    "neap-bench: %s is neither --json nor bare, group, idle, bare-echo, group-echo, group-rsvp, "
    "group-late, flow, path or an option\n",
    what);
  return 2;
}

/* False: there is no such option. */
static bool read_option(struct bench_load *load, char letter, const char *value, int *runs)
{
  switch (letter) {
  case 'r':
    load->receivers = (unsigned)atoi(value);
    break;
  case 's':
    load->size = (uint32_t)atoi(value);
    break;
  case 'w':
    load->window = (uint64_t)atol(value);
    break;
  case 't':
    load->seconds = atof(value);
    break;
  case 'l':
    load->loss = atof(value);
    break;
  case 'p':
    load->pause = (uint64_t)(atof(value) * 1e9);
    break;
  case 'L':
    load->late = (uint64_t)(atof(value) * 1e9);
    break;
  case 'c':
    load->cores = (unsigned)atoi(value);
    break;
  case 'n':
    *runs = atoi(value);
    break;
  case 'k':
    load->stack = value;
    break;
  case 'x':
    load->set = value;
    break;
  default:
    return false;
  }
  return true;
}

static void print_row(const char *kind, const struct bench_load *load, struct bench_result r)
{
  printf("%s %u B to %u: %.3f M/s %.3f GB/s  cpu %.2f (sender %.2f, each receiver %.2f)  "
         "%.3f us/msg %.4f ns/B  p50 %.1f us p99 %.1f us  stolen %.1f %%  overflow %.0f\n",
    kind, load->size, load->receivers, r.messages / 1e6, r.bytes / 1e9, r.cpu, r.cpu_sender,
    r.cpu_receiver, r.messages > 0 ? r.cpu / r.messages * 1e6 : 0,
    r.bytes > 0 ? r.cpu / r.bytes * 1e9 : 0, r.p50 * 1e6, r.p99 * 1e6, r.stolen * 100, r.overflow);
  fflush(stdout);
}

int main(int argc, char **argv)
{
  struct bench_load load = {.receivers = 3,
    .size = 1000,
    .window = 2 << 20,
    .seconds = 0.35,
    .run = bench_number(),
    .stack = lan};
  const char *kind = argc > 1 ? argv[1] : "";
  int runs = 1;
  if (!*kind || !strcmp(kind, "--json")) {
    bench_table(*kind != 0);
    return 0;
  }
  for (int i = 2; i < argc; i++) {
    char letter = argv[i][0] == '-' ? argv[i][1] : 0;
    if (letter == 'o')
      load.offload = true;
    else if (letter == 'a')
      load.all_send = true;
    else if (i + 1 == argc || !read_option(&load, letter, argv[i + 1], &runs))
      return usage(argv[i]);
    else
      i++;
  }
  if (!strcmp(kind, "flow")) {
    printf("%.0f messages per virtual second\n", bench_sim_flow(&load, load.receivers + 1));
    return 0;
  }
  if (!strcmp(kind, "path")) {
    load.size = load.size == 1000 ? 100 : load.size;
    printf("%llu messages\n", (unsigned long long)bench_path(&load, PATH_BATCH, PATH_ROUNDS));
    return 0;
  }
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    if (strcmp(kinds[k].name, kind)) continue;
    if (load.receivers >= BENCH_MEMBERS) return usage("so many receivers");
    for (; runs > 0; runs--) print_row(kind, &load, bench_measure(&load, kinds[k].work));
    return 0;
  }
  return usage(kind);
}
