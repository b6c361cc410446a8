-- Silence is noticed in time, and nothing else is taken for it.

local membership = require "support.membership"
local neap = require "neap"

local function fd(group, name) return group.channels[name].stack.fd_all end

-- Ticks so far: at each a heartbeat is sent, or spared because of other traffic.
local function ticks(group, name)
  return fd(group, name).heartbeats_sent + fd(group, name).heartbeats_spared
end

describe("fd_all", function()
  it("suspects between timeout and timeout + interval after the last sign", function()
    membership.each_seed(20, function(seed)
      local group = membership.group { seed = seed, latency = "1ms" }
      group:form { "ann", "bob" }:run(seed * 97 .. "ms")
      group:kill "bob"
      local since = group.sim:now()
      repeat group:run "1ms" until fd(group, "ann").suspected == 1
      local time = group.sim:now() - since
      -- The last sign came up to an interval before the death.
      assert.is_true(time >= 3e9 and time <= 5e9, ("%d ms"):format(time / 1e6))
      group:close()
    end)
  end)

  it("sends a heartbeat per interval, none while there is traffic, none alone", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann" }:run "10s"
    assert.equal(0, fd(group, "ann").heartbeats_sent)
    group:join("bob"):run "10s"
    assert.is_near(9, ticks(group, "ann"), 1)
    group:run "10s"
    assert.is_true(fd(group, "ann").heartbeats_received >= 10)
    assert.is_near(19, ticks(group, "ann"), 1)
    local before = fd(group, "ann").heartbeats_sent
    group.sim:spawn(function()
      for _ = 1, 50 do
        group.channels.ann:send "hello"
        require("neap").sleep "200ms"
      end
    end)
    group:run "10s"
    assert.is_true(fd(group, "ann").heartbeats_sent <= before + 1)
    assert.equal(0, fd(group, "bob").suspected)
    group:leave("bob"):run "1s"
    before = fd(group, "ann").heartbeats_sent
    group:run "10s"
    assert.equal(before, fd(group, "ann").heartbeats_sent)
    group:close()
  end)

  it("takes any message for a sign of life", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob" }
    group.sim:drop { layer = "fd_all" }
    group.sim:spawn(function()
      for _ = 1, 20 do
        group.channels.bob:send("to you", { to = "ann" })
        require("neap").sleep "1s"
      end
    end)
    group:run "20s"
    assert.equal(0, fd(group, "ann").suspected)
    group:close()
  end)

  it("takes back a suspicion when the suspect is heard: nobody is put out (JGRP-1922)", function()
    local group = membership.group {
      latency = "1ms", with = { verify_suspect = { timeout = "5s" } },
    }
    group:form { "ann", "bob", "cho" }
    group.sim:pause "bob"
    repeat group:run "10ms" until fd(group, "ann").suspected == 1
    group.sim:resume "bob"
    group:run "10s"
    assert.equal(1, fd(group, "ann").unsuspected)
    assert.equal(0, fd(group, "ann").suspects)
    assert.equal("ann|2 {ann bob cho}", group:view "ann")
    group:close()
  end)

  it("forgives everybody when it was stopped itself", function()
    membership.each_seed(10, function(seed)
      local group = membership.group { seed = seed, latency = "1ms" }
      group:form { "ann", "bob", "cho" }
      for _, name in ipairs { "ann", "bob", "cho" } do group.sim:pause(name) end
      group:run(seed * 1700 .. "ms")
      for _, name in ipairs { "cho", "ann", "bob" } do
        group.sim:resume(name)
        group:run "900ms"
      end
      group:run "10s":agree { "ann", "bob", "cho" }
      for _, name in ipairs { "ann", "bob", "cho" } do
        assert.equal(0, fd(group, name).suspected)
      end
      group:close()
    end)
  end)

  it("suspects nobody who is in no view", function()
    local group = membership.group { latency = "1ms" }
    group:join("ann", { message = function() neap.sleep "1h" end }):run "3s"
    group:join("bob"):wait({ "ann", "bob" }, 1e9)
    group.channels.bob:send "x" -- What ann's callback holds keeps bob known.
    group:run("10ms").sim:pause "bob"
    group:wait({ "ann" }, 10e9)
    group.sim:resume "bob"
    repeat group:run "1ms" until fd(group, "ann").strangers > 0
    group:run "10s"
    assert.equal(0, fd(group, "ann").suspects)
    group:close()
  end)

  it("changes its pace at once, and never beats slower than four times a timeout", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob" }
    local before = ticks(group, "ann")
    fd(group, "ann").interval = "100ms"
    group:run "1050ms"
    assert.equal(before + 10, ticks(group, "ann"))
    fd(group, "ann").interval = "1h"
    fd(group, "ann").timeout = "8s"
    before = ticks(group, "ann")
    group:run "8100ms"
    assert.equal(before + 4, ticks(group, "ann"))
    group:close()
  end)

  it("is the business of background: a quiet group settles", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho" }
    group.sim:settle()
    local now = group.sim:now()
    group.sim:settle()
    assert.equal(now, group.sim:now())
    group:close()
  end)

  it("says how long ago everybody was heard, and whom it suspected", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob" }
    assert.truthy(fd(group, "ann"):ages():find "^bob %d")
    group:kill("bob"):run "5s"
    assert.truthy(fd(group, "ann"):ages():find "suspected")
    assert.truthy(fd(group, "ann"):history():find "bob suspected")
    group:close()
  end)
end)
