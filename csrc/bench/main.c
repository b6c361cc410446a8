/* neap-bench: one row of `make bench`, as one line of JSON.
 *
 *     neap-bench bare|group|path [-r receivers] [-s size] [-w window] [-t seconds] [-l loss]
 *                                [-o] [-a] [-k stack] [-x "layer.attr=value ..."]
 *
 * bare: datagrams as fast as the kernel takes them; group: a real group; path: a fixed number of
 * messages between two members on a list of packets, for callgrind to count.  -o lets the kernel cut
 * and join datagrams, -a has every member send.  The table is made by lua/neap/commands/bench.lua. */

#include "bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BATCH = 64, PATH_ROUNDS = 2000 };

static void read_option(struct bench_load *load, char letter, const char *value)
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
  case 'k':
    load->stack = value;
    break;
  case 'x':
    load->set = value;
    break;
  default:
    fprintf(stderr, "neap-bench: no option -%c\n", letter);
    exit(2);
  }
}

static void print_row(const char *kind, const struct bench_load *load, struct bench_result r)
{
  printf("{\"kind\":\"%s\",\"size\":%u,\"receivers\":%u,\"messages\":%.0f,\"bytes\":%.0f,"
         "\"cpu\":%.4f,\"cpu_sender\":%.4f,\"cpu_receiver\":%.4f,\"stolen\":%.4f}\n",
    kind, load->size, load->receivers, r.messages, r.bytes, r.cpu, r.cpu_sender, r.cpu_receiver,
    r.stolen);
}

int main(int argc, char **argv)
{
  struct bench_load load = {
    .receivers = 3, .size = 1000, .window = 2 << 20, .seconds = 0.35, .stack = "lan", .seed = 1};
  const char *kind = argc > 1 ? argv[1] : "";
  for (int i = 2; i < argc; i++) {
    if (argv[i][0] != '-') continue;
    if (argv[i][1] == 'o')
      load.offload = true;
    else if (argv[i][1] == 'a')
      load.all_send = true;
    else if (i + 1 < argc)
      read_option(&load, argv[i][1], argv[i + 1]);
  }
  if (!strcmp(kind, "path")) return bench_path(&load, PATH_BATCH, PATH_ROUNDS);
  if (strcmp(kind, "bare") && strcmp(kind, "group")) {
    fprintf(stderr, "neap-bench bare|group|path ...\n");
    return 2;
  }
  print_row(kind, &load, bench_run(&load, !strcmp(kind, "bare") ? bench_bare : bench_group));
  return 0;
}
