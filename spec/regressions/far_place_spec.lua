-- A message in somebody's name whose checker says it is the 2^40th: what the checker remembers was
-- moved on one by one, for hours.  (make fuzz-live, seed 13302899.)

local core = require "neap.core"
local dissect = require "neap.dissect"
local group = require "support.group"

-- The first packet from ann to cho that carries this body, its place changed.
local function changed(sim, body, place)
  for n = 1, core.sim_log_count(sim.handle) do
    local row = core.sim_log(sim.handle, n)
    local packet = row.from == "ann" and row.to == "cho" and dissect.packet(row.bytes)
    for _, message in ipairs(packet and packet.messages or {}) do
      for _, head in ipairs(message.headers) do
        if head.name == "check_fifo" and message.body == body then
          head.fields.place = place
          return (dissect.encode(packet))
        end
      end
    end
  end
  error("ann sent no such packet")
end

describe("a place far ahead", function()
  it("costs nothing to remember", function()
    for _, place in ipairs { 5000, 2 ^ 40 } do
      local g = group.new { stack = "spec/support/checked.lua" }
      core.sim_log_start(g.sim.handle, 1000)
      g.sim:drop { from = "ann", to = "bob", body = "far", times = 1 }
      g.ann:send("far", { oob = true })
      g.sim:run "1us"
      local bytes = changed(g.sim, "far", place)
      local began = os.clock()
      g.sim:inject { from = "ann", to = "bob", bytes = bytes }
      g.sim:run "100ms"
      assert.equal("far", g:got "bob")
      assert.is_true(os.clock() - began < 5)
      g.sim:close()
    end
  end)
end)
