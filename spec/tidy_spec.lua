-- tidy: the rules of the house that a program can check.
--
-- Arrows between floors point down; few files may include lua.h, uv.h or sockets; some calls are
-- banned; every attribute row has a unit and a sentence; every layer has a sentence, a spec and a
-- page; files, functions and lines are short; nothing is unfinished; words that layers give have a
-- checker.

local lfs = require "lfs"
local mutant_rows = require "support.mutant_rows"
local reference = require "neap.reference"

-- Files that read better longer, each with its reason.
local LONG = {}

-- Layers that ask the system for memory, each with its reason; the others take it from pools.
local ALLOCATES = {
  ["csrc/layers/check_rsvp.c"] = "a checker",
  ["csrc/layers/check_stable.c"] = "a checker",
  ["csrc/layers/check_state.c"] = "a checker",
  ["csrc/layers/chosen/held.c"] = "in open, and when its size is set",
  ["csrc/layers/frag.c"] = "once, in open",
  ["csrc/layers/rsvp/requests.c"] = "for each synchronous send, with its targets",
  ["csrc/layers/rsvp/answers.c"] = "for each synchronous send that is owed an answer",
  ["csrc/layers/settings/coordinator.c"] = "for each change of the group that waits",
  ["csrc/layers/stable/holds.c"] = "for each digest that is handed out",
  ["csrc/layers/stable/wire.c"] = "for each view, in its size",
}

-- Words that no layer watches, and who does.
local WATCHED = {
  unicast = "the wire", multicast = "the wire", jgroups5 = "the promise check itself",
  discovery = "support/oracle: in the end all are in one view",
  suspicion = "support/oracle: in the end the dead are in no view",
  flow = "layers/flow: its check, and spec/support/credits",
}

local UNWANTED = { util = true, utils = true, common = true, misc = true, helper = true,
  helpers = true, manager = true, data = true, info = true }

