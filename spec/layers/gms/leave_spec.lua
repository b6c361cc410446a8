-- How members go in good order: one, many, the first ones, all (JGRP-2293 and its family).

local membership = require "support.membership"

local EIGHT = { "ann", "bob", "cho", "dee", "eve", "fay", "gus", "hal" }

-- Those leave at the same time, or each so much after the one before; who is left agrees soon, and
-- nobody's leave had to wait for its time limit.
local function leaves(options, goers, pause)
  local group = membership.group { latency = "1ms", seed = options.seed, jitter = options.jitter }
  group:form(options.of or EIGHT)
  local going, stay = {}, {}
  for _, name in ipairs(goers) do
    group:leave(name)
    going[name] = true
    if pause then group:run(pause) end
  end
  for _, name in ipairs(options.of or EIGHT) do
    if not going[name] then stay[#stay + 1] = name end
  end
  group:wait(stay, 3e9)
  group:run "1100ms"
  for _, name in ipairs(goers) do
    assert.is_true(group.left[name] and group.left[name].ok, name .. " has not left")
    assert.is_true(group.left[name].time < 1e9, name .. " left by its time limit")
    assert.is_false(group.channels[name]:is_open())
  end
  for _, name in ipairs(stay) do
    assert.equal(0, group:gms(name).exclusions, "somebody was taken for dead")
  end
  group:close()
end

describe("gms, leaving", function()
  it("lets a participant go", function() leaves({}, { "dee" }) end)
  it("lets the coordinator go", function() leaves({}, { "ann" }) end)
  it("lets the only one go", function() leaves({ of = { "ann" } }, { "ann" }) end)

  it("lets the first go, one after the other", function()
    leaves({}, { "ann", "bob", "cho", "dee" }, "20ms")
    leaves({}, { "ann", "bob", "cho", "dee" }, "1ms")
  end)

  it("lets the next ones and then the coordinator go", function()
    leaves({}, { "bob", "ann" })
    leaves({}, { "bob", "cho", "dee", "eve", "fay", "gus", "hal", "ann" })
  end)

  it("lets the coordinator and then the next ones go", function()
    leaves({}, { "ann", "bob" })
    leaves({ of = { "ann", "bob" } }, { "ann", "bob" })
    leaves({}, { "ann", "bob", "cho", "dee", "eve", "fay", "gus", "hal" })
  end)

  it("lets all go, in a moment", function()
    for _, count in ipairs { 2, 3, 5, 8 } do
      local all = { unpack(EIGHT, 1, count) }
      local group = membership.group { latency = "1ms" }
      group:form(all)
      for _, name in ipairs(all) do group:leave(name) end
      group:run "20ms"
      for _, name in ipairs(all) do
        assert.is_true(group.left[name] and group.left[name].time < 15e6, name .. " of " .. count)
      end
      group:close()
    end
  end)

  it("sends requests again to who comes after a leaving coordinator", function()
    leaves({}, { "eve", "fay", "ann", "gus", "hal" })
    leaves({}, { "hal", "gus", "fay", "eve", "ann" })
  end)

  it("lets any of them go at the same time, in any order", function()
    membership.each_seed(60, function(seed)
      local goers, mask = {}, seed * 37 % 255 + 1
      for i, name in ipairs(EIGHT) do
        if bit.band(mask, bit.lshift(1, i - 1)) ~= 0 then
          local at = seed % 2 == 0 and 1 or #goers + 1
          table.insert(goers, at, name)
        end
      end
      leaves({ seed = seed, jitter = "3ms" }, goers, seed % 3 == 0 and "1ms" or nil)
    end)
  end)

  it("is done within leave_timeout when nobody answers", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho" }
    group.sim:pause "ann"
    group:leave("bob"):run "1100ms"
    assert.is_true(group.left.bob.ok)
    assert.is_near(1e9, group.left.bob.time, 1e6)
    group.sim:resume "ann"
    group:wait({ "ann", "cho" }, 1e9) -- the request was waiting for ann
    group:close()
  end)

  it("is done within leave_timeout when the heir is dead and nobody knows", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho" }
    group:kill("bob"):leave("ann"):run "1100ms"
    assert.is_true(group.left.ann.ok)
    -- cho heard of it: only bob's death is left to be noticed, which takes 4 to 5 s and 1 to 2 s.
    assert.is_true(group:wait({ "cho" }, 8e9) > 2e9)
    assert.equal(1, group:gms("cho").exclusions)
    assert.equal(1, group:gms("cho").leaves)
    group:close()
  end)

  it("goes on when the coordinator dies with the request", function()
    local group = membership.group { latency = "1ms", with = { gms = { leave_timeout = "20s" } } }
    group:form { "ann", "bob", "cho" }
    group:leave "cho":kill "ann"
    group:wait({ "bob" }, 10e9)
    group:run "10ms"
    assert.is_true(group.left.cho.ok)
    assert.is_true(group.left.cho.time < 8e9)
    group:close()
  end)

  it("is noticed by a view when the answer gets lost", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho" }
    local rule = group.sim:drop { layer = "gms", type = "leave_rsp" }
    group:leave("bob"):run "500ms"
    assert.equal(1, group.sim:hits(rule))
    assert.is_true(group.left.bob.ok)
    assert.is_true(group.left.bob.time < 10e6)
    group:close()
  end)

  it("is answered by the next one when the first dies with the answer", function()
    local group = membership.group {
      latency = "1ms", with = { gms = { leave_timeout = "30s", num_prev_mbrs = 0 } },
    }
    group:form { "ann", "bob", "cho" }
    -- cho is out of everybody's view and does not hear of it.
    group.sim:drop { layer = "gms", type = "leave_rsp", times = 1 }
    group.sim:drop { layer = "gms", type = "view", to = "cho" }
    group:leave "cho":wait({ "ann", "bob" }, 1e9)
    group:kill "ann":run "20s"
    assert.is_true(group.left.cho and group.left.cho.time < 10e9)
    group:close()
  end)

  it("is passed on by somebody who is not the one to ask", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho" }
    group:gms("cho"):suspect "ann" -- so cho asks bob
    group:leave("cho"):run "20ms"
    assert.is_true(group.left.cho and group.left.cho.ok)
    group:agree { "ann", "bob" }
    assert.equal(1, group:gms("ann").leaves)
    group:close()
  end)

  it("lets joins of its time come true first", function()
    for step = 0, 60 do
      local group = membership.group { latency = "1ms" }
      group:form { "ann", "bob", "cho" }
      -- The view would come to bob behind the request that he take over.
      group.sim:delay { layer = "gms", type = "view", to = "bob", by = "20ms", times = 1 }
      group:join "dee":run(step .. "ms")
      local address = group.channels.dee.address
      group:leave "ann"
      group:wait({ "bob", "cho", "dee" }, 3e9)
      assert.equal(address, group.channels.dee.address, ("leave after %d ms"):format(step))
      group:run "700ms"
      assert.is_true(group.left.ann.time < 700e6)
      group:close()
    end
  end)

  it("comes true while still joining", function()
    for _, after in ipairs { "1ms", "500ms", "1020ms", "1022ms", "1024ms" } do
      local group = membership.group { latency = "1ms" }
      group:form { "ann", "bob" }
      group:join("cho"):run(after)
      group.channels.cho:close()
      group:wait({ "ann", "bob" }, 10e9)
      group:close()
    end
  end)

  it("takes the same name in again at once", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob" }
    for round = 1, 10 do
      group:leave(round % 2 == 0 and "ann" or "bob"):run "5ms"
      group:join(round % 2 == 0 and "ann" or "bob")
      group:wait({ "ann", "bob" }, 1e9)
    end
    group:close()
  end)
end)
