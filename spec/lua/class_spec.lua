-- class: what is wrong with a layer is said when it is made, or when a stack is checked.

local neap = require "neap"

local param = neap.param

local function fails(text, f, ...)
  local ok, problem = pcall(f, ...)
  assert.is_false(ok)
  assert.truthy(tostring(problem):find(text, 1, true), tostring(problem))
end

describe("neap.layer", function()
  local function make(definition)
    return function() neap.layer "bad" (definition) end
  end

  it("says what is wrong with a layer", function()
    fails("a layer has no field 'upp'", make { doc = "x", upp = function() end })
    fails("says in doc what it promises", make {})
    fails("up is a function, not a number", make { doc = "x", up = 5 })
    fails("a direction has one form",
      make { doc = "x", up = function() end, each_up = function() end })
    fails("bad.n needs a doc line", make { doc = "x", attrs = { param { "n", default = 1 } } })
    fails("live is no, now, tick or timer",
      make { doc = "x", attrs = { param { "n", default = 1, live = "soon", doc = "x" } } })
    fails("layers have a method of that name",
      make { doc = "x", attrs = { param { "hold", default = 1, doc = "x" } } })
    fails("the default: a time needs a unit",
      make { doc = "x", attrs = { param { "n", unit = "ns", default = 5, doc = "x" } } })
    fails("bad.n: unit is a string, not a number",
      make { doc = "x", attrs = { param { "n", default = 1, unit = 5, doc = "x" } } })
    fails("headers need an id", make { doc = "x", headers = { { "a", "u8" } } })
    fails("has no form 'u9'", make { doc = "x", headers = { id = 2100, { "a", "u9" } } })
    fails("is no earlier field",
      make { doc = "x", headers = { id = 2100, { "a", "u8", when = { "b", 1 } } } })
    fails("attrs are written param", make { doc = "x", attrs = { { "n" } } })
    fails("an operation is written", make { doc = "x", ops = { hit = function() end } })
    fails("a layer's name is one word", neap.layer, "two words")
  end)

  it("says it at the line of the layer, also when that is what a file returns", function()
    local chunk = loadstring('\n\nreturn require("neap").layer "bad" { dok = "x" }', "@bad.lua")
    fails("bad.lua:3: bad: a layer has no field 'dok' (did you mean 'doc'?)", chunk)
  end)

  it("refuses header ids that clash, when the stack is checked", function()
    local one = neap.layer "one" { doc = "x", headers = { id = 2101, { "a", "u8" } } }
    local two = neap.layer "two" { doc = "x", headers = { id = 2101, { "b", "u8" } } }
    local sim = neap.sim { seed = 1 }
    local stack = neap.stack(function(s) return s.stack "t" { "S.", one {}, two {}, s.udp {} } end)
    fails("2101", sim.join, sim, "g", { stack = stack, name = "ann" })
  end)

  it("keeps promises: what it needs must be there", function()
    local needy = neap.layer "needy" { doc = "x", needs = "view" }
    local stack = neap.stack(function(s) return s.stack "t" { "S.", needy {}, s.udp {} } end)
    local sim = neap.sim { seed = 1 }
    fails("needy needs 'view'", sim.join, sim, "g", { stack = stack, name = "ann" })
  end)
end)
