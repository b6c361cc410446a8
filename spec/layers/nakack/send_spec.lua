-- nakack, send: the window holds a sender back, keeps what somebody lacks, and opens again.

local group = require "support.group"
local neap = require "neap"

local function new(options)
  local g = group.new(options or {})
  g.sim:run "1s"
  return g
end

local function nakack(g, name) return g[name].stack.nakack end

-- Sends from ann in a coroutine, each with its number, padded; counts what was admitted.
local function pour(g, count, size)
  g.poured = 0
  g.sim:spawn(function()
    for i = 1, count do
      assert(g.ann:send(("%d %s"):format(i, ("x"):rep(size))))
      g.poured = i
    end
  end)
end

local function in_order(list, count)
  assert.equal(count, #list)
  for i, body in ipairs(list) do assert.equal(i, tonumber(body:match "%d+")) end
end

describe("the window", function()
  for _, mode in ipairs { "nak", "ack" } do
    it(("holds a sender back and lets it go on, in %s mode"):format(mode), function()
      group.each_seed(20, function(seed)
        local g = new { seed = seed, loss = seed % 3 * 0.05, with = {
          nakack = { retransmission = mode, window_bytes = "10KB" },
        } }
        pour(g, 300, 500)
        g.sim:run "1us"
        assert(g.poured >= 18 and g.poured <= 21, g.poured)
        g.sim:run "10s"
        g:calm()
        assert.equal(300, g.poured)
        for _, name in ipairs(g.names) do in_order(g.bodies[name], 300) end
        g.sim:close()
      end)
    end)

    it(("counts messages too, in %s mode"):format(mode), function()
      local g = new { with = { nakack = { retransmission = mode, window_messages = 8 } } }
      pour(g, 100, 0)
      g.sim:run "1us"
      assert(g.poured <= 9, g.poured)
      g.sim:settle()
      in_order(g.bodies.cho, 100)
    end)

    it(("opens though two die one after the other while it is full, in %s mode"):format(mode),
      function() -- JGRP-2875: the view that lets the first go must not wait for room.
        group.each_seed(20, function(seed)
          local g = new { names = { "ann", "bob", "cho", "dee" }, seed = seed, with = {
            nakack = { retransmission = mode, window_bytes = "10KB" }, fd_all = { timeout = "3s" },
          } }
          g.sim:kill "cho"
          pour(g, 100, 500)
          g.sim:run(("%dms"):format(seed * 80))
          g.sim:kill "dee"
          g.sim:run "1s"
          assert(g.poured < 30, g.poured)
          g.sim:run "30s"
          assert.equal(100, g.poured)
          in_order(g.bodies.bob, 100)
          assert.equal(2, #g.bob:view().members)
          g.sim:close()
        end)
      end)

    it(("opens when the silent member is out of the view, in %s mode"):format(mode), function()
      local g = new { with = {
        nakack = { retransmission = mode, window_bytes = "10KB" }, fd_all = { timeout = "3s" },
      } }
      g.sim:kill "cho"
      pour(g, 100, 500)
      g.sim:run "1s"
      assert(g.poured < 30, g.poured)
      g.sim:run "20s"
      assert.equal(100, g.poured)
      in_order(g.bodies.bob, 100)
    end)
  end

  it("keeps a message until the slowest callback has returned", function()
    local slow = true
    local g = new {
      with = { nakack = { retransmission = "ack" } },
      message = function(g, name, msg)
        while slow and name == "bob" do neap.sleep "50ms" end
        table.insert(g.bodies[name], msg.body)
      end,
    }
    for i = 1, 10 do g.ann:send(tostring(i)) end
    g.sim:run "2s"
    assert.equal(10, nakack(g, "ann").window_stored)
    slow = false
    g.sim:settle()
    assert.equal(0, nakack(g, "ann").window_stored)
    assert.equal(group.counted(10), g:got "bob")
  end)

  it("asks for a stability round when it fills in nak mode", function()
    local g = new { with = {
      nakack = { window_bytes = "20KB" }, stable = { interval = "1h", max_bytes = "1GB" },
    } }
    pour(g, 200, 500)
    g.sim:settle()
    assert.equal(200, g.poured)
    assert(nakack(g, "ann").stable_wanted > 0)
    assert(nakack(g, "ann").window_used.bytes <= 20000)
  end)

  it("is not held by a report from outside the view (JGRP-2904)", function()
    local g = new { with = { nakack = { retransmission = "ack", window_messages = 32 } } }
    g.sim:delay { from = "cho", to = "ann", layer = "nakack", type = "ack", by = "300ms" }
    g.ann:send "1"
    g.sim:run "20ms"
    g.sim:inject_view("ann", { "ann", "bob" })
    g.sim:run "500ms"
    assert(nakack(g, "ann").acks_foreign >= 1)
    pour(g, 100, 10)
    g.sim:settle()
    assert.equal(100, g.poured)
    assert.equal(0, nakack(g, "ann").window_stored)
  end)

  it("follows its limits while it is in use", function()
    local g = new { with = { nakack = { retransmission = "ack", window_bytes = "5KB" } } }
    g.sim:pause "bob"
    pour(g, 40, 1000)
    g.sim:run "10ms"
    assert(g.poured < 8, g.poured)
    nakack(g, "ann").window_bytes = "30KB"
    g.sim:run "10ms"
    assert(g.poured >= 25 and g.poured < 35, g.poured)
    nakack(g, "ann").window_bytes = "5KB"
    g.sim:resume "bob"
    g.sim:settle()
    in_order(g.bodies.bob, 40)
  end)
end)
