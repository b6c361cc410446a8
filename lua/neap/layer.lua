-- layer: layers written in Lua have the fields of a C layer, in the same order and with the same
-- names.
--
--     neap.layer "third" { doc, needs, gives, headers, attrs, ops, open, peer, peer_gone,
--                          down, up (or each_down, each_up), event, may, changed, close, check }
--
-- From the table a class for C is made (class.lua); each instance has one Lua object, `self`
-- (self.lua).  Messages are boxes: what the layer does not pass, hold or free is freed when `up` or
-- `down` returns, and then the box is empty.
--
--     C: batch -> in     Lua: for m in batch:each()   pass_up -> rising, pass_down -> falling
--
-- Nothing here calls C that could call Lua again.

local C = require "neap.cdef"
local attrs = require "neap.attrs"
local class_of = require "neap.class"
local classes = require "neap.classes"
local ffi = require "ffi"
local message = require "neap.message"
local mistake = require "neap.mistake"
local quantity = require "neap.quantity"
local self_of = require "neap.self"
local view_of = require "neap.view"

local layer = {}

-- enum neap_errand
local EVENT, TIMER, CHANGED, MAY, GONE, STILL, CHECK, OPEN, CLOSE = 3, 4, 5, 6, 7, 8, 9, 11, 12
local PASS, STOP, ANSWER = 0, 1, 2 -- enum neap_verdict
local VERDICTS = { [0] = PASS, pass = PASS, stop = STOP, answer = ANSWER }

local layer_pointer, free = ffi.typeof "struct neap_bind_layer *", C.neap_bind_msg_free
local new_box = message.box
local inside, boxed, state_make = self_of.inside, self_of.boxed, self_of.state_make

-- ---- rows of a class's attrs --------------------------------------------------------------------

local function row(kind)
  return function(t)
    if type(t) ~= "table" or type(t[1]) ~= "string" then
      mistake.raise("%s is written %s { \"name\", doc = \"...\" }", kind, kind)
    end
    t.kind, t.name = kind, t[1]
    return t
  end
end

layer.param, layer.gauge, layer.counter = row "param", row "gauge", row "counter"

-- ---- instances ----------------------------------------------------------------------------------

-- By address, for operations; the environment of the world keeps them.
local instances = setmetatable({}, { __mode = "v" })

local function key_of(pointer)
  return tonumber(ffi.cast("uintptr_t", ffi.cast("void *", pointer)))
end

-- The instance behind a struct neap_layer, or nil for a layer in C.
function layer.instance(pointer) return instances[key_of(pointer)] end

-- Gauges and counters go to C, where everybody reads them.
local function mirror(instance)
  local values, object = instance.c.values, instance.object
  for _, metric in ipairs(instance.class.metrics) do
    values[metric.index].number = object[metric.name]
  end
end

-- End of a call: what was neither passed nor held nor freed is freed.
local function settle(instance)
  if instance.open > 0 or instance.lent then
    local boxes = instance.boxes
    for index = 1, instance.count do
      local box = boxes[index]
      if box.place > 0 then
        boxes[index] = new_box() -- That one is the layer's now.
      elseif box.m ~= nil then
        free(box.m)
        box.m = nil
      end
    end
    instance.open, instance.lent = 0, false
  end
  if instance.strict and instance.count > 0 then instance.boxes = {} end
  instance.count = 0
  mirror(instance)
end

local Batch = {}
Batch.__index = Batch

-- What neap_take does, less what nobody asks for before the batch is empty.
local function next_message(instance)
  local batch = instance["in"]
  local m = batch.first
  if m == nil then return nil end
  batch.first = m.next
  m.next = nil
  return boxed(instance, m)
end

-- for m in batch:each() do ... end
function Batch:each() return next_message, self[inside] end
function Batch:count() return self[inside].c.batch.count end

local function batch_call(instance, f)
  local object, batch = instance.object, instance.batch
  return function()
    f(object, batch)
    C.neap_bind_batch_free(instance["in"]) -- what the layer did not look at, as a rule nothing
    settle(instance)
  end
end

-- The short form: a call per message, with the state of the member at the other end.
local function each_of(f)
  return function(self, batch)
    for m in batch:each() do f(self, m, self:peer_of(m)) end
  end
end

local function each_down_of(f)
  return function(self, batch)
    local instance = self[inside]
    for m in batch:each() do
      local to = m.m.to
      f(self, m, to ~= nil and (instance.states[to.slot] or state_make(instance, to)) or nil)
    end
  end
end

-- ---- errands ------------------------------------------------------------------------------------

local errands = {}

errands[OPEN] = function(instance)
  local open = instance.class.definition.open
  if open then open(instance.object) end
  settle(instance)
end

