-- fuzz_live: a living group whose own packets come back to it, changed.
--
--     fuzz_live.round { seed = 7, kind = "strangers" }   raises what is wrong
--
-- Three members talk, toggle and send synchronously, a fourth comes and goes, every promise is
-- watched.  What they send is captured; packets of it are taken apart, changed (fields, types,
-- numbers, connection ids, views, digests, lengths, flags, headers of other packets) or broken as
-- bytes, and put on the wire again.
-- What may be expected depends on whose name a packet bears:
--
--     strangers   changed or not, it comes from addresses that are in no view: the promises
--     replays     a member's own, unchanged, early or late:                       hold
--     refused     a member's, broken so that the decoder refuses it:
--     members     changed, in the name of a member: it can break any promise, as that member could.
--                 Nothing may crash or hang, beliefs of layers hold, and all memory comes back.

local core = require "neap.core"
local dissect = require "neap.dissect"
local group = require "support.group"
local payload = require "neap.payload"
local random = require "support.random"

local fuzz_live = { kinds = { "strangers", "replays", "refused", "members" } }

local VERSION = 5 * 2048 + 5 * 64 + 6
local KEPT = 400   -- packets that are remembered
local LOG = 4096
local SENDS = 40   -- of each member, in a round
local PAUSE = "5ms"
local STRANGERS = 4

-- ---- changing packets ---------------------------------------------------------------------------

local Round = {}
Round.__index = Round

