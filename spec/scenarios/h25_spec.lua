-- H25: wall clock steps (JGRP-2917, libuv 261).  Times are the monotonic clock's: what people or
-- daemons do to the wall clock changes nothing.  (A clock of odd origin cannot be: the world counts
-- from its own beginning in simulation, and from the system's start otherwise.)

local build = require "support.build"

-- The wall clock of this process goes an hour ahead once there is a group, then two hours back.
local SHIM = [[
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long step(void)
{
  static long long begun;
  struct timespec t;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
  long long now = t.tv_sec * 1000LL + t.tv_nsec / 1000000;
  if (!begun) begun = now;
  return now - begun < 1500 ? 0 : now - begun < 1900 ? 3600 : -3600;
}
int clock_gettime(clockid_t id, struct timespec *t)
{
  int result = (int)syscall(SYS_clock_gettime, id, t);
  if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) t->tv_sec += step();
  return result;
}
int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *at)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
]]

local STORY = [[
local neap = require "neap"
neap.run(function()
  local group, wall, least, most = "h25-" .. neap.now(), os.time(), 0, 0
  local with = { fd_all = { timeout = "400ms", interval = "100ms" },
    stable = { interval = "100ms" }, rsvp = { timeout = "300ms" } }
  local function join(name)
    return assert(neap.join(group, { stack = "lan", name = name, with = with,
      on = { message = function() end } }))
  end
  local ann, bob = join "ann", join "bob"
  while #ann:view().members < 2 do neap.sleep "5ms" end
  local since, failed, late, sent = neap.now(), 0, 0, 0
  while neap.now() - since < 1.5e9 do
    local before = neap.now()
    neap.sleep "20ms"
    local slept = neap.now() - before
    if slept < 20e6 then late = late + 1 end
    sent = sent + 1
    if not ann:send("m", { rsvp = "delivery" }) then failed = failed + 1 end
    local step = os.time() - wall
    least, most = math.min(least, step), math.max(most, step)
  end
  print(("stepped=%s failed=%d early=%d enough=%s suspected=%d members=%d"):format(
    tostring(most > 3000 and least < -3000), failed, late, tostring(sent > 10),
    ann.stack.fd_all.suspected + bob.stack.fd_all.suspected, #bob:view().members))
  bob:close()
  ann:close()
end)
]]

describe("H25", function()
  it("takes no notice of a wall clock that steps #real", function()
    if os.getenv "NEAP_SAN" then pending "the sanitizers are loaded first themselves" return end
    local source, shim = build.write("h25.c", SHIM), build.scratch .. "/h25.so"
    local told, code = build.run(("gcc -shared -fPIC -o %s %s"):format(shim, source))
    assert(code == 0, told)
    local text = build.run(("LD_PRELOAD=$(realpath %s) timeout 60 %s run %s"):format(shim,
      build.neap, build.write("h25.lua", STORY)))
    assert(text:find("stepped=true failed=0 early=0 enough=true suspected=0 members=2",
      1, true), text)
  end)
end)
