-- A joiner whose answer got lost: from the view that took it in on others count on it, so it must
-- begin where that view's digest said, or come again as somebody else.

local group = require "support.group"

local WITH = { gms = { join_timeout = "1s", view_ack_collection_timeout = "500ms" },
  fd_all = { timeout = "4s", interval = "500ms" } }

-- ann and bob; cho is taken in and does not hear of it, while bob says something to all.
local function story(seed)
  local g = group.new { seed = seed, names = { "ann", "bob" }, with = WITH }
  g.lost = g.sim:drop { from = "ann", to = "cho" }
  g:join("cho", { with = WITH })
  for _ = 1, 100 do
    if #g.bob:view().members == 3 then break end
    g.sim:clear(g.lost)
    g.lost = g.sim:drop { from = "ann", to = "cho", layer = "gms" }
    g.sim:run "20ms"
  end
  assert.equal(3, #g.bob:view().members)
  assert.is_nil(g.cho:view())
  g.address = g.cho.address
  g.handle = g.bob:send("counted on", { rsvp = "delivery", wait = false, timeout = "60s" })
  g.sim:run "500ms"
  assert.same({ "cho" }, g.handle.missing)
  return g
end

describe("gms, a lost answer to a joiner", function()
  it("comes again with what was promised: nothing is missed that was sent to it", function()
    group.each_seed(20, function(seed)
      local g = story(seed)
      g.ann.stack.unicast:close "cho" -- It is not repeated by those below.
      g.sim:clear(g.lost)
      g.sim:run "20s"
      assert.equal(g.address, g.cho.address)
      assert.equal(3, #g.cho:view().members)
      assert.equal("counted on", g:got "cho")
      assert.same({}, g.handle.missing)
      g.sim:close()
    end)
  end)

  it("is no answer of the next coordinator: it comes in under another address", function()
    group.each_seed(20, function(seed)
      local g = story(seed)
      g.sim:kill "ann"
      g.sim:run "40s"
      assert.equal(2, #g.bob:view().members)
      assert.same({ "bob", "cho" }, g.cho:view().members)
      assert.are_not.equal(g.address, g.cho.address)
      -- It was never delivered there, and nobody says so.
      assert.equal("", g:got "cho")
      assert.is_nil(g.handle.acked.cho)
      assert.is_true((g:call(function() return g.bob:send("now", { rsvp = true }) end)))
      assert.equal("now", g:got "cho")
      g.sim:close()
    end)
  end)
end)
