-- unicast, repair: what goes again and what does not, who is told, and what a full window, a view
-- or an end does to those who wait.

local core = require "neap.core"
local group = require "support.group"
local neap = require "neap"
local talk = require "support.talk"

local pair, say, nothing_left, until_got = talk.pair, talk.say, talk.nothing_left, talk.until_got
local COUNTED = group.counted(10)
local MODES = { "ack", "nak" }

local function unicast(g, name) return g[name].stack.unicast end

local function new(mode, options)
  options = options or {}
  options.with = options.with or {}
  options.with.unicast = options.with.unicast or {}
  options.with.unicast.retransmission = mode
  options.with.unicast.stable_interval = options.with.unicast.stable_interval or "50ms"
  local g = pair(options)
  g.sim:settle()
  return g
end

describe("unicast", function()
  for _, mode in ipairs(MODES) do
    it("recovers a burst that is lost as a whole, in " .. mode .. " mode", function()
      group.each_seed(20, function(seed)
        local g = new(mode, { seed = seed })
        local rule = g.sim:drop { from = "ann", to = "bob", layer = "unicast", type = "data" }
        say(g, "ann", "bob", 1, 5)
        g.sim:run "1ms"
        g.sim:clear(rule)
        assert.is_true(until_got(g, "bob", 5) < 70)
        assert.equal("1 2 3 4 5", g:got "bob")
        g.sim:settle()
        nothing_left(g)
        g.sim:close()
      end)
    end)

    it("asks in small words for large losses, in " .. mode .. " mode", function()
      group.each_seed(20, function(seed)
        local g = new(mode, { seed = seed, loss = 0.5,
          with = { udp = { max_packet = "1400B" } } })
        say(g, "ann", "bob", 1, 2000)
        g.sim:settle()
        assert.equal(group.counted(2000), g:got "bob")
        assert.is_true(unicast(g, "bob").requests_sent < 200)
        assert.equal(0, g.bob.stack.udp.too_big + g.bob.stack.udp.oversize)
        nothing_left(g)
        g.sim:close()
      end)
    end)

    it("sends nothing twice while all goes well, in " .. mode .. " mode", function()
      local g = new(mode, { names = { "ann", "bob", "cho" } })
      for i = 1, 300 do
        for _, from in ipairs(g.names) do
          for _, to in ipairs(g.names) do
            if from ~= to then assert(g[from]:send(from .. i, { to = to })) end
          end
        end
        g.sim:run "300us"
      end
      g.sim:settle()
      for _, name in ipairs(g.names) do
        assert.equal(600, #g.bodies[name])
        assert.equal(0, unicast(g, name).xmits + unicast(g, name).requests_sent)
        assert.equal(0, unicast(g, name).tail_xmits)
      end
    end)
  end

  it("sends the highest again only when neither it nor the reports moved for a while",
    group.seeds(function()
    local g = new "ack"
    g.bob:on("message", function(msg)
      neap.sleep "2ms"
      table.insert(g.bodies.bob, msg.body)
    end)
    say(g, "ann", "bob", 1, 50)
    assert.is_true(until_got(g, "bob", 50) > 100) -- Reports come every 5 ms or so.
    g.sim:settle()
    assert.equal(0, unicast(g, "ann").tail_xmits)
    -- Nothing is reported, but sends go on.
    local rule = g.sim:drop { from = "bob", to = "ann", layer = "unicast", type = "ack" }
    for i = 1, 20 do
      say(g, "ann", "bob", i, i)
      g.sim:run "5ms"
    end
    assert.equal(0, unicast(g, "ann").tail_xmits)
    g.sim:run "20ms"
    assert.equal(1, unicast(g, "ann").tail_xmits)
    g.sim:clear(rule)
  end))

  it("answers copies of what was reported by one report, in both modes", function()
    for _, mode in ipairs(MODES) do
      local g = new(mode)
      core.sim_log_start(g.sim.handle, 1000)
      say(g, "ann", "bob", 1, 3)
      g.sim:settle()
      local copy
      for _, row in ipairs(g.sim:log()) do
        if row.from == "ann" and row.text:find "unicast data" then copy = row.bytes end
      end
      local acks, twice = unicast(g, "bob").acks_sent, unicast(g, "bob").twice
      for _ = 1, 20 do
        g.sim:inject { from = "ann", to = "bob", bytes = copy }
        g.sim:run "100us"
      end
      g.sim:settle()
      assert.is_true(unicast(g, "bob").twice >= twice + 20)
      assert.equal(acks + 1, unicast(g, "bob").acks_sent)
      assert.equal("1 2 3", g:got "bob")
    end
  end)

  it("takes ten firsts of a new connection at once for one", function()
    local g = new "ack"
    unicast(g, "ann"):close "bob"
    g.sim:settle()
    core.sim_log_start(g.sim.handle, 1000)
    local rule = g.sim:drop { from = "ann", to = "bob", layer = "unicast", seqno = 1, times = 1 }
    say(g, "ann", "bob", 1, 1)
    g.sim:run "1us"
    assert.equal(1, g.sim:hits(rule))
    local rows = g.sim:log()
    assert.truthy(rows[#rows].text:find "first=1")
    for _ = 1, 10 do g.sim:inject { from = "ann", to = "bob", bytes = rows[#rows].bytes } end
    say(g, "ann", "bob", 2, 10)
    g.sim:settle()
    assert.equal(COUNTED, g:got "bob")
    nothing_left(g)
  end)

  it("drops what came early of another connection than the one that begins", function()
    local g = new("ack", { stack = neap.stack(function(s) -- rsvp would begin one of its own.
      return s.extend("lan", { "Without rsvp.", s.remove "rsvp" })
    end) })
    unicast(g, "ann"):close "bob"
    g.sim:settle()
    unicast(g, "bob"):forget "ann"
    -- Of one life the second message comes late, of the next the first.
    g.sim:delay { from = "ann", to = "bob", layer = "unicast", body = "2", by = "12ms", times = 1 }
    g.sim:drop { from = "ann", to = "bob", layer = "unicast", body = "1" }
    say(g, "ann", "bob", 1, 1)
    g.sim:run "1us"
    say(g, "ann", "bob", 2, 2)
    g.sim:run "1us"
    unicast(g, "ann"):lose "bob"
    g.sim:run "11ms"
    g.sim:delay { from = "ann", to = "bob", layer = "unicast", body = "3", by = "3ms", times = 1 }
    say(g, "ann", "bob", 3, 3)
    g.sim:run "1us"
    say(g, "ann", "bob", 4, 10)
    g.sim:settle()
    assert.equal("3 4 5 6 7 8 9 10", g:got "bob")
    assert.equal(1, unicast(g, "bob").early_dropped)
    nothing_left(g)
  end)

  it("fails who waits for an answer when the connection is reset", function()
    local g = new "ack"
    for _, how in ipairs { "close", "lose" } do
      g.sim:cut { from = "ann", to = "bob" }
      local began, ok, code = g.sim:now(), nil, nil
      g.sim:spawn(function()
        ok, code = g.ann:send("x", { to = "bob", rsvp = "delivery", timeout = "60s" })
      end)
      g.sim:run "10ms"
      unicast(g, "ann")[how](unicast(g, "ann"), "bob")
      g.sim:run "1us"
      assert.same({ nil, "reset" }, { ok, code })
      assert.is_true(g.sim:now() - began < 20e6)
      g.sim:heal()
      g.sim:settle()
    end
  end)

  it("frees who waits for room when the peer leaves or the channel closes", function()
    for _, how in ipairs { "kill", "close" } do
      local g = new("ack", { names = { "ann", "bob", "cho" },
        with = { fd_all = { timeout = "2s", interval = "500ms" },
          unicast = { window_messages = 5 } } })
      g.sim:pause "cho"
      local codes = {}
      g.sim:spawn(function()
        for i = 1, 10 do
          local ok, code = g.ann:send(tostring(i), { to = "cho" })
          table.insert(codes, ok and "ok" or code)
        end
      end)
      g.sim:run "100ms"
      assert.equal(5, #codes)
      if how == "kill" then g.sim:kill "cho" else g.ann:close() end
      g.sim:run "10s"
      assert.equal(10, #codes)
      for i = 6, 10 do assert(codes[i] ~= "ok", codes[i]) end
      -- The next ones are refused at once: nothing opens a connection to who is gone.
      if how == "kill" then
        assert.equal("not a member", select(2, g.ann:send("x", { to = "cho" })))
      end
    end
  end)

  it("can be talked with from inside a view callback", function()
    local g = group.new { names = { "ann" } }
    g.ann:on("view", function(view)
      for _, name in ipairs(view.joined or {}) do
        if name ~= "ann" then g.ann:send("hello " .. name, { to = name }) end
      end
    end)
    g:join "bob"
    g.sim:run "5s"
    assert.equal("hello bob", g:got "bob")
  end)
end)

describe("ids of connections", function()
  it("are counted for each peer, and the counter outlives the connection", function()
    local g = new("ack", { names = { "ann", "bob", "cho" },
      with = { unicast = { conn_close_timeout = "100ms" } } })
    for i = 1, 5 do
      unicast(g, "ann"):close "bob"
      say(g, "ann", "bob", i, i)
      g.sim:settle()
    end
    assert.truthy(unicast(g, "ann"):windows():find "bob to=5 ")
    assert.truthy(unicast(g, "ann"):windows():find "cho to=0 ")
    -- Closed by age, and bob could still remember it.
    g.sim:inject_view("ann", { "ann" })
    g.sim:run "150ms"
    assert.is_nil(unicast(g, "ann"):windows():find "bob to=")
    g.sim:inject_view("ann", { "ann", "bob", "cho" })
    g.sim:run "1us"
    say(g, "ann", "bob", 6, 10)
    g.sim:settle()
    assert.truthy(unicast(g, "ann"):windows():find "bob to=6 ")
    assert.equal(COUNTED, g:got "bob")
    -- Longer than anybody remembers.
    g.sim:inject_view("ann", { "ann" })
    g.sim:inject_view("bob", { "bob" })
    g.sim:run "400ms"
    g.sim:inject_view("ann", { "ann", "bob", "cho" })
    g.sim:inject_view("bob", { "ann", "bob", "cho" })
    g.sim:run "1us"
    say(g, "ann", "bob", 11, 12)
    g.sim:settle()
    assert.truthy(unicast(g, "ann"):windows():find "bob to=0 ")
    assert.equal(group.counted(12), g:got "bob")
  end)

  it("keep zombies out after the table is forgotten, too", function()
    local g = new "ack"
    unicast(g, "ann"):close "bob"
    g.sim:settle()
    local rule = g.sim:duplicate { from = "ann", to = "bob", layer = "unicast", type = "data",
      by = "1s" }
    say(g, "ann", "bob", 1, 3)
    g.sim:run "50ms"
    g.sim:clear(rule)
    unicast(g, "ann"):close "bob"
    say(g, "ann", "bob", 4, 6)
    g.sim:run "100ms"
    local forgotten = unicast(g, "bob").forgotten
    unicast(g, "bob"):expire "ann"
    assert.equal(forgotten + 1, unicast(g, "bob").forgotten)
    g.sim:run "2s"
    assert.equal("1 2 3 4 5 6", g:got "bob")
    assert.is_true(unicast(g, "bob").stale >= 3)
    say(g, "ann", "bob", 7, 10)
    g.sim:settle()
    assert.equal(COUNTED, g:got "bob")
  end)
end)
