-- sim: a world in virtual time.  The same channels, the same stacks, the same C code; time passes
-- only while it is told to run, and the same seed and script give the same run.

local Channel = require "neap.channel"
local World = require "neap.world"
local capture = require "neap.capture"
local core = require "neap.core"
local keys = require "neap.keys"
local mistake = require "neap.mistake"
local nearest = require "neap.nearest"
local quantity = require "neap.quantity"

local Sim = {}
Sim.__index = Sim

local DROP, DELAY, DUPLICATE = 0, 1, 2 -- enum neap_rule_act
local HOUR = 3600e9
local LOG_MAX = 10000000 -- packets

-- The seed of a sim that was made without one: `neap sim FILE --seeds A..B` sets it.
Sim.default_seed = 1

-- ---- settings -----------------------------------------------------------------------------------

local function as_text(name, value)
  if quantity.is(value) then return tostring(value) end
  if type(value) == "number" or type(value) == "string" then return value end
  mistake.raise("%s: a %s is no value", name, type(value))
end

-- Network settings from now on.  { from = "ann", to = "bob", loss = 1 }: of that link only.
function Sim:set(settings)
  if type(settings) ~= "table" then mistake.raise("set takes a table: { loss = 0.1 }") end
  local names = core.sim_names()
  if (settings.from == nil) ~= (settings.to == nil) then
    mistake.raise("a link has both ends: { from = \"ann\", to = \"bob\", ... }")
  end
  for _, name in ipairs(keys.sorted(settings)) do
    if name ~= "from" and name ~= "to" then
      if not (" " .. names):find(" " .. tostring(name) .. " ", 1, true) then
        mistake.raise("a sim has no setting '%s'%s", tostring(name), nearest(name, names))
      end
      local ok, problem = core.sim_set(self.handle, name, as_text(name, settings[name]),
        settings.from, settings.to)
      if not ok then mistake.raise("%s", problem) end
    end
  end
  return true
end

-- neap.sim { seed = 7, loss = 0.1 }
function Sim.new(options)
  options = options or {}
  if type(options) ~= "table" then mistake.raise("sim takes a table: { seed = 7 }") end
  local seed, log, settings = options.seed or Sim.default_seed, options.log or 0, {}
  if type(seed) ~= "number" or seed < 0 or seed ~= math.floor(seed) then
    mistake.raise("seed is a whole number from 0 on")
  end
  if type(log) ~= "number" or not (log >= 0 and log <= LOG_MAX) or log ~= math.floor(log) then
    mistake.raise("log is a number of packets to remember, 0 to %d", LOG_MAX)
  end
  for _, name in ipairs(keys.sorted(options)) do
    if name ~= "seed" and name ~= "log" and name ~= "checking" then
      settings[name] = options[name]
    end
  end
  local handle, env = core.sim(seed, log)
  local world = World.new(handle, env)
  world.is_sim, world.seed = true, seed
  world.pointer.checking = options.checking ~= false
  function world:default_name()
    self.names = (self.names or 0) + 1
    return "m" .. self.names
  end
  local sim = setmetatable({ handle = handle, world = world, seed = seed, hosts = {}, met = {} },
    Sim)
  sim:set(settings)
  return sim
end

-- ---- members ------------------------------------------------------------------------------------

-- Remembers the name, in the order of coming.
local function meet(sim, name)
  if sim.met[name] then return end
  sim.met[name] = true
  table.insert(sim.hosts, name)
end

-- The channel, at once; it joins as time runs.
function Sim:join(cluster, options)
  local channel, code, detail = Channel.open(self.world, cluster, options)
  if channel then meet(self, channel.name) end
  return channel, code, detail
end

local function code_of(code)
  if code >= 0 then return true end
  local C, ffi = require "neap.cdef", require "ffi"
  return nil, ffi.string(C.neap_bind_code_text(code))
end

local function member(name, what)
  if type(name) == "table" and name.name then return name.name end
  if type(name) ~= "string" then mistake.raise("%s takes the name of a member", what) end
  return name
end

-- Does to one member what `f` does; who is not there may be a slip.
local function to_member(sim, f, name, what)
  name = member(name, what)
  local ok, code = code_of(f(sim.handle, name))
  if ok or sim.met[name] then return ok, code end
  return ok, code, ("nobody is called '%s'%s"):format(name, nearest(name, sim.hosts))
end

function Sim:pause(name) return to_member(self, core.sim_pause, name, "pause") end
function Sim:resume(name) return to_member(self, core.sim_resume, name, "resume") end

-- Everything of it stops at once, without a goodbye.
function Sim:kill(name) return to_member(self, core.sim_kill, name, "kill") end

function Sim:inject_view(name, members)
  if type(members) ~= "table" then
    mistake.raise("inject_view takes a name and a list: inject_view(\"bob\", { \"bob\" })")
  end
  local code, problem = core.sim_view(self.handle, member(name, "inject_view"), members)
  if code >= 0 then return true end
  local ok, text = code_of(code)
  return ok, text, problem ~= "" and problem or nil
end

-- ---- the network --------------------------------------------------------------------------------

