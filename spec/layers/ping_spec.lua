-- Who is found, how soon, and what becomes of answers that come late, twice or from elsewhere.

local membership = require "support.membership"

local function ping(group, name) return group.channels[name].stack.ping end

describe("ping", function()
  it("ends a search early, once a coordinator has answered", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann" }
    local since = group.sim:now()
    group:join "bob"
    group:wait({ "ann", "bob" }, 1e9)
    assert.is_true(group.sim:now() - since < 50e6)
    assert.equal(1, ping(group, "bob").early)
    assert.equal(1, ping(group, "bob").requests_sent)
    group:close()
  end)

  it("takes its whole time when told not to end early", function()
    local group = membership.group {
      latency = "1ms", with = { ping = { break_on_coord_rsp = false } },
    }
    group:form { "ann" }
    group:join("bob"):run "990ms"
    assert.equal("no view", group:view "bob")
    group:run("30ms"):agree { "ann", "bob" }
    assert.equal(0, ping(group, "bob").early)
    group:close()
  end)

  it("asks num_discovery_runs times while nobody answers", function()
    for _, runs in ipairs { 1, 3, 8 } do
      local group = membership.group { with = { ping = { num_discovery_runs = runs } } }
      group:join("ann"):run "1001ms"
      assert.equal(runs, ping(group, "ann").requests_sent)
      assert.equal("ann|0 {ann}", group:view "ann")
      group:close()
    end
  end)

  it("finds others that search even if every answer gets lost", function()
    local group = membership.group { latency = "1ms" }
    group.sim:drop { layer = "ping", type = 2 }
    group:join("ann"):join("bob"):run "1050ms"
    -- One of them begins; the other saw its request, knows that it is smaller, and waits.
    local begun = 0
    for _, name in ipairs { "ann", "bob" } do
      if group:view(name) ~= "no view" then begun = begun + 1 end
    end
    assert.equal(1, begun)
    group:close()
  end)

  it("remembers whom it found until the search is over, however long that is", function()
    membership.each_seed(8, function(seed)
      local group = membership.group {
        latency = "1ms", seed = seed,
        with = { gms = { join_timeout = "100s" }, ping = { num_discovery_runs = 1 } },
      }
      -- Strangers are forgotten when something moves and they have not for half a minute.
      group:join("ann"):join("bob"):run("50s"):join("cho"):run "50010ms"
      local begun = 0
      for _, name in ipairs { "ann", "bob" } do
        if group:view(name) ~= "no view" then begun = begun + 1 end
      end
      assert.is_true(begun <= 1, "both began alone")
      group:close()
    end)
  end)

  it("tells a name as soon as it is known", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob" }
    group.sim:drop { layer = "ping", type = 1, from = "cho", to = "bob", times = 1 }
    group:join "cho"
    repeat group:run "1ms" until group:view("ann"):find "cho"
    local since = group.sim:now()
    repeat group:run "1ms" until group:view("bob"):find "ann|2"
    assert.equal("ann|2 {ann bob cho}", group:view "bob")
    assert.is_true(group.sim:now() - since < 10e6)
    group:close()
  end)

  it("is not answered by somebody who leaves", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob" }
    group.sim:pause "ann"
    local before = ping(group, "bob").responses_sent
    group:leave("bob"):run "5ms"
    group:join("cho"):run "300ms"
    assert.equal(before, ping(group, "bob").responses_sent)
    group:close()
  end)

  it("leaves other groups on the same address alone", function()
    local group = membership.group { latency = "1ms" }
    local other = assert(group.sim:join("other", { stack = membership.stack, name = "eve" }))
    group:form { "ann", "bob" }
    group:run("2s"):agree { "ann", "bob" }
    assert.same({ "eve" }, other:view().members)
    group:close()
  end)

  it("begins again when it was stopped while it searched", function()
    local group = membership.group { latency = "1ms" }
    group:join("ann"):run "1100ms"
    group:join("bob"):run "500us"
    group.sim:pause "bob"
    group:run "30s"
    group.sim:resume "bob"
    group:wait({ "ann", "bob" }, 1e9)
    assert.equal(1, ping(group, "bob").stopped)
    group:close()
  end)

  it("counts answers that come after the search, and learns from them", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob" }
    group.sim:delay { layer = "ping", type = 2, from = "bob", by = "90ms" }
    group:join "cho":wait({ "ann", "bob", "cho" }, 1e9)
    group:run "100ms"
    assert.is_true(ping(group, "cho").late > 0)
    assert.equal(0, group:gms("cho").unnamed) -- the view waited for bob's name
    assert.truthy(ping(group, "cho"):known():find "bob 10.0.0.2")
    group:close()
  end)

  it("finds the place of a member that is to be sent to", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob" }
    -- cho never hears of bob's place before it has a message for him.
    local rule = group.sim:drop { layer = "ping", from = "bob", to = "cho" }
    local got
    group.channels.bob:on("message", function(msg) got = msg.body end)
    group:join "cho":wait({ "ann", "bob", "cho" }, 1e9)
    group.sim:clear(rule)
    local before = ping(group, "ann").responses_sent
    local bob = group.channels.bob.address
    group.sim:spawn(function() group.channels.cho:send("hello", { to = bob }) end)
    group:run "1s"
    assert.equal("hello", got)
    assert.equal(before, ping(group, "ann").responses_sent) -- only bob is wanted
    group:close()
  end)

  it("finds everybody in half of a second at any loss below 20 %", function()
    membership.each_seed(20, function(seed)
      local group = membership.group { seed = seed, latency = "1ms", loss = 0.2 }
      group:form { "ann" }
      for _, name in ipairs { "bob", "cho", "dee" } do group:join(name) end
      group:run "1s"
      for _, name in ipairs { "bob", "cho", "dee" } do
        assert.is_true(ping(group, name).early >= 1, name .. " found nobody")
      end
      group:close()
    end)
  end)
end)
