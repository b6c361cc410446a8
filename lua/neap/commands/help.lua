-- neap help [WORD]: a layer, an attribute (nakack.xmit_interval, or xmit_interval of all layers), a
-- promise, a stack or a command.

local LIVE = require("neap.changes").LIVE
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
    if layer[what] ~= "" then out[#out + 1] = ("%s: %s"):format(what, layer[what]) end
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
    out[#out + 1] = ("%s, %s, can be read"):format(attr.kind, attr.unit)
  end
  return table.concat(out, "\n")
end

-- Who gives and who needs a promise.
function help.promise(row)
  local gives, needs = {}, {}
  for _, name in ipairs(reference.layer_names()) do
    local layer = reference.layer(name)
    if reference.has(layer.gives, row.word) then gives[#gives + 1] = name end
    if reference.has(layer.needs, row.word) then needs[#needs + 1] = name end
  end
  return ("%s - %s\ngiven by: %s\nneeded by: %s"):format(row.word, row.doc,
    table.concat(gives, " "), table.concat(needs, " "))
end

local function overview()
  local layers, words = {}, {}
  for _, name in ipairs(reference.layer_names()) do
    layers[#layers + 1] = { name, reference.layer(name).doc }
  end
  for _, row in ipairs(reference.words()) do words[#words + 1] = { row.word, row.doc } end
  return ("Layers (neap help LAYER, neap help LAYER.ATTRIBUTE)\n\n%s\n\nPromises\n\n%s")
    :format(columns(layers), columns(words))
end

local function known_words()
  local words = {}
  for _, name in ipairs(reference.layer_names()) do words[#words + 1] = name end
  for _, row in ipairs(reference.words()) do words[#words + 1] = row.word end
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

-- Text for a word; nil and what to say when there is none.
function help.text(word)
  if not word then return overview() end
  local layer_name, attr_name = word:match "^([%w_]+)[.:]([%w_]+)$"
  local layer = reference.layer(layer_name or word)
  if layer and not attr_name then return help.layer(layer) end
  if layer then
    local names = {}
    for _, attr in ipairs(layer.attrs) do
      if attr.name == attr_name then return help.attribute(layer, attr) end
      names[#names + 1] = attr.name
    end
    for _, op in ipairs(layer.ops) do
      if op.name == attr_name then return ("%s.%s() - %s"):format(layer.name, op.name, op.doc) end
      names[#names + 1] = op.name
    end
    return nil, ("%s has no attribute '%s'%s"):format(layer_name, attr_name,
      nearest(attr_name, names))
  end
  for _, row in ipairs(reference.words()) do
    if row.word == word then return help.promise(row) end
  end
  local text = everywhere(word) or stack_text(word)
  if text then return text end
  return nil, ("nothing is called '%s'%s"):format(word, nearest(word, known_words()))
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
