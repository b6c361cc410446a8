-- One message with a header of nakack and one of unicast: it was given a receipt by each, which the
-- second believed impossible.  (make fuzz-live, seed 13412519.)

local core = require "neap.core"
local dissect = require "neap.dissect"
local group = require "support.group"

-- The header of this layer on the last message with this body, and the packet it was in.
local function find(sim, layer, body)
  for n = core.sim_log_count(sim.handle), 1, -1 do
    local row = core.sim_log(sim.handle, n)
    local packet = row.from == "ann" and dissect.packet(row.bytes)
    for _, message in ipairs(packet and packet.messages or {}) do
      for at, head in ipairs(message.headers) do
        if head.name == layer and message.body == body then return head, at, packet, message end
      end
    end
  end
  error("ann sent no such packet")
end

describe("a message in two streams", function()
  it("is dropped by the second and counted", function()
    local g = group.new()
    core.sim_log_start(g.sim.handle, 1000)
    g.ann:send("one", { to = "bob" })
    g.sim:run "10ms"
    g.ann:send "all"
    g.sim:run "10ms"
    local data, at, packet, message = find(g.sim, "unicast", "one")
    local msg = find(g.sim, "nakack", "all")
    data.fields.seqno, msg.fields.seqno = data.fields.seqno + 1, msg.fields.seqno + 1
    table.insert(message.headers, at + 1, msg)
    packet.messages = { message }
    g.sim:inject { from = "ann", to = "bob", bytes = (dissect.encode(packet)) }
    local bad = g.bob.unicast.bad
    g.sim:run "10ms"
    assert.equal(bad + 1, g.bob.unicast.bad)
  end)
end)
