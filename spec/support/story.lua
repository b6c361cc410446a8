-- story: what the members of a swarm do: they join, send, get, and are held to account.
--
-- Everything they send and get goes past the oracle; what is left when all is calm is looked at.

local Channel = require "neap.channel"
local neap = require "neap"

local RAISED = "a callback that raises, for once"

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
  if message.oob or has.table_losses and message.to then size = math.max(size, #label) end
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

Story.FAILURES = { -- what a send may end with when its sender or its target is in trouble
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
    if not Story.FAILURES[code] then
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
    elseif not ok and not Story.FAILURES[code] then
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
  if has.naps and c:yes(0.002) then self:sleep(c:between(1000, 6000)) end
  if has.slow_callbacks and c:yes(0.05) then self:sleep(c:pick { 0, 5, 40, 200 }) end
  if has.from_callbacks and self.echoes > 0 and c:yes(0.1) then
    self.echoes = self.echoes - 1
    self:echo(name)
  end
  self.oracle:on_done(token)
  if has.raises and c:yes(0.02) then error(RAISED) end
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

-- ---- states -----------------------------------------------------------------------------------

-- A state is the number of what the oracle keeps of it, and a filler of some length.
function Story:give(name, out)
  local c = self.c
  local pauses, size = c:yes(0.5), c:pick { 0, 10, 3000, 200000 }
  if pauses then self:sleep(c:between(0, 300)) end
  if not self:is_alive(name) then return "" end
  local states = self.states
  states[#states + 1] = self.oracle:state_of(self.channels[name].address)
  local text = ("%d:"):format(#states) .. ("."):rep(size)
  states[#states].text = text
  if not pauses then return text end
  for at = 1, #text, 20000 do
    if not out:write(text:sub(at, at + 19999)) then return end
    self:sleep(c:between(0, 20))
  end
end

function Story:state_handlers(name)
  local parts
  return {
    begin = function() parts = {} end,
    chunk = function(text)
      parts[#parts + 1] = text
      if self.plan.has.slow_callbacks and self.c:yes(0.1) then self:sleep(self.c:between(0, 50)) end
    end,
    commit = function()
      local text = table.concat(parts)
      local state = self.states[tonumber(text:match "^(%d+):")]
      if not state or state.text ~= text then
        self.oracle:complain("state: %s got one that is cut or mixed", name)
      else
        self.oracle:on_state(self.channels[name].address, state)
      end
    end,
    abort = function() parts = nil end,
  }
end

-- What it ends with has to make sense.  True if there is a state.
function Story:fetch(name, options)
  self.fetching = self.fetching + 1
  local ok, code, detail = self.channels[name]:get_state(options)
  self.fetching = self.fetching - 1
  if ok then
    self.states_got = self.states_got + 1
    return true
  end
  self.states_lost = self.states_lost + 1
  if code ~= "no answer" and not Story.FAILURES[code] then
    self.oracle:complain("state: %s got %s (%s)", name, tostring(code), tostring(detail))
  end
  return false, code, detail
end

-- When all is calm everybody can have one.
function Story:last_states()
  for _, name in ipairs(self:alive()) do
    for _, mode in ipairs { "applied", "barrier" } do
      local stack = self.channels[name].stack
      stack.state_transfer.mode, stack.barrier.max_close_time = mode, "60s"
      local ok, code, detail
      self.sim:spawn(function() ok, code, detail = self:fetch(name, { timeout = "1min" }) end)
      self.sim:run "61s"
      if not ok then
        self.oracle:complain("state: in the end %s got none, mode %s: %s (%s)", name, mode,
          tostring(code), tostring(detail))
      end
    end
  end
end

-- One after the other, when everybody is in one view: who finds nobody founds a group of its own,
-- and would stay apart if somebody else joined it there.
function Story:join_late(name)
  while self.cut or self.coming or not self:together() do self:sleep(100) end
  self.coming = true
  self:join(name)
  for _ = 1, 100 do
    self:sleep(100)
    if self:together() then break end
  end
  self.coming = false
end

function Story:join(name)
  local channel
  channel = self.sim:join("swarm", {
    stack = self.plan.stack, name = name, with = self.plan.with,
    on = {
      message = function(message) self:on_message(name, message) end,
      state_request = self.plan.has.states and function(out) return self:give(name, out) end or nil,
      state = self.plan.has.states and self:state_handlers(name) or nil,
      view = function(view)
        local known = self.addresses[name]
        if known and known ~= channel.address and not self.returned[name] then
          self.oracle:gone(known)
          self.rejoined = self.rejoined + 1
          self.last_rejoined = name
        end
        self.returned[name] = nil
        self.addresses[name] = channel.address
        self.oracle:on_view(channel.address, name, view)
      end,
      error = function(text)
        if not text:find(RAISED, 1, true) then
          self.oracle:complain("callback: %s: %s", name, text)
        end
      end,
      trouble = function(trouble)
        self.troubles = self.troubles + 1
        self.last_trouble = name .. ": " .. trouble.text
      end,
    },
  })
  -- Room for a few messages: what does not fit is dropped, and asked for again.
  if self.plan.has.small_inboxes then channel[Channel.own].pointer.rx_limit = 20000 end
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

-- ---- the end ----------------------------------------------------------------------------------

-- Nothing may be left in these when all is calm.
local EMPTY = {
  nakack = { "waiting", "window_stored", "mode_pending", "early", "holds" },
  unicast = { "unacked", "waiting" },
  frag = { "partials" },
  gms = { "joiners", "holds" },
  rsvp = { "pending", "owed", "lingering" },
  settings = { "pending", "queued", "missing" },
  state_transfer = { "fetching", "giving", "queued", "held_messages" },
  barrier = { "closed", "held_messages" },
}

function Story:check_empty(name)
  local stack = self.channels[name].stack
  for _, layer in ipairs(stack:layers()) do
    for _, gauge in ipairs(EMPTY[layer] or {}) do
      local value = stack[layer][gauge]
      if value and tonumber(tostring(value)) ~= 0 then
        self.oracle:complain("calm: %s.%s of %s is %s", layer, gauge, name, tostring(value))
      end
    end
  end
end

-- Who is in one view has set the same of what the group sets.
function Story:check_settings()
  local told = {}
  for _, name in ipairs(self:alive()) do
    local channel = self.channels[name]
    -- Without who made it: one that came back is not known by its old address.
    local view, text = channel:view(), channel.stack.settings:group():gsub(", made by [^\n]*", "")
    local id = view and view.id or name
    local other = told[id]
    told[id] = other or { name = name, text = text }
    if other and other.text ~= text then
      self.oracle:complain("settings: %s has %s\nand %s has %s", other.name, other.text, name, text)
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
  local has = self.plan.has
  local silent = has.loss or has.pauses or has.cuts or has.narrow or has.long_pauses
    or has.lua_layers -- These stand above a wire that loses, too.
  if self.rejoined > 0 and not silent then
    self.oracle:complain("view: %s was excluded though it never was silent", self.last_rejoined)
  end
  if self.fetching > 0 then
    self.oracle:complain("liveness: %d who want a state still wait", self.fetching)
  end
  if self.waiting > 0 then
    self.oracle:complain("liveness: %d sends have not returned", self.waiting)
  end
  for _, text in ipairs(self.sim:complaints()) do self.oracle:complain("checker: %s", text) end
  self:check_settings()
  self.oracle:verdict(alive)
end

return Story
