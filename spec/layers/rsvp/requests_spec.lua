-- Who is waited for, how it ends, and how many there may be.

local Channel = require "neap.channel"
local group = require "support.group"
local neap = require "neap"

local PATIENT = { timeout = "1000s" } -- of fd_all: nobody is suspected

-- What f returned, and after how many milliseconds.
local function timed(g, f)
  local took
  local results = { g:call(function()
    local began = neap.now()
    local inner = { f() }
    took = (neap.now() - began) / 1e6
    return unpack(inner, 1, 4)
  end) }
  return took, unpack(results, 1, 4)
end

local function inside(g, name) return g[name][Channel.own] end

-- From now on this member of `who`'s group is taken for one that is not Neap's: it gets no headers
-- of our own, and answers as its own stack says.
local function foreign(g, who, other)
  inside(g, who).by_address[g[other].address].generation = 0
end

describe("rsvp, requests", function()
  it("wait as the stack said when they were called, whatever is set right after", function()
    local g = group.new {
      message = function(_, name) if name == "bob" then neap.sleep "1s" end end,
    }
    local took, ok = timed(g, function()
      local handle = g.ann:send("x", { rsvp = true, wait = false })
      g.ann.stack.rsvp.ack_on = "completion"
      return handle:wait()
    end)
    assert.is_true(ok)
    assert.equal(1002, took)
    took = timed(g, function() return g.ann:send("y", { rsvp = true }) end)
    assert.equal(2, took)
    g.sim:close()
  end)

  -- G17
  it("are not released by a suspicion, unless that is asked for", group.modes(function()
    for _, release in ipairs { false, true } do
      local g = group.new { with = { fd_all = { timeout = "2s", interval = "500ms" },
        verify_suspect = { timeout = "100ms" }, rsvp = { release_on_suspect = release } } }
      g.sim:pause "cho"
      local handle = g.bob:send("x", { rsvp = true, wait = false, timeout = "100s" })
      g.sim:run "1500ms"
      g.sim:cut { from = "ann", to = "bob" } -- The view that comes of it does not get there.
      g.sim:run "1700ms"
      assert(g.bob.stack.verify_suspect.confirmed > 0)
      assert.equal(3, #g.bob:view().members)
      if release then
        local ok, detail = g:call(function() return handle:wait "10ms" end)
        assert.is_true(ok)
        assert.same({ "cho" }, detail.left)
      else
        assert.same({ "cho" }, handle.missing)
      end
      g.sim:close()
    end
  end))

  it("fail with reset when their connection ends with messages that were not reported", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, loss = seed % 2 * 0.1, with = { fd_all = PATIENT,
        unicast = { retransmission = seed % 4 < 2 and "ack" or "nak" } } }
      g.sim:pause "cho"
      local to_cho = g.ann:send("x", { rsvp = "reception", to = "cho", wait = false, timeout = 0 })
      local to_bob = g.ann:send("x", { rsvp = true, to = "bob", wait = false, timeout = "100s" })
      local to_all = g.ann:send("y", { rsvp = true, wait = false, timeout = "100s" })
      g.sim:run "100ms"
      g.ann.stack.unicast:close "cho"
      g.sim:run "2s"
      local ok, code, detail = g:call(function() return to_cho:wait() end)
      assert.is_nil(ok)
      assert.equal("reset", code)
      assert.same({ "cho" }, detail.missing)
      assert.is_true((g:call(function() return to_bob:wait "1s" end)))
      assert.same({ "cho" }, to_all.missing)
      g.sim:resume "cho"
      assert.is_true((g:call(function() return to_all:wait "10s" end)))
      assert.equal(1, g.ann.stack.rsvp.resets)
      g.sim:close()
    end)
  end)

  it("are released by a merge as split", function()
    local g = group.new { with = { fd_all = PATIENT } }
    g.sim:pause "cho"
    local to_all = g.ann:send("x", { rsvp = true, wait = false, timeout = "100s" })
    local to_cho = g.ann:send("x", { rsvp = true, to = "cho", wait = false, timeout = "100s" })
    g.sim:run "10ms"
    g.sim:inject_view("ann", { "ann", "bob" })
    -- What a merging stack would say of it.
    require("neap.cdef").neap_bind_layer_of(inside(g, "ann").pointer, "gms").view.merged = true
    g.sim:run "10ms"
    local ok, detail = g:call(function() return to_all:wait "1s" end)
    assert.is_true(ok)
    assert.same({ "cho" }, detail.left)
    assert.same({ "cho" }, detail.split)
    local code
    ok, code = g:call(function() return to_cho:wait "1s" end)
    assert.is_nil(ok)
    assert.equal("split", code)
  end)

  it("may begin while members come: targets are those of the view when they leave", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, names = { "ann" }, latency = "100us" }
      local handles = {}
      g.sim:spawn(function()
        for sent = 1, 400, 4 do
          for n = sent, sent + 3 do
            handles[n] = assert(g.ann:send("x", { rsvp = "delivery", wait = false }))
          end
          neap.sleep "50us"
        end
      end)
      for _, name in ipairs { "bob", "cho", "dee" } do g:join(name) end
      g.sim:run "10s"
      for _, handle in ipairs(handles) do assert.same({}, handle.missing) end
      g.sim:close()
    end)
  end)

  -- Issue 3, done 7: endless sends that nobody waits for.
  it("are bounded: beyond max_pending a send would block until one has ended", function()
    for _, mode in ipairs { "nak", "ack" } do
      local g = group.new { with = { fd_all = PATIENT, nakack = { retransmission = mode },
        rsvp = { max_pending = 100, timeout = "1000s" } } }
      local rsvp = g.ann.stack.rsvp
      g.sim:pause "cho"
      local sent, code = 0, nil
      for _ = 1, 1000 do
        local ok
        ok, code = g.ann:send("x", { rsvp = true, wait = false })
        if not ok then break end
        sent = sent + 1
      end
      assert.equal("would block", code)
      assert.equal(100, sent)
      g.sim:run "1s"
      assert.equal(100, rsvp.pending)
      assert.is_true((g.ann:send "plain")) -- Only these are turned away.
      local rest = 0
      g.sim:spawn(function()
        for _ = 1, 500 do
          assert(g.ann:send("y", { rsvp = true, wait = false }))
          rest = rest + 1
        end
      end)
      g.sim:run "5s"
      assert.equal(0, rest)
      assert.equal(100, rsvp.pending)
      rsvp.max_pending = 150
      g.sim:run "1s"
      assert.equal(50, rest)
      assert.equal(150, rsvp.pending)
      g.sim:resume "cho"
      g.sim:run "20s"
      assert.equal(500, rest)
      assert.equal(0, rsvp.pending)
      assert.equal(601, #g.bodies.cho)
      g.sim:close()
    end
  end)

  it("take their time also while there is no room, and then were not sent", function()
    local g = group.new { with = { fd_all = PATIENT, rsvp = { max_pending = 1, timeout = "2s" } } }
    g.sim:pause "cho"
    g.ann:send("x", { rsvp = true, wait = false, timeout = "5s" })
    local took, ok, code, detail = timed(g, function() return g.ann:send("y", { rsvp = true }) end)
    assert.is_nil(ok)
    assert.equal("timeout", code)
    assert.is_false(detail.sent)
    assert.same({ "ann", "bob", "cho" }, detail.missing)
    assert.equal(2000, took)
    -- It has a place after 3 s, and time until 4.
    took, ok, code, detail = timed(g, function()
      return g.ann:send("z", { rsvp = true, timeout = "4s" })
    end)
    assert.is_nil(ok)
    assert.equal("timeout", code)
    assert.is_nil(detail.sent)
    assert.same({ "cho" }, detail.missing)
    assert.equal(4000, took)
    g.sim:resume "cho"
    g.sim:run "5s"
    assert.equal("x z", g:got "cho")
  end)

  -- JGroups members cannot be told, and their answers name an id only.
  it("say who answered by a setting of its own, and wait with an id until all have", function()
    local g = group.new { with = { fd_all = PATIENT, rsvp = { ids = 4, timeout = "1s" } },
      message = function(g, name, msg)
        if msg.body == "slow" and name == "cho" then neap.sleep "1s" end
        table.insert(g.bodies[name], msg.body)
      end }
    foreign(g, "ann", "cho")
    local took, ok, detail = timed(g, function() return g.ann:send("x", { rsvp = "reception" }) end)
    assert.is_true(ok)
    assert.equal(2, took)
    assert.same({ "bob", "cho" }, detail.by_own_setting) -- bob could not be told either.
    took, ok, detail = timed(g, function()
      return g.ann:send("slow", { rsvp = "reception", to = "cho", timeout = "5s" })
    end)
    assert.is_true(ok)
    assert.equal(1002, took) -- Its own stack says: delivery.
    assert.same({ "cho" }, detail.by_own_setting)

    g.sim:pause "cho"
    for _ = 1, 4 do
      assert.equal("timeout", (select(3, timed(g, function()
        return g.ann:send("y", { rsvp = true })
      end))))
    end
    assert.equal(4, g.ann.stack.rsvp.lingering)
    local blocked, code = g.ann:send("z", { rsvp = true, wait = false })
    assert.is_nil(blocked)
    assert.equal("would block", code)
    g.sim:resume "cho"
    g.sim:run "1s"
    assert.equal(0, g.ann.stack.rsvp.lingering)
    assert.is_true((g:call(function() return g.ann:send("z", { rsvp = true }) end)))
    assert.equal("x slow y y y y z", g:got "cho")
  end)

  it("free the ids of those that left", function()
    local g = group.new { with = { rsvp = { ids = 2, timeout = "1s" },
      fd_all = { timeout = "4s", interval = "500ms" } } }
    foreign(g, "ann", "cho")
    g.sim:kill "cho"
    for _ = 1, 2 do g:call(function() return g.ann:send("y", { rsvp = true }) end) end
    assert.equal(2, g.ann.stack.rsvp.lingering)
    assert.equal("would block", (select(2, g.ann:send("z", { rsvp = true, wait = false }))))
    g.sim:run "10s"
    assert.equal(0, g.ann.stack.rsvp.lingering)
    assert.is_true((g:call(function() return g.ann:send("z", { rsvp = true }) end)))
  end)

  it("never end by an answer to an older one of the same id", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, with = { fd_all = PATIENT,
        rsvp = { ids = 8, timeout = "200ms", resend_interval = 0 },
        nakack = { retransmission = seed % 2 == 0 and "ack" or "nak" } } }
      g.sim:delay { from = "cho", to = "ann", layer = "rsvp", type = "response", by = "3s" }
      for _ = 1, 3 do
        assert.is_nil((g:call(function() return g.ann:send("old", { rsvp = "delivery" }) end)))
      end
      g.sim:pause "cho" -- What comes of it from now on is on its way already.
      local handles = {}
      for n = 1, 8 do -- One of each id.
        handles[n] = assert(g.ann:send("new", { rsvp = "delivery", wait = false,
          timeout = "5s" }))
      end
      g.sim:run "4s"
      assert.equal(3, g.ann.stack.rsvp.stale)
      for n = 1, 8 do assert.same({ "cho" }, handles[n].missing) end
      g.sim:close()
    end)
  end)
