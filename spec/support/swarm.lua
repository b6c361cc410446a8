-- swarm: a seed is a story.  It draws the members, the faults that exist at all, how bad they are,
-- who sends what and when; runs it in a simulated world under the oracle; and says what broke.
--
--     0 s ........ trouble ........ calm: no faults any more ........ settle ........ verdict
--         joins, sends, pauses,     everything must be repaired,
--         crashes, toggles, loss    every send must have returned
--
-- Uniform misery hides bugs that need calm, so each kind of trouble is there in half of the seeds
-- only.  All numbers come from one generator per seed; a story never looks at the world's chances.

local neap = require "neap"
local Oracle = require "support.oracle"
local Story = require "support.story"
local random = require "support.random"
local trouble = require "support.trouble"

local swarm = {}

-- The stacks that are tried: lan, with a checker above each layer that promises something; and the
-- same with layers in Lua between them.
swarm.stack = "spec/support/checked.lua"
swarm.lua_stack = "spec/support/checked_lua.lua"
-- Without those who could not bear that a connection's table is lost.
swarm.losing_stack = "spec/support/checked_losing.lua"
-- With a layer that gives states, and what rises again when one is taken.
swarm.state_stack = "spec/support/checked_state.lua"

neap.layer "passing" {
  doc = "Takes every batch apart and passes every message on.",
  up = function(self, batch) for m in batch:each() do self:pass_up(m) end end,
  down = function(self, batch) for m in batch:each() do self:pass_down(m) end end,
}

neap.layer "counting" {
  doc = "Counts what each member sends.",
  attrs = { neap.counter { "seen", unit = "messages", doc = "Went up." } },
  peer = function() return { seen = 0 } end,
  each_up = function(self, m, p)
    p.seen, self.seen = p.seen + 1, self.seen + 1
    self:pass_up(m)
  end,
}

local NAMES = { "ann", "bob", "cho", "dee", "eve", "fay", "gil", "hal" }

-- ---- chance -------------------------------------------------------------------------------------

local Chance = {}
Chance.__index = Chance

local GRAIN = 1e9

local function chance(seed)
  local c = setmetatable({ source = random.new(seed) }, Chance)
  for _ = 1, 8 do c:real() end -- Neighbouring seeds begin alike.
  return c
end

