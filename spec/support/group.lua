-- group: a few members in a simulated world, joined and in one view, for specs of layers.
--
--     local g = group.new { seed = 3, loss = 0.1, with = { stable = { interval = "1s" } } }
--     g.ann:send "1"; g.sim:settle(); g:got "bob"   ->  "1"

local neap = require "neap"
local seeds = require "support.seeds"

local group = { stack = "lan" }

local Group = {}
Group.__index = Group

local NETWORK = { "latency", "jitter", "loss", "duplicate", "reorder", "capacity" }

-- In a story that is told of each mode, whoever does not name one is in that mode.
local function in_mode(mode, with)
  local result = {}
  for layer, settings in pairs(with or {}) do result[layer] = settings end
  for _, layer in ipairs { "nakack", "unicast" } do
    local settings = { retransmission = mode }
    for key, value in pairs(result[layer] or {}) do settings[key] = value end
    result[layer] = settings
  end
  return result
end

-- What the story that is being told now goes by, see group.seeds; its worlds, to be ended.
local now = { worlds = {} }

-- Joins `names` (ann, bob and cho) one by one, without faults; those of `options` begin after that.
function group.new(options)
  options = options or {}
  local g = setmetatable({ names = options.names or { "ann", "bob", "cho" }, bodies = {} }, Group)
  g.sim = neap.sim { seed = options.seed or now.seed or 1, latency = options.latency or "1ms" }
  if now.seed then table.insert(now.worlds, g.sim) end
  for _, name in ipairs(g.names) do
    g:join(name, options)
    g.sim:run "2s"
  end
  for _, name in ipairs(g.names) do
    if #g[name]:view().members ~= #g.names then
      error("not one view\n" .. table.concat(g.sim:complaints(), "\n"))
    end
  end
  local faults = {}
  for _, key in ipairs(NETWORK) do faults[key] = options[key] end
  g.sim:set(faults)
  return g
end

function Group:join(name, options)
  options = options or {}
  local list = {}
  self.bodies[name] = list
  self[name] = self.sim:join("chat", {
    stack = options.stack or group.stack, name = name,
    with = now.mode and in_mode(now.mode, options.with) or options.with,
  })
  self[name]:on("message", options.message and function(msg) options.message(self, name, msg) end
    or function(msg) list[#list + 1] = msg.body end)
end

-- What arrived at this member, in one line.
function Group:got(name)
  return table.concat(self.bodies[name], " ")
end

-- The network is kind again, and time passes for a round of `stable`: in nak mode the end of a
-- stream is lost when its announcements are.
function Group:calm()
  self.sim:set { loss = 0, duplicate = 0, reorder = 0 }
  self.sim:run "1min"
  self.sim:settle()
end

-- Calls f in virtual time and runs until it has returned; gives what it returned.
function Group:call(f)
  local result
  self.sim:spawn(function() result = { n = 0, f() } end)
  for _ = 1, 1000 do
    if result then return unpack(result, 1, 8) end
    self.sim:run "100ms"
  end
  error "it did not return within 100 s"
end

group.each_seed = seeds.each

-- The same story over twenty seeds: what it begins without a seed of its own has that one.
--
--     it("heals", group.seeds(function() local g = group.new {} ... end))
function group.seeds(f, mode)
  return function()
    group.each_seed(20, function(seed)
      now = { seed = seed, mode = mode, worlds = {} }
      local told = now
      local ok, problem = xpcall(f, debug.traceback, mode)
      now = { worlds = {} }
      if not ok then error((mode and mode .. " mode: " or "") .. tostring(problem), 0) end
      for _, world in ipairs(told.worlds) do world:close() end
    end)
  end
end

-- And that in both modes, of multicasts and of unicasts; f gets the mode.
function group.modes(f)
  local nak, ack = group.seeds(f, "nak"), group.seeds(f, "ack")
  return function()
    nak()
    ack()
  end
end

-- "1 2 3 ... n"
function group.counted(count)
  local list = {}
  for i = 1, count do list[i] = tostring(i) end
  return table.concat(list, " ")
end

return group
