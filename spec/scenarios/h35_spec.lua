-- H35: send buffers are full (JGroups PR 876, ZeroMQ issue 4153): each send says what became of it.

local group = require "support.group"
local neap = require "neap"

describe("H35", function()
  for _, mode in ipairs { "ack", "nak" } do
    it("accounts for every unicast on a slow link, in " .. mode .. " mode", function()
      group.each_seed(20, function(seed)
        local g = group.new { names = { "ann", "bob" }, seed = seed, capacity = "1MB",
          with = { unicast = { retransmission = mode, window_bytes = "200KB" } } }
        local taken, turned = {}, 0
        local body = ("x"):rep(10000)
        g.sim:spawn(function()
          for i = 1, 120 do -- Waits for room.
            assert(g.ann:send("w" .. i .. body, { to = "bob" }))
            taken[#taken + 1] = "w" .. i
            if i % 7 == 0 then neap.sleep "1ms" end
          end
        end)
        g.sim:spawn(function()
          for i = 1, 400 do -- Does not.
            local ok, code = g.ann:send("n" .. i .. body, { to = "bob", block = false })
            if ok then taken[#taken + 1] = "n" .. i else turned = turned + 1 end
            assert(ok or code == "would block", code)
            neap.sleep "2ms"
          end
        end)
        g.sim:run "10s"
        g.sim:settle()
        local got = {}
        for i, each in ipairs(g.bodies.bob) do got[i] = each:match "^%a%d+" end
        assert.same(taken, got) -- What was taken came, once, in that order.
        assert(turned > 0 and #taken > 120, turned)
        assert.equal(0, g.ann.stack.unicast.unacked)
        g.sim:close()
      end)
    end)
  end

  for _, mode in ipairs { "ack", "nak" } do
    it("accounts for every multicast on a slow link, in " .. mode .. " mode", function()
      group.each_seed(20, function(seed)
        local g = group.new { seed = seed, capacity = "1MB", with = {
          nakack = { retransmission = mode, window_bytes = "200KB" } } }
        local taken, turned, writable = {}, 0, 0
        local body = ("x"):rep(10000)
        g.ann:on("writable", function(to)
          assert.is_nil(to)
          writable = writable + 1
        end)
        g.sim:spawn(function()
          for i = 1, 60 do -- Waits for room.
            assert(g.ann:send("w" .. i .. body))
            taken[#taken + 1] = "w" .. i
            if i % 7 == 0 then neap.sleep "1ms" end
          end
        end)
        g.sim:spawn(function()
          for i = 1, 200 do -- Does not.
            local ok, code = g.ann:send("n" .. i .. body, { block = false })
            if ok then taken[#taken + 1] = "n" .. i else turned = turned + 1 end
            assert(ok or code == "would block", code)
            neap.sleep "2ms"
          end
        end)
        g.sim:run "10s"
        g.sim:settle()
        for _, name in ipairs { "bob", "cho" } do
          local got = {}
          for i, each in ipairs(g.bodies[name]) do got[i] = each:match "^%a%d+" end
          assert.same(taken, got)
        end
        assert(turned > 0 and #taken > 60, turned)
        assert(writable > 0 and writable <= turned, writable)
        g.sim:close()
      end)
    end)
  end

  it("counts what is not kept and gets lost on the way", group.modes(function()
    local g = group.new { names = { "ann", "bob" } }
    local before = g.sim:counts().lost["link queue full"]
    g.sim:set { capacity = "1MB" }
    local sent = 0
    for _ = 1, 500 do
      local options = { to = "bob", reliable = false, block = false }
      if g.ann:send(("x"):rep(10000), options) then sent = sent + 1 end
      g.sim:run "1ms"
    end
    g.sim:settle()
    assert(#g.bodies.bob < sent)
    local lost = g.sim:counts().lost["link queue full"] - before
    assert.equal(sent - #g.bodies.bob, lost)
  end))
end)
