/* net: a network namespace for each process, joined by a bridge, as if they were hosts.
 *
 *      neap-bench-0   neap-bench-1   neap-bench-2        eth0, 10.78.0.1, .2, .3, MTU 1500
 *            |              |              |
 *          --+--------------+--------------+--           sw0 in neap-bench-net */

#include "bench/bench.h"

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned made; /* namespaces of members */

static bool shell(const char *format, ...)
{
  char line[512];
  va_list list;
  va_start(list, format);
  int len = vsnprintf(line, sizeof line - 32, format, list);
  va_end(list);
  snprintf(line + len, sizeof line - (size_t)len, " >/dev/null 2>&1");
  return system(line) == 0;
}

bool bench_net_up(unsigned members, const char **why)
{
  bench_net_down();
  *why = "ip netns is not permitted";
  if (!shell("ip netns add neap-bench-net")) return false;
  *why = "the bridge could not be made";
  bool good = shell("ip -n neap-bench-net link add sw0 type bridge mcast_snooping 0") &&
              shell("ip -n neap-bench-net link set sw0 up");
  for (unsigned i = 0; good && i < members; i++) {
    made = i + 1;
    good = shell("ip netns add neap-bench-%u", i) &&
           shell("ip link add p%u netns neap-bench-net type veth "
                 "peer name eth0 netns neap-bench-%u",
             i, i) &&
           shell("ip -n neap-bench-net link set p%u master sw0", i) &&
           shell("ip -n neap-bench-net link set p%u up", i) &&
           shell("ip -n neap-bench-%u addr add 10.78.0.%u/24 dev eth0", i, i + 1) &&
           shell("ip -n neap-bench-%u link set eth0 up", i) &&
           shell("ip -n neap-bench-%u link set lo up", i);
  }
  if (!good) bench_net_down();
  return good;
}

void bench_net_down(void)
{
  for (unsigned i = 0; i < BENCH_MEMBERS; i++) shell("ip netns del neap-bench-%u", i);
  shell("ip netns del neap-bench-net");
  made = 0;
}

void bench_net_enter(unsigned me)
{
  char name[64];
  snprintf(name, sizeof name, "/run/netns/neap-bench-%u", me);
  int fd = open(name, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET)) {
    perror(name);
    exit(1);
  }
  close(fd);
}
