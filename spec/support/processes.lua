-- processes: members as processes of their own, for specs over real sockets.

local processes = {}

local LIB = os.getenv "NEAP_LIB" or "./build/lib"

-- How a member is started; `where`: the name of a network namespace.
local function command(member, where)
  local words = {}
  for key, value in pairs(member) do words[#words + 1] = ("%s=%s"):format(key, value) end
  table.sort(words)
  for n, word in ipairs(words) do words[n] = "'" .. word .. "'" end
  local paths = 'package.path="./lua/?.lua;./lua/?/init.lua;"..package.path '
    .. ('package.cpath="%s/?.so;"..package.cpath'):format(LIB)
  return ("%s timeout 60 luajit -e '%s' spec/support/real_member.lua %s"):format(
    where and "ip netns exec " .. where or "", paths, table.concat(words, " "))
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
