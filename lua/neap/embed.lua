-- embed: the Lua half of libneap (csrc/neap.h).  C calls these functions and is told what happens
-- by notify(member, what, ...), from inside `step`.

local Channel = require "neap.channel"
local core = require "neap.core"

local embed = {}

local world, notify
local members = {} -- by number: channels

function embed.start(f)
  world, notify = require("neap.real").new(), f
end

-- For a foreign loop: what to watch, and for how many milliseconds at most (-1: for ever).
function embed.fd() return core.loop_fd(world.handle) end

function embed.wait()
  if world.first <= world.last then return 0 end
  local due = math.min(core.loop_next(world.handle), world.sleepers[1] and world.sleepers[1].at
    or math.huge)
  if due == math.huge then return -1 end
  return math.max(0, math.ceil((due - world:now()) / 1e6))
end

local function handlers(id)
  return {
    message = function(msg) notify(id, "message", msg.from, msg.to, msg.body, msg.oob) end,
    view = function(view) notify(id, "view", view.id, view.members) end,
    writable = function() notify(id, "writable") end,
    trouble = function() end, -- The program asks by neap_get what it wants to know.
  }
end

-- True, or nil and a sentence.
function embed.join(id, group, stack, name)
  local channel, code, detail = Channel.open(world, group, { stack = stack, name = name,
    on = handlers(id) })
  if not channel then return nil, ("%s: %s"):format(code, tostring(detail)) end
  members[id] = channel
  -- Tells how it ended, whoever ended it.
  world:spawn(function()
    local inside, waiter = channel[Channel.own], world:waiter()
    table.insert(inside.leavers, waiter)
    world:wait(waiter)
    notify(id, "closed", inside.failure and inside.failure[2] or "left")
    members[id] = nil
  end)
  return true
end

local OOB, UNRELIABLE, NO_LOOPBACK, RSVP = 1, 2, 4, 8
local tickets = 0

local function watch_send(id, handle)
  tickets = tickets % 2147483646 + 1
  local ticket = tickets
  world:spawn(function()
    local ok, code, detail = handle:wait()
    local missing = detail and detail.missing and table.concat(detail.missing, " ") or ""
    notify(id, "done", ticket, ok and "" or code, missing)
  end)
  return ticket
end

-- 0 or a ticket; nil, code, detail.
function embed.send(id, to, body, flags)
  local channel = members[id]
  if not channel then return nil, "closed" end
  local function has(flag) return bit.band(flags, flag) ~= 0 end
  local options = { to = to, oob = has(OOB), loopback = not has(NO_LOOPBACK),
    reliable = not has(UNRELIABLE), block = false }
  if has(RSVP) then options.rsvp, options.wait = true, false end
  local result, code, detail = channel:send(body, options)
  if not result then return nil, code, detail end
  return has(RSVP) and watch_send(id, result) or 0
end

local function place(id, path)
  local layer, name = path:match "^([%w_]+)%.([%w_]+)$"
  if not layer then error(("'%s' is no attribute: write layer.attribute"):format(path), 0) end
  if not members[id] then error("this member is closed", 0) end
  return members[id].stack[layer], name
end

function embed.set(id, path, value)
  local layer, name = place(id, path)
  layer[name] = tonumber(value) or value
end

-- A ticket, which ends as "done": missing says who did not answer, or why it was refused.
function embed.set_all(id, path, value)
  local _, name = place(id, path)
  local shape = { [path:match "^[%w_]+"] = { [name] = tonumber(value) or value } }
  local ok, asked, why = members[id].stack:set(shape, { all = true, wait = false })
  if not ok then return nil, asked, why end
  tickets = tickets % 2147483646 + 1
  local ticket = tickets
  world:spawn(function()
    local made, code, detail = asked:wait()
    local missing = type(detail) == "table" and table.concat(detail.missing, " ") or detail or ""
    notify(id, "done", ticket, made and "" or code, made and "" or missing)
  end)
  return ticket
end

function embed.get(id, path)
  local layer, name = place(id, path)
  return tostring(layer[name])
end

function embed.leave(id)
  if members[id] then members[id]:leave { wait = false } end
end

function embed.close(id)
  if members[id] then members[id]:close() end
end

-- Runs until something was told or the time is over; whether members are open.
function embed.step(milliseconds)
  local told = false
  local tell = notify
  notify = function(...)
    told = true
    return tell(...)
  end
  local ok, problem = pcall(function()
    world:drive(world:now() + milliseconds * 1e6, false, function() return told end)
  end)
  notify = tell
  if not ok then error(problem, 0) end
  return world.open > 0
end

function embed.finish()
  world:finish()
end

return embed
