-- sending: from ann:send to C, and what happens when there is no room.
--
-- Per class (the multicasts, or one member) there is a queue.  Whoever may wait stands in it until
-- there is room; a message callback leaves its message there, a few of them, and goes on.  While
-- somebody stands there, everybody goes behind: messages keep their order.
--
-- A synchronous send takes a place until it has ended, too, of which there are so many; its time
-- runs from the call, also while it stands in the queue.

local C = require "neap.cdef"
local Handle = require "neap.handle"
local ffi = require "ffi"
local keys = require "neap.keys"
local message = require "neap.message"
local mistake = require "neap.mistake"
local nearest = require "neap.nearest"
local quantity = require "neap.quantity"

local Sending = {}
Sending.__index = Sending

local OOB, NO_RELIABILITY = 1, 16 -- enum neap_flag
local CLOSED, WOULD_BLOCK = -2, -6 -- enum neap_code
local QUEUE_MAX = 64 -- messages that callbacks may leave in one class
local ACK_ON = { reception = 0, completion = 1, delivery = 2 }
local AS_THE_STACK, ANY_TIME = 255, 18446744073709551615ULL
local DEAF_TIME = 1e9 -- ns that a send waits before a missing handler is blamed
local OPTIONS = { "to", "rsvp", "timeout", "wait", "oob", "loopback", "reliable", "block" }
local FLAGS = { "wait", "oob", "loopback", "reliable", "block" }
local KNOWN, FLUSH = keys.set(OPTIONS), keys.set { "to", "timeout" }
local NONE = {}

function Sending.new(channel)
  local own = require("neap.channel").own
  return setmetatable({
    channel = channel, inside = channel[own], world = channel[own].world,
    queues = {}, classes = {}, scratch = ffi.new "struct neap_send",
    used = {}, is_used = {}, -- classes of members that were sent to since the last flush
  }, Sending)
end

-- ---- what is asked for --------------------------------------------------------------------------

local function text_of(body)
  if body == nil or type(body) == "string" then return body end
  if type(body) == "number" then return tostring(body) end
  mistake.raise("a message's body is a string or nil, not a %s", type(body))
end

local function check_options(options)
  if type(options) ~= "table" then
    mistake.raise("the options of a send are a table: { to = \"bob\" }")
  end
  local unknown = keys.unknown(options, KNOWN)
  if unknown ~= nil then
    mistake.raise("send has no option '%s'%s", tostring(unknown), nearest(unknown, OPTIONS))
  end
  for index = 1, #FLAGS do
    local value = options[FLAGS[index]]
    if value ~= nil and type(value) ~= "boolean" then
      mistake.raise("%s is true or false, not %s", FLAGS[index], tostring(value))
    end
  end
end

-- The peer by name or address; nil, code, detail.
function Sending:peer(to)
  if type(to) ~= "string" then mistake.raise("to is a name or an address, not a %s", type(to)) end
  local peer = self.inside.by_address[to]
  if peer then return peer end
  local found = self.inside.peers[to]
  if not found then
    if self.inside.closed then return nil, "closed" end
    if not self.inside.view then return nil, "not joined" end
    return nil, "not a member", ("'%s' is not in view %s"):format(to, self.inside.view.id)
  end
  if #found == 1 then return found[1] end
  local addresses = {}
  for index, one in ipairs(found) do addresses[index] = message.address(one) end
  mistake.raise("the name '%s' is ambiguous: say which address: %s", to,
    table.concat(addresses, " "))
end

-- What the stack says now is what counts for this send, whatever is set before it has left.
local function ack_on_of(value, rsvp)
  if value == true then return rsvp and ACK_ON[rsvp.ack_on] or AS_THE_STACK end
  local number = ACK_ON[value]
  if not number then
    mistake.raise("rsvp is true, \"reception\", \"completion\" or \"delivery\", not %s%s",
      tostring(value), nearest(value, "reception completion delivery"))
  end
  return number
end

-- What is sent, as plain fields; an entry of a queue is one of these.
function Sending:entry(body, options)
  local entry = { body = text_of(body), flags = 0, class = "all" }
  if options == NONE then return entry end
  check_options(options)
  if options.to ~= nil then
    local peer, code, detail = self:peer(options.to)
    if not peer then return nil, code, detail end
    entry.to, entry.class = peer, message.address(peer)
  end
  if options.oob then entry.flags = entry.flags + OOB end
  if options.reliable == false then entry.flags = entry.flags + NO_RELIABILITY end
  entry.no_loopback = options.loopback == false
  if options.rsvp then
    local rsvp = self.channel.rsvp
    local timeout = options.timeout or rsvp and rsvp.timeout
    entry.rsvp, entry.ack_on = true, ack_on_of(options.rsvp, rsvp)
    entry.timeout = timeout and quantity.ns(timeout)
  elseif options.timeout ~= nil then
    mistake.raise("timeout goes with rsvp")
  end
  return entry
