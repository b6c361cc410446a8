-- unicast, mode: from ack to nak and back in each connection, under load, lost, and not followed.

local group = require "support.group"
local neap = require "neap"
local talk = require "support.talk"

local pair, say, nothing_left, until_got = talk.pair, talk.say, talk.nothing_left, talk.until_got

local MS = 1e6

local function new(mode, options)
  options = options or {}
  options.with = options.with or {}
  options.with.unicast = options.with.unicast or {}
  options.with.unicast.retransmission = mode
  local g = pair(options)
  g.sim:settle()
  return g
end

-- Sets a mode; returns how long that took in milliseconds and what it returned.
local function toggle(g, name, mode)
  local started, ended, ok, code, detail
  g:call(function()
    started = neap.now()
    ok, code, detail = g[name].stack:set { unicast = { retransmission = mode } }
    ended = neap.now()
  end)
  return (ended - started) / MS, ok, code, detail
end

local function mode_of(g, name, peer)
  local line = ("\n" .. g[name].stack.unicast:windows()):match("\n(" .. peer .. " [^\n]*)")
  return line:match "to=.-mode=(%a+)", line:match "from=.-mode=(%a+)"
end

describe("a toggle of unicast", function()
  it("returns when the receivers have followed, one round trip later, both ways", function()
    for _, mode in ipairs { "ack", "nak" } do
      local g = new(mode == "ack" and "nak" or "ack")
      say(g, "ann", "bob", 1, 3)
      g.sim:settle()
      local took, ok = toggle(g, "ann", mode)
      assert.is_true(ok)
      assert.equal(2, took)
      assert.equal(mode, (mode_of(g, "ann", "bob")))
      assert.equal(mode, select(2, mode_of(g, "bob", "ann")))
      assert.equal(mode == "ack" and "nak" or "ack", (mode_of(g, "bob", "ann")))
      assert.equal(0, g.ann.stack.unicast.mode_pending)
      nothing_left(g)
    end
  end)

  it("loses, doubles and turns round nothing under load, in both directions", function()
    group.each_seed(20, function(seed)
      local g = new(seed % 2 == 0 and "ack" or "nak",
        { seed = seed, loss = 0.1, duplicate = 0.05, reorder = 0.1, jitter = "1ms" })
      local sent = 0
      for _ = 1, 12 do
        say(g, "ann", "bob", sent + 1, sent + 20)
        say(g, "bob", "ann", sent + 1, sent + 20)
        sent = sent + 20
        g.sim:run "3ms"
        g.ann.stack.unicast.retransmission = sent % 40 == 0 and "nak" or "ack"
        if seed % 3 == 0 then g.bob.stack.unicast.retransmission = "nak" end
        g.sim:run "4ms"
      end
      g.sim:settle()
      assert.equal(group.counted(sent), g:got "bob")
      assert.equal(group.counted(sent), g:got "ann")
      assert.equal("nak", (mode_of(g, "ann", "bob")))
      assert.equal("nak", select(2, mode_of(g, "bob", "ann")))
      nothing_left(g)
      g.sim:close()
    end)
  end)

  it("is repaired when it is lost, and so is its report", function()
    for _, lost in ipairs { { from = "ann", to = "bob", type = "mode" },
      { from = "bob", to = "ann", type = "stable" } } do
      local g = new "ack"
      lost.layer, lost.times = "unicast", 3
      local rule = g.sim:drop(lost)
      local took, ok = toggle(g, "ann", "nak")
      assert.equal(3, g.sim:hits(rule))
      assert.is_true(ok)
      assert.is_true(took < 200, took)
      nothing_left(g)
    end
  end)

  it("says who has not followed, and changes the mode all the same", function()
    local g = new("ack", { names = { "ann", "bob", "cho" },
      with = { unicast = { mode_timeout = "300ms" } } })
    g.sim:pause "cho"
    local took, ok, code, detail = toggle(g, "ann", "nak")
    assert.equal(300, took)
    assert.same({ nil, "timeout", { missing = { "cho" } } }, { ok, code, detail })
    assert.equal("nak", (mode_of(g, "ann", "cho")))
    assert.equal(1, g.ann.stack.unicast.mode_pending)
    g.sim:resume "cho"
    g.sim:settle()
    assert.equal(0, g.ann.stack.unicast.mode_pending)
    assert.equal("nak", select(2, mode_of(g, "cho", "ann")))
  end)

  it("does not wait for who has left, or whose connection was closed", function()
    local g = new("ack", { names = { "ann", "bob", "cho" },
      with = { fd_all = { timeout = "2s", interval = "500ms" } } })
    g.sim:kill "cho"
    local took, ok = toggle(g, "ann", "nak")
    assert.is_true(ok)
    assert.is_true(took > 1000 and took < 6000, took)
    ok = nil
    local rule = g.sim:drop { from = "bob", to = "ann", layer = "unicast", type = "ack" }
    g.sim:spawn(function() ok = g.ann.stack:set { unicast = { retransmission = "ack" } } end)
    g.sim:run "5ms"
    assert.is_nil(ok)
    g.ann.stack.unicast:close "bob"
    g.sim:run "1us"
    assert.is_true(ok)
    g.sim:clear(rule)
  end)

  it("is not undone by what comes from before: an older epoch changes nothing", function()
    local g = new "nak"
    g.ann.stack.unicast:close "bob"
    g.sim:settle()
    -- The first of the next connection says epoch 1, nak; a copy of it comes a second later.
    g.sim:duplicate { from = "ann", to = "bob", layer = "unicast", type = "data", seqno = 1,
      by = "1s", times = 1 }
    say(g, "ann", "bob", 1, 3)
    g.sim:run "10ms"
    assert.equal("nak", select(2, mode_of(g, "bob", "ann")))
    assert.is_true(select(2, toggle(g, "ann", "ack")))
    assert.equal("ack", select(2, mode_of(g, "bob", "ann")))
    local followed = g.bob.stack.unicast.toggles_followed
    g.sim:run "2s"
    assert.equal("ack", select(2, mode_of(g, "bob", "ann")))
    assert.equal(followed, g.bob.stack.unicast.toggles_followed)
    assert.equal("1 2 3", g:got "bob")
  end)

  it("is remembered with the table, and told by what begins a window", function()
    for _, how in ipairs { "expire", "forget" } do
      local g = new "ack"
      say(g, "ann", "bob", 1, 2)
      toggle(g, "ann", "nak")
      say(g, "ann", "bob", 3, 4)
      g.sim:settle()
      g.bob.stack.unicast[how](g.bob.stack.unicast, "ann")
      say(g, "ann", "bob", 5, 6)
      g.sim:settle()
      assert.equal("nak", select(2, mode_of(g, "bob", "ann")))
      assert.equal("1 2 3 4 5 6", g:got "bob")
      -- Epochs are of one window: the next connection begins anew.
      g.ann.stack.unicast:close "bob"
      say(g, "ann", "bob", 7, 8)
      g.sim:settle()
      assert.truthy(g.bob.stack.unicast:windows():find "from=%d+ [^\n]*mode=nak epoch=1")
      nothing_left(g)
    end
  end)

  it("can be of one connection alone, until the attribute is set", function()
    local g = new("ack", { names = { "ann", "bob", "cho" } })
    assert.is_true(g.ann.stack.unicast:nak "cho")
    g.sim:settle()
    assert.equal("ack", (mode_of(g, "ann", "bob")))
    assert.equal("nak", (mode_of(g, "ann", "cho")))
    assert.equal("nak", select(2, mode_of(g, "cho", "ann")))
    assert.equal("refused", select(2, g.ann.stack.unicast:nak "ann"))
    g:call(function() assert(g.ann.stack:set { unicast = { retransmission = "ack" } }) end)
    assert.equal("ack", (mode_of(g, "ann", "cho")))
  end)

  it("is refused when a receiver has not followed a thousand others", function()
    local g = new "ack"
    g.sim:pause "bob"
    for i = 1, 1024 do
      g.ann.stack.unicast.retransmission = i % 2 == 1 and "nak" or "ack"
    end
    local ok, code, detail = g.ann.stack:set { unicast = { retransmission = "nak" } }
    assert.same({ nil, "refused" }, { ok, code })
    assert.truthy(detail:find "bob has not followed the last 1024 changes")
    assert.equal("refused", select(2, g.ann.stack.unicast:nak "bob"))
    g.sim:resume "bob"
    g.sim:settle()
    assert.is_true(g.ann.stack:set { unicast = { retransmission = "nak" } })
  end)
end)

