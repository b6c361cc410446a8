-- attrs: ann.stack, its layers, and their attributes.
--
--     ann.stack.stable.interval            read
--     ann.stack.stable.interval = "5s"     set, with the checks of the stack file
--     ann.stack:set { ... }                several, all or nothing
--     ann.stack.nakack:trigger_xmit()      an operation
--
-- Nothing is kept here: values are read where they are.

local C = require "neap.cdef"
local attribute = require "neap.attribute"
local changes = require "neap.changes"
local core = require "neap.core"
local ffi = require "ffi"
local keys = require "neap.keys"
local mistake = require "neap.mistake"
local nearest = require "neap.nearest"
local quantity = require "neap.quantity"

local Stack = {}

local PARAM, GAUGE = 1, 2

local live_layer, read = attribute.layer, attribute.read

-- What other files of neap call.
Stack.layer, Stack.read = attribute.LAYER, read

-- Attribute rows of a class, one after the other.
local function rows(class)
  local index = -1
  return function()
    if class.attrs == nil then return end
    index = index + 1
    local row = class.attrs[index]
    if row.kind ~= 0 then return row, ffi.string(row.name) end
  end
end

local function names_of(class, kind)
  local names = {}
  for row, name in rows(class) do
    if not kind or row.kind == kind then names[#names + 1] = name end
  end
  return names
end

local function op_of(class, name)
  local index = 0
  while class.ops ~= nil and class.ops[index].name ~= nil do
    if ffi.string(class.ops[index].name) == name then return class.ops[index] end
    index = index + 1
  end
end

local function ops_of(class)
  local names, index = {}, 0
  while class.ops ~= nil and class.ops[index].name ~= nil do
    names[#names + 1] = ffi.string(class.ops[index].name)
    index = index + 1
  end
  return names
end

-- ---- layers -------------------------------------------------------------------------------------

local Layer = {}
local who, label = {}, {} -- private keys of a layer: its channel, its name

function Layer.__index(self, name)
  local layer = live_layer(self[who], self[label])
  local attr = C.neap_bind_attr_find(layer.class, tostring(name))
  if attr ~= nil then return read(layer, attr) end
  local instance = require("neap.layer").instance(layer)
  local op = op_of(layer.class, name)
  if op and instance then
    return function(_, ...) return require("neap.layer").operate(instance, name, ...) end
  elseif op then
    return function(layer_self, argument)
      return Stack.operate(layer_self[who], layer_self[label], name, argument)
    end
  end
  local known = names_of(layer.class)
  for _, op_name in ipairs(ops_of(layer.class)) do known[#known + 1] = op_name end
  mistake.raise("%s has no attribute '%s'%s", self[label], tostring(name), nearest(name, known))
end

function Layer.__newindex(self, name, given)
  changes.assign(self[who], self[label], name, given)
end

-- What there is: attributes with their values, then the operations.
function Layer.__tostring(self)
  local layer = live_layer(self[who], self[label])
  local lines = { ("%s - %s"):format(self[label], ffi.string(layer.class.doc)) }
  for row, name in rows(layer.class) do
    local shown = read(layer, row)
    shown = quantity.is(shown) and quantity.short(shown) or tostring(shown)
    lines[#lines + 1] = ("  %-24s %12s  %s"):format(name, shown,
      row.doc ~= nil and ffi.string(row.doc) or "")
  end
  for index, name in ipairs(ops_of(layer.class)) do
    lines[#lines + 1] = ("  %-24s %12s  %s"):format(name .. "()", "",
      ffi.string(layer.class.ops[index - 1].doc))
  end
  return table.concat(lines, "\n")
end

-- Runs an operation: its answer, or nil, code, detail.  A table is handed on as rows.
function Stack.operate(channel, layer, name, argument)
  local own = require("neap.channel").own
  local inside = channel[own]
  if type(argument) == "table" then argument = require("neap.rows").text(argument) end
  local code, text = core.op(inside.world.handle, inside.id, layer, name,
    argument ~= nil and tostring(argument) or "")
  if code < 0 then return nil, ffi.string(C.neap_bind_code_text(code)), text end
  return text ~= "" and text or true
end

-- ---- the stack ----------------------------------------------------------------------------------

local methods = {}

-- Several at once, all or nothing: { stable = { interval = "5s" } }.  With { all = true } at every
-- member of the group, or at none.
function methods:set(shape, options) return changes.set(self[who], shape, options) end

-- Takes back the last set of this member that was not taken back.
function methods:undo() return changes.undo(self[who]) end

-- What was set while running, oldest first, also by others for all.
function methods:journal() return changes.journal(self[who]) end

-- How far each member's multicasts are applied here, by name: { ann = 10, bob = 2 }.
function methods:applied()
  return self[who][require("neap.channel").own].state:applied()
end

-- Names of the layers, top first.
function methods:layers()
  local own = require("neap.channel").own
  local pointer = self[who][own].pointer
  local names = {}
  if not pointer then return names end
  while true do
    local layer = C.neap_bind_layer_at(pointer, #names)
    if layer == nil then return names end
    names[#names + 1] = ffi.string(layer.name)
  end
end

-- Gauges and counters: metrics.nakack.missing.
function methods:metrics()
  local all = {}
  for _, name in ipairs(self:layers()) do
    local layer = live_layer(self[who], name)
    all[name] = {}
    for row, attr in rows(layer.class) do
      if row.kind ~= PARAM then all[name][attr] = read(layer, row) end
    end
  end
  return all
end

local Object = {}

function Object.__index(self, name)
  if methods[name] then return methods[name] end
  local layer = self[Stack.layer](name)
  if layer then return layer end
  local known = self:layers()
  for _, method in ipairs(keys.sorted(methods)) do known[#known + 1] = method end
  mistake.raise("the stack has no layer called '%s'%s", tostring(name), nearest(name, known))
end

function Object.__newindex(_, name)
  mistake.raise("a layer is not assigned to; its attributes are: stack.%s.name = value",
    tostring(name))
end

function Object.__tostring(self)
  return ("stack %s: %s"):format(
    self[who][require("neap.channel").own].description.name, table.concat(self:layers(), " "))
end

-- The stack object of a channel.  Layers are made once and found by name.
function Stack.new(channel)
  local own = require("neap.channel").own
  channel[own].settlers, channel[own].asked = {}, {}
  local layers = {}
  for _, layer in ipairs(channel[own].description.layers) do
    layers[layer.name] = setmetatable({ [who] = channel, [label] = layer.name }, Layer)
  end
  return setmetatable({
    [who] = channel,
    [Stack.layer] = function(name) return layers[name] end,
  }, Object)
end

-- For help and the prompt: rows of a class as tables.
function Stack.describe(class)
  local list = {}
  for row, name in rows(class) do
    list[#list + 1] = {
      name = name,
      kind = row.kind == PARAM and "param" or row.kind == GAUGE and "gauge" or "counter",
      unit = row.unit ~= nil and ffi.string(row.unit) or "",
      live = ffi.string(C.neap_bind_live_text(row.live)),
      doc = row.doc ~= nil and ffi.string(row.doc) or "",
      row = row,
    }
  end
  return list
end

return Stack
