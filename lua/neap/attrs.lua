-- attrs: ann.stack, its layers, and their attributes.
--
--     ann.stack.stable.interval            read
--     ann.stack.stable.interval = "5s"     set, with the checks of the stack file
--     ann.stack:set { ... }                several, all or nothing
--     ann.stack.nakack:trigger_xmit()      an operation
--
-- Nothing is kept here but the journal of changes: values are read where they are.

local C = require "neap.cdef"
local core = require "neap.core"
local ffi = require "ffi"
local keys = require "neap.keys"
local mistake = require "neap.mistake"
local nearest = require "neap.nearest"
local quantity = require "neap.quantity"

local Stack = {}

-- Names of what other files of neap call, so that they cannot clash with layers.
Stack.layer, Stack.settled = {}, {}

local PARAM, GAUGE, COUNTER = 1, 2, 3
local NUMBER, BOOL, TEXT, REAL = 0, 1, 3, 4
local TIME, SIZE = 1, 2
local JOURNAL_MAX = 256 -- changes that can be taken back

local reading, value, why = ffi.new "struct neap_reading", ffi.new "struct neap_value",
  ffi.new "char[512]"

-- ---- reading ------------------------------------------------------------------------------------

local function live_layer(channel, name)
  local own = require("neap.channel").own
  local inside = channel[own]
  if not inside.pointer or inside.pointer.stack == nil then
    mistake.raise("%s is closed", channel.name)
  end
  local layer = C.neap_bind_layer_of(inside.pointer, name)
  if layer == nil then mistake.raise("%s has no layer '%s' now", channel.name, name) end
  return layer
end

-- An attribute as Lua sees it: quantities, words, numbers, booleans.
local function read(layer, attr)
  C.neap_bind_attr_read(layer, attr, reading)
  if reading.type == BOOL then return reading.number ~= 0 end
  if reading.type == REAL then return reading.real end
  local text = ffi.string(reading.text)
  if reading.type ~= NUMBER then return text end
  if reading.kind == COUNTER then return quantity.exact(reading.number) end
  if text:match "^%a" then return text end -- a word, such as "auto"
  if reading.unit == TIME then return quantity.time(reading.number) end
  if reading.unit == SIZE then return quantity.size(reading.number) end
  return quantity.exact(reading.number)
end

Stack.read = read

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

-- ---- setting ------------------------------------------------------------------------------------

-- The words of the loader: quantities and booleans as text, numbers as they are.
local function parse(attr, given, into)
  if type(given) == "boolean" then given = given and "on" or "off" end
  if quantity.is(given) then given = tostring(given) end
  local code
  if type(given) == "number" then
    code = C.neap_bind_attr_number(attr, given, into, why, 512)
  elseif type(given) == "string" then
    if given:find "%${" then
      return ("%q is not replaced: env(\"NAME\", default) works in stack files"):format(given)
    end
    code = C.neap_bind_attr_parse(attr, given, into, why, 512)
  else
    return ("a %s is no value"):format(type(given))
  end
  if code < 0 then return ffi.string(why) end
end

local function attr_of(layer, layer_name, name)
  local attr = type(name) == "string" and C.neap_bind_attr_find(layer.class, name) or nil
  if attr == nil then
    mistake.raise("%s has no attribute '%s'%s", layer_name, tostring(name),
      nearest(name, names_of(layer.class)))
  end
  return attr
end

-- One row of a change: what it is, what it was.
local function plan(channel, layer_name, name, given)
  local layer = live_layer(channel, layer_name)
  local attr = attr_of(layer, layer_name, name)
  if attr.kind ~= PARAM then
    mistake.raise("%s.%s cannot be changed while running: it is a %s", layer_name, name,
      attr.kind == GAUGE and "gauge" or "counter")
  end
  if attr.live == 0 then
    mistake.raise("%s.%s cannot be changed while running", layer_name, name)
  end
  local row = { layer = layer_name, name = name, given = given, before = read(layer, attr) }
  local problem = parse(attr, given, value)
  if problem then mistake.raise("%s.%s: %s", layer_name, name, problem) end
  row.pointer, row.attr = layer, attr
  row.type, row.number, row.real = value.type, value.number, value.real
  -- Text points into what was given; that lives as long as the row.
  row.text = value.type == TEXT and tostring(given) or nil
  return row
end

