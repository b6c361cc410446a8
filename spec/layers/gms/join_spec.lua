-- How a member comes in: alone, to others, many at once, with everything lost that can get lost.

local membership = require "support.membership"
local neap = require "neap"

local function names(count)
  local list = {}
  for i = 1, count do list[i] = ("m%02d"):format(i) end
  return list
end

describe("gms, joining", function()
  it("begins alone in view 0 when nobody answers", function()
    local group = membership.group()
    group:join "ann":run "900ms"
    assert.equal("no view", group:view "ann")
    group:run "200ms"
    assert.equal("ann|0 {ann}", group:view "ann")
    assert.is_true(group:gms("ann").is_coordinator)
    group:close()
  end)

  it("takes a joiner in at once, and all have the view when it has", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob" }
    group:agree { "ann", "bob" }
    assert.equal("ann|1 {ann bob}", group:view "bob")
    local since = group.sim:now()
    group:join "cho"
    assert.is_true(group:wait({ "ann", "bob", "cho" }, 1e9) < 50e6)
    assert.equal("ann|2 {ann bob cho}", group:view "cho")
    assert.is_true(group.sim:now() - since < 50e6)
    group:close()
  end)

  it("takes all in with one view who ask at the same time", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann" }
    local all = names(10)
    for _, name in ipairs(all) do group:join(name) end
    all[#all + 1] = "ann"
    group:wait(all, 3e9)
    assert.equal(10, group:gms("ann").joins)
    assert.is_true(group:gms("ann").views <= 3, "one view for all, or two")
    group:close()
  end)

  it("joins and leaves in one view what waits together", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho", "dee" }
    local before = group:gms("ann").views
    -- Nobody acknowledges the next view for a while: what comes meanwhile is one change.
    local rule = group.sim:drop { to = "ann", layer = "gms", type = "view_ack" }
    group:join "eve":run "300ms"
    assert.equal(before + 1, group:gms("ann").views)
    group:leave "bob":leave "cho":join "fay":run "300ms"
    assert.equal(before + 1, group:gms("ann").views)
    group.sim:clear(rule)
    group:run "3s"
    assert.equal(before + 2, group:gms("ann").views)
    group:agree { "ann", "dee", "eve", "fay" }
    group:close()
  end)

  it("asks again when requests and answers get lost", function()
    for _, kind in ipairs { "join_req", "join_rsp" } do
      local group = membership.group { latency = "1ms" }
      group:form { "ann", "bob" }
      local rule = group.sim:drop { layer = "gms", type = kind, times = 3 }
      group:join "cho"
      group:wait({ "ann", "bob", "cho" }, 5e9)
      assert.equal(3, group.sim:hits(rule))
      group:close()
    end
  end)

  it("installs an answer that comes after its time (JGRP-621)", function()
    for _, late in ipairs { "900ms", "1100ms", "1500ms", "2500ms" } do
      local group = membership.group { latency = "1ms" }
      group:form { "ann", "bob" }
      group.sim:delay { layer = "gms", type = "join_rsp", to = "cho", by = late, times = 1 }
      group:join "cho"
      group:wait({ "ann", "bob", "cho" }, 6e9)
      group:run "5s":agree { "ann", "bob", "cho" }
      group:close()
    end
  end)

  it("comes to nothing when the group is full, and says so", function()
    local group = membership.group { latency = "1ms", with = { gms = { max_members = 2 } } }
    group:form { "ann", "bob" }
    local joined, code, detail
    group.sim:spawn(function()
      joined, code, detail = neap.join("chat",
        { stack = membership.stack, name = "cho", with = group.with })
    end)
    group:run "1s"
    assert.is_nil(joined)
    assert.equal("refused", code)
    assert.equal("the group is full", detail)
    group:agree { "ann", "bob" }
    group:gms("ann").max_members = 3
    group:join "cho":wait({ "ann", "bob", "cho" }, 1e9)
    group:close()
  end)

  it("begins alone after so many attempts, and goes where the others are later", function()
    local group = membership.group { latency = "1ms", with = { gms = { max_join_attempts = 3 } } }
    group:form { "ann", "bob" }
    local rule = group.sim:drop { layer = "gms", type = "join_req" }
    group:join "cho":run "2800ms"
    assert.equal("no view", group:view "cho")
    group:run "600ms"
    assert.equal("cho|0 {cho}", group:view "cho")
    group.sim:clear(rule)
    group:wait({ "ann", "bob", "cho" }, 15e9)
    group:close()
  end)

  it("keeps so many unreliable messages behind a view, and drops and counts the rest", function()
    local group, got = membership.group { latency = "1ms" }, 0
    group:form { "ann" }
    group:join("bob", { message = function() got = got + 1 end }):wait({ "ann", "bob" }, 1e9)
    group.sim:drop { layer = "ping", from = "cho", to = "bob" }
    group:join "cho"
    repeat group:run "1ms" until group:view("ann"):find "cho"
    group:run "5ms"
    group.sim:spawn(function()
      for i = 1, 1500 do
        group.channels.ann:send(("%d"):format(i), { reliable = false })
        if i % 50 == 0 then neap.sleep "1ms" end
      end
    end)
    group:run "100ms"
    assert.equal(0, got)
    group:run "200ms"
    assert.equal(476, group:gms("bob").early_dropped)
    assert.equal(1024, got)
    group:close()
  end)

  it("does not begin alone while members answer who lost their coordinator", function()
    local group = membership.group { latency = "1ms", with = { fd_all = { timeout = "20s" } } }
    group:form { "ann", "bob" }
    group:kill "ann":run "100ms":join "cho":run "15s"
    assert.equal("no view", group:view "cho") -- ten attempts would be over by now
    group:wait({ "bob", "cho" }, 15e9)
    group:close()
  end)

  it("knows everybody's name with the view", function()
    membership.each_seed(10, function(seed)
      local group = membership.group { seed = seed, latency = "1ms", loss = 0.2 }
      group:form { "ann", "bob", "cho", "dee" }
      group:wait({ "ann", "bob", "cho", "dee" }, 30e9)
      local unnamed = 0
      for _, name in ipairs { "ann", "bob", "cho", "dee" } do
        unnamed = unnamed + group:gms(name).unnamed
      end
      assert.is_true(unnamed <= 1, "names missing in a view: " .. unnamed)
      group:close()
    end)
  end)

  it("tells a joiner the names of all, also of the dead", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho" }
    group:kill "bob"
    group.sim:drop { layer = "ping", from = "cho", to = "dee" }
    group:join "dee":wait({ "ann", "cho", "dee" }, 10e9)
    assert.equal(0, group:gms("dee").unnamed)
    assert.truthy(group:gms("dee"):history():find "{ann bob cho dee}")
    group:close()
  end)

  it("waits for a name at most name_timeout, and keeps messages behind the view", function()
    local group = membership.group { latency = "1ms" }
    local got = {}
    group:form { "ann" }
    group:join("bob", { message = function(msg)
      got[#got + 1] = ("%s in %s"):format(msg.body, group:view "bob")
    end }):wait({ "ann", "bob" }, 1e9)
    group.sim:drop { layer = "ping", from = "cho", to = "bob" } -- he never hears her name
    group:join "cho"
    repeat group:run "1ms" until group:view "ann" == "ann|2 {ann bob cho}"
    local since = group.sim:now()
    group.sim:spawn(function() group.channels.ann:send "early" end)
    repeat group:run "1ms" until group:view("bob"):find "ann|2"
    assert.is_near(200e6, group.sim:now() - since, 5e6)
    group:run "10ms"
    assert.equal(1, #got)
    assert.truthy(got[1]:find("early in ann|2", 1, true))
    assert.equal(1, group:gms("bob").unnamed)
    group:leave("ann"):run "5ms" -- nobody waits for it a second time
    assert.truthy(group:view("bob"):find "^bob|3")
    group:close()
  end)
end)

describe("gms, starting all at once", function()
  for _, count in ipairs { 2, 3, 5, 8 } do
    it(("makes one group of %d"):format(count), function()
      membership.each_seed(25, function(seed)
        local loss = seed % 5 == 0 and 0.1 or 0
        local group = membership.group { seed = seed, latency = "1ms", jitter = "2ms", loss = loss }
        for _, name in ipairs(names(count)) do group:join(name):run(seed % 3 .. "ms") end
        group:wait(names(count), 20e9)
        group:close()
      end)
    end)
  end
end)

describe("gms, alone", function()
  it("rejoins the one with the smaller address, under a new one", function()
    membership.each_seed(10, function(seed)
      local group = membership.group { seed = seed, latency = "1ms" }
      group.sim:partition({ "ann" }, { "bob" })
      group:join "ann":join "bob":run "2s"
      local before = { group.channels.ann.address, group.channels.bob.address }
      table.sort(before)
      group.sim:heal()
      group:wait({ "ann", "bob" }, 20e9)
      local kept = 0
      for _, name in ipairs { "ann", "bob" } do
        for _, address in ipairs(before) do
          if group.channels[name].address == address then kept = kept + 1 end
        end
      end
      assert.equal(1, kept)
      group:close()
    end)
  end)

  it("goes to those who are more, whatever its address", function()
    membership.each_seed(10, function(seed)
      local group = membership.group { seed = seed, latency = "1ms" }
      group.sim:partition({ "ann" }, { "bob", "cho" })
      group:join "ann":form { "bob", "cho" }:run "2s"
      local bob = group.channels.bob.address
      group.sim:heal()
      group:wait({ "ann", "bob", "cho" }, 20e9)
      assert.equal(bob, group.channels.bob.address)
      group:close()
    end)
  end)

  it("searches less and less", function()
    local group = membership.group()
    group:join "ann":run "61s"
    local early = group:gms("ann").searches_alone
    group:run "60s"
    local late = group:gms("ann").searches_alone - early
    assert.is_true(early > late and late >= 4 and late <= 6, ("%d, then %d"):format(early, late))
    group:close()
  end)
end)

describe("gms, choosing a coordinator", function()
  it("goes to the one with most members", function()
    membership.each_seed(10, function(seed)
      local group = membership.group { seed = seed, latency = "1ms" }
      group.sim:partition({ "ann" }, { "bob", "cho" })
      group:join "ann":form { "bob", "cho" }:run "900ms"
      group.sim:heal()
      group:join "dee":run "100ms"
      assert.same({ "bob", "cho", "dee" }, group.channels.dee:view().members)
      group:close()
    end)
  end)

  it("goes to another one when the first does not answer", function()
    membership.each_seed(10, function(seed)
      local group = membership.group { seed = seed, latency = "1ms" }
      group.sim:partition({ "ann" }, { "bob" })
      group:join "ann":join "bob":run "1100ms"
      local small = group.channels.ann.address < group.channels.bob.address and "ann" or "bob"
      group.sim:partition({ "ann", "cho" }, { "bob" })
      group.sim:heal()
      group.sim:cut { from = "ann", to = "bob" }
      group.sim:cut { from = "bob", to = "ann" }
      group.sim:drop { layer = "gms", type = "join_req", to = small }
      group:join "cho":run "1300ms"
      assert.equal(2, #group.channels.cho:view().members)
      assert.not_equal(small, group.channels.cho:view().coordinator)
      group:close()
    end)
  end)

  it("declines the answer of one that it did not wait for", function()
    local group = membership.group { latency = "1ms" }
    group.sim:partition({ "ann", "cho" }, { "bob" })
    group:join "ann":join "bob":run "1100ms"
    -- ann takes cho in, and cho does not hear of it before she is with bob.
    group.sim:delay { layer = "gms", type = "join_rsp", from = "ann", by = "2500ms", times = 10 }
    group:join "cho"
    repeat group:run "1ms" until group:view "ann":find "cho"
    group:run "100ms"
    group.sim:heal()
    group.sim:partition({ "ann" }, { "bob", "cho" })
    group.sim:drop { layer = "ping", from = "ann" } -- she stays where she is
    group.sim:drop { layer = "ping", from = "bob", to = "ann" }
    repeat group:run "10ms" until group.channels.cho:view()
    assert.equal("bob", group.channels.cho:view().coordinator)
    group.sim:heal()
    group:run "1500ms"
    assert.is_true(group:gms("cho").foreign > 0)
    assert.same({ "ann" }, group.channels.ann:view().members)
    assert.equal(1, group:gms("ann").leaves)
    group:close()
  end)
end)
