-- A suspect is asked before anybody believes it, and judged in time, together with others.

local membership = require "support.membership"
local neap = require "neap"

local function verify(group, name) return group.channels[name].stack.verify_suspect end

-- The time from the suspicion at ann to the view without them.
local function judged(group, stay)
  local since
  repeat
    group:run "1ms"
    if verify(group, "ann").trials > 0 then since = since or group.sim:now() end
  until group:agrees(stay)
  return group.sim:now() - since
end

describe("verify_suspect", function()
  it("judges between one and two timeouts (JGRP-1429)", function()
    for _, timeout in ipairs { "500ms", "1s", "3s" } do
      local group = membership.group {
        latency = "1ms", with = { verify_suspect = { timeout = timeout } },
      }
      local ns = timeout == "500ms" and 5e8 or timeout == "1s" and 1e9 or 3e9
      group:form { "ann", "bob", "cho" }:kill "bob"
      local time = judged(group, { "ann", "cho" })
      assert.is_true(time >= ns and time <= 2 * ns + 1e7, ("%d ms"):format(time / 1e6))
      assert.equal(1, verify(group, "ann").confirmed)
      group:close()
    end
  end)

  it("clears a suspect that answers", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho" }
    -- Everything of bob's is lost on the way to ann but his answers.
    for _, layer in ipairs { "fd_all", "nakack", "stable", "ping" } do
      group.sim:drop { layer = layer, from = "bob", to = "ann" }
    end
    group:run "30s"
    assert.is_true(verify(group, "ann").cleared >= 3)
    assert.equal(0, verify(group, "ann").confirmed)
    assert.equal(verify(group, "ann").asked, verify(group, "bob").answered)
    assert.equal("ann|2 {ann bob cho}", group:view "ann")
    group:close()
  end)

  it("judges in one view those who died in one window (JGRP-2556)", function()
    for _, pause in ipairs { "0ms", "300ms" } do
      local group = membership.group { latency = "1ms" }
      group:form { "ann", "bob", "cho", "dee", "eve" }
      for _, name in ipairs { "bob", "cho", "dee" } do group:kill(name):run(pause) end
      group:wait({ "ann", "eve" }, 10e9)
      assert.equal(6, group:gms("ann").views)
      assert.equal(3, group:gms("ann").exclusions)
      group:close()
    end
  end)

  it("judges in another view who died later", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho", "dee" }
    group:kill("bob"):run("3s"):kill "cho"
    group:wait({ "ann", "dee" }, 12e9)
    assert.equal(6, group:gms("ann").views)
    group:close()
  end)

  it("lets go of a suspect that is out of the view by the judgement of another", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho" }
    verify(group, "bob").timeout = "1min"
    group:kill "cho"
    repeat group:run "10ms" until verify(group, "bob").trials == 1
    group:wait({ "ann", "bob" }, 5e9)
    assert.equal(0, verify(group, "bob").trials)
    group:run "2min"
    assert.equal(0, verify(group, "bob").confirmed)
    group:close()
  end)

  it("asks again when it was stopped while somebody was on trial", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob" }
    group.sim:pause "bob"
    repeat group:run "1ms" until verify(group, "ann").trials == 1
    group.sim:pause "ann"
    group.sim:resume "bob"
    group:run "20s" -- bob's answer lies in ann's buffer, her time limit is long over
    group.sim:resume "ann"
    group:run("5s"):agree { "ann", "bob" }
    assert.equal(0, verify(group, "ann").confirmed)
    group:close()
  end)

  it("asks again after a stop, for the answers may be still to come", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob" }
    group.sim:pause "bob"
    repeat group:run "1ms" until verify(group, "ann").trials == 1
    group.sim:pause "ann"
    group:run "20s"
    group.sim:resume "ann"
    group.sim:resume "bob"
    group:run("5s"):agree { "ann", "bob" }
    assert.equal(1, verify(group, "ann").again)
    assert.equal(0, verify(group, "ann").confirmed)
    group:close()
  end)

  it("gives each its time, and judges together who came in one window", function()
    local group = membership.group { latency = "1ms", with = { fd_all = { interval = "100ms" } } }
    group:form { "ann", "bob", "cho", "dee", "eve" }
    -- bob opens a window; cho and dee come within it and are judged at the end of the next.
    group:kill("bob"):run("300ms"):kill("cho"):run("400ms"):kill "dee"
    local asked, since = verify(group, "ann").asked, nil
    repeat
      group:run "1ms"
      if verify(group, "ann").asked == asked + 2 then since = since or group.sim:now() end
    until group:gms("ann").exclusions == 3
    assert.is_true(group.sim:now() - since >= 1e9)
    assert.equal(7, group:gms("ann").views)
    group:close()
  end)

  it("opens one trial for several suspicions of one, and none for itself", function()
    local accuser = neap.layer "accuser" {
      doc = "Raises a suspicion when told to.",
      gives = "suspicion",
      ops = {
        accuse = { doc = "This one.", run = function(self, who)
          self:event_up("suspect", { peer = who })
        end },
      },
    }
    local group = membership.group { latency = "1ms", stack = neap.stack(function(s)
      return s.extend(membership.stack, { s.after("verify_suspect", accuser {}) })
    end) }
    group:form { "ann", "bob" }
    group.sim:cut { from = "bob", to = "ann" }
    for _ = 1, 3 do group.channels.ann.stack.accuser:accuse "bob" end
    group.channels.ann.stack.accuser:accuse "ann"
    group:run "100ms"
    assert.equal(1, verify(group, "ann").trials)
    assert.equal(1, verify(group, "ann").asked)
    group:wait({ "ann" }, 3e9)
    group:close()
  end)

  it("sends num_msgs questions", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob" }
    verify(group, "ann").num_msgs = 3
    group:kill "bob"
    group:wait({ "ann" }, 10e9)
    assert.equal(3, verify(group, "ann").asked)
    group:close()
  end)

  it("lets nobody be put out by loss alone", function()
    membership.each_seed(20, function(seed)
      local group = membership.group {
        seed = seed, latency = "1ms", loss = 0.2, with = { verify_suspect = { num_msgs = 3 } },
      }
      group:form { "ann", "bob", "cho" }
      group:run "60s"
      for _, name in ipairs { "ann", "bob", "cho" } do
        assert.equal(0, group:gms(name).exclusions)
      end
      group:close()
    end)
  end)
end)
