-- H05, unicast: the sender, then the receiver, leave and come back in the same process (JGRP-2720).

local group = require "support.group"
local talk = require "support.talk"

describe("H05 (unicast)", function()
  for _, mode in ipairs { "ack", "nak" } do
    it("brings what is sent after each return once, in order, in " .. mode .. " mode", function()
      group.each_seed(20, function(seed)
        local g = talk.pair { seed = seed, with = { unicast = { retransmission = mode } } }
        for round = 1, 4 do
          local name = round % 2 == 1 and "ann" or "bob"
          talk.say(g, "ann", "bob", 1, 20)
          g.sim:run "100ms"
          g.sim:spawn(function() assert(g[name]:leave()) end)
          g.sim:run "2s"
          g:join(name, { with = { unicast = { retransmission = mode } } })
          g.sim:run "2s"
          assert.equal(2, #g.ann:view().members)
          g.bodies.bob = {}
          g.bob:on("message", function(msg) table.insert(g.bodies.bob, msg.body) end)
          g.sim:set { loss = 0.2 }
          talk.say(g, "ann", "bob", 21, 40)
          g.sim:run "2s"
          g.sim:set { loss = 0 }
          g.sim:settle()
          assert.equal(40 - 20, #g.bodies.bob)
          for i = 1, 20 do assert.equal(tostring(20 + i), g.bodies.bob[i]) end
        end
        g.sim:run "10min" -- Nobody waits for those who were.
        talk.nothing_left(g)
        g.sim:close()
      end)
    end)
  end
end)
