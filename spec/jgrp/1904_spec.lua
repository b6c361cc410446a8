-- JGRP-1904: the last message of a burst is lost and nobody sends anything more (H01, G8, G9, G27).
--
-- The issue's own story: a receiver whose application is behind drops what it has no room for.
-- If that was the last message, nak mode leaves no gap to see, and a round of stability that would
-- show it may be minutes away.  So the sender says how far its stream goes, soon after the last
-- send, a few times, or after so many bytes, or when told to by hand, and is then silent; in ack
-- mode it goes on until all have reported.

local Channel = require "neap.channel"
local group = require "support.group"
local neap = require "neap"

local SECOND = 1e9

local function new(seed, mode, nakack)
  local with = { retransmission = mode, xmit_interval = "200ms" }
  for key, value in pairs(nakack or {}) do with[key] = value end
  local g = group.new { seed = seed, with = { nakack = with, stable = { interval = "60s" } } }
  g.sim:settle()
  return g
end

local function burst(g)
  for i = 1, 5 do g.ann:send(tostring(i)) end
end

-- What ann announces while f runs.
local function announcements(g, f)
  local before = g.ann.stack.nakack.announcements_sent
  f()
  return g.ann.stack.nakack.announcements_sent - before
end

-- A group in which cho takes two kilobytes, and nothing while it sleeps.
local function with_sleeper(seed, mode)
  local story = { awake = true }
  local g = group.new {
    seed = seed, with = {
      nakack = { retransmission = mode, xmit_interval = "200ms" }, stable = { interval = "1h" },
    },
    message = function(g, name, msg)
      while name == "cho" and not story.awake do neap.sleep "10ms" end
      table.insert(g.bodies[name], tonumber(msg.body:match "%d+"))
    end,
  }
  g.cho[Channel.own].pointer.rx_limit = 2000
  g.ann:send "0"
  g.sim:run "1s"
  story.awake = false
  return g, story
end