describe("nak mode of unicast", function()
  it("reports a stream in few words, and frees all of it", function()
    local counts = {}
    for _, mode in ipairs { "ack", "nak" } do
      local g = new(mode)
      local before = g.bob.stack.unicast.acks_sent
      g:call(function()
        for i = 1, 400 do
          assert(g.ann:send(tostring(i), { to = "bob" }))
          neap.sleep "1ms"
        end
      end)
      g.sim:settle()
      counts[mode] = g.bob.stack.unicast.acks_sent - before
      assert.equal(group.counted(400), g:got "bob")
      nothing_left(g)
    end
    assert.is_true(counts.nak <= 2 and counts.ack > 20, counts.nak .. " " .. counts.ack)
  end)

  it("finds a loss at the end by the receiver's report", function()
    local g = new("nak", { with = { unicast = { stable_interval = "100ms" } } })
    say(g, "ann", "bob", 1, 2)
    g.sim:settle()
    local lost = g.sim:drop { from = "ann", to = "bob", layer = "unicast", body = "10", times = 1 }
    for i = 3, 10 do -- One packet each.
      say(g, "ann", "bob", i, i)
      g.sim:run "1us"
    end
    local tails = g.ann.stack.unicast.tail_xmits
    assert.is_true(until_got(g, "bob", 10) <= 105)
    assert.equal(1, g.sim:hits(lost))
    assert.equal(tails + 1, g.ann.stack.unicast.tail_xmits)
    g.sim:settle()
    nothing_left(g)
  end)

  it("finds it without a report, by the sender, with growing pauses", function()
    local g = new("nak", { with = { unicast = { stable_interval = "100ms" } } })
    say(g, "ann", "bob", 1, 2)
    g.sim:settle()
    g.sim:drop { from = "ann", to = "bob", layer = "unicast", body = "3", times = 3 }
    say(g, "ann", "bob", 3, 3)
    -- 100 ms and a little, 200, 400, and so on.
    local took = until_got(g, "bob", 3)
    assert.is_true(took > 650 and took < 850, took)
    g.sim:settle()
    nothing_left(g)
  end)

  it("resends soon until the receiver was heard", function()
    local g = new("nak", { with = { unicast = { stable_interval = "10s" } } })
    g.ann.stack.unicast:close "bob"
    g.sim:settle()
    g.sim:drop { from = "ann", to = "bob", layer = "unicast", seqno = 1, type = "data", times = 2 }
    say(g, "ann", "bob", 1, 5)
    assert.is_true(until_got(g, "bob", 5) < 60)
    assert.equal("1 2 3 4 5", g:got "bob")
  end)

  it("never waits for stable_interval with a full window", function()
    local g = new("nak", { with = {
      unicast = { stable_interval = "30s", window_bytes = "20KB" },
    } })
    local began = g.sim:now()
    g:call(function()
      for i = 1, 100 do assert(g.ann:send(i .. ("."):rep(2000), { to = "bob" })) end
    end)
    assert.is_true(g.sim:now() - began < 2e9)
    g.sim:settle()
    assert.equal(100, #g.bodies.bob)
    nothing_left(g)
  end)

  it("never waits for it when the receiver's window is far larger", function()
    local g = new "nak"
    g.ann.stack:set { unicast = { window_bytes = "10KB", stable_interval = "30s" } }
    g.bob.stack:set { unicast = { stable_interval = "30s" } }
    local began = g.sim:now()
    g:call(function()
      for i = 1, 50 do assert(g.ann:send(i .. ("."):rep(2000), { to = "bob" })) end
    end)
    assert.is_true(g.sim:now() - began < 5e9)
    g.sim:run "1s"
    assert.equal(50, #g.bodies.bob)
  end)

  it("makes rsvp send beacons, ack mode makes it keep still", function()
    for _, mode in ipairs { "ack", "nak" } do
      local g = new(mode, { with = { rsvp = { resend_interval = "50ms", timeout = "1s" } } })
      say(g, "ann", "bob", 1, 2)
      g.sim:settle()
      g.bob:on("message", function() neap.sleep "400ms" end)
      g:call(function() assert(g.ann:send("x", { to = "bob", rsvp = "delivery" })) end)
      local beacons = g.ann.stack.rsvp.beacons_sent
      assert(mode == "ack" and beacons == 0 or mode == "nak" and beacons > 3, mode .. beacons)
    end
  end)
end)
