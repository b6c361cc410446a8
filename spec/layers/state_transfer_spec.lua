-- state_transfer: what a joiner has is what everybody has, whatever goes on meanwhile.

local build = require "support.build"
local counters = require "support.counters"
local neap = require "neap"

local ALL = { "ann", "bob", "cho" }

-- Two members talk, a third comes and takes the state in the middle of it.
local function story(options)
  local c = counters.new(options)
  c:talk("ann", 20, "2ms")
  c:talk("bob", 20, "3ms")
  c.sim:run "20ms"
  c:join "cho"
  c.sim:run "1s"
  c:talk("ann", 60, "2ms")
  c:talk("bob", 60, "3ms")
  if options.chatty then c:talk("cho", 60, "2ms") end
  c.sim:run "50ms"
  local result = c:get("cho", { timeout = "30s" })
  c:calm "25s"
  return c, result
end

local function each_mode(f)
  for _, mode in ipairs { "applied", "barrier" } do f(mode) end
end

describe("state_transfer", function()
  each_mode(function(mode)
    it("gives a joiner the state, and each message counts once, mode " .. mode, function()
      counters.each_seed(20, function(seed)
        local c, result = story { seed = seed, chatty = seed % 2 == 0,
          with = { state_transfer = { mode = mode } } }
        assert(result.ok, result.code)
        assert.equal("ann", result.from)
        c:check(ALL)
        assert.equal(0, c.replayed)
      end)
    end)

    it("sets streams back at a member that is ahead of the giver, mode " .. mode, function()
      local again = 0
      counters.each_seed(20, function(seed)
        local c = counters.new { seed = seed, names = ALL, naps = { ann = "5ms" },
          faults = { loss = 0.05 }, with = { state_transfer = { mode = mode } } }
        for _, name in ipairs(ALL) do c:talk(name, 60, "3ms") end
        c.sim:run "100ms"
        local result = c:get("cho", { timeout = "30s" })
        c:calm()
        assert(result.ok, result.code)
        c:check(ALL)
        again = again + tonumber(c.members.cho.barrier.again) +
          tonumber(c.members.cho.nakack.repaired)
      end)
      assert(again > 0)
    end)

    it("serves two at once, one after the other, mode " .. mode, function()
      counters.each_seed(20, function(seed)
        local c = counters.new { seed = seed, names = { "ann", "bob", "cho", "dee" },
          filler = 50000, waits = "5ms", with = { state_transfer = { mode = mode } } }
        c:talk("ann", 80, "3ms")
        c:talk("bob", 80, "3ms")
        c.sim:run "50ms"
        local first, second = c:get("cho", { timeout = "30s" }), c:get("dee", { timeout = "30s" })
        c.sim:run "10ms"
        assert.equal(1, tonumber(c.members.ann.state_transfer.queued))
        c:calm()
        assert(first.ok and second.ok)
        assert(first.at < second.at)
        c:check { "ann", "bob", "cho", "dee" }
      end)
    end)
  end)

  it("does so while one packet in ten is lost, in either way of repair", function()
    counters.each_seed(20, function(seed)
      local c, result = story { seed = seed, chatty = true, faults = { loss = 0.1, jitter = "2ms" },
        with = { nakack = { retransmission = seed % 2 == 0 and "nak" or "ack" } } }
      assert(result.ok, result.code)
      c:check(ALL)
    end)
  end)

  it("takes the mode of the taker, which can be set while it runs", function()
    local c = counters.new { names = ALL, with = { state_transfer = { mode = "applied" } } }
    c.members.cho.state_transfer.mode = "barrier"
    local result = c:get("cho", { timeout = "5s" })
    c.sim:run "1s"
    assert(result.ok)
    assert.equal(1, tonumber(c.members.ann.barrier.closings))
    assert.equal(1, tonumber(c.members.cho.barrier.closings))
    c.members.cho.state_transfer.mode = "applied"
    assert(c:get("cho", { timeout = "5s" }))
    c.sim:run "1s"
    assert.equal(1, tonumber(c.members.ann.barrier.closings))
  end)

  it("closes a giver for as long as the callbacks at work, whatever waits behind them", function()
    counters.each_seed(20, function(seed)
      local c = counters.new { seed = seed, names = ALL, naps = { ann = "40ms" },
        with = { state_transfer = { mode = "barrier", close_timeout = "500ms" } } }
      c:talk("bob", 100, "1ms")
      c:talk("cho", 100, "1ms")
      c.sim:run "215ms"
      local backlog = tonumber(c.members.ann.check_state.busy)
      assert(backlog > 100, backlog)
      local result = c:get("cho", { from = "ann", timeout = "10s" })
      local closed, since = 0, nil
      for _ = 1, 200 do
        c.sim:run "2ms"
        since = c.members.ann.barrier.closed and (since or c.sim:now()) or nil
        if since then closed = math.max(closed, c.sim:now() - since) end
      end
      c:calm "10s"
      assert(result.ok, tostring(result.code) .. " " .. tostring(result.detail))
      assert(closed > 0 and closed < 50e6, ("closed for %d ms"):format(closed / 1e6))
      c:check(ALL)
    end)
  end)

  it("goes on as before at a giver whose callbacks have not returned in time", function()
    for _, naps in ipairs { "300ms", "3s" } do -- Then the taker's word that it gave up is earlier.
      local c = counters.new { names = ALL, naps = { ann = naps }, with = {
        state_transfer = { mode = "barrier", close_timeout = "1s" } } }
      c:talk("bob", 5, "1ms")
      c:talk("cho", 5, "1ms")
      c.sim:run "100ms"
      local result = c:get("cho", { from = "ann", timeout = "500ms" })
      c.sim:run "2s"
      c:calm "1min"
      assert.equal(naps == "300ms", result.ok == true)
      assert.is_false(c.members.ann.barrier.closed)
      assert.equal(0, tonumber(c.members.ann.check_state.busy))
      c:check(ALL)
    end
  end)

  it("lets the application choose from whom, and says who it was", function()
    local c = counters.new { names = ALL }
    local result = c:get("cho", { from = "bob" })
    c.sim:run "1s"
    assert.equal("bob", result.from)
    local problem = c:get("cho", { from = "eve" })
    c.sim:run "1s"
    assert.equal("not a member", problem.code)
  end)

  it("is done at once for who is alone, and for a state from oneself", function()
    local c = counters.new { names = { "ann" } }
    local alone = c:get "ann"
    c.sim:run "10ms"
    local own = c:get("ann", { from = "ann" })
    c.sim:run "10ms"
    assert(alone.ok and own.ok)
    assert.is_nil(c.got.ann)
  end)

  it("carries large states in bounded memory, and says how far it is", function()
    local c = counters.new { names = ALL, filler = 3000000, waits = "1ms" }
    local steps, most, last = 0, 0, 0
    c.sim:spawn(function()
      assert(c.members.cho:get_state { progress = function(done, total)
        steps, last = steps + 1, done
        assert(total == 0 or done <= total)
      end })
      c.finished = true
    end)
    while not c.finished do
      c.sim:run "10ms"
      local ahead = tonumber(c.members.ann.state_transfer.bytes_out) - last
      most = math.max(most, ahead)
    end
    assert(steps > 180 and last > 3000000)
    assert(most <= 256000, ("%d bytes were under way"):format(most))
    assert.equal(1, c.got.cho)
  end)

  it("waits for an application that takes its time", function()
    local c = counters.new { names = ALL, filler = 500000 }
    local chunks = 0
    c.members.cho:on("state", { chunk = function()
      chunks = chunks + 1
      neap.sleep "20ms"
    end })
    local result = c:get("cho", { timeout = "1min" })
    c.sim:run "200ms"
    assert(tonumber(c.members.ann.state_transfer.bytes_out) <= 256000 + chunks * 16000)
    c.sim:run "10s"
    assert(result.ok)
    assert.equal(32, chunks)
  end)
end)

