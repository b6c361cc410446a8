-- unicast in ack mode: order, once, repair within milliseconds, and the rules of connection ids.
-- Members that gms has brought together have connections already; `close` begins a new one.

local group = require "support.group"

-- A group of two whose messages are put down in their order.
local function pair(options)
  options = options or {}
  options.names = options.names or { "ann", "bob" }
  return group.new(options)
end

local function say(g, from, to, first, last)
  for i = first, last do assert(g[from]:send(tostring(i), { to = to })) end
end

-- Time until bob has so many, in milliseconds.
local function until_got(g, name, count)
  local since = g.sim:now()
  for _ = 1, 40000 do
    if #g.bodies[name] >= count then return (g.sim:now() - since) / 1e6 end
    g.sim:run "250us"
  end
  error(("%s has %d of %d"):format(name, #g.bodies[name], count))
end

local function nothing_left(g, names)
  for _, name in ipairs(names or g.names) do
    local unicast = g[name].stack.unicast
    assert.equal(0, unicast.unacked)
    assert.equal(0, unicast.waiting)
    assert.equal(0, unicast.early)
  end
end

local COUNTED = group.counted(10)

describe("unicast", function()
  it("delivers in order and once, both ways and to oneself, whatever the network does", function()
    group.each_seed(20, function(seed)
      local g = pair { seed = seed, names = { "ann", "bob", "cho" }, loss = 0.2, duplicate = 0.1,
        reorder = 0.2, jitter = "2ms" }
      for i = 1, 40 do
        for _, from in ipairs(g.names) do
          for _, to in ipairs(g.names) do assert(g[from]:send(from .. i, { to = to })) end
        end
        if i % 10 == 0 then g.sim:run "3ms" end
      end
      g.sim:settle()
      for _, name in ipairs(g.names) do
        local seen = {}
        for _, body in ipairs(g.bodies[name]) do
          local from, number = body:match "(%a+)(%d+)"
          assert.equal((seen[from] or 0) + 1, tonumber(number))
          seen[from] = tonumber(number)
        end
        assert.same({ ann = 40, bob = 40, cho = 40 }, seen)
      end
      nothing_left(g)
      g.sim:close()
    end)
  end)

  it("repairs a gap one gap_delay and a round trip later", function()
    local g = pair()
    g.sim:drop { from = "ann", to = "bob", layer = "unicast", type = "data", body = "3", times = 1 }
    say(g, "ann", "bob", 1, 2)
    g.sim:run "1us"
    say(g, "ann", "bob", 3, 3)
    g.sim:run "1us"
    say(g, "ann", "bob", 4, 10)
    assert.is_true(until_got(g, "bob", 10) <= 4.5) -- 1 on the way, 1 gap_delay, 2 there and back
    assert.equal(COUNTED, g:got "bob")
    assert.equal(1, g.bob.stack.unicast.requests_sent)
    assert.equal(1, g.ann.stack.unicast.xmits)
  end)

  it("finds a loss at the tail by itself", function()
    local g = pair()
    g.sim:drop { from = "ann", to = "bob", layer = "unicast", type = "data", body = "x10",
      times = 1 }
    for i = 1, 10 do g.ann:send("x" .. i, { to = "bob" }) end
    assert.is_true(until_got(g, "bob", 10) < 25)
    assert.equal(1, g.ann.stack.unicast.tail_xmits)
    g.sim:settle()
    nothing_left(g)
  end)

  it("recovers a first message that is lost, alone or not", function()
    for _, count in ipairs { 1, 10 } do
      local g = pair()
      g.ann.stack.unicast:close "bob"
      g.sim:settle()
      g.sim:drop { from = "ann", to = "bob", layer = "unicast", type = "data", seqno = 1,
        times = 1 }
      say(g, "ann", "bob", 1, count)
      assert.is_true(until_got(g, "bob", count) < 25)
      assert.equal(group.counted(count), g:got "bob")
      g.sim:settle()
      nothing_left(g)
    end
  end)

  it("takes a second message that comes first for neither lost nor new", function()
    for _, oob in ipairs { false, true } do
      local g = pair()
      g.ann.stack.unicast:close "bob"
      g.sim:settle()
      g.sim:delay { from = "ann", to = "bob", layer = "unicast", type = "data", seqno = 1,
        by = "30ms",
      times = 1 }
      for i = 1, 2 do g.ann:send(tostring(i), { to = "bob", oob = oob }) end
      g.sim:settle()
      g.sim:run "1s"
      table.sort(g.bodies.bob)
      assert.equal("1 2", g:got "bob")
      assert.equal(1, g.bob.stack.unicast.firsts_sent)
      nothing_left(g)
    end
  end)

  it("lets an out-of-band message overtake, once, and keeps the others in order", function()
    for _, lost in ipairs { "1", "2", "3" } do
      local g = pair()
      g.sim:drop { from = "ann", to = "bob", layer = "unicast", type = "data", body = lost,
        times = 1 }
      for i = 1, 4 do
        g.ann:send(tostring(i), { to = "bob", oob = i == 2 })
        g.sim:run "1us"
      end
      assert.is_true(until_got(g, "bob", 4) < 1000)
      g.sim:settle()
      local regular, urgent = {}, 0
      for _, body in ipairs(g.bodies.bob) do
        if body == "2" then urgent = urgent + 1 else regular[#regular + 1] = body end
      end
      assert.same({ "1", "3", "4" }, regular)
      assert.equal(1, urgent)
      if lost == "1" then assert.equal("2", g.bodies.bob[1]) end
      nothing_left(g)
    end
  end)

  it("does not resend without end when reports are lost", function()
    local g = pair()
    local rule = g.sim:drop { from = "bob", to = "ann", layer = "unicast", type = "ack" }
    say(g, "ann", "bob", 1, 5)
    g.sim:run "3s"
    -- 7 ms, then twice as long each time, up to half a second.
    assert.is_true(g.ann.stack.unicast.tail_xmits < 14)
    g.sim:clear(rule)
    g.sim:settle()
    local sent = g.ann.stack.unicast.tail_xmits
    g.sim:run "10s"
    assert.equal(sent, g.ann.stack.unicast.tail_xmits)
    assert.equal("1 2 3 4 5", g:got "bob")
    nothing_left(g)
  end)

  it("reports what is applied, not what was received", function()
    local g = pair()
    local sleeping
    g.bob:on("message", function(msg)
      sleeping = true
      require("neap").sleep "300ms"
      sleeping = false
      table.insert(g.bodies.bob, msg.body)
    end)
    say(g, "ann", "bob", 1, 2)
    g.sim:run "250ms"
    assert.is_true(sleeping)
    assert.equal(2, g.ann.stack.unicast.unacked)
    g.sim:run "200ms"
    assert.equal(1, g.ann.stack.unicast.unacked)
    g.sim:run "300ms"
    assert.equal(0, g.ann.stack.unicast.unacked)
    assert.equal("1 2", g:got "bob")
  end)

  it("bounds what is not reported, in messages and bytes, at the gate", function()
    local g = pair { with = { unicast = { window_messages = 10, window_bytes = "5KB" } } }
    g.sim:pause "bob"
    local sent = 0
    while g.ann:send("x", { to = "bob", block = false }) do sent = sent + 1 end
    assert.equal(10, sent)
    g.sim:run "100ms"
    assert.equal(10, g.ann.stack.unicast.unacked)
    g.ann.stack.unicast.window_messages = 100
    while g.ann:send(("x"):rep(1000), { to = "bob", block = false }) do sent = sent + 1 end
    assert.equal(14, sent)
    local ok, code = g.ann:send(("x"):rep(1000), { to = "bob", block = false })
    assert.is_nil(ok)
    assert.equal("would block", code)
    g.sim:resume "bob"
    g.sim:settle()
    assert.equal(14, #g.bodies.bob)
    nothing_left(g)
  end)

  it("keeps nothing that the application has no room for, and gets it again", function()
    local g = pair { with = {
      unicast = { window_bytes = "100MB" }, ufc = { max_credits = "100MB" },
    } }
    local held, go = {}, false
    g.bob:on("message", function(msg)
      while not go do require("neap").sleep "10ms" end
      held[#held + 1] = msg.body:match "%d+"
    end)
    for i = 1, 30 do g.ann:send(i .. ("."):rep(1e6), { to = "bob" }) end
    g.sim:run "2s"
    assert.is_true(g.bob.stack.unicast.full > 0)
    go = true
    g.sim:settle()
    assert.equal(group.counted(30), table.concat(held, " "))
    nothing_left(g)
  end)

  it("counts in large numbers as in small ones", function()
    for _, first in ipairs { "2147483638", "4294967286", "9007199254740982",
      "9223372036854775798" } do
      local g = pair { loss = 0.1, with = { unicast = { first_seqno = tonumber(first) } } }
      say(g, "ann", "bob", 1, 100)
      g.sim:settle()
      assert.equal(group.counted(100), g:got "bob")
      nothing_left(g)
    end
  end)
end)

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

  it("goes on after ids have wrapped", function()
    local g = pair { with = { unicast = { first_conn = 32766 } } }
    for i = 1, 5 do
      g.ann.stack.unicast:close "bob"
      say(g, "ann", "bob", 2 * i - 1, 2 * i)
      g.sim:settle()
    end
    assert.equal(COUNTED, g:got "bob")
    assert.equal(0, g.bob.stack.unicast.stale)
    nothing_left(g)
  end)

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

  it("asks for its first seqno once per interval, however much comes", function()
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
  end)

  it("is in step again one round trip after the request, with one message resent", function()
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
  end)

  it("is told EMPTY when everything was reported before the table was lost", function()
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
    group.each_seed(10, function(seed)
      local g = pair { seed = seed, loss = 0.1 }
      say(g, "ann", "bob", 1, 3)
      g.sim:inject_view("bob", { "bob" })
      say(g, "ann", "bob", 4, 7)
      g.sim:run "100ms"
      g.sim:inject_view("bob", { "ann", "bob" })
      say(g, "ann", "bob", 8, 10)
      g.sim:settle()
      assert.equal(COUNTED, g:got "bob")
      nothing_left(g)
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

describe("the prompt", function()
  it("shows connections, and names the peer it does not know", function()
    local g = pair()
    say(g, "ann", "bob", 1, 3)
    g.sim:settle()
    local text = g.ann.stack.unicast:connections()
    assert.truthy(text:find "bob")
    assert.truthy(text:find "0 not reported")
    local ok, _, detail = g.ann.stack.unicast:close "bub"
    assert.is_nil(ok)
    assert.truthy(detail:find "did you mean 'bob'")
  end)
end)