end)

describe("rsvp, waits that could never end", function()
  it("are refused: a handle in the callback in which its message was sent", function()
    local result, late, bobs
    local g
    g = group.new { message = function(_, name, msg)
      if msg.body ~= "first" then return end
      if name == "ann" then
        local handle = g.ann:send("second", { rsvp = "delivery", wait = false })
        result = { handle:wait "1s" }
        neap.spawn(function() late = { handle:wait "1s" } end)
      elseif name == "bob" then
        local handle = g.bob:send("third", { rsvp = "delivery", wait = false, timeout = 0 })
        bobs = { handle:wait() }
      end
    end }
    g.ann:send "first"
    g.sim:run "2s"
    assert.same({ nil, "refused", "would wait for itself; use neap.spawn or wait = false" }, result)
    assert.is_true(late[1])
    assert.equal("refused", bobs[2])
    assert.matches("two members could wait for each other", bobs[3])
  end)

  it("are not those for a message that was sent before", function()
    local result
    local g
    g = group.new { message = function(_, name, msg)
      if name ~= "ann" or msg.body ~= "after" then return end
      result = { g.handle:wait "1s" }
    end }
    g.handle = g.ann:send("before", { rsvp = "delivery", wait = false })
    g.ann:send "after"
    g.sim:run "2s"
    assert.is_true(result[1])
  end)
end)

