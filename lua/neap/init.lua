-- neap: reliable group communication whose stacks are composed in Lua.
--
--     local neap = require "neap"
--     neap.run(function()
--       local ann = neap.join("chat", { stack = "lan", name = "ann" })
--       ann:on("message", function(msg) print(msg.from, msg.body) end)
--       ann:send "hello"
--     end)

local Channel = require "neap.channel"
local Sim = require "neap.sim"
local World = require "neap.world"
local capture = require "neap.capture"
local input = require "neap.input"
local layer = require "neap.layer"
local map = require "neap.map"
local mistake = require "neap.mistake"
local quantity = require "neap.quantity"
local stack = require "neap.stack"

local neap = {}

-- The world of whoever asks: the one that runs, or the prompt's.
local function world_for(what)
  local world = World.current() or neap.prompt_world
  if not world then
    mistake.raise("%s is called inside neap.run(function() ... end) or sim:spawn", what)
  end
  return world
end

-- Joins a group; returns when the first view is there.  nil, code, detail.
function neap.join(cluster, options)
  return Channel.join(world_for "join", cluster, options)
end

-- A replicated map (neap/map.lua): joins and takes it, then returns.  nil, code, detail.
function neap.map(group, options)
  return map(neap.join, group, options)
end

function neap.spawn(f, ...)
  if type(f) ~= "function" then mistake.raise("spawn takes a function") end
  world_for("spawn"):spawn(f, nil, ...)
end

function neap.sleep(time)
  local world = world_for "sleep"
  local length = quantity.ns(time)
  world:must_wait "sleep"
  world:wait(world:waiter(), length)
end

-- Nanoseconds on the world's clock.
function neap.now()
  return world_for("now"):now()
end

function neap.stop()
  world_for("stop"):stop()
end

-- What all members in here send and get, into a pcapng file; false ends it.
function neap.capture(path, options)
  return capture(world_for "capture", path, options)
end

-- The next line of the standard input, nil at its end; the group goes on meanwhile.
function neap.read_line()
  return input.read_line(world_for "read_line")
end

-- Runs f in the real world until it has returned and no channel is open, or until neap.stop().
-- Raises what f raised.
function neap.run(f)
  if type(f) ~= "function" then mistake.raise("run takes a function") end
  if World.current() then mistake.raise("neap.run is called inside a world already") end
  local world = require("neap.real").new()
  local ended, problem, raised = false, nil, false
  world:spawn(function()
    f()
    ended = true
  end, function(value) ended, raised, problem = true, true, value end)
  local result = world:drive(math.huge, false, function()
    input.poll(world)
    return raised or (ended and world.open == 0)
  end)
  world:finish()
  if raised then error(problem, 0) end
  if result == "idle" and not ended then
    error("neap.run: its function waits for something that cannot happen any more", 0)
  end
  world:raise_complaints()
  return true
end

neap.sim = Sim.new
neap.stack = stack.describe
neap.layer = layer.make
neap.param, neap.gauge, neap.counter = layer.param, layer.gauge, layer.counter

return neap
