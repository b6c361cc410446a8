-- When a member answers: not before it has what was asked for, and as soon as it has.

local group = require "support.group"
local neap = require "neap"

local PATIENT = { timeout = "1000s" } -- of fd_all: nobody is suspected
local MODES = { "nak", "ack" }

local function timed_send(g, body, options)
  local took, ok, code, detail
  g:call(function()
    local began = neap.now()
    ok, code, detail = g.ann:send(body, options)
    took = (neap.now() - began) / 1e6
  end)
  return took, ok, code, detail
end

describe("rsvp, answers", function()
  -- Issue 3, performance: one round trip plus delivery, to four others.
  it("come after one round trip, and what the callback takes, from four members", function()
    for _, mode in ipairs(MODES) do
      for _, ack_on in ipairs { "reception", "completion", "delivery" } do
        local g = group.new { names = { "ann", "bob", "cho", "dee", "eve" },
          with = { nakack = { retransmission = mode } },
          message = function(g, name, msg)
            if msg.body == "slow" and name == "eve" then neap.sleep "7ms" end
            table.insert(g.bodies[name], msg.body)
          end }
        assert.equal(2, (timed_send(g, "x", { rsvp = ack_on })))
        assert.equal(ack_on == "delivery" and 9 or 2, (timed_send(g, "slow", { rsvp = ack_on })))
        assert.equal(2, (timed_send(g, "y", { rsvp = ack_on, to = "dee" })))
        g.sim:close()
      end
    end
  end)

  -- G18
  it("come on delivery when the callback has returned, or raised", group.seeds(function()
    for _, mode in ipairs(MODES) do
      local g = group.new { with = { nakack = { retransmission = mode } },
        message = function(_, name, msg)
          if name == "bob" then neap.sleep "100ms" end
          if msg.body == "bad" then error "no good" end
        end }
      for _, name in ipairs(g.names) do g[name]:on("error", function() end) end
      local took, ok = timed_send(g, "bad", { rsvp = "delivery" })
      assert.is_true(ok)
      assert.equal(102, took)
      assert.equal(2, (timed_send(g, "bad", { rsvp = "reception" })))
      g.sim:close()
    end
  end))

  -- G19: not when the last of the batch is done.
  it("come for each message of a batch when that one is done", group.modes(function()
    local g = group.new {
      message = function(_, name) if name == "bob" then neap.sleep "10ms" end end,
    }
    local handles = {}
    for n = 1, 5 do handles[n] = g.ann:send(tostring(n), { rsvp = "delivery", wait = false }) end
    g.sim:run "200ms"
    for n = 1, 5 do
      assert.equal(10 * n + 2, handles[n].acked.bob.ns / 1e6)
      assert.equal(2, handles[n].acked.cho.ns / 1e6)
    end
  end))

  it("come once all are done that a batch handler got together", group.modes(function()
    local g = group.new {}
    g.cho:on("message", nil)
    g.cho:on("batch", function(list) neap.sleep(("%dms"):format(10 * #list)) end)
    local handles = {}
    for n = 1, 5 do handles[n] = g.ann:send(tostring(n), { rsvp = "delivery", wait = false }) end
    g.sim:run "200ms"
    local last = 0
    for n = 1, 5 do
      assert(handles[n].acked.cho.ns >= last and handles[n].acked.cho.ns / 1e6 >= 12)
      last = handles[n].acked.cho.ns
    end
  end))

  -- G22
  it("say nothing of earlier messages out of band, except on completion", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed,
        with = { nakack = { retransmission = MODES[seed % 2 + 1] } } }
      local gap = g.sim:drop { from = "ann", to = "cho", layer = "nakack", body = "1" }
      g.ann:send "1"
      local handles = {}
      for _, ack_on in ipairs { "reception", "completion", "delivery" } do
        handles[ack_on] = g.ann:send(ack_on, { rsvp = ack_on, oob = true, wait = false })
      end
      g.sim:run "50ms"
      assert.equal("reception completion delivery", g:got "cho")
      assert.same({}, handles.reception.missing)
      assert.same({}, handles.delivery.missing)
      assert.same({ "cho" }, handles.completion.missing)
      g.sim:clear(gap)
      g.sim:run "2s"
      assert.same({}, handles.completion.missing)
      assert.equal("reception completion delivery 1", g:got "cho")
      g.sim:close()
    end)
  end)

  it("come on reception when the last fragment is stored, on completion behind no gap", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, with = { frag = { frag_size = "1KB" },
        nakack = { retransmission = MODES[seed % 2 + 1] } } }
      local base = tonumber(g.ann.stack.nakack.current_seqno)
      local first = g.sim:drop { from = "ann", to = "cho", layer = "nakack", seqno = base + 1 }
      local piece = g.sim:drop { from = "ann", to = "cho", layer = "nakack", seqno = base + 3 }
      g.ann:send "1"
      local stored = g.ann:send(("x"):rep(3000), { rsvp = "reception", wait = false })
      local whole = g.ann:send(("y"):rep(3000), { rsvp = "completion", wait = false })
      g.sim:run "50ms"
      assert.same({ "cho" }, stored.missing)
      g.sim:clear(piece)
      g.sim:run "1s"
      assert.same({}, stored.missing)
      assert.same({ "cho" }, whole.missing)
      assert.equal(0, #g.bodies.cho)
      g.sim:clear(first)
      g.sim:run "2s"
      assert.same({}, whole.missing)
      assert.equal(3, #g.bodies.cho)
      g.sim:close()
    end)
  end)

  it("are remembered no longer than it takes, large messages out of band included", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, jitter = "3ms", reorder = 0.3, loss = 0.1,
        with = { frag = { frag_size = "1KB" }, fd_all = PATIENT,
          nakack = { retransmission = MODES[seed % 2 + 1] } } }
      for n = 1, 24 do
        g.ann:send(("x"):rep(n % 2 == 0 and 4000 or 10), { oob = n % 3 > 0, wait = false,
          rsvp = ({ "reception", "completion", "delivery" })[n % 3 + 1],
          to = n % 5 == 0 and "cho" or nil, timeout = "60s" })
        if n % 4 == 0 then g.sim:run "3ms" end
      end
      g.sim:set { loss = 0, reorder = 0 }
      g.sim:run "20s"
      assert.equal(24, #g.bodies.cho)
      for _, name in ipairs(g.names) do assert.equal(0, g[name].stack.rsvp.owed) end
      assert.equal(0, g.ann.stack.rsvp.pending)
      g.sim:close()
    end)
  end)

  -- G21: a Neap receiver answers a beacon.
  it("come to a beacon as soon as the request is fulfilled, and not before", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, stack = "spec/support/checked.lua",
        with = { fd_all = PATIENT, rsvp = { resend = "beacon", resend_interval = "50ms" },
          nakack = { retransmission = MODES[seed % 2 + 1] } },
        message = function(_, name) if name == "cho" then neap.sleep "500ms" end end }
      local to = seed % 3 == 0 and "cho" or nil
      local took, ok = timed_send(g, "x", { rsvp = "delivery", to = to })
      assert.is_true(ok)
      assert.equal(502, took)
      assert(g.ann.stack.rsvp.beacons_sent >= 9)
      assert.same({}, g.sim:complaints())
      g.sim:close()
    end)
  end)

  it("do not come early from a member whose view the sender left meanwhile", function()
    for _, to in ipairs { false, "cho" } do
      local g = group.new { with = { fd_all = PATIENT, rsvp = { resend = "beacon",
        resend_interval = "100ms", timeout = "60s" } },
        message = function(_, name) if name == "cho" then neap.sleep "3s" end end }
      local handle = g.ann:send("x", { rsvp = "delivery", wait = false, to = to or nil })
      g.sim:run "10ms"
      g.sim:inject_view("cho", { "cho" })
      g.sim:run "10ms"
      g.sim:inject_view("cho", { "ann", "bob", "cho" })
      g.sim:run "2500ms"
      assert.same({ "cho" }, handle.missing)
      assert(g.ann.stack.rsvp.beacons_sent > 10)
      g.sim:run "2s"
      assert.equal(0, g.cho.stack.rsvp.owed)
      g.sim:close()
    end
  end)

  -- cho takes the state of ann for a second; what bob has sent comes to it meanwhile.
  local function while_taking(seed, ack_on, ends)
    local mode = MODES[seed % 2 + 1]
    local g = group.new { seed = seed, stack = "state", with = {
      fd_all = { timeout = "4s", interval = "500ms" }, nakack = { retransmission = mode },
      rsvp = { resend = seed % 4 < 2 and "beacon" or "off", resend_interval = "50ms",
        timeout = "60s" } } }
    g.ann:on("state_request", function()
      neap.sleep "1s"
      return "state"
    end)
    g.cho:on("state", function(text) g.state = text end)
    local lost = {}
    for n, body in ipairs { "gap", "x" } do
      lost[n] = g.sim:drop { from = "bob", to = "cho", layer = "nakack", body = body }
    end
    g.bob:send "gap"
    local handles = { g.bob:send("x", { rsvp = ack_on, wait = false }) }
    g.sim:run "20ms"
    g.sim:spawn(function() g.result = { g.cho:get_state { from = "ann", timeout = "10s" } } end)
    g.sim:run "300ms"
    for _, rule in ipairs(lost) do g.sim:clear(rule) end
    handles[2] = g.bob:send("y", { rsvp = ack_on, wait = false })
    g.sim:run "600ms"
    for _, handle in ipairs(handles) do assert.same({ "cho" }, handle.missing) end
    ends(g)
    for _, handle in ipairs(handles) do assert.same({}, handle.missing) end
    assert.equal(0, g.cho.stack.rsvp.owed)
    g.sim:close()
  end

  it("wait while a state is being taken, and come when it is there", function()
    group.each_seed(20, function(seed)
      while_taking(seed, ({ "reception", "completion", "delivery" })[seed % 3 + 1], function(g)
        assert.is_nil(g.state)
        g.sim:run "200ms"
        assert.equal("state", g.state)
        assert.equal("y", g:got "cho") -- The others are in the state.
      end)
    end)
  end)

  it("come in the usual way when there will be no state", function()
    group.each_seed(20, function(seed)
      while_taking(seed, ({ "completion", "delivery" })[seed % 2 + 1], function(g)
        g.sim:kill "ann"
        g.sim:run "20s"
        assert.is_nil(g.result[1])
        assert.is_nil(g.state)
        assert.equal("gap x y", g:got "cho")
      end)
    end)
  end)

  it("are forgotten with what will never rise", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, with = { fd_all = { timeout = "4s", interval = "500ms" },
        nakack = { retransmission = MODES[seed % 2 + 1] } } }
      g.sim:drop { from = "ann", to = "cho", body = "1" }
      g.ann:send "1"
      for n = 1, 9 do
        g.ann:send("x", { rsvp = ({ "reception", "completion", "delivery" })[n % 3 + 1],
          wait = false, oob = n > 6 })
      end
      g.sim:run "20ms"
      assert(tonumber(g.cho.stack.rsvp.owed) > 0)
      g.sim:kill "ann"
      g.sim:run "20s"
      assert.equal(2, #g.cho:view().members)
      assert.equal(0, g.cho.stack.rsvp.owed)
      g.sim:close()
    end)
  end)

  it("owes nothing for what comes in pieces, out of band, all at once", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, loss = 0.2, jitter = "3ms", reorder = 0.3,
        with = { frag = { frag_size = "1KB" } } }
      g.sim:spawn(function()
        for n = 1, 10 do
          assert(g.ann:send("before " .. n))
          assert(g.ann:send(("x"):rep(3500), { oob = true, rsvp = "completion", wait = false }))
        end
      end)
      g.sim:settle()
      for _, name in ipairs(g.names) do assert.equal(0, g[name].stack.rsvp.owed) end
      assert.equal(0, g.ann.stack.rsvp.pending)
      g.sim:close()
    end)
  end)
end)
