-- H05: a sender leaves and joins again in the same process (JGRP-2720).  What it sends in its next
-- life begins anew with everybody; nothing of the life before is asked for or kept.

local group = require "support.group"

local NAMES = { "ann", "bob", "cho" }

local function lines(windows)
  local _, count = windows:gsub("\n", "")
  return count
end

local function story(seed, mode)
  local g = group.new { seed = seed, with = { nakack = { retransmission = mode } } }
  g.sim:run "1s"
  for round = 1, 5 do
    local name = NAMES[(round - 1) % 3 + 1]
    local other = NAMES[round % 3 + 1]
    for i = 1, 20 do assert(g[name]:send(tostring(i))) end
    g.sim:run "100ms"
    g:call(function() g[name]:leave() end)
    g:join(name, { with = { nakack = { retransmission = mode } } })
    g.sim:run "5s"
    for _, each in ipairs(NAMES) do
      assert.equal(3, #g[each]:view().members)
      for k in ipairs(g.bodies[each]) do g.bodies[each][k] = nil end
    end
    g.sim:set { from = name, to = other, loss = 0.2 }
    for i = 21, 40 do
      assert(g[name]:send(tostring(i)))
      g.sim:run "1ms"
    end
    g.sim:set { from = name, to = other, loss = 0 }
    g:calm()
    for _, each in ipairs(NAMES) do
      local want = {}
      for i = 21, 40 do want[#want + 1] = i end
      assert.equal(table.concat(want, " "), g:got(each))
      local nakack = g[each].stack.nakack
      assert(nakack.xmit_not_found <= 2, nakack.xmit_not_found)
      assert.equal(0, nakack.waiting + nakack.purged_received)
      assert.equal(3, lines(nakack:windows())) -- No stream of an older life.
    end
  end
  g.sim:close()
end

describe("H05", function()
  for _, mode in ipairs { "nak", "ack" } do
    it(("takes each life of a sender for itself, in %s mode"):format(mode), function()
      group.each_seed(20, function(seed) story(seed, mode) end)
    end)
  end
end)
