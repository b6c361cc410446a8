-- H30: groups that share a port (JGRP-836, JGRP-877).

local membership = require "support.membership"
local neap = require "neap"

local COUNT = 1000

-- A group of three: its name, its address, what each of its members got and how much was strange.
local function gather(sim, name, address)
  local members = {}
  for index = 1, 3 do
    local member = { got = {} }
    member.channel = assert(sim:join(name, {
      stack = "lan", name = name .. index, with = { udp = { group = address } },
      on = { message = function(msg) member.got[#member.got + 1] = msg.body end },
    }))
    members[index] = member
  end
  return members
end

local function send(sim, members, text)
  local one, two, three = members[1].channel, members[2].channel, members[3].channel
  sim:spawn(function()
    for n = 1, COUNT do assert(one:send(text .. n)) end
    for n = 1, COUNT do assert(two:send(text .. n, { to = three.name })) end
  end)
end

local function assert_own(members, text)
  for index, member in ipairs(members) do
    assert.equal(3, #member.channel:view().members)
    assert.equal(index == 3 and 2 * COUNT or COUNT, #member.got)
    for _, body in ipairs(member.got) do assert.equal(text, body:sub(1, #text)) end
  end
end

describe("H30", function()
  it("keeps groups of two names on one address and port apart, and counts the other's", function()
    membership.each_seed(20, function(seed)
      local sim = neap.sim { seed = seed, latency = "1ms", jitter = "1ms" }
      local one, two = gather(sim, "one", "239.1.1.1:7600"), gather(sim, "two", "239.1.1.1:7600")
      sim:run "5s"
      send(sim, one, "1:")
      send(sim, two, "2:")
      sim:settle()
      assert_own(one, "1:")
      assert_own(two, "2:")
      for _, member in ipairs { one[1], one[2], one[3], two[1], two[2], two[3] } do
        assert.is_true(member.channel.stack.udp.bad_cluster > 0)
      end
      sim:close()
    end)
  end)

  it("knows nothing of a group of its own name on another address", function()
    membership.each_seed(20, function(seed)
      local sim = neap.sim { seed = seed, latency = "1ms", jitter = "1ms" }
      local here, there = gather(sim, "one", "239.1.1.1:7600"), gather(sim, "one", "239.1.1.2:7600")
      sim:run "5s"
      send(sim, here, "1:")
      send(sim, there, "2:")
      sim:settle()
      assert_own(here, "1:")
      assert_own(there, "2:")
      for _, member in ipairs(here) do assert.equal(0, member.channel.stack.udp.bad_cluster) end
      sim:close()
    end)
  end)
end)
