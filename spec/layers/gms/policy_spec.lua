-- A membership policy: the application says in which order members stand in the next view.

local membership = require "support.membership"
local policy = require "neap.policy"

-- Members by name, the last letter of the alphabet first.
local function backwards(change)
  table.sort(change.members, function(a, b) return a > b end)
  return change.members
end

local function members(group, name)
  return table.concat(group.channels[name]:view().members, " ")
end

-- Every member has this policy, from its first view on.
local function group_with(f, options)
  local group = membership.group(options or { latency = "1ms" })
  local join = group.join
  function group.join(self, name, more)
    join(self, name, more)
    self.errors = self.errors or {}
    self.channels[name]:on("membership", f)
    self.channels[name]:on("error", function(text) table.insert(self.errors, text) end)
    return self
  end
  return group
end

describe("a membership policy", function()
  it("orders every view, and whoever it puts first makes the next one", function()
    membership.each_seed(20, function(seed)
      local group = group_with(backwards, { seed = seed, latency = "1ms", jitter = "2ms" })
      group:form { "bob", "ann", "dee", "cho" }
      group:wait({ "ann", "bob", "cho", "dee" }, 5e9)
      assert.equal("dee cho bob ann", members(group, "ann"))
      assert.is_true(group:gms("dee").is_coordinator)
      group:leave "cho"
      group:wait({ "ann", "bob", "dee" }, 5e9)
      assert.equal("dee bob ann", members(group, "bob"))
      group:kill "dee"
      group:wait({ "ann", "bob" }, 10e9)
      assert.equal("bob ann", members(group, "ann"))
      group:run "3s"
      for _, name in ipairs { "ann", "bob" } do
        assert.equal(0, group:gms(name).holds)
        assert.equal(0, group:gms(name).voids)
        assert.equal(0, group:gms(name).policy_failures)
      end
      group:close()
    end)
  end)

  it("is asked with what is about to change", function()
    local asked = {}
    local group = group_with(function(change)
      asked[#asked + 1] = ("%s: %s / %s / %s"):format(change.coordinator,
        table.concat(change.members, " "), table.concat(change.joined, " "),
        table.concat(change.left, " "))
      return change.addresses
    end)
    group:form { "ann", "bob", "cho" }
    group:leave "bob":wait({ "ann", "cho" }, 3e9)
    assert.same({ "ann: ann bob / bob / ", "ann: ann bob cho / cho / ", "ann: ann cho /  / bob" },
      asked)
    group:close()
  end)

  it("that keeps the order goes on with changes only, another sends whole views", function()
    local group = group_with(function(change) return change.members end)
    group:form { "ann", "bob", "cho", "dee" }
    assert.equal(2, group:gms("ann").deltas_sent)
    group:close()
    -- The newest right behind the coordinator, which stays.
    local other = group_with(function(change)
      table.insert(change.members, 2, table.remove(change.members))
      return change.members
    end)
    other:form { "ann", "bob", "cho", "dee" }
    other:agree { "ann", "bob", "cho", "dee" }
    assert.equal("ann dee cho bob", members(other, "bob"))
    assert.equal(0, other:gms("ann").deltas_sent)
    other:close()
  end)

  it("that is wrong is told, and the order stays", function()
    for text, f in pairs {
      ["returns a list of members, not a nil"] = function() end,
      ["which is no member"] = function() return { "zoe", "ann" } end,
      ["which is there twice"] = function(change)
        return { change.members[1], change.members[1] }
      end,
      ["left out 'bob'"] = function() return { "ann" } end,
      ["it broke"] = function() error "it broke" end,
      ["sleep is called inside"] = function() require("neap").sleep "1s" end,
    } do
      local group = group_with(f)
      group:form { "ann", "bob" }
      group:agree { "ann", "bob" }
      assert.equal("ann bob", members(group, "bob"))
      assert.equal(1, group:gms("ann").policy_failures)
      assert.equal(1, #group.errors)
      assert.truthy(group.errors[1]:find(text, 1, true), group.errors[1])
      group:close()
    end
  end)

  it("is asked again when somebody else comes or goes before it has answered", function()
    local group
    group = group_with(function(change)
      if #change.members == 3 and group.channels.dee == nil then
        group:join "dee" -- It asks while the answer of this call is on its way.
      end
      return backwards(change)
    end)
    group:form { "bob", "ann" }
    group:join "cho"
    group:wait({ "ann", "bob", "cho", "dee" }, 5e9)
    assert.equal("dee cho bob ann", members(group, "ann"))
    group:close()
  end)

  it("hands over before all have the view: its maker still hears from who skipped it", function()
    local group = group_with(function(change)
      return #change.members == 4 and { "ann", "bob", "cho", "dee" } or change.members
    end)
    group:form { "bob", "ann", "cho" }
    group.sim:cut { from = "bob", to = "cho" }
    group:join "dee":run "1500ms"
    assert.equal("bob ann cho", members(group, "cho"))
    assert.equal("ann bob cho dee", members(group, "ann"))
    group:join "eve":run "1s"
    assert.equal("ann bob cho dee eve", members(group, "cho")) -- from ann, bob's never came
    assert.equal(0, group:gms("bob").holds)
    group.sim:heal()
    group:wait({ "ann", "bob", "cho", "dee", "eve" }, 3e9)
    assert.equal(0, group:gms("cho").exclusions + group:gms("ann").exclusions)
    group:close()
  end)

  it("that says nothing holds up a change for policy_timeout only", function()
    local group, troubles = group_with(backwards), {}
    group:form { "ann", "bob" } -- bob is first now
    group.channels.bob:on("trouble", function(trouble) table.insert(troubles, trouble.text) end)
    group.channels.bob[require("neap.channel").own].handlers.membership = nil -- It is still on.
    group:join "cho"
    local time = group:wait({ "ann", "bob", "cho" }, 3e9)
    assert.is_true(time > 0.5e9 and time < 0.7e9, ("%d ms"):format(time / 1e6))
    assert.equal("bob ann cho", members(group, "ann"))
    assert.equal(1, group:gms("bob").policy_failures)
    assert.equal(1, #troubles)
    assert.truthy(troubles[1]:find("has not answered within gms.policy_timeout", 1, true))
    group:close()
  end)

  it("may be taken back at any time", function()
    local group = group_with(backwards)
    group:form { "ann", "bob" }
    assert.equal("bob ann", members(group, "ann"))
    group.channels.bob:on("membership", nil)
    group:join "cho"
    group.channels.cho:on("membership", nil)
    group:wait({ "ann", "bob", "cho" }, 3e9)
    assert.equal("bob ann cho", members(group, "ann"))
    group:close()
  end)

  it("survives a rejoin under a new address", function()
    local group = group_with(backwards)
    group:form { "bob", "ann" }
    group.sim:pause "bob"
    group:run "20s"
    group.sim:resume "bob"
    group:wait({ "ann", "bob" }, 20e9)
    group:join "cho":wait({ "ann", "bob", "cho" }, 5e9)
    assert.equal("cho bob ann", members(group, "ann"))
    group:close()
  end)
end)

describe("the places of a policy", function()
  it("go by name or address, and tell equal names apart by their order", function()
    local names, addresses = { "ann", "bob", "bob" }, { "a", "b", "c" }
    assert.same({ 1, 2, 0 }, policy.places(names, addresses, { "bob", "bob", "ann" }))
    assert.same({ 2, 1, 0 }, policy.places(names, addresses, { "c", "bob", "a" }))
    assert.same({}, policy.places({}, {}, {}))
  end)
end)