describe("what waits for a state", function()
  it("makes senders wait when it is too much, and all of it comes", function()
    counters.each_seed(6, function(seed)
      local c = counters.new { seed = seed, names = ALL, filler = 400000, waits = "100ms",
        with = { state_transfer = { hold_bytes = "2kB" },
          nakack = { window_bytes = "10kB", retransmission = seed % 2 == 0 and "ack" or "nak" },
          stable = { interval = "200ms", max_bytes = "2kB" } } }
      local result = c:get("cho", { timeout = "1min" })
      c.sim:run "50ms"
      c:talk("bob", 3000, "0ms")
      c.sim:run "500ms"
      local held = c.members.cho.state_transfer.held.bytes
      assert(held > 2000ULL and held < 20000ULL, tostring(held))
      assert(c.sent.bob < 2500, "bob was not held back")
      c:calm "3s"
      assert(result.ok)
      assert.equal(1, tonumber(c.members.cho.state_transfer.pushed_back))
      assert.equal(3000, c.sent.bob)
      c:check(ALL)
    end)
  end)

  it("lets unicasts pass", function()
    local c = counters.new { names = ALL, filler = 500000, waits = "50ms" }
    local got
    c.members.cho:on("message", function(msg) got = msg.body end)
    c:get("cho", { timeout = "1min" })
    c.sim:run "100ms"
    c.members.bob:send "later"
    c.members.bob:send("now", { to = "cho" })
    c.sim:run "50ms"
    assert.equal("now", got)
    c.sim:run "10s"
    assert.equal("later", got)
  end)
end)

