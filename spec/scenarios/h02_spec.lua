-- H02: a late report from a connection that is over (JGRP-1873, JGRP-1874, JGRP-1875).

local group = require "support.group"
local talk = require "support.talk"

local QUESTION = { timestamp = "send_first", handshake = "sync" }
local REPORT = { ack = "ack", nak = "stable" }

local function new(seed, kind, mode)
  local g = talk.pair { seed = seed, with = { unicast = {
    sync = kind, retransmission = mode, stable_interval = "20ms", sync_min_interval = "200ms",
  } } }
  g.sim:settle()
  return g
end

-- What bob says to ann is held back by `report` and `question`.
local function story(g, kind, mode, report, question)
  local ann, bob = g.ann.stack.unicast, g.bob.stack.unicast
  local to_ann = { from = "bob", to = "ann", layer = "unicast" }
  local held = g.sim:delay { from = to_ann.from, to = to_ann.to, layer = to_ann.layer,
    type = REPORT[mode], by = report }
  talk.say(g, "ann", "bob", 1, 10)
  g.sim:run "30ms"
  g.sim:clear(held)
  g.sim:inject_view("bob", { "bob" })
  bob:forget "ann" -- Not the view but age would do that.
  g.sim:inject_view("bob", { "ann", "bob" })
  g.sim:delay { from = to_ann.from, to = to_ann.to, layer = to_ann.layer, type = QUESTION[kind],
    by = question, times = 1 }
  g.bodies.bob = {}
  g.bob:on("message", function(msg) table.insert(g.bodies.bob, msg.body) end)
  local resent = {}
  for seqno = 1, 20 do
    resent[seqno] = g.sim:delay { from = "ann", to = "bob", layer = "unicast", type = "data",
      seqno = seqno, by = "1ns" }
  end
  talk.say(g, "ann", "bob", 11, 15)
  g.sim:run "30s"
  for seqno, rule in ipairs(resent) do assert(g.sim:hits(rule) <= 6, seqno) end
  assert.is_true(ann.firsts_answered + ann.syncs_received <= 150)
  assert.equal(0, ann.unacked)
  talk.nothing_left(g)
  g.sim:close()
end

describe("H02", function()
  for _, kind in ipairs { "timestamp", "handshake" } do
    for _, mode in ipairs { "ack", "nak" } do
      local how = (", by %s in %s mode"):format(kind, mode)

      it("brings 11 to 15 in order when the question comes before the report" .. how, function()
        group.each_seed(20, function(seed)
          local g = new(seed, kind, mode)
          story(g, kind, mode, "60ms", "1us")
          -- 1 to 10 again: bob lost what said that it had them, and ann believed no late report.
          assert.equal(group.counted(15), g:got "bob")
        end)
      end)

      it("brings them once when the report comes first" .. how, function()
        group.each_seed(20, function(seed)
          local g = new(seed, kind, mode)
          story(g, kind, mode, "35ms", "60ms")
          assert.equal("11 12 13 14 15", g:got "bob")
        end)
      end)
    end
  end
end)
