-- counters: members that add up what they get, which shows what came twice or never.
--
-- Each message is one increment of its sender; a member's state is the count of every sender, and
-- for those who may get messages again the last seqno that is in it.  Nothing is idempotent.
--
--     local c = counters.new { seed = 3, names = { "ann", "bob" } }
--     c:talk("ann", 100, "2ms"); c:join "cho"; c:get("cho", { timeout = "5s" }); c:check()

local neap = require "neap"
local seeds = require "support.seeds"

local counters = {}

local Counters = {}
Counters.__index = Counters

local function text_of(state)
  local rows = {}
  for from, row in pairs(state) do rows[#rows + 1] = ("%s=%d/%d"):format(from, row.n, row.last) end
  table.sort(rows)
  return table.concat(rows, " ")
end

local function state_of(text)
  local state = {}
  for from, n, last in text:gmatch "([^ =]+)=(%d+)/(%d+)" do
    state[from] = { n = tonumber(n), last = tonumber(last) }
  end
  return state
end

function counters.new(options)
  local c = setmetatable({ options = options, members = {}, states = {}, busy = 0, problems = {},
    replayed = 0, sent = {}, got = {}, aborts = 0 }, Counters)
  c.sim = neap.sim { seed = options.seed or 1, latency = options.latency or "1ms" }
  for _, name in ipairs(options.names or { "ann", "bob" }) do
    c:join(name)
    c.sim:run "2s"
  end
  c.sim:set(options.faults or {})
  return c
end

function Counters:problem(text, ...)
  self.problems[#self.problems + 1] = text:format(...)
end

-- Applies one message.  A replayed one counts only if it is not in the state that was taken.
function Counters:apply(name, msg)
  local row = self.states[name][msg.from] or { n = 0, last = 0 }
  self.states[name][msg.from] = row
  if msg.replayed then
    self.replayed = self.replayed + 1
    if msg.seqno <= row.last then return end
  elseif msg.seqno <= row.last then
    self:problem("%s got %s's %d and had got %d", name, msg.from, msg.seqno, row.last)
  end
  row.n, row.last = row.n + 1, msg.seqno
end

-- What is given: the state at once, or (options.waits) with pauses in which others apply.
function Counters:give(name, out)
  local options = self.options
  local filler = ("."):rep(options.filler or 0)
  if not options.waits then return text_of(self.states[name]) .. "|" .. filler end
  neap.sleep(options.waits)
  out:write(text_of(self.states[name]) .. "|")
  for at = 1, #filler, 50000 do
    out:write(filler:sub(at, at + 49999))
    neap.sleep(options.waits)
  end
end

function Counters:handlers(name)
  local chunks, before
  return {
    message = function(msg)
      local nap = self.options.naps and self.options.naps[name]
      if nap then neap.sleep(nap) end
      self:apply(name, msg)
    end,
    state_request = function(out) return self:give(name, out) end,
    state = {
      begin = function()
        chunks, before = {}, text_of(self.states[name])
      end,
      chunk = function(text) chunks[#chunks + 1] = text end,
      commit = function()
        if text_of(self.states[name]) ~= before then
          self:problem("%s got messages while a state was on its way", name)
        end
        local text = table.concat(chunks)
        if #text:match "|(%.*)$" ~= (self.options.filler or 0) then
          self:problem("%s got a mixed or cut state", name)
        end
        self.states[name] = state_of(text:match "^[^|]*")
        self.got[name] = (self.got[name] or 0) + 1
      end,
      abort = function()
        chunks = {}
        self.aborts = self.aborts + 1
      end,
    },
    trouble = self.options.trouble,
  }
end

function Counters:join(name, options)
  self.states[name] = {}
  self.members[name] = self.sim:join("count", {
    stack = (self.options.stacks or {})[name] or "spec/support/checked_state.lua", name = name,
    with = self.options.with,
    on = self:handlers(name) })
  if options and options.now then return self.members[name] end
end

-- Sends `count` increments with pauses; counts what was sent.
function Counters:talk(name, count, pause)
  self.busy = self.busy + 1
  self.sim:spawn(function()
    local channel = self.members[name]
    for i = 1, count do
      if not channel:is_open() then break end
      if channel:send(name .. i) then self.sent[name] = (self.sent[name] or 0) + 1 end
      neap.sleep(pause)
    end
    self.busy = self.busy - 1
  end)
end

-- The result of get_state lands in what comes back.
function Counters:get(name, options)
  local result = {}
  self.sim:spawn(function()
    result.ok, result.code, result.detail = self.members[name]:get_state(options)
    result.at = self.sim:now() / 1e6
    if result.ok then result.code, result.from = nil, result.code.from end
  end)
  return result
end

-- The network is kind again; then time passes, for a round of `stable` at least.
function Counters:calm(time)
  self.sim:set { loss = 0, duplicate = 0, reorder = 0, jitter = "0ms" }
  for _ = 1, 100 do
    self.sim:run "1s"
    if self.busy == 0 then break end
  end
  self.sim:run(time or "1min")
  self.sim:settle()
end

-- All who live have the same counts; nothing was amiss.
function Counters:check(names)
  for _, text in ipairs(self.sim:complaints()) do self:problem("%s", text) end
  if #self.problems > 0 then error(table.concat(self.problems, "\n"), 2) end
  local first
  for _, name in ipairs(names) do
    local text = text_of(self.states[name])
    first = first or text
    if text ~= first then
      error(("%s has %s\n%s has %s"):format(names[1], first, name, text), 2)
    end
  end
  return first
end

counters.each_seed = seeds.each
counters.text_of = text_of

return counters