local function files(folder, pattern, found)
  found = found or {}
  local names = {}
  for name in lfs.dir(folder) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local path = folder .. "/" .. name
    if name:sub(1, 1) ~= "." then
      if lfs.attributes(path, "mode") == "directory" then
        files(path, pattern, found)
      elseif name:match(pattern) then
        found[#found + 1] = path
      end
    end
  end
  return found
end

local function text_of(path)
  local f = assert(io.open(path))
  local text = f:read "*a"
  f:close()
  return text
end

local function lines_of(path)
  local list = {}
  for line in (text_of(path) .. "\n"):gmatch "(.-)\n" do list[#list + 1] = line end
  if list[#list] == "" then list[#list] = nil end
  return list
end

-- Without comments and strings, so that prose is not taken for code; line breaks stay.
local function code_of(path)
  local text = text_of(path)
  local function blank(s) return (s:gsub("[^\n]", " ")) end
  if path:match "%.[ch]$" or path:match "%.def$" then
    text = text:gsub("/%*.-%*/", blank):gsub('"[^"\n]*"', blank)
  else
    text = text:gsub("%-%-%[%[.-%]%]", blank):gsub("%-%-[^\n]*", blank):gsub('"[^"\n]*"', blank)
  end
  return text
end

local C = files("csrc", "%.[ch]$")
local LUA = files("lua", "%.lua$")
local ALL = {}
for _, list in ipairs { C, LUA, files("stacks", "%.lua$"), files("spec", "%.lua$"),
  files("examples", "%.[luac]+$") } do
  for _, path in ipairs(list) do ALL[#ALL + 1] = path end
end

local function expect_none(problems)
  assert(#problems == 0, "\n" .. table.concat(problems, "\n"))
end

-- What a floor may include from csrc, by the first part of the path.
local FLOORS = {
  base = { base = true },
  core = { base = true, core = true },
  layers = { base = true, core = true, layers = true },
  real = { base = true, core = true, real = true },
  sim = { base = true, core = true, sim = true },
  bind = { base = true, core = true, real = true, sim = true, bind = true },
  bench = { base = true, core = true, real = true, sim = true, bench = true },
}

describe("the house", function()
  it("has arrows that only point down", function()
    local problems = {}
    for _, path in ipairs(C) do
      local floor = path:match "^csrc/(%w+)/"
      for line in text_of(path):gmatch '#include "([^"]+)"' do
        local target = line:match "^(%w+)/"
        if floor and target and not FLOORS[floor][target] then
          problems[#problems + 1] = path .. " includes " .. line
        end
        -- A layer knows no other: only its own parts, and parts that are no layer by themselves.
        local other = line:match "^layers/([%w_]+)"
        local own = path:match "^csrc/layers/([%w_]+)"
        if other and other ~= own and lfs.attributes("csrc/layers/" .. other .. ".c") then
          problems[#problems + 1] = path .. " includes another layer's " .. line
        end
      end
    end
    for _, path in ipairs(LUA) do
      for name in text_of(path):gmatch 'require%s*%(?%s*"([%w_.]+)"' do
        if name:match "^spec" or name:match "^support" or name:match "^stacks" then
          problems[#problems + 1] = path .. " requires " .. name
        end
      end
    end
    expect_none(problems)
  end)

  it("includes lua.h only in bind, uv.h and sockets only in real", function()
    local problems = {}
    local only = { ["lua.h"] = "bind", ["lauxlib.h"] = "bind", ["lualib.h"] = "bind",
      ["uv.h"] = "real", ["sys/socket.h"] = "real", ["netinet/in.h"] = "real",
      ["histedit.h"] = "bind", ["editline/readline.h"] = "bind" }
    for _, path in ipairs(C) do
      local floor = path:match "^csrc/(%w+)/"
      for name in text_of(path):gmatch "#include <([^>]+)>" do
        if only[name] and floor ~= only[name] and floor ~= "bench" then
          problems[#problems + 1] = path .. " includes " .. name
        end
      end
    end
    expect_none(problems)
  end)

  it("makes no banned calls", function()
    local problems = {}
    local function ban(paths, except, words)
      for _, path in ipairs(paths) do
        local code = code_of(path)
        for _, word in ipairs(words) do
          local allowed = except[path:match "^csrc/(%w+)/" or path:match "repl" or ""]
          if not allowed and code:find("%f[%w_]" .. word .. "%s*%(") then
            problems[#problems + 1] = path .. " calls " .. word
          end
        end
      end
    end
    ban(C, { bench = true }, { "rand", "random", "drand48", "usleep", "sleep", "gettimeofday" })
    ban(C, { real = true, bench = true }, { "time", "clock_gettime", "uv_hrtime" })
    local layers = files("csrc/layers", "%.[ch]$")
    ban(layers, {}, { "printf", "getenv" })
    for _, path in ipairs(layers) do
      if not ALLOCATES[path] then ban({ path }, {}, { "malloc", "calloc", "realloc" }) end
    end
    ban(LUA, { repl = true }, { "print" })
    expect_none(problems)
  end)

  it("fills each header as a whole: a slot holds what the last message left there", function()
    local problems = {}
    for _, path in ipairs(files("csrc/layers", "%.[ch]$")) do
      for n, line in ipairs(lines_of(path)) do
        if line:find "_head_put%(.-%)%s*%->" then
          problems[#problems + 1] = ("%s:%d: %s"):format(path, n, line)
        end
      end
    end
    expect_none(problems)
  end)

  it("walks no table by pairs where order matters", function()
    local problems = {}
    for _, path in ipairs(LUA) do
      local n = 0
      for _, line in ipairs(lines_of(path)) do
        n = n + 1
        -- A line that says that its order is free: printing, or sorted right after.
        if line:find "%f[%w_]pairs%s*%(" and not line:find "%-%- any order" then
          problems[#problems + 1] = ("%s:%d: pairs"):format(path, n)
        end
      end
    end
    expect_none(problems)
  end)

  -- Compiled, a later #t gives the length from before: the compiler keeps the inner one.
  it("takes no table's length in what it appends to it", function()
    local problems = {}
    for _, path in ipairs(ALL) do
      for n, line in ipairs(path:match "%.lua$" and lines_of(path) or {}) do
        local t, value = line:match "([%w_.]+)%[#[%w_.]+ %+ 1%] = (.*)"
        if not t then t, value = line:match "table%.insert%(([%w_.]+), (.*)" end
        if t and (value:gsub("[%w_.]+", { [t] = "\1" })):find("#\1", 1, true) then
          problems[#problems + 1] = ("%s:%d: #%s in what is appended"):format(path, n, t)
        end
      end
    end
    expect_none(problems)
  end)

  it("keeps files, lines and functions short", function()
    local problems = {}
    for _, path in ipairs(ALL) do
      local lines = lines_of(path)
      local most = path:match "^stacks/" and 30 or path:match "^examples/" and 80 or 500
      if #lines > most and not LONG[path] then
        problems[#problems + 1] = ("%s has %d lines"):format(path, #lines)
      end
      local opened
      for n, line in ipairs(lines) do
        if #line > 100 and not line:find "https?://" then
          problems[#problems + 1] = ("%s:%d is %d wide"):format(path, n, #line)
        end
        if line:match "%s$" then
          problems[#problems + 1] = ("%s:%d ends in space"):format(path, n)
        end
        if path:match "%.c$" then
          if line == "{" then
            opened = n
          elseif line == "}" and opened then
            if n - opened > 60 then
              problems[#problems + 1] = ("%s:%d is a function of %d lines"):format(path, opened,
                n - opened)
            end
            opened = nil
          end
        elseif path:match "^lua/" then
          if line:match "^local function" or line:match "^function" then
            opened = n
          elseif line == "end" and opened then
            if n - opened > 60 then
              problems[#problems + 1] = ("%s:%d is a function of %d lines"):format(path, opened,
                n - opened)
            end
            opened = nil
          end
        end
      end
    end
    expect_none(problems)
  end)

  it("begins each file with what it promises", function()
    local problems = {}
    for _, path in ipairs(ALL) do
      local first = lines_of(path)[1] or ""
      local header = path:gsub("%.c$", ".h")
      local has_header = path:match "%.c$" and lfs.attributes(header) ~= nil
      if not has_header and not (first:match "^/%*" or first:match "^%-%-" or first:match "^#!"
        or path:match "^stacks/") then
        problems[#problems + 1] = path .. " begins with: " .. first
      end
    end
    expect_none(problems)
  end)

  it("names files by what they are about", function()
    local problems = {}
    for _, path in ipairs(ALL) do
      if UNWANTED[path:match "([^/]+)%.%w+$"] then problems[#problems + 1] = path end
    end
    expect_none(problems)
  end)

  it("has no platforms in layers", function()
    local problems = {}
    for _, path in ipairs(files("csrc/layers", "%.[ch]$")) do
      for n, line in ipairs(lines_of(path)) do
        if line:match "^#if" and not line:match "_H$" then
          problems[#problems + 1] = ("%s:%d: %s"):format(path, n, line)
        end
      end
    end
    expect_none(problems)
  end)

  it("is finished and speaks of itself alone", function()
    local problems = {}
    for _, path in ipairs(ALL) do
      if path ~= "spec/tidy_spec.lua" then
        for n, line in ipairs(lines_of(path)) do
          for _, word in ipairs { "TODO", "FIXME", "XXX", "%.%./shared", "/work/", "/root/" } do
            if line:find(word) then
              problems[#problems + 1] = ("%s:%d: %s"):format(path, n, line)
            end
          end
        end
      end
    end
    expect_none(problems)
  end)

  it("returns no uint32_t through the foreign function interface", function()
    local problems = {}
    for _, path in ipairs(LUA) do
      for n, line in ipairs(lines_of(path)) do
        if line:match "^%s*uint32_t%s+[%w_]+%s*%(" then
          problems[#problems + 1] = ("%s:%d: %s"):format(path, n, line)
        end
      end
    end
    expect_none(problems)
  end)
end)

-- Every layer there is but the one to copy, in C or in lua/neap/layers.
local function each_layer(f)
  for _, path in ipairs(files("lua/neap/layers", "%.lua$")) do
    reference.layer(path:match "([^/]+)%.lua$")
  end
  for _, path in ipairs { "csrc/layers/%s.c", "lua/neap/layers/%s.lua" } do
    for _, name in ipairs(reference.layer_names()) do
      local source = path:format(name)
      if lfs.attributes(source) then f(reference.layer(name), source) end
    end
  end
end

-- Begins with a capital, a number or a value that it explains.
local function is_sentence(text)
  return text:match "[.?]$" ~= nil and (text:match "^[%u%d]" or text:match "^%l+:") ~= nil
end

describe("each layer", function()
  it("is looked at here", function()
    local seen, problems = {}, {}
    each_layer(function(_, source) seen[source] = true end)
    for _, path in ipairs(files("csrc/layers", "%.c$")) do
      if path:match "^csrc/layers/[%w_]+%.c$" and not path:match "template" and not seen[path] then
        problems[#problems + 1] = path
      end
    end
    for _, path in ipairs(files("lua/neap/layers", "%.lua$")) do
      if not seen[path] then problems[#problems + 1] = path end
    end
    expect_none(problems)
  end)

  it("says in a sentence what it promises, and has a page", function()
    local problems, page = {}, text_of "csrc/layers/README.md"
    each_layer(function(layer, source)
      if not is_sentence(layer.doc) then
        problems[#problems + 1] = ("%s: doc is no sentence: %s"):format(source, layer.doc)
      end
      if source:match "^csrc" and not page:find("\n## " .. layer.name .. "\n", 1, true) then
        problems[#problems + 1] = source .. " has no page in csrc/layers/README.md"
      end
    end)
    expect_none(problems)
  end)

  it("has a unit and a sentence for each attribute, and a sentence for each operation", function()
    local problems = {}
    each_layer(function(layer, source)
      for _, attr in ipairs(layer.attrs) do
        local at = ("%s: %s "):format(source, attr.name)
        if attr.type == "number" and attr.unit == "" then
          problems[#problems + 1] = at .. "has no unit"
        end
        if not is_sentence(attr.doc) then
          problems[#problems + 1] = at .. "has no sentence: " .. attr.doc
        end
      end
      for _, op in ipairs(layer.ops) do
        if not is_sentence(op.doc) then
          problems[#problems + 1] = ("%s: %s has no sentence: %s"):format(source, op.name, op.doc)
        end
      end
    end)
    expect_none(problems)
  end)

  it("gives only words that somebody watches", function()
    local problems, watched = {}, {}
    each_layer(function(layer)
      if layer.name:match "^check_" then
        for word in (layer.needs .. " " .. layer.hears):gmatch "[%w_]+" do watched[word] = true end
      end
    end)
    each_layer(function(layer, source)
      for term in layer.gives:gmatch "%S+" do
        local word = term:match "^[%w_]+"
        if not watched[word] and not WATCHED[word] then
          problems[#problems + 1] = ("%s gives %s, and nobody watches it"):format(source, word)
        end
      end
    end)
    expect_none(problems)
  end)

  it("has a spec that names it", function()
    local problems, specs = {}, {}
    for _, path in ipairs(files("spec", "_spec%.lua$")) do specs[#specs + 1] = text_of(path) end
    local all = table.concat(specs, "\n")
    each_layer(function(layer, source)
      local own = "spec/layers/" .. layer.name .. "_spec.lua"
      if not lfs.attributes(own) and not all:find("%f[%w_]" .. layer.name .. "%f[^%w_]") then
        problems[#problems + 1] = source
      end
    end)
    expect_none(problems)
  end)
end)

describe("each fault of spec/mutants.md", function()
  it("is where its row says, and has a spec", function()
    local problems, listed = {}, {}
    local function problem(row, what)
      problems[#problems + 1] = ("%d, %s: %s"):format(row.n, row.where, what)
    end
    for _, row in ipairs(mutant_rows.read()) do
      local text = text_of("csrc/" .. row.where)
      if listed[row.n] then problem(row, "the number is taken") end
      listed[row.n] = true
      if row.was then
        local at, why = mutant_rows.place(row, text)
        if not at then problem(row, ("`%s` %s"):format(row.was, why)) end
      elseif not text:find(("NEAP_IS_MUTANT(%d)"):format(row.n), 1, true) then
        problem(row, "no NEAP_IS_MUTANT of this number")
      end
      for _, spec in ipairs(row.specs) do
        if not lfs.attributes("spec/" .. spec .. ".lua") then problem(row, "no spec " .. spec) end
      end
    end
    for _, path in ipairs(C) do
      for n in text_of(path):gmatch "NEAP_IS_MUTANT%((%d+)%)" do
        if not listed[tonumber(n)] then
          problems[#problems + 1] = path .. " has no row for " .. n
        end
      end
    end
    expect_none(problems)
  end)
end)