errands[CLOSE] = function(instance)
  local close = instance.class.definition.close
  local ok, problem = true, nil
  instances[key_of(instance.c)] = nil -- The memory may be another layer's before it is collected.
  if close then ok, problem = xpcall(close, mistake.traceback, instance.object) end
  for index = #instance.held, 1, -1 do
    local box = instance.held[index]
    free(box.m)
    box.m, box.place = nil, 0
  end
  instance.held = {}
  pcall(settle, instance)
  if not ok then error(problem, 0) end
end

errands[TIMER] = function(instance)
  instance.timers[instance.c.number](instance.object)
  settle(instance)
end

errands[CHANGED] = function(instance)
  local name = instance.class.rows[instance.c.number + 1].name
  layer.read_param(instance, name)
  local changed = instance.class.definition.changed
  if changed then changed(instance.object, name) end
  settle(instance)
end

errands[MAY] = function(instance)
  local rows, value = instance.class.rows, instance.c.value
  local given = value.text ~= nil and ffi.string(value.text) or quantity.exact(value.number)
  return instance.class.definition.may(instance.object, rows[instance.c.number + 1].name, given)
end

errands[GONE] = function(instance)
  local slot = instance.c.peer.slot
  local state, gone = instance.states[slot], instance.class.definition.peer_gone
  instance.states[slot], instance.names[slot] = nil, nil
  if state and gone then gone(instance.object, state) end
  settle(instance)
end

errands[STILL] = function(instance)
  instance.class.definition.still(instance.object)
  settle(instance)
end

errands[CHECK] = function(instance)
  instance.class.definition.check(instance.object)
end

errands[EVENT] = function(instance)
  local c = instance.c.event
  local event = {
    kind = ffi.string(C.neap_bind_event_name(c.kind)):lower(),
    query = c.query, answered = c.answered, none = c.none, flag = c.flag,
    number = quantity.exact(c.number), time = quantity.exact(c.time),
    text = c.text[0] ~= 0 and ffi.string(c.text) or nil,
    peer = c.peer ~= nil and message.name(c.peer) or nil,
    view = c.view ~= nil and view_of(c.view) or nil,
  }
  local verdict = instance.class.definition.event(instance.object, event, instance.c.event_up)
  if verdict == "answer" then
    c.flag, c.number = event.flag == true, event.number or 0
    if event.text then ffi.copy(c.text, event.text:sub(1, 159)) end
  end
  settle(instance)
  return VERDICTS[verdict or 0] or
    mistake.raise("an event handler says \"stop\", \"answer\" or nothing, not %s",
      tostring(verdict))
end

-- Runs an operation, outside of any turn: what it passes goes on its way afterwards.
function layer.operate(instance, name, ...)
  local function finish(...)
    settle(instance)
    C.neap_bind_flush(instance.c)
    return ...
  end
  return finish(instance.class.ops[name](instance.object, ...))
end

-- A param's value, as everybody reads it.
function layer.read_param(instance, name)
  local pointer = ffi.cast("struct neap_layer *", instance.c)
  local attr = C.neap_bind_attr_find(pointer.class, name)
  instance.object[name] = attrs.read(pointer, attr)
end

-- What C calls when a stack opens: makes an instance; gives up, down and the function for all else.
local function maker(class)
  return function(userdata)
    local c = ffi.cast(layer_pointer, userdata)
    local object = setmetatable({}, self_of.Object)
    local instance = {
      c = c, ["in"] = c.batch, rising = c.rising, falling = c.falling,
      class = class, object = object, header = class.header,
      boxes = self_of.boxes_for(c.layer.stack.world.checking), count = 0, open = 0, lent = false,
      held = {}, states = {}, names = {}, top = -1, timers = {},
      slot = c.layer.slots[0], at = c.layer.at[0], strict = c.layer.stack.world.checking,
    }
    object[inside] = instance
    instance.batch = setmetatable({ [inside] = instance }, Batch)
    instances[key_of(c)] = instance
    for _, attr in ipairs(class.rows) do
      if attr.kind == "param" then
        layer.read_param(instance, attr.name)
      else
        object[attr.name] = 0
      end
    end
    local definition = class.definition
    local up = definition.up or definition.each_up and each_of(definition.each_up)
    local down = definition.down or definition.each_down and each_down_of(definition.each_down)
    return up and batch_call(instance, up), down and batch_call(instance, down), function(errand)
      return errands[errand](instance)
    end
  end
end

-- neap.layer "name" { ... }: registers the layer and returns its constructor.
function layer.make(name)
  if type(name) ~= "string" or not name:match "^[%a][%w_]*$" then
    mistake.raise("a layer's name is one word: neap.layer \"third\" { ... }")
  end
  local where = mistake.where()
  return function(definition)
    local class = mistake.at(where, class_of, name, definition, self_of.Object)
    class.maker = maker(class)
    classes.add(class)
    return setmetatable({ name = name, class = class }, {
      __call = function(_, given) return require("neap.stack").layer(class, given) end,
      __tostring = function() return "layer " .. name end,
    })
  end
end

return layer
