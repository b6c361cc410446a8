-- neap help [WORD]: a layer, an attribute (nakack.xmit_interval, or xmit_interval of all layers), a
-- promise, a stack, a call or a command; all that a word is the name of.

local LIVE = require("neap.changes").LIVE
local calls = require "neap.calls"
local nearest = require "neap.nearest"
local reference = require "neap.reference"

local help = {}

local function columns(rows)
  local wide = {}
  for _, row in ipairs(rows) do
    for c = 1, #row - 1 do wide[c] = math.max(wide[c] or 0, #row[c]) end
  end
  local lines = {}
  for _, row in ipairs(rows) do
    local line = { " " }
    for c = 1, #row - 1 do line[#line + 1] = row[c] .. (" "):rep(wide[c] - #row[c]) .. " " end
    lines[#lines + 1] = table.concat(line, " ") .. " " .. row[#row]
  end
  return table.concat(lines, "\n")
end
help.columns = columns

local function attr_row(attr)
  if attr.kind ~= "param" then return { attr.name, attr.kind, "", attr.doc } end
  local live = attr.live == "no" and "" or ("[%s]"):format(attr.live)
  return { attr.name, ("%s (%s)"):format(attr.default, attr.range), live, attr.doc }
end

function help.layer(layer)
  local out = { ("%s - %s"):format(layer.name, layer.doc) }
  for _, what in ipairs { "needs", "hears", "gives", "breaks" } do
    if layer[what] ~= "" then
      out[#out + 1] = ("%s: %s"):format(what, reference.promises(layer[what]))
    end
  end
  local rows = {}
  for _, attr in ipairs(layer.attrs) do rows[#rows + 1] = attr_row(attr) end
  for _, op in ipairs(layer.ops) do rows[#rows + 1] = { op.name .. "()", "", "", op.doc } end
  if #rows > 0 then out[#out + 1] = "\n" .. columns(rows) end
  return table.concat(out, "\n")
end

function help.attribute(layer, attr)
  local out = { ("%s.%s - %s"):format(layer.name, attr.name, attr.doc) }
  if attr.kind == "param" then
    out[#out + 1] = ("default %s, %s"):format(attr.default, attr.range)
    out[#out + 1] = attr.live == "no" and "set in the stack file only"
      or ("can be set while running: %s, %s"):format(attr.live, LIVE[attr.live])
  else
    local unit = attr.unit ~= "" and ", " .. attr.unit or ""
    out[#out + 1] = ("%s%s, can be read"):format(attr.kind, unit)
  end
  return table.concat(out, "\n")
end

local RELATIONS = { { "gives", "given by" }, { "needs", "needed by" },
  { "hears", "heard from above by" }, { "breaks", "broken by" } }

-- Who gives, needs, hears and breaks a promise.
function help.promise(row)
  local out = { ("%s - %s"):format(row.word, row.doc) }
  for _, relation in ipairs(RELATIONS) do
    local names = {}
    for _, name in ipairs(reference.layer_names()) do
      local list = reference.layer(name)[relation[1]]
      if reference.has(list, row.word) then names[#names + 1] = name end
    end
    if names[1] then out[#out + 1] = ("%s: %s"):format(relation[2], table.concat(names, " ")) end
    if relation[1] == "gives" and not names[1] then out[#out + 1] = "given by no layer yet" end
  end
  return table.concat(out, "\n")
end

local function overview()
  local layers, words = {}, {}
  for _, name in ipairs(reference.layer_names()) do
    layers[#layers + 1] = { name, reference.layer(name).doc }
  end
  for _, row in ipairs(reference.words()) do words[#words + 1] = { row.word, row.doc } end
  return ("Layers (neap help LAYER, neap help LAYER.ATTRIBUTE)\n\n%s\n\nPromises\n\n%s\n\n"
    .. "Calls (neap help send, undo, get_state, map, ...): lua/README.md has all of them.")
    :format(columns(layers), columns(words))
end

local function known_words()
  local words = {}
  for _, name in ipairs(reference.layer_names()) do words[#words + 1] = name end
  for _, row in ipairs(reference.words()) do words[#words + 1] = row.word end
  for _, name in ipairs(calls.names()) do words[#words + 1] = name end
  return words
end

-- The attribute or operation of this name in every layer that has one; nil when none has.
local function everywhere(word)
  local found = {}
  for _, name in ipairs(reference.layer_names()) do
    local layer = reference.layer(name)
    for _, attr in ipairs(layer.attrs) do
      if attr.name == word then found[#found + 1] = help.attribute(layer, attr) end
    end
    for _, op in ipairs(layer.ops) do
      if op.name == word then found[#found + 1] = ("%s.%s() - %s"):format(name, word, op.doc) end
    end
  end
  return found[1] and table.concat(found, "\n\n")
end

-- A stack that can be found, or nil.
local function stack_text(word)
  local problems, description = require("neap.stack").problems(word)
  if #problems > 0 then return nil end
  local names = {}
  for index, layer in ipairs(description.layers) do names[index] = layer.name end
  return ("stack %s - %s\n%s\nneap show %s tells every value."):format(word,
    description.sentence, table.concat(names, " "), word)
end

-- One attribute or operation of a layer; nil and what to say when it has none of that name.
local function member_text(layer, wanted)
  local names = {}
  for _, attr in ipairs(layer.attrs) do
    if attr.name == wanted then return help.attribute(layer, attr) end
    names[#names + 1] = attr.name
  end
  for _, op in ipairs(layer.ops) do
    if op.name == wanted then return ("%s.%s() - %s"):format(layer.name, op.name, op.doc) end
    names[#names + 1] = op.name
  end
  return nil, ("%s has no attribute '%s'%s"):format(layer.name, wanted, nearest(wanted, names))
end

local function promise_text(word)
  for _, row in ipairs(reference.words()) do
    if row.word == word then return help.promise(row) end
  end
end

local function layer_text(word)
  local layer = reference.layer(word)
  return layer and help.layer(layer)
end

-- Text for a word; nil and what to say when there is none.
function help.text(word)
  if not word then return overview() end
  local owner, name = word:match "^([%w_]+)[.:]([%w_]+)$"
  local layer = owner and reference.layer(owner)
  if layer then return member_text(layer, name) end
  local called = name or word -- ann:send, neap.map
  local out = {}
  local function add(text) out[#out + 1] = text end
  add(layer_text(word) or promise_text(word))
  add(stack_text(word))
  add(everywhere(called))
  add(calls.about(called))
  if not out[1] then add(calls.mentioning(called)) end
  if out[1] then return table.concat(out, "\n\n") end
  return nil, ("nothing is called '%s'%s"):format(word, nearest(called, known_words()))
end

function help.main(args)
  local command = require "neap.command"
  if not args[1] then io.write(command.usage(), "\n\n") end
  local text, problem = help.text(args[1])
  local usage = args[1] and command.usage(args[1])
  if usage then text = usage .. (text and "\n\n" .. text or "") end
  if not text then
    io.stderr:write("neap help: ", problem, "\n")
    return 1
  end
  io.write(text, "\n")
  return 0
end

return help
