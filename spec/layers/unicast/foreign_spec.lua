-- unicast and members that are not Neap's: asked five times, in ack mode, by timestamp.

local foreign = require "support.foreign"
local group = require "support.group"

local UNICAST3 = { protocol = 48, class = 82 }

local function mixed()
  local g = group.new { names = { "ann", "bob" }, with = { unicast = {
    sync = "handshake", retransmission = "nak", sync_min_interval = "200ms",
  } } }
  local fay = foreign.new(g.sim, "fay", "chat")
  fay:join(g.ann.address)
  g.sim:run "3s"
  fay:listen()
  return g, fay
end

-- A message in the middle of a connection that bob does not know.
local function middle(fay, to, seqno)
  fay:unreliable(to, { { protocol = UNICAST3.protocol, class = UNICAST3.class,
    fields = { type = 0, seqno = seqno, conn = 9, first = false } } }, "late")
end

describe("unicast towards a member that is not Neap's", function()
  it("asks five times where its connection begins, then drops what came, and counts it", function()
    local g, fay = mixed()
    local unicast = g.bob.stack.unicast
    middle(fay, g.bob.address, 5)
    g.sim:run "100ms"
    assert.equal(1, unicast.early)
    g.sim:run "5s"
    assert.equal(5, fay.heard["unicast send_first"])
    assert.equal(5, unicast.firsts_sent)
    assert.equal(0, unicast.syncs_sent)
    assert.equal(0, unicast.early)
    assert.equal(1, unicast.early_dropped)
    assert.equal(0, #g.bodies.bob)
    -- The next message begins anew.
    middle(fay, g.bob.address, 6)
    g.sim:run "100ms"
    assert.equal(6, unicast.firsts_sent)
    assert.same({}, fay.unknown)
    fay:stop()
  end)

  it("stays in ack mode, whatever is set, and finds a loss at the end", function()
    local g, fay = mixed()
    g.ann:send("to fay", { to = "fay" })
    g.sim:run "1s"
    assert.same({ "to fay" }, fay.got)
    assert.truthy(g.ann.stack.unicast:windows():find "fay to=%d+ [^\n]-mode=ack epoch=0")
    assert.truthy(g.ann.stack.unicast:windows():find "bob to=%d+ [^\n]-mode=nak epoch=1")
    local ok, code, detail = g.ann.stack.unicast:nak "fay"
    assert.same({ nil, "refused" }, { ok, code })
    assert.truthy(detail:find "not a Neap member")
    assert.is_true(g.ann.stack:set { unicast = { retransmission = "ack" } })
    assert.is_true(g.ann.stack:set { unicast = { retransmission = "nak" } })
    g.sim:run "1s"
    assert.equal(0, g.ann.stack.unicast.mode_pending)
    assert.same({}, fay.unknown)
    fay:stop()
  end)
end)
