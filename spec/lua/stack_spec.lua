-- stack: stack files, what is wrong with them, and how they are put together.

local build = require "support.build"
local neap = require "neap"
local stacks = require "neap.stack"

local written = 0

-- Writes a stack file and gives its path.
local function file(text)
  written = written + 1
  return build.write(("stack_%d.lua"):format(written), text)
end

local function problems_of(text, changes)
  local path = file(text)
  local problems = stacks.problems(path, changes)
  for index, problem in ipairs(problems) do
    problems[index] = problem:gsub("^.-([^/]*%.lua)", function(name)
      return path:find(name, 1, true) and "mine.lua" or name
    end)
  end
  return problems
end

local function only_problem(text, changes)
  local problems = problems_of(text, changes)
  assert.equal(1, #problems, table.concat(problems, "\n"))
  return problems[1]
end

local function names(description)
  local list = {}
  for _, layer in ipairs(description.layers) do list[#list + 1] = layer.name end
  return table.concat(list, " ")
end

local function value(description, layer_name, attr)
  for _, layer in ipairs(description.layers) do
    for _, setting in ipairs(layer.settings) do
      if layer.name == layer_name and setting.name == attr then return setting.value end
    end
  end
end

local function loaded(text)
  local problems = {}
  local description = stacks.load(file(text), problems)
  assert.same({}, problems)
  return description
end

describe("a stack file", function()
  it("returns a description: top of the file is top of the stack", function()
    local d = loaded 'return stack "x" { "Sentence.", fifo { window = 8 }, discard {}, udp {} }'
    assert.equal("fifo discard udp", names(d))
    assert.equal("Sentence.", d.sentence)
    assert.equal(8, value(d, "fifo", "window"))
  end)

  it("starts nothing when it is loaded", function()
    loaded 'return stack "x" { "Sentence.", udp { group = "239.7.7.7:7600" } }'
  end)

  it("answers a name nobody knows with the nearest one", function()
    assert.equal("mine.lua:2: no layer called 'fifi' (did you mean 'fifo'?)",
      only_problem 'return stack "x" { "S.",\n  fifi {}, udp {} }')
  end)

  it("answers an attribute nobody knows with the nearest one", function()
    assert.equal("mine.lua:2: fifo has no parameter 'windw' (did you mean 'window'?)",
      only_problem 'return stack "x" { "S.",\n  fifo { windw = 5 }, udp {} }')
  end)

  it("says what a value should have been", function()
    local problem = only_problem(
      'return stack "x" { "S.",\n  fifo { patience = "20 parsecs" }, udp {} }')
    assert.equal('mine.lua:2: fifo.patience: cannot read "20 parsecs" as a time such as "50ms"',
      problem)
  end)

  it("tells all problems at once", function()
    local problems = problems_of [[
return stack "x" { "S.",
  fifi {},
  fifo { windw = 5, patience = 20, window = 5000 },
  gms { join_timeout = "${HOME}" },
  udp { group = 7 },
}]]
    assert.equal(6, #problems, table.concat(problems, "\n"))
    for _, problem in ipairs(problems) do assert.truthy(problem:match "^mine.lua:[2-5]: ") end
  end)

  it("says what it lacks, where, and which layer would help", function()
    local problem = problems_of('return stack "x" { "S.",\n  gms {},\n  udp {} }')[1]
    assert.truthy(problem:match "^mine.lua:2: gms needs 'mcast_reliable'", problem)
    assert.truthy(problem:find("there holds: unicast multicast jgroups5", 1, true), problem)
    assert.truthy(problem:find("it would be given by nakack", 1, true), problem)
  end)

  it("refuses ${NAME} and points there", function()
    local problem = only_problem 'return stack "x" { "S.",\n  udp { group = "${GROUP}" } }'
    assert.equal('mine.lua:2: udp.group: "${GROUP}" is not replaced: ' ..
      'write env("NAME", default) instead', problem)
  end)

  it("reads the environment with env", function()
    local d = loaded 'return stack "x" { "S.", udp { group = env("NEAP_NO_SUCH", "239.7.7.7:1") } }'
    assert.equal("239.7.7.7:1", value(d, "udp", "group"))
    assert.equal("mine.lua:1: the environment variable NEAP_NO_SUCH is not set",
      only_problem 'return stack "x" { "S.", udp { group = env "NEAP_NO_SUCH" } }')
    assert.equal(os.getenv "PATH",
      value(loaded 'return stack "x" { "S.", udp { interface = env("PATH", "x") } }', "udp",
        "interface"))
  end)

  it("begins with its sentence", function()
    assert.equal("mine.lua:1: a stack begins with the sentence that it promises",
      only_problem 'return stack "x" { udp {} }')
  end)

  it("has one layer of each name, unless one is called otherwise", function()
    assert.truthy(only_problem('return stack "x" { "S.", discard {}, discard {}, udp {} }')
      :find("as = \"...\"", 1, true))
    local d = loaded 'return stack "x" { "S.", discard { as = "upper" }, discard {}, udp {} }'
    assert.equal("upper discard udp", names(d))
  end)

  it("refuses layers that are called like a method of stacks", function()
    for _, name in ipairs { "set", "undo", "layers", "metrics", "applied", "insert", "remove" } do
      local problem = only_problem(
        ('return stack "x" { "S.", discard { as = "%s" }, udp {} }'):format(name))
      assert.truthy(problem:find(("a layer cannot be called '%s'"):format(name), 1, true), problem)
    end
  end)

  it("is Lua: loops and conditions compose it", function()
    local d = loaded [[
local layers = { "Sentence." }
for i = 1, 2 do layers[#layers + 1] = discard { as = "d" .. i } end
layers[#layers + 1] = udp {}
return stack "x" (layers)]]
    assert.equal("d1 d2 udp", names(d))
  end)

  it("ends, whatever it contains", function()
    local said = "mine.lua:%d: this runs without end: no stack after 2 million instructions"
    assert.equal(said:format(3), only_problem("local n = 0\nwhile true do\n  n = n + 1\nend"))
    -- Nor does it help to catch what ends it, or to be busy elsewhere.
    assert.equal(said:format(2), only_problem(
      "local function f()\n  while true do end\nend\nwhile true do pcall(f) end"))
    assert.equal(said:format(1), only_problem "for i = 1, 1e12 do tostring(i) end")
    assert.equal(said:format(1), only_problem "while true do local layer = udp {} end")
    assert.is_nil((debug.gethook()))
    assert.equal("udp", names(loaded [[
local sum = 0
for i = 1, 1e5 do sum = sum + i end
return stack "x" { "S.", udp {} }]]))
  end)

  it("has no globals of its own", function()
    assert.equal("mine.lua:1: 'x' would be a global: write local x = ...",
      only_problem 'x = 5 return stack "x" { "S.", udp {} }')
  end)

  it("loses no entry: neither what follows a nil nor what has a name", function()
    assert.equal("mine.lua:1: entry 2 is nil, and something follows it",
      only_problem 'return stack "x" { "S.", nil, udp {} }')
    assert.equal("mine.lua:1: 'fifo = ...' is no entry of a stack: write fifo { ... }",
      only_problem 'return stack "x" { "S.", fifo = { window = 8 }, udp {} }')
    assert.equal('mine.lua:2: before changes a stack that is there: extend("lan", { before ... })',
      only_problem 'return stack "x" { "S.",\n  before("udp", discard {}), udp {} }')
  end)

  it("calls a layer by a word", function()
    for _, word in ipairs { "5", '""', '"two words"', '("x"):rep(64)', "{}" } do
      assert.truthy(only_problem(
        ('return stack "x" { "S.",\n  discard { as = %s }, udp {} }'):format(word))
        :match "^mine.lua:2: as = .*: a layer is called by one word of at most 63 letters$")
    end
  end)

  it("reads a text to its end", function()
    assert.equal('mine.lua:2: fifo.patience: "5ms\\0junk" has a zero byte',
      only_problem 'return stack "x" { "S.",\n  fifo { patience = "5ms\\0junk" }, udp {} }')
    assert.truthy(only_problem 'return stack "x" { "S.",\n  fifo { ["window\\0"] = 8 }, udp {} }'
      :match "^mine.lua:2: a setting's name has no zero bytes")
  end)

  it("asks for variables by their names", function()
    assert.equal("mine.lua:1: env is followed by the name of a variable, not by a nil",
      only_problem 'return stack "x" { "S.", udp { group = env(nil, "239.7.7.7:1") } }')
  end)

  it("must return a stack", function()
    assert.truthy(only_problem("local x = 1"):find("this one returns nothing", 1, true))
  end)

  it("shows errors of Lua with their line", function()
    assert.truthy(only_problem('return stack "x" {\n "S." udp {} }'):match "mine.lua:2: ")
    assert.truthy(only_problem('local x = nil\nreturn x.y'):match "mine.lua:2: ")
  end)
end)

describe("extend", function()
  it("merges by name", function()
    local d = loaded [[
return extend("lan", {
  "Mine.",
  stable { interval = "5s" },
  before("udp", discard { up = 0.1 }),
  after("rsvp", discard { as = "upper" }),
  replace(udp { group = "239.1.1.1:1" }),
  remove "fd_all",
})]]
    assert.equal(
      "rsvp upper frag ufc mfc settings gms stable unicast nakack verify_suspect ping discard udp",
      names(d))
    assert.equal("Mine.", d.sentence)
    assert.equal("5s", value(d, "stable", "interval"))
    assert.equal("2MB", value(d, "stable", "max_bytes")) -- what is not named stays
    assert.equal("239.1.1.1:1", value(d, "udp", "group"))
  end)

  it("leaves the stack that it extends as it is", function()
    local text = 'return extend("lan", { stable { interval = "5s" }, remove "rsvp" })'
    loaded(text)
    assert.equal("20s", value(stacks.load("lan", {}), "stable", "interval"))
    assert.truthy(names(stacks.load("lan", {})):match "^rsvp ")
  end)

  it("tells a layer that is not there", function()
    assert.equal("mine.lua:2: the stack has no layer called 'stabel' (did you mean 'stable'?)",
      only_problem 'return extend("lan", {\n  remove "stabel" })')
    assert.equal("mine.lua:2: the stack has no layer called 'fifo'; before(...) puts one in",
      only_problem 'return extend("lan", {\n  fifo {} })')
  end)

  it("is told where it stands, though its return leaves no frame", function()
    assert.truthy(only_problem('-- A comment.\nlocal x = 1\nreturn extend("lann", {\n  "S.",\n})')
      :match "^mine.lua:3: no stack called 'lann' %(did you mean 'lan'%?%)")
    assert.equal("mine.lua:3: entry 2 is no layer and no change but a number",
      only_problem 'local x = 1\nlocal y = 2\nreturn extend("lan", {\n  "S.",\n  5,\n})')
    local ok, problem = pcall(neap.stack, function(s) return s.extend("lann", {}) end)
    assert.is_false(ok)
    assert.truthy(problem:match "stack_spec.lua:%d+: no stack called 'lann'", problem)
    assert.is_nil((debug.gethook()))
  end)

  it("knows the lines of what is shipped, from wherever it is read", function()
    local problem = problems_of('return extend("lan", { remove "nakack" })')[1]
    assert.truthy(problem:match "lan.lua:6: rsvp needs 'mcast_reliable'", problem)
  end)

  it("cannot go on for ever", function()
    local path = file ""
    local handle = assert(io.open(path, "w"))
    handle:write(('\nreturn extend(%q, { "S." })'):format(path))
    handle:close()
    local problems = stacks.problems(path)
    assert.equal(1, #problems)
    assert.truthy(problems[1]:match "%.lua:2: .* extends itself$", problems[1])
    assert.same({}, (stacks.problems "lan"))
  end)

  it("takes changes only", function()
    assert.truthy(only_problem('return extend("lan", 5)')
      :match "^mine.lua:1: extend is followed by")
    assert.equal("mine.lua:1: entry 2 is no layer and no change but a number",
      only_problem 'return extend("lan", { "S.", 5 })')
    assert.equal("mine.lua:1: 'stable = ...' is no entry of a stack: write stable { ... }",
      only_problem 'return extend("lan", { "S.", stable = { interval = "5s" } })')
  end)

  it("tells an edit without its layer", function()
    assert.truthy(only_problem('return extend("lan", { before("udp") })')
      :find("before needs a layer", 1, true))
  end)

  it("keeps the place of what it took over", function()
    local problem = only_problem('return extend("lan", {\n  stable { intervall = "5s" } })')
    assert.equal("mine.lua:2: stable has no parameter 'intervall' (did you mean 'interval'?)",
      problem)
  end)
end)

describe("with", function()
  it("changes a stack in its own shape", function()
    local sim = neap.sim { seed = 1 }
    local ann = sim:join("g", { stack = "lan", name = "ann", with = {
      fd_all = { timeout = "2s", interval = "500ms" }, stable = { max_bytes = 0 },
    } })
    assert.equal("2s", tostring(ann.fd_all.timeout))
    assert.equal("0", tostring(ann.stable.max_bytes))
  end)

  it("is checked like the file, at the caller's line", function()
    local sim = neap.sim { seed = 1 }
    local ok, problem = pcall(sim.join, sim, "g", { stack = "bare", with = { udq = {} } })
    assert.is_false(ok)
    assert.truthy(problem:match
      "stack_spec.lua:%d+: the stack has no layer called 'udq' %(did you mean 'udp'%?%)$", problem)
    ok, problem = pcall(sim.join, sim, "g", { stack = "bare", with = { udp = { group = 3 } } })
    assert.is_false(ok)
    assert.truthy(problem:match "stack_spec.lua:%d+: udp.group: ", problem)
  end)
end)

describe("a stack's name", function()
  it("is looked for among the stacks, with those it may have been", function()
    local ok, problem = pcall(neap.stack, "lann")
    assert.is_false(ok)
    assert.truthy(problem:match "stack_spec.lua:%d+: no stack called 'lann'")
    assert.is_nil(problem:match "lua/stacks/") -- A folder that is not there.
  end)

  it("is a path when it has a slash", function()
    local d = neap.stack(file 'return stack "mine" { "S.", udp {} }')
    assert.equal("mine", d.name)
  end)

  it("may be a function that is written like a file", function()
    local d = neap.stack(function(s) return s.stack "mine" { "S.", s.udp {} } end)
    assert.equal("udp", names(d))
  end)
end)

describe("the shipped stacks", function()
  for _, name in ipairs { "lan", "lossy", "teaching", "bare" } do
    it("are sound: " .. name, function()
      assert.same({}, (stacks.problems(name)))
    end)
  end
end)
