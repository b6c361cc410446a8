-- oracle: sees everything that all members send and get, and says which promises were broken.
--
-- Its rows are keyed by addresses, so that a member that was excluded and came back is another one.
-- A stream is what one address sends to all, or to one other address.
--
--   mcast_fifo, ucast_fifo   what a receiver gets of a stream is a run of it, without
--                            gap or repetition; a unicast stream begins at its first message
--   mcast_reliable,          who was in the sender's view when something was sent has got it, if
--   ucast_reliable           both are still there at the end
--   out-of-band              once, in any order
--   frag                     bodies come out as they went in
--   view                     numbers rise; one id, one list; joined and left tell the difference
--   rsvp                     a delivery was reported only after the callbacks had returned
--
-- Who takes a state has what is in it, and nothing else; what it had before it may have again.  Not
-- owed is what was sent while a giver was not there: nobody gave it that.
--
-- When a connection's table is lost, its stream may go back or skip once, and what was sent before
-- is owed no more.
--
-- Bodies shorter than their label are all alike, so a stream remembers bodies, not labels.

local Oracle = {}
Oracle.__index = Oracle

function Oracle.new()
  return setmetatable({
    members = {},   -- by address: { name, address, views, streams got, gone }
    order = {},     -- the same, in the order in which they came
    streams = {},   -- by key: what was sent
    view_lists = {}, -- by view key: the members
    problems = {},
  }, Oracle)
end

-- ---- what is wrong ------------------------------------------------------------------------------

local PROBLEMS_MAX = 20

function Oracle:complain(format, ...)
  if #self.problems < PROBLEMS_MAX then self.problems[#self.problems + 1] = format:format(...) end
end

-- ---- members ------------------------------------------------------------------------------------

