-- fuzz_live_main: `make fuzz-live SECONDS=300`, or one round: SEED=17.  The seed that is running
-- stands in the build folder, for whatever ends the process: again with make fuzz-live SEED=17.

local root = debug.getinfo(1, "S").source:match "^@(.*)spec/support/" or "./"
package.path = ("%slua/?.lua;%slua/?/init.lua;%sspec/?.lua;"):format(root, root, root)
  .. package.path
package.cpath = (os.getenv "NEAP_LIB" or root .. "build/lib") .. "/?.so;" .. package.cpath

local fuzz_live = require "support.fuzz_live"

local seconds, seed, note = tonumber(arg[1]), tonumber(arg[2]), arg[3]
local only = seed ~= nil
seed = seed or os.time() % 1000000 * 100

local function remember(text)
  if not note then return end
  local file = assert(io.open(note, "w"))
  file:write(text, "\n")
  file:close()
end

local began, rounds, packets = os.time(), 0, {}
repeat
  local kind = fuzz_live.kinds[1 + seed % #fuzz_live.kinds]
  remember(("make fuzz-live SEED=%d"):format(seed))
  local ok, found = xpcall(fuzz_live.round, debug.traceback, { seed = seed, kind = kind })
  if not ok then
    print(("%s: %s\nagain: make fuzz-live SEED=%d"):format(kind, found, seed))
    os.exit(1)
  end
  packets[kind] = (packets[kind] or 0) + found
  rounds, seed = rounds + 1, seed + 1
  collectgarbage()
until only or os.time() - began >= seconds

remember "nothing is running"
local parts = {}
for n, kind in ipairs(fuzz_live.kinds) do parts[n] = ("%s %d"):format(kind, packets[kind] or 0) end
print(("%d rounds in %d s, the last with seed %d: packets %s"):format(
  rounds, os.time() - began, seed - 1, table.concat(parts, ", ")))