local function pick(r, list) return list[1 + r:below(#list)] end

-- A number that is near, or nowhere near.
local function number_like(r, number)
  local what = r:below(6)
  if type(number) ~= "number" then return r:below(1000) end -- a 64-bit one
  if what == 0 then return number + 1 end
  if what == 1 then return math.max(0, number - 1) end
  if what == 2 then return 0 end
  if what == 3 then return r:below(256) end
  if what == 4 then return 2 ^ (1 + r:below(31)) - 1 end
  return math.max(0, number + r:below(40) - 20)
end

function Round:address()
  local r = self.random
  local what = r:below(3)
  if what == 0 then return pick(r, self.addresses) end
  if what == 1 then return pick(r, self.strangers) end
  return r:member()
end

-- Any value of a header or a payload, a little different.  An object's own type stays: what is
-- written here is written by the encoder, which believes that there is such a type.
function Round:changed(value, depth)
  local r = self.random
  if type(value) == "number" then return number_like(r, value) end
  if type(value) == "boolean" then return not value end
  if type(value) == "string" then
    if value:match "^%x+%-%x+%-%x+%-%x+%-%x+$" then return self:address() end
    return #value > 0 and r:mutated(value) or "x"
  end
  if type(value) ~= "table" or depth > 4 then return value end
  local keys = {}
  for key in pairs(value) do keys[#keys + 1] = key end
  if #keys == 0 then return value end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  local copy = {}
  for _, key in ipairs(keys) do copy[key] = value[key] end
  local key = pick(r, keys)
  if type(key) == "number" and r:below(4) == 0 then -- one of a list goes, or comes twice
    if r:below(2) == 0 then table.remove(copy, key) else table.insert(copy, key, copy[key]) end
  else
    copy[key] = self:changed(value[key], depth + 1)
  end
  if copy.code then copy.code, copy.kind = value.code, value.kind end
  -- As many words are written as a request has bits; absurd counts come as broken bytes.
  if type(copy.bits) == "number" then copy.bits = copy.bits % 4096 end
  return copy
end

function Round:change_message(message)
  local r = self.random
  local what = r:below(8)
  local head = #message.headers > 0 and pick(r, message.headers)
  if what <= 3 and head then
    head.fields = self:changed(head.fields, 0)
  elseif what == 4 and message.payload ~= nil then
    local ok, bytes = pcall(payload.write, message.payload_kind, self:changed(message.payload, 0))
    if ok then message.body = bytes end
  elseif what == 5 then
    message.body = message.body and #message.body > 0 and r:mutated(message.body) or "x"
  elseif what == 6 then
    message.flags = r:below(4096)
  else -- a header of another message, or one less
    local other = dissect.packet(pick(r, self.kept).bytes)
    local given = other.messages[1] and other.messages[1].headers
    if given and #given > 0 and r:below(2) == 0 then
      local at = 1 + r:below(#message.headers + 1)
      table.insert(message.headers, at, pick(r, given))
    elseif #message.headers > 1 then
      table.remove(message.headers, 1 + r:below(#message.headers))
    end
  end
end

local function set_source(packet, source)
  packet.src = packet.list and source or nil
  for _, message in ipairs(packet.messages) do
    message.src, message.own_src = source, not packet.list
  end
end

-- The bytes of a packet after a few changes; nil when that cannot be written.
function Round:rewritten(bytes, source, changes)
  local r = self.random
  local packet = dissect.packet(bytes, VERSION)
  if packet.fault or #packet.messages == 0 then return nil end
  for _ = 1, changes do self:change_message(pick(r, packet.messages)) end
  if r:below(8) == 0 then packet.cluster = "other" end
  if source then set_source(packet, source) end
  local ok, out = pcall(dissect.encode, packet)
  return ok and out or nil
end

-- ---- what is put on the wire --------------------------------------------------------------------

local makers = {}

function makers.strangers(self)
  local r = self.random
  local one = pick(r, self.kept)
  return self:rewritten(one.bytes, pick(r, self.strangers), r:below(4)), "eve"
end

function makers.replays(self)
  local one = pick(self.random, self.kept)
  return one.bytes, one.from
end

function makers.refused(self)
  local one = pick(self.random, self.kept)
  local bytes = self.random:mutated(one.bytes)
  local packet = dissect.packet(bytes, VERSION)
  -- Only what is refused before its first message: what follows good ones is refused as well.
  if not packet.fault or #packet.messages > 0 then return nil end
  return bytes, one.from
end

function makers.members(self)
  local r = self.random
  local one = pick(r, self.kept)
  local what = r:below(6)
  if what == 0 then return r:mutated(one.bytes), one.from end
  local source = what == 1 and pick(r, self.addresses) or nil
  return self:rewritten(one.bytes, source, 1 + r:below(3)), one.from
end

-- Remembers some of what was sent since the last time.
function Round:capture()
  local handle = self.g.sim.handle
  for n = 1, core.sim_log_count(handle) do
    local row = core.sim_log(handle, n)
    if row.from ~= "eve" and #row.bytes > 0 then
      local at = #self.kept < KEPT and #self.kept + 1 or 1 + self.random:below(KEPT)
      self.kept[at] = { bytes = row.bytes, from = row.from, to = row.to }
    end
  end
  core.sim_log_start(handle, LOG)
end

function Round:inject()
  for _ = 1, 1 + self.random:below(6) do
    if #self.kept == 0 then return end
    local bytes, from = makers[self.kind](self)
    if bytes and #bytes > 0 and #bytes < 60000 then
      local to = self.random:below(3) > 0 and pick(self.random, self.g.names) or nil
      self.g.sim:inject { from = from, to = to, bytes = bytes }
      self.injected = self.injected + 1
    end
  end
end

-- ---- the group ----------------------------------------------------------------------------------

-- What each member says, in order, and whether it was taken.
function Round:talk(name)
  local g, r = self.g, random.new(self.seed * 31 + #name)
  local channel = g[name]
  g.sim:spawn(function()
    for n = 1, SENDS do
      local options = {}
      if r:below(4) == 0 then
        options.to = pick(r, self.g.names)
        if options.to == name then options.to = nil end
      end
      if r:below(8) == 0 then
        options.rsvp, options.timeout = true, "3s"
      end
      local body = ("%s %d %s"):format(name, n, ("x"):rep(r:below(10) == 0 and 3000 or 10))
      local taken, code, detail = channel:send(body, options)
      -- A synchronous send whose time is over was sent, if there ever was room.
      if taken or code == "timeout" and detail.sent ~= false then
        self:said(name, options.to, body)
      end
      if not channel:is_open() then return end
      if n % 10 == 0 and r:below(2) == 0 then
        channel.stack:set { nakack = { retransmission = pick(r, { "nak", "ack" }) } }
      end
      require("neap").sleep("" .. (1 + r:below(30)) .. "ms")
    end
    self.done = self.done + 1
  end)
end

function Round:said(from, to, body)
  for _, name in ipairs(self.g.names) do
    if to == nil or to == name then
      local key = name .. " <- " .. from .. (to and " alone" or "")
      self.wanted[key] = self.wanted[key] or {}
      table.insert(self.wanted[key], body)
    end
  end
end

function Round:listen(name)
  self.g[name]:on("message", function(msg)
    local from = msg.body and msg.body:match "^(%l+) %d+ x*$"
    if not from or msg.from_address ~= self.address_of[from] then return end
    local key = name .. " <- " .. from .. (msg.to and " alone" or "")
    self.got[key] = self.got[key] or {}
    table.insert(self.got[key], msg.body)
  end)
end

-- Somebody comes and goes, so that there are packets about that.
function Round:visit()
  local dee = self.g.sim:join("chat", { stack = "spec/support/checked.lua", name = "dee",
    on = { message = function() end } })
  self.g.sim:spawn(function()
    require("neap").sleep "300ms"
    dee:leave()
  end)
end

local function short(list)
  local parts = {}
  for n, body in ipairs(list or {}) do parts[n] = body:match "%d+" end
  return table.concat(parts, " ")
end

-- Nothing that members promised each other is broken.
function Round:kept_promises()
  local g = self.g
  for _, line in ipairs(g.sim:complaints()) do
    -- A stranger may call itself ann, and what it says rises as far as gms; see `got` instead.
    local below_gms = line:find("check_f", 1, true)
    if self.kind ~= "strangers" or not below_gms then
      error("a checker complains: " .. line, 0)
    end
  end
  for _, name in ipairs(g.names) do
    local view = g[name]:view()
    if table.concat(view.members, " ") ~= table.concat(g.names, " ") then
      error(("%s is in view %s: %s"):format(name, view.id, table.concat(view.members, " ")), 0)
    end
    if g[name].address ~= self.address_of[name] then
      error(name .. " was made to start over", 0)
    end
  end
  if self.done < #g.names then error("a sender waits for ever", 0) end
  for key, wanted in pairs(self.wanted) do
    if short(self.got[key]) ~= short(wanted) then
      error(("%s: got  %s\nwanted %s"):format(key, short(self.got[key]), short(wanted)), 0)
    end
  end
end

function fuzz_live.round(options)
  local r = random.new(options.seed)
  local round = setmetatable({
    seed = options.seed, kind = options.kind, random = r, kept = {}, injected = 0, done = 0,
    wanted = {}, got = {}, strangers = {}, addresses = {}, address_of = {},
  }, Round)
  local g = group.new { seed = options.seed, stack = "spec/support/checked.lua", with = {
    nakack = { retransmission = pick(r, { "nak", "ack" }) },
    stable = { interval = pick(r, { "500ms", "20s" }) },
    fd_all = { timeout = "6s", interval = "1s" },
    mfc = { max_credits = pick(r, { "20KB", "4MB" }) },
  } }
  round.g = g
  for n = 1, STRANGERS do
    local address = r:member()
    if n % 2 == 0 then address = "6e656170-01" .. address:sub(12) end -- Of Neap's kind.
    round.strangers[n] = address
  end
  core.sim_log_start(g.sim.handle, LOG)
  for _, name in ipairs(g.names) do
    round.addresses[#round.addresses + 1] = g[name].address
    round.address_of[name] = g[name].address
    round:listen(name)
    round:talk(name)
  end
  local steps = options.steps or 200
  for step = 1, steps do
    if step == math.floor(steps / 5) then round:visit() end
    g.sim:run(PAUSE)
    round:capture()
    round:inject()
  end
  core.sim_log_start(g.sim.handle, 0)
  g.sim:run "90s"
  if options.kind ~= "members" then round:kept_promises() end
  g.sim:close()
  return round.injected
end

return fuzz_live
