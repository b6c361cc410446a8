-- foreign: a scripted member that is not Neap.  It speaks JGroups 5, as little of it as a group
-- needs to take it in and keep it, and knows nothing else; what it cannot read it remembers.
--
--     local fay = foreign.new(g.sim, "fay", "chat"); fay:join(g.ann.address); g.sim:run "3s"
--     fay.view.members, fay.got, fay.unknown
--
-- It lives beside the simulated network: it reads the log of packets, as far as they are addressed
-- to it or to everybody, and injects its own.  Nothing is lost on its way: use no losses for it.

local core = require "neap.core"
local dissect = require "neap.dissect"
local neap = require "neap"
local payload = require "neap.payload"

local foreign = {}
foreign.__index = foreign

local VERSION = 5 * 2048 + 5 * 64 + 6
local OOB = 1
local LOG = 1024
local OWN = 1024 -- protocol ids from here on are Neap's own
local BEAT = 1e9 -- ns between heartbeats

-- The ids of each header that JGroups knows, by name; of several the first.
local ids = {}
for _, row in ipairs(dissect.headers()) do
  if not ids[row.name] then ids[row.name] = { row.protocol, row.class } end
end
local NAKACK4 = { 77, 99 }

local function header(name, fields)
  local pair = type(name) == "table" and name or ids[name]
  return { protocol = pair[1], class = pair[2], fields = fields or {} }
end

