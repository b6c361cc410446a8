-- An inbox that is full refuses what would come again, and nothing else.  (Swarm seeds 19 and 268:
-- a message put together from pieces has no receipt of its own; it was dropped as if unreliable,
-- and everybody counted it as applied.)

local Channel = require "neap.channel"
local group = require "support.group"
local neap = require "neap"

describe("a full inbox", function()
  it("loses no message, whole or in pieces", function()
    local asleep = true
    local got = {}
    local g = group.new { with = { frag = { frag_size = "1KB" } }, message = function(_, name, m)
      if name == "bob" then
        if asleep then neap.sleep "2s" end
        got[#got + 1] = m.body:match "^%d+"
      end
    end }
    g.bob[Channel.own].pointer.rx_limit = 5000
    for n = 1, 40 do
      g.ann:send(n .. (" "):rep(n % 2 == 0 and 3000 or 300), n % 4 == 0 and { to = "bob" } or nil)
    end
    g.sim:run "1s"
    assert.equal(0, #got)
    asleep = false
    g.sim:run "20s"
    table.sort(got, function(a, b) return tonumber(a) < tonumber(b) end)
    assert.equal(40, #got)
    for n = 1, 40 do assert.equal(tostring(n), got[n]) end
  end)
end)
