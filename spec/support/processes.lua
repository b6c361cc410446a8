-- processes: members as processes of their own, for specs over real sockets.

local processes = {}

local LIB = os.getenv "NEAP_LIB" or "./build/lib"

-- How a member is started; `where`: the name of a network namespace.
local function command(member, where, file)
  local words = {}
  for key, value in pairs(member) do words[#words + 1] = ("%s=%s"):format(key, value) end
  table.sort(words)
  for n, word in ipairs(words) do words[n] = "'" .. word .. "'" end
  local paths = 'package.path="./lua/?.lua;./lua/?/init.lua;"..package.path '
    .. ('package.cpath="%s/?.so;"..package.cpath'):format(LIB)
  return ("%s timeout 60 luajit -e '%s' spec/support/%s.lua %s"):format(
    where and "ip netns exec " .. where or "", paths, file or "real_member",
    table.concat(words, " "))
end

-- Runs all at once and returns, by name, what each printed: { got = { ann = row }, attr = {...} }.
-- members: a list of tables of words for spec/support/real_member.lua; `where` stands in `ns`.
function processes.run(members)
  local parts = {}
  for _, member in ipairs(members) do
    local words, where = {}, member.ns
    for key, value in pairs(member) do
      if key ~= "ns" then words[key] = value end
    end
    parts[#parts + 1] =
      ("{ %s 2>&1 | sed 's/^/%s: /'; } &"):format(command(words, where), member.name)
  end
  local pipe = assert(io.popen(table.concat(parts, "\n") .. "\nwait"))
  local told, text = {}, {}
  for _, member in ipairs(members) do told[member.name] = { got = {}, attr = {} } end
  for line in pipe:lines() do
    text[#text + 1] = line
    local name, rest = line:match "^(%w+): (.*)$"
    local from, m, u, w = rest:match "^got (%S+) multicasts (%d+) unicasts (%d+) wrong (%d+)"
    local attr, value = rest:match "^attr (%S+) (%S+)"
    if from then
      told[name].got[from] =
        { multicasts = tonumber(m), unicasts = tonumber(u), wrong = tonumber(w) }
    elseif attr then
      told[name].attr[attr] = tonumber(value) or value
    elseif rest:match "^failed " then
      told[name].failed = rest
    end
  end
  pipe:close()
  told.text = table.concat(text, "\n")
  return told
end

-- ---- those that are watched while they run ----

local Crowd = {}
Crowd.__index = Crowd

-- Members that talk (spec/support/real_talker.lua) until crowd:stop; `words` are for all of them.
function processes.crowd(words)
  local crowd = setmetatable({ words = words, folder = os.tmpname(), pids = {} }, Crowd)
  os.remove(crowd.folder)
  assert(os.execute("mkdir " .. crowd.folder))
  words.stop = crowd.folder .. "/stop"
  return crowd
end

-- `where`: the name of a network namespace.
function Crowd:start(name, where)
  local member = { name = name }
  for key, value in pairs(self.words) do member[key] = value end
  local line = command(member, where, "real_talker")
  line = line:gsub("timeout 60", where and "" or "exec", 1) -- So that its id is the member's own.
  local pipe = io.popen(("%s > %s/%s 2>&1 & echo $!"):format(line, self.folder, name))
  self.pids[name] = pipe:read "*n"
  pipe:close()
end

function Crowd:signal(name, signal)
  processes.shell(("kill -%s %d"):format(signal, self.pids[name]))
end

-- What it has printed until now.
function Crowd:text(name)
  local file = io.open(self.folder .. "/" .. name)
  if not file then return "" end -- Its shell has not opened it yet.
  local text = file:read "*a"
  file:close()
  return text
end

-- The members of the last view it saw, in the order of the alphabet; "" before the first.
function Crowd:view(name)
  local list = {}
  for word in (self:text(name):match ".*view ([^\n]*)\n" or ""):gmatch "%S+" do
    list[#list + 1] = word
  end
  table.sort(list)
  return table.concat(list, " ")
end

-- Looks until `true_now()`, for at most so many seconds.
function Crowd:await(seconds, true_now, what)
  for _ = 1, seconds * 20 do
    if true_now() then return end
    processes.shell "sleep 0.05"
  end
  local all = {}
  for name in pairs(self.pids) do all[#all + 1] = name .. ":\n" .. self:text(name) end
  error(("%s within %d s\n%s"):format(what, seconds, table.concat(all, "\n")), 2)
end

-- All of these see these, and nobody else.
function Crowd:agree(seconds, names)
  table.sort(names)
  local list = table.concat(names, " ")
  self:await(seconds, function()
    for _, name in ipairs(names) do
      if self:view(name) ~= list then return false end
    end
    return true
  end, "no view of " .. list)
end

-- Ends all; returns by name { text =, wrong = (count), got = { address = { first, last } },
-- promised = { address =, n =, left = } } of those that lived until then.
function Crowd:stop(names)
  io.open(self.words.stop, "w"):close()
  self:await(5, function()
    for _, name in ipairs(names) do
      if not self:text(name):find "over\n$" then return false end
    end
    return true
  end, "not over")
  local told = {}
  for _, name in ipairs(names) do
    local row = { text = self:text(name), got = {}, wrong = 0 }
    for _ in row.text:gmatch "wrong " do row.wrong = row.wrong + 1 end
    for from, first, last in row.text:gmatch "got (%S+) (%d+) (%d+)" do
      row.got[from] = { tonumber(first), tonumber(last) }
    end
    local from, n, left = row.text:match "promised (%S+) (%d+) ([^\n]*)"
    if from then row.promised = { address = from, n = tonumber(n), left = left } end
    told[name] = row
  end
  return told
end

-- Whatever happened: nobody is left, and nothing.
function Crowd:close()
  for name in pairs(self.pids) do self:signal(name, "CONT") end
  for name in pairs(self.pids) do self:signal(name, "KILL") end
  os.execute("rm -r " .. self.folder)
end

-- Runs a shell command; true if it succeeded.
function processes.shell(line)
  local result = os.execute(line .. " >/dev/null 2>&1")
  return result == true or result == 0
end

-- Why there can be no namespaces here; nil if there can.
function processes.no_namespaces()
  if not processes.shell "command -v ip" then return "there is no ip command" end
  local made = processes.shell "ip netns add neap-probe"
  local works = made and processes.shell "ip -n neap-probe link set lo up"
  processes.shell "ip netns del neap-probe"
  if not made then return "ip netns is not permitted" end
  -- In a changed root, for instance, one can be made and not entered.
  if not works then return "network namespaces cannot be entered here" end
end

return processes
