-- nakack, gaps: when what is missing is asked for, how often, of whom, and how it is answered.

local group = require "support.group"

local MS = 1e6

local function new(options)
  local g = group.new(options or {})
  g.sim:run "1s"
  return g
end

local function send(g, name, first, last)
  for i = first, last do assert(g[name]:send(tostring(i))) end
end

-- On each line once, as if ann's own switch had lost it.
local function lose_everywhere(g, body)
  for _, name in ipairs(g.names) do
    if name ~= "ann" then g.sim:drop { from = "ann", to = name, body = body, times = 1 } end
  end
end

local function nakack(g, name) return g[name].stack.nakack end

-- By what a counter grows while f runs.
local function grows(g, name, counter, f)
  local before = nakack(g, name)[counter]
  f()
  return nakack(g, name)[counter] - before
end

describe("gaps", function()
  it("are asked for once, after gap_delay and its spread", function()
    local g = new()
    local arrived
    g.cho:on("message", function(m)
      table.insert(g.bodies.cho, m.body)
      if m.body == "3" then arrived = g.sim:now() end
    end)
    g.sim:drop { from = "ann", to = "cho", layer = "nakack", body = "3", times = 1 }
    local sent = g.sim:now()
    send(g, "ann", 1, 6)
    g.sim:settle()
    -- There, gap_delay, up to 3/8 of it as spread, the request, the answer.
    local took = (arrived - sent) / MS
    assert(took >= 4 and took <= 4.4, took)
    assert.equal(group.counted(6), table.concat(g.bodies.cho, " "))
    assert.equal(1, nakack(g, "cho").xmit_reqs_sent)
    assert.equal(1, nakack(g, "cho").repaired)
    assert.equal(1, nakack(g, "ann").xmit_rsps_sent)
    assert.equal(0, nakack(g, "bob").duplicates)
  end)

  it("are not asked for when the message was only overtaken", function()
    local g = new()
    g.sim:delay { from = "ann", to = "bob", body = "2", by = "900us", times = 1 }
    send(g, "ann", 1, 5)
    g.sim:settle()
    assert.equal(group.counted(5), g:got "bob")
    assert.equal(0, nakack(g, "bob").xmit_reqs_sent)
  end)

  it("are asked for again after two round trips, then less and less often", function()
    local g = new { log = 1 }
    g.sim:drop { from = "ann", to = "bob", layer = "nakack", body = "2" }
    send(g, "ann", 1, 3)
    local times, asked = {}, 0
    for _ = 1, 3000 do
      g.sim:run "1ms"
      if nakack(g, "bob").xmit_reqs_sent > asked then
        asked = nakack(g, "bob").xmit_reqs_sent
        times[#times + 1] = g.sim:now() / MS
      end
    end
    local pauses = {}
    for k = 2, #times do pauses[#pauses + 1] = times[k] - times[k - 1] end
    assert(#pauses >= 8 and pauses[1] >= 4, table.concat(pauses, " "))
    for k = 2, #pauses do assert(pauses[k] >= pauses[k - 1] - 1, table.concat(pauses, " ")) end
    assert(pauses[#pauses] <= 501)
    assert.equal("1", g:got "bob")
  end)

  it("ask at ticks only for what was missing at the tick before (JGRP-1539)", function()
    local g = new { names = { "ann", "bob" }, with = { nakack = {
      gap_delay = "tick", xmit_interval = "60s", announce_delay = "60s",
    } } }
    local first = nakack(g, "ann").current_seqno
    local function drop(list)
      for _, i in ipairs(list) do
        g.sim:drop { from = "ann", to = "bob", body = tostring(i), times = 1 }
      end
    end
    local function late(list)
      for _, i in ipairs(list) do
        g.sim:delay { from = "ann", to = "bob", body = tostring(i), times = 1, by = "100ms" }
      end
    end
    local function round()
      return grows(g, "bob", "xmit_asked", function()
        nakack(g, "bob"):trigger_xmit()
        g.sim:run "5ms"
      end)
    end
    drop { 5, 10, 11, 12, 20, 21, 22, 25, 30 }
    late { 7, 9, 13, 18 }
    local answers = g.sim:drop { from = "ann", to = "bob", layer = "nakack", type = "xmit_rsp" }
    send(g, "ann", 1, 19)
    g.sim:run "5ms"
    assert.equal(0, round()) -- 5 7 9-13 18: seen for the first time.
    g.sim:run "100ms"
    send(g, "ann", 20, 31)
    g.sim:run "5ms"
    assert.equal(4, round()) -- 5 10-12
    assert.equal(9, round()) -- and 20-22 25 30
    assert.equal("1 2 3 4", g:got "bob")
    g.sim:clear(answers)
    for i = 20, 30 do
      g.sim:drop {
        from = "ann", to = "bob", layer = "nakack", type = "xmit_rsp", seqno = first + i,
      }
    end
    assert.equal(9, round())
    assert.equal(5, round()) -- 20-22 25 30 are left
    for id = 1, 60 do g.sim:clear(id) end
    assert.equal(5, round())
    assert.equal(0, round())
    assert.equal(group.counted(31), g:got "bob")
  end)

  it("are asked for in several requests when they are many (JGRP-1868)", function()
    for _, mode in ipairs { "nak", "ack" } do
      local g = new { with = { nakack = { retransmission = mode, max_xmit_req_size = 64 } } }
      local lost = g.sim:drop { from = "ann", to = "bob", probability = 0.5, layer = "nakack" }
      send(g, "ann", 1, 800)
      g.sim:run "1ms"
      g.sim:clear(lost)
      send(g, "ann", 801, 801)
      g.sim:settle()
      assert.equal(group.counted(801), g:got "bob")
      local asked = nakack(g, "bob").xmit_asked
      assert(asked > 300 and asked < 600, asked)
      local requests = nakack(g, "bob").xmit_reqs_sent
      assert(requests >= 12 and requests <= 16, requests)
      g.sim:close()
    end
  end)

  it("are filled by a multicast when three or more ask, and by copies when that is off", function()
    for _, all in ipairs { true, false } do
      local g = new {
        names = { "ann", "bob", "cho", "dee", "eve" }, with = { nakack = { use_mcast_xmit = all } },
      }
      lose_everywhere(g, "2")
      send(g, "ann", 1, 3)
      g.sim:settle()
      for _, name in ipairs(g.names) do assert.equal("1 2 3", g:got(name)) end
      assert.equal(all and 1 or 0, nakack(g, "ann").xmit_rsps_multicast)
      assert.equal(all and 3 or 4, nakack(g, "ann").xmit_rsps_sent)
    end
  end)

  it("that others asked everybody for are not asked for twice", function()
    local g = new {
      names = { "ann", "bob", "cho", "dee", "eve" }, latency = "50us",
      with = { nakack = { use_mcast_xmit_req = true, gap_delay = "4ms" } },
    }
    lose_everywhere(g, "2")
    send(g, "ann", 1, 3)
    g.sim:settle()
    local requests = 0
    for _, name in ipairs(g.names) do
      assert.equal("1 2 3", g:got(name))
      requests = requests + nakack(g, name).xmit_reqs_sent
    end
    assert(requests >= 1 and requests <= 3, requests)
  end)

  it("wait longer for a sender whose answers prove needless", function()
    local g = new()
    g.sim:delay { from = "ann", to = "bob", layer = "nakack", type = "msg", probability = 0.2,
      by = "6ms" }
    local function needless(first, last)
      return grows(g, "bob", "needless", function()
        for i = first, last do
          send(g, "ann", i, i)
          g.sim:run "1ms"
        end
      end)
    end
    local early = needless(1, 100)
    needless(101, 200)
    assert(early >= 3 and early < 10, early)
    assert.equal(0, needless(201, 300))
    g.sim:settle()
    assert.equal(group.counted(300), g:got "bob")
    assert.equal(0, nakack(g, "cho").needless)
  end)

  it("are no messages that others have, and that are still under way", function()
    local g = new { with = { stable = { max_bytes = "2KB" } } }
    g.sim:set { from = "ann", to = "cho", latency = "300ms" }
    for i = 1, 200 do
      g.ann:send(("%d %s"):format(i, ("x"):rep(100)))
      g.sim:run "2ms"
    end
    g:calm()
    assert.equal(200, #g.bodies.cho)
    assert(g.cho.stack.stable.stabilities + g.ann.stack.stable.rounds > 2)
    assert.equal(0, nakack(g, "cho").xmit_reqs_sent)
  end)

  it("are asked for at each tick, however long nothing came", function()
    local g = new { names = { "ann", "bob" }, with = { nakack = {
      gap_delay = "tick", xmit_interval = "20ms",
    } } }
    local lost = g.sim:drop { from = "ann", to = "bob", layer = "nakack", type = "msg" }
    local answers = g.sim:drop { from = "ann", to = "bob", layer = "nakack", type = "xmit_rsp" }
    send(g, "ann", 1, 200)
    g.sim:run "1s"
    g.sim:clear(lost)
    assert(nakack(g, "bob").xmit_asked > 4000)
    g.sim:clear(answers)
    g.sim:run "100ms"
    assert.equal(group.counted(200), g:got "bob")
  end)

  it("are asked for no faster than answers find their way through a narrow line", function()
    for _, mode in ipairs { "nak", "ack" } do
      local g = new { names = { "ann", "bob" }, with = { nakack = { retransmission = mode } } }
      g.sim:set { capacity = "1MB" } -- A line that keeps little of a burst.
      for i = 1, 150 do assert(g.ann:send(i .. ("x"):rep(10000))) end
      g.sim:run "100ms"
      local missing = 150 - #g.bodies.bob
      assert(missing > 100, missing)
      g.sim:run "30s"
      assert.equal(150, #g.bodies.bob)
      local answers = nakack(g, "ann").xmit_rsps_sent
      assert(answers < 8 * missing, answers) -- 25 times when all is asked for at once.
      g.sim:close()
    end
  end)

  it("are asked for at once by hand", function()
    local g = new { with = { nakack = {
      gap_delay = "10s", announce_delay = "10s", xmit_interval = "20s",
    } } }
    g.sim:drop { from = "ann", to = "bob", body = "2", times = 1 }
    send(g, "ann", 1, 3)
    g.sim:run "100ms"
    assert.equal("1", g:got "bob")
    nakack(g, "bob"):trigger_xmit()
    g.sim:run "3ms"
    assert.equal("1 2 3", g:got "bob")
  end)
end)
