-- stack: from a stack file to a description, and all its problems at once.
--
--     return stack "lan" {                            top of the file is top of the stack
--       "The sentence it promises.",
--       rsvp { timeout = "10s" },
--       ...
--     }
--
-- A file sees constructors of layers, and `stack extend before after replace remove env`; loading
-- it starts nothing.  A description is plain data:
--
--     { name, file, sentence,
--       layers = { { name, class, at, settings = { { name, value, at } } } } }
--
-- where `at` is "file:line".  Nothing is opened before everything was checked, attributes and
-- promises by C (neap_stack_check), which gets lines that are numbers of places in this file.

local classes = require "neap.classes"
local core = require "neap.core"
local ffi = require "ffi"
local keys = require "neap.keys"
local mistake = require "neap.mistake"
local nearest = require "neap.nearest"
local quantity = require "neap.quantity"
local stack_file = require "neap.stack_file"

local stack = {}

local NAME_MAX = 64 -- NEAP_NAME_MAX

local Description = {}
Description.__index = Description

-- ---- problems -----------------------------------------------------------------------------------

local function told(problems, at, format, ...)
  if at == "?" then -- Asked for by a command.
    problems[#problems + 1] = format:format(...)
  else
    problems[#problems + 1] = ("%s: " .. format):format(at, ...)
  end
end

local function raise_all(problems, what)
  if #problems == 0 then return end
  if #problems == 1 then error(problems[1], 0) end
  error(("%s has %d problems:\n  %s"):format(what, #problems, table.concat(problems, "\n  ")), 0)
end

-- ---- what a file is made of ---------------------------------------------------------------------

-- Settings of a layer as rows, in the order of the alphabet.
local function settings_of(given, at, problems)
  local rows, as = {}, nil
  for _, name in ipairs(keys.sorted(given)) do
    local value = given[name]
    if name == "as" and type(value) == "string" and value:match "^[%a_][%w_]*$" and
      #value < NAME_MAX then
      as = value
    elseif name == "as" then
      told(problems, at, "as = %s: a layer is called by one word of at most %d letters",
        type(value) == "string" and ("%q"):format(value) or tostring(value), NAME_MAX - 1)
    elseif type(name) ~= "string" then
      told(problems, at, "a setting is written name = value, not %s", tostring(value))
    elseif name:find "%z" then
      told(problems, at, "a setting's name has no zero bytes: %q", name)
    else
      rows[#rows + 1] = { name = name, value = value, at = at }
    end
  end
  return rows, as
end

local function layer_of(class, given, at, problems)
  if type(given) ~= "table" then
    told(problems, at, "%s is followed by its settings: %s {}", class.name, class.name)
    given = {}
  end
  local settings, as = settings_of(given, at, problems)
  return { name = as or class.name, as = as, class = class, at = at, settings = settings }
end

local function is_layer(value) return type(value) == "table" and value.settings ~= nil end

-- What ipairs does not come by would be lost without a word: named entries, and what follows a nil.
local function complete(list, at, problems)
  for _, key in ipairs(keys.sorted(list)) do
    if type(key) ~= "number" then
      told(problems, at, "'%s = ...' is no entry of a stack: write %s { ... }", tostring(key),
        tostring(key))
    elseif list[key - 1] == nil and key > 1 then
      told(problems, at, "entry %d is nil, and something follows it", key - 1)
    end
  end
end

-- Adds the rows of a list to a new description: a sentence and layers.
local function fill(description, list, problems)
  complete(list, description.at, problems)
  for index, entry in ipairs(list) do
    if type(entry) == "string" then
      if index > 1 then
        told(problems, description.at, "the sentence comes first, not after the layers: %q", entry)
      end
      description.sentence = entry
    elseif is_layer(entry) then
      table.insert(description.layers, entry)
    elseif type(entry) == "table" and entry.edit then
      told(problems, entry.at, "%s changes a stack that is there: extend(\"lan\", { %s ... })",
        entry.edit, entry.edit)
    elseif type(entry) ~= "table" or not entry.unknown then
      told(problems, description.at, "entry %d is no layer but a %s", index, type(entry))
    end
  end
end

local function named(layers, name)
  for index, layer in ipairs(layers) do
    if layer.name == name then return index, layer end
  end
end

local function names_of(layers)
  local names = {}
  for index, layer in ipairs(layers) do names[index] = layer.name end
  return names
end

local function merge(layer, settings)
  for _, new in ipairs(settings) do
    local found
    for index, old in ipairs(layer.settings) do
      if old.name == new.name then found = index end
    end
    layer.settings[found or #layer.settings + 1] = new
  end
end

local function copy_layer(layer)
  local copy = { name = layer.name, as = layer.as, class = layer.class, at = layer.at }
  copy.settings = {}
  for index, setting in ipairs(layer.settings) do copy.settings[index] = setting end
  return copy
end

local function copy(description)
  local new = setmetatable({
    name = description.name, file = description.file, at = description.at,
    sentence = description.sentence, layers = {},
  }, Description)
  for index, layer in ipairs(description.layers) do new.layers[index] = copy_layer(layer) end
  return new
end

-- Where an edit points to, or a problem.
local function place(description, edit, name, problems)
  local index, layer = named(description.layers, name)
  if not index then
    told(problems, edit.at, "the stack has no layer called '%s'%s%s", name, nearest(name,
      names_of(description.layers)), is_layer(edit) and "; before(...) puts one in" or "")
  end
  return index, layer
end

local function apply(description, edit, problems)
  if is_layer(edit) then
    local index, layer = place(description, edit, edit.name, problems)
    if index then merge(layer, edit.settings) end
  elseif edit.edit == "remove" then
    local index = place(description, edit, edit.name, problems)
    if index then table.remove(description.layers, index) end
  elseif edit.edit == "replace" then
    local index = place(description, edit, edit.name or edit.layer.name, problems)
    if index then description.layers[index] = copy_layer(edit.layer) end
  elseif edit.edit == "before" or edit.edit == "after" then
    local index = place(description, edit, edit.name, problems)
    if index then
      if edit.edit == "after" then index = index + 1 end
      table.insert(description.layers, index, copy_layer(edit.layer))
    end
  end
end

-- ---- the environment of a stack file ------------------------------------------------------------

-- The Lua that a stack file may use: nothing that reads a clock or starts something.
local allowed = {}
for _, name in ipairs {
  "assert", "error", "ipairs", "math", "next", "pairs", "pcall", "print", "require", "select",
  "string", "table", "tonumber", "tostring", "type", "unpack",
} do allowed[name] = _G[name] end

-- An edit that is waiting for its layer: before("gms", flush {}).
local function edit_of(kind, at, problems, name, layer)
  if kind ~= "remove" and layer == nil then name, layer = nil, name end
  if kind == "remove" then
    if type(name) ~= "string" then
      told(problems, at, "remove is followed by the name of a layer")
      return { unknown = true }
    end
  elseif not is_layer(layer) then
    if not (type(layer) == "table" and layer.unknown) then
      told(problems, at, "%s needs a layer: %s(\"name\", layer {})", kind, kind)
    end
    return { unknown = true }
  elseif kind ~= "replace" and type(name) ~= "string" then
    told(problems, at, "%s needs the name of a layer first: %s(\"name\", layer {})", kind, kind)
    return { unknown = true }
  end
  return { edit = kind, name = name, layer = layer, at = at }
end

local function describe(name, list, at, file, problems)
  local description = setmetatable({ name = name, file = file, at = at, layers = {} }, Description)
  if type(list) ~= "table" then
    told(problems, at, "stack %q is followed by a table of layers", name)
    return description
  end
  fill(description, list, problems)
  if not description.sentence then
    told(problems, at, "a stack begins with the sentence that it promises")
  end
  return description
end

local function extend(base, list, at, file, problems)
  local before = stack.load(base, problems, at)
  if not before then return describe("?", { "?" }, at, file, problems) end
  local description = copy(before)
  description.at, description.file = at, file
  if type(list) ~= "table" then
    told(problems, at, "extend is followed by a table of changes: extend(\"lan\", { ... })")
    return description
  end
  complete(list, at, problems)
  for index, entry in ipairs(list) do
    if type(entry) == "string" then
      description.sentence = entry
    elseif type(entry) == "table" and (entry.edit or is_layer(entry)) then
      apply(description, entry, problems)
    elseif type(entry) ~= "table" or not entry.unknown then
      told(problems, at, "entry %d is no layer and no change but a %s", index, type(entry))
    end
  end
  return description
end

-- Reads an environment variable, in stack files only; numbers come as text and are read as such.
local function env(name, default, at, problems)
  if type(name) ~= "string" then
    told(problems, at, "env is followed by the name of a variable, not by a %s", type(name))
    return default
  end
  local value = os.getenv(name)
  if value ~= nil then return value end
  if default == nil then told(problems, at, "the environment variable %s is not set", name) end
  return default
end

local function environment(file, problems, at)
  local e = {}
  function e.stack(name)
    local where = at()
    return function(list) return describe(name, list, where, file, problems) end
  end
  function e.extend(base, list)
    local where = at()
    if list ~= nil then return extend(base, list, where, file, problems) end
    return function(more) return extend(base, more, where, file, problems) end
  end
  function e.env(name, default) return env(name, default, at(), problems) end
  for _, kind in ipairs { "before", "after", "replace", "remove" } do
    e[kind] = function(name, layer) return edit_of(kind, at(), problems, name, layer) end
  end
  return setmetatable(e, {
    __index = function(_, name)
      if allowed[name] ~= nil then return allowed[name] end
      local class = classes.find(name)
      if class then return function(given) return layer_of(class, given, at(), problems) end end
      told(problems, at(), "no layer called '%s'%s", name, package.searchpath(name, package.path)
        and (", but a file: local %s = require \"%s\" comes first"):format(name, name)
        or nearest(name, classes.names()))
      return setmetatable({ unknown = true }, { __call = function(t) return t end })
    end,
    __newindex = function(_, name)
      told(problems, at(), "'%s' would be a global: write local %s = ...", name, name)
    end,
  })
end

-- A layer made by neap.layer, called: third { n = 3 }.
function stack.layer(class, given)
  local problems = {}
  local layer = layer_of(class, given, mistake.where(), problems)
  raise_all(problems, class.name)
  return layer
end

-- ---- finding and loading ------------------------------------------------------------------------

-- Runs a chunk that returns a description.
local function run(chunk, file, problems)
  local e
  local function body()
    local result = chunk(e)
    return result
  end
  local at, call = stack_file.followed(chunk, body)
  e = environment(file, problems, at)
  local before = #problems
  setfenv(chunk, e)
  local ok, result = call(function(problem)
    return type(problem) == "string" and problem or mistake.traceback(problem)
  end)
  if not ok then
    -- What an unknown name led to is no news.
    if #problems == before then problems[#problems + 1] = result end
    return nil
  end
  if getmetatable(result) ~= Description then
    told(problems, file, "a stack file returns stack \"name\" { ... }, this one returns %s",
      result == nil and "nothing" or "a " .. type(result))
    return nil
  end
  return result
end

local loading = {} -- paths of files that run right now

local function load_file(path, at, problems)
  if loading[path] then
    told(problems, at or mistake.where(), "%s extends itself", stack_file.shown(path))
    return nil
  end
  local chunk, problem = loadfile(path)
  if not chunk then
    problems[#problems + 1] = problem
    return nil
  end
  loading[path] = true
  local description = run(chunk, stack_file.shown(path), problems)
  loading[path] = nil
  return description
end

-- A description from a name, a path, a description or a function that makes one; nil, and problems
-- told, when there is none.  `at`: who asks, if that is a stack file.
function stack.load(what, problems, at)
  if getmetatable(what) == Description then return what end
  if type(what) == "function" then
    return run(what, debug.getinfo(what, "S").short_src, problems)
  end
  if type(what) ~= "string" then
    told(problems, at or mistake.where(), "a stack is a name, a path or a description, not a %s",
      type(what))
    return nil
  end
  local path = stack_file.path(what)
  if not path or not stack_file.readable(path) then
    told(problems, at or mistake.where(), "no stack called '%s'%s in %s", what,
      path and "" or nearest(what, stack_file.names()),
      path or table.concat(stack_file.folders(), ", "))
    return nil
  end
  return load_file(path, at, problems)
end

-- ---- with ---------------------------------------------------------------------------------------

-- Changes in the stack's own shape: { fd_all = { timeout = "2s" } }.
local function with(description, changes, problems)
  local new, at = copy(description), mistake.where()
  if type(changes) ~= "table" then
    told(problems, at, "with is a table of layers: { fd_all = { timeout = \"2s\" } }")
    return new
  end
  for _, name in ipairs(keys.sorted(changes)) do
    local given = changes[name]
    local index, layer = place(new, { at = at }, tostring(name), problems)
    if index and type(given) ~= "table" then
      told(problems, at, "%s is followed by its settings: { %s = { name = value } }", name, name)
    elseif index then
      merge(layer, (settings_of(given, at, problems)))
    end
  end
  return new
end

-- ---- for C --------------------------------------------------------------------------------------

local types = {
  layers = ffi.typeof "struct neap_layer_spec[?]",
  settings = ffi.typeof "struct neap_setting[?]",
}

local PLACES = "\1" -- the "file" whose line numbers are numbers of places

-- Fills a struct neap_setting; C reads the values, so load and set at run time say the same.  The
-- value, or nil when C need not see it.
local function setting_for(c, setting, layer, problems)
  local value = setting.value
  if type(value) == "string" and value:find "%${" then
    told(problems, setting.at, "%s.%s: %q is not replaced: write env(\"NAME\", default) instead",
      layer.name, setting.name, value)
    return nil
  elseif type(value) == "string" and value:find "%z" then
    told(problems, setting.at, "%s.%s: %q has a zero byte", layer.name, setting.name, value)
    return nil
  elseif type(value) == "boolean" then
    value = value and "on" or "off"
  elseif quantity.is(value) then
    value = tostring(value)
  end
  c.attr = setting.name
  if type(value) == "number" then
    c.number, c.is_number = value, true
  elseif type(value) == "string" then
    c.text = value
  else
    told(problems, setting.at, "%s.%s: a %s is no value", layer.name, setting.name, type(value))
    return nil
  end
  return value
end

-- The C form, and what has to live as long as it.
local function spec_of(description, problems)
  local spec, places, keep = ffi.new "struct neap_stack_spec", {}, {}
  local function number(at)
    places[#places + 1] = at
    return #places
  end
  spec.name, spec.file = description.name, PLACES
  spec.count = #description.layers
  local layers = types.layers(#description.layers)
  for index, layer in ipairs(description.layers) do
    local c = layers[index - 1]
    local settings = types.settings(#layer.settings)
    c.class, c.line = layer.class.class, number(layer.at)
    if layer.as then c.as = layer.as end
    c.settings, c.setting_count = settings, 0
    for _, setting in ipairs(layer.settings) do
      local value = setting_for(settings[c.setting_count], setting, layer, problems)
      if value ~= nil then
        settings[c.setting_count].line = number(setting.at)
        c.setting_count = c.setting_count + 1
        keep[#keep + 1] = value
      end
    end
    keep[#keep + 1] = settings
  end
  spec.layers = layers
  keep[#keep + 1] = layers
  return spec, places, keep
end

-- Asks C; when something could not be read, what is there is checked as far as it goes.
local function checked(description, problems)
  local partial = #problems > 0
  local spec, places, keep = spec_of(description, problems)
  spec.partial = partial or #problems > 0
  if spec.partial and spec.count == 0 then return spec, keep end
  for _, problem in ipairs(core.check(spec)) do
    problem = problem:gsub(PLACES .. ":(%d+)", function(n) return places[tonumber(n)] end)
    problems[#problems + 1] = problem:gsub(PLACES, description.at)
  end
  return spec, keep
end

-- Everything that is wrong with a stack, as a list; the description if it could be read.
function stack.problems(what, changes)
  local problems = {}
  local description = stack.load(what, problems)
  if description and changes then description = with(description, changes, problems) end
  if description then checked(description, problems) end
  return problems, description
end

-- A checked description: { description, spec (for C), keep }.  Raises all problems at once.
function stack.ready(what, changes)
  local problems = {}
  local description = stack.load(what, problems)
  if description and changes then description = with(description, changes, problems) end
  local spec, keep
  if description then spec, keep = checked(description, problems) end
  raise_all(problems, type(what) == "string" and "stack " .. what or "this stack")
  spec.file = description.file
  return { description = description, spec = spec, keep = keep }
end

-- neap.stack(f): a description from a function that is written like a stack file, or gets its words
-- as a table: neap.stack(function(s) return s.stack "mine" { "Sentence.", s.udp {} } end).
function stack.describe(what)
  local problems = {}
  local description = stack.load(what, problems)
  raise_all(problems, "this stack")
  return description
end

return stack
