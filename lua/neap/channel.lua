-- channel: one member's handle on a group.
--
-- The world hands it rows, in the order in which they rose: messages go to receiving.lua, notes
-- (views, ends of sends, trouble, room, the end) are dealt with here, sends in sending.lua.
--
-- It stays alive as long as it is open, whether anybody refers to it or not.

local C = require "neap.cdef"
local Handle = require "neap.handle"
local Receiving = require "neap.receiving"
local Sending = require "neap.sending"
local Stack = require "neap.attrs"
local changes = require "neap.changes"
local State = require "neap.state"
local core = require "neap.core"
local ffi = require "ffi"
local keys = require "neap.keys"
local message = require "neap.message"
local mistake = require "neap.mistake"
local nearest = require "neap.nearest"
local policy = require "neap.policy"
local view_of = require "neap.view"

local Channel = {}

-- Private parts of a channel: channel[own].  So users can hang their own things on it.
local own = setmetatable({}, { __tostring = function() return "(inside)" end })
Channel.own = own

local NOTE = {
  VIEW = 0, FAILED = 1, LEFT = 2, CLOSED = 3, ACKED = 4, DONE = 5, SETTLED = 6, TROUBLE = 7,
  ROOM = 8, REJOIN = 9, AGREED = 10, STATE = 11, DRAIN = 12, THAW = 13,
  ORDER = 14, DECISION = 15,
}
local CLOSED = 3 -- enum neap_channel_state

local EVENTS = { "message", "batch", "view", "error", "trouble", "writable", "state",
  "state_request", "membership", "decision" }
local OPTIONS = { "stack", "name", "with", "on" }

local function code_text(code) return ffi.string(C.neap_bind_code_text(code)) end

-- ---- opening ------------------------------------------------------------------------------------

local function known(list, key, what)
  for _, name in ipairs(list) do
    if name == key then return end
  end
  mistake.raise("%s '%s' is not known%s", what, tostring(key), nearest(key, list))
end

local function check_handler(event, handler)
  known(EVENTS, event, "the event")
  if handler ~= nil and type(handler) ~= "function" and
    not (event == "state" and type(handler) == "table") then
    mistake.raise("on(\"%s\", f) takes a function, not a %s", event, type(handler))
  end
  if event == "state" then State.check_handler(handler) end
end

