-- JGRP-1742: state transfer by a digest of what was applied.  Its numbers, replayed.

local group = require "support.group"
local neap = require "neap"

-- dee looks on, so that the streams of the others begin with what is said here.
local function observed(on)
  local sim = neap.sim { seed = 1, latency = "1ms" }
  local m = { sim = sim }
  for _, name in ipairs { "dee", "ann", "bob", "cho" } do
    m[name] = sim:join("digest", { stack = "state", name = name,
      on = name == "dee" and on or { message = function() end } })
    sim:run "2s"
  end
  return m
end

local function applied(m)
  local positions = m.dee.stack:applied()
  return { A = positions.ann, B = positions.bob, C = positions.cho }
end

local function say(channel, count)
  for i = 1, count do channel:send(tostring(i)) end
end

describe("JGRP-1742", function()
  it("counts a batch when it is done, and {A:10, B:2, C:16} becomes {A:10, B:2, C:17}", function()
    local took
    local m = observed { batch = function(list)
      if list[1].from == "bob" and list[1].seqno == 3 then
        took = { list[1].seqno, list[#list].seqno }
        neap.sleep "100ms"
      end
    end }
    say(m.ann, 10)
    say(m.bob, 2)
    say(m.cho, 16)
    m.sim:run "50ms"
    assert.same({ A = 10, B = 2, C = 16 }, applied(m))
    say(m.bob, 8)
    m.sim:run "20ms"
    assert.same({ 3, 10 }, took)
    assert.same({ A = 10, B = 2, C = 16 }, applied(m))
    say(m.cho, 1)
    m.sim:run "20ms"
    assert.same({ A = 10, B = 2, C = 17 }, applied(m))
    m.sim:run "100ms"
    assert.same({ A = 10, B = 10, C = 17 }, applied(m))
  end)

  it("counts each message when its callback has returned, where there is one for each", function()
    local m = observed { message = function(msg)
      if msg.from == "bob" and msg.seqno >= 3 then neap.sleep "10ms" end
    end }
    say(m.bob, 2)
    say(m.cho, 16)
    m.sim:run "50ms"
    say(m.bob, 8)
    m.sim:run "36ms"
    assert.same({ A = 0, B = 5, C = 16 }, applied(m))
    m.sim:run "100ms"
    assert.same({ A = 0, B = 10, C = 16 }, applied(m))
  end)

  it("counts what came out of band when the run reaches it", function()
    local got = {}
    local m = observed { message = function(msg)
      if msg.from == "bob" then got[#got + 1] = msg.seqno end
    end }
    say(m.bob, 5)
    m.sim:run "50ms"
    m.sim:drop { from = "bob", to = "dee", layer = "nakack", type = "msg", seqno = 6, times = 1 }
    m.bob:send "6"
    m.bob:send("7", { oob = true })
    m.bob:send("8", { oob = true })
    m.sim:run "2ms"
    assert.equal("1 2 3 4 5 7 8", table.concat(got, " "))
    assert.equal(5, applied(m).B)
    m.sim:run "100ms"
    assert.equal("1 2 3 4 5 7 8 6", table.concat(got, " "))
    assert.equal(8, applied(m).B)
  end)

  for _, mode in ipairs { "barrier", "applied" } do
    it("has 6, 7 and 8 applied a second time where D is 5 and S is 8, mode " .. mode, function()
      local state, got, again = 0, {}, {}
      local sim = neap.sim { seed = 1, latency = "1ms" }
      local with = { state_transfer = { mode = mode } }
      sim:join("state", { stack = "state", name = "dee", with = with, on = {
        message = function() state = state + 1 end,
        state_request = function()
          neap.sleep "50ms" -- D is taken; what comes now is in S.
          return tostring(state)
        end,
      } })
      sim:run "2s"
      local bob = sim:join("state", { stack = "state", name = "bob", with = with })
      sim:run "2s"
      local cho = sim:join("state", { stack = "state", name = "cho", with = with, on = {
        message = function(msg)
          table.insert(msg.replayed and again or got, msg.seqno)
        end,
        state = function(text)
          state, got, again = text, {}, {}
        end,
      } })
      sim:run "2s"
      say(bob, 5)
      sim:run "100ms"
      sim:spawn(function() assert(cho:get_state { from = "dee", timeout = "5s" }) end)
      sim:run "20ms"
      say(bob, 3)
      sim:run "1s"
      assert.equal("8", state)
      assert.same({ 6, 7, 8 }, again)
      assert.same({}, got)
      say(bob, 1)
      sim:run "1s"
      assert.same({ 9 }, got)
    end)
  end

  it("lets views and stability pass a closed barrier, the coordinator's own view too", function()
    local options = { stack = "state", with = { stable = { interval = "100ms" } } }
    local g = group.new(options)
    local rounds = g.ann.stable.rounds
    g.ann.barrier:close()
    g.bob:send "held"
    g:join("dee", options)
    g.sim:run "3s"
    assert.equal(4, #g.ann:view().members)
    assert.equal("dee", g.ann:view().members[4])
    assert.is_true(g.ann.barrier.closed)
    assert.equal("", g:got "ann")
    assert(g.ann.stable.rounds > rounds, "stability is found out meanwhile")
    local low = g.bob.nakack.current_low
    g.ann.barrier:open()
    g.sim:run "3s"
    assert.equal("held", g:got "ann")
    assert(g.bob.nakack.current_low > low, "what was held was not reported, now it is")
  end)
end)
