-- receiving: messages to the application's callbacks, and what callbacks raise.
--
-- Messages of one sender are worked off by one coroutine, the sender's worker:
--
--     row: ann 3   ->  worker of ann   take, call, free   take, call, (waits) ... free   take ...
--     row: bob 1   ->  worker of bob   take, call, free
--
-- so a callback that waits holds back its own sender only.  What a worker has taken lies in its
-- hand, which C knows: when the callback returned, or the world ends, it goes back.
--
-- An error of a callback goes to the channel's error hook, is counted, and delivery goes on with
-- the next message; without a hook it comes out of sim:run, or of neap.run at its end.

local C = require "neap.cdef"
local ffi = require "ffi"
local message = require "neap.message"
local mistake = require "neap.mistake"

local Receiving = {}
Receiving.__index = Receiving

local LIST_MAX = 256 -- messages that a batch handler gets at once

function Receiving.new(channel)
  local inside = channel[require("neap.channel").own]
  return setmetatable({
    channel = channel, inside = inside, world = inside.world, handlers = inside.handlers,
    workers = {}, top = -1, -- by slot
    busy = 0,               -- workers whose callback has not returned
    errors = 0, calls = 0,
    by_coroutine = setmetatable({}, { __mode = "k" }),
  }, Receiving)
end

-- ---- errors -------------------------------------------------------------------------------------

function Receiving:report(text)
  self.errors = self.errors + 1
  local handler = self.handlers.error
  if not handler then return self.world:complain(text) end
  local ok, problem = xpcall(handler, mistake.traceback, text)
  if not ok then self.world:complain(problem) end
end

-- Calls a handler of the user's.
function Receiving:call(handler, value)
  local ok, text = xpcall(handler, mistake.traceback, value)
  if not ok then self:report(text) end
end

-- ---- workers ------------------------------------------------------------------------------------

-- Of this callback, so that a wait for a message sent inside it is known for what it is.
local function number(self)
  self.calls = self.calls + 1
  return self.calls
end

-- A callback has returned: whoever waits for that goes on.
local function finished(worker)
  worker.finished = worker.taken
  local watch = worker.watch
  if not watch or worker.finished < watch.target then return end
  worker.watch = nil
  watch.waiter.wake(true)
end

local function one(self, worker, handler)
  local m = C.neap_bind_hand_take(worker.hand, worker.slot)
  if m == nil then return false end
  worker.taken = worker.taken + 1
  local box = message.box(m)
  worker.from_self, worker.call = m.from.self, number(self)
  local ok, text = xpcall(handler, mistake.traceback, box)
  box.m = nil
  C.neap_bind_hand_done(worker.hand)
  finished(worker)
  if not ok then self:report(text) end
  return true
end

-- The list is the handler's; ours is another, so that every box is emptied.
local function many(self, worker, handler)
  local boxes, list = {}, {}
  while #boxes < LIST_MAX do
    local m = C.neap_bind_hand_take(worker.hand, worker.slot)
    if m == nil then break end
    worker.from_self = m.from.self
    local box = message.box(m)
    boxes[#boxes + 1], list[#list + 1] = box, box
  end
  if #boxes == 0 then return false end
  worker.taken = worker.taken + #boxes
  worker.call = number(self)
  local ok, text = xpcall(handler, mistake.traceback, list)
  for index = 1, #boxes do boxes[index].m = nil end
  C.neap_bind_hand_done(worker.hand)
  finished(worker)
  if not ok then self:report(text) end
  return true
end

-- One sender's coroutine.
local function work(self, worker)
  local handlers = self.handlers
  while true do
    local more = false
    if worker.retired then
      more = false
    elseif handlers.message then
      more = one(self, worker, handlers.message)
    elseif handlers.batch then
      more = many(self, worker, handlers.batch)
    end
    if not more then
      worker.busy = false
      self.busy = self.busy - 1
      if worker.retired then
        C.neap_bind_hand_free(worker.hand)
        return self.channel:bury()
      end
      coroutine.yield()
    end
  end
end

local function worker_of(self, slot)
  local worker = self.workers[slot]
  if not worker then
    worker = { slot = slot, hand = C.neap_bind_hand_new(self.inside.pointer), taken = 0,
      finished = 0 }
    worker.co = coroutine.create(function() return work(self, worker) end)
    self.by_coroutine[worker.co] = worker
    self.workers[slot], self.top = worker, math.max(self.top, slot)
  end
  return worker
end

-- Messages of the sender in this slot may be handed out.
function Receiving:on_messages(slot)
  if self.inside.closed or not (self.handlers.message or self.handlers.batch) then return end
  local worker = worker_of(self, slot)
  if worker.busy then return end
  worker.busy = true
  self.busy = self.busy + 1
  self.world:resume(worker.co)
end

-- A handler came: what waited until now is handed out.
function Receiving:serve_waiting()
  if self.inside.closed then return end
  local slot = ffi.new "uint32_t[1]"
  while true do
    local inbox = C.neap_bind_waiting(self.inside.pointer, slot)
    if inbox == nil then break end
    self:on_messages(inbox.peer.slot)
    if self.inside.closed then break end -- by that callback
  end
end

-- How far each worker has to get until what may be handed out now is done with; nil: nobody takes
-- it.
local function targets_of(self)
  local slot, targets = ffi.new "uint32_t[1]", {}
  for at = 0, self.top do
    local worker = self.workers[at]
    if worker and worker.busy then targets[at] = worker.taken end
  end
  while true do
    local inbox = C.neap_bind_waiting(self.inside.pointer, slot)
    if inbox == nil then return targets end
    if not (self.handlers.message or self.handlers.batch) then return end
    local worker = worker_of(self, inbox.peer.slot)
    targets[inbox.peer.slot] = worker.taken + inbox.allowed
  end
end

-- Waits until callbacks are done with everything that may be handed out now; false when there is
-- nobody to take it, or the stack is gone.
function Receiving:drained()
  local targets = not self.inside.closed and targets_of(self)
  if not targets then return false end
  for at = 0, self.top do
    local worker, target = self.workers[at], targets[at] or 0
    while worker and worker.finished < target and not worker.retired do
      worker.watch = worker.watch or { target = target, waiter = self.world:waiter() }
      worker.watch.target = math.max(target, worker.watch.target)
      self.world:wait(worker.watch.waiter)
    end
  end
  return not self.inside.closed
end

-- The stack is gone, or starts over: its senders' workers end, busy ones when their callback
-- returns.
function Receiving:retire()
  for slot = 0, self.top do
    local worker = self.workers[slot]
    if worker then
      worker.retired = true
      if worker.watch then worker.watch.waiter.wake(false) end
      if not worker.busy then C.neap_bind_hand_free(worker.hand) end
    end
  end
  self.workers, self.top = {}, -1
end

-- The worker whose callback runs right now, or nil.
function Receiving:current()
  local co = coroutine.running()
  return co and self.by_coroutine[co]
end

return Receiving
