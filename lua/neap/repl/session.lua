-- session: reads chunks, runs them, prints what comes out.
--
-- A chunk runs in a coroutine of the world, so it may call what waits.  Words that move simulated
-- time cannot run inside that coroutine: they hand a request to the session (session.ask), which
-- does it outside and resumes the chunk.
--
--     chunk --ask--> session: sim:run --> chunk goes on        chunk waits --> prompt, it goes on
--                                                               when time does

local complete = require "neap.repl.complete"
local core = require "neap.core"
local mistake = require "neap.mistake"
local nearest = require "neap.nearest"
local show = require "neap.repl.show"

local session = {}

-- An expression, or a statement; nil and the problem, or nil, "more" when it is not finished.
local function compile(text, env)
  local chunk, as_value = loadstring("return " .. text, "=prompt")
  local problem
  if not chunk then chunk, problem = loadstring(text, "=prompt") end
  if not chunk and as_value:find "'<eof>'" then problem = as_value end
  if chunk then
    jit.off(chunk, true) -- ^C works by a hook, and compiled code looks at none.
    return setfenv(chunk, env)
  end
  if problem:find "'<eof>'" then return nil, "more" end
  return nil, problem
end
session.compile = compile

-- Globals of the prompt: its own words first, then Lua's; what is unknown is answered.
function session.env(words_of)
  local env = {}
  return setmetatable(env, { __index = function(_, key)
    local value = rawget(_G, key)
    if value ~= nil then return value end
    local known = words_of()
    for name in pairs(env) do known[#known + 1] = name end -- any order: only compared
    table.sort(known)
    local close = nearest(tostring(key), known)
    if close ~= "" then mistake.raise("nothing is called '%s'%s", tostring(key), close) end
    return nil
  end })
end

local function pack(...) return { n = select("#", ...), ... } end

-- What may have been meant by a name that nobody knows; "" for one that is known elsewhere.
local function near(self, name)
  local close = nearest(name, complete.known(self))
  return close:match "'(.*)'" == name and "" or close
end

-- A problem as it is read at a prompt: the place says nothing when the chunk is one line.
local function problem_text(self, text, problem)
  problem = tostring(problem):gsub("^%?: ", "")
  if not text:find "\n" then problem = problem:gsub("^prompt:1: ", "") end
  local name = problem:match "^attempt to %a+ %a+ '([%w_]+)' %(a nil value%)$"
  return problem .. (name and near(self, name) or "")
end

local function told(self, text, outcome)
  if not outcome[1] then
    self.print(problem_text(self, text, outcome[2]))
  elseif outcome.n == 2 and outcome[2] == nil and text:match "^[%w_.]+%.[%w_]+$" then
    self.print("nil" .. near(self, text:match "([%w_]+)$"))
  elseif outcome.n > 1 then
    local values = { n = outcome.n - 1 }
    while values.n > 1 and outcome[values.n + 1] == nil do values.n = values.n - 1 end
    for index = 1, values.n do values[index] = outcome[index + 1] end
    self.print(show.values(values))
  end
end

-- What came out; a value that cannot be shown is a failure of the chunk, not of the prompt.
local function report(self, text, outcome)
  local ok, problem = pcall(told, self, text, outcome)
  self.failed = not (ok and outcome[1])
  if not ok then self.print(problem_text(self, text, problem)) end
end

-- Runs a chunk to its end, or until it waits for something that needs time; what comes out of it
-- then is printed when it comes.
local function execute(self, text, chunk)
  local outcome, late
  local co = coroutine.create(function()
    outcome = pack(xpcall(chunk, function(problem)
      return type(problem) == "string" and problem or mistake.traceback(problem)
    end))
    if late then report(self, text, outcome) end
  end)
  self.world:resume(co)
  while not outcome and self.request do
    local request = self.request
    self.request = nil
    local ok, problem = pcall(request)
    self.failure = not ok and problem or nil
    self.world:resume(co)
  end
  if not outcome and self.still then self.still() end
  late = true
  return outcome
end

-- Words that everybody tries without parentheses.
local BARE = { help = "help()", quit = "quit()", exit = "quit()" }

function session.run(self, text)
  local chunk, problem = compile(BARE[text:match "^%s*(%a+)%s*$"] or text, self.env)
  if not chunk then
    if problem == "more" then return "more" end
    self.print(problem_text(self, text, problem))
    self.failed = true
    return "done"
  end
  self.failed = false
  local ok, outcome = core.line_guard(execute, self, text, chunk)
  if not ok then
    self.print(tostring(outcome))
  elseif outcome then
    report(self, text, outcome)
  elseif self.sim then
    self.print "(it waits, and goes on when time does)"
  else
    self.print "(it waits; what comes of it is printed when it comes)"
  end
  return "done"
end

-- For words that move time: does f outside of the chunk's coroutine.
function session.asker(self)
  return function(f)
    if coroutine.running() and not self.driving then
      self.request = function()
        self.driving = true
        local ok, problem = pcall(f)
        self.driving = false
        if not ok then error(problem, 0) end
      end
      coroutine.yield()
      local failure = self.failure
      self.failure = nil
      if failure then error(failure, 0) end
      return
    end
    f()
  end
end

return session