describe("flush_sent", function()
  it("covers what was sent to one member as well", function()
    group.each_seed(20, function(seed)
      local mode = seed % 2 == 0 and "ack" or "nak"
      local g = group.new { seed = seed, loss = 0.2, reorder = 0.1,
        with = { nakack = { retransmission = mode }, unicast = { retransmission = mode } } }
      local seen
      g:call(function()
        for n = 1, 20 do
          g.ann:send(tostring(n), { to = n % 3 == 0 and "cho" or nil })
        end
        assert(g.ann:flush_sent { timeout = "60s" })
        neap.sleep "1ms" -- In the buffer with all before it, so the callbacks come.
        seen = #g.bodies.cho
      end)
      assert.equal(20, seen)
      g.sim:close()
    end)
  end)

  it("ends in time when there is no room, and names who is missing", function()
    local g = group.new { with = { fd_all = PATIENT, nakack = { window_bytes = "20KB" } } }
    g.sim:pause "cho"
    g.sim:spawn(function() for _ = 1, 100 do g.ann:send(("x"):rep(1000)) end end)
    g.sim:run "100ms"
    local took, ok, code, detail = timed(g, function()
      return g.ann:flush_sent { timeout = "500ms" }
    end)
    assert.is_nil(ok)
    assert.equal("timeout", code)
    assert.equal(500, took)
    assert.is_truthy(table.concat(detail.missing, " "):find "cho")
  end)

  it("is refused while a member could not answer it, and says so", function()
    local g = group.new {}
    foreign(g, "ann", "cho")
    g.ann:send "x"
    local ok, code, detail = g:call(function() return g.ann:flush_sent() end)
    assert.is_nil(ok)
    assert.equal("refused", code)
    assert.matches("not Neap's", detail)
    assert.is_true((g:call(function() return g.ann:flush_sent { to = "bob" } end)))
  end)

  it("comes before leave: what was sent arrives though its first copy was lost", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, with = { gms = { leave_timeout = "1s" },
        nakack = { retransmission = seed % 2 == 0 and "ack" or "nak" } } }
      for _, body in ipairs { "all", "one" } do
        g.sim:drop { from = "bob", to = "cho", body = body, times = 1 }
      end
      g:call(function()
        g.bob:send "all"
        g.bob:send("one", { to = "cho" })
        assert(g.bob:leave())
      end)
      g.sim:run "1s"
      local got = { unpack(g.bodies.cho) }
      table.sort(got)
      assert.same({ "all", "one" }, got)
      g.sim:close()
    end)
  end)

  it("never makes leave longer than it may be", function()
    local g = group.new { with = { fd_all = PATIENT, nakack = { window_bytes = "20KB" },
      gms = { leave_timeout = "1s" } } }
    g.sim:pause "cho"
    g.sim:spawn(function() for _ = 1, 100 do g.ann:send(("x"):rep(1000)) end end)
    g.sim:run "100ms"
    local took = timed(g, function() return g.ann:leave() end)
    assert(took <= 2000, took) -- A leave_timeout for each of the two.
  end)
end)
