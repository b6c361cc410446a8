-- H15: a paused member wakes up (corosync 23e17953).  Merging of parts is not there yet: a member
-- alone comes again, under a new address.

local membership = require "support.membership"

local NAMES, REST = { "ann", "bob", "cho" }, { "bob", "cho" }

local function story(seed, mode)
  local got, bad = {}, 0
  local group = membership.group {
    seed = seed, latency = "1ms", jitter = "1ms", stack = "lan",
    with = { fd_all = { timeout = "5s", interval = "1s" }, nakack = { retransmission = mode } },
  }
  for _, name in ipairs(NAMES) do
    got[name] = {}
    group:join(name, { message = function(msg)
      if tonumber(msg.body) <= (got[name][#got[name]] or 0) then bad = bad + 1 end
      got[name][#got[name] + 1] = tonumber(msg.body)
    end })
    repeat group:run "10ms" until group.channels[name]:view()
  end
  group:wait(NAMES, 5e9)
  local old, formed = group.channels.ann.address, #group.story
  group.sim:pause "ann"
  group:wait(REST, 10e9)
  group.sim:spawn(function()
    for n = 1, 100 do assert(group.channels.bob:send(tostring(n))) end
  end)
  group:run "13s"
  group.sim:resume "ann"
  -- For a full timeout from then on ann blames nobody.
  group:run "4900ms"
  assert.equal(0, group.channels.ann:view() and group.channels.ann.stack.fd_all.suspects or 0)
  group:wait(NAMES, 20e9)
  for n = formed + 1, #group.story do -- Bob and cho never missed each other.
    local who, members = group.story[n]:match "^(%S+) at .*{(.*)}"
    assert(who == "ann" or members:find "bob" and members:find "cho", group.story[n])
  end
  for _, name in ipairs(REST) do assert.equal(100, #got[name]) end
  assert.are_not.equal(old, group.channels.ann.address) -- it is told to begin anew: a new life
  assert.equal(0, bad)
  group:run("30s"):agree(NAMES)
  group:close()
end

describe("H15", function()
  for _, mode in ipairs { "nak", "ack" } do
    it("lets a member that was stopped come again, in " .. mode .. " mode", function()
      membership.each_seed(20, function(seed) story(seed, mode) end)
    end)
  end
end)