local function check_options(options)
  if type(options) ~= "table" then
    mistake.raise("join is called as join(\"group\", { stack = \"lan\", name = \"ann\" })")
  end
  for _, key in ipairs(keys.sorted(options)) do known(OPTIONS, key, "the option") end
  if options.stack == nil then mistake.raise("join needs a stack: { stack = \"lan\" }") end
  if options.name ~= nil and (type(options.name) ~= "string" or #options.name > 63) then
    mistake.raise("a name is a string of at most 63 bytes")
  end
  if options.on == nil then return end
  if type(options.on) ~= "table" then mistake.raise("on is a table of handlers") end
  if options.on.message and options.on.batch then
    mistake.raise("a message goes to one of the two: on.message or on.batch")
  end
  for _, event in ipairs(keys.sorted(options.on)) do check_handler(event, options.on[event]) end
end

local function refresh_address(channel)
  local pointer = channel[own].pointer
  if pointer.stack ~= nil then channel.address = message.address(pointer.stack.self) end
end

-- Opens a channel in this world; it joins as the world is driven.  nil, code, detail when a layer
-- cannot open.
function Channel.open(world, cluster, options)
  if type(cluster) ~= "string" or cluster == "" or #cluster > 63 then
    mistake.raise("a group has a name of 1 to 63 bytes")
  end
  check_options(options)
  local stacks = require "neap.stack"
  local ready = stacks.ready(options.stack, options.with)
  for _, layer in ipairs(ready.description.layers) do
    if layer.class.maker then
      core.maker(world.handle, layer.class.class, layer.class.maker)
      if world.is_sim and layer.class.headers then
        core.sim_know(world.handle, layer.class.headers)
      end
    end
  end
  local name = options.name or world:default_name()
  local pointer, id = core.open(world.handle, ready.spec, cluster, name)
  if not pointer then return nil, "system", id end

  local channel = setmetatable({ name = name, cluster = cluster }, Channel)
  channel[own] = {
    world = world, id = id, description = ready.description, handlers = {},
    pointer = ffi.cast("struct neap_channel *", pointer),
    views = {}, peers = {}, by_address = {}, tickets = {}, joiners = {}, leavers = {},
  }
  channel[own].sending, channel[own].receiving = Sending.new(channel), Receiving.new(channel)
  channel[own].state = State.new(channel)
  channel.stack = Stack.new(channel)
  refresh_address(channel)
  world.channels[id], world.open, world.last_id = channel, world.open + 1, id
  for _, event in ipairs(keys.sorted(options.on or {})) do channel:on(event, options.on[event]) end
  return channel
end

-- Waits until the first view is there.
function Channel.join(world, cluster, options)
  world:must_wait "join"
  local channel, code, detail = Channel.open(world, cluster, options)
  if not channel then return nil, code, detail end
  local waiter = world:waiter()
  table.insert(channel[own].joiners, waiter)
  local joined
  joined, code, detail = world:wait(waiter)
  if joined then return channel end
  return nil, code, detail
end

-- ---- what users call ----------------------------------------------------------------------------

local methods = {}

-- What is inside the channel that a method was called on.
local function inside_of(channel, method)
  if type(channel) ~= "table" or not channel[own] then
    mistake.raise("%s is called with a colon: channel:%s(...)", method, method)
  end
  return channel[own]
end

function methods:on(event, handler)
  local inside = inside_of(self, "on")
  check_handler(event, handler)
  if handler and (event == "message" or event == "batch") then
    local other = event == "message" and "batch" or "message"
    if inside.handlers[other] then
      mistake.raise("there is a handler for \"%s\": a message goes to one of the two", other)
    end
    inside.world:defer(function() inside.receiving:serve_waiting() end)
  end
  inside.handlers[event] = handler or nil
  if event == "membership" and inside.pointer then
    C.neap_bind_policy(inside.pointer, handler ~= nil)
  end
end

-- The current view, or nil before the first.
function methods:view()
  return inside_of(self, "view").view
end

function methods:send(body, options)
  return inside_of(self, "send").sending:send(body, options)
end

-- Waits until everybody has what was sent before.
function methods:flush_sent(options)
  return inside_of(self, "flush_sent").sending:flush(options)
end

-- Gets the state of the group from another member; the handler for "state" is given it.
function methods:get_state(options)
  return inside_of(self, "get_state").state:get(options)
end

-- First what was sent before is waited for, as far as the stack can tell and time allows.
local function leave(channel)
  local inside, gms = channel[own], channel.gms
  if channel:is_open() and inside.view then
    channel:flush_sent { timeout = gms and gms.leave_timeout or "1s" }
  end
  if inside.closed then return true end
  core.leave(inside.world.handle, inside.id)
  local waiter = inside.world:waiter()
  table.insert(inside.leavers, waiter)
  return inside.world:wait(waiter)
end

-- Leaves in good order, and waits until that is done; { wait = false }: does not wait.
function methods:leave(options)
  local inside = inside_of(self, "leave")
  if inside.closed then return true end
  if inside.broken then return self:close() end
  if type(options) == "table" and options.wait == false then
    inside.world:spawn(leave, nil, self)
    return true
  end
  inside.world:must_wait "leave"
  return leave(self)
end

-- At once, without a goodbye; twice is fine.
function methods:close()
  local inside = inside_of(self, "close")
  if inside.closed then return true end
  core.close(inside.world.handle, inside.id)
  if inside.pointer.state == CLOSED then Channel.shut(self) end
  return true
end

function methods:is_open()
  local inside = inside_of(self, "is_open")
  return not inside.closed and inside.pointer.state ~= CLOSED
end

-- ---- notes --------------------------------------------------------------------------------------

-- Views, one after the other, in a coroutine of their own.
local function tell_view(channel, view)
  local inside = channel[own]
  if not inside.handlers.view then return end
  table.insert(inside.views, view)
  if inside.viewing then return end
  inside.viewing = true
  inside.world:start(function()
    while #inside.views > 0 do
      local next_view = table.remove(inside.views, 1)
      if inside.handlers.view then inside.receiving:call(inside.handlers.view, next_view) end
    end
    inside.viewing = false
  end)
end

local function wake_all(list, ...)
  while #list > 0 do table.remove(list, 1).wake(...) end
end

-- Who can be sent to, by name and by address; the peers live as long as the kept note.
local function learn_peers(channel, pointer)
  local inside = channel[own]
  inside.peers, inside.by_address = {}, {}
  for index = 1, pointer.count do
    local peer = pointer.members[index - 1]
    local name, address = message.name(peer), message.address(peer)
    inside.by_address[address] = peer
    local known_peers = inside.peers[name] or {}
    known_peers[#known_peers + 1] = peer
    inside.peers[name] = known_peers
  end
end

local notes = {}

notes[NOTE.VIEW] = function(channel, note)
  local inside = channel[own]
  inside.view = view_of(note.view)
  learn_peers(channel, note.view)
  C.neap_bind_view_keep(inside.pointer, note)
  -- Its own address in this view: the stack may have started over since the view rose.
  for index = 1, note.view.count do
    local peer = note.view.members[index - 1]
    if peer.self then channel.address = message.address(peer) end
  end
  wake_all(inside.joiners, true)
  inside.sending:view_changed()
  tell_view(channel, inside.view)
  return true
end

notes[NOTE.FAILED] = function(channel, note)
  local inside = channel[own]
  inside.failure = { code_text(note.code), ffi.string(note.text) }
  wake_all(inside.joiners, nil, inside.failure[1], inside.failure[2])
end

notes[NOTE.LEFT] = function(channel)
  wake_all(channel[own].leavers, true)
end

notes[NOTE.CLOSED] = function(channel)
  Channel.shut(channel)
end

notes[NOTE.ACKED] = function(channel, note)
  local handle = channel[own].tickets[note.ticket]
  if handle then handle:on_acked(message.name(note.peer), tonumber(note.time)) end
end

notes[NOTE.DONE] = function(channel, note)
  local tickets = channel[own].tickets
  local handle = tickets[note.ticket]
  tickets[note.ticket] = nil
  if handle then handle:on_done(note.code, Handle.found(note.found)) end
end

notes[NOTE.SETTLED] = function(channel, note)
  changes.settled(channel, ffi.string(note.text), note.code, Handle.found(note.found))
end

notes[NOTE.AGREED] = function(channel, note)
  changes.agreed(channel, note)
end

notes[NOTE.TROUBLE] = function(channel, note)
  local inside = channel[own]
  local trouble = { text = ffi.string(note.text) }
  if note.peer ~= nil then trouble.peer = message.name(note.peer) end
  inside.last_trouble = trouble
  local handler = inside.handlers.trouble
  if handler then inside.world:start(function() inside.receiving:call(handler, trouble) end) end
end

-- Who is in the group, and why.
notes[NOTE.DECISION] = function(channel, note)
  local inside = channel[own]
  local handler = inside.handlers.decision
  if not handler then return end
  local decision = { text = ffi.string(note.text), peer = message.name(note.peer) }
  inside.world:start(function() inside.receiving:call(handler, decision) end)
end

notes[NOTE.ORDER] = function(channel, note)
  local inside = channel[own]
  local handler = inside.handlers.membership
  if not handler then return end -- C has been told that there is none.
  policy.answer(inside.pointer, note, handler, function(text) inside.receiving:report(text) end)
end

notes[NOTE.ROOM] = function(channel, note)
  channel[own].sending:on_room(note.peer)
end

notes[NOTE.STATE] = function(channel, note)
  channel[own].state:on_note(note)
end

notes[NOTE.DRAIN] = function(channel, note)
  channel[own].state:on_drain(note.number)
end

notes[NOTE.THAW] = function(channel)
  channel[own].receiving:serve_waiting()
end

-- Excluded: the stack starts over under a new address, and so do the senders' workers.
notes[NOTE.REJOIN] = function(channel)
  channel[own].receiving:retire()
  C.neap_bind_view_keep(channel[own].pointer, nil)
  channel[own].peers, channel[own].by_address = {}, {}
  channel[own].sending:reset "reset"
  changes.reset(channel, "reset")
  channel[own].state:reset "reset"
  refresh_address(channel)
end

function Channel:on_messages(slot)
  self[own].receiving:on_messages(slot)
end

function Channel:on_note(note)
  local kept = notes[note.kind](self, note)
  if not kept then C.neap_bind_note_free(note) end
end

-- A layer in Lua raised: the stack stands still, so that one can look at it.  Nobody waits for it
-- any more.
function Channel:on_layer_failure(text)
  local inside = self[own]
  inside.broken = text
  inside.sending:reset("closed", text)
  inside.state:reset("closed", text)
  wake_all(inside.joiners, nil, "closed", text)
  wake_all(inside.leavers, nil, "closed", text)
  inside.receiving:report(text)
end

-- ---- the end ------------------------------------------------------------------------------------

-- The stack is gone.  Whoever waits hears it; the handle of C goes when no callback needs it.
function Channel:shut()
  local inside = self[own]
  if inside.closed then return end
  inside.closed = true
  inside.peers, inside.by_address = {}, {} -- They go with the stack.
  inside.world.open = inside.world.open - 1
  inside.receiving:retire()
  inside.sending:reset "closed"
  inside.state:reset "closed"
  wake_all(inside.joiners, nil, "closed", inside.failure and inside.failure[2])
  wake_all(inside.leavers, true)
  changes.reset(self, "closed")
  inside.world:defer(function() Channel.bury(self) end)
end

-- The world ends, and takes the handle of C along.
function Channel:abandon()
  Channel.shut(self)
  self[own].world.channels[self[own].id] = nil
  self[own].pointer = nil
end

function Channel:bury()
  local inside = self[own]
  if not inside.closed or inside.receiving.busy > 0 or not inside.pointer then return end
  core.free(inside.world.handle, inside.id)
  inside.world.channels[inside.id] = nil
  inside.pointer = nil
end

-- ---- the object ---------------------------------------------------------------------------------

-- Methods first, then layers: bob.nakack is bob.stack.nakack.
function Channel.__index(channel, key)
  local method = methods[key] or Channel[key]
  if method ~= nil then return method end
  local stack = rawget(channel, "stack")
  return stack and stack[Stack.layer](key)
end

function Channel.__tostring(channel)
  local view = channel[own].view
  return ("channel %s in %s, %s"):format(channel.name, channel.cluster,
    channel[own].closed and "closed" or "view " .. (view and view.id or "none yet"))
end

return Channel
