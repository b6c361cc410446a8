-- input: lines of the standard input, read by a coroutine while the group goes on.

local core = require "neap.core"

local input = {}

local function start(world)
  -- A file has no readiness and can always be read; a pipe or a terminal is watched.
  world.input = { bytes = "", watch = core.line_watch(world.handle) }
  return world.input
end

local function take(state)
  local line, rest = state.bytes:match "^([^\n]*)\n(.*)$"
  if line then
    state.bytes = rest
    return line
  end
  if state.ended and state.bytes ~= "" then
    line, state.bytes = state.bytes, ""
    return line
  end
end

local function more(state)
  local bytes = core.line_read(0)
  if bytes then state.bytes = state.bytes .. bytes else state.ended = true end
  if state.ended and state.watch then
    core.line_unwatch(state.watch)
    state.watch = nil
  end
end

-- The next line, without its end; nil when there is no more.  Waits.
function input.read_line(world)
  world:must_wait "read_line"
  local state = world.input or start(world)
  while true do
    local line = take(state)
    if line then return line end
    if state.ended then return nil end
    if state.watch then
      state.waiter = world:waiter()
      world:wait(state.waiter)
    else
      more(state)
    end
  end
end

-- For who drives the world: takes what is there.
function input.poll(world)
  local state = world.input
  if not state or not state.watch or not core.line_input() then return end
  more(state)
  if state.waiter then state.waiter.wake() end
end

return input
