-- layer: layers written in Lua have the fields of a C layer, in the same order and with the same
-- names.
--
--     neap.layer "third" { doc, needs, gives, headers, attrs, ops, open, peer, peer_gone,
--                          down, up (or each_down, each_up), event, may, changed, close, check }
--
-- From the table a class for C is made (class.lua); each instance has one Lua object, `self`, whose
-- fields are the attributes and whatever the layer puts there.  Messages are boxes: what the layer
-- does not pass, hold or free is freed when `up` or `down` returns, and then the box is empty.
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
local view_of = require "neap.view"

local layer = {}

-- enum neap_errand
local EVENT, TIMER, CHANGED, MAY, GONE, STILL, CHECK, OPEN, CLOSE = 3, 4, 5, 6, 7, 8, 9, 11, 12
local TIMERS = 8 -- NEAP_BIND_TIMERS
local PASS, STOP, ANSWER = 0, 1, 2 -- enum neap_verdict
local VERDICTS = { [0] = PASS, pass = PASS, stop = STOP, answer = ANSWER }
local OOB, RSVP = 1, 128

local new_box, layer_pointer = message.box, ffi.typeof "struct neap_bind_layer *"
local put, take, free = C.neap_bind_put, C.neap_bind_take, C.neap_bind_msg_free

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

-- ---- what a layer calls -------------------------------------------------------------------------

local inside = {} -- private key of an object: its instance
local Object = {}

local function live(box)
  if box.m == nil then mistake.raise("this message was passed on, freed or not held") end
  return box.m
end

