-- H46, unicast: out-of-band messages beside ordered ones (JGRP-780, JGRP-2327), in a connection
-- that is known, is new, or whose table was lost.

local group = require "support.group"
local talk = require "support.talk"

local BEGIN = {
  ["that is known"] = function() end,
  ["that is new"] = function(g) g.ann.stack.unicast:close "bob" end,
  ["whose table was lost"] = function(g) g.bob.stack.unicast:forget "ann" end,
}

local function without(list, body)
  local left = {}
  for _, each in ipairs(list) do
    if each ~= body then left[#left + 1] = each end
  end
  return table.concat(left, " ")
end

describe("H46 (unicast)", function()
  for _, mode in ipairs { "ack", "nak" } do
    for _, which in ipairs { "that is known", "that is new", "whose table was lost" } do
      for _, singly in ipairs { false, true } do
        it(("brings 1, 3 and 4 in order and 2 once, in a connection %s, %s, in %s mode"):format(
          which, singly and "singly" or "in batches", mode), function()
          group.each_seed(20, function(seed)
            local g = talk.pair { seed = seed, with = { unicast = {
              retransmission = mode, stable_interval = "50ms",
              sync = seed % 2 == 0 and "timestamp" or "handshake",
            } } }
            talk.say(g, "bob", "ann", 1, 2)
            g.sim:settle()
            BEGIN[which](g)
            g.sim:settle()
            -- 1 3 2 4, or 2 first of all.
            local late = seed % 3 == 0 and "1" or "2"
            g.sim:drop { from = "ann", to = "bob", layer = "unicast", body = late,
              times = 1 + seed % 2 }
            for i = 1, 4 do
              assert(g.ann:send(tostring(i), { to = "bob", oob = i == 2 }))
              if singly then g.sim:run "50us" end
            end
            g.sim:run "1s"
            assert.equal("1 3 4", without(g.bodies.bob, "2"))
            assert.equal(4, #g.bodies.bob)
            talk.nothing_left(g)
            g.sim:close()
          end)
        end)
      end
    end
  end
end)
