-- state: from ann:get_state and the handlers "state" and "state_request" to C.
--
--     taker    BEGIN   what came before is waited for, then `begin`
--              PIECE   `chunk`, one after the other, each may wait; then C hears TOOK
--              WHOLE   `commit`, then C hears SET, and what was held comes
--              BROKEN  `abort`: forget what came; it begins again, or get_state returns
--     giver    ASKED   the digest is taken, and in the same breath the handler is called
--
-- A handler for "state" is a table of these four, or a function that gets the whole text at commit.

local C = require "neap.cdef"
local core = require "neap.core"
local ffi = require "ffi"
local keys = require "neap.keys"
local message = require "neap.message"
local mistake = require "neap.mistake"
local nearest = require "neap.nearest"
local quantity = require "neap.quantity"

local State = {}
State.__index = State

-- enum neap_state_word
local GET, DROP, TOOK, SET, BEGIN, PIECE, WHOLE, BROKEN, FAILED = 1, 2, 3, 4, 5, 6, 7, 8, 9
local ASKED, READ, WAS_READ, WRITE, DONE, REFUSE, ROOM, UNWANTED = 10, 11, 12, 13, 14, 15, 16, 17
local TIMEOUT, REFUSED = -1, -7 -- enum neap_code
local PARTS = { "begin", "chunk", "commit", "abort" }
local OPTIONS = { "from", "timeout", "progress" }
local KNOWN, KNOWN_PARTS = keys.set(OPTIONS), keys.set(PARTS)

function State.new(channel)
  local own = require("neap.channel").own
  return setmetatable({
    channel = channel, inside = channel[own], world = channel[own].world, tickets = 0,
    rows = {}, busy = false, -- what was told of a state, and not worked off yet
    word = ffi.new "struct neap_state_do",
  }, State)
end

-- A handler for "state" as it may be set.
function State.check_handler(handler)
  if type(handler) ~= "table" then return end
  local unknown = keys.unknown(handler, KNOWN_PARTS)
  if unknown ~= nil then
    mistake.raise("the handler for \"state\" has no '%s'%s", tostring(unknown),
      nearest(unknown, PARTS))
  end
  for _, name in ipairs(PARTS) do
    if handler[name] ~= nil and type(handler[name]) ~= "function" then
      mistake.raise("\"state\": %s is a function, not a %s", name, type(handler[name]))
    end
  end
end

-- Tells C; 0 or a negative code.
function State:tell(number, ticket, bytes, time, peer)
  if self.inside.closed then return REFUSED end
  local word = self.word
  word.ticket, word.peer, word.time = ticket, peer, time or 0
  word.bytes, word.len = bytes, bytes and #bytes or 0
  return C.neap_bind_state(self.inside.pointer, number, word)
end

-- ---- giving -------------------------------------------------------------------------------------

-- Writes one piece as soon as there is room for it; nil when nobody wants it any more.
local function write_piece(self, session, piece)
  while not session.stopped and session.written + #piece > session.room
    and session.written > session.taken do
    session.waiter = self.world:waiter()
    self.world:wait(session.waiter)
  end
  if session.stopped then return nil, "closed" end
  session.written = session.written + #piece
  self:tell(WRITE, session.ticket, piece, session.total)
  return true
end

local function write(self, session, text)
  local size = tonumber(self.channel.state_transfer.chunk_size.bytes)
  for at = 1, #text, size do
    local ok, code = write_piece(self, session, text:sub(at, at + size - 1))
    if not ok then return nil, code end
  end
  return true
end

local function out_of(self, session)
  local out = {}
  function out.write(_, chunk)
    if type(chunk) ~= "string" then
      mistake.raise("out:write takes a string, not a %s", type(chunk))
    end
    return write(self, session, chunk)
  end
  -- How many bytes it is going to be, for who shows progress.
  function out.size(_, bytes) session.total = bytes end
  return out
end

local function serve(self, session, handler)
  if core.state_digest(self.world.handle, self.inside.id, READ, session.ticket) < 0 then return end
  local ok, result = xpcall(handler, mistake.traceback, out_of(self, session))
  if self.inside.closed or session.stopped then return end
  if not ok then
    self.inside.receiving:report(result)
    self:tell(REFUSE, session.ticket, "its handler for the state failed")
    return
  end
  if result ~= nil and type(result) ~= "string" then
    self.inside.receiving:report(
      ("a handler for \"state_request\" returns a string, not a %s"):format(type(result)))
    self:tell(REFUSE, session.ticket, "its handler gave no state")
    return
  end
  core.state_digest(self.world.handle, self.inside.id, WAS_READ, session.ticket)
  if result then
    session.total = #result
    write(self, session, result)
  end
  if not session.stopped then self:tell(DONE, session.ticket) end
