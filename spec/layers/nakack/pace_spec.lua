-- nakack, pace: what is on its way is bounded by what has come, not by what was applied.

local group = require "support.group"
local neap = require "neap"
local random = require "support.random"

local function nakack(g, name) return g[name].stack.nakack end

local function new(options)
  local g = group.new(options)
  g.sim:run "1s"
  return g
end

-- Sends from ann in a coroutine; counts what was admitted.
local function pour(g, count)
  g.poured = 0
  g.sim:spawn(function()
    for i = 1, count do
      assert(g.ann:send(("%d %s"):format(i, ("x"):rep(1000))))
      g.poured = i
    end
  end)
end

local function in_order(list, count)
  assert.equal(count, #list)
  for i, body in ipairs(list) do assert.equal(i, tonumber(body:match "%d+")) end
end

describe("the pace", function()
  for _, mode in ipairs { "nak", "ack" } do
    local function with()
      return { nakack = { retransmission = mode, pace_bytes = "20KB", window_bytes = "200KB" } }
    end

    it(("lets no more be on its way than was asked for, in %s mode"):format(mode), function()
      local g = new { latency = "5ms", with = with() }
      pour(g, 300)
      g.sim:run "1us"
      assert(g.poured >= 17 and g.poured <= 20, g.poured)
      g.sim:run "4ms" -- Nobody can have said that anything came.
      assert(g.poured <= 20, g.poured)
      g:calm()
      for _, name in ipairs(g.names) do in_order(g.bodies[name], 300) end
    end)

    it(("goes on past a message that somebody lacks, in %s mode"):format(mode), function()
      local g = new { with = with() }
      local lost = g.sim:drop {
        from = "ann", to = "cho", layer = "nakack", seqno = nakack(g, "ann").current_seqno + 5 }
      pour(g, 150)
      g.sim:run "400ms"
      assert(#g.bodies.cho < 5, #g.bodies.cho)
      assert.equal(150, g.poured) -- Seven times what may be on its way.
      assert(nakack(g, "ann").window_used.bytes > 140000)
      g.sim:clear(lost)
      g:calm()
      for _, name in ipairs(g.names) do in_order(g.bodies[name], 150) end
      assert.equal(0, nakack(g, "ann").window_used.bytes)
    end)

    it(("goes on though reports and questions are lost, in %s mode"):format(mode), function()
      group.each_seed(20, function(seed)
        local g = new { seed = seed, loss = 0.2, with = with() }
        pour(g, 200)
        g.sim:run "20s"
        g:calm()
        for _, name in ipairs(g.names) do in_order(g.bodies[name], 200) end
        g.sim:close()
      end)
    end)
  end

  it("is the smallest receive buffer's, and follows the attribute at once", function()
    local g = new { with = { nakack = { window_bytes = "1MB" } } }
    assert(nakack(g, "ann").pace_bound.bytes <= 1000000)
    nakack(g, "ann").pace_bytes = "30KB"
    assert.equal(30000, nakack(g, "ann").pace_bound.bytes)
  end)

  it("does not count what was sent before a member came", function()
    local g = new { names = { "ann" }, with = { nakack = { pace_bytes = "20KB" } } }
    pour(g, 300)
    g.sim:run "1s"
    assert.equal(300, g.poured)
    g:join "bob"
    g.sim:run "1s"
    pour(g, 300)
    g.sim:run "5s"
    assert.equal(300, g.poured)
    g:calm()
  end)
end)

-- Each of these once stood still: until the next round of `stable`, or for ever without one.
describe("a sender that waits for the pace", function()
  local function takes(with, bodies)
    local g = new { names = { "ann", "bob" }, with = with }
    local sent = 0
    g.sim:spawn(function()
      for _, body in ipairs(bodies) do
        assert(g.ann:send(body))
        sent = sent + 1
      end
    end)
    g.sim:run "1s"
    assert.equal(#bodies, sent)
    assert.equal(#bodies, #g.bodies.bob)
  end

  local function many(body, count)
    local list = {}
    for i = 1, count do list[i] = body end
    return list
  end

  local WIDE = { nakack = { window_messages = 262144 }, stable = { interval = 0 } }

  it("goes on behind a large body that follows small ones", function()
    local g = new { names = { "ann", "bob" } }
    for i = 1, 20 do assert(g.ann:send(tostring(i))) end
    g.sim:run "1ms"
    assert(g.ann:send(("x"):rep(60000), { block = false }))
    g.sim:run "1ms"
    assert(g.ann:send("y", { block = false }))
    g.sim:run "10ms"
    assert.equal("y", g.bodies.bob[22])
  end)

  -- Small ones that were the last to come said for ever how little room there is.
  it("goes on whatever sizes follow each other", function()
    group.each_seed(100, function(seed)
      local c = random.new(seed)
      local g = new { seed = seed, names = { "ann", "bob" }, with = {
        nakack = { retransmission = seed % 2 == 0 and "ack" or "nak", window_bytes = "200KB" },
        stable = { max_bytes = "50KB" } } }
      local sent = 0
      g.sim:spawn(function()
        for _ = 1, 300 do
          local kind = c:below(10)
          local size = kind < 6 and c:below(12) or kind < 8 and 1500
            or kind < 9 and c:below(30000) or 100000 + c:below(90000)
          assert(g.ann:send(("x"):rep(size)))
          sent = sent + 1
          if c:below(4) == 0 then neap.sleep(c:below(8) .. "ms") end
        end
      end)
      g.sim:run "15s"
      assert.equal(300, sent)
      g.sim:close()
    end)
  end)

  it("asks for what has come, when heads are all that it sends", function()
    takes(WIDE, many("", 20000))
    takes(WIDE, many("xx", 30000))
  end)

  it("goes on with a pace smaller than a head", function()
    for _, mode in ipairs { "nak", "ack" } do
      takes({ nakack = { pace_bytes = "1B", retransmission = mode } }, { "", "x", ("x"):rep(5000) })
    end
  end)
end)
