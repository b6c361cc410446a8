-- real_member: one member of a group over real sockets, as a process of its own.
--
--     luajit spec/support/real_member.lua name=ann members=3 multicasts=1000 unicasts=10 size=100
--       stack=lan time=10 udp.offload=off ...
--
-- Joins, waits for the others, sends, and waits until everything of everybody has come or the time
-- is over.  Words with a dot are attributes.  Prints rows that spec/support/processes.lua reads:
--
--     got ann multicasts 1000 unicasts 10 wrong 0
--     attr udp.packets_sent 42

local keys = require "neap.keys"
local neap = require "neap"
local quantity = require "neap.quantity"

local asked, with = {
  name = "ann", members = 2, multicasts = 0, unicasts = 0, size = 20, stack = "lan", time = 20,
  cluster = "processes", show = "udp",
}, {}
for _, word in ipairs(arg) do
  local key, value = word:match "^([^=]+)=(.*)$"
  local layer, attr = key:match "^([^.]+)%.(.+)$"
  if layer then
    with[layer] = with[layer] or {}
    with[layer][attr] = tonumber(value) or value
  else
    asked[key] = tonumber(value) or value
  end
end

local got = {}
local function row_of(name)
  got[name] = got[name] or { multicasts = 0, unicasts = 0, wrong = 0 }
  return got[name]
end

-- The n-th message of a kind says so, and the next must be the n+1-th.
local function body_of(kind, n)
  local text = kind .. " " .. n .. " "
  return text .. ("."):rep(asked.size - #text)
end

local done = {}

local function take(msg)
  if msg.body == "done" then
    done[msg.from] = true
    return
  end
  local row = row_of(msg.from)
  local kind, n = msg.body:match "^(%a+) (%d+) "
  row[kind] = row[kind] + 1
  if tonumber(n) ~= row[kind] or #msg.body < asked.size then row.wrong = row.wrong + 1 end
end

local function complete(names)
  for _, name in ipairs(names) do
    local row = row_of(name)
    local unicasts = name == asked.name and 0 or asked.unicasts
    if row.multicasts < asked.multicasts or row.unicasts < unicasts then return false end
  end
  return true
end

-- Who is still here has everything, too: nobody leaves whose messages are wanted.
local function all_done(channel)
  for _, name in ipairs(channel:view().members) do
    if not done[name] then return false end
  end
  return true
end

local function report(channel, names)
  for _, name in ipairs(names) do
    local row = row_of(name)
    print(("got %s multicasts %d unicasts %d wrong %d"):format(name, row.multicasts, row.unicasts,
      row.wrong))
  end
  local metrics = channel.stack:metrics()
  for layer in asked.show:gmatch "[^,]+" do
    for _, attr in ipairs(keys.sorted(metrics[layer])) do
      local value = metrics[layer][attr]
      if quantity.is(value) then value = value.bytes or value.ns end
      print(("attr %s.%s %s"):format(layer, attr, tostring(value)))
    end
  end
end

neap.run(function()
  local channel, code, detail = neap.join(asked.cluster,
    { stack = asked.stack, name = asked.name, with = with, on = { message = take } })
  if not channel then
    print("failed " .. code .. ": " .. tostring(detail))
    return
  end
  local limit = neap.now() + asked.time * 1e9
  while #channel:view().members < asked.members and neap.now() < limit do neap.sleep "10ms" end
  local names = channel:view().members
  for n = 1, asked.multicasts do assert(channel:send(body_of("multicasts", n))) end
  for n = 1, asked.unicasts do
    for _, name in ipairs(names) do
      if name ~= asked.name then assert(channel:send(body_of("unicasts", n), { to = name })) end
    end
  end
  while not complete(names) and neap.now() < limit do neap.sleep "10ms" end
  channel:send "done"
  while not all_done(channel) and neap.now() < limit do neap.sleep "10ms" end
  report(channel, names)
  channel:leave()
  channel:close()
end)
