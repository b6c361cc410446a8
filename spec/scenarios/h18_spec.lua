-- H18: sending from inside a receive callback (JGRP-1665).  Two members answer each message with
-- three of 50 kB, four deep, with credits for two: neither may stand still, nothing may get lost.

local group = require "support.group"
local neap = require "neap"

local BODY = ("x"):rep(50000)

local function story(seed, multicast, mode)
  local g
  local accepted, refused, arrived = 0, 0, { ann = 0, bob = 0 }

  local function answer(name, peer, depth)
    local options = { to = not multicast and peer or nil }
    local ok, code = g[name]:send(depth .. BODY, options)
    if ok then
      accepted = accepted + 1
      return
    end
    -- The queue that callbacks may fill is full: somebody who may wait sends it.
    assert.equal("would block", code)
    refused = refused + 1
    neap.spawn(function()
      assert(g[name]:send(depth .. BODY, options))
      accepted = accepted + 1
    end)
  end

  g = group.new {
    names = { "ann", "bob" }, seed = seed, loss = seed % 2 == 0 and 0.1 or 0,
    with = {
      mfc = { max_credits = "100KB" }, ufc = { max_credits = "100KB" },
      nakack = { retransmission = mode }, unicast = { retransmission = mode },
    },
    message = function(_, name, msg)
      if msg.from == name then return end
      arrived[name] = arrived[name] + 1
      local depth, peer = tonumber(msg.body:match "^%d"), msg.from
      for _ = 1, depth < 4 and 3 or 0 do answer(name, peer, depth + 1) end
    end,
  }
  g.sim:spawn(function() answer("ann", "bob", 0) end)
  g.sim:settle()
  assert.equal(1 + 3 + 9 + 27 + 81, accepted)
  assert.equal(accepted, arrived.ann + arrived.bob)
  local flow = g.ann.stack[multicast and "mfc" or "ufc"]
  assert.is_true(flow.blocked > 0)
  if seed % 2 == 1 then assert.equal(0, flow.requests_sent) end -- nobody waited for max_block_time
  g.sim:close()
  return refused
end

describe("H18", function()
  for _, class in ipairs { "unicast", "multicast" } do
    for _, mode in ipairs { "nak", "ack" } do
      it(("brings all %ss that callbacks send, and blocks none of them, in %s mode"):format(class,
        mode), function()
          group.each_seed(20, function(seed) story(seed, class == "multicast", mode) end)
        end)
    end
  end
end)
