-- words: what the prompt knows beyond Lua: members by name, time, faults, pictures, help.
--
-- One table for all of them: each row is a word, how it is written and what it does.  `help` prints
-- the rows, `help "drop"` one of them, and a word without its parentheses prints its own.

local help = require "neap.commands.help"
local keys = require "neap.keys"
local ladder = require "neap.ladder"
local mistake = require "neap.mistake"
local nearest = require "neap.nearest"

local words = {}

local SIMULATED = {
  { "run", "run \"30ms\"", "lets time pass" },
  { "settle", "settle()", "lets time pass until only heartbeats are left" },
  { "now", "now()", "the virtual time" },
  { "ladder", "ladder()", "the last packets as a picture; ladder(50), ladder(bob), "
    .. "ladder { layer = \"nakack\", background = true }" },
  { "pending", "pending()", "what is waited for: timers that are due, packets on their way" },
  { "loss", "loss(0.1)", "lose one packet in ten" },
  { "latency", "latency \"5ms\"", "how long a packet takes" },
  { "drop", "drop { layer = \"nakack\", seqno = 5, times = 1 }",
    "lose what fits: from, to, layer and its header's fields, body; gives the rule's number" },
  { "delay", "delay { to = \"bob\", by = \"30ms\" }", "the same, but it only comes later" },
  { "hits", "hits(1)", "how often rule 1 has hit" },
  { "clear", "clear(1)", "ends rule 1" },
  { "partition", "partition({ \"ann\" }, { \"bob\" })", "no packets between them; heal() ends it" },
  { "cut", "cut { from = \"ann\", to = \"bob\" }", "one way; heal() ends it" },
  { "heal", "heal()", "ends what partition and cut did" },
  { "pause", "pause \"bob\"", "bob stands still, and packets wait; resume \"bob\"" },
  { "resume", "resume \"bob\"", "bob goes on" },
  { "kill", "kill \"bob\"", "bob stops without a goodbye" },
  { "join", "join \"dee\"", "one more member" },
}

local COMMON = {
  { "members", "members()", "who is here, and what they believe" },
  { "view", "view(bob)", "the group as bob sees it" },
  { "stack", "stack(bob)", "the layers of bob, top first" },
  { "send", "ann:send(\"hello\")", "to all; { to = \"bob\" }, { rsvp = true, timeout = \"2s\" }" },
  { "get_state", "ann:get_state()", "takes the state of the group, with the stack state" },
  { "layer", "ann.nakack", "a layer's attributes, counters and operations" },
  { "set", "ann.stable.interval = \"5s\"", "change one while it runs" },
  { "set", "ann.stack:set { ... }", "several, all or nothing; { all = true }: at every member" },
  { "set", "ann.stack:undo()", "takes it back; ann.stack:journal() says who set what" },
  { "help", "help \"nakack\"",
    "a layer; \"stable.interval\": an attribute; \"view\": a promise; \"flush_sent\": a call" },
  { "quit", "quit()", "or ^D" },
}

