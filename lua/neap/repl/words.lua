-- words: what the prompt knows beyond Lua: members by name, time, faults, pictures, help.

local help = require "neap.commands.help"
local ladder = require "neap.ladder"
local mistake = require "neap.mistake"

local words = {}

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
  local env = session.env
  env.members = function() return members(session) end
  env.view = function(member) return (member or session.members[session.order[1]]):view() end
  env.stack = function(member)
    return (member or session.members[session.order[1]]).stack:layers()
  end
  env.help = function(word)
    if not word then return words.overview(session) end
    local text, problem = help.text(word)
    if not text then mistake.raise("%s", problem) end
    return text
  end
  env.quit = function() session.over = true end
end

local LIVE = {
  { "members()", "who is here, and what they believe" },
  { "ann:send(\"hello\")", "to all; { to = \"bob\" }, { rsvp = true }" },
  { "ann.nakack", "a layer's attributes and counters" },
  { "ann.stable.interval = \"5s\"", "change one while it runs; ann.stack:undo()" },
  { "ann.stack:set { ... }", "several, all or nothing" },
  { "help \"nakack\"", "a layer; help \"stable.interval\" an attribute; help \"rsvp\" a promise" },
  { "quit()", "or ^D" },
}

local SIMULATED = {
  { "run \"30ms\"", "lets time pass; settle() until only heartbeats are left" },
  { "ladder()", "the last packets as a picture; ladder(50), ladder { layer = \"nakack\" }" },
  { "loss(0.1)", "lose packets; latency \"5ms\"" },
  { "drop { layer = \"nakack\", seqno = 5, times = 1 }", "one message, by any field; to, from" },
  { "partition({ \"ann\" }, { \"bob\" })", "heal() ends it; cut { from =, to = } one way" },
  { "pause \"bob\"", "resume \"bob\", kill \"bob\"" },
  { "join \"dee\"", "one more member" },
}

function words.overview(session)
  local rows = {}
  if session.sim then
    for _, row in ipairs(SIMULATED) do rows[#rows + 1] = row end
  end
  for _, row in ipairs(LIVE) do rows[#rows + 1] = row end
  return help.columns(rows)
end

local function name_of(member)
  return type(member) == "table" and member.name or member
end

-- Words of a simulated session.  Time moves only by run and settle.
function words.simulated(session)
  local env, sim = session.env, session.sim
  common(session)
  env.sim = sim
  env.run = function(time) return session.ask(function() sim:run(time) end) end
  env.settle = function() return session.ask(function() sim:settle() end) end
  env.now = function() return require("neap.quantity").time(sim:now()) end
  env.loss = function(chance) return sim:set { loss = chance } end
  env.latency = function(time) return sim:set { latency = time } end
  env.drop = function(rule) return sim:drop(rule) end
  env.delay = function(rule) return sim:delay(rule) end
  env.clear = function(id) return sim:clear(id) end
  env.partition = function(...) return sim:partition(...) end
  env.cut = function(ends) return sim:cut(ends) end
  env.heal = function() return sim:heal() end
  env.pause = function(member) return sim:pause(name_of(member)) end
  env.resume = function(member) return sim:resume(name_of(member)) end
  env.kill = function(member) return sim:kill(name_of(member)) end
  env.join = function(name) return session.join(name) end
  env.ladder = function(options)
    if type(options) == "number" then options = { last = options } end
    if type(options) == "string" then options = { member = options } end
    if type(options) == "table" and options.stack then options = { member = options.name } end
    return ladder.text(sim:log(), session.order, options)
  end
end

function words.live(session)
  common(session)
end

return words
