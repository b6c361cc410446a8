-- How views come in: newer ones, older ones, those of others, those without us.

local membership = require "support.membership"

describe("gms, views", function()
  it("are sent whole once, then as changes (JGRP-2159)", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho", "dee" }
    assert.equal(3, group:gms("ann").views_sent)
    assert.equal(2, group:gms("ann").deltas_sent)
    group:leave("ann"):wait({ "bob", "cho", "dee" }, 1e9)
    group:leave("dee"):wait({ "bob", "cho" }, 1e9)
    assert.equal(2, group:gms("bob").views_sent)
    assert.equal(1, group:gms("bob").deltas_sent)
    group:close()
  end)

  it("are sent whole always when told so, from the next one on", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho" }
    group:gms("ann").use_delta_views = false
    group:join "dee":wait({ "ann", "bob", "cho", "dee" }, 1e9)
    assert.equal(1, group:gms("ann").deltas_sent)
    group:close()
  end)

  it("are asked for when the one they change is not there (JGRP-2421)", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho" }
    assert(group.sim:inject_view("cho", { "bob", "ann", "cho" })) -- bob|3, which nobody else has
    group:join "dee":run "500ms"
    assert.equal("bob|3 {bob ann cho}", group:view "cho") -- ann|3 is not above it
    group:join "eve"
    repeat group:run "1ms" until group:view "ann":find "eve"
    group:wait({ "ann", "bob", "cho", "dee", "eve" }, 50e6) -- no time limit helped
    assert.is_true(group:gms("cho").unknown_reference > 0)
    group:close()
  end)

  it("rise in order, each once, whatever the network does", function()
    membership.each_seed(20, function(seed)
      local group = membership.group {
        seed = seed, latency = "1ms", jitter = "20ms", loss = 0.1, duplicate = 0.1, reorder = 0.2,
      }
      group:form { "ann", "bob" }
      for _, name in ipairs { "cho", "dee", "eve", "fay" } do group:join(name):run "70ms" end
      group:run "500ms":leave "bob":run "100ms":leave "dee":run "5s"
      group.sim:set { loss = 0, duplicate = 0, reorder = 0 }
      group:wait({ "ann", "cho", "eve", "fay" }, 30e9)
      group:close() -- what was seen is checked as it is seen
    end)
  end)
end)

describe("gms, a member that is out", function()
  it("is not heard any more, though its messages come together with the view", function()
    local group, late = membership.group { latency = "1ms" }, 0
    group:form { "ann", "bob" }
    group:join("cho", { message = function(msg)
      local names = table.concat(group.channels.cho:view().members, " ")
      if not names:find(msg.from, 1, true) then late = late + 1 end
    end }):wait({ "ann", "bob", "cho" }, 1e9)
    group.sim:cut { from = "bob", to = "ann" }
    repeat group:run "10ms" until group.channels.ann.stack.verify_suspect.trials == 1
    group.sim:pause "cho" -- What comes meanwhile is read in one go.
    repeat group:run "100us" until group:view("ann"):match "{ann cho}" -- Bob is not told yet.
    for i = 1, 10 do group.channels.bob:send(tostring(i)) end
    group:run "10ms"
    group.sim:resume "cho"
    group:run "10ms"
    assert.equal("ann|3 {ann cho}", group:view "cho")
    assert.equal(10, group:gms("cho").outside)
    assert.equal(0, late)
    group:close()
  end)
end)