-- Rows of this session, those of a simulation first.
local function rows_of(session)
  local rows = {}
  for _, row in ipairs(session.sim and SIMULATED or {}) do rows[#rows + 1] = row end
  for _, row in ipairs(COMMON) do rows[#rows + 1] = row end
  return rows
end

local function shown(rows)
  local columns = {}
  for index, row in ipairs(rows) do columns[index] = { row[2], row[3] } end
  return help.columns(columns)
end

function words.overview(session) return shown(rows_of(session)) end

local function rows_called(rows, word)
  local found = {}
  for _, row in ipairs(rows) do
    if row[1] == word then found[#found + 1] = row end
  end
  return found
end

-- A word's own lines, then what the tables say.
local function help_for(session, about)
  if about == nil then return words.overview(session) end
  if type(about) ~= "string" then mistake.raise("help takes a word: help \"nakack\"") end
  local rows = rows_called(rows_of(session), about)
  local text, problem = help.text(about)
  if #rows > 0 then return shown(rows) .. (text and "\n\n" .. text or "") end
  if text then return text end
  local names = {}
  for _, row in ipairs(rows_of(session)) do names[#names + 1] = row[1] end
  mistake.raise("%s%s", problem, problem:find "did you mean" and "" or nearest(about, names))
end

-- A word is called like a function; by itself it says how.
local function word(session, name, f)
  session.env[name] = setmetatable({}, {
    __call = function(_, ...) return f(...) end,
    __tostring = function() return shown(rows_called(rows_of(session), name)) end,
  })
end

-- Everybody: names, in the order of joining.
local function members(session)
  local list = {}
  for index, name in ipairs(session.order) do
    local member = session.members[name]
    local view = member:view()
    list[index] = { name = name, view = view and view.id or "none",
      members = view and table.concat(view.members, " ") or "",
      coordinator = view and view.coordinator or "" }
  end
  return list
end

local function common(session)
  local function given(member)
    if type(member) ~= "string" then return member or session.members[session.order[1]] end
    return session.members[member] or mistake.raise("nobody is called '%s'%s", member,
      nearest(member, session.order))
  end
  word(session, "members", function() return members(session) end)
  word(session, "view", function(member) return given(member):view() end)
  word(session, "stack", function(member) return given(member).stack:layers() end)
  word(session, "help", function(about) return help_for(session, about) end)
  word(session, "quit", function() session.over = true end)
  session.env.exit = session.env.quit
end

local function name_of(member)
  return type(member) == "table" and member.name or member
end

local LADDER = { "background", "last", "layer", "member" }
local LADDER_SET = keys.set(LADDER)

-- ladder(50), ladder "bob", ladder(bob), ladder { layer = "nakack" }
local function ladder_options(options)
  if type(options) == "number" then return { last = options } end
  if type(options) == "string" then return { member = options } end
  if type(options) ~= "table" then return nil end
  if options.stack then return { member = options.name } end
  local unknown = keys.unknown(options, LADDER_SET)
  if unknown ~= nil then
    mistake.raise("ladder has no option '%s'%s", tostring(unknown), nearest(unknown, LADDER))
  end
  options.member = name_of(options.member)
  return options
end

-- Words of a simulated session.  Time moves only by run and settle.
function words.simulated(session)
  local sim = session.sim
  common(session)
  session.env.sim = sim
  local function add(name, f) word(session, name, f) end
  add("run", function(time) return session.ask(function() sim:run(time) end) end)
  add("settle", function() return session.ask(function() sim:settle() end) end)
  add("now", function() return require("neap.quantity").time(sim:now()) end)
  add("loss", function(chance) return sim:set { loss = chance } end)
  add("latency", function(time) return sim:set { latency = time } end)
  add("drop", function(rule) return sim:drop(rule) end)
  add("delay", function(rule) return sim:delay(rule) end)
  add("hits", function(id) return sim:hits(id) end)
  add("clear", function(id) return sim:clear(id) end)
  add("partition", function(...) return sim:partition(...) end)
  add("cut", function(ends) return sim:cut(ends) end)
  add("heal", function() return sim:heal() end)
  add("pause", function(member) return sim:pause(name_of(member)) end)
  add("resume", function(member) return sim:resume(name_of(member)) end)
  add("kill", function(member) return sim:kill(name_of(member)) end)
  add("join", function(name)
    if type(name) ~= "string" then mistake.raise("join takes a name: join \"dee\"") end
    return session.join(name)
  end)
  add("pending", function()
    session.ask(function() sim:run(0) end) -- what is due now, such as a send
    return require("neap.core").sim_pending(sim.handle)
  end)
  add("ladder", function(options)
    return ladder.text(sim:log(), session.order, ladder_options(options))
  end)
end

-- Words of a member of a real group: time and network are not ours to move.
function words.live(session)
  common(session)
  for _, row in ipairs(SIMULATED) do
    session.env[row[1]] = function()
      mistake.raise("%s is for simulated members: neap repl without --live", row[1])
    end
  end
end

return words