function foreign.new(sim, name, cluster)
  local fay = setmetatable({
    sim = sim, name = name, cluster = cluster,
    address = "0a0b0c0d-0e0f-1011-1213-1415161718" .. ("%02x"):format(#name),
    seqno = 0,     -- of its multicasts
    to = {},       -- connections it sends on, by peer: the last seqno
    from = {},     -- connections it receives on: conn, seqno
    streams = {},  -- multicasts it has, by sender
    early = {},    -- those behind a gap
    got = {},      -- bodies for its application, as "from body"
    unknown = {},  -- lines about headers and packets that JGroups cannot read
    heard = {},    -- how many messages with each header it has seen, by name and type
    rsvp = true,   -- answers synchronous sends
    stamp = 0,
  }, foreign)
  core.sim_log_start(sim.handle, LOG)
  return fay
end

-- ---- out ----------------------------------------------------------------------------------------

-- A message of this member: the transport's header comes last.
function foreign:message(to, headers, body, options)
  options = options or {}
  table.insert(headers, header("tp", { cluster = self.cluster, flag = 0 }))
  return {
    type = body and (options.type or "bytes") or "empty", flags = options.flags or 0,
    dest = to, src = self.address, headers = headers, body = body,
  }
end

function foreign:put(message, host)
  local bytes = dissect.encode { version = VERSION, list = false, messages = { message } }
  return self.sim:inject { from = self.name, to = host, bytes = bytes }
end

-- Everybody on the wire looks at whom it is for.
function foreign:unreliable(to, headers, body, options)
  return self:put(self:message(to, headers, body, options))
end

-- In the connection to this peer.
function foreign:reliable(to, headers, body, options)
  self.to[to] = (self.to[to] or 0) + 1
  table.insert(headers, header("unicast",
    { type = 0, seqno = self.to[to], conn = 1, first = self.to[to] == 1 }))
  return self:unreliable(to, headers, body, options)
end

function foreign:multicast(body)
  self.seqno = self.seqno + 1
  self:unreliable(nil, { header("nakack", { type = 1, seqno = self.seqno }) }, body)
end

-- Asks the sender for these again.
function foreign:ask(sender, first, last)
  local missing = { first = first, bits = last - first + 1 }
  for seqno = first, last do missing[#missing + 1] = seqno end
  self:unreliable(sender, { header("nakack", { type = 2, sender = sender }) },
    payload.write("object", { class = 15, value = missing }), { type = "object", flags = OOB })
end

-- Says where it is, then asks the coordinator.
function foreign:join(coordinator)
  local place = self:unreliable(nil, { header("ping",
    { type = 1, cluster = self.cluster, initial = true }) })
  local record = { member = self.address, bits = 0, name = self.name, place = place }
  self:unreliable(nil, { header("ping", { type = 1, cluster = self.cluster, initial = true }) },
    payload.write("records", { record }))
  self:reliable(coordinator, { header("gms", { type = 1, bits = 0, member = self.address }) })
  self.sim:spawn(function()
    local beat = 0
    while not self.stopped do
      self:read()
      if neap.now() >= beat then
        self:unreliable(nil, { header "fd_all" }, nil, { flags = OOB })
        beat = neap.now() + BEAT
      end
      neap.sleep "2ms"
    end
  end)
end

-- ---- in -----------------------------------------------------------------------------------------

local function install(self, view, digest)
  self.view = view
  for _, row in ipairs(digest or {}) do
    if row.member ~= self.address then self.streams[row.member] = row.delivered end
  end
  for _, member in ipairs(digest and {} or view.members) do -- Who joined later begins at 0.
    self.streams[member] = self.streams[member] or 0
  end
end

-- Old - left + joined.
local function changed(view, delta)
  local members, gone = {}, {}
  for _, member in ipairs(delta.left or {}) do gone[member] = true end
  for _, member in ipairs(view.members) do
    if not gone[member] then members[#members + 1] = member end
  end
  for _, member in ipairs(delta.joined or {}) do members[#members + 1] = member end
  return { creator = delta.creator, number = delta.number, members = members }
end

local uppers = {}

function uppers.gms(self, message, head)
  local said = message.payload or {}
  if head.word == "join_rsp" then
    local pairs_of = said.pairs or {}
    for n, row in ipairs(pairs_of) do row.member = said.view.members[n] end
    install(self, said.view, pairs_of)
  elseif head.word == "view" then
    local view = said.view or said.delta_view and changed(self.view, said.delta_view)
    if view and view.number > self.view.number then install(self, view) end
    self:reliable(message.src, { header("gms", { type = 10, bits = 0 }) }, nil, { flags = OOB })
  end
  return true
end

function uppers.rsvp(self, message, head)
  if (head.word == "request" or head.word == "beacon") and self.rsvp then
    self:reliable(message.src, { header("rsvp", { type = 3, id = head.fields.id }) }, nil,
      { flags = OOB })
  end
  return head.word == "response" or head.word == "beacon"
end

function uppers.mfc() return true end
function uppers.ufc() return true end
function uppers.stable() return true end

-- What is left when the lower ones are done with it.
local function deliver(self, message)
  for _, head in ipairs(message.headers) do
    local upper = uppers[head.name]
    if upper and upper(self, message, head) then return end
  end
  if message.body and #message.body > 0 and message.dest ~= false then
    table.insert(self.got, message.body)
  end
end

local lowers = {}

function lowers.unicast(self, message, head)
  local fields, peer = head.fields, message.src
  if head.word == "data" or fields.type == 0 then
    local from = self.from[peer]
    if not from or fields.first and from.conn ~= fields.conn then
      from = { conn = fields.conn, seqno = fields.seqno - 1 }
      self.from[peer] = from
    end
    local fresh = fields.seqno == from.seqno + 1
    if fresh then from.seqno = fields.seqno end
    self.stamp = self.stamp + 1
    self:unreliable(peer, { header("unicast",
      { type = 1, seqno = from.seqno, conn = from.conn, stamp = self.stamp }) })
    return fresh
  end
end

-- Keeps what is early, asks for what is missing.
function lowers.nakack(self, message, head)
  local fields, sender = head.fields, message.src
  local early = self.early[sender] or {}
  self.early[sender] = early
  if fields.type == 1 or fields.type == 3 then early[fields.seqno] = message end
  local have = self.streams[sender]
  if not have or fields.type == 2 or fields.type == 5 then return false end
  while early[have + 1] do
    have = have + 1
    self.streams[sender] = have
    deliver(self, early[have])
    early[have] = nil
  end
  if fields.seqno > have then self:ask(sender, have + 1, fields.seqno) end
  if head.protocol == NAKACK4[1] then -- It wants to hear how far this member is.
    self:unreliable(sender, { header(NAKACK4, { type = 5, seqno = have }) })
  end
  return false
end

function lowers.verify_suspect(self, message, head)
  if head.fields.type == 1 then
    self:unreliable(message.src, { header("verify_suspect", { type = 2, from = self.address }) },
      nil, { flags = OOB })
  end
end

function lowers.ping() end
function lowers.fd_all() end

local function take(self, message)
  for _, head in ipairs(message.headers) do
    local name = ("%s %s"):format(head.name, head.word or tostring(head.fields.type or ""))
    self.heard[name] = (self.heard[name] or 0) + 1
    if head.protocol >= OWN and (self.listening or message.dest == self.address) then
      table.insert(self.unknown, ("%s from %s at %.3f ms"):format(name, message.src,
        self.sim:now() / 1e6))
    end
  end
  for n = #message.headers, 1, -1 do
    local lower = lowers[message.headers[n].name]
    if lower and not lower(self, message, message.headers[n]) then return end
  end
  deliver(self, message)
end

local function addressed(self, row, seen)
  if row.from == self.name then return false end
  if row.to == self.name then return true end
  local key = ("%.0f %s"):format(row.sent, row.bytes)
  if not row.multicast or seen[key] then return false end
  seen[key] = true
  return true
end

-- Reads what was sent since the last time.
function foreign:read()
  local handle, seen = self.sim.handle, {}
  local rows = {}
  local count = core.sim_log_count(handle)
  if count == 0 then return end
  assert(count < LOG, "the log is too short")
  for n = 1, count do rows[n] = core.sim_log(handle, n) end
  core.sim_log_start(handle, LOG)
  for _, row in ipairs(rows) do
    if addressed(self, row, seen) then
      local packet = dissect.packet(row.bytes, VERSION)
      if packet.fault then table.insert(self.unknown, packet.fault) end
      for _, message in ipairs(packet.messages) do
        message.src = message.src or packet.src
        if message.skipped then table.insert(self.unknown, "a header nobody knows") end
        take(self, message)
      end
    end
  end
end

-- From here on everybody knows that it is there: what is sent to all is for it, too.
function foreign:listen() self.listening = true end

function foreign:stop() self.stopped = true end

return foreign