end

local function asked(self, note)
  local handler = self.inside.handlers.state_request
  if not handler then
    self:tell(REFUSE, note.ticket, "it has no handler for \"state_request\"")
    return
  end
  local window = self.channel.state_transfer.window.bytes
  local session = { ticket = note.ticket, written = 0, taken = 0, total = 0,
    room = tonumber(window), window = tonumber(window) }
  self.session = session
  self.world:start(serve, self, session, handler)
end

local function room(self, note)
  local session = self.session
  if not session or session.ticket ~= note.ticket then return end
  session.room = tonumber(note.time)
  session.taken = session.room - session.window
  if session.waiter then session.waiter.wake(true) end
end

local function unwanted(self, note)
  local session = self.session
  if not session or session.ticket ~= note.ticket then return end
  session.stopped = true
  if session.waiter then session.waiter.wake(true) end
end

-- ---- taking -------------------------------------------------------------------------------------

local function call(self, name, ...)
  local handler = self.inside.handlers.state
  local f = type(handler) == "table" and handler[name]
  if not f then return true end
  local ok, text = xpcall(f, mistake.traceback, ...)
  if not ok then self.inside.receiving:report(text) end
  return ok
end

local steps = {}

steps[BEGIN] = function(self, fetch, row)
  fetch.from, fetch.bytes, fetch.list = row.from, 0, {}
  if not self.inside.receiving:drained() then
    fetch.broken = "messages wait for a handler: set one before the state"
    self:tell(DROP, fetch.ticket)
    return
  end
  if fetch.over then return end -- Given up while callbacks were waited for.
  fetch.begun = call(self, "begin", row.from)
end

