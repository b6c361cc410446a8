-- H24, unicast: sequence numbers near the limits of 31, 32, 53 and 63 bits (JGRP-1950).

local group = require "support.group"
local talk = require "support.talk"

local FIRST = { "2147483638", "4294967286", "9007199254740982", "9223372036854775798" }

describe("H24 (unicast)", function()
  for _, mode in ipairs { "ack", "nak" } do
    for _, first in ipairs(FIRST) do
      it(("delivers, repairs and purges from seqno %s on, in %s mode"):format(first, mode),
        function()
          group.each_seed(20, function(seed)
            local g = talk.pair { seed = seed, loss = 0.1, with = { unicast = {
              retransmission = mode, first_seqno = first, stable_interval = "50ms",
              sync = seed % 2 == 0 and "timestamp" or "handshake", sync_min_interval = "50ms",
            } } }
            for i = 1, 10 do
              talk.say(g, "ann", "bob", 10 * i - 9, 10 * i)
              talk.say(g, "bob", "ann", 10 * i - 9, 10 * i)
              g.sim:run "4ms"
              if i % 4 == 0 then g.bob.stack.unicast:expire "ann" end
            end
            g.sim:settle()
            assert.equal(group.counted(100), g:got "bob")
            assert.equal(group.counted(100), g:got "ann")
            talk.nothing_left(g)
            local low, high = g.ann.stack.unicast:windows():match "bob to=%d+ low=(%d+) high=(%d+)"
            assert.equal(high, low)
            assert.equal(#first, #high)
            assert(high > first)
            g.sim:close()
          end)
        end)
    end
  end

  it("refuses a first seqno that would come to the end of 64 bits", function()
    local ok, problem = pcall(talk.pair, {
      with = { unicast = { first_seqno = "18446744073709551000" } },
    })
    assert.is_false(ok)
    assert(tostring(problem):find "first_seqno", problem)
  end)
end)
