-- Whatever is decided about who is in the group is told, with its reason.

local membership = require "support.membership"

-- What each member decided, one a line: "ann: cho taken in: it asked".
local function watched(options)
  local group, told = membership.group(options or { latency = "1ms" }), {}
  local join = group.join
  function group.join(self, name)
    join(self, name)
    self.channels[name]:on("decision", function(decision)
      told[#told + 1] = ("%s: %s %s"):format(name, decision.peer, decision.text)
    end)
    return self
  end
  return group, told
end

-- Each of these in order, with anything between them.
local function tells(told, ...)
  local at = 1
  for _, line in ipairs { ... } do
    while told[at] and not told[at]:find(line, 1, true) do at = at + 1 end
    assert(told[at], ("'%s' was not told in this order:\n%s"):format(line,
      table.concat(told, "\n")))
    at = at + 1
  end
end

describe("decisions", function()
  it("are told when members come and leave", function()
    local group, told = watched()
    group:form { "ann", "bob", "cho" }
    group:leave "bob":wait({ "ann", "cho" }, 3e9)
    group:leave "ann":run "2s"
    tells(told, "ann: ann begins alone: nobody was heard", "ann: bob taken in: it asked",
      "ann: cho taken in: it asked", "bob: bob leaves: asked to", "ann: bob let go: it leaves",
      "ann: ann leaves: asked to", "cho: ann took over from it: it leaves",
      "cho: ann let go: it leaves")
    group:close()
  end)

  it("are told when a coordinator dies, by each who thinks so", function()
    local group, told = watched()
    group:form { "ann", "bob", "cho" }
    group:kill "ann":wait({ "bob", "cho" }, 10e9)
    tells(told, "bob: ann suspected: silent for 4", "bob: ann took over from it: it is suspected",
      "bob: ann excluded: it is suspected")
    group:close()
  end)

  it("are told by who was put out and comes again", function()
    local group, told = watched()
    group:form { "ann", "bob", "cho" }
    group.sim:pause "cho"
    group:run "12s"
    group.sim:resume "cho"
    group:wait({ "ann", "bob", "cho" }, 20e9)
    tells(told, "ann: cho excluded: it is suspected", "cho: cho begins anew: excluded",
      "ann: cho taken in: it asked")
    group:close()
  end)

  it("are told when a suspicion is taken back", function()
    local group, told = watched()
    group:form { "ann", "bob", "cho" }
    group:gms("ann"):suspect "ann" -- Nobody suspects itself.
    group:gms("cho"):suspect "bob"
    group.sim:run "1ms"
    tells(told, "cho: bob suspected: told so by hand")
    group:close()
  end)

  it("are told to the operator: the last 32, oldest first", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob" }
    assert.equal("ann begins alone: nobody was heard\nbob taken in: it asked\n",
      group:gms("ann"):decisions())
    assert.equal(2, group:gms("ann").decided)
    for _ = 1, 40 do group:leave "bob":run "1s":form { "bob" } end
    local count = select(2, group:gms("ann"):decisions():gsub("\n", ""))
    assert.equal(32, count)
    group:close()
  end)

  it("are told when the group is full", function()
    local group, told = watched { latency = "1ms", with = { gms = { max_members = 1 } } }
    group:form { "ann" }
    group:join "bob":run "3s"
    tells(told, "ann: bob refused: the group is full")
    group:close()
  end)
end)