describe("JGRP-1904", function()
  for _, mode in ipairs { "nak", "ack" } do
    it(("delivers the last message that a full receiver dropped, in %s mode"):format(mode),
      function()
        group.each_seed(20, function(seed)
          local g, story = with_sleeper(seed, mode)
          local cho = g.cho.stack
          for i = 1, 5 do g.ann:send(i .. ("."):rep(600)) end
          g.sim:run "3s" -- ann has announced the 5th, cho has no room for it: nothing helps.
          assert.equal("0 1 2 3 4 5", g:got "bob")
          assert.equal("0", g:got "cho")
          assert(cho.nakack.dropped_full >= 1)

          story.awake = true -- The application takes what waits; ann says nothing new.
          g.sim:run "200ms"
          assert.equal("0 1 2 3 4 5", g:got "cho")
          assert.equal(0, cho.stable.stabilities)
          g.sim:close()
        end)
      end)
  end

  for _, mode in ipairs { "nak", "ack" } do
    it(("finds the lost end of a burst within a second, then is quiet, in %s mode"):format(mode),
      function()
        group.each_seed(20, function(seed)
          local g = new(seed, mode)
          local lost = g.sim:drop {
            from = "ann", to = "cho", layer = "nakack", body = "5", times = 1,
          }
          local rounds = g.cho.stack.stable.stabilities
          burst(g)
          -- announce_delay, the way of the announcement, the request and the message, its spread.
          g.sim:run "9ms"
          assert.equal("1 2 3 4 5", g:got "cho")
          assert.equal(1, g.sim:hits(lost))
          assert.equal(rounds, g.cho.stack.stable.stabilities)
          g.sim:run "991ms"
          assert(announcements(g, function() g.sim:run "30s" end) <= 3)
          assert.equal("1 2 3 4 5", g:got "bob")
          g.sim:close()
        end)
      end)
  end

  it("announces twice in nak mode, and in ack mode until all have reported", group.seeds(function()
    local nak = new(nil, "nak")
    assert.equal(2, announcements(nak, function() burst(nak); nak.sim:run "10s" end))
    local g = new(nil, "ack")
    local acks = g.sim:drop { from = "cho", to = "ann", layer = "nakack", type = "ack", times = 6 }
    local count = announcements(g, function() burst(g); g.sim:run "10s" end)
    assert(g.sim:hits(acks) == 6 and count >= 4 and count <= 8, count)
    assert.equal(0, announcements(g, function() g.sim:run "60s" end))
    assert.equal(0, g.ann.stack.nakack.window_stored)
  end))

  it("finds it by the second announcement when the first is lost too", group.modes(function(mode)
    local g = new(nil, mode)
    g.sim:drop { from = "ann", to = "cho", layer = "nakack", body = "5", times = 1 }
    local lost = g.sim:drop {
      from = "ann", to = "cho", layer = "nakack", type = "highest", times = 1,
    }
    burst(g)
    g.sim:run "250ms"
    assert.equal(1, g.sim:hits(lost))
    assert.equal("1 2 3 4 5", g:got "cho")
  end))

  it("leaves it to a stability round when every announcement is lost", group.modes(function()
    local g = group.new { with = { stable = { interval = "1h" } } }
    g.sim:settle()
    g.sim:drop { from = "ann", to = "cho", layer = "nakack", body = "5", times = 1 }
    g.sim:drop { from = "ann", to = "cho", layer = "nakack", type = "highest" }
    burst(g)
    g.sim:run "1s"
    assert.equal("1 2 3 4", g:got "cho")
    for _, name in ipairs(g.names) do g[name].stack.stable.interval = "2s" end
    g.sim:run "8s" -- Two rounds, each within twice the interval.
    assert.equal("1 2 3 4 5", g:got "cho")
  end))

  it("goes on until all have reported when resend_last_seqno_max_times is 0", group.seeds(function()
    local g = new(nil, "nak", { resend_last_seqno_max_times = 0 })
    g.sim:drop { from = "ann", to = "cho", layer = "nakack", type = "highest", times = 5 }
    g.sim:drop { from = "ann", to = "cho", layer = "nakack", body = "5", times = 1 }
    burst(g)
    g.sim:run "5s"
    assert.equal("1 2 3 4 5", g:got "cho")
    assert.equal(0, g.ann.stack.nakack.window_stored) -- They have reported, though it is nak mode.
    assert.equal(0, announcements(g, function() g.sim:run "60s" end))
  end))

  it("announces as often as is set, and takes N while it runs", group.seeds(function()
    local g = new(nil, "nak", { resend_last_seqno_max_times = 1 })
    assert.equal(1, announcements(g, function() burst(g); g.sim:run "10s" end))
    g.ann.stack.nakack.resend_last_seqno_max_times = 4
    assert.equal(4, announcements(g, function() g.ann:send "6"; g.sim:run "20s" end))
    assert.equal(0, announcements(g, function() g.sim:run "60s" end))
    assert.equal(3, announcements(g, function() -- Anew with each send, and two of them less.
      g.ann:send "7"
      g.sim:run "20ms"
      g.ann.stack.nakack.resend_last_seqno_max_times = 3
      g.sim:run "20s"
    end))
  end))

  it("is left to a stability round where resend_last_seqno is off, until it is on again",
    group.seeds(function()
    local g = new(nil, "nak", { resend_last_seqno = false })
    local lost = g.sim:drop { from = "ann", to = "cho", layer = "nakack", body = "5", times = 1 }
    assert.equal(0, announcements(g, function() burst(g); g.sim:run "5s" end))
    assert.equal(1, g.sim:hits(lost))
    assert.equal("1 2 3 4", g:got "cho")
    assert.equal(1, announcements(g, function()
      g.ann.stack.nakack.resend_last_seqno = true
      g.sim:run "20ms"
    end))
    assert.equal("1 2 3 4 5", g:got "cho")
  end))

  it("does not announce while messages are being sent", group.seeds(function()
    local g = new(nil, "nak")
    local sent = announcements(g, function()
      for i = 1, 100 do
        g.ann:send(tostring(i))
        g.sim:run "20ms"
      end
    end)
    assert(sent <= 1, sent)
    assert.equal(2, announcements(g, function() g.sim:run "5s" end))
  end))

  it("announces by bytes and by hand", group.seeds(function()
    local g = new(nil, "nak", { announce_delay = "60s", resend_last_seqno_bytes = "10KB" })
    assert.equal(2, announcements(g, function()
      for _ = 1, 20 do
        g.ann:send(("x"):rep(1024))
        g.sim:run "1ms"
      end
    end))
    assert.equal(1, announcements(g, function()
      g.ann.stack.nakack:announce_now()
      g.sim:run "1ms"
    end))
  end))

  it("repairs what a full receiver dropped within one announcement once there is room", function()
    local awake = false
    local stack = neap.stack(function(s)
      return s.extend("lan", { "No flow control.", s.remove "mfc", s.remove "ufc" })
    end)
    local g = group.new {
      stack = stack, names = { "ann", "cho" },
      with = { nakack = { window_bytes = "64MB", pace_bytes = "64MB", xmit_interval = "200ms" } },
      message = function(g, name, msg)
        while name == "cho" and not awake do neap.sleep "10ms" end
        table.insert(g.bodies[name], #msg.body)
      end,
    }
    for _ = 1, 400 do g.ann:send(("x"):rep(50000)) end -- 20 MB; 16 MB may wait.
    g.sim:run "2s"
    local dropped = g.cho.stack.nakack.dropped_full
    assert(dropped > 0)
    assert.equal(0, #g.bodies.cho)
    awake = true
    g.sim:run "200ms"
    assert.equal(400, #g.bodies.cho)
    g.sim:settle()
    assert(g.sim:now() < 60 * SECOND)
  end)
end)
