-- Two messages are lost on their way; one leaves a gap, the other was the last.  Both are found,
-- and the ladder shows how.  Simulated: the same picture each time, in no time at all.
--
--     neap run examples/03-lost-and-found.lua

local neap = require "neap"
local ladder = require "neap.ladder"

local sim = neap.sim { seed = 3, latency = "1ms", log = 1000 }
local got = {}
local members = {}
for _, name in ipairs { "ann", "bob", "cho" } do
  got[name] = {}
  members[name] = sim:join("group", {
    stack = "lan", name = name,
    on = { message = function(msg) table.insert(got[name], msg.body) end },
  })
end
sim:run "5s"

-- The second never gets to bob, the fourth never to cho.
local first = tonumber(members.ann.nakack.current_seqno) + 1
sim:drop { from = "ann", to = "bob", layer = "nakack", type = "msg", seqno = first + 1, times = 1 }
sim:drop { from = "ann", to = "cho", layer = "nakack", type = "msg", seqno = first + 3, times = 1 }
for n = 1, 4 do
  members.ann:send("message " .. n)
  sim:run "1ms" -- One packet each.
end
sim:run "100ms"

print(ladder.text(sim:log(), { "ann", "bob", "cho" }, { layer = "nakack", last = 14 }))
for _, name in ipairs { "ann", "bob", "cho" } do
  print(("%s has: %s"):format(name, table.concat(got[name], ", ")))
end