-- A message that was held no longer is; the last one takes its place.
local function unhold(instance, box)
  local held = instance.held
  local last = held[#held]
  held[box.place] = last
  last.place = box.place
  held[#held] = nil
  box.place = 0
end

local function give(self, box, batch)
  local m = live(box)
  if box.place > 0 then unhold(self[inside], box) end
  put(batch, m)
  box.m = nil
end

function Object:pass_up(box) give(self, box, self[inside].c.rising) end
function Object:pass_down(box) give(self, box, self[inside].c.falling) end

-- Keeps a message beyond this call; it stays valid until it is passed or freed.
function Object:hold(box)
  live(box)
  if box.place == 0 then
    local held = self[inside].held
    held[#held + 1] = box
    box.place = #held
  end
  return box
end

function Object:free(box)
  local m = live(box)
  if box.place > 0 then unhold(self[inside], box) end
  box.m = nil
  free(m)
end

local function keep(instance, box)
  instance.count = instance.count + 1
  instance.boxes[instance.count] = box
  return box
end

-- Another message with the same body and headers.
function Object:clone(box)
  return keep(self[inside], new_box(C.neap_bind_msg_clone(live(box))))
end

local function peer_named(instance, to)
  if to == nil then return nil end
  if type(to) == "cdata" then return live(to).from end
  local view = instance.c.layer.view
  if view ~= nil then
    for index = 1, view.count do
      local peer = view.members[index - 1]
      if message.name(peer) == to or message.address(peer) == to then return peer end
    end
  end
  mistake.raise("nobody called '%s' is in the view of %s", tostring(to), instance.class.name)
end

-- A message of the layer's own: self:new { to = "bob" (nil: all), body = "", oob = true }.
-- `to` may be a message: its sender.
function Object:new(options)
  local instance = self[inside]
  options = options or {}
  local flags = (options.oob and OOB or 0) + (options.rsvp and RSVP or 0)
  local m = C.neap_bind_msg_own(ffi.cast("struct neap_layer *", instance.c),
    peer_named(instance, options.to), flags)
  if options.body then C.neap_bind_msg_body(m, options.body, #options.body) end
  return keep(instance, new_box(m))
end

-- Writes the layer's header.
function Object:put(box, fields)
  local instance = self[inside]
  instance.header.put(live(box), instance.slot, instance.at, fields)
end

-- The layer's header, or nil when the message carries none.
function Object:get(box)
  local instance = self[inside]
  return instance.header.get(live(box), instance.slot, instance.at)
end

-- This layer's state of whoever sent the message.
function Object:peer_of(box)
  local instance = self[inside]
  local peer = live(box).from
  return instance.states[peer.slot] or layer.state_make(instance, peer)
end

local function next_state(instance, slot)
  for s = slot + 1, instance.top do
    if instance.states[s] then return s, instance.states[s] end
  end
end

-- for p, name in self:peers() do ... end, in the order of slots.
function Object:peers()
  local instance, slot = self[inside], -1
  return function()
    local state
    slot, state = next_state(instance, slot)
    if state then return state, instance.names[slot] end
  end
end

local function timer_of(instance, f)
  for number = 0, TIMERS - 1 do
    if instance.timers[number] == f then return number end
  end
  for number = 0, TIMERS - 1 do
    if not instance.c.timers[number].armed then
      instance.timers[number] = f
      return number
    end
  end
  mistake.raise("%s waits for %d things already", instance.class.name, TIMERS)
end

-- f(self) is called after `delay`; asked again for the same f, that moves.  { background = true }:
-- for heartbeats and periodic checks, which sim:settle does not wait for.
function Object:after(delay, f, options)
  local instance = self[inside]
  if type(f) ~= "function" then mistake.raise("after takes a time and a function") end
  C.neap_bind_timer_start(instance.c, timer_of(instance, f), quantity.ns(delay),
    options ~= nil and options.background == true)
end

-- Is anything (or f) waited for?
function Object:waiting(f)
  local instance = self[inside]
  for number = 0, TIMERS - 1 do
    if instance.c.timers[number].armed and (f == nil or instance.timers[number] == f) then
      return true
    end
  end
  return false
end

function Object:cancel(f)
  local instance = self[inside]
  for number = 0, TIMERS - 1 do
    if f == nil or instance.timers[number] == f then C.neap_bind_timer_stop(instance.c, number) end
  end
end

-- Nanoseconds on the world's clock.
function Object:now()
  return tonumber(self[inside].c.layer.stack.world.now)
end

-- Evenly in 0 .. bound-1, from the stack's own stream of numbers.
function Object:random(bound)
  return C.neap_bind_chance(ffi.cast("struct neap_layer *", self[inside].c), bound)
end

-- The last view that passed this layer, or nil.
function Object:view()
  local view = self[inside].c.layer.view
  if view ~= nil then return view_of(view) end
end

local kinds
local function kind_of(name)
  if not kinds then
    kinds = {}
    local number = 0
    local text = C.neap_bind_event_name(number)
    while text ~= nil do
      kinds[ffi.string(text):lower()] = number
      number = number + 1
      text = C.neap_bind_event_name(number)
    end
  end
  return kinds[name] or mistake.raise("there is no event called '%s'", tostring(name))
end

local function send_event(self, kind, fields, up)
  local instance = self[inside]
  local event = ffi.new "struct neap_event"
  fields = fields or {}
  event.kind, event.query = kind_of(kind), fields.query == true
  event.flag, event.number = fields.flag == true, fields.number or 0
  event.time = fields.time ~= nil and quantity.ns(fields.time) or 0
  event.peer = peer_named(instance, fields.peer)
  if fields.text then ffi.copy(event.text, fields.text:sub(1, 159)) end
  C.neap_bind_event_send(instance.c, event, up)
end

-- self:event_up("trouble", { text = "..." }); with query = true the answer comes to `event`.
function Object:event_up(kind, fields) send_event(self, kind, fields, true) end
function Object:event_down(kind, fields) send_event(self, kind, fields, false) end

Object.__index = Object

-- ---- instances ----------------------------------------------------------------------------------

-- By address, for operations; the environment of the world keeps them.
local instances = setmetatable({}, { __mode = "v" })

local function key_of(pointer)
  return tonumber(ffi.cast("uintptr_t", ffi.cast("void *", pointer)))
end

-- The instance behind a struct neap_layer, or nil for a layer in C.
function layer.instance(pointer) return instances[key_of(pointer)] end

function layer.state_make(instance, peer)
  local make = instance.class.definition.peer
  local state = make and make(instance.object, message.name(peer)) or {}
  C.neap_bind_peer_keep(ffi.cast("struct neap_layer *", instance.c), peer)
  instance.states[peer.slot] = state
  instance.names[peer.slot] = message.name(peer)
  instance.top = math.max(instance.top, peer.slot)
  return state
end

-- Gauges and counters go to C, where everybody reads them.
local function mirror(instance)
  local values, object = instance.c.values, instance.object
  for _, metric in ipairs(instance.class.metrics) do
    values[metric.index].number = object[metric.name]
  end
end

-- End of a call: what was neither passed nor held nor freed is freed.
local function settle(instance)
  local boxes = instance.boxes
  for index = 1, instance.count do
    local box = boxes[index]
    if box.m ~= nil and box.place == 0 then
      free(box.m)
      box.m = nil
    end
    boxes[index] = nil
  end
  instance.count = 0
  mirror(instance)
end

local Batch = {}
Batch.__index = Batch

local function next_message(instance)
  local m = take(instance.c.batch)
  if m == nil then return nil end
  return keep(instance, new_box(m))
end

-- for m in batch:each() do ... end
function Batch:each() return next_message, self[inside] end
function Batch:count() return self[inside].c.batch.count end

local function batch_call(instance, f)
  local object, batch = instance.object, instance.batch
  return function()
    f(object, batch)
    if instance.c.batch.count > 0 then C.neap_bind_batch_free(instance.c.batch) end
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
      f(self, m, to ~= nil and (instance.states[to.slot] or layer.state_make(instance, to)) or nil)
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
  if close then ok, problem = xpcall(close, mistake.traceback, instance.object) end
  for index = #instance.held, 1, -1 do
    local box = instance.held[index]
    free(box.m)
    box.m, box.place = nil, 0
  end
  instance.held = {}
  if not pcall(settle, instance) then instance.count = 0 end
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
    local object = setmetatable({}, Object)
    local instance = {
      c = c, class = class, object = object, header = class.header, boxes = {}, count = 0,
      held = {}, states = {}, names = {}, top = -1, timers = {},
      slot = c.layer.slots[0], at = c.layer.at[0],
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
  return function(definition)
    local class = class_of(name, definition, Object)
    class.maker = maker(class)
    classes.add(class)
    return setmetatable({ name = name, class = class }, {
      __call = function(_, given) return require("neap.stack").layer(class, given) end,
      __tostring = function() return "layer " .. name end,
    })
  end
end

return layer
