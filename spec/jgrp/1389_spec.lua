-- JGRP-1389: synchronous messages, with the numbers of that issue.
--
-- The sender has sent 1 2 3 4 5; 5 is synchronous and lost at one receiver.  A lost message at the
-- tail leaves no gap to see, so the request is made again as #6: that shows the gap, nak-based
-- repair fetches 5, and the send returns.  Over ack the sender finds the loss by itself.

local group = require "support.group"
local neap = require "neap"

-- Announcements are off, so that only the request of rsvp can show a loss at the tail.
local function new(seed, mode, ack_on)
  local g = group.new {
    seed = seed,
    with = {
      rsvp = { ack_on = ack_on, resend_interval = "200ms", timeout = "5s" },
      nakack = { retransmission = mode, announce_delay = mode == "nak" and "60s" or "5ms",
        xmit_interval = mode == "nak" and "60s" or "200ms" },
      stable = { interval = 0, max_bytes = "2MB" },
    },
  }
  g.sim:settle()
  g.base = tonumber(g.ann.stack.nakack.current_seqno)
  return g
end

-- Sends 1 .. last, only the last one synchronously, after these were dropped on the way to cho.
local function send(g, first, last, lost)
  local rules = {}
  for index, n in ipairs(lost) do
    rules[index] = g.sim:drop { from = "ann", to = "cho", layer = "nakack", type = "msg",
      body = tostring(n), times = 1 }
  end
  local took, ok, code
  g:call(function()
    for n = first, last - 1 do g.ann:send(tostring(n)) end
    local began = neap.now()
    ok, code = g.ann:send(tostring(last), { rsvp = true })
    took = (neap.now() - began) / 1e6
  end)
  for _, id in ipairs(rules) do assert.equal(1, g.sim:hits(id)) end
  assert.is_true(ok, code)
  return took
end

describe("JGRP-1389", function()
  it("1 2 3 4 5, the last lost: the request becomes #6, which shows the gap", function()
    group.each_seed(20, function(seed)
      local g = new(seed, "nak", "delivery")
      local took = send(g, 1, 5, { 5 })
      assert.equal("1 2 3 4 5", g:got "cho")
      assert.equal(g.base + 6, tonumber(g.ann.stack.nakack.current_seqno))
      assert.equal(1, tonumber(g.ann.stack.rsvp.beacons_sent))
      -- Not before the beacon, and soon after it: gap delay, request, answer, response.
      assert(took >= 200 and took < 220, took)
      g.sim:close()
    end)
  end)

  it("over ack the sender finds the loss, and rsvp sends nothing again", function()
    group.each_seed(20, function(seed)
      local g = new(seed, "ack", "delivery")
      local took = send(g, 1, 5, { 5 })
      assert.equal("1 2 3 4 5", g:got "cho")
      assert.equal(g.base + 5, tonumber(g.ann.stack.nakack.current_seqno))
      assert.equal(0, tonumber(g.ann.stack.rsvp.beacons_sent))
      assert(took < 100, took)
      g.sim:close()
    end)
  end)

  -- The sender's flush: who waits for 8 has waited for 5 6 7 as well.
  for _, ack_on in ipairs { "completion", "delivery" } do
    for _, mode in ipairs { "nak", "ack" } do
      it(("5 6 7 8 with only 8 tagged, on %s over %s: when it returns, all four are there")
        :format(ack_on, mode), function()
          group.each_seed(20, function(seed)
            local g = new(seed, mode, ack_on)
            send(g, 5, 8, { 5, 7 })
            assert.equal("5 6 7 8", g:got "cho")
            assert.equal("5 6 7 8", g:got "bob")
            g.sim:close()
          end)
        end)
    end
  end

  it("releases who waits when the missing member leaves the view", function()
    local g = new(1, "nak", "delivery")
    g.sim:kill "cho"
    local ok, result
    g:call(function() ok, result = g.ann:send("x", { rsvp = true, timeout = "60s" }) end)
    assert.is_true(ok)
    assert.same({ "cho" }, result.left)
    assert.equal(2, #g.ann:view().members)
  end)
end)
