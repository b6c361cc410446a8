-- H20: a reassembled message keeps its place (JGRP-1648).  1 and 2 are small, 3 is three pieces,
-- 4 and 5 are small, 6 is two: they arrive as 1 2 3 4 5 6.

local group = require "support.group"

local SIZES = { 10, 20, 2500, 30, 40, 1500 }

local function bodies()
  local list = {}
  for i, size in ipairs(SIZES) do
    local parts = {}
    for n = 1, size do parts[n] = string.char((n * n + i * 31) % 256) end
    list[i] = table.concat(parts)
  end
  return list
end

-- The same six, `rounds` times, all in one batch or with time between any two.
local function story(seed, mode, options)
  local sent = bodies()
  local g = group.new {
    names = { "ann", "bob" }, seed = seed, loss = options.loss,
    with = {
      frag = { frag_size = "1000B" }, nakack = { retransmission = mode },
      -- Spread: a packet takes one piece, so that batches end inside a message.
      udp = options.spread and { max_packet = "1200B" } or nil,
    },
  }
  local expected = {}
  for _ = 1, options.rounds do
    for i, body in ipairs(sent) do
      assert(g.ann:send(body, { to = options.to }))
      expected[#expected + 1] = sent[i]
      if options.spread then g.sim:run "300us" end
    end
  end
  g.sim:settle()
  assert.same(expected, g.bodies.bob)
  assert.equal(2 * options.rounds, g.bob.stack.frag.joined)
  g.sim:close()
end

describe("H20", function()
  for _, mode in ipairs { "nak", "ack" } do
    for _, to in ipairs { "bob", "all" } do
      local name = ("keeps large messages in their place, %s mode, to %s"):format(mode, to)
      it(name .. ", in one batch", function()
        group.each_seed(20, function(seed)
          story(seed, mode, { to = to ~= "all" and to or nil, rounds = 1 })
        end)
      end)

      it(name .. ", under loss and over many batches", function()
        group.each_seed(20, function(seed)
          story(seed, mode, { to = to ~= "all" and to or nil, rounds = 10, loss = 0.1,
            spread = seed % 2 == 0 })
        end)
      end)
    end
  end
end)
