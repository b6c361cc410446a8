-- H04: requests for retransmission that would be larger than a packet (JGRP-1868).  Half of a long
-- burst is lost while nothing is asked for; then it is asked for in pieces that fit, each once.

local group = require "support.group"

local function story(seed, mode, count)
  local g = group.new {
    names = { "ann", "bob" }, seed = seed,
    with = {
      nakack = { retransmission = mode, window_messages = 32768, window_bytes = "64MB" },
      udp = { max_packet = "1400B" },
    },
  }
  g.sim:run "1s"
  local bob, ann = g.bob.stack, g.ann.stack
  bob.nakack.xmit_interval = 0
  local lost = g.sim:drop { from = "ann", to = "bob", layer = "nakack", type = "msg",
    probability = 0.5 }
  for i = 1, count do
    assert(g.ann:send(tostring(i)))
    if i % 100 == 0 then g.sim:run "100us" end
  end
  g.sim:run "2s"
  assert.equal(0, bob.nakack.xmit_reqs_sent)
  local missing = g.sim:hits(lost)
  assert(missing > count * 0.4)

  g.sim:clear(lost)
  bob.nakack.xmit_interval = "100ms"
  local since = g.sim:now()
  g.ann:send "end"
  g.sim:run "5s"
  assert.equal(count + 1, #g.bodies.bob)
  for i = 1, count do assert.equal(tostring(i), g.bodies.bob[i]) end
  g.sim:settle()
  assert(g.sim:now() - since < 30e9)
  assert.equal(missing, ann.nakack.xmit_rsps_sent) -- Twice on the way, and not once more.
  assert.equal(0, ann.udp.oversize + bob.udp.oversize)
  assert(bob.nakack.xmit_reqs_sent >= count / 1024)
  g.sim:close()
end

describe("H04", function()
  for _, mode in ipairs { "nak", "ack" } do
    it(("asks for half of a burst in packets that fit, in %s mode"):format(mode), function()
      group.each_seed(20, function(seed) story(seed, mode, 1500) end)
    end)
  end

  it("asks for half of 20000", function() story(1, "nak", 20000) end)
end)