describe("a state that does not come", function()
  local function after(c, name, options, meanwhile)
    local result = c:get(name, options)
    c.sim:run "20ms"
    if meanwhile then meanwhile() end
    c:calm()
    return result
  end

  it("is refused by who has none to give, with the reason", function()
    local c = counters.new { names = ALL }
    c.members.ann:on("state_request", nil)
    local result = after(c, "cho", { from = "ann" })
    assert.equal("refused", result.code)
    assert.matches("no handler", result.detail)
  end)

  it("is refused when the handler fails, and the error is told there", function()
    local c = counters.new { names = ALL }
    local told
    c.members.ann:on("error", function(text) told = text end)
    c.members.ann:on("state_request", function() error "no state today" end)
    local result = after(c, "cho", { from = "ann" })
    assert.equal("refused", result.code)
    assert.matches("no state today", told)
    c:check(ALL)
  end)

  it("is refused in mode barrier where a stack has none, at either side", function()
    local path = build.write("no_barrier.lua",
      'return extend("spec/support/checked_state.lua", { "No barrier.", remove "barrier" })')
    for _, side in ipairs { "ann", "cho" } do
      local c = counters.new { names = ALL, with = { state_transfer = { mode = "barrier" } },
        stacks = { [side] = path } }
      c:talk("bob", 50, "2ms")
      local result = after(c, "cho", { from = "ann" })
      assert.equal("refused", result.code)
      assert.matches("no layer that closes", result.detail)
      c:check(ALL)
    end
  end)

  it("is asked of another when one says no, and refused when all do", function()
    for _, mode in ipairs { "applied", "barrier" } do
      counters.each_seed(20, function(seed)
        local c = counters.new { seed = seed, names = { "ann", "bob", "cho", "dee" },
          with = { state_transfer = { mode = mode } } }
        for _, name in ipairs { "ann", "bob", "dee" } do c:talk(name, 40, "3ms") end
        c.members.ann:on("state_request", nil)
        c.members.bob:on("error", function() end)
        c.members.bob:on("state_request", function(out)
          out:write "the beginning of one"
          error "no more of it"
        end)
        local result = after(c, "dee", { timeout = "10s" })
        assert(result.ok, result.code)
        assert.equal("cho", result.from)
        assert.equal(2, tonumber(c.members.dee.state_transfer.restarts))
        c.members.cho:on("state_request", nil)
        result = after(c, "dee", { timeout = "10s" })
        assert.equal("refused", result.code)
        assert.equal(6, tonumber(c.members.dee.state_transfer.asked))
        c:check { "ann", "bob", "cho", "dee" }
      end)
    end
  end)

  it("is asked of a third where two want it of each other", function()
    counters.each_seed(20, function(seed)
      local c = counters.new { seed = seed, names = ALL, filler = 100000, waits = "5ms" }
      c:talk("cho", 40, "3ms")
      local first, second = c:get("ann", { timeout = "10s" }), c:get("bob", { timeout = "10s" })
      c:calm()
      assert(first.ok and second.ok, tostring(first.code or second.code))
      c:check(ALL)
      assert.equal("cho", first.from)
      assert.equal("cho", second.from)
    end)
  end)

  it("is refused by a member that waits for one itself", function()
    local c = counters.new { names = ALL, filler = 500000, waits = "20ms" }
    c:get("bob", { from = "ann", timeout = "10s" })
    c.sim:run "50ms"
    local result = after(c, "cho", { from = "bob" })
    assert.equal("refused", result.code)
    assert.matches("waits for a state", result.detail)
  end)

  it("times out, and everything goes on as if nobody had asked", function()
    for _, mode in ipairs { "applied", "barrier" } do
      counters.each_seed(20, function(seed)
        local c = counters.new { seed = seed, names = ALL, filler = 500000, waits = "50ms",
          naps = { ann = "4ms" }, with = { state_transfer = { mode = mode } } }
        for _, name in ipairs(ALL) do c:talk(name, 40, "5ms") end
        c.sim:run "60ms"
        local result = c:get("cho", { timeout = "300ms" })
        c:calm()
        assert.equal("timeout", result.code)
        assert.is_nil(c.got.cho)
        c:check(ALL)
        assert.is_false(c.members.ann.state_transfer.giving)
        assert.is_false(c.members.cho.state_transfer.fetching)
        assert.equal(0, tonumber(c.members.ann.nakack.holds))
      end)
    end
  end)

  -- Where a stream that was set back goes on after an abort, nakack_await_over skips what had only
  -- risen: the first pieces of a long message, dropped by frag when it was set back, are lost.
  pending("takes nothing of a long message of which the taker has a part", function()
    counters.each_seed(10, function(seed)
      local c = counters.new { seed = seed, names = ALL, filler = 100000, waits = "50ms",
        with = { frag = { frag_size = "1KB" } }, faults = { loss = 0.1 } }
      c.sim:spawn(function()
        for _ = 1, 20 do
          c.members.bob:send(("x"):rep(40000))
          neap.sleep "3ms"
        end
      end)
      for _ = 1, 10 do
        c.sim:run "10ms"
        c:get("cho", { from = "ann", timeout = "9ms" })
      end
      c:calm()
      assert(c.aborts > 0)
      c:check(ALL)
    end)
  end)

  it("is void when it is not stored in time, and asked for again", function()
    counters.each_seed(20, function(seed)
      local c = counters.new { seed = seed, names = ALL, naps = { ann = "3ms" }, filler = 100000,
        with = { state_transfer = { hold_timeout = "200ms" }, fd_all = { timeout = "60s" } } }
      for _, name in ipairs(ALL) do c:talk(name, 60, "3ms") end
      c.sim:run "100ms"
      c.sim:cut { from = "bob", to = "cho" } -- What has to come again from bob does not.
      local result = c:get("cho", { timeout = "1min" })
      c.sim:run "2s"
      c.sim:heal()
      c:calm()
      assert(result.ok, result.code)
      c:check(ALL)
    end)
  end)

  it("is not taken before all is here that was ever reported: who promised it may die", function()
    counters.each_seed(20, function(seed)
      local c = counters.new { seed = seed, names = ALL, naps = { ann = "4ms" },
        with = { nakack = { retransmission = "ack" },
          fd_all = { timeout = "600ms", interval = "100ms" },
          verify_suspect = { timeout = "200ms" } } }
      c:talk("bob", 150, "2ms")
      c.sim:run "100ms"
      -- What has to come again from bob does not, as long as ann lives.
      local rule = c.sim:drop { from = "bob", to = "cho", layer = "nakack", type = "xmit_rsp" }
      local result = c:get("cho", { timeout = "1min" })
      c.sim:run "100ms"
      c.sim:kill "ann"
      c.sim:run "2s"
      c.sim:clear(rule)
      c:calm "10s"
      assert(result.ok, result.code)
      assert.equal("bob", result.from)
      c:check { "bob", "cho" }
    end)
  end)

  it("is given up when who wanted it leaves, also in the queue", function()
    local c = counters.new { names = { "ann", "bob", "cho", "dee" }, filler = 500000,
      waits = "300ms" }
    c:get "bob"
    c:get "cho"
    local result = c:get("dee", { timeout = "1min" })
    c.sim:run "50ms"
    assert.equal(2, tonumber(c.members.ann.state_transfer.queued))
    c.members.cho:leave { wait = false }
    c.sim:run "1500ms"
    assert.equal(1, tonumber(c.members.ann.state_transfer.queued))
    c.members.bob:leave { wait = false }
    c:calm()
    assert(result.ok)
    c:check { "ann", "dee" }
    assert.equal(0, tonumber(c.members.ann.nakack.holds))
  end)

  it("is waited for while the giver is paused", function()
    local c = counters.new { names = ALL, filler = 500000, waits = "5ms" }
    c:talk("bob", 100, "3ms")
    local result = after(c, "cho", { timeout = "1min" }, function()
      c.sim:pause "ann"
      c.sim:run "3s"
      c.sim:resume "ann"
    end)
    assert(result.ok)
    c:check(ALL)
  end)

  it("is refused where it could never come", function()
    local c = counters.new { names = ALL }
    local code, detail
    c.members.cho:on("message", function()
      local _
      _, code, detail = c.members.cho:get_state()
    end)
    c.members.ann:send "x"
    c.sim:run "100ms"
    assert.equal("refused", code)
    assert.matches("its own callback", detail)
    c.members.cho:on("state", nil)
    local result = after(c, "cho")
    assert.equal("refused", result.code)
    assert.matches("no handler", result.detail)
  end)
end)