end

-- ---- synchronous sends --------------------------------------------------------------------------

-- Which members will have to answer.
function Sending:targets(entry)
  if entry.to then return { message.name(entry.to) } end
  local targets = {}
  local view = self.inside.view
  for index, name in ipairs(view and view.members or NONE) do
    if not (entry.no_loopback and view.addresses[index] == self.channel.address) then
      targets[#targets + 1] = name
    end
  end
  return targets
end

local function on_delivery(sending, entry)
  if entry.ack_on ~= AS_THE_STACK then return entry.ack_on == ACK_ON.delivery end
  local rsvp = sending.channel.rsvp
  return rsvp and rsvp.ack_on == "delivery"
end

-- Waits that could never end are refused at once.  `born`: the callback in which it was sent; nil:
-- this one.
function Sending:hopeless(entry, born, limit)
  local worker = self.inside.receiving:current()
  if not worker or not on_delivery(self, entry) then return end
  local to_self = entry.to and entry.to.self or not entry.to and not entry.no_loopback
  if worker.from_self and to_self and (not born or born == worker.call) then
    return "would wait for itself; use neap.spawn or wait = false"
  end
  local timeout = entry.timeout or self.channel.rsvp and self.channel.rsvp.timeout or 1
  if timeout == 0 and not limit then
    return "delivery without a time limit inside a callback: two members could wait for each other"
  end
end

-- The handle of a send that is under way.
function Sending:handle(entry)
  local handle = Handle.new(self.world, self:targets(entry))
  local worker = self.inside.receiving:current()
  local born = worker and worker.call or 0
  function handle.hopeless(limit) return self:hopeless(entry, born, limit) end
  if entry.flush then handle.why_refused = "a member that is not Neap's could not answer" end
  return handle
end

-- ---- sending ------------------------------------------------------------------------------------

-- Hands it to C: a code or a ticket.
function Sending:try(entry)
  local send = self.scratch
  if self.inside.closed or self.inside.broken then return CLOSED end
  local timeout = entry.timeout or ANY_TIME
  if entry.deadline then timeout = math.max(entry.deadline - self.world:now(), 1) end
  if entry.flush then
    return C.neap_bind_flush_sent(self.inside.pointer, entry.to, timeout)
  end
  local body = entry.body
  send.to, send.flags = entry.to, entry.flags
  send.body, send.len, send.null_body = body, body and #body or 0, body == nil
  send.no_loopback, send.rsvp = entry.no_loopback or false, entry.rsvp or false
  if entry.rsvp then
    send.ack_on = entry.ack_on
    send.timeout = timeout
  end
  local code = C.neap_bind_send(self.inside.pointer, send)
  if entry.to and code >= 0 and not self.is_used[entry.class] and not entry.to.self then
    self.is_used[entry.class] = true
    table.insert(self.used, entry.class)
  end
  return code
end

-- The result of a send that C has taken or refused.
function Sending:outcome(entry, code)
  if code < 0 then
    local name = ffi.string(C.neap_bind_code_text(code))
    local detail
    if name == "too big" then
      detail = ("%d bytes; this stack carries at most %s"):format(#entry.body,
        tostring(quantity.exact(self.inside.pointer.stack.max_body)))
    elseif name == "closed" then
      detail = self.inside.broken
    elseif name == "refused" and entry.rsvp then
      detail = entry.flags >= NO_RELIABILITY and "rsvp needs a reliable message" or
        "the stack has no layer that gives rsvp"
    end
    return nil, name, detail
  end
  if not entry.rsvp then return true end
  local handle = self:handle(entry)
  self.inside.tickets[code] = handle
  return handle
end

function Sending:queue(class)
  local queue = self.queues[class]
  if not queue then
    queue = { class = class, first = 1, last = 0, left = 0 }
    self.queues[class] = queue
    table.insert(self.classes, class)
  end
  return queue
end

local function line_up(queue, entry)
  queue.last = queue.last + 1
  queue[queue.last] = entry
end

local function listens(self)
  local handlers = self.inside.handlers
  return handlers.message or handlers.batch
end

-- A member that takes nothing holds everybody back, itself too.  Said once: it looks like a hang.
local function tell_deaf(self)
  local inside = self.inside
  local handlers = inside.handlers
  if listens(self) or inside.told_deaf or inside.pointer.rx_bytes == 0 then return end
  inside.told_deaf = true
  local text = ("sends wait for room, and what arrived at %s waits for a handler: set one with "
    .. "%s:on(\"message\", f)"):format(self.channel.name, self.channel.name)
  if handlers.trouble then
    self.world:start(function() handlers.trouble { text = text } end)
  elseif not self.world.is_sim then
    io.stderr:write("neap: ", text, "\n")
  end
end

-- How long a synchronous send may take, in nanoseconds; nil: for ever.
function Sending:limit(entry)
  local rsvp = self.channel.rsvp
  local limit = entry.timeout or rsvp and rsvp.timeout.ns
  return limit ~= 0 and limit or nil
end

-- Whoever hears this is told by "writable", once.  A synchronous send may have lacked a place.
local function would_block(queue, entry)
  queue.owed = true
  queue.placeless = queue.placeless or entry.rsvp
  queue.name = entry.to and message.name(entry.to) or nil
  return nil, "would block"
end

-- No room: queue it, wait for it, or say so.
function Sending:blocked(entry, may_wait)
  local queue = self:queue(entry.class)
  tell_deaf(self)
  if not may_wait or not self.world:may_wait() then return would_block(queue, entry) end
  if self.inside.receiving:current() and not entry.rsvp then
    if queue.left >= QUEUE_MAX then return would_block(queue, entry) end
    queue.left = queue.left + 1
    entry.left = true
    line_up(queue, entry)
    return true
  end
  entry.waiter = self.world:waiter()
  local limit = entry.rsvp and self:limit(entry)
  if limit then entry.deadline = self.world:now() + limit end
  line_up(queue, entry)
  -- What it waits for may still be on its way to the inbox.
  if not listens(self) and not self.inside.told_deaf then
    self.world:spawn(function()
      self.world:wait(self.world:waiter(), DEAF_TIME)
      if not entry.waiter.done then tell_deaf(self) end
    end)
  end
  local result, code, detail = self.world:wait(entry.waiter, limit)
  if result or code ~= "timeout" then return result, code, detail end
  entry.over = true
  self:serve(queue) -- It may have kept others from going.
  return nil, "timeout", { missing = self:targets(entry), left = {}, sent = false }
end

local function standing(queue) return queue and queue.first <= queue.last end

-- Sends it, or has it wait behind those that stand there: true, a handle, or nil, code, detail.
function Sending:push(entry, may_wait)
  local code = WOULD_BLOCK
  if not standing(self.queues[entry.class]) then code = self:try(entry) end
  if code == 0 then return true end
  if code == WOULD_BLOCK then return self:blocked(entry, may_wait) end
  return self:outcome(entry, code)
end

function Sending:send(body, options)
  options = options or NONE
  local entry, code, detail = self:entry(body, options)
  if not entry then return nil, code, detail end
  if not entry.rsvp then return self:push(entry, options.block ~= false) end
  local waits = options.wait ~= false
  if waits then self.world:must_wait "a synchronous send" end
  local why = waits and self:hopeless(entry)
  if why then return nil, "refused", why end
  local handle
  handle, code, detail = self:push(entry, options.block ~= false)
  if not handle or not waits then return handle, code, detail end
  return handle:wait()
end

-- ---- room ---------------------------------------------------------------------------------------

-- Somebody was told that a send would block, and it no longer would: nobody stands before it.
function Sending:tell_writable(queue)
  local handler, name = self.inside.handlers.writable, queue.name
  if not queue.owed or standing(queue) then return end
  queue.owed, queue.placeless = false, false
  if not handler then return end
  self.world:start(function() self.inside.receiving:call(handler, name) end)
end

-- Sends what stands in the queue, as far as there is room.
function Sending:serve(queue)
  local stood = standing(queue)
  while standing(queue) do
    local entry = queue[queue.first]
    local code = not entry.over and self:try(entry)
    if code == WOULD_BLOCK then return end
    queue[queue.first] = nil
    queue.first = queue.first + 1
    if entry.left then queue.left = queue.left - 1 end
    if entry.waiter and code then entry.waiter.wake(self:outcome(entry, code)) end
  end
  if stood then self:tell_writable(queue) end
end

function Sending:on_room(peer)
  local named = self.queues[peer ~= nil and message.address(peer) or "all"]
  if named then
    self:serve(named)
    self:tell_writable(named)
  end
  -- Whoever stands first may have waited for a place of a synchronous send.
  for _, class in ipairs(self.classes) do
    local queue = self.queues[class]
    if queue ~= named and standing(queue) and queue[queue.first].rsvp then self:serve(queue) end
    if queue ~= named and queue.placeless then self:tell_writable(queue) end
  end
end

-- Queues of members that are gone end with "not a member"; others may go on.
function Sending:view_changed()
  for _, class in ipairs(self.classes) do
    local queue = self.queues[class]
    if class ~= "all" and not self.inside.by_address[class] then
      self:turn_away(queue, "not a member")
      self:tell_writable(queue)
    else
      self:serve(queue)
    end
  end
end

function Sending:turn_away(queue, code, detail)
  while standing(queue) do
    local entry = queue[queue.first]
    queue[queue.first] = nil
    queue.first = queue.first + 1
    if entry.waiter then entry.waiter.wake(nil, code, detail) end
  end
  queue.left = 0
end

-- The stack is gone: nobody waits any longer.
function Sending:reset(code, detail)
  self.used, self.is_used = {}, {}
  for _, class in ipairs(self.classes) do
    self:turn_away(self.queues[class], code, detail)
    self.queues[class].owed = false
  end
  for _, ticket in ipairs(keys.sorted(self.inside.tickets)) do
    local handle = self.inside.tickets[ticket]
    self.inside.tickets[ticket] = nil
    handle:finish(nil, code, { missing = handle.missing })
  end
end

-- ---- flush_sent ---------------------------------------------------------------------------------

-- Begins to ask one stream whether all of it is there: a handle, or nil, code, detail.
local function flush_one(self, to, timeout)
  local entry, code, detail = self:entry(nil,
    { to = to, rsvp = "completion", timeout = timeout, loopback = false })
  if not entry then return nil, code, detail end
  entry.flush = true
  return self:push(entry, true)
end

local function add_names(list, known, names)
  for _, name in ipairs(names or NONE) do
    if not known[name] then table.insert(list, name) end
    known[name] = true
  end
end

-- Asks several streams at a time; what they say is put together.
local function flush_all(self, timeout)
  local began, limit = self.world:now(), timeout ~= nil and quantity.ns(timeout) or nil
  local streams, handles, results = self.used, {}, {}
  self.used, self.is_used = {}, {}
  for index = 0, #streams do
    local left = limit and limit > 0 and math.max(limit - (self.world:now() - began), 1)
    -- Who is gone has taken its stream along.
    if index == 0 or self.inside.by_address[streams[index]] then
      local handle, code, detail = flush_one(self, streams[index],
        left and quantity.time(left) or timeout)
      if handle then table.insert(handles, handle) else table.insert(results, { code, detail }) end
    end
  end
  for _, handle in ipairs(handles) do
    local ok, code, detail = handle:wait()
    table.insert(results, ok and { nil, code } or { code, detail })
  end
  local whole, failed, text = { missing = {}, left = {} }, nil, nil
  local missing, gone = {}, {}
  for _, result in ipairs(results) do
    local detail = type(result[2]) == "table" and result[2] or NONE
    failed = failed or result[1]
    text = text or type(result[2]) == "string" and result[2] or nil
    add_names(whole.missing, missing, detail.missing)
    add_names(whole.left, gone, detail.left)
  end
  if not failed then return true, { left = whole.left } end
  for _, class in ipairs(streams) do -- To be asked again.
    if not self.is_used[class] then table.insert(self.used, class) end
    self.is_used[class] = true
  end
  return nil, failed, text or whole
end

-- Waits until everything is there that was sent before: to one, or to everybody and to each.
function Sending:flush(options)
  if options == nil then options = NONE end
  if type(options) ~= "table" then
    mistake.raise("flush_sent takes a table, if anything: { to = \"bob\", timeout = \"1s\" }")
  end
  self.world:must_wait "flush_sent"
  local unknown = keys.unknown(options, FLUSH)
  if unknown ~= nil then
    mistake.raise("flush_sent has no option '%s'%s", tostring(unknown),
      nearest(unknown, "to timeout"))
  end
  if options.to == nil then return flush_all(self, options.timeout) end
  local handle, code, detail = flush_one(self, options.to, options.timeout)
  if not handle then return nil, code, detail end
  return handle:wait()
end

return Sending
