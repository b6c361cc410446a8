-- flow: what mfc gives for multicasts that wait for one that was lost.

local group = require "support.group"

describe("mfc and a message that was lost", function()
  it("lets as much wait behind it besides", function()
    local g = group.new { with = { mfc = { max_credits = "100KB" } } }
    g.sim:run "1s"
    local lost = g.sim:drop { from = "ann", to = "cho", layer = "nakack",
      seqno = g.ann.stack.nakack.current_seqno + 5 }
    local sent = 0
    g.sim:spawn(function()
      for i = 1, 1000 do
        assert(g.ann:send(("x"):rep(1000)))
        sent = i
      end
    end)
    g.sim:run "2s"
    assert(#g.bodies.cho < 5, #g.bodies.cho)
    assert(sent > 170 and sent <= 210, sent) -- Twice the credits, then they wait as well.
    g.sim:clear(lost)
    g:calm()
    assert.equal(1000, #g.bodies.cho)
    assert.equal(0, g.cho.stack.mfc.waiting.bytes)
  end)
end)
