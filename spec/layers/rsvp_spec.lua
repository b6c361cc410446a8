-- Synchronous sends: when they return, what they say, and what they put on the wire meanwhile.

local group = require "support.group"
local neap = require "neap"

local function ms(ns) return ns / 1e6 end

-- Sends from ann and tells what came of it and how long it took, in milliseconds.
local function timed_send(g, body, options)
  local started, ended, ok, code, detail
  g:call(function()
    started = neap.now()
    ok, code, detail = g.ann:send(body, options)
    ended = neap.now()
  end)
  return ms(ended - started), ok, code, detail
end

describe("rsvp", function()
  it("returns after one round trip when nothing is lost, whatever it waits for", function()
    local g = group.new { with = { rsvp = { timeout = "3s" } } }
    for _, ack_on in ipairs { "reception", "completion", "delivery" } do
      local took, ok, detail = timed_send(g, ack_on, { rsvp = ack_on })
      assert.is_true(ok)
      assert.equal(2, took)
      assert.same({}, detail.left)
    end
    assert.equal("reception completion delivery", g:got "cho")
    assert.equal(3, g.ann.stack.rsvp.ended)
    assert.equal(0, g.ann.stack.rsvp.beacons_sent)
    assert.equal(0, g.ann.stack.rsvp.pending)
    for _, name in ipairs(g.names) do assert.equal(0, g[name].stack.rsvp.owed) end
  end)

  it("says who answered and when, and who is missing, while it waits", function()
    local g = group.new {}
    g.sim:pause "cho"
    local handle = g.ann:send("x", { rsvp = true, wait = false })
    g.sim:run "100ms"
    assert.same({ "cho" }, handle.missing)
    assert.equal(2, ms(handle.acked.bob.ns))
    assert.is_nil(handle.acked.cho)
    g.sim:resume "cho"
    assert.is_true((g:call(function() return handle:wait "5s" end)))
    assert.same({}, handle.missing)
  end)

  it("waits on delivery for a callback that waits, and on completion does not", function()
    local g = group.new {
      message = function(g, name) if name == "bob" then neap.sleep "1s" end; g.slept = true end,
    }
    local took, ok = timed_send(g, "completion", { rsvp = "completion" })
    assert.is_true(ok)
    assert.equal(2, took)
    g.sim:run "2s"
    took, ok = timed_send(g, "delivery", { rsvp = "delivery" })
    assert.is_true(ok)
    assert.equal(1002, took)
  end)

  it("goes by the ack_on of the stack where a message has none, from the next send on",
    group.modes(function()
      local g = group.new {
        message = function(_, name) if name == "bob" then neap.sleep "1s" end end,
      }
      local rsvp = g.ann.stack.rsvp
      rsvp.ack_on = "reception"
      assert.equal(2, (timed_send(g, "x", { rsvp = true })))
      local took = timed_send(g, "y", { rsvp = "delivery" }) -- Behind x, and then y.
      assert(took > 1800 and took <= 2002, took)
      rsvp.ack_on = "delivery"
      local before = g.ann:send("z", { rsvp = true, wait = false })
      g.sim:run "1us" -- It has left.
      rsvp.ack_on = "reception"
      assert.equal(2, (timed_send(g, "then", { rsvp = true })))
      assert.same({ "bob" }, before.missing) -- It was sent under the one before.
      g.sim:run "1s"
      assert.same({}, before.missing)
    end))

  it("waits on delivery for the callbacks of earlier messages too", function()
    local g = group.new {
      message = function(_, name, msg)
        if name == "bob" and msg.body == "slow" then neap.sleep "1s" end
      end,
    }
    g.ann:send "slow"
    local took, ok = timed_send(g, "fast", { rsvp = "delivery" })
    assert.is_true(ok)
    assert.equal(1002, took)
  end)

  for _, mode in ipairs { "nak", "ack" } do
    -- H07
    it("waits for the losses before it, over " .. mode, function()
      for _, ack_on in ipairs { "reception", "completion", "delivery" } do
        local g = group.new { with = {
          nakack = { retransmission = mode }, rsvp = { resend_interval = "200ms", timeout = "5s" },
        } }
        for _, body in ipairs { "2", "5" } do
          g.sim:drop { from = "ann", to = "cho", layer = "nakack", body = body, times = 1 }
        end
        for i = 1, 4 do g.ann:send(tostring(i)) end
        local at_return
        local took, ok = timed_send(g, "5", { rsvp = ack_on })
        at_return = g:got "cho"
        assert.is_true(ok)
        assert(took < 1000, took)
        if ack_on ~= "reception" then assert.equal("1 2 3 4 5", at_return) end
        g.sim:settle()
        assert.equal("1 2 3 4 5", g:got "cho")
        if mode == "ack" then assert.equal(0, g.ann.stack.rsvp.beacons_sent) end
      end
    end)
  end

  it("may return on reception while an earlier message is missing still", function()
    local g = group.new {}
    local lost = g.sim:drop { from = "ann", to = "cho", layer = "nakack", body = "1" }
    g.ann:send "1"
    local handle = g.ann:send("2", { rsvp = "reception", wait = false })
    local whole = g.ann:send("3", { rsvp = "completion", wait = false })
    g.sim:run "100ms"
    assert.same({}, handle.missing)
    assert.same({ "cho" }, whole.missing)
    assert.equal("", g:got "cho")
    g.sim:clear(lost)
    g.sim:run "2s"
    assert.same({}, whole.missing)
    assert.equal("1 2 3", g:got "cho")
  end)

  it("ends when time is up and names exactly those that are missing", group.modes(function()
    local g = group.new { with = { rsvp = { timeout = "3s" } } }
    g.sim:pause "cho"
    local took, ok, code, detail = timed_send(g, "x", { rsvp = true })
    assert.is_nil(ok)
    assert.equal("timeout", code)
    assert.same({ "cho" }, detail.missing)
    assert.equal(3000, took)
    g.sim:resume "cho"
    g.sim:run "5s"
    assert.equal(1, g.ann.stack.rsvp.timeouts)
    assert.equal(1, g.ann.stack.rsvp.ended)
    -- A late answer is nobody else's.
    assert.is_true((select(2, timed_send(g, "y", { rsvp = true }))))
    assert.equal("x y", g:got "cho")
  end))

  it("does not wait for members that leave, and says that they left", group.modes(function()
    local g = group.new { with = { rsvp = { timeout = "60s" },
      fd_all = { timeout = "2s", interval = "500ms" } } }
    g.sim:kill "cho"
    local took, ok, detail = timed_send(g, "x", { rsvp = true })
    assert.is_true(ok)
    assert.same({ "cho" }, detail.left)
    assert(took < 6000, took)
  end))

  it("fails a send to one member that left", function()
    local g = group.new { with = { rsvp = { timeout = "60s" },
      fd_all = { timeout = "2s", interval = "500ms" } } }
    g.sim:kill "cho"
    local _, ok, code = timed_send(g, "x", { rsvp = true, to = "cho" })
    assert.is_nil(ok)
    assert(code == "left" or code == "reset", code)
    assert.equal(0, g.ann.stack.rsvp.pending)
  end)

  it("counts oneself as a target unless the message is not looped back", function()
    local g = group.new { names = { "ann" } }
    local took, ok = timed_send(g, "x", { rsvp = true })
    assert.is_true(ok)
    assert.equal(0, took)
    took, ok = timed_send(g, "y", { rsvp = true, loopback = false })
    assert.is_true(ok)
    assert.equal(0, took)
    took, ok = timed_send(g, "z", { rsvp = true, to = "ann" })
    assert.is_true(ok)
    assert.equal(0, took)
    assert.equal("x z", g:got "ann")
  end)

  it("does not wait for members that joined after the send", group.modes(function()
    local g = group.new { names = { "ann", "bob" } }
    g.sim:pause "bob"
    local handle = g.ann:send("x", { rsvp = true, wait = false, timeout = "60s" })
    g:join "cho"
    g.sim:run "1s"
    g.sim:resume "bob"
    g.sim:run "5s"
    assert.equal(3, #g.ann:view().members)
    assert.same({}, handle.missing)
    assert.is_nil(handle.acked.cho)
  end))

  it("waits for ever with a timeout of 0", group.modes(function()
    local g = group.new { with = { fd_all = { timeout = "1000s" } } }
    g.sim:pause "cho"
    local handle = g.ann:send("x", { rsvp = true, wait = false, timeout = 0 })
    g.sim:run "200s"
    assert.same({ "cho" }, handle.missing)
    g.sim:resume "cho"
    g.sim:run "1s"
    assert.same({}, handle.missing)
  end))

  it("sends beacons over nak, rarely over ack, and none when told so", group.seeds(function()
    local function beacons(mode, rsvp)
      local g = group.new { with = { nakack = { retransmission = mode }, rsvp = rsvp,
        fd_all = { timeout = "1000s" } } }
      g.sim:pause "cho"
      g.ann:send("x", { rsvp = true, wait = false, timeout = "100s" })
      g.sim:run "61s"
      return g.ann.stack.rsvp.beacons_sent
    end
    assert.equal(30, beacons("nak", {}))
    assert.equal(4, beacons("ack", {})) -- after 2, 6, 14 and 30 s
    assert.equal(30, beacons("ack", { resend = "beacon" }))
    assert.equal(0, beacons("nak", { resend = "off" }))
    assert.equal(0, beacons("nak", { resend_interval = 0 }))
  end))

  it("follows a change of resend_interval at once, from and to 0", function()
    local g = group.new { with = { fd_all = { timeout = "1000s" } } }
    local rsvp = g.ann.stack.rsvp
    rsvp.resend_interval = 0
    g.sim:pause "cho"
    g.ann:send("x", { rsvp = true, wait = false, timeout = "1000s" })
    g.sim:run "20s"
    assert.equal(0, rsvp.beacons_sent)
    rsvp.resend_interval = "100ms"
    g.sim:run "1050ms"
    assert.equal(10, rsvp.beacons_sent)
    rsvp.resend_interval = 0
    g.sim:run "20s"
    assert.equal(10, rsvp.beacons_sent)
  end)

  it("makes a loss at the tail visible by a beacon when nobody else does", function()
    local g = group.new { with = { rsvp = { resend_interval = "300ms" } } }
    g.sim:drop { from = "ann", to = "cho", layer = "nakack", type = "highest" }
    g.sim:drop { from = "ann", to = "cho", layer = "nakack", type = "msg", body = "x", times = 1 }
    local took, ok = timed_send(g, "x", { rsvp = true })
    assert.is_true(ok)
    assert(took > 300 and took < 700, took)
    assert.equal("x", g:got "cho")
  end)

  it("is answered again when a response was lost for good", function()
    local g = group.new { with = { rsvp = { resend_interval = "300ms" } } }
    local lost = g.sim:drop { from = "cho", to = "ann", layer = "rsvp", type = "response" }
    local handle = g.ann:send("x", { rsvp = "completion", wait = false })
    g.sim:run "200ms"
    assert(g.sim:hits(lost) > 0)
    assert.same({ "cho" }, handle.missing)
    g.sim:clear(lost)
    g.sim:run "1s"
    assert.same({}, handle.missing)
    assert.equal("x", g:got "cho")
  end)

  it("does not answer a beacon while the callback has not returned", function()
    local g = group.new {
      with = { rsvp = { resend_interval = "100ms" } },
      message = function(_, name) if name == "cho" then neap.sleep "1s" end end,
    }
    local took, ok = timed_send(g, "x", { rsvp = "delivery" })
    assert.is_true(ok)
    assert.equal(1002, took)
    assert(g.ann.stack.rsvp.beacons_sent >= 9)
  end)

  it("goes on over a toggle in either direction", function()
    for _, modes in ipairs { { "nak", "ack" }, { "ack", "nak" } } do
      local g = group.new { with = { nakack = { retransmission = modes[1] } } }
      local lost = g.sim:drop { from = "cho", to = "ann", layer = "rsvp", type = "response" }
      local handle = g.ann:send("x", { rsvp = "delivery", wait = false, timeout = "60s" })
      g.sim:run "50ms"
      g.sim:clear(lost)
      g.ann.stack.nakack.retransmission = modes[2]
      g.sim:run "1500ms" -- Less than the first pause: it is the toggle that sends the beacon.
      assert.same({}, handle.missing)
    end
  end)

  it("never says too early that all have it, over seeds with loss and reordering", function()
    group.each_seed(20, function(seed)
      local done = {}
      local g = group.new {
        seed = seed, loss = 0.2, reorder = 0.2, duplicate = 0.1, jitter = "3ms",
        with = { nakack = { retransmission = seed % 2 == 0 and "ack" or "nak" },
          rsvp = { timeout = "60s" } },
        message = function(_, name, msg)
          if tonumber(msg.body) % 7 == 0 then neap.sleep "20ms" end
          done[name .. msg.body] = true
        end,
      }
      local returned = 0
      for i = 1, 60 do
        g.sim:spawn(function()
          neap.sleep(("%dms"):format(i * 5))
          local to = i % 5 == 0 and "bob" or nil
          assert(g.ann:send(tostring(i), { rsvp = "delivery", to = to }))
          for _, name in ipairs(to and { to } or g.names) do
            assert(done[name .. i], name .. " has not done " .. i)
          end
          returned = returned + 1
        end)
      end
      g.sim:run "60s"
      assert.equal(60, returned)
      for _, name in ipairs(g.names) do
        assert.equal(0, g[name].stack.rsvp.owed)
        assert.equal(0, g[name].stack.rsvp.pending)
      end
    end)
  end)

  it("credits a late answer to nobody", function()
    local g = group.new { names = { "ann", "bob" }, with = { rsvp = { timeout = "1s" } } }
    local late = g.sim:delay { from = "bob", to = "ann", layer = "rsvp", type = "response",
      by = "30s" }
    assert.is_nil((select(2, timed_send(g, "0", { rsvp = true }))))
    g.sim:clear(late)
    for i = 1, 200 do assert.is_true((select(2, timed_send(g, tostring(i), { rsvp = true })))) end
    g.sim:run "60s"
    assert(g.ann.stack.rsvp.stale > 0)
    assert.equal(201, g.ann.stack.rsvp.ended)
    assert.equal(0, g.ann.stack.rsvp.pending)
  end)

  it("ends what waits when the channel closes", function()
    local g = group.new {}
    g.sim:pause "cho"
    local handle = g.ann:send("x", { rsvp = true, wait = false })
    g.sim:run "10ms"
    g.ann:close()
    local ok, code = g:call(function() return handle:wait "1s" end)
    assert.is_nil(ok)
    assert.equal("closed", code)
  end)
end)
