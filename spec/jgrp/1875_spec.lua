-- JGRP-1875, with 1873 and 1874: the tables of a unicast sender A and its receiver B come apart and
-- find each other again.
--
--     A sends 1..560.  B has applied all of it and said so, but only "100" has come to A.
--     B loses its table: it no longer knows A.
--     A sends 561..565.  B has no place for them and asks where A's window begins.
--
-- A's answer is 101, the lowest that is not reported.  Then the old report comes, "560".  If A
-- believes it, it frees 101..560, which the new B never saw; B asks for them for ever, and A sends
-- its lowest for ever (1873).  And if B asks for each message that comes, and A answers with all it
-- has, 1000 messages in flight make a million (1874).
--
-- A report has a timestamp, and so has the question: what is older than the question is void.  Or
-- the question makes A give the window another connection id: reports of the old id are void.

local group = require "support.group"
local talk = require "support.talk"

local say, nothing_left, until_got = talk.say, talk.nothing_left, talk.until_got

local KINDS, MODES = { "timestamp", "handshake" }, { "ack", "nak" }
local QUESTION = { timestamp = "send_first", handshake = "sync" }
local REPORT = { ack = "ack", nak = "stable" }

local function new(kind, mode, seed)
  local g = talk.pair { seed = seed, with = { unicast = {
    sync = kind, retransmission = mode, stable_interval = "20ms", sync_min_interval = "100ms",
  } } }
  g.sim:settle()
  say(g, "ann", "bob", 1, 100)
  g.sim:settle()
  return g
end

local function numbers(first, last)
  local list = {}
  for i = first, last do list[#list + 1] = tostring(i) end
  return table.concat(list, " ")
end

-- bob's reports are on their way for so long while it applies 101..560; then its table is gone.
local function lose_table(g, mode, by)
  local slow = g.sim:delay { from = "bob", to = "ann", layer = "unicast", type = REPORT[mode],
    by = by }
  say(g, "ann", "bob", 101, 560)
  g.sim:run "30ms"
  g.sim:clear(slow)
  assert.equal(560, #g.bodies.bob)
  assert.equal(460, g.ann.stack.unicast.unacked)
  g.bob.stack.unicast:forget "ann"
  g.bodies.bob = {}
  g.bob:on("message", function(msg) table.insert(g.bodies.bob, msg.body) end)
end

-- Twenty seeds for each story: each kind and mode has five.
local SEEDS = 20

local function each(f)
  for _, kind in ipairs(KINDS) do
    for _, mode in ipairs(MODES) do f(kind, mode) end
  end
end

describe("JGRP-1875", function()
  each(function(kind, mode)
    it(("a late report does not free what the new table never saw, by %s in %s mode"):format(
      kind, mode), function()
      group.each_seed(SEEDS, function(seed)
        local g = new(kind, mode, seed)
        lose_table(g, mode, "60ms")
        say(g, "ann", "bob", 561, 565)
        g.sim:run "10ms"
        local stale = g.ann.stack.unicast.stale
        g.sim:run "100ms"
        assert.is_true(g.ann.stack.unicast.stale > stale) -- The late ones were seen, and ignored.
        g.sim:settle()
        assert.equal(numbers(101, 565), g:got "bob") -- From the lowest on: nothing is missing.
        nothing_left(g)
        g.sim:close()
      end)
    end)

    it(("a report that is there before the question counts, by %s in %s mode"):format(kind, mode),
      function()
        group.each_seed(SEEDS, function(seed)
          local g = new(kind, mode, seed)
          lose_table(g, mode, "35ms")
          g.sim:delay { from = "bob", to = "ann", layer = "unicast", type = QUESTION[kind],
            by = "70ms", times = 1 }
          say(g, "ann", "bob", 561, 565)
          g.sim:settle()
          assert.equal(numbers(561, 565), g:got "bob") -- The lowest is 561: nothing comes twice.
          nothing_left(g)
          g.sim:close()
        end)
      end)

    it(("the lowest opens the window and the highest shows the rest, by %s in %s mode"):format(
      kind, mode), group.seeds(function()
      local g = new(kind, mode)
      g.bob.stack.unicast:forget "ann"
      local lost = g.sim:drop { from = "ann", to = "bob", layer = "unicast", type = "data" }
      say(g, "ann", "bob", 101, 120)
      g.sim:run "1ms"
      g.sim:clear(lost)
      local xmits, tails = g.ann.stack.unicast.xmits, g.ann.stack.unicast.tail_xmits
      -- A while of silence, the highest; question, answer; request, what is missing.
      assert.is_true(until_got(g, "bob", 120) < (mode == "ack" and 30 or 60))
      assert.equal(numbers(1, 120), g:got "bob")
      g.sim:settle()
      assert.is_true(g.ann.stack.unicast.xmits - xmits <= 20)
      assert.is_true(g.ann.stack.unicast.tail_xmits - tails <= 3)
      nothing_left(g)
    end))

    it(("a thousand messages in flight move one question and one answer, by %s in %s mode"):format(
      kind, mode), group.seeds(function()
      local g = new(kind, mode)
      g.bob.stack.unicast:forget "ann"
      local xmits = g.ann.stack.unicast.xmits
      for i = 101, 1100 do g.ann:send(tostring(i), { to = "bob" }) end
      g.sim:run "3ms" -- There, gap_delay, there: the question has come, its answer has not.
      local unicast = g.bob.stack.unicast
      assert.equal(1, unicast.firsts_sent + unicast.syncs_sent)
      assert.is_true(g.ann.stack.unicast.xmits - xmits <= 1)
      g.sim:settle()
      assert.equal(1, unicast.firsts_sent + unicast.syncs_sent)
      assert.equal(numbers(1, 1100), g:got "bob")
      nothing_left(g)
    end))

    it(("whatever gets lost, traffic stays bounded, by %s in %s mode"):format(kind, mode),
      group.seeds(function()
        local g = new(kind, mode)
        g.bob.stack.unicast:forget "ann"
        g.sim:drop { from = "ann", to = "bob", layer = "unicast", first = true }
        g.sim:drop { from = "ann", to = "bob", layer = "unicast", type = "sync_ok" }
        say(g, "ann", "bob", 101, 110)
        g.sim:run "30s"
        local ann, bob = g.ann.stack.unicast, g.bob.stack.unicast
        assert.is_true(bob.firsts_sent + bob.syncs_sent <= 301) -- One each 100 ms.
        assert.is_true(ann.firsts_answered <= 301)
        assert.is_true(ann.xmits <= 301)
        assert.is_true(ann.tail_xmits <= 2 * 80, ann.tail_xmits) -- One pair each half second.
        assert.equal(numbers(1, 100), g:got "bob")
      end))
  end)
end)