describe("gms, a member that went apart with somebody who never heard of it", function()
  it("is told to let go, and comes back", function()
    membership.each_seed(5, function(seed)
      local group = membership.group { seed = seed, latency = "1ms" }
      group:form { "ann", "bob", "cho" }
      group:run((300 + 50 * seed) .. "ms")
      for _, other in ipairs { "ann", "cho" } do group.sim:cut { from = "bob", to = other } end
      group:run "700ms"
      group.channels.cho:send "the last that bob hears"
      group:run "3ms"
      group.sim:partition({ "bob" }, { "ann", "cho" })
      for _ = 1, 1000 do
        group:run "10ms"
        if group:view "bob" ~= "ann|2 {ann bob cho}" and group:view "cho" == "ann|3 {ann cho}" then
          break
        end
      end
      assert.equal("bob|3 {bob cho}", group:view "bob")
      assert.equal("ann|3 {ann cho}", group:view "cho")
      group.sim:heal()
      group:wait({ "ann", "bob", "cho" }, 30e9)
      group:close()
    end)
  end)
end)

describe("gms, a member that was stopped", function()
  it("comes back under a new address", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho" }
    local address = group.channels.bob.address
    group.sim:pause "bob"
    group:wait({ "ann", "cho" }, 8e9)
    group.sim:resume "bob"
    group:wait({ "ann", "bob", "cho" }, 3e9)
    assert.not_equal(address, group.channels.bob.address)
    assert.equal(1, group:gms("ann").exclusions)
    group:close()
  end)

  it("puts out nobody, also as coordinator", function()
    for _, rest in ipairs { { "bob", "cho" }, { "bob" }, { "bob", "cho", "dee", "eve" } } do
      local group = membership.group { latency = "1ms" }
      group:form { "ann", unpack(rest) }
      group.sim:pause "ann"
      group:wait(rest, 8e9)
      group:run "10s"
      group.sim:resume "ann"
      local all = { "ann", unpack(rest) }
      group:wait(all, 15e9)
      for _, name in ipairs(rest) do
        assert.equal(name == "bob" and 1 or 0, group:gms(name).exclusions)
      end
      group:close()
    end
  end)

  it("is not alone with others that were stopped: all of them come back", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho", "dee", "eve" }
    for _, name in ipairs { "ann", "dee" } do group.sim:pause(name) end
    group:wait({ "bob", "cho", "eve" }, 10e9)
    for _, name in ipairs { "ann", "dee" } do group.sim:resume(name) end
    group:wait({ "ann", "bob", "cho", "dee", "eve" }, 10e9)
    assert.equal("bob", group.channels.ann:view().coordinator)
    group:close()
  end)

  it("is told by the coordinator when the view without it gets lost", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho" }
    local rule = group.sim:drop { layer = "gms", type = "view", to = "bob" }
    group.sim:cut { from = "ann", to = "bob" }
    group:gms("ann"):suspect "bob"
    group:run "100ms":agree { "ann", "cho" }
    group.sim:heal()
    assert.equal("ann|2 {ann bob cho}", group:view "bob")
    group:wait({ "ann", "bob", "cho" }, 5e9)
    assert.is_true(group.sim:hits(rule) > 0 and group:gms("ann").told > 1)
    group:close()
  end)

  it("has a full timeout for everybody when it wakes", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob" }
    group.sim:pause "ann"
    group.sim:pause "bob"
    group:run "60s"
    group.sim:resume "ann"
    group:run "3s"
    group.sim:resume "bob"
    group:run "10s"
    group:agree { "ann", "bob" }
    assert.equal("ann|1 {ann bob}", group:view "ann")
    group:close()
  end)
end)

