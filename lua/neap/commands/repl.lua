-- neap repl [STACK] [--nodes ann,bob,cho] [--seed N] [--loss P]     simulated members
-- neap repl [STACK] --live [--name ann] [--group chat]              a member of a real group
--
-- Simulated: time stands still until told to run.  Live: the group goes on while the prompt waits.

local complete = require "neap.repl.complete"
local core = require "neap.core"
local session = require "neap.repl.session"
local words = require "neap.repl.words"

local repl = {}

local JOIN_TIME = 10e9 -- so long lines from a pipe wait for the first view
local LOG = 4000 -- packets that ladder() can look back on

local function options_of(args)
  local options, index = { stack = "lan", nodes = "ann,bob,cho", group = "chat" }, 1
  local takes = { nodes = true, seed = true, loss = true, name = true, group = true }
  while index <= #args do
    local word = args[index]:match "^%-%-(%w+)$"
    if word == "live" then
      options.live = true
    elseif word and takes[word] and args[index + 1] then
      options[word] = args[index + 1]
      index = index + 1
    elseif word and takes[word] then
      return nil, ("--%s is followed by its value"):format(word)
    elseif args[index]:sub(1, 1) == "-" then
      return nil, ("no option %s; see neap help repl"):format(args[index])
    else
      options.stack = args[index]
    end
    index = index + 1
  end
  for _, word in ipairs { "seed", "loss" } do
    if options[word] and not tonumber(options[word]) then
      return nil, ("--%s is a number, not %s"):format(word, options[word])
    end
  end
  return options
end

local function history_file()
  local home = os.getenv "XDG_STATE_HOME" or os.getenv "HOME"
  return home and home .. "/.neap_history"
end

local function new_session(world)
  local self = { members = {}, order = {}, world = world }
  self.names = function() return { unpack(self.order) } end
  self.env = session.env(self.names)
  self.env.neap = require "neap"
  self.ask = session.asker(self)
  self.print = function(text) core.line_above(text .. "\n") end
  self.env.print = function(...)
    local parts = {}
    for index = 1, select("#", ...) do parts[index] = tostring((select(index, ...))) end
    self.print(table.concat(parts, "\t"))
  end
  return self
end

-- What a member hears is shown above the line.
local function handlers(self, name)
  local show = require "neap.repl.show"
  return {
    message = function(msg)
      self.print(("%s < %s: %s"):format(name, msg.from, show.value(msg.body)))
    end,
    view = function(view)
      self.print(("%s   view %s { %s }"):format(name, view.id, table.concat(view.members, " ")))
    end,
    trouble = function(trouble) self.print(("%s   trouble: %s"):format(name, trouble.text)) end,
  }
end

