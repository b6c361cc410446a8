-- fifo is written twice, in C and in Lua.  What follows is asked of both, and then of the two side
-- by side: same seed, same story, message for message.

local members = require "support.members"
local neap = require "neap"

local SEEDS = 100

local function stack_of(layer)
  return neap.stack(function(s)
    return s.stack "fifo" { "Order without repair.", s[layer] { patience = "20ms" }, s.udp {} }
  end)
end

-- Ann talks to bob over a wire that loses, doubles and overtakes.
local function story(layer, seed)
  local sim, m = members.new({ "ann", "bob" }, { seed = seed, jitter = "5ms", reorder = 0.1,
    loss = 0.1, duplicate = 0.05 }, stack_of(layer))
  sim:run "1ms"
  for i = 1, 50 do
    m.ann:send(i)
    if i % 3 == 0 then sim:run "1ms" end
  end
  sim:settle()
  local bob = m.bob
  return bob, ("%s skipped=%d stale=%d at %d"):format(table.concat(bob.got, " "),
    bob[layer].skipped, bob[layer].stale, sim:now())
end

local function rises(got)
  for i = 2, #got do
    if tonumber(got[i]) <= tonumber(got[i - 1]) then return false end
  end
  return true
end

for _, layer in ipairs { "fifo", "fifo_lua" } do
  describe(layer, function()
    it("never lets one message overtake another", function()
      for seed = 1, SEEDS do
        local bob = story(layer, seed)
        assert(rises(bob.got), ("seed %d: %s"):format(seed, table.concat(bob.got, " ")))
      end
    end)

    it("leaves nobody waiting once the wire is still", function()
      for seed = 1, SEEDS do
        local bob = story(layer, seed)
        assert.equal(0, bob[layer].held, "seed " .. seed)
        -- Not "= 50": a loss at the very end leaves no gap to see.
        assert(#bob.got + bob[layer].skipped <= 50, "seed " .. seed)
      end
    end)

    it("moves every counter in some seed", function()
      local skipped, stale = 0, 0
      for seed = 1, SEEDS do
        local bob = story(layer, seed)
        skipped, stale = skipped + bob[layer].skipped, stale + bob[layer].stale
      end
      assert.is_true(skipped > 0 and stale > 0)
    end)

    it("gives up a gap that the sender is a window past", function()
      local sim, m = members.new({ "ann", "bob" }, { seed = 1 }, stack_of(layer),
        { [layer] = { window = 4, patience = "10s" } })
      sim:run "1ms"
      sim:drop { from = "ann", to = "bob", body = "1", times = 1 }
      for i = 1, 10 do m.ann:send(i) end
      sim:run "5ms"
      assert.equal("2 3 4 5 6 7 8 9 10", table.concat(m.bob.got, " "))
      assert.equal(1, m.bob[layer].skipped)
    end)

    it("waits as long as patience says, and no longer", function()
      local sim, m = members.new({ "ann", "bob" }, { seed = 1, latency = "1ms" }, stack_of(layer))
      sim:run "1ms"
      sim:drop { from = "ann", to = "bob", body = "1", times = 1 }
      m.ann:send(1)
      m.ann:send(2)
      sim:run "20ms"
      assert.equal(1, m.bob[layer].held)
      sim:run "2ms"
      assert.same({ "2" }, m.bob.got)
      m.bob[layer].patience = "5ms"
      m.bob[layer].window = 1
      assert.has_error(function() m.bob[layer].window = 1000 end)
    end)

    it("lets go of what waits when it closes", function()
      local sim, m = members.new({ "ann", "bob" }, { seed = 1 }, stack_of(layer))
      sim:run "1ms"
      sim:drop { from = "ann", to = "bob", body = "1", times = 1 }
      for i = 1, 5 do m.ann:send(i) end
      sim:run "5ms"
      assert.equal(4, m.bob[layer].held)
      sim:close() -- asserts that the pools are full again
    end)
  end)
end

describe("fifo and its Lua twin", function()
  it("tell the same story on every seed", function()
    for seed = 1, SEEDS do
      local _, in_c = story("fifo", seed)
      local _, in_lua = story("fifo_lua", seed)
      assert.equal(in_c, in_lua, "seed " .. seed)
    end
  end)

  it("have the same attributes and the same sentence", function()
    local sim = neap.sim { seed = 1 }
    local c = sim:join("g", { stack = stack_of "fifo", name = "c" })
    local lua = sim:join("g", { stack = stack_of "fifo_lua", name = "lua" })
    assert.equal(tostring(c.fifo):gsub("^fifo", ""), (tostring(lua.fifo_lua):gsub("^fifo_lua", "")))
  end)
end)