-- In [0, 1).
function Chance:real() return self.source:below(GRAIN) / GRAIN end
function Chance:between(low, high) return low + math.floor(self:real() * (high - low + 1)) end
function Chance:yes(probability) return self:real() < probability end
function Chance:pick(list) return list[self:between(1, #list)] end

-- ---- the plan -----------------------------------------------------------------------------------

local KINDS = {
  "loss", "duplicate", "reorder", "jitter", "pauses", "crashes", "rsvp", "toggles", "unicasts",
  "oob", "from_callbacks", "slow_callbacks", "big", "small_windows", "late_joins", "leaves",
  "quiet_loopback", "narrow", "cuts", "changes", "returns", "long_pauses", "small_packets",
  "small_inboxes", "naps", "raises", "lua_layers", "odd_settings", "group_changes", "expiries",
  "table_losses",
}

-- What is so odd that it would hide other things if it were in every second story.
local RARE = { table_losses = 0.15 }

local function network(has, c)
  return {
    latency = c:pick { "50us", "1ms", "1ms", "20ms" },
    jitter = has.jitter and c:pick { "200us", "2ms", "15ms" } or "0ms",
    loss = has.loss and c:pick { 0.01, 0.05, 0.1, 0.2 } or 0,
    duplicate = has.duplicate and c:pick { 0.01, 0.1 } or 0,
    reorder = has.reorder and c:pick { 0.01, 0.1, 0.3 } or 0,
    capacity = has.narrow and c:pick { "2MB", "20MB" } or "0B",
    mtu = has.small_packets and c:pick { 576, 1472 } or 65507,
  }
end

-- Small enough to fill, some far smaller than a message.
local function small_windows(with, c)
  with.nakack.window_bytes = c:pick { "20KB", "100KB", "500KB" }
  with.nakack.window_messages = c:pick { 16, 64, 1024 }
  with.unicast.window_bytes = c:pick { "10KB", "100KB" }
  with.unicast.window_messages = c:pick { 8, 64, 1024 }
  with.mfc = { max_credits = c:pick { "10KB", "100KB", "1MB" } }
  with.ufc = { max_credits = c:pick { "10KB", "100KB", "1MB" } }
  with.frag = { frag_size = c:pick { "1KB", "8KB", "60KB" } }
end

-- What nobody would set, but may.
local ODD = {
  { "nakack", "gap_delay", { "0ms", "20ms", "tick" } },
  { "nakack", "announce_delay", { "0ms", "200ms" } },
  { "nakack", "ack_delay", { "0ms", "300ms" } },
  { "nakack", "xmit_interval", { "10ms", "3s" } },
  { "nakack", "resend_last_seqno_max_times", { 0, 1, 10 } },
  { "nakack", "resend_last_seqno_bytes", { "5KB" } },
  { "nakack", "use_mcast_xmit", { false } },
  { "nakack", "use_mcast_xmit_req", { true } },
  { "nakack", "max_xmit_req_size", { 64 } },
  { "unicast", "gap_delay", { "0ms", "50ms" } },
  { "unicast", "tail_delay", { "100us", "500ms" } },
  { "unicast", "ack_delay", { "0ms", "300ms" } },
  { "unicast", "ack_threshold", { 1, 1000 } },
  { "unicast", "max_xmit_req_size", { 1, 10 } },
  { "unicast", "first_seqno", { "4294967290", "9223372036854775800" } },
  { "unicast", "first_stamp", { 4294967290 } },
  { "unicast", "stable_interval", { "10ms", "5s" } },
  { "unicast", "sync_min_interval", { "20ms" } },
  { "unicast", "early_max", { 0, 3 } },
  { "unicast", "conn_expiry_timeout", { "500ms" } },
  { "unicast", "first_conn", { 32760 } },
  { "stable", "interval", { "200ms" } },
  { "stable", "max_bytes", { "2KB" } },
  { "stable", "spacing", { "1ms", "1s" } },
  { "gms", "use_delta_views", { false } },
  { "gms", "name_timeout", { "0ms", "2s" } },
  { "gms", "view_ack_collection_timeout", { "100ms" } },
  { "mfc", "min_threshold", { 0, 0.9 } },
  { "ufc", "min_threshold", { 0, 0.9 } },
  { "ufc", "max_block_time", { "100ms" } },
  { "rsvp", "resend", { "beacon", "payload", "off" } },
  { "rsvp", "resend_interval", { "100ms" } },
  { "rsvp", "max_pending", { 1, 8 } },
  { "gms", "view_ack", { "rsvp" } },
  { "ping", "linger", { "0ms", "200ms" } },
  { "fd_all", "interval", { "500ms" } },
}

local function odd_settings(with, c)
  for _ = 1, c:between(1, 8) do
    local layer, attribute, values = unpack(c:pick(ODD))
    with[layer] = with[layer] or {}
    with[layer][attribute] = c:pick(values)
  end
end

-- Of the layers that are there in stories with states only.
local function state_settings(with, c)
  with.state_transfer = {
    hold_timeout = c:pick { "500ms", "30s" }, close_timeout = c:pick { "200ms", "5s" },
    hold_bytes = c:pick { "2kB", "100kB", "8MB" }, window = c:pick { "1kB", "256kB" },
    chunk_size = c:pick { "100B", "16kB" },
  }
  with.barrier = { hold_bytes = c:pick { "2kB", "8MB" }, max_close_time = c:pick { "1s", "60s" } }
end

-- Members ask each other for states, in so many stories of all: STATES=0.2 make sim.  From chances
-- of their own: the others are what they would be without.
local STATES = tonumber(os.getenv "STATES") or 0

local function states(plan)
  local c = chance(plan.seed + 0.5)
  local has = plan.has
  has.states = c:yes(STATES) and not has.table_losses
  if not has.states then return end
  plan.stack = swarm.state_stack
  has.lua_layers, has.quiet_loopback = false, false -- A state has what its giver got, no more.
  plan.kinds = {}
  for _, kind in ipairs(KINDS) do
    if has[kind] then plan.kinds[#plan.kinds + 1] = kind end
  end
  plan.kinds[#plan.kinds + 1] = "states"
  state_settings(plan.with, c)
end

-- Settings of the stack: the same for all members.
local function settings(has, c)
  local with = { fd_all = { timeout = "12s", interval = "2s" } }
  with.nakack = { retransmission = c:pick { "nak", "nak", "ack" } }
  with.unicast = {
    retransmission = c:pick { "ack", "ack", "nak" }, sync = c:pick { "timestamp", "handshake" },
  }
  with.rsvp = { timeout = c:pick { "10s", "30s" } }
  if has.small_windows then small_windows(with, c) end
  if has.odd_settings then odd_settings(with, c) end
  return with
end

function swarm.plan(seed)
  local c = chance(seed)
  local plan = { seed = seed, has = {}, kinds = {} }
  for _, kind in ipairs(KINDS) do
    plan.has[kind] = c:yes(RARE[kind] or 0.5)
    if plan.has[kind] then plan.kinds[#plan.kinds + 1] = kind end
  end
  plan.count = c:between(2, 8)
  plan.stack = plan.has.table_losses and swarm.losing_stack
    or plan.has.lua_layers and swarm.lua_stack or swarm.stack
  plan.net = network(plan.has, c)
  plan.with = settings(plan.has, c)
  plan.trouble = 10                       -- seconds
  plan.sends = c:pick { 5, 20, 60, 150, 400 } -- of each member
  -- Between two sends of one member at most so many ms: in a burst, or over all the trouble.
  plan.pause = c:pick { 1, 10, plan.trouble * 1800 / plan.sends }
  plan.chance = c
  states(plan)
  return plan
end

function swarm.describe(plan)
  return ("%d members, %d sends each, loss %g: %s"):format(
    plan.count, plan.sends, plan.net.loss, table.concat(plan.kinds, " "))
end

-- ---- a run -------------------------------------------------------------------------------------

-- Seconds without losses at the beginning: those who come together must find each other, since
-- parts of two or more stay apart.
local QUIET = 2

local CALM = 120 -- seconds: detection of the last crash, two stability rounds, and some more

local function disturb(story)
  local kinds = {
    "pauses", "crashes", "leaves", "toggles", "cuts", "changes", "long_pauses", "group_changes",
    "expiries", "table_losses", "states",
  }
  for _, kind in ipairs(kinds) do
    if story.plan.has[kind] then
      story.sim:spawn(function()
        local rest = story.plan.trouble * 1000
        while rest > 0 do
          local pause = story.c:between(1, kind == "toggles" and 300 or 3000)
          story:sleep(pause)
          rest = rest - pause
          local list = story:alive()
          local name = #list > 0 and story.c:pick(list)
          if name then trouble[kind](story, name) end
        end
      end)
    end
  end
end

-- Runs a plan; returns the story, whose oracle has the problems.
function swarm.run(plan)
  local net = plan.net
  local sim = neap.sim { seed = plan.seed, latency = net.latency, jitter = net.jitter }
  local story = setmetatable({
    plan = plan, sim = sim, c = plan.chance, oracle = Oracle.new(), names = {}, channels = {},
    gone = {}, paused = {}, finished = {}, addresses = {}, codes = {}, labels = 0, got = 0,
    waiting = 0, echoes = 300, crashed = 0, toggled = 0, together_set = 0, tables_lost = 0,
    states = {}, fetching = 0, states_got = 0, states_lost = 0,
    troubles = 0, rejoined = 0, returned = {},
  }, Story)
  sim:set { capacity = net.capacity, mtu = net.mtu .. "B" }
  for index = 1, plan.count do story.names[index] = NAMES[index] end
  for index = 1, plan.count do
    local late = plan.has.late_joins and index > 2 and plan.chance:yes(0.5)
    if late then
      local after = plan.chance:between(1, plan.trouble * 700)
      sim:spawn(function()
        story:sleep(after)
        story:join_late(story.names[index])
      end)
    else
      story:join(story.names[index])
    end
  end
  disturb(story)
  sim:run(("%ds"):format(QUIET))
  sim:set { loss = net.loss, duplicate = net.duplicate, reorder = net.reorder }
  sim:run(("%ds"):format(plan.trouble - QUIET))
  sim:set { loss = 0, duplicate = 0, reorder = 0, jitter = "0ms", capacity = 0 }
  sim:run(("%ds"):format(CALM))
  sim:settle()
  if plan.has.states then story:last_states() end
  sim:run "10min" -- By then nobody remembers connections to those who have gone.
  story:check_end()
  story.hash = sim:hash()
  story.time = sim:now()
  return story
end

-- nil if all is well, else what is wrong.
function swarm.try(seed)
  local plan = swarm.plan(seed)
  local ok, story = xpcall(function() return swarm.run(plan) end, debug.traceback)
  if not ok then return tostring(story), plan end
  local problems = story.oracle.problems
  story.sim:close()
  return #problems > 0 and table.concat(problems, "\n") or nil, plan, story
end

return swarm
