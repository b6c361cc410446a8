-- unicast in ack mode: order, once, repair within milliseconds, reports of what is applied.
-- Members that gms has brought together have connections already; `close` begins a new one.

local group = require "support.group"
local talk = require "support.talk"

local pair, say, nothing_left, until_got = talk.pair, talk.say, talk.nothing_left, talk.until_got
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

  it("drops what is far ahead of a small window, and gets it later", function()
    local far = 0
    group.each_seed(20, function(seed)
      local g = pair { seed = seed, loss = 0.1,
        with = { unicast = { window_messages = 1000 }, udp = { max_packet = "600B" } } }
      g.bob.stack.unicast.window_messages = 20
      g.bob.stack.unicast.window_bytes = "1KB"
      g:call(function()
        for i = 1, 500 do assert(g.ann:send(tostring(i), { to = "bob" })) end
      end)
      g.sim:settle()
      assert.equal(group.counted(500), g:got "bob")
      far = far + g.bob.stack.unicast.far
      nothing_left(g)
    end)
    assert.is_true(far > 0)
  end)

  it("lets pass, and does not repair, what is sent without reliability", function()
    local g = pair { loss = 0.5, with = { unicast = { window_bytes = "5KB" } } }
    for _ = 1, 200 do
      assert(g.ann:send(("x"):rep(1000), { to = "bob", reliable = false, block = false }))
      g.sim:run "1ms"
    end
    for _ = 1, 5 do
      assert(g.ann:send("self", { to = "ann", reliable = false, block = false }))
    end
    g.sim:settle()
    assert.is_true(#g.bodies.bob > 50 and #g.bodies.bob < 150)
    assert.equal(5, #g.bodies.ann)
    assert.equal(0, g.ann.stack.unicast.unacked)
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

describe("the prompt of unicast", function()
  it("shows both halves of connections, and names the peer it does not know", function()
    local g = pair()
    say(g, "ann", "bob", 1, 3)
    g.sim:settle()
    local text = g.ann.stack.unicast:windows()
    local low, high = text:match "bob to=0 low=(%d+) high=(%d+) bytes=0 mode=ack epoch=0"
    assert.equal(high, low)
    assert.truthy(g.bob.stack.unicast:windows():find("ann.* applied=" .. high))
    local ok, _, detail = g.ann.stack.unicast:close "bub"
    assert.is_nil(ok)
    assert.truthy(detail:find "did you mean 'bob'")
  end)
end)