steps[PIECE] = function(self, fetch, row)
  fetch.bytes = fetch.bytes + #row.body
  if type(self.inside.handlers.state) == "function" then
    fetch.list[#fetch.list + 1] = row.body
  else
    call(self, "chunk", row.body, fetch.bytes, row.total)
  end
  if fetch.progress then fetch.progress(fetch.bytes, row.total) end
  self:tell(TOOK, fetch.ticket, nil, fetch.bytes)
end

steps[WHOLE] = function(self, fetch)
  local handler = self.inside.handlers.state
  if type(handler) == "function" then
    local text = table.concat(fetch.list)
    local ok, problem = xpcall(handler, mistake.traceback, text)
    if not ok then self.inside.receiving:report(problem) end
  else
    call(self, "commit")
  end
  self:tell(SET, fetch.ticket)
  self.fetch = nil
  fetch.waiter.wake(true, { from = fetch.from, bytes = fetch.bytes })
end

steps[BROKEN] = function(self, fetch, row)
  if fetch.begun then call(self, "abort", row.text) end
  fetch.begun, fetch.list = false, {}
end

steps[FAILED] = function(self, fetch, row)
  self.fetch = nil
  fetch.waiter.wake(nil, row.code, row.text)
end

-- What was told, in order, in a coroutine of its own: handlers may wait.  One for all of them: the
-- end of what was given up comes before the beginning of what was asked for after it.
local function work(self)
  while #self.rows > 0 do
    local row = table.remove(self.rows, 1)
    local useless = self.inside.closed or row.fetch.over and row.word ~= BROKEN
    if not useless then steps[row.word](self, row.fetch, row) end
  end
  self.busy = false
end

local function line_up(self, fetch, row)
  row.fetch = fetch
  if row.word == BROKEN then -- What was not looked at yet is of no use.
    for index = #self.rows, 1, -1 do
      local other = self.rows[index]
      if other.fetch == fetch and (other.word == BEGIN or other.word == PIECE) then
        table.remove(self.rows, index)
      end
    end
  end
  table.insert(self.rows, row)
  if self.busy then return end
  self.busy = true
  self.world:start(work, self)
end

local function told(self, note, word)
  local fetch = self.fetch
  if not fetch or fetch.ticket ~= note.ticket then return end
  local row = { word = word }
  fetch.whole = fetch.whole or word == WHOLE -- From here on it is not given up.
  if word == BEGIN then
    row.from = message.name(note.peer)
  elseif word == PIECE then
    row.body, row.total = ffi.string(note.msg.body, note.msg.len), tonumber(note.time)
  elseif word == BROKEN or word == FAILED then
    row.text = ffi.string(note.text)
    if note.code < 0 then row.code = ffi.string(C.neap_bind_code_text(note.code)) end
  end
  line_up(self, fetch, row)
end

local words = { [ASKED] = asked, [ROOM] = room, [UNWANTED] = unwanted }

function State:on_note(note)
  local word = tonumber(note.number)
  local f = words[word]
  if f then return f(self, note) end
  told(self, note, word)
end

-- The barrier below wants to know when callbacks are done with what they have.
function State:on_drain(number)
  self.world:start(function()
    local ok = self.inside.receiving:drained()
    if not self.inside.closed then
      C.neap_bind_drained(self.inside.pointer, number, ok and 0 or TIMEOUT)
    end
  end)
end

local function check_options(options)
  if type(options) ~= "table" then
    mistake.raise("the options of get_state are a table: { from = \"bob\", timeout = \"5s\" }")
  end
  local unknown = keys.unknown(options, KNOWN)
  if unknown ~= nil then
    mistake.raise("get_state has no option '%s'%s", tostring(unknown), nearest(unknown, OPTIONS))
  end
  if options.progress ~= nil and type(options.progress) ~= "function" then
    mistake.raise("progress is a function, not a %s", type(options.progress))
  end
end

-- Why this could not work, or nil.
local function hopeless(self)
  if self.inside.closed then return "closed" end
  if not self.channel.state_transfer then
    return "refused", "the stack has no layer that transfers state"
  end
  if not self.inside.handlers.state then
    return "refused", "there is no handler for it: set one with on(\"state\", f)"
  end
  if self.inside.receiving:current() then
    return "refused", "would wait for its own callback; use neap.spawn"
  end
  if self.fetch then return "refused", "a state is on its way already" end
end

-- True and { from =, bytes = }, or nil, code, detail.
function State:get(options)
  options = options or {}
  check_options(options)
  local code, detail = hopeless(self)
  if code then return nil, code, detail end
  self.world:must_wait "get_state"
  local peer
  if options.from ~= nil then
    peer, code, detail = self.inside.sending:peer(options.from)
    if not peer then return nil, code, detail end
    if peer.self then return true, { from = self.channel.name, bytes = 0 } end
  end
  if not self.inside.view then return nil, "not joined" end
  if not peer and #self.inside.view.members == 1 then return true, { bytes = 0 } end
  self.tickets = self.tickets + 1
  local fetch = { ticket = self.tickets, list = {}, bytes = 0,
    progress = options.progress, waiter = self.world:waiter() }
  self.fetch = fetch
  self:tell(GET, fetch.ticket, nil, 0, peer)
  local limit = options.timeout ~= nil and tonumber(quantity.ns(options.timeout)) or nil
  return self:finish(fetch, limit)
end

-- Waits for the end; what is late is given up, unless the state is being set already.
function State:finish(fetch, limit)
  local result = { self.world:wait(fetch.waiter, limit) }
  if result[2] == "timeout" and fetch.whole and self.fetch == fetch then
    fetch.waiter = self.world:waiter()
    result = { self.world:wait(fetch.waiter) }
  end
  if self.fetch == fetch then
    self:tell(DROP, fetch.ticket)
    self.fetch, fetch.over = nil, true
    if fetch.begun then line_up(self, fetch, { word = BROKEN, text = "it took too long" }) end
  end
  if fetch.broken then return nil, "refused", fetch.broken end
  return result[1], result[2], result[3]
end

-- How far each member's multicasts are applied here, by name (by address where there is none, or
-- another of that name); nil: no layer knows.
function State:applied()
  if self.inside.closed then return nil, "closed" end
  local rows = core.applied(self.world.handle, self.inside.id)
  if not rows then return nil, "refused", "the stack has no layer that gives digests" end
  local positions = {}
  for at = 1, #rows, 3 do
    local name = rows[at + 1]
    positions[(name == "" or positions[name]) and rows[at] or name] = rows[at + 2]
  end
  return positions
end

-- The stack is gone: nobody waits any longer.
function State:reset(code, detail)
  local fetch, session = self.fetch, self.session
  self.fetch, self.session = nil, nil
  if session then
    session.stopped = true
    if session.waiter then session.waiter.wake(true) end
  end
  if fetch then
    fetch.over = true
    if fetch.begun then line_up(self, fetch, { word = BROKEN, text = code }) end
    fetch.waiter.wake(nil, code, detail)
  end
end

return State
