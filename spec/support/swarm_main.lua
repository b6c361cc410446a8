-- swarm_main: `make sim SEEDS=1..1000`, or one seed: SEEDS=17.  Stops at the first that fails, with
-- the line that repeats it.  Every tenth is run twice: it has to be the same story again.

local root = debug.getinfo(1, "S").source:match "^@(.*)spec/support/" or "./"
package.path = ("%slua/?.lua;%slua/?/init.lua;%sspec/?.lua;"):format(root, root, root)
  .. package.path
package.cpath = (os.getenv "NEAP_LIB" or root .. "build/lib") .. "/?.so;" .. package.cpath

local swarm = require "support.swarm"

local first, last = (arg[1] or "1..20"):match "^(%d+)%.%.(%d+)$"
if not first then first, last = tonumber(arg[1]), tonumber(arg[1]) end
first, last = tonumber(first), tonumber(last)
if not first then
  io.stderr:write "swarm_main: seeds are given as 1..1000, or as one number\n"
  os.exit(2)
end

local one = first == last
local totals = { got = 0, seconds = 0, crashed = 0, toggled = 0, together_set = 0, tables_lost = 0,
  states_got = 0, states_lost = 0 }
local began = os.clock()
for seed = first, last do
  local problem, plan, story = swarm.try(seed)
  if problem then
    print(("seed %d failed: %s\n%s\nagain: make sim SEEDS=%d"):format(
      seed, swarm.describe(plan), problem, seed))
    os.exit(1)
  end
  if seed % 10 == 0 and select(3, swarm.try(seed)).hash ~= story.hash then
    print(("seed %d failed: told again, it is another story\nagain: make sim SEEDS=%d"):format(
      seed, seed))
    os.exit(1)
  end
  totals.got = totals.got + story.got
  totals.seconds = totals.seconds + story.time / 1e9
  totals.crashed = totals.crashed + story.crashed
  totals.toggled = totals.toggled + story.toggled
  totals.together_set = totals.together_set + story.together_set
  totals.tables_lost = totals.tables_lost + story.tables_lost
  totals.states_got = totals.states_got + story.states_got
  totals.states_lost = totals.states_lost + story.states_lost
  if one then print(swarm.describe(plan), story.hash) end
  if seed % 50 == 0 then
    print(("seeds up to %d passed (%.0f s)"):format(seed, os.clock() - began))
  end
end
print(("%d..%d passed: %d messages, %d virtual seconds, %d crashes, %d toggles, %d sets of "
  .. "the group, %d tables lost, %d states (%d did not come), %.0f s of CPU"):format(first, last,
    totals.got, totals.seconds, totals.crashed, totals.toggled, totals.together_set,
    totals.tables_lost, totals.states_got, totals.states_lost, os.clock() - began))