describe("gms, two coordinators", function()
  it("become one when a view reached only some (case D)", function()
    for _, lucky in ipairs { "bob", "cho", "dee" } do
      membership.each_seed(5, function(seed)
        local group = membership.group { seed = seed, latency = "1ms", jitter = "1ms" }
        group:form { "ann", "bob", "cho", "dee" }
        for _, name in ipairs { "bob", "cho", "dee" } do
          if name ~= lucky then group.sim:drop { layer = "gms", type = "view", to = name } end
        end
        group:join "eve"
        repeat group:run "1ms" until group:view(lucky):find "ann|4"
        group:kill "ann"
        group:run "10ms"
        for rule = 1, 2 do group.sim:clear(rule) end
        group:wait({ "bob", "cho", "dee", "eve" }, 20e9)
        group:close()
      end)
    end
  end)

  it("become one when a view reached only some and nothing else happens", function()
    membership.each_seed(10, function(seed)
      local group = membership.group { seed = seed, latency = "1ms", jitter = "1ms" }
      group:form { "ann", "bob", "cho", "dee" }
      group.sim:drop { layer = "gms", type = "view", to = "bob" }
      local address = group.channels.cho.address
      group:leave "dee"
      repeat group:run "1ms" until group:view "cho" == "ann|4 {ann bob cho}"
      group:kill "ann":run "10ms"
      group.sim:clear(1)
      -- bob makes bob|4, which is not above cho's ann|4: shown that, he makes another one.
      group:wait({ "bob", "cho" }, 8e9)
      assert.equal(address, group.channels.cho.address)
      assert.is_true(group:gms("bob").conflicts > 0)
      group:close()
    end)
  end)

  it("never go back to one who is out", function()
    membership.each_seed(5, function(seed)
      local group = membership.group { seed = seed, latency = "1ms", jitter = "1ms" }
      group:form { "ann", "bob", "cho", "dee", "eve" }
      group.sim:drop { layer = "gms", type = "view", to = "bob" }
      group:leave("dee"):run("50ms"):leave "eve"
      repeat group:run "1ms" until group:view "cho" == "ann|6 {ann bob cho}"
      group:kill "ann":run "10ms"
      group.sim:clear(1)
      -- bob makes bob|5 without ann; cho shows him ann|6: above his, but ann's.
      group:wait({ "bob", "cho" }, 8e9)
      assert.equal("bob|7 {bob cho}", group:view "bob")
      assert.equal(1, group:gms("bob").conflicts)
      for _, line in ipairs(group.story) do
        assert.falsy(line:find "^bob.*ann|[56]", line)
      end
      group:close()
    end)
  end)

  it("settle with the larger part when the others are told, too", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho", "dee" }
    -- bob goes on with cho, and no view of his is heard by ann and dee.
    for _, name in ipairs { "ann", "dee" } do
      group.sim:drop { layer = "nakack", from = "bob", to = name }
      group:gms("bob"):suspect(name)
    end
    repeat group:run "1ms" until group:view "bob" == "bob|4 {bob cho}"
    group:wait({ "ann", "bob", "cho", "dee" }, 10e9)
    assert.equal("bob", group.channels.ann:view().coordinator)
    group:close()
  end)

  it("have a member ask who should have made the next view", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho" }
    -- dee is taken in by ann alone, and never hears a view of anybody.
    group.sim:drop { layer = "gms", type = "view", from = "ann" }
    local rule =
      group.sim:drop { layer = "gms", type = "view", to = "dee", from = "bob", times = 2 }
    group:join "dee"
    repeat group:run "100us" until group.channels.dee:view()
    group:kill "ann"
    group:wait({ "bob", "cho", "dee" }, 15e9)
    assert.is_true(group.sim:hits(rule) > 0)
    group:close()
  end)

  it("part ways when one cannot hear the other, and meet again", function()
    membership.each_seed(10, function(seed)
      local group = membership.group { seed = seed, latency = "1ms", jitter = "1ms" }
      group:form { "ann", "bob", "cho", "dee" }
      for _, name in ipairs { "ann", "cho", "dee" } do
        group.sim:cut { from = name, to = "bob" } -- bob suspects everybody, and leads alone
      end
      group:wait({ "ann", "cho", "dee" }, 10e9)
      group:run "5s"
      for _, name in ipairs { "ann", "cho", "dee" } do
        assert.is_true(group:gms(name).exclusions <= 1)
      end
      group.sim:heal()
      group:wait({ "ann", "bob", "cho", "dee" }, 30e9)
      group:close()
    end)
  end)
end)
