-- Connections of unicast: ids, tables that are lost, forgetting and remembering.  Each of these
-- rules stands because something broke without it.

local group = require "support.group"
local neap = require "neap"
local talk = require "support.talk"

local pair, say, nothing_left, until_got = talk.pair, talk.say, talk.nothing_left, talk.until_got
local COUNTED = group.counted(10)

describe("a connection of unicast", function()
  it("is the next one when its sender loses its half, the receiver's, or both", function()
    for _, who in ipairs { { "ann" }, { "bob" }, { "ann", "bob" } } do
      local g = pair()
      say(g, "ann", "bob", 1, 3)
      g.sim:settle()
      for _, name in ipairs(who) do
        g[name].stack.unicast:close(name == "ann" and "bob" or "ann")
      end
      say(g, "ann", "bob", 4, 7)
      g.sim:settle()
      say(g, "ann", "bob", 8, 10)
      g.sim:settle()
      assert.equal(COUNTED, g:got "bob")
      nothing_left(g)
    end
  end)

  it("goes on after ids have wrapped", group.modes(function()
    local g = pair { with = { unicast = { first_conn = 32766 } } }
    for i = 1, 5 do
      g.ann.stack.unicast:close "bob"
      say(g, "ann", "bob", 2 * i - 1, 2 * i)
      g.sim:settle()
    end
    assert.equal(COUNTED, g:got "bob")
    assert.equal(0, g.bob.stack.unicast.stale)
    nothing_left(g)
  end))

  it("that is over delivers nothing any more", function()
    local g = pair()
    g.ann.stack.unicast:close "bob"
    g.sim:settle()
    -- A copy of everything of this life comes a second later.
    local rule = g.sim:duplicate { from = "ann", to = "bob", layer = "unicast", type = "data",
      by = "1s" }
    say(g, "ann", "bob", 1, 3)
    g.sim:run "50ms"
    g.sim:clear(rule)
    g.ann.stack.unicast:close "bob"
    say(g, "ann", "bob", 4, 6)
    g.sim:settle()
    g.sim:run "2s"
    assert.equal("1 2 3 4 5 6", g:got "bob")
    assert.equal(3, g.bob.stack.unicast.stale)
    nothing_left(g)
  end)

  it("does not believe a report from before its receiver lost the table", function()
    local g = pair()
    -- bob applies and reports 1..10, but the report is slow; then it forgets that it did.
    g.sim:delay { from = "bob", to = "ann", layer = "unicast", type = "ack", by = "30ms",
      times = 1 }
    say(g, "ann", "bob", 1, 10)
    g.sim:run "10ms"
    assert.equal(COUNTED, g:got "bob")
    g.bob.stack.unicast:forget "ann"
    -- It asks where ann's window begins before the old report is there; the answer is slow too.
    g.sim:delay { from = "ann", to = "bob", layer = "unicast", type = "data", seqno = 3,
      by = "50ms", times = 1 }
    say(g, "ann", "bob", 11, 15)
    g.sim:run "20ms"
    local unreported = g.ann.stack.unicast.unacked
    g.sim:run "10ms"
    assert.equal(1, g.ann.stack.unicast.stale)
    assert.is_true(g.ann.stack.unicast.unacked >= unreported - 1)
    g.sim:settle()
    -- A receiver that lost table and memory gets what was not reported again, and misses nothing.
    assert.equal(COUNTED .. " " .. group.counted(15), g:got "bob")
    nothing_left(g)
  end)

  it("believes it when it is there first, and is asked nothing it has purged", function()
    local g = pair()
    g.sim:delay { from = "bob", to = "ann", layer = "unicast", type = "ack", by = "20ms",
      times = 1 }
    say(g, "ann", "bob", 1, 10)
    g.sim:run "10ms"
    g.bob.stack.unicast:forget "ann"
    g.sim:delay { from = "bob", to = "ann", layer = "unicast", type = "send_first", by = "50ms",
      times = 1 }
    say(g, "ann", "bob", 11, 15)
    g.sim:settle()
    assert.equal(group.counted(15), g:got "bob")
    assert.equal(1, g.ann.stack.unicast.firsts_answered)
    nothing_left(g)
  end)

  it("asks for its first seqno once per interval, however much comes", group.modes(function()
    local g = pair { with = { unicast = { sync_min_interval = "500ms" } } }
    say(g, "ann", "bob", 1, 3)
    g.sim:settle()
    g.sim:drop { from = "bob", to = "ann", layer = "unicast", type = "send_first" }
    g.bob.stack.unicast:forget "ann"
    for i = 1, 1000 do
      g.ann:send(tostring(i), { to = "bob" })
      if i % 100 == 0 then g.sim:run "190ms" end
    end
    g.sim:run "50ms"
    assert.equal(4, g.bob.stack.unicast.firsts_sent) -- at 0, 0.5, 1 and 1.5 s
    assert.equal(64, g.bob.stack.unicast.early)
    assert.is_true(g.bob.stack.unicast.early_dropped > 0)
    assert.equal(0, g.ann.stack.unicast.firsts_answered)
  end))

  it("is in step again one round trip after the request, with one message resent",
    group.modes(function()
    local g = pair()
    say(g, "ann", "bob", 1, 3)
    g.sim:settle()
    g.bob.stack.unicast:forget "ann"
    g.bodies.bob = {}
    g.bob:on("message", function(msg) table.insert(g.bodies.bob, msg.body) end)
    say(g, "ann", "bob", 1, 10)
    assert.is_true(until_got(g, "bob", 10) <= 4.5)
    assert.equal(COUNTED, g:got "bob")
    assert.equal(1, g.bob.stack.unicast.firsts_sent)
    assert.equal(1, g.ann.stack.unicast.xmits)
    g.sim:settle()
    nothing_left(g)
  end))

  it("is told EMPTY when everything was reported before the table was lost", group.seeds(function()
    local g = pair()
    g.sim:duplicate { from = "ann", to = "bob", layer = "unicast", type = "data", body = "3",
      by = "300ms", times = 1 }
    for i = 1, 3 do
      say(g, "ann", "bob", i, i)
      g.sim:run "1us"
    end
    g.sim:run "50ms"
    assert.equal(0, g.ann.stack.unicast.unacked)
    g.bob.stack.unicast:forget "ann"
    g.sim:run "300ms"
    assert.equal(1, g.ann.stack.unicast.firsts_answered)
    assert.equal(1, g.bob.stack.unicast.receivers)
    say(g, "ann", "bob", 4, 10)
    assert.is_true(until_got(g, "bob", 10) <= 1.25) -- no further question
    assert.equal(COUNTED, g:got "bob")
    g.sim:settle()
    nothing_left(g)
  end))

  it("moves on over what was reported in an earlier life of its table", group.seeds(function()
    local g = pair()
    g.ann.stack.unicast:close "bob"
    g.sim:settle()
    g.sim:duplicate { from = "ann", to = "bob", layer = "unicast", type = "data", seqno = 1,
      by = "300ms", times = 1 }
    for i = 1, 3 do
      say(g, "ann", "bob", i, i)
      g.sim:run "1us"
    end
    g.sim:run "50ms"
    g.bob.stack.unicast:forget "ann"
    g.sim:run "300ms" -- the late copy of the first opens a window that begins too early
    assert.equal("1 2 3 1", g:got "bob")
    say(g, "ann", "bob", 4, 6)
    g.sim:settle()
    assert.equal("1 2 3 1 4 5 6", g:got "bob")
    assert.equal(1, g.bob.stack.unicast.moved)
    assert.is_true(g.bob.stack.unicast.requests_sent <= 2)
    nothing_left(g)
  end))

  it("is over when its sender says so, even if that has to be asked for", function()
    -- rsvp would say it as well, in the next connection.
    local g = pair { stack = neap.stack(function(s)
      return s.extend("lan", { "Without rsvp.", s.remove "rsvp" })
    end) }
    g.sim:drop { from = "ann", to = "bob", layer = "unicast", type = "close", times = 1 }
    g.sim:drop { from = "ann", to = "bob", layer = "unicast", type = "data", body = "2" }
    for i = 1, 3 do
      say(g, "ann", "bob", i, i)
      g.sim:run "1us"
    end
    g.sim:run "500us"
    g.ann.stack.unicast:close "bob"
    g.sim:run "1500us"
    assert.equal(1, g.bob.stack.unicast.waiting) -- 3, behind 2, which nobody has any more
    g.sim:settle()
    assert.equal(0, g.bob.stack.unicast.receivers)
    say(g, "ann", "bob", 4, 5)
    g.sim:settle()
    assert.equal("1 4 5", g:got "bob")
    assert.equal(1, g.ann.stack.unicast.resets)
    nothing_left(g)
  end)

  it("is told NONE when its sender knows of none, and asks no more", function()
    local g = pair { with = { unicast = { sync_min_interval = "100ms" } } }
    say(g, "ann", "bob", 1, 3)
    g.sim:settle()
    g.sim:duplicate { from = "ann", to = "bob", layer = "unicast", type = "data", body = "5",
      by = "500ms", times = 1 }
    say(g, "ann", "bob", 4, 5)
    g.sim:run "50ms"
    g.ann.stack.unicast:close "bob"
    g.sim:run "50ms"
    g.bob.stack.unicast:forget "ann"
    g.sim:run "2s"
    assert.equal(1, g.bob.stack.unicast.firsts_sent)
    assert.equal(1, g.ann.stack.unicast.firsts_answered)
    assert.equal(1, g.bob.stack.unicast.early_dropped)
    assert.equal("1 2 3 4 5", g:got "bob")
    nothing_left(g)
  end)

  it("is forgotten only when everything handed up is released, and then remembered", function()
    local g = pair()
    local go = false
    g.bob:on("message", function(msg)
      while not go do require("neap").sleep "10ms" end
      table.insert(g.bodies.bob, msg.body)
    end)
    say(g, "ann", "bob", 1, 3)
    g.sim:run "20ms"
    g.bob.stack.unicast:close "ann"
    g.sim:run "2s" -- ann resends its tail all the while
    assert.equal(0, g.bob.stack.unicast.forgotten)
    go = true
    g.sim:run "2s"
    g.sim:settle()
    assert.equal(1, g.bob.stack.unicast.forgotten)
    assert.equal("1 2 3", g:got "bob")
    nothing_left(g)
  end)

  it("of a memory goes on where that ends: nothing comes twice", function()
    local g = pair()
    local rule = g.sim:drop { from = "bob", to = "ann", layer = "unicast", type = "ack" }
    say(g, "ann", "bob", 1, 5)
    g.sim:run "30ms"
    g.bob.stack.unicast:close "ann"
    assert.equal(1, g.bob.stack.unicast.forgotten)
    g.sim:run "3s"
    say(g, "ann", "bob", 6, 10)
    g.sim:run "100ms"
    g.sim:clear(rule)
    g.sim:settle()
    assert.equal(COUNTED, g:got "bob")
    nothing_left(g)
  end)

  it("is reset, and says so, when its peer is gone with messages unreported", function()
    local g = pair { names = { "ann", "bob", "cho" },
      with = { unicast = { conn_close_timeout = "20s" }, fd_all = { timeout = "4s",
        interval = "1s" } } }
    g.sim:kill "cho"
    say(g, "ann", "cho", 1, 5)
    g.sim:run "10s"
    assert.equal(2, #g.ann:view().members)
    local resent = g.ann.stack.unicast.tail_xmits
    assert.equal(5, g.ann.stack.unicast.unacked)
    assert.equal("not a member", select(2, g.ann:send("x", { to = "cho" })))
    g.sim:settle()
    g.sim:run "30s"
    assert.equal(resent, g.ann.stack.unicast.tail_xmits)
    assert.equal(1, g.ann.stack.unicast.resets)
    nothing_left(g, { "ann", "bob" })
  end)

  it("closes when it is idle, and the next message begins another", function()
    local g = pair {
      with = { unicast = { conn_expiry_timeout = "2s", conn_close_timeout = "1s" } },
    }
    say(g, "ann", "bob", 1, 3)
    g.sim:run "10s"
    assert.equal(0, g.ann.stack.unicast.senders)
    assert.equal(0, g.bob.stack.unicast.receivers)
    say(g, "ann", "bob", 4, 10)
    g.sim:settle()
    assert.equal(COUNTED, g:got "bob")
    assert.equal(0, g.ann.stack.unicast.resets)
    nothing_left(g)
  end)

  it("survives what partitions by view do to it", function()
    group.each_seed(20, function(seed)
      local g = pair { seed = seed, loss = 0.1 }
      say(g, "ann", "bob", 1, 3)
      g.sim:inject_view("bob", { "bob" })
      say(g, "ann", "bob", 4, 7)
      g.sim:run "100ms"
      g.sim:inject_view("bob", { "ann", "bob" })
      say(g, "ann", "bob", 8, 10)
      g.sim:settle()
      assert.equal(COUNTED, g:got "bob")
      g.sim:run "1s" -- What layers say to each other may be lost as well; settle waits for none.
      nothing_left(g)
      g.sim:close()
    end)
  end)

  it("loses nothing when tables are lost at any moment", function()
    group.each_seed(20, function(seed)
      local g = pair { seed = seed, loss = 0.1, reorder = 0.1,
        with = { unicast = { sync_min_interval = "50ms" } } }
      local random = require("support.random").new(seed)
      local function draw(low, high) return low + random:below(high - low + 1) end
      local sent = 0
      for _ = 1, 30 do
        local many = draw(1, 8)
        say(g, "ann", "bob", sent + 1, sent + many)
        sent = sent + many
        g.sim:run(draw(1, 30) .. "ms")
        if draw(1, 3) == 1 then g.bob.stack.unicast:close "ann" end
      end
      g.sim:settle()
      g.sim:run "1s"
      assert.equal(group.counted(sent), g:got "bob")
      nothing_left(g)
    end)
  end)
end)