local function add(self, name, channel)
  self.members[name], self.env[name] = channel, channel
  self.order[#self.order + 1] = name
end

-- ---- reading ------------------------------------------------------------------------------------

-- Chunks from a terminal: yields whole ones to `take`.
local function terminal(self, wait)
  local history, text = history_file(), nil
  if history then core.line_history(history) end
  while not self.over do
    core.line_start(text and "  ..> " or "neap> ")
    local line
    repeat
      if not wait() then line = false else
        line = core.line_feed(function(word, whole) return complete.words(self, word, whole) end)
      end
    until line ~= nil
    if line == false then
      core.line_stop()
      self.print "" -- The shell's prompt begins a line of its own.
      break
    end
    if line == true then -- ^C: the line, and what it would have ended, are given up.
      core.line_stop()
      self.print ""
      text = nil
    else
      if history and line ~= "" then core.line_history(history, line) end
      text = text and text .. "\n" .. line or line
      if text:match "^%s*$" or session.run(self, text) == "done" then text = nil end
    end
  end
end

-- Lines from a pipe or a file: no prompt, no echo; 1 if one of them failed.
local function piped(self, wait)
  local text, bytes, failed = nil, "", 0
  while not self.over do
    local line, rest = bytes:match "^([^\n]*)\n(.*)$"
    if line then
      bytes = rest
      text = text and text .. "\n" .. line or line
      if text:match "^%s*$" then
        text = nil
      elseif session.run(self, text) == "done" then
        text = nil
        if self.failed then failed = 1 end
      end
    else
      local more = wait() and core.line_read(0)
      if not more and bytes == "" then break end
      bytes = bytes .. (more or "\n") -- The last line need not end.
    end
  end
  if text then
    self.print "the input ended in the middle of a chunk"
    failed = 1
  end
  return failed
end

local function read(self, wait)
  if core.line_terminal(0) then
    terminal(self, wait)
    return 0
  end
  return piped(self, wait)
end

-- ---- the two kinds ------------------------------------------------------------------------------

local function all_together(self)
  for _, name in ipairs(self.order) do
    local view = self.members[name]:view()
    if not view or #view.members ~= #self.order then return false end
  end
  return true
end

local function simulated(options)
  local neap = require "neap"
  local sim = neap.sim { seed = tonumber(options.seed or 1), latency = "1ms", log = LOG }
  local self = new_session(sim.world)
  self.sim = sim
  self.still = function() sim:run(0) end
  self.join = function(name)
    local channel, code, detail = sim:join(options.group, { stack = options.stack, name = name,
      on = handlers(self, name) })
    if channel then add(self, channel.name, channel) end
    return channel, code, detail
  end
  words.simulated(self)
  for name in options.nodes:gmatch "[^,%s]+" do
    local channel, code, detail = self.join(name)
    if not channel then
      io.stderr:write(("neap repl: %s: %s\n"):format(code, tostring(detail)))
      sim:close()
      return 1
    end
    channel:on("view", function() end)
  end
  if #self.order == 0 then
    io.stderr:write "neap repl: --nodes is followed by names: --nodes ann,bob\n"
    sim:close()
    return 2
  end
  for _ = 1, 300 do -- 30 s of virtual time at most: a stack need not have views.
    if all_together(self) then break end
    sim:run "100ms"
  end
  for _, name in ipairs(self.order) do
    self.members[name]:on("view", handlers(self, name).view)
  end
  if options.loss then sim:set { loss = tonumber(options.loss) } end
  local first = self.members[self.order[1]]:view()
  if core.line_terminal(0) then
    self.print(("%s: %s in view %s, simulated with seed %d.  Time stands still at %s; "
      .. "run \"30ms\" lets it pass.  help() tells more."):format(options.stack,
      table.concat(self.order, " "), first and first.id or "none", sim.seed,
      tostring(self.env.now())))
  end
  local code = read(self, function() return true end)
  sim:close()
  return code
end

local function live(options)
  local neap = require "neap"
  local world = require("neap.real").new()
  local self = new_session(world)
  words.live(self)
  neap.prompt_world = world
  local name = options.name or "me"
  local channel, code, detail = require("neap.channel").open(world, options.group,
    { stack = options.stack, name = name, on = handlers(self, name) })
  if not channel then
    io.stderr:write(("neap repl: %s: %s\n"):format(code, tostring(detail)))
    return 1
  end
  add(self, name, channel)
  if core.line_terminal(0) then
    self.print(("%s: %s joins %s.  The group goes on while you type.  help() tells more.")
      :format(options.stack, name, options.group))
  else
    world:drive(world:now() + JOIN_TIME, false, function()
      return channel:view() ~= nil or not channel:is_open()
    end)
  end
  local watch = core.line_watch(world.handle)
  local breaks = core.line_terminal(0) and core.line_watch(world.handle, true)
  -- A file has no readiness: it can always be read, and the group has its turn between lines.
  local result = read(self, function()
    if watch then
      world:drive(math.huge, false, core.line_input)
    else
      world:drive(world:now())
    end
    return true
  end)
  if watch then core.line_unwatch(watch) end
  if breaks then core.line_unwatch(breaks) end
  channel:leave { wait = false }
  world:drive(math.huge, false, function() return world.open == 0 end)
  world:finish()
  return result
end

function repl.main(args)
  local options, problem = options_of(args)
  if not options then
    io.stderr:write("neap repl: ", problem, "\n")
    return 2
  end
  return (options.live and live or simulated)(options)
end

return repl
