-- self: what a layer in Lua calls.  `self` is one Lua object per instance: its fields are the
-- attributes and whatever the layer puts there, its methods stand here.
--
--     messages   pass_up pass_down hold free clone new      put get (the header)
--     members    peer_of peers view
--     time       after waiting cancel now random
--     events     event_up event_down
--
-- An instance is what stands behind it:
--
--     c, class, object     the struct in C, the class, the object
--     boxes, count, open   messages of this call; of these, those that the layer still has
--     held, lent           messages beyond this call; some of `boxes` became such
--     states, names, top   of members, by slot

local C = require "neap.cdef"
local ffi = require "ffi"
local keys = require "neap.keys"
local message = require "neap.message"
local mistake = require "neap.mistake"
local nearest = require "neap.nearest"
local quantity = require "neap.quantity"
local view_of = require "neap.view"

local TIMERS, BATCH = 8, 128 -- NEAP_BIND_TIMERS, BATCH_MAX of mailboxes
local OOB, RSVP = 1, 128 -- enum neap_flag

local new_box, put, free = message.box, C.neap_bind_put, C.neap_bind_msg_free

local inside = {} -- private key of an object: its instance
local Object = {}
Object.__index = Object

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

-- The layer no longer has it: the message, for whoever has it now.
local function part(instance, box)
  local m = live(box)
  if box.place > 0 then unhold(instance, box) else instance.open = instance.open - 1 end
  box.m = nil
  return m
end

function Object:pass_up(box)
  local instance = self[inside]
  put(instance.rising, part(instance, box))
end

function Object:pass_down(box)
  local instance = self[inside]
  put(instance.falling, part(instance, box))
end

function Object:free(box)
  free(part(self[inside], box))
end

-- Keeps a message beyond this call; it stays valid until it is passed or freed.
function Object:hold(box)
  local instance = self[inside]
  live(box)
  if box.place > 0 then return box end
  local held = instance.held
  held[#held + 1] = box
  box.place = #held
  instance.open, instance.lent = instance.open - 1, true
  return box
end

-- A box for this call.  While the world checks (in simulation, unless told otherwise) each message
-- has a new one, so a layer that touches what it no longer has is told; else boxes are used again.
local function boxed(instance, m)
  local count = instance.count + 1
  instance.count, instance.open = count, instance.open + 1
  local box = instance.boxes[count]
  if not box then
    box = new_box()
    instance.boxes[count] = box
  end
  box.m = m
  return box
end

-- As many boxes as a batch has messages, as a rule: compiled code then meets no first time.
local function boxes_for(strict)
  local boxes = {}
  for index = 1, strict and 0 or BATCH do boxes[index] = new_box() end
  return boxes
end

-- Another message with the same body and headers.
function Object:clone(box)
  return boxed(self[inside], C.neap_bind_msg_clone(live(box)))
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
  return boxed(instance, m)
end

-- Writes the layer's header: fields that are left out are 0.
function Object:put(box, fields)
  local instance = self[inside]
  if instance.strict and instance.header.known then
    local unknown = keys.unknown(fields, instance.header.known)
    if unknown ~= nil then
      mistake.raise("the header of %s has no field '%s'%s", instance.class.name,
        tostring(unknown), nearest(unknown, instance.header.names))
    end
  end
  instance.header.put(live(box), instance.slot, instance.at, fields)
end

-- The layer's header, or nil when the message carries none.
function Object:get(box)
  local instance = self[inside]
  return instance.header.get(live(box), instance.slot, instance.at)
end

-- State of a member, made by the layer's `peer`; it comes and goes with the member.
local function state_make(instance, peer)
  local make = instance.class.definition.peer
  local state = make and make(instance.object, message.name(peer)) or {}
  C.neap_bind_peer_keep(ffi.cast("struct neap_layer *", instance.c), peer)
  instance.states[peer.slot] = state
  instance.names[peer.slot] = message.name(peer)
  instance.top = math.max(instance.top, peer.slot)
  return state
end

-- This layer's state of whoever sent the message.
function Object:peer_of(box)
  local instance = self[inside]
  local peer = live(box).from
  return instance.states[peer.slot] or state_make(instance, peer)
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

-- Nanoseconds on the world's clock: a plain number, to compare with self.timeout.ns.
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

return {
  Object = Object, inside = inside, boxed = boxed, boxes_for = boxes_for, state_make = state_make,
}
