-- JGRP-1389: synchronous messages, with the numbers of that issue.
--
-- It begins with a view: the coordinator multicasts it, a member does not get it, and nothing
-- follows that would show the loss.  Nak-based repair finds a loss by the gap that it leaves; at
-- the end of a stream there is none.  So the coordinator should be able to wait until all have the
-- view, and so should everybody be who sends:
--
--     1 2 3 4 5       5 is synchronous and lost at one receiver.  The request is made again, as #6:
--                     that shows the gap, repair fetches 5, the send returns.
--     what is #6?     only a word that 5 is asked for (a beacon), or 5 itself once more (the
--                     sender's flush), which the receiver drops: it has 5 before it gets to 6
--     over ack        the sender finds the loss by itself, and #6 need not be
--     5 6 7 8         who waits for 8 has waited for all four
--     how far         received (in the buffer), complete (and all before it), or delivered

local group = require "support.group"
local neap = require "neap"

-- Announcements are off, so that only the request of rsvp can show a loss at the tail.
local function new(seed, mode, ack_on, resend, view_ack)
  local g = group.new {
    seed = seed,
    with = {
      rsvp = { ack_on = ack_on, resend = resend or "auto", resend_interval = "200ms",
        timeout = "5s" },
      gms = { view_ack = view_ack or "message" },
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

  it("5 itself again as #6: the sender's flush, over both, and delivered once", function()
    for _, mode in ipairs { "nak", "ack" } do
      group.each_seed(20, function(seed)
        local g = new(seed, mode, "delivery", "payload")
        local took = send(g, 1, 5, { 5 })
        local again = mode == "nak" and 1 or 0 -- Over ack it was there before the time had come.
        assert.equal(again, g.ann.stack.rsvp.payloads_sent)
        assert.equal(g.base + 5 + again, tonumber(g.ann.stack.nakack.current_seqno))
        assert(mode == "ack" or took >= 200 and took < 220, took)
        g.sim:run "1s"
        for _, name in ipairs(g.names) do assert.equal("1 2 3 4 5", g:got(name)) end
        g.sim:close()
      end)
    end
  end)

  it("1 2 3 4 5, none tagged, then flush_sent: when it returns, all five are there", function()
    for _, mode in ipairs { "nak", "ack" } do
      group.each_seed(20, function(seed)
        local g = new(seed, mode, "delivery")
        for _, body in ipairs { "3", "5" } do
          g.sim:drop { from = "ann", to = "cho", layer = "nakack", body = body, times = 1 }
        end
        g:call(function()
          for n = 1, 5 do g.ann:send(tostring(n)) end
          assert(g.ann:flush_sent())
          neap.sleep "1us" -- Complete in the buffer: the callbacks come now.
        end)
        assert.equal("1 2 3 4 5", g:got "cho")
        g.sim:close()
      end)
    end
  end)

  -- The view that dee comes with does not get to cho, and neither does `lost` of what follows.
  local function install(seed, view_ack, lost)
    local g = new(seed, "nak", "delivery", "auto", view_ack)
    local rule = g.sim:drop { from = "ann", to = "cho", layer = "gms", type = "view", times = 1 }
    if lost then
      g.sim:drop { from = "ann", to = "cho", layer = "rsvp", type = "beacon", times = 1 }
    end
    local before, installs = g.sim:now(), g.ann.stack.gms.installs
    g:join "dee"
    local got
    g.cho:on("view", function() got = got or (g.sim:now() - before) / 1e6 end)
    g.sim:run "5s"
    assert.equal(1, g.sim:hits(rule))
    assert.equal(4, #g.cho:view().members)
    return g, got, g.ann.stack.gms.installs - installs, g.ann.stack.gms.install_time.ns / 1e6
  end

  it("a view that is lost at one member: its installation returns when all have it", function()
    group.each_seed(20, function(seed)
      local g, _, installs, time = install(seed, "rsvp", false)
      assert.equal(1, installs)
      assert(time > 2 and time < 20, time) -- The word behind the view shows the gap at once.
      assert.is_false(g.ann.stack.gms.installing)
      g.sim:close()
    end)
    group.each_seed(20, function(seed)
      local g, got, installs, time = install(seed, "rsvp", true)
      assert.equal(1, installs)
      assert(time >= 200 and time < 220, time) -- Both were lost: asked again.
      assert(got < 1000, got)
      g.sim:close()
    end)
  end)

  it("and without that it does not know, and cho has the view when patience is over", function()
    local g, got, installs = install(1, "message", false)
    assert.equal(0, installs)
    assert(got >= 2000, got) -- view_ack_collection_timeout; then each gets the view to itself.
    g.sim:close()
  end)

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
