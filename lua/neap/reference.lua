-- reference: what there is to know of layers, attributes, promises and events, as plain tables.
--
-- Read from the rows in C (and of layers in Lua, which have the same), so help, the generated pages
-- and the prompt cannot say anything else than what the code does.

local C = require "neap.cdef"
local classes = require "neap.classes"
local ffi = require "ffi"

local reference = {}

local KINDS = { "param", "gauge", "counter" }
local TYPES = { [0] = "number", "bool", "choice", "text", "real" }
local BOOL, CHOICE, TEXT, REAL = 1, 2, 3, 4
local MAX = 18446744073709551615ULL

local text = ffi.new "char[128]"

local function str(pointer)
  return pointer ~= nil and ffi.string(pointer) or nil
end

local function quantity(number, unit)
  C.neap_bind_quantity_text(number, unit, text, 128)
  return ffi.string(text)
end

-- A special number has a word: "auto=0 tick=1".
local function word_for(row, number)
  for word, value in (str(row.words) or ""):gmatch "(%S+)=(%d+)" do
    if number == loadstring("return " .. value .. "ULL")() then return word end
  end
end

local function number_text(row, number)
  return word_for(row, number) or quantity(number, row.unit)
end

local function default_of(row)
  if row.type == TEXT then return str(row.text) or "" end
  if row.type == BOOL then return row.value ~= 0 and "on" or "off" end
  if row.type == REAL then return tostring(tonumber(row.value) / 1e6) end
  if row.type == CHOICE then
    local index = 0
    for choice in str(row.choices):gmatch "%S+" do
      if index == tonumber(row.value) then return choice end
      index = index + 1
    end
  end
  return number_text(row, row.value)
end

local function range_of(row)
  if row.type == CHOICE then return (str(row.choices):gsub("%s+", " | ")) end
  if row.type == BOOL then return "on | off" end
  if row.type == TEXT then return "text" end
  if row.type == REAL then
    return ("%g .. %g"):format(tonumber(row.min) / 1e6, tonumber(row.max) / 1e6)
  end
  local words = {}
  for word in (str(row.words) or ""):gmatch "(%S+)=" do words[#words + 1] = word end
  local range
  if row.max ~= 0 and row.max ~= MAX then
    range = quantity(row.min, row.unit) .. " .. " .. quantity(row.max, row.unit)
  else
    range = "from " .. quantity(row.min, row.unit)
  end
  if row.or_zero then range = "0 or " .. range end
  if #words > 0 then range = range .. " | " .. table.concat(words, " | ") end
  return range
end

local function attrs_of(class)
  local rows, index = {}, 0
  while class.attrs ~= nil and class.attrs[index].kind ~= 0 do
    local row = class.attrs[index]
    local attr = { name = str(row.name), kind = KINDS[row.kind], type = TYPES[row.type],
      unit = str(row.unit) or "", doc = str(row.doc) or "",
      live = ffi.string(C.neap_bind_live_text(row.live)) }
    if attr.kind == "param" then attr.default, attr.range = default_of(row), range_of(row) end
    rows[#rows + 1] = attr
    index = index + 1
  end
  return rows
end

local function ops_of(class)
  local rows, index = {}, 0
  while class.ops ~= nil and class.ops[index].name ~= nil do
    rows[#rows + 1] = { name = str(class.ops[index].name), doc = str(class.ops[index].doc) }
    index = index + 1
  end
  return rows
end

-- A layer by its name, or nil: name, doc, needs, hears, gives, breaks, attrs, ops.
function reference.layer(name)
  local found = classes.find(name)
  if not found then return nil end
  local class = found.class
  return { name = name, doc = str(class.doc) or "", needs = str(class.needs) or "",
    hears = str(class.hears) or "", gives = str(class.gives) or "",
    breaks = str(class.breaks) or "", attrs = attrs_of(class), ops = ops_of(class),
    lua = found.layer ~= nil }
end

function reference.layer_names() return classes.names() end

-- All promise words, in their order: { word, doc }.
function reference.words()
  local rows, index, doc = {}, 0, ffi.new "const char *[1]"
  local word = C.neap_bind_word(index, doc)
  while word ~= nil do
    rows[#rows + 1] = { word = ffi.string(word), doc = str(doc[0]) }
    index = index + 1
    word = C.neap_bind_word(index, doc)
  end
  return rows
end

-- True if `list` ("a b(x=y) c") has the word.
function reference.has(list, word)
  for term in list:gmatch "%S+" do
    if term:match "^[%w_]+" == word then return true end
  end
  return false
end

-- A condition as a person reads it: "x = 1 and y is not 0".
local function conditions_text(list)
  return (list:gsub("!=", " is not "):gsub("=", " = "):gsub(",", " and "))
end

-- A list of promises to be read: words with the same conditions stand together.
--
--     a b(x=1,y!=0) c(x=1,y!=0)   ->   a, b c (if x = 1 and y is not 0)
function reference.promises(list)
  local groups, last = {}, nil
  for term in list:gmatch "%S+" do
    local word, conditions = term:match "^([%w_]+)%(?([^)]*)"
    if conditions == last then
      local group = groups[#groups]
      group[#group + 1] = word
    else
      groups[#groups + 1] = { word, conditions = conditions }
    end
    last = conditions
  end
  local out = {}
  for index, group in ipairs(groups) do
    local words = table.concat(group, " ")
    out[index] = group.conditions == "" and words
      or ("%s (if %s)"):format(words, conditions_text(group.conditions))
  end
  return table.concat(out, ", ")
end

return reference
