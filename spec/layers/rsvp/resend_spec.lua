-- What is sent again while a request waits: by four policies, over both kinds of repair.

local group = require "support.group"
local neap = require "neap"

local PATIENT = { timeout = "1000s" } -- of fd_all: nobody is suspected
local MODES = { "nak", "ack" }

-- A group in which only rsvp can show a loss at the tail: no announcements, no rounds.
local function silent(seed, rsvp, more)
  rsvp.resend_interval = rsvp.resend_interval or "200ms"
  local with = { rsvp = rsvp, fd_all = PATIENT,
    nakack = { announce_delay = "60s", xmit_interval = "60s" },
    stable = { interval = 0, max_bytes = "2MB" } }
  for layer, settings in pairs(more or {}) do with[layer] = settings end
  return group.new { seed = seed, with = with }
end

local function lose(g, body)
  g.sim:drop { from = "ann", to = "cho", layer = "nakack", type = "msg", body = body, times = 1 }
end

local function timed_send(g, body, options)
  local took, ok, code
  g:call(function()
    local began = neap.now()
    ok, code = g.ann:send(body, options)
    took = (neap.now() - began) / 1e6
  end)
  return took, ok, code
end

describe("rsvp, resend = payload", function()
  it("sends the tagged message again, which shows the gap and is delivered once", function()
    group.each_seed(20, function(seed)
      local g = silent(seed, { resend = "payload" })
      lose(g, "x")
      local took, ok = timed_send(g, "x", { rsvp = "delivery" })
      assert.is_true(ok)
      assert(took >= 200 and took < 220, took)
      assert.equal(1, g.ann.stack.rsvp.payloads_sent)
      assert.equal(0, g.ann.stack.rsvp.beacons_sent)
      g.sim:run "1s"
      for _, name in ipairs(g.names) do assert.equal("x", g:got(name)) end
      g.sim:close()
    end)
  end)

  it("does so for each kind of message, large ones too, over seeds with loss", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, stack = "spec/support/checked.lua", loss = 0.3,
        reorder = 0.1,
        with = { fd_all = PATIENT, frag = { frag_size = "1KB" },
          rsvp = { resend = "payload", resend_interval = "20ms", timeout = "60s" },
          nakack = { retransmission = MODES[seed % 2 + 1] } } }
      local handles = {}
      for n = 1, 24 do
        table.insert(handles, (assert(g.ann:send(n .. ("x"):rep(n % 4 == 0 and 5000 or 10), {
          rsvp = ({ "reception", "completion", "delivery" })[n % 3 + 1], wait = false,
          oob = n % 5 == 0, to = n % 6 == 0 and "cho" or nil,
        }))))
        g.sim:run "5ms"
      end
      g.sim:set { loss = 0, reorder = 0 }
      g.sim:run "30s"
      for _, handle in ipairs(handles) do assert.same({}, handle.missing) end
      assert(g.ann.stack.rsvp.payloads_sent > 0)
      assert.equal(20, #g.bodies.bob)
      assert.equal(24, #g.bodies.cho)
      assert.same({}, g.sim:complaints())
      for _, name in ipairs(g.names) do assert.equal(0, g[name].stack.rsvp.owed) end
      g.sim:close()
    end)
  end)

  it("skips it while there is no room", function()
    for _, mode in ipairs(MODES) do
      local g = group.new { with = { fd_all = PATIENT, mfc = { max_credits = "20KB" },
        nakack = { retransmission = mode, window_bytes = "20KB" },
        rsvp = { resend = "payload", resend_interval = "100ms" } } }
      g.sim:pause "cho"
      local handle = g.ann:send(("x"):rep(1000), { rsvp = true, wait = false, timeout = "60s" })
      repeat local ok = g.ann:send(("y"):rep(1000)) until not ok
      g.sim:run "2s"
      assert.equal(0, g.ann.stack.rsvp.payloads_sent)
      assert(g.ann.stack.rsvp.payloads_skipped >= 15)
      g.sim:resume "cho"
      g.sim:run "5s"
      assert.same({}, handle.missing)
      g.sim:close()
    end
  end)

  it("counts for sends after it was set; those before go on with beacons", function()
    local g = silent(1, { resend = "beacon" })
    local rsvp = g.ann.stack.rsvp
    g.sim:pause "cho"
    g.ann:send("before", { rsvp = true, wait = false, timeout = "100s" })
    g.sim:run "1ms"
    rsvp.resend = "payload"
    g.sim:run "1s"
    assert.equal(5, rsvp.beacons_sent)
    assert.equal(0, rsvp.payloads_sent)
    g.ann:send("after", { rsvp = true, wait = false, timeout = "100s" })
    g.sim:run "1s"
    assert(rsvp.payloads_sent >= 4 and rsvp.beacons_sent >= 9)
    rsvp.resend = "off"
    local payloads, beacons = rsvp.payloads_sent, rsvp.beacons_sent
    g.sim:run "5s"
    assert.equal(payloads, rsvp.payloads_sent)
    assert.equal(beacons, rsvp.beacons_sent)
  end)
end)

