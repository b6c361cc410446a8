-- world: drives a world in C, and the coroutines that live in it.
--
--     run what is ready -> step (C, until something waits) -> take it, row by row -> again
--
-- C never calls the application.  Everything of the user's runs in coroutines that are resumed
-- here, in the order in which what they waited for happened; nobody from inside another.

local C = require "neap.cdef"
local core = require "neap.core"
local ffi = require "ffi"
local heap = require "neap.heap"
local mistake = require "neap.mistake"

local World = {}
World.__index = World

local FOREVER = math.huge
local COMPLAINTS_MAX = 16 -- errors that are told; of others only the number

-- The world whose coroutine runs right now; nil outside.
local current

-- Coroutines and the tasks they are; the collector may have both.
local tasks = setmetatable({}, { __mode = "k" })

function World.current() return current end

-- ---- making one ---------------------------------------------------------------------------------

local function failed(failures)
  return function(channel, text, layer)
    failures[#failures + 1] = { channel = channel, text = text, layer = layer }
  end
end

function World.new(handle, env)
  local world = setmetatable({
    handle = handle,
    pointer = ffi.cast("struct neap_world *", core.pointer(handle)),
    row = ffi.new "struct neap_row",
    channels = {},    -- by number
    open = 0,         -- channels that are not closed
    ready = {}, first = 1, last = 0, -- what is to be resumed, in order
    sleepers = heap(),
    layer_failures = {},
    complaints = {},  -- errors that nobody handles: the first ones,
    complained = 0,   -- and how many there were
  }, World)
  env[1] = mistake.traceback
  env[2] = failed(world.layer_failures)
  return world
end

-- Ends everything in it; twice is fine.  What C had is gone then, and nobody may look at it.
function World:finish()
  if self.driving then mistake.raise("this world cannot end from inside: call neap.stop()") end
  if self.finished then return end
  self.finished, self.ended_at = true, self:now()
  for id = 1, self.last_id or 0 do
    if self.channels[id] then self.channels[id]:abandon() end
  end
  core.finish(self.handle)
  self.pointer = nil
end

function World:now()
  return self.ended_at or tonumber(self.pointer.now)
end

-- ---- coroutines ---------------------------------------------------------------------------------

local function push(world, entry)
  world.last = world.last + 1
  world.ready[world.last] = entry
end

-- Resumes now; an error goes to the task's `failed`.
function World:resume(co, ...)
  local before = current
  current = self
  local ok, problem = coroutine.resume(co, ...)
  current = before
  if ok then return end
  local text = mistake.traceback(problem):match "^(.-)\nstack traceback:"
  text = debug.traceback(co, text or tostring(problem))
  local task = tasks[co]
  if task and task.failed then
    task.failed(problem, text)
  else
    self:complain(text)
  end
end

-- Runs f in a coroutine when the world is driven next; `failed` gets what it raises.
function World:spawn(f, on_failure, ...)
  local co = coroutine.create(f)
  tasks[co] = { failed = on_failure }
  push(self, { co = co, n = select("#", ...), ... })
  return co
end

-- The same at once, from the driver.
function World:start(f, ...)
  local co = coroutine.create(f)
  tasks[co] = {}
  self:resume(co, ...)
  return co
end

-- Calls f from the driver, not in a coroutine.
function World:defer(f)
  push(self, { f = f })
end

function World:run_ready()
  while self.first <= self.last do
    local entry = self.ready[self.first]
    self.ready[self.first] = nil
    self.first = self.first + 1
    if entry.f then
      entry.f()
    else
      self:resume(entry.co, unpack(entry, 1, entry.n))
    end
  end
  self.first, self.last = 1, 0
end

-- ---- waiting ------------------------------------------------------------------------------------

-- True where waiting is possible: in a coroutine of this world.
function World:may_wait()
  return current == self and coroutine.running() ~= nil
end

local function explain(world, what)
  local where = world.is_sim and "sim:spawn(function() ... end)" or "neap.run or neap.spawn"
  if current and current ~= world then
    mistake.raise("%s belongs to another world than this coroutine", what)
  end
  mistake.raise("%s waits: call it inside %s", what, where)
end

function World:must_wait(what)
  if not self:may_wait() then explain(self, what) end
end

-- Something to wait for: w = world:waiter(); somebody calls w.wake(...); world:wait(w, limit).
function World:waiter()
  local w = { done = false }
  function w.wake(...)
    if w.done then return end
    w.done, w.n = true, select("#", ...)
    for index = 1, w.n do w[index] = (select(index, ...)) end
    self.sleepers:remove(w)
    if w.co then push(self, { co = w.co, n = 0 }) end
  end
  return w
end

-- Waits for it and returns what it was woken with; after `limit` nanoseconds nil, "timeout".
function World:wait(w, limit)
  if not w.done then
    w.co = coroutine.running()
    if limit and limit < FOREVER then
      w.at = self:now() + limit
      self.sleepers:add(w)
    end
    while not w.done do coroutine.yield() end
  end
  return unpack(w, 1, w.n)
end

-- ---- errors -------------------------------------------------------------------------------------

-- An error that nobody handles: said at once in the real world, raised when driving ends.
function World:complain(text)
  self.complained = self.complained + 1
  if #self.complaints >= COMPLAINTS_MAX then return end
  self.complaints[#self.complaints + 1] = text
  if not self.is_sim then io.stderr:write("neap: ", text, "\n") end
end

-- Layers written in Lua that raised: their stacks stand still.
local function layers_that_failed(world)
  while #world.layer_failures > 0 do
    local failure = table.remove(world.layer_failures, 1)
    local channel = world.channels[failure.channel]
    local text = ("layer %s stopped its stack: %s"):format(failure.layer, failure.text)
    if channel then channel:on_layer_failure(text) else world:complain(text) end
  end
end

function World:raise_complaints()
  layers_that_failed(self) -- Those that raised when they closed, and nothing came after.
  local complaints = self.complaints
  if #complaints == 0 then return end
  local more = self.complained > 1 and ("\n(and %d more)"):format(self.complained - 1) or ""
  self.complaints, self.complained = {}, 0
  error(complaints[1] .. more, 0)
end

-- ---- driving ------------------------------------------------------------------------------------

-- Takes what waits for the application, in the order in which it rose.
function World:drain()
  while true do
    local pointer = C.neap_bind_next(self.pointer, self.row)
    if pointer == nil then break end
    local channel = self.channels[pointer.id]
    if self.row.note ~= nil then
      channel:on_note(self.row.note)
    else
      channel:on_messages(self.row.inbox.peer.slot)
    end
    if self.first <= self.last then self:run_ready() end
  end
  if #self.layer_failures > 0 then layers_that_failed(self) end
end

-- Wakes whoever's time has come; the time of the next.
local function wake_sleepers(world)
  local sleepers, now = world.sleepers, world:now()
  while sleepers[1] and sleepers[1].at <= now do sleepers[1].wake(nil, "timeout") end
  return sleepers[1] and sleepers[1].at or FOREVER
end

local function go_on(world, goal, settle, finished)
  local result
  repeat
    world:run_ready()
    if world.stopping or (finished and finished()) then
      result = "stop"
    else
      local due = wake_sleepers(world)
      if world.first > world.last then result = world:step(goal, due, settle) end
    end
  until result
  return result
end

-- Drives until the clock shows `goal`, until `finished()`, or until nothing more happens ("idle");
-- `settle`: until only background work is left.
function World:drive(goal, settle, finished)
  if self.finished then mistake.raise("this world is closed") end
  if self.driving then mistake.raise("this world is being driven already") end
  self.driving, self.stopping = true, false
  local ok, result = pcall(go_on, self, goal, settle, finished)
  self.driving = false
  if not ok then error(result, 0) end
  return result
end

-- One step of C; a result when driving is over.
function World:step(goal, due, settle)
  local limit = math.min(goal, due)
  local outcome = core.step(self.handle, limit < FOREVER and limit or nil, settle)
  if outcome == "work" then
    self:drain()
  elseif outcome == "idle" and limit < FOREVER and due < FOREVER then
    -- Nothing but background work before a coroutine wakes: time goes there.
    if core.step(self.handle, limit, false) == "work" then
      self:drain()
    elseif due > goal then
      return "time"
    end
  elseif outcome == "idle" then
    return "idle"
  elseif self:now() >= goal and due > goal then
    return "time"
  end
end

function World:stop()
  self.stopping = true
end

return World
