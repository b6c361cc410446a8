-- Repair goes from nak to ack in the middle of a stream, under load and loss: nothing is drained,
-- nobody stops.  The table shows what changed on the wire.
--
--     neap run examples/05-toggle.lua

local neap = require "neap"

local sim = neap.sim { seed = 5, latency = "1ms", loss = 0.05, log = 100000 }
local members, got, order = {}, {}, true
for _, name in ipairs { "ann", "bob", "cho" } do
  got[name] = 0
  members[name] = sim:join("group", { stack = "lan", name = name,
    on = { message = function(msg)
      got[name] = got[name] + 1
      order = order and msg.body == "#" .. got[name]
    end } })
end
sim:run "10s"

local sent = 0
local function load(time) -- A message each millisecond.
  for _ = 1, time do
    sent = sent + 1
    members.ann:send("#" .. sent)
    sim:run "1ms"
  end
end

local KINDS = { "data", "request", "announcement", "ack", "vote" }
local PATTERNS = { data = "nakack msg", request = "nakack xmit_req",
  announcement = "nakack highest", ack = "nakack ack", vote = "stable" }

local function count(from)
  local counts = {}
  for _, kind in ipairs(KINDS) do counts[kind] = 0 end
  for _, row in ipairs(sim:log()) do
    for _, kind in ipairs(KINDS) do
      if row.sent >= from and row.text:find(PATTERNS[kind], 1, true) then
        counts[kind] = counts[kind] + 1
      end
    end
  end
  return counts
end

local function measure(mode)
  local from = sim:now()
  load(2000)
  local counts, cells = count(from), {}
  for i, kind in ipairs(KINDS) do cells[i] = ("%13d"):format(counts[kind]) end
  print(("%-6s"):format(mode) .. table.concat(cells))
end

print("      " .. ("%13s"):rep(#KINDS):format(unpack(KINDS)) .. "   packets on links in 2 s")
measure "nak"
members.ann.nakack.retransmission = "ack" -- Here, with messages under way.
measure "ack"
members.ann.nakack.retransmission = "nak"
measure "nak"
sim:settle()
print(("%d sent; bob got %d, cho got %d, %s"):format(sent, got.bob, got.cho,
  order and "in order, once" or "OUT OF ORDER"))
