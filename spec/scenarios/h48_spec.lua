-- H48: start and stop in a loop, over real UDP: connect, send while leaving, close, connect again
-- at once; every tenth time somebody else holds the port.

local build = require "support.build"

local ROUNDS = 200

local STORY = [[
local neap = require "neap"
local ROUNDS, PORT = tonumber(arg[1]), tonumber(arg[2])
local group = "h48-" .. PORT

local function descriptors()
  local count = 0
  for _ in io.popen("ls /proc/self/fd"):lines() do count = count + 1 end
  return count
end

neap.run(function()
  local doubled, failures, held = 0, {}, 0
  local bob = assert(neap.join(group, { stack = "lan", name = "bob",
    on = { view = function(view)
      local ann = 0
      for _, name in ipairs(view.members) do
        if name:match "^ann" then ann = ann + 1 end
      end
      if ann > 1 then doubled = doubled + 1 end
    end } }))
  local function join(name, port)
    return neap.join(group, { stack = "lan", name = name, with = { udp = { port = port,
      port_range = 0 } } })
  end
  local before
  for round = 1, ROUNDS do
    if round % 10 == 0 then
      local holder = assert(neap.join("other" .. PORT, { stack = "bare", name = "holder",
        with = { udp = { port = PORT, port_range = 0 } } }))
      local ann, _, why = join("ann", PORT)
      if ann then failures[#failures + 1] = "joined on a port in use" end
      if not tostring(why):find(tostring(PORT)) then failures[#failures + 1] = tostring(why) end
      held = held + 1
      holder:close()
    end
    local ann, code, detail = join("ann", PORT)
    if not ann then error(("round %d: %s %s"):format(round, code, tostring(detail))) end
    for n = 1, 10 do
      ann:send("m" .. n)
      if n == 5 then neap.spawn(function() ann:leave() end) end
    end
    neap.spawn(function() ann:leave() end)
    ann:leave()
    ann:close()
    if round == 10 then before = descriptors() end
  end
  print(("doubled=%d failures=%d held=%d descriptors=%d %s"):format(doubled, #failures, held,
    descriptors() - before, failures[1] or ""))
  bob:leave()
end)
]]

describe("H48", function()
  it("succeeds 200 times, names the port that is held, and leaves nothing behind #real", function()
    local text = build.run(("timeout 120 %s run %s %d %d"):format(build.neap,
      build.write("h48.lua", STORY), ROUNDS, 20000 + os.time() % 10000))
    assert(text:find("doubled=0 failures=0 held=20 descriptors=0", 1, true), text)
  end)
end)
