-- unicast, sync: a receiver that lost its table finds its place again, by timestamps or by a
-- handshake.  What holds for both is asked of both.

local group = require "support.group"
local random = require "support.random"
local talk = require "support.talk"

local pair, say, nothing_left, until_got = talk.pair, talk.say, talk.nothing_left, talk.until_got
local COUNTED = group.counted(10)
local KINDS = { "timestamp", "handshake" }

local function new(kind, options)
  options = options or {}
  options.with = options.with or {}
  options.with.unicast = options.with.unicast or {}
  options.with.unicast.sync = kind
  local g = pair(options)
  g.sim:settle()
  return g
end

local function unicast(g, name) return g[name].stack.unicast end

-- Questions that bob has asked, of either kind.
local function asked(g)
  return unicast(g, "bob").firsts_sent + unicast(g, "bob").syncs_sent
end

local function conn_of(g, name, way)
  local peer = name == "ann" and "bob" or "ann"
  local line = ("\n" .. unicast(g, name):windows()):match("\n(" .. peer .. " [^\n]*)")
  return tonumber(line:match(way .. "=(%d+)"))
end

-- What came, each thing when it first came.
local function first_of_each(list)
  local seen, firsts = {}, {}
  for _, body in ipairs(list) do
    if not seen[body] then table.insert(firsts, body) end
    seen[body] = true
  end
  return table.concat(firsts, " ")
end