-- What to say of names that nobody has had so far: a slip, or somebody who will join.  Or nil.
local function strangers(sim, names)
  local lines = {}
  for _, name in ipairs(names) do
    if not sim.met[name] then
      lines[#lines + 1] = ("nobody is called '%s' so far%s: it holds when one joins")
        :format(name, nearest(name, sim.hosts))
    end
  end
  return lines[1] and table.concat(lines, "\n") or nil
end

-- Names in a table, in this order.
local function ends_of(options)
  local names = {}
  for _, key in ipairs { "from", "to" } do
    if type(options[key]) == "string" then names[#names + 1] = options[key] end
  end
  return names
end

local function rule(sim, act, what, options)
  if type(options) ~= "table" then
    mistake.raise("%s takes a table: { from = \"ann\", to = \"bob\" }", what)
  end
  local rows = {}
  for _, name in ipairs(keys.sorted(options)) do
    rows[#rows + 1] = tostring(name)
    local value = options[name]
    if type(value) == "boolean" then value = value and 1 or 0 end
    rows[#rows + 1] = as_text(name, value)
  end
  local id, problem = core.sim_rule(sim.handle, act, rows)
  if not id then mistake.raise("%s: %s", what, problem) end
  return id, strangers(sim, ends_of(options))
end

-- What drop, delay or duplicate gave; and, as all below, a note on names that nobody has.
function Sim:drop(options) return rule(self, DROP, "drop", options) end
function Sim:delay(options) return rule(self, DELAY, "delay", options) end
function Sim:duplicate(options) return rule(self, DUPLICATE, "duplicate", options) end

local function rule_id(id, what)
  if type(id) == "number" then return id end
  mistake.raise("%s takes what drop, delay or duplicate gave", what)
end

-- How often a rule has hit, also after it was cleared.
function Sim:hits(id)
  rule_id(id, "hits")
  local hits = core.sim_hits(self.handle, id)
  if hits < 0 then mistake.raise("there never was a rule %s", tostring(id)) end
  return hits
end

function Sim:clear(id) return core.sim_clear(self.handle, rule_id(id, "clear")) end

-- Members of different groups no longer hear each other: partition({ "ann" }, { "bob", "cho" }).
function Sim:partition(...)
  local rows, named = {}, {}
  for group = 1, select("#", ...) do
    local names = select(group, ...)
    if type(names) ~= "table" then
      mistake.raise("partition takes lists: partition({ \"ann\" }, { \"bob\" })")
    end
    for _, name in ipairs(names) do
      rows[#rows + 1], rows[#rows + 2] = member(name, "partition"), group
      named[#named + 1] = rows[#rows - 1]
    end
  end
  core.sim_partition(self.handle, rows)
  return true, strangers(self, named)
end

function Sim:cut(options)
  if type(options) ~= "table" or options.from == nil or options.to == nil then
    mistake.raise("cut takes both ends: { from = \"ann\", to = \"bob\" }")
  end
  local from, to = member(options.from, "cut"), member(options.to, "cut")
  core.sim_cut(self.handle, from, to)
  return true, strangers(self, { from, to })
end

function Sim:heal() core.sim_heal(self.handle) end

-- Bytes on the wire, from a host that need not be a member: inject { from = "fay", to = "bob",
-- bytes = "..." }, to everybody without `to`.  Gives the place they come from.
function Sim:inject(options)
  local given = type(options) == "table" and options or {}
  if type(given.from) ~= "string" or type(given.bytes) ~= "string" then
    mistake.raise("inject takes a host and bytes: " ..
      "{ from = \"fay\", to = \"bob\", bytes = \"...\" }")
  end
  local to = given.to ~= nil and member(given.to, "inject") or nil
  local place, problem = core.sim_inject(self.handle, given.from, to, given.bytes)
  if not place then mistake.raise("inject: %s", problem) end
  meet(self, given.from)
  return place
end

-- ---- time ---------------------------------------------------------------------------------------

local function outside(sim, what)
  if World.current() == sim.world then
    mistake.raise("%s moves the time of this sim, and is called outside of it", what)
  end
end

-- Advances virtual time.
function Sim:run(time)
  outside(self, "run")
  local length = quantity.ns(time)
  self.world:drive(self.world:now() + length)
  self.world:raise_complaints()
  return true
end

-- Until only background work is left; an error after a virtual hour.
function Sim:settle()
  outside(self, "settle")
  local limit = self.world:now() + HOUR
  local result = self.world:drive(limit, true)
  self.world:raise_complaints()
  if result == "time" then
    mistake.raise("not settled after a virtual hour (seed %d); what is left:\n%s", self.seed,
      core.sim_pending(self.handle))
  end
  return true
end

-- A coroutine in virtual time; an error in it comes out of run and settle.
function Sim:spawn(f, ...)
  if type(f) ~= "function" then mistake.raise("spawn takes a function") end
  self.world:spawn(f, nil, ...)
end

function Sim:now() return self.world:now() end

function Sim:hash() return core.sim_hash(self.handle) end

-- What checkers (the layers check_...) have found wrong so far: a list of lines.
function Sim:complaints()
  local lines = {}
  for line in core.sim_complaints(self.handle):gmatch "[^\n]+" do lines[#lines + 1] = line end
  return lines
end

-- What became of the packets so far: sent, arrived, ..., lost = { why = count }.
function Sim:counts() return core.sim_counts(self.handle) end

-- The packets that were remembered (neap.sim { log = 1000 }), oldest first.
function Sim:log()
  local rows = {}
  for row = 1, core.sim_log_count(self.handle) do rows[row] = core.sim_log(self.handle, row) end
  return rows
end

-- Into a pcapng file from now on; false ends it (lua/neap/capture.lua).  The run stays the same.
function Sim:capture(path, options) return capture(self.world, path, options) end

-- Ends the world and what is in it; twice is fine.  Otherwise the collector does.
function Sim:close()
  self.world:finish()
end

function Sim:__tostring()
  return ("sim seed %d at %s"):format(self.seed, tostring(quantity.time(self.world:now())))
end

return Sim