local function commit(channel, plans)
  local own = require("neap.channel").own
  local inside = channel[own]
  local changes = ffi.new("struct neap_change[?]", #plans)
  for index, row in ipairs(plans) do
    local change = changes[index - 1]
    change.layer, change.attr = row.pointer, row.attr
    change.value.type, change.value.number, change.value.real = row.type, row.number, row.real
    if row.text then change.value.text = row.text end
  end
  local code, problem = core.set(inside.world.handle, inside.id, changes, #plans)
  if code < 0 then return nil, ffi.string(C.neap_bind_code_text(code)), problem end
  return true
end

-- Layers whose change others have to follow say so in a gauge.
local function pending(channel, plans)
  for _, row in ipairs(plans) do
    local layer = live_layer(channel, row.layer)
    local gauge = C.neap_bind_attr_find(layer.class, row.name == "retransmission" and
      "mode_pending" or "")
    if gauge ~= nil and read(layer, gauge) ~= 0 then return row.layer end
  end
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
  local ok, _, problem = Stack.change(self[who], { plan(self[who], self[label], name, given) })
  if not ok then mistake.raise("%s", problem) end
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

-- Applies plans and writes them into the journal.
function Stack.change(channel, plans)
  local ok, code, detail = commit(channel, plans)
  if not ok then return nil, code, detail end
  local own = require("neap.channel").own
  local journal = channel[own].journal
  local entry = { time = channel[own].world:now() }
  for index, row in ipairs(plans) do
    entry[index] = { layer = row.layer, name = row.name, before = row.before, after = row.given }
  end
  table.insert(journal, entry)
  if #journal > JOURNAL_MAX then table.remove(journal, 1) end
  return true
end

local function plans_of(channel, changes)
  if type(changes) ~= "table" then
    mistake.raise("set takes the stack's shape: { stable = { interval = \"5s\" } }")
  end
  local plans = {}
  for _, layer in ipairs(keys.sorted(changes)) do
    local settings = changes[layer]
    if not channel.stack[Stack.layer](layer) then
      mistake.raise("the stack has no layer called '%s'%s", tostring(layer),
        nearest(layer, channel.stack:layers()))
    end
    if type(settings) ~= "table" then
      mistake.raise("%s is followed by its settings: { %s = { name = value } }", layer, layer)
    end
    for _, name in ipairs(keys.sorted(settings)) do
      plans[#plans + 1] = plan(channel, layer, name, settings[name])
    end
  end
  return plans
end

-- Waits, where that is possible, until everybody has followed a mode.
local function settle(channel, plans)
  local own = require("neap.channel").own
  local inside = channel[own]
  local layer = pending(channel, plans)
  if not layer and inside.world:may_wait() and #plans > 0 then
    for _, row in ipairs(plans) do
      if row.name == "retransmission" then layer = row.layer end
    end
  end
  if not layer or not inside.world:may_wait() or inside.receiving:current() then return true end
  local waiter = inside.world:waiter()
  table.insert(inside.settlers, { layer = layer, waiter = waiter })
  return inside.world:wait(waiter)
end

function methods:set(changes, options)
  local channel = self[who]
  if options ~= nil then
    if type(options) ~= "table" then mistake.raise("set's options are a table: { all = true }") end
    for _, key in ipairs(keys.sorted(options)) do
      if key ~= "all" then mistake.raise("set has no option '%s'%s", key, nearest(key, "all")) end
    end
  end
  local plans = plans_of(channel, changes)
  if options and options.all then
    return nil, "refused", "this stack has no layer that agrees on settings with the whole group"
  end
  if #plans == 0 then return true end
  local ok, code, detail = Stack.change(channel, plans)
  if not ok then return nil, code, detail end
  return settle(channel, plans)
end

-- Takes back the last set that was not taken back.
function methods:undo()
  local channel = self[who]
  local own = require("neap.channel").own
  local journal = channel[own].journal
  local entry = table.remove(journal)
  if not entry then return nil, "refused", "nothing was set" end
  local plans = {}
  for index = #entry, 1, -1 do
    local row = entry[index]
    plans[#plans + 1] = plan(channel, row.layer, row.name, row.before)
  end
  local ok, code, detail = commit(channel, plans)
  if not ok then
    table.insert(journal, entry)
    return nil, code, detail
  end
  return settle(channel, plans)
end

-- What was set while running, oldest first: { time, { layer, name, before, after } ... }.
function methods:applied()
  local own = require("neap.channel").own
  local list = {}
  for index, entry in ipairs(self[who][own].journal) do list[index] = entry end
  return list
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
  mistake.raise("the stack has no layer called '%s'%s", tostring(name),
    nearest(name, self:layers()))
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
  channel[own].journal, channel[own].settlers = {}, {}
  local layers = {}
  for _, layer in ipairs(channel[own].description.layers) do
    layers[layer.name] = setmetatable({ [who] = channel, [label] = layer.name }, Layer)
  end
  return setmetatable({
    [who] = channel,
    [Stack.layer] = function(name) return layers[name] end,
    -- A set that others had to follow ended; nil: the stack is gone.
    [Stack.settled] = function(text, code, rows_missing)
      local settlers = channel[own].settlers
      channel[own].settlers = {}
      for _, settler in ipairs(settlers) do
        if text == nil then
          settler.waiter.wake(nil, "closed")
        elseif text ~= settler.layer and text ~= "" and not text:find(settler.layer, 1, true) then
          table.insert(channel[own].settlers, settler)
        elseif code < 0 then
          local missing = {}
          for index, row in ipairs(rows_missing) do missing[index] = row.name end
          settler.waiter.wake(nil, ffi.string(C.neap_bind_code_text(code)), { missing = missing })
        else
          settler.waiter.wake(true)
        end
      end
    end,
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
