-- nakack, mode: a toggle between nak and ack in the stream, under load, lost, and not followed.

local group = require "support.group"
local neap = require "neap"

local MS = 1e6

local function new(options)
  local g = group.new(options or {})
  g.sim:run "1s"
  return g
end

local function nakack(g, name) return g[name].stack.nakack end

-- Sets ann's mode; returns how long that took in milliseconds and what it returned.
local function toggle(g, name, mode)
  local started, ended, ok, code, detail
  g:call(function()
    started = neap.now()
    ok, code, detail = g[name].stack:set { nakack = { retransmission = mode } }
    ended = neap.now()
  end)
  return (ended - started) / MS, ok, code, detail
end

describe("a toggle", function()
  for _, mode in ipairs { "ack", "nak" } do
    it(("to %s returns when all have followed, one round trip later"):format(mode), function()
      local other = mode == "ack" and "nak" or "ack"
      local g = new { with = { nakack = { retransmission = other } } }
      local took, ok = toggle(g, "ann", mode)
      assert.is_true(ok)
      assert.equal(2, took)
      assert.equal(0, nakack(g, "ann").mode_pending)
      assert(nakack(g, "bob"):windows():find("ann [^\n]*mode=" .. mode))
      assert(nakack(g, "bob"):windows():find("bob [^\n]*mode=" .. other))
      assert.equal(mode, tostring(nakack(g, "ann").retransmission))
    end)
  end

  it("to nak is refused where nobody finds out what all have (rule 13)", function()
    local off = { interval = 0, max_bytes = 0 }
    local g = new { with = { nakack = { retransmission = "ack" }, stable = off } }
    local _, ok, code, detail = toggle(g, "ann", "nak")
    assert.same({ nil, "refused" }, { ok, code })
    assert(detail:find("nakack hears 'stable'", 1, true), detail)
    assert(detail:find("bob takes no part in stability rounds", 1, true), detail)
    assert.equal("ack", nakack(g, "ann").retransmission)
    assert.is_true(g.ann.stack:set { nakack = { retransmission = "nak", force = true } })
    assert.has_error(function() g.ann.stack.nakack.force = false end)
    assert.is_true(g.bob.stack:set {
      nakack = { retransmission = "nak", resend_last_seqno_max_times = 0 },
    })
    assert.has_error(function() g.bob.stack.nakack.resend_last_seqno_max_times = 2 end)
    g = new()
    _, code = g.ann.stack:set { stable = off }
    assert.equal("refused", code)
    assert(g.ann.stack:set { stable = off, nakack = { retransmission = "ack" } })
  end)

  it("to nak is refused while one member takes no part in stability rounds (rule 13)", function()
    local g = new { names = { "ann", "bob" }, with = { nakack = { retransmission = "ack" } } }
    g:join("cho", { with = {
      nakack = { retransmission = "ack" }, stable = { interval = 0, max_bytes = 0 },
    } })
    g.sim:run "3s"
    g.ann:send "1"
    g.sim:run "1s"
    local _, ok, code, detail = toggle(g, "ann", "nak")
    assert.same({ nil, "refused" }, { ok, code })
    assert(detail:find("cho takes no part", 1, true) and not detail:find("bob", 1, true), detail)
    g.cho.stack.stable.interval = "1s"
    g.sim:run "1s"
    g.ann:send "2"
    g.sim:drop { from = "cho", to = "ann", layer = "nakack", type = "ack", times = 1 }
    g.sim:run "1s"
    assert.is_true(select(2, toggle(g, "ann", "nak")))
  end)

  it("to nak without stable rounds frees all the same when reports are wanted", function()
    local g = new { with = {
      nakack = { resend_last_seqno_max_times = 0, window_bytes = "64KB" },
      stable = { interval = 0, max_bytes = 0 },
    } }
    g:call(function()
      for _ = 1, 40 do assert(g.ann:send(("x"):rep(10000))) end
    end)
    g.sim:settle()
    assert.equal(40, #g.bodies.cho)
    assert.equal(0, nakack(g, "ann").window_stored)
  end)

  it("to what is set already returns at once", function()
    local g = new()
    local took, ok = toggle(g, "ann", "nak")
    assert.is_true(ok)
    assert.equal(0, took)
    assert.equal(0, nakack(g, "ann").toggles)
  end)

  it("loses, repeats and reorders nothing under load, in either direction", function()
    group.each_seed(20, function(seed)
      local g = new {
        seed = seed, loss = seed % 4 * 0.06, reorder = seed % 3 * 0.1, jitter = "1ms",
        with = { nakack = { window_bytes = seed % 2 == 0 and "4KB" or "auto" } },
        message = function(g, name, msg)
          if msg.from == "ann" then table.insert(g.bodies[name], msg.body) end
        end,
      }
      local sets, failed = 0, 0
      g.sim:spawn(function()
        for i = 1, 600 do
          assert(g.ann:send(tostring(i)))
          if i % 4 == 0 then neap.sleep "1ms" end
        end
      end)
      g.sim:spawn(function()
        for i = 1, 12 do
          local ok = g.ann.stack:set { nakack = { retransmission = i % 2 == 1 and "ack" or "nak" } }
          sets = sets + 1
          if not ok then failed = failed + 1 end
          neap.sleep "10ms"
        end
      end)
      g.sim:run "10s"
      g:calm()
      assert.equal(12, sets)
      assert.equal(0, failed)
      for _, name in ipairs(g.names) do assert.equal(group.counted(600), g:got(name)) end
      assert.equal(12, nakack(g, "ann").toggles)
      assert.equal(12, nakack(g, "bob").toggles_followed)
      g.sim:close()
    end)
  end)

  it("that is lost is repaired like any message", function()
    local g = new()
    g.sim:drop { from = "ann", to = "bob", layer = "nakack", epoch = 1, times = 2 }
    local took, ok = toggle(g, "ann", "ack")
    assert.is_true(ok)
    assert(took < 50, took)
  end)

  it("that somebody cannot follow in time says who, and holds all the same", function()
    local g = new { with = { nakack = { mode_timeout = "300ms" } } }
    g.sim:pause "cho"
    local took, ok, code, detail = toggle(g, "ann", "ack")
    assert.is_nil(ok)
    assert.equal("timeout", code)
    assert.same({ "cho" }, detail.missing)
    assert.equal(300, took)
    assert.equal(1, nakack(g, "ann").mode_pending)
    assert.equal("ack", tostring(nakack(g, "ann").retransmission))
    g.sim:resume "cho"
    g.sim:settle()
    assert.equal(0, nakack(g, "ann").mode_pending)
  end)

  it("is settled when whoever did not follow is out of the view", function()
    local g = new { with = { nakack = { mode_timeout = "60s" }, fd_all = { timeout = "3s" } } }
    g.sim:kill "cho"
    local took, ok = toggle(g, "ann", "ack")
    assert.is_true(ok)
    assert(took > 1000 and took < 15000, took)
  end)

  it("waits for the newest when several follow each other", function()
    local g = new()
    local done = {}
    for i = 1, 4 do
      g.sim:spawn(function()
        done[i] = g.ann.stack:set { nakack = { retransmission = i % 2 == 1 and "ack" or "nak" } }
      end)
    end
    g.sim:run "10ms"
    assert.same({ true, true, true, true }, done)
    assert.equal(4, nakack(g, "ann").toggles)
    assert(nakack(g, "bob"):windows():find "ann [^\n]*mode=nak epoch=4")
  end)

  it("by assignment returns at once, and mode_pending tells who follows", function()
    local g = new()
    nakack(g, "ann").retransmission = "ack"
    assert.equal(2, nakack(g, "ann").mode_pending)
    g.sim:run "3ms"
    assert.equal(0, nakack(g, "ann").mode_pending)
  end)

  it("is reported when it is applied, not when it is consumed", function()
    local slow = true
    local g = new { message = function(_, name)
      while slow and name == "cho" do neap.sleep "10ms" end
    end }
    g.ann:send "held"
    g.sim:run "10ms"
    nakack(g, "ann").retransmission = "ack"
    g.sim:run "500ms"
    assert.equal(1, nakack(g, "ann").mode_pending)
    slow = false
    g.sim:run "20ms"
    assert.equal(0, nakack(g, "ann").mode_pending)
  end)

  it("moves the acks and the votes", function()
    local g = new()
    local function acks(f)
      local before = nakack(g, "bob").acks_sent
      f()
      return nakack(g, "bob").acks_sent - before
    end
    local function load()
      for i = 1, 100 do
        g.ann:send(tostring(i))
        g.sim:run "2ms"
      end
    end
    assert.equal(0, acks(load))
    assert(nakack(g, "ann").window_stored >= 100)
    nakack(g, "ann").retransmission = "ack"
    g.sim:settle()
    assert.equal(0, nakack(g, "ann").window_stored)
    assert(acks(load) >= 20)
    g.sim:settle()
    assert.equal(0, nakack(g, "ann").window_stored)
    nakack(g, "ann").retransmission = "nak"
    g.sim:settle()
    assert.equal(0, acks(load))
  end)
end)

describe("toggles that a digest has told already", function()
  it("change nothing when they arrive", function()
    for _, first in ipairs { "nak", "ack" } do
      local other = first == "nak" and "ack" or "nak"
      local slow = true
      local g = new { with = { nakack = { retransmission = first } }, message = function(_, name)
        while slow and name == "ann" do neap.sleep "10ms" end
      end }
      g.ann:send "held" -- ann has not applied it, so her digest begins before it.
      g.sim:run "10ms"
      nakack(g, "ann").retransmission = other
      nakack(g, "ann").retransmission = first
      g:join("dee", { with = { nakack = { retransmission = first } } })
      g.sim:run "2s"
      assert.equal("held", g:got "dee")
      assert.equal(0, nakack(g, "dee").toggles_followed)
      assert(nakack(g, "dee"):windows():find("ann [^\n]*mode=" .. first))
      slow = false
      g.sim:run "1s"
      assert.equal(0, nakack(g, "ann").mode_pending)
    end
  end)
end)

describe("a member that begins in ack mode", function()
  it("says so first, and joiners learn it by digest", function()
    local g = new { with = { nakack = { retransmission = "ack" } } }
    assert(nakack(g, "cho"):windows():find "ann [^\n]*mode=ack epoch=1")
    assert(nakack(g, "ann"):windows():find "cho [^\n]*mode=ack epoch=1")
    assert.equal(0, nakack(g, "ann").toggles)
  end)

  it("is silent once all have reported", function()
    local g = new { with = { nakack = { retransmission = "ack" } } }
    for i = 1, 50 do g.bob:send(tostring(i)) end
    g.sim:settle()
    local before = {}
    for _, name in ipairs(g.names) do
      before[name] = nakack(g, name).acks_sent + nakack(g, name).announcements_sent
    end
    g.sim:run "120s"
    for _, name in ipairs(g.names) do
      local now = nakack(g, name).acks_sent + nakack(g, name).announcements_sent
      assert.equal(before[name], now)
    end
  end)
end)
