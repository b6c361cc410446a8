-- fifo is written twice, in C and in Lua.  What follows is asked of both, and then of the two side
-- by side: same seed, same story, message for message.

local build = require "support.build"
local group = require "support.group"
local neap = require "neap"

local function stack_of(layer)
  return build.write(("teaching_%s.lua"):format(layer), ([[return stack "teaching_%s" {
  "Multicasts in order, without repair.",
  %s { window = 32, patience = "20ms" },
  udp { group = "239.7.7.7:7777" },
}]]):format(layer, layer))
end

-- Two members without membership, over a wire that loses and shuffles.
local function pair(layer, seed, net)
  local sim = neap.sim { seed = seed, latency = "1ms" }
  sim:set(net or { loss = 0.1, duplicate = 0.05, jitter = "8ms" })
  local got = {}
  local stack = stack_of(layer)
  local ann = sim:join("fifo", { stack = stack, name = "ann" })
  local bob = sim:join("fifo", { stack = stack, name = "bob" })
  bob:on("message", function(msg) got[#got + 1] = tonumber(msg.body) end)
  return sim, ann, bob, got
end

local function talk(sim, ann, count)
  sim:spawn(function()
    for i = 1, count do
      ann:send(tostring(i))
      neap.sleep(i % 10 == 0 and "30ms" or "1ms")
    end
  end)
  sim:settle()
end

local function rises(got)
  for i = 2, #got do if got[i] <= got[i - 1] then return false end end
  return true
end

local function story(layer, seed)
  local sim, ann, bob, got = pair(layer, seed)
  talk(sim, ann, 50)
  local counts = bob.stack[layer]
  return got, counts, ("%s skipped=%d stale=%d at %d"):format(
    table.concat(got, " "), counts.skipped, counts.stale, sim:now())
end

for _, layer in ipairs { "fifo", "fifo_lua" } do
  describe(layer, function()
    it("never lets one message overtake another", function()
      group.each_seed(50, function(seed)
        local got = story(layer, seed)
        assert(rises(got), table.concat(got, " "))
      end)
    end)

    it("leaves nobody waiting once the wire is still", function()
      group.each_seed(50, function(seed)
        local got, counts = story(layer, seed)
        assert.equal(0, counts.held)
        -- Not "= 50": a loss at the very end leaves no gap to see.
        assert(#got + counts.skipped <= 50)
        assert(#got + counts.skipped > 40)
      end)
    end)

    it("gives up a gap after its patience, and no sooner", function()
      local sim, ann, _, got = pair(layer, 1, {})
      sim:drop { from = "ann", to = "bob", body = "2", times = 1 }
      for i = 1, 3 do ann:send(tostring(i)) end
      sim:run "20ms"
      assert.same({ 1 }, got)
      sim:run "2ms"
      assert.same({ 1, 3 }, got)
    end)

    it("goes on after a burst behind a loss", function()
      local sim, ann, bob, got = pair(layer, 1, {})
      sim:drop { from = "ann", to = "bob", body = "1", times = 1 }
      for i = 1, 500 do ann:send(tostring(i)) end
      sim:settle()
      assert.equal(499, #got)
      assert.equal(500, got[#got])
      assert.equal(1, bob.stack[layer].skipped)
    end)

    it("lets a late joiner in", function()
      local sim, ann = pair(layer, 1, {})
      for i = 1, 1000 do ann:send(tostring(i)) end
      sim:settle()
      local got = {}
      local cho = sim:join("fifo", { stack = stack_of(layer), name = "cho" })
      cho:on("message", function(msg) got[#got + 1] = tonumber(msg.body) end)
      for i = 1001, 1003 do ann:send(tostring(i)) end
      sim:settle()
      assert.same({ 1001, 1002, 1003 }, got)
    end)
  end)
end

describe("fifo and its Lua twin", function()
  it("tell the same story on every seed", function()
    local told = { fifo = {}, fifo_lua = {} }
    for _, layer in ipairs { "fifo", "fifo_lua" } do
      group.each_seed(50, function(seed) told[layer][seed] = select(3, story(layer, seed)) end)
    end
    assert.same(told.fifo, told.fifo_lua)
  end)
end)