function Oracle:member(address, name)
  local member = self.members[address]
  if not member then
    member = { address = address, name = name, views = {}, got = {}, done = {}, started = {},
      past = {} }
    self.members[address] = member
    self.order[#self.order + 1] = member
  end
  member.name = member.name or name
  return member
end

-- It crashed or left: it is owed nothing any more, and owes nothing.
function Oracle:gone(address)
  self:member(address).gone = true
end

local function set_of(list)
  local set = {}
  for _, entry in ipairs(list) do set[entry] = true end
  return set
end

-- ---- views --------------------------------------------------------------------------------------

local function difference(before, after)
  local known, list = set_of(before), {}
  for _, entry in ipairs(after) do
    if not known[entry] then list[#list + 1] = entry end
  end
  table.sort(list)
  return table.concat(list, " ")
end

local function sorted(list)
  local copy = { unpack(list) }
  table.sort(copy)
  return table.concat(copy, " ")
end

function Oracle:on_view(address, name, view)
  local member = self:member(address, name)
  local number = tonumber(view.id:match "|(%d+)$")
  local key = view.addresses[1] .. "|" .. number
  local list = table.concat(view.addresses, " ")
  local before = member.views[#member.views]
  if self.view_lists[key] and self.view_lists[key] ~= list then
    self:complain("view: %s has two lists of members, one of them at %s", view.id, name)
  end
  self.view_lists[key] = list
  if before and number <= before.number then
    self:complain("view: %s installed %s after %d", name, view.id, before.number)
  end
  if not set_of(view.addresses)[address] then
    self:complain("view: %s installed %s, in which it is not", name, view.id)
  end
  if before and #difference(before.addresses, view.addresses) > 0 ~= (#view.joined > 0)
    or before and #difference(view.addresses, before.addresses) > 0 ~= (#view.left > 0) then
    self:complain("view: %s of %s says joined (%s), left (%s)", view.id, name,
      sorted(view.joined), sorted(view.left))
  end
  member.views[#member.views + 1] = {
    number = number, id = view.id, addresses = view.addresses, set = set_of(view.addresses),
  }
end

local function view_of(member)
  return member.views[#member.views]
end

-- ---- messages -----------------------------------------------------------------------------------

local function key_of(from, to, oob)
  return from .. ">" .. (to or "*") .. (oob and " oob" or "")
end

function Oracle:stream(from, to, oob)
  local key = key_of(from, to, oob)
  local stream = self.streams[key]
  if not stream then
    stream = { key = key, from = from, to = to, oob = oob, sent = {} }
    self.streams[key] = stream
    self.streams[#self.streams + 1] = stream
  end
  return stream
end

-- Right before a send: message = { to (an address), oob, body, loopback }.  Whoever has to wait for
-- room stands in line, so the order of the calls is the order of the stream.  Returns the row; if
-- the send is refused, row.refused = true takes it back.
function Oracle:on_send(address, name, message)
  local stream = self:stream(address, message.to, message.oob)
  local row = {
    body = message.body or "", view = view_of(self:member(address, name)),
    loopback = message.loopback, stream = stream, index = #stream.sent + 1,
  }
  stream.sent[row.index] = row
  return row
end

-- What this member has to expect of the stream, in order.
local function expected(stream, member)
  local rows = {}
  for _, row in ipairs(stream.sent) do
    if not row.refused and not (row.loopback == false and member.address == stream.from) then
      rows[#rows + 1] = row
    end
  end
  return rows
end

local function label(body)
  return #body > 40 and ("%q.. (%d B)"):format(body:sub(1, 30), #body) or ("%q"):format(body)
end

local function got_of(member, key)
  local got = member.got[key]
  if not got then
    got = { bodies = {}, done = 0, finished = {}, seqnos = {}, has = {} }
    member.got[key] = got
  end
  return got
end

-- In a callback, at its beginning.  Returns a token for on_done; nil when it is in the state, as
-- those may be that come marked.
function Oracle:on_got(address, name, message)
  local member = self:member(address, name)
  local key = key_of(message.from_address, message.to and address, message.oob)
  local got = got_of(member, key)
  if message.replayed and got.has[message.seqno] then return nil end
  got.bodies[#got.bodies + 1] = message.body or ""
  if not message.to and message.seqno then
    got.seqnos[#got.bodies], got.has[message.seqno] = message.seqno, true
  end
  return { got = got, index = #got.bodies }
end

function Oracle:on_done(token)
  if not token then return end
  token.got.finished[token.index] = true
  while token.got.finished[token.got.done + 1] do token.got.done = token.got.done + 1 end
end

-- ---- states -------------------------------------------------------------------------------------

-- What this member's state is, now: all multicasts that a callback got, those at work included.
function Oracle:state_of(address)
  local member = self.members[address]
  local state = { got = {}, givers = { address } }
  for key, got in pairs(member.got) do
    if not self.streams[key] or not self.streams[key].to then
      state.got[key] = { bodies = { unpack(got.bodies) }, seqnos = { unpack(got.seqnos) } }
    end
  end
  for _, giver in ipairs(member.givers or {}) do state.givers[#state.givers + 1] = giver end
  return state
end

-- It is set at this member: what it had of multicasts is past.
function Oracle:on_state(address, state)
  local member = self.members[address]
  for _, stream in ipairs(self.streams) do
    if not stream.to then
      local before, given = member.got[stream.key], state.got[stream.key]
      member.past[#member.past + 1] = before and { key = stream.key, got = before }
      member.got[stream.key] = nil
      local got = got_of(member, stream.key)
      got.sent, got.givers = #stream.sent, state.givers
      for index, body in ipairs(given and given.bodies or {}) do
        got.bodies[index], got.finished[index] = body, true
        got.seqnos[index], got.has[given.seqnos[index]] = given.seqnos[index], true
        got.done = index
      end
    end
  end
  member.givers = state.givers
end

-- Was it sent while one of those was not there, by whom the state came?
local function not_given(got, row)
  if not got.givers or row.index > got.sent then return false end
  for _, giver in ipairs(got.givers) do
    if not row.view or not row.view.set[giver] then return true end
  end
  return false
end

local function fits(rows, got, offset)
  for index, body in ipairs(got.bodies) do
    local row = rows[index + offset]
    if not row or row.body ~= body then return false end
  end
  return true
end

-- How many went by before the first that `member` got: a joiner begins later.  From `first` on; nil
-- if what it got is no run of the stream.
local function skipped(stream, rows, got, member, first)
  local last = #rows - #got.bodies
  local whole = stream.to or member.address == stream.from and not got.givers
  if whole then last = math.min(last, 0) end
  for offset = first, last do
    if fits(rows, got, offset) then return offset end
  end
end

-- Has the callback for this row, and for all before it, returned at this address?  (For this one
-- only, where earlier ones may be of a connection that was lost.)
function Oracle:delivered(row, address)
  local member = self.members[address]
  if not member then return false end
  local got = member.got[row.stream.key]
  if got and (not_given(got, row) or self:has(row, member, got)) then return true end
  for _, past in ipairs(member.past) do
    if past.key == row.stream.key and self:has(row, member, past.got) then return true end
  end
  return false
end

function Oracle:has(row, member, got)
  if row.stream.oob or row.stream.losses then
    for index, body in ipairs(got.bodies) do
      if body == row.body then return got.finished[index] or false end
    end
    return false
  end
  local rows, place = expected(row.stream, member), nil
  for index, other in ipairs(rows) do
    if other == row then place = index end
  end
  local before = skipped(row.stream, rows, got, member, 0)
  while place and before do -- Empty bodies are alike: it may fit in more than one place.
    if got.done + before >= place then return true end
    before = skipped(row.stream, rows, got, member, before + 1)
  end
  return false
end

-- The table of what `from` sends to `to` is lost, at either of them.
function Oracle:on_table_loss(from, to)
  for _, oob in ipairs { false, true } do
    local stream = self:stream(from, to, oob)
    stream.losses, stream.lost_at = (stream.losses or 0) + 1, #stream.sent
  end
end

-- ---- the verdict --------------------------------------------------------------------------------

-- Where the run breaks: for a person.
local function describe_break(rows, got)
  local at, before = {}, nil
  for index, row in ipairs(rows) do at[row.body] = at[row.body] or index end
  for index, body in ipairs(got.bodies) do
    local now = at[body]
    if not now then return ("#%d is nothing that was sent: %s"):format(index, label(body)) end
    if before and #body > 0 and now ~= before + 1 then
      return ("#%d of the stream came behind #%d: %s"):format(now, before, label(body))
    end
    before = now
  end
  return ("%d messages of %d that were sent"):format(#got.bodies, #rows)
end

local function staying(member, other, row)
  local final = view_of(member)
  return not member.gone and not other.gone and final and final.set[other.address]
    and row.view and row.view.set[other.address]
end

-- The first that it should have got and has not, when it began behind `offset`.
local function missing(rows, got, offset, owed)
  for index, row in ipairs(rows) do
    if (index <= offset or index > offset + #got.bodies) and owed(row) then return index end
  end
end

-- The row behind this one that was not refused.
local function follower(stream, row)
  local index = row.index + 1
  while stream.sent[index] and stream.sent[index].refused do index = index + 1 end
  return stream.sent[index]
end

function Oracle:check_regular(stream, member)
  local sender = self.members[stream.from]
  local got = member.got[stream.key] or { bodies = {} }
  local rows = expected(stream, member)
  local function owed(row)
    return staying(member, sender, row) and staying(sender, member, row) and not not_given(got, row)
  end
  local offset, lost = skipped(stream, rows, got, member, 0), nil
  if not offset then
    self:complain("fifo: %s got of %s: %s", member.name, stream.key, describe_break(rows, got))
    return
  end
  while offset do -- Empty bodies are alike: it may fit in more than one place.
    local index = missing(rows, got, offset, owed)
    if not index then return end
    lost = lost or index
    offset = skipped(stream, rows, got, member, offset + 1)
  end
  self:complain("reliable: %s never got #%d of %s: %s (%d got, %d sent)", member.name, lost,
    stream.key, label(rows[lost].body), #got.bodies, #rows)
end

-- A stream whose table was lost: it goes on behind what came last, except once for each loss.
function Oracle:check_broken(stream, member)
  local sender = self.members[stream.from]
  local got = member.got[stream.key] or { bodies = {} }
  local at, jumps, before, seen = {}, 0, nil, {}
  for _, row in ipairs(stream.sent) do at[row.body] = row end
  for _, body in ipairs(got.bodies) do
    local row = at[body]
    if not row then
      self:complain("fifo: %s got what is nothing that was sent of %s", member.name, stream.key)
      return
    end
    if before and not stream.oob and follower(stream, before) ~= row then jumps = jumps + 1 end
    before, seen[row] = row, true
  end
  if jumps > stream.losses then
    self:complain("fifo: %s got %s with %d jumps for %d losses", member.name, stream.key, jumps,
      stream.losses)
  end
  for index, row in ipairs(stream.sent) do
    if index > stream.lost_at and not row.refused and not seen[row]
      and staying(member, sender, row) and staying(sender, member, row) then
      self:complain("reliable: %s never got #%d of %s, sent after its table was lost", member.name,
        index, stream.key)
      return
    end
  end
end

function Oracle:check_oob(stream, member)
  local sender = self.members[stream.from]
  local got = member.got[stream.key] or { bodies = {} }
  local sent, seen = {}, {}
  local rows = expected(stream, member)
  for _, row in ipairs(rows) do sent[row.body] = true end
  for _, body in ipairs(got.bodies) do
    if not sent[body] or seen[body] then
      self:complain("oob: %s got %s of %s: %s", member.name,
        seen[body] and "a second time" or "what nobody sent", stream.key, label(body))
    end
    seen[body] = true
  end
  for _, row in ipairs(rows) do
    if not seen[row.body] and staying(member, sender, row) and staying(sender, member, row)
      and not not_given(got, row) then
      self:complain("oob: %s never got of %s: %s", member.name, stream.key, label(row.body))
      return
    end
  end
end

function Oracle:check_streams()
  for _, stream in ipairs(self.streams) do
    for _, member in ipairs(self.order) do
      if not stream.to or stream.to == member.address then
        local check = stream.losses and self.check_broken
          or stream.oob and self.check_oob or self.check_regular
        check(self, stream, member)
      end
    end
  end
  for _, member in ipairs(self.order) do
    for key in pairs(member.got) do
      if not self.streams[key] then
        self:complain("fifo: %s got of %s, in which nothing was sent", member.name, key)
      end
    end
  end
end

-- `alive`: addresses of those that are still there.
function Oracle:check_final_views(alive)
  local wanted = sorted(alive)
  for _, address in ipairs(alive) do
    local member = self.members[address]
    local view = member and view_of(member)
    if not view then
      self:complain("view: %s never had one", member and member.name or address)
    elseif sorted(view.addresses) ~= wanted then
      self:complain("view: %s ended in %s with %d members, not with the %d that are there",
        member.name, view.id, #view.addresses, #alive)
    end
  end
end

-- After everything is over: the list of what is wrong, empty when all promises were kept.
function Oracle:verdict(alive)
  self:check_final_views(alive)
  self:check_streams()
  return self.problems
end

return Oracle