describe("rsvp, resends", function()
  it("decide alone whether a loss at the tail is found when nobody else looks", function()
    for _, case in ipairs {
      { "auto", "delivery" }, { "beacon", "completion" }, { "payload", "reception" }, { "off" },
    } do
      local g = silent(1, { resend = case[1], timeout = "2s" })
      lose(g, "x")
      local took, ok, code = timed_send(g, "x", { rsvp = case[2] or true })
      if case[1] == "off" then
        assert.equal("timeout", code)
        assert.equal(2000, took)
        assert.equal("", g:got "cho")
      else
        assert.is_true(ok)
        assert(took >= 200 and took < 220, took)
        g.sim:run "10ms"
        assert.equal("x", g:got "cho")
      end
      g.sim:close()
    end
  end)

  it("go once after each view, toggle or reset, and rarely otherwise, over ack", function()
    local g = group.new { with = { fd_all = PATIENT, nakack = { retransmission = "ack" } } }
    local rsvp = g.ann.stack.rsvp
    g.sim:pause "cho"
    g.ann:send("x", { rsvp = "delivery", wait = false, timeout = "1000s" })
    g.ann:send("unreported", { to = "cho" })
    g.sim:run "100ms"
    local function beacons_of(happens)
      local before = rsvp.beacons_sent
      happens()
      g.sim:run "100ms"
      return rsvp.beacons_sent - before
    end
    assert.equal(0, beacons_of(function() g.sim:run "1s" end))
    assert.equal(1, beacons_of(function() g.ann.stack.unicast:close "cho" end))
    assert.equal(1, beacons_of(function() g.ann.stack.nakack.retransmission = "nak" end))
    assert.equal(1, beacons_of(function() g.ann.stack.nakack.retransmission = "ack" end))
    assert.equal(1, beacons_of(function() g.sim:inject_view("ann", { "ann", "bob", "cho" }) end))
    assert.equal(0, beacons_of(function() g.sim:run "1s" end))
    assert.equal(1, beacons_of(function() g.sim:run "3s" end)) -- 4 s after the last one
    assert.equal(0, beacons_of(function() g.sim:run "7s" end)) -- 8 s
    assert.equal(1, beacons_of(function() g.sim:run "1s" end))
  end)

  it("are asked for by a member whose answers died with its connection", function()
    group.each_seed(20, function(seed)
      local mode = MODES[seed % 2 + 1]
      local g = group.new { seed = seed, with = { fd_all = PATIENT,
        nakack = { retransmission = mode } } }
      local lost = g.sim:drop { from = "cho", to = "ann", layer = "rsvp", type = "response" }
      local handles = {}
      for n, ack_on in ipairs { "reception", "completion", "delivery" } do
        handles[n] = g.ann:send("all", { rsvp = ack_on, wait = false, timeout = "100s" })
        handles[n + 3] = g.ann:send("one", { rsvp = ack_on, wait = false, timeout = "100s",
          to = "cho" })
      end
      g.sim:run "50ms"
      for _, handle in ipairs(handles) do assert.same({ "cho" }, handle.missing) end
      g.cho.stack.unicast:close "ann"
      g.sim:clear(lost)
      g.sim:run "50ms" -- Long before the first beacon.
      for _, handle in ipairs(handles) do assert.same({}, handle.missing) end
      assert.equal(1, g.ann.stack.rsvp.asked_again)
      assert.equal(6, #g.bodies.cho)
      g.sim:close()
    end)
  end)

  it("follow the mode of a connection and its toggles, for what is sent to one member", function()
    group.each_seed(20, function(seed)
      local mode = MODES[seed % 2 + 1]
      local g = group.new { seed = seed, with = { fd_all = PATIENT,
        unicast = { retransmission = mode, stable_interval = "60s" },
        rsvp = { resend_interval = "200ms", timeout = "60s" } } }
      timed_send(g, "warm", { rsvp = true, to = "cho" })
      g.sim:run "1s"
      g.sim:drop { from = "ann", to = "cho", layer = "unicast", body = "x", times = 1 }
      local took, ok = timed_send(g, "x", { rsvp = "delivery", to = "cho" })
      assert.is_true(ok)
      local beacons = g.ann.stack.rsvp.beacons_sent
      if mode == "nak" then -- The beacon shows the gap: nobody else would for a minute.
        assert.equal(1, beacons)
        assert(took >= 200 and took < 250, took)
      else
        assert.equal(0, beacons)
        assert(took < 100, took)
      end
      -- A toggle while one waits: one beacon at once, then as the new mode says.
      g.sim:pause "cho"
      g.ann:send("y", { rsvp = true, to = "cho", wait = false })
      g.sim:run "10ms"
      g.ann.stack.unicast.retransmission = mode == "nak" and "ack" or "nak"
      g.sim:run "1050ms"
      local since = g.ann.stack.rsvp.beacons_sent - beacons
      assert.equal(mode == "nak" and 1 or 6, since)
      g.sim:resume "cho"
      g.sim:run "5s"
      assert.equal("warm x y", g:got "cho")
      g.sim:close()
    end)
  end)

  -- G20, and where the reference never ends or never begins.
  it("are off with resend_interval = 0, and then nothing is sent but the message",
    group.modes(function()
    local g = silent(1, { resend_interval = 0, timeout = 0 })
    g.sim:pause "cho"
    local seqno = tonumber(g.ann.stack.nakack.current_seqno)
    local handle = g.ann:send("x", { rsvp = true, wait = false })
    g.sim:run "600s"
    assert.equal(seqno + 1, tonumber(g.ann.stack.nakack.current_seqno))
    assert.same({ "cho" }, handle.missing)
    assert.equal(0, g.ann.stack.rsvp.timeouts)
    g.sim:resume "cho"
    g.sim:run "1s"
    assert.same({}, handle.missing)
  end))

  it("lose nothing and return always: each policy, both modes, switched while they wait", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, stack = "spec/support/checked.lua", loss = 0.2,
        duplicate = 0.1, jitter = "3ms",
        with = { fd_all = PATIENT, rsvp = { timeout = "60s", resend_interval = "30ms" } } }
      local returned = 0
      for n = 1, 40 do
        g.sim:spawn(function()
          neap.sleep(("%dms"):format(n * 10))
          assert(g.ann:send(tostring(n), { to = n % 4 == 0 and "cho" or nil,
            rsvp = ({ "reception", "completion", "delivery", true })[n % 4 + 1] }))
          returned = returned + 1
        end)
      end
      g.sim:spawn(function()
        for n = 1, 20 do
          neap.sleep "21ms"
          local stack = g.ann.stack
          stack.rsvp.resend = ({ "auto", "beacon", "payload", "off" })[(n + seed) % 4 + 1]
          stack.rsvp.ack_on = ({ "delivery", "completion", "reception" })[(n + seed) % 3 + 1]
          stack.nakack.retransmission = MODES[n % 2 + 1]
          stack.unicast.retransmission = MODES[(n + seed) % 2 + 1]
        end
      end)
      g.sim:run "70s"
      assert.equal(40, returned)
      assert.equal(30, #g.bodies.bob)
      assert.equal(40, #g.bodies.cho)
      assert.same({}, g.sim:complaints())
      assert(g.ann.stack.check_rsvp.watched >= 90)
      g.sim:close()
    end)
  end)
end)
