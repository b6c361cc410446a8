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

local swarm = {}

-- The stack that is tried: lan, with a checker above each layer that promises something.
swarm.stack = "spec/support/checked.lua"

local NAMES = { "ann", "bob", "cho", "dee", "eve", "fay", "gil", "hal" }

-- ---- chance -------------------------------------------------------------------------------------

local Chance = {}
Chance.__index = Chance

-- Park and Miller's: every product stays below 2^53, so it is exact in every mode of the machine.
local function chance(seed)
  local c = setmetatable({ state = (seed * 7919 + 12345) % 2147483646 + 1 }, Chance)
  for _ = 1, 8 do c:real() end
  return c
end

-- In [0, 1).
function Chance:real()
  self.state = self.state * 48271 % 2147483647
  return (self.state - 1) / 2147483646
end

function Chance:between(low, high) return low + math.floor(self:real() * (high - low + 1)) end
function Chance:yes(probability) return self:real() < probability end
function Chance:pick(list) return list[self:between(1, #list)] end

-- ---- the plan -----------------------------------------------------------------------------------

local KINDS = {
  "loss", "duplicate", "reorder", "jitter", "pauses", "crashes", "rsvp", "toggles", "unicasts",
  "oob", "from_callbacks", "slow_callbacks", "big", "small_windows", "late_joins", "leaves",
  "quiet_loopback", "narrow", "cuts", "changes", "returns", "long_pauses",
}

local function network(has, c)
  return {
    latency = c:pick { "50us", "1ms", "1ms", "20ms" },
    jitter = has.jitter and c:pick { "200us", "2ms", "15ms" } or "0ms",
    loss = has.loss and c:pick { 0.01, 0.05, 0.1, 0.2 } or 0,
    duplicate = has.duplicate and c:pick { 0.01, 0.1 } or 0,
    reorder = has.reorder and c:pick { 0.01, 0.1, 0.3 } or 0,
    capacity = has.narrow and c:pick { "2MB", "20MB" } or "0B",
  }
end

-- Small enough to fill, some far smaller than a message.
local function small_windows(with, c)
  with.nakack.window_bytes = c:pick { "20KB", "100KB", "500KB" }
  with.nakack.window_messages = c:pick { 16, 64, 1024 }
  with.unicast = {
    window_bytes = c:pick { "10KB", "100KB" }, window_messages = c:pick { 8, 64, 1024 },
  }
  with.mfc = { max_credits = c:pick { "10KB", "100KB", "1MB" } }
  with.ufc = { max_credits = c:pick { "10KB", "100KB", "1MB" } }
  with.frag = { frag_size = c:pick { "1KB", "8KB", "60KB" } }
end

-- Settings of the stack: the same for all members.
local function settings(has, c)
  local with = { fd_all = { timeout = "12s", interval = "2s" } }
  with.nakack = { retransmission = c:pick { "nak", "nak", "ack" } }
  with.rsvp = { timeout = c:pick { "10s", "30s" } }
  if has.small_windows then small_windows(with, c) end
  return with
end

function swarm.plan(seed)
  local c = chance(seed)
  local plan = { seed = seed, has = {}, kinds = {} }
  for _, kind in ipairs(KINDS) do
    plan.has[kind] = c:yes(0.5)
    if plan.has[kind] then plan.kinds[#plan.kinds + 1] = kind end
  end
  plan.count = c:between(2, 8)
  plan.net = network(plan.has, c)
  plan.with = settings(plan.has, c)
  plan.trouble = 10                       -- seconds
  plan.sends = c:pick { 5, 20, 60, 150, 400 } -- of each member
  -- Between two sends of one member at most so many ms: in a burst, or over all the trouble.
  plan.pause = c:pick { 1, 10, plan.trouble * 1800 / plan.sends }
  plan.chance = c
  return plan
end

function swarm.describe(plan)
  return ("%d members, %d sends each, loss %g: %s"):format(
    plan.count, plan.sends, plan.net.loss, table.concat(plan.kinds, " "))
end

-- ---- the story ----------------------------------------------------------------------------------

local Story = {}
Story.__index = Story

-- A label and a filler; without a filler of its own, a body shorter than its label is only its end.
local function body_of(label, size)
  if size == 0 then return "" end
  if size <= #label then return label:sub(-size) end
  return label .. (" "):rep(size - #label)
end

function Story:size()
  local c, has = self.c, self.plan.has
  local kind = c:real()
  if kind < 0.1 then return c:between(0, 3) end
  if kind < 0.8 or not has.big then return c:between(10, 1500) end
  if kind < 0.97 then return c:between(1500, 30000) end
  return c:between(30000, 200000)
end

function Story:is_alive(name)
  local channel = self.channels[name]
  return channel and channel:is_open() and not self.gone[name]
end

function Story:alive()
  local list = {}
  for _, name in ipairs(self.names) do
    if self:is_alive(name) then list[#list + 1] = name end
  end
  return list
end

-- What is sent, drawn before it is known whether there is room.
function Story:draw(name)
  local c, has = self.c, self.plan.has
  local channel = self.channels[name]
  local view = channel:view()
  if not view then return end
  self.labels = self.labels + 1
  local options, message = {}, {}
  if has.unicasts and c:yes(0.3) then
    local to = c:pick(view.addresses)
    options.to, message.to = to, to
  end
  if has.oob and c:yes(0.2) then options.oob, message.oob = true, true end
  if has.quiet_loopback and c:yes(0.2) then options.loopback, message.loopback = false, false end
  if has.rsvp and c:yes(0.15) then
    options.rsvp = c:pick { "completion", "delivery", "reception", true }
    options.wait = false
  end
  local label = ("%s %s #%d"):format(name, message.to and "to one" or "to all", self.labels)
  local size = self:size()
  if message.oob then size = math.max(size, #label) end
  message.body = body_of(label, size)
  return message, options
end

-- What a synchronous send says must be true: of everybody who was in the sender's view when the
-- send was called and is in it now.
function Story:check_rsvp(name, row, view, ack_on)
  if ack_on ~= "delivery" then return end
  local now = {}
  for _, address in ipairs(self.channels[name]:view().addresses) do now[address] = true end
  for index, address in ipairs(view.addresses) do
    local other = view.members[index]
    local target = not row.stream.to or row.stream.to == address
    local mine = address == row.stream.from
    if target and now[address] and self:is_alive(other) and not (mine and row.loopback == false)
      and self.channels[other].address == address
      and not self.oracle:delivered(row, address) then
      self.oracle:complain("rsvp: %s was told that %s has %q, which it has not", name, other,
        row.body:sub(1, 30))
    end
  end
end

local FAILURES = { -- what a send may end with when its sender or its target is in trouble
  ["not a member"] = true, closed = true, reset = true, ["would block"] = true, timeout = true,
  left = true, ["not joined"] = true, refused = true,
}

function Story:send(name)
  local channel = self.channels[name]
  local message, options = self:draw(name)
  if not message then return end
  local view = channel:view()
  local row = self.oracle:on_send(channel.address, name, message)
  self.waiting = self.waiting + 1
  local ok, code, detail = channel:send(message.body, options)
  self.waiting = self.waiting - 1
  -- As the stack says: which nobody knows when it changes.
  local ack_on = options.rsvp == true and not self.plan.has.changes and "delivery" or options.rsvp
  if not ok then
    row.refused = true
    self.codes[code] = (self.codes[code] or 0) + 1
    if not FAILURES[code] then
      self.oracle:complain("send: %s got %s (%s)", name, tostring(code), tostring(detail))
    end
    return
  end
  if options.rsvp then
    self.waiting = self.waiting + 1
    ok, code = ok:wait()
    self.waiting = self.waiting - 1
    if ok and self:is_alive(name) then
      self:check_rsvp(name, row, view, ack_on)
    elseif not ok and not FAILURES[code] then
      self.oracle:complain("rsvp: %s got %s", name, tostring(code))
    end
  end
end

function Story:sleep(ms)
  neap.sleep(("%dus"):format(math.floor(ms * 1000)))
end

function Story:on_message(name, message)
  local channel = self.channels[name]
  local c, has = self.c, self.plan.has
  local token = self.oracle:on_got(channel.address, name, message)
  self.got = self.got + 1
  if has.slow_callbacks and c:yes(0.05) then self:sleep(c:pick { 0, 5, 40, 200 }) end
  if has.from_callbacks and self.echoes > 0 and c:yes(0.1) then
    self.echoes = self.echoes - 1
    self:echo(name)
  end
  self.oracle:on_done(token)
end

-- From inside a callback: never synchronous, and it may be turned away.
function Story:echo(name)
  local channel = self.channels[name]
  local message, options = self:draw(name)
  if not message then return end
  options.rsvp, options.wait = nil, nil
  local row = self.oracle:on_send(channel.address, name, message)
  local ok, code = channel:send(message.body, options)
  if not ok then
    row.refused = true
    self.codes[code] = (self.codes[code] or 0) + 1
  end
end

function Story:join_late(name)
  while self.cut do self:sleep(100) end
  self:join(name)
end

function Story:join(name)
  local channel
  channel = self.sim:join("swarm", {
    stack = swarm.stack, name = name, with = self.plan.with,
    on = {
      message = function(message) self:on_message(name, message) end,
      view = function(view)
        local known = self.addresses[name]
        if known and known ~= channel.address then self.oracle:gone(known) end
        self.addresses[name] = channel.address
        self.oracle:on_view(channel.address, name, view)
      end,
      error = function(text) self.oracle:complain("callback: %s: %s", name, text) end,
      trouble = function(trouble)
        self.troubles = self.troubles + 1
        self.last_trouble = name .. ": " .. trouble.text
      end,
    },
  })
  self.channels[name] = channel
  self.gone[name], self.finished[name] = nil, nil
  self.sim:spawn(function()
    while not channel:view() do
      if not channel:is_open() then return end
      self:sleep(100)
    end
    for _ = 1, self.plan.sends do
      if not self:is_alive(name) or self.channels[name] ~= channel then return end
      self:send(name)
      self:sleep(self.c:real() * self.plan.pause)
    end
    self.finished[name] = true
  end)
end

-- ---- trouble ------------------------------------------------------------------------------------

local trouble = {}

function trouble.pauses(story, name)
  if story.paused[name] then return end
  story.paused[name] = true
  story.sim:pause(name)
  story:sleep(story.c:pick { 20, 300, 2000, 5000 })
  if story:is_alive(name) then story.sim:resume(name) end
  story.paused[name] = nil
end

function trouble.crashes(story, name)
  if #story:alive() <= 2 or story.crashed >= story.plan.count / 2 then return end
  story.crashed = story.crashed + 1
  story.gone[name] = true
  if story.addresses[name] then story.oracle:gone(story.addresses[name]) end
  story.sim:kill(name)
  if story.plan.has.returns and story.c:yes(0.5) then
    story:sleep(story.c:pick { 1, 500, 5000 })
    story:join_late(name)
  end
end

-- Beyond the time after which the others give it up: it comes back under another address.
function trouble.long_pauses(story, name)
  if story.paused[name] or #story:alive() <= 2 or story.long_paused then return end
  story.long_paused, story.paused[name] = true, true
  story.sim:pause(name)
  story:sleep(18000)
  if story:is_alive(name) then story.sim:resume(name) end
  story.paused[name] = nil
end

-- Everybody is in one view.
function Story:together()
  local alive = self:alive()
  local first = #alive > 0 and self.channels[alive[1]]:view()
  for _, name in ipairs(alive) do
    local view = self.channels[name]:view()
    if not first or not view or view.id ~= first.id or #view.members ~= #alive then return false end
  end
  return first
end

-- The network falls apart, not for so long that anybody is given up.  Not while somebody comes in:
-- who finds nobody founds a group of its own, and parts of two or more stay apart.
function trouble.cuts(story)
  if not story:together() then return end
  story.cut = true
  local sides = { {}, {} }
  for _, name in ipairs(story:alive()) do table.insert(story.c:pick(sides), name) end
  story.sim:partition(sides[1], sides[2])
  story:sleep(story.c:pick { 10, 100, 1000 })
  story.sim:heal()
  story.cut = false
  story:sleep(3000)
end

local CHANGES = {
  nakack = {
    window_bytes = { "20KB", "200KB", "4MB" }, window_messages = { 16, 256, 16384 },
    xmit_interval = { "20ms", "500ms" }, max_xmit_req_size = { 64, 1024 },
  },
  unicast = { window_bytes = { "10KB", "4MB" }, window_messages = { 8, 1024 } },
  mfc = { max_credits = { "10KB", "200KB", "4MB" } },
  ufc = { max_credits = { "10KB", "200KB", "4MB" } },
  frag = { frag_size = { "1KB", "20KB", "60KB" } },
  stable = { interval = { "1s", "20s" }, max_bytes = { "50KB", "2MB" } },
  rsvp = { ack_on = { "completion", "delivery" }, resend_interval = { "500ms", "2s" } },
}

-- A live attribute of one member.
function trouble.changes(story, name)
  local layers = { "nakack", "unicast", "mfc", "ufc", "frag", "stable", "rsvp" }
  local layer = story.c:pick(layers)
  local attributes = {}
  for attribute in pairs(CHANGES[layer]) do attributes[#attributes + 1] = attribute end
  table.sort(attributes)
  local attribute = story.c:pick(attributes)
  story.channels[name].stack[layer][attribute] = story.c:pick(CHANGES[layer][attribute])
end

function trouble.leaves(story, name)
  if #story:alive() <= 2 or story.left or story.paused[name] then return end
  story.left = true
  story.gone[name] = true
  if story.addresses[name] then story.oracle:gone(story.addresses[name]) end
  story.channels[name]:leave()
end

function trouble.toggles(story, name)
  local channel = story.channels[name]
  if not channel:view() then return end
  local mode = channel.stack.nakack.retransmission == "nak" and "ack" or "nak"
  local ok, code = channel.stack:set { nakack = { retransmission = mode } }
  story.toggled = story.toggled + (ok and 1 or 0)
  if not ok and code ~= "timeout" and not FAILURES[code] then
    story.oracle:complain("toggle: %s got %s", name, tostring(code))
  end
end

function Story:disturb()
  local kinds = { "pauses", "crashes", "leaves", "toggles", "cuts", "changes", "long_pauses" }
  for _, kind in ipairs(kinds) do
    if self.plan.has[kind] then
      self.sim:spawn(function()
        local rest = self.plan.trouble * 1000
        while rest > 0 do
          local pause = self.c:between(1, kind == "toggles" and 300 or 3000)
          self:sleep(pause)
          rest = rest - pause
          local list = self:alive()
          local name = #list > 0 and self.c:pick(list)
          if name then trouble[kind](self, name) end
        end
      end)
    end
  end
end

-- ---- calm ---------------------------------------------------------------------------------------

local CALM = 120 -- seconds: detection of the last crash, two stability rounds, and some more

-- Nothing may be left in these when all is calm.
local EMPTY = {
  nakack = { "waiting", "window_stored", "mode_pending", "early", "holds" },
  unicast = { "unacked", "waiting" },
  frag = { "partials" },
  gms = { "joiners", "holds" },
  rsvp = { "pending", "owed", "lingering" },
}

function Story:check_empty(name)
  local stack = self.channels[name].stack
  for layer, gauges in pairs(EMPTY) do
    for _, gauge in ipairs(gauges) do
      local value = tonumber(tostring(stack[layer][gauge]))
      if value ~= 0 then
        self.oracle:complain("calm: %s.%s of %s is %s", layer, gauge, name, tostring(value))
      end
    end
  end
end

function Story:check_end()
  local alive = {}
  for _, name in ipairs(self:alive()) do
    alive[#alive + 1] = self.channels[name].address
    if not self.finished[name] then
      self.oracle:complain("liveness: %s still waits to send", name)
    end
    self:check_empty(name)
  end
  if self.waiting > 0 then
    self.oracle:complain("liveness: %d sends have not returned", self.waiting)
  end
  for _, text in ipairs(self.sim:complaints()) do self.oracle:complain("checker: %s", text) end
  self.oracle:verdict(alive)
end

-- Runs a plan; returns the story, whose oracle has the problems.
function swarm.run(plan)
  local net = plan.net
  local sim = neap.sim {
    seed = plan.seed, latency = net.latency, jitter = net.jitter, loss = net.loss,
    duplicate = net.duplicate, reorder = net.reorder,
  }
  local story = setmetatable({
    plan = plan, sim = sim, c = plan.chance, oracle = Oracle.new(), names = {}, channels = {},
    gone = {}, paused = {}, finished = {}, addresses = {}, codes = {}, labels = 0, got = 0,
    waiting = 0, echoes = 300, crashed = 0, toggled = 0, troubles = 0,
  }, Story)
  sim:set { capacity = net.capacity }
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
  story:disturb()
  sim:run(("%ds"):format(plan.trouble))
  sim:set { loss = 0, duplicate = 0, reorder = 0, jitter = "0ms", capacity = 0 }
  sim:run(("%ds"):format(CALM))
  sim:settle()
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
