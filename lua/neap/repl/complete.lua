-- complete: what Tab offers.  Looks at tables and at names of members, layers, attributes and
-- operations; never calls code of the user's.

local keys = require "neap.keys"

local keys_of_methods = { "send", "on", "view", "leave", "close", "flush_sent", "stack", "name",
  "address" }
local stack_methods = { "set", "undo", "layers", "metrics", "journal", "applied" }

local complete = {}

-- All names that make sense at the prompt, to compare a misspelt one with.
function complete.known(session)
  local list, seen = {}, {}
  local function learn(names)
    for _, name in ipairs(names) do
      if not seen[name] then list[#list + 1] = name end
      seen[name] = true
    end
  end
  learn(session.names())
  learn(keys.sorted(session.env))
  learn(keys_of_methods)
  learn(stack_methods)
  for _, name in ipairs(session.order) do learn(session.members[name].stack:layers()) end
  return list
end

local function add(list, prefix, word, base)
  if word:sub(1, #prefix) == prefix and #list < 200 then list[#list + 1] = base .. word end
end

local function attributes(class_name, list, prefix, base)
  local layer = require("neap.reference").layer(class_name)
  if not layer then return end
  for _, attr in ipairs(layer.attrs) do add(list, prefix, attr.name, base) end
  for _, op in ipairs(layer.ops) do add(list, prefix, op.name, base) end
end

-- Layers of a channel by name: what they are made from.
local function layers_of(channel)
  return channel.stack:layers()
end

local function of_channel(channel, path, list, prefix, base)
  local names = layers_of(channel)
  if #path == 0 then
    for _, word in ipairs(keys_of_methods) do add(list, prefix, word, base) end
    for _, name in ipairs(names) do add(list, prefix, name, base) end
    return
  end
  if path[1] == "stack" then
    if #path == 1 then
      for _, word in ipairs(stack_methods) do add(list, prefix, word, base) end
      for _, name in ipairs(names) do add(list, prefix, name, base) end
      return
    end
    path = { unpack(path, 2) }
  end
  if #path == 1 then attributes(path[1], list, prefix, base) end
end

local function of_table(t, list, prefix, base)
  local words = {}
  for key in pairs(t) do -- any order: sorted below
    if type(key) == "string" and key:match "^[%a_][%w_]*$" then words[#words + 1] = key end
  end
  local meta = getmetatable(t)
  local index = meta and rawget(meta, "__index")
  if type(index) == "table" then
    for key in pairs(index) do -- any order: sorted below
      if type(key) == "string" and not key:match "^__" then words[#words + 1] = key end
    end
  end
  table.sort(words)
  for _, word in ipairs(words) do add(list, prefix, word, base) end
end

local function inside_quotes(line, word)
  local before = line:sub(1, #line - #word)
  local _, quotes = before:gsub('"', "")
  return quotes % 2 == 1
end

-- Words that `word` (the end of `line`) may become.  session: env, members (channels by name).
function complete.words(session, word, line)
  local list = {}
  if inside_quotes(line, word) then
    for _, name in ipairs(session.names()) do add(list, word, name, "") end
    if line:find "help" then
      local layer = word:match "^([%w_]+)[.]"
      if layer then attributes(layer, list, word:sub(#layer + 2), layer .. ".") end
      local layers = require("neap.reference").layer_names()
      for _, name in ipairs(layers) do add(list, word, name, "") end
    end
    return list
  end
  local base, prefix = word:match "^(.*[.:])([%w_]*)$"
  if not base then
    local words = {}
    for key in pairs(session.env) do words[#words + 1] = tostring(key) end -- any order: sorted
    for _, key in ipairs { "for", "function", "if", "local", "return", "while", "print", "pairs",
      "ipairs", "string", "table", "math" } do words[#words + 1] = key end
    table.sort(words)
    for _, key in ipairs(words) do add(list, word, key, "") end
    return list
  end
  local path = {}
  for step in base:gmatch "[%w_]+" do path[#path + 1] = step end
  local value = rawget(session.env, path[1]) or rawget(_G, path[1])
  if session.members[path[1]] then
    of_channel(session.members[path[1]], { unpack(path, 2) }, list, prefix, base)
    return list
  end
  for step = 2, #path do
    if type(value) ~= "table" then return list end
    value = rawget(value, path[step])
  end
  if type(value) == "table" then of_table(value, list, prefix, base) end
  return list
end

return complete