for _, kind in ipairs(KINDS) do
  local question = kind == "timestamp" and "send_first" or "sync"

  describe("a table that is lost, by " .. kind .. ",", function()
    it("is in step again one round trip after the question, and one message goes again", function()
      local g = new(kind)
      say(g, "ann", "bob", 1, 3)
      g.sim:settle()
      g.bodies.bob = {}
      g.bob:on("message", function(msg) table.insert(g.bodies.bob, msg.body) end)
      unicast(g, "bob"):forget "ann"
      local xmits = unicast(g, "ann").xmits
      say(g, "ann", "bob", 1, 10)
      assert.is_true(until_got(g, "bob", 10) <= 4.25) -- There, gap_delay, there and back.
      assert.equal(COUNTED, g:got "bob")
      g.sim:settle()
      assert.equal(1, asked(g))
      assert.is_true(unicast(g, "ann").xmits - xmits <= 1)
      nothing_left(g)
    end)

    it("is asked for even if nothing that comes early is kept", function()
      group.each_seed(20, function(seed)
        local g = new(kind, { seed = seed, loss = 0.1, with = { unicast = { early_max = 0 } } })
        say(g, "ann", "bob", 1, 3)
        g.sim:settle()
        g.bodies.bob = {}
        g.bob:on("message", function(msg) table.insert(g.bodies.bob, msg.body) end)
        unicast(g, "bob"):forget "ann"
        say(g, "ann", "bob", 1, 10)
        g.sim:settle()
        assert.equal(COUNTED, g:got "bob")
        nothing_left(g)
        g.sim:close()
      end)
    end)

    it("asks once per interval, whatever comes, and each question moves one message",
      group.modes(function()
      local g = new(kind, { with = { unicast = { sync_min_interval = "500ms" } } })
      say(g, "ann", "bob", 1, 3)
      g.sim:settle()
      unicast(g, "bob"):forget "ann"
      local rule = g.sim:drop { from = "bob", to = "ann", layer = "unicast", type = question }
      for i = 1, 1000 do
        g.ann:send(tostring(i), { to = "bob" })
        if i % 100 == 0 then g.sim:run "190ms" end
      end
      g.sim:run "50ms"
      assert.equal(4, asked(g)) -- At 0, 0.5, 1 and 1.5 s.
      assert.equal(64, unicast(g, "bob").early)
      assert.equal(0, unicast(g, "ann").xmits)
      g.sim:clear(rule)
      g.sim:settle()
      g.sim:run "1s"
      assert.equal(5, asked(g))
      assert.is_true(#g.bodies.bob >= 1003)
      nothing_left(g)
    end))

    it("asks again when question or answer are lost", function()
      for _, lost in ipairs { question, "answer" } do
        local g = new(kind, { with = { unicast = { sync_min_interval = "100ms" } } })
        say(g, "ann", "bob", 1, 3)
        g.sim:settle()
        unicast(g, "bob"):forget "ann"
        if lost == question then
          g.sim:drop { from = "bob", to = "ann", layer = "unicast", type = question, times = 2 }
        elseif kind == "timestamp" then
          g.sim:drop { from = "ann", to = "bob", layer = "unicast", first = true, times = 2 }
        else
          g.sim:drop { from = "ann", to = "bob", layer = "unicast", type = "sync_ok", times = 2 }
        end
        say(g, "ann", "bob", 4, 10)
        assert.is_true(until_got(g, "bob", 10) < 350)
        assert.equal(COUNTED, g:got "bob")
        g.sim:settle()
        nothing_left(g)
      end
    end)

    it("knows that nothing is missing when everything was reported", group.modes(function()
      local g = new(kind)
      say(g, "ann", "bob", 1, 3)
      g.sim:settle()
      unicast(g, "bob"):forget "ann"
      unicast(g, "bob"):sync_now "ann"
      g.sim:run "5ms"
      assert.equal(1, unicast(g, "bob").receivers)
      say(g, "ann", "bob", 4, 10)
      assert.is_true(until_got(g, "bob", 10) <= 1.25) -- No further question.
      assert.equal(COUNTED, g:got "bob")
      g.sim:settle()
      assert.equal(1, asked(g))
      nothing_left(g)
    end))

    it("hears NONE when there is nothing to find, and is quiet", function()
      local g = new(kind, { with = { unicast = { sync_min_interval = "100ms" } } })
      unicast(g, "ann"):expire "bob"
      g.sim:settle()
      unicast(g, "bob"):sync_now "ann"
      g.sim:run "3s"
      assert.equal(1, asked(g))
      say(g, "ann", "bob", 1, 10)
      g.sim:settle()
      assert.equal(COUNTED, g:got "bob")
    end)

    it("may be lost at any moment, forgotten orderly: nothing is lost or comes twice", function()
      group.each_seed(20, function(seed)
        local g = new(kind, { seed = seed, loss = 0.1, reorder = 0.1, duplicate = 0.05,
          with = { unicast = { sync_min_interval = "50ms",
            retransmission = seed % 2 == 0 and "nak" or "ack", stable_interval = "50ms" } } })
        local dice = random.new(seed)
        local sent = 0
        for _ = 1, 30 do
          local many = 1 + dice:below(8)
          for i = sent + 1, sent + many do
            assert(g.ann:send(tostring(i), { to = "bob", oob = dice:below(4) == 0 }))
          end
          sent = sent + many
          g.sim:run(1 + dice:below(30) .. "ms")
          if dice:below(3) == 0 then unicast(g, "bob"):expire "ann" end
          if dice:below(5) == 0 then unicast(g, "ann"):expire "bob" end
          if dice:below(5) == 0 then unicast(g, "bob"):sync_now "ann" end
        end
        g.sim:settle()
        g.sim:run "1s"
        local count = {}
        for _, body in ipairs(g.bodies.bob) do count[body] = (count[body] or 0) + 1 end
        for i = 1, sent do assert.equal(1, count[tostring(i)], i) end
        nothing_left(g)
        g.sim:close()
      end)
    end)

    it("may be torn out at any moment: nothing is lost, what comes again comes in order", function()
      group.each_seed(20, function(seed)
        local g = new(kind, { seed = seed, loss = 0.1, reorder = 0.1,
          with = { unicast = { sync_min_interval = "50ms",
            retransmission = seed % 2 == 0 and "nak" or "ack", stable_interval = "50ms" } } })
        local dice = random.new(seed)
        local sent = 0
        for _ = 1, 30 do
          local many = 1 + dice:below(8)
          say(g, "ann", "bob", sent + 1, sent + many)
          sent = sent + many
          g.sim:run(1 + dice:below(30) .. "ms")
          if dice:below(3) == 0 then unicast(g, "bob"):forget "ann" end
        end
        g.sim:settle()
        g.sim:run "1s"
        assert.equal(group.counted(sent), first_of_each(g.bodies.bob))
        nothing_left(g)
        g.sim:close()
      end)
    end)

    it("does not forget for good what it stored and did not hand up yet", function()
      local g = new(kind)
      local rule = g.sim:drop { from = "ann", to = "bob", layer = "unicast", body = "1" }
      for i = 1, 3 do
        g.ann:send(tostring(i), { to = "bob", oob = i == 2 })
        g.sim:run "1us"
      end
      g.sim:run "10ms"
      assert.equal("2", g:got "bob")
      unicast(g, "bob"):expire "ann"
      g.sim:run "10ms"
      assert.equal(0, unicast(g, "bob").forgotten)
      g.sim:clear(rule)
      g.sim:settle()
      assert.equal(1, unicast(g, "bob").forgotten)
      assert.equal("2 1 3", g:got "bob")
      nothing_left(g)
    end)

    it("is not found by a question from the past", group.modes(function()
      local g = new(kind)
      say(g, "ann", "bob", 1, 3)
      g.sim:settle()
      unicast(g, "bob"):forget "ann"
      g.sim:duplicate { from = "bob", to = "ann", layer = "unicast", type = question,
        by = "50ms", times = 1 }
      say(g, "ann", "bob", 4, 10)
      g.sim:run "20ms"
      local stale, conn = unicast(g, "ann").stale, conn_of(g, "ann", "to")
      g.sim:run "100ms"
      assert.equal(stale + 1, unicast(g, "ann").stale)
      assert.equal(conn, conn_of(g, "ann", "to"))
      assert.equal(COUNTED, g:got "bob")
    end))
  end)
end

describe("a report", function()
  it("of another connection is ignored, however new it is", group.seeds(function()
    local g = new "timestamp"
    unicast(g, "ann"):close "bob"
    g.sim:settle()
    g.sim:delay { from = "bob", to = "ann", layer = "unicast", type = "ack", by = "30ms",
      times = 1 }
    say(g, "ann", "bob", 1, 5)
    g.sim:run "12ms"
    unicast(g, "ann"):close "bob"
    g.sim:cut { from = "ann", to = "bob" }
    say(g, "ann", "bob", 6, 10)
    g.sim:run "40ms" -- It says that 5 are applied, and 5 of the new ones are on their way.
    assert.is_true(unicast(g, "ann").stale > 0)
    assert.is_true(unicast(g, "ann").unacked >= 5)
    g.sim:heal()
    g.sim:settle()
    assert.equal(COUNTED, g:got "bob")
    nothing_left(g)
  end))
end)

describe("a timestamp", function()
  it("counts once: a copy of a report, or a late one, frees nothing", group.seeds(function()
    local g = new "timestamp"
    g.sim:duplicate { from = "bob", to = "ann", layer = "unicast", type = "ack", by = "10ms",
      times = 1 }
    say(g, "ann", "bob", 1, 3)
    g.sim:settle()
    g.sim:run "20ms"
    assert.equal(1, unicast(g, "ann").stale)
    -- Two reports that change places.
    g.sim:delay { from = "bob", to = "ann", layer = "unicast", type = "ack", by = "50ms",
      times = 1 }
    say(g, "ann", "bob", 4, 5)
    g.sim:run "10ms"
    say(g, "ann", "bob", 6, 10)
    g.sim:settle()
    g.sim:run "60ms"
    assert.equal(2, unicast(g, "ann").stale)
    nothing_left(g)
  end))

  it("wraps", group.seeds(function()
    local g = new("timestamp", { with = { unicast = { first_stamp = 4294967290 } } })
    for i = 1, 10 do
      say(g, "ann", "bob", i, i)
      g.sim:run "20ms"
    end
    assert.equal(COUNTED, g:got "bob")
    assert.equal(0, unicast(g, "ann").stale)
    nothing_left(g)
  end))

  it("belongs to one life of a member: who comes back is believed at once", group.seeds(function()
    local g = pair { with = { fd_all = { timeout = "2s", interval = "500ms" } } }
    for i = 1, 20 do
      say(g, "ann", "bob", i, i)
      g.sim:run "20ms"
    end
    g.sim:kill "bob"
    g.sim:run "10s"
    g:join "bob"
    g.sim:run "5s"
    assert.equal(2, #g.bob:view().members)
    say(g, "ann", "bob", 1, 10)
    say(g, "bob", "ann", 1, 10)
    g.sim:settle()
    assert.equal(COUNTED, g:got "bob")
    assert.equal(COUNTED, g:got "ann")
    assert.equal(0, unicast(g, "ann").stale)
    nothing_left(g)
  end))
end)

describe("a handshake", function()
  it("gives the window one new id, however often it is asked and answered", function()
    local g = new("handshake", { with = { unicast = { sync_min_interval = "30ms" } } })
    say(g, "ann", "bob", 1, 3)
    g.sim:settle()
    local before = conn_of(g, "ann", "to")
    unicast(g, "bob"):forget "ann"
    g.sim:drop { from = "ann", to = "bob", layer = "unicast", type = "sync_ok", times = 6 }
    say(g, "ann", "bob", 4, 10)
    g.sim:settle()
    assert.is_true(unicast(g, "ann").syncs_received >= 2)
    assert.equal(before + 1, conn_of(g, "ann", "to"))
    assert.equal(before + 1, conn_of(g, "bob", "from"))
    assert.equal(COUNTED, g:got "bob")
    nothing_left(g)
  end)

  it("ends without its last word, and is not repeated without end", function()
    local g = new "handshake"
    say(g, "ann", "bob", 1, 3)
    g.sim:settle()
    local rule = g.sim:drop { from = "bob", to = "ann", layer = "unicast", type = "sync_ack" }
    unicast(g, "bob"):sync_now "ann"
    g.sim:settle()
    g.sim:run "10s"
    assert.is_true(g.sim:hits(rule) > 1 and g.sim:hits(rule) < 12, g.sim:hits(rule))
    assert.is_nil(unicast(g, "ann"):windows():find "syncing")
    say(g, "ann", "bob", 4, 10)
    g.sim:settle()
    assert.equal(COUNTED, g:got "bob")
  end)

  it("makes reports of the id before void, whenever they come", group.modes(function()
    local g = new "handshake"
    g.sim:delay { from = "bob", to = "ann", layer = "unicast", type = "ack", by = "40ms",
      times = 1 }
    say(g, "ann", "bob", 1, 10)
    g.sim:run "10ms"
    unicast(g, "bob"):forget "ann"
    local hold = g.sim:drop { from = "ann", to = "bob", layer = "unicast" } -- nor data either
    unicast(g, "bob"):sync_now "ann"
    g.sim:run "20ms"
    local kept = unicast(g, "ann").unacked
    assert.equal(10, kept)
    g.sim:run "20ms"
    assert.equal(kept, unicast(g, "ann").unacked)
    g.sim:clear(hold)
    g.sim:settle()
    assert.equal(COUNTED .. " " .. COUNTED, g:got "bob")
    nothing_left(g)
  end))

  it("keeps position and what is stored where there is an entry, and reports as it asks", function()
    local g = new "handshake"
    local acks = g.sim:drop { from = "bob", to = "ann", layer = "unicast", type = "ack" }
    local gap = g.sim:drop { from = "ann", to = "bob", layer = "unicast", body = "3" }
    for i = 1, 6 do
      g.ann:send(tostring(i), { to = "bob", oob = i == 5 })
      g.sim:run "1us"
    end
    g.sim:run "10ms"
    assert.equal("1 2 5", g:got "bob")
    assert.equal(6, unicast(g, "ann").unacked)
    unicast(g, "bob"):sync_now "ann"
    g.sim:run "4ms"
    assert.equal(4, unicast(g, "ann").unacked) -- 1 and 2 were reported by the question.
    assert.equal(3, unicast(g, "bob").waiting)
    assert.equal(conn_of(g, "ann", "to"), conn_of(g, "bob", "from"))
    g.sim:clear(acks)
    g.sim:clear(gap)
    g.sim:settle()
    assert.equal("1 2 5 3 4 6", g:got "bob")
    nothing_left(g)
  end)

  it("finds a memory of an older id of the same window", function()
    local g = new "handshake"
    say(g, "ann", "bob", 1, 3)
    g.sim:settle()
    local acks = g.sim:drop { from = "bob", to = "ann", layer = "unicast", type = "ack" }
    say(g, "ann", "bob", 4, 6)
    g.sim:run "30ms"
    unicast(g, "bob"):expire "ann"
    -- The window gets another id, and bob hears of it by a first only.
    g.sim:drop { from = "ann", to = "bob", layer = "unicast", type = "sync_ok" }
    unicast(g, "bob"):sync_now "ann"
    g.sim:run "3s"
    g.sim:clear(acks)
    say(g, "ann", "bob", 7, 10)
    g.sim:settle()
    assert.equal(COUNTED, g:got "bob")
    nothing_left(g)
  end)

  it("goes on when ids wrap, and after many of them", group.modes(function()
    for _, times in ipairs { 5, 200 } do
      local g = new("handshake", { with = { unicast = { first_conn = 32766 } } })
      say(g, "ann", "bob", 1, 2)
      for _ = 1, times do
        unicast(g, "bob"):sync_now "ann"
        g.sim:run "3ms"
      end
      say(g, "ann", "bob", 3, 4)
      unicast(g, "ann"):close "bob"
      say(g, "ann", "bob", 5, 10)
      g.sim:settle()
      local got = g:got "bob"
      assert(got == COUNTED or got == "1 2 5 6 7 8 9 10", got) -- 3 and 4 were not reported.
      nothing_left(g)
      g.sim:close()
    end
  end))

  it("gives no more ids to one window than can be told apart", function()
    local g = new "handshake"
    say(g, "ann", "bob", 1, 2)
    g.sim:settle()
    local before = conn_of(g, "ann", "to")
    for _ = 1, 1100 do
      unicast(g, "bob"):sync_now "ann"
      g.sim:run "2ms"
    end
    assert.equal(before + 1024, conn_of(g, "ann", "to"))
    say(g, "ann", "bob", 3, 10)
    g.sim:settle()
    assert.equal(COUNTED, g:got "bob")
    nothing_left(g)
  end)

  it("and timestamps understand each other, and take turns while messages flow", function()
    group.each_seed(20, function(seed)
      local g = new("timestamp", { seed = seed, loss = 0.1, with = { unicast = {
        sync_min_interval = "30ms" } } })
      for i = 1, 20 do
        say(g, "ann", "bob", 5 * i - 4, 5 * i)
        say(g, "bob", "ann", 5 * i - 4, 5 * i)
        g.sim:run "7ms"
        unicast(g, "bob").sync = KINDS[1 + i % 2]
        unicast(g, i % 3 == 0 and "ann" or "bob"):expire(i % 3 == 0 and "bob" or "ann")
      end
      g.sim:settle()
      g.sim:run "1s"
      assert.equal(group.counted(100), g:got "bob")
      assert.equal(group.counted(100), g:got "ann")
      nothing_left(g)
      g.sim:close()
    end)
  end)
end)

describe("a sending half that is lost", function()
  it("is the next connection, and what was not reported is lost aloud", function()
    group.each_seed(20, function(seed)
      local g = new(KINDS[1 + seed % 2], { seed = seed })
      say(g, "ann", "bob", 1, 10)
      g.sim:settle()
      unicast(g, "ann"):lose "bob"
      assert.equal(0, unicast(g, "ann").resets)
      g.sim:cut { from = "ann", to = "bob" }
      say(g, "ann", "bob", 11, 15)
      g.sim:run(seed .. "ms")
      unicast(g, "ann"):lose "bob"
      assert.equal(1, unicast(g, "ann").resets)
      g.sim:heal()
      say(g, "ann", "bob", 16, 20)
      g.sim:settle()
      assert.equal(COUNTED .. " 16 17 18 19 20", g:got "bob")
      nothing_left(g)
      g.sim:close()
    end)
  end)
end)
