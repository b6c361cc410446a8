-- real_talker: one member over real sockets, as a process of its own, that talks until a file is
-- there.
--
--     luajit spec/support/real_talker.lua name=ann cluster=c stop=/tmp/stop udp.group=... fd_all...
--
-- Sends a number each few milliseconds, each tenth synchronously, and prints as it goes:
--
--     view ann bob cho            decision bob suspected: silent for 1s
--     wrong ADDRESS 5 after 3     not the next
-- and at the end, of each life of each sender that it heard in this life of its own:
--     got ADDRESS 1 480           first and last number; every one between came, in order
--     promised ADDRESS 470 bob    the last synchronous send of this life that was fine; who left

local neap = require "neap"

local asked, with = { stack = "lan" }, {}
for _, word in ipairs(arg) do
  local key, value = word:match "^([^=]+)=(.*)$"
  local layer, attr = key:match "^([^.]+)%.(.+)$"
  if layer then
    with[layer] = with[layer] or {}
    with[layer][attr] = tonumber(value) or value
  else
    asked[key] = value
  end
end
io.stdout:setvbuf "line"

local order, first, last, promised = {}, {}, {}, nil

local function take(msg)
  local n, from = tonumber(msg.body), msg.from_address
  if not last[from] then
    order[#order + 1], first[from] = from, n
  elseif n ~= last[from] + 1 then
    print(("wrong %s %d after %d"):format(from, n, last[from]))
  end
  last[from] = n
end

local channel, here
local function view(v)
  if channel and channel.address ~= here then -- A new life.
    order, first, last, promised, here = {}, {}, {}, nil, channel.address
  end
  print("view " .. table.concat(v.members, " "))
end

local function stopped()
  local file = io.open(asked.stop)
  if file then file:close() end
  return file ~= nil
end

neap.run(function()
  local code, detail
  channel, code, detail = neap.join(asked.cluster, {
    stack = asked.stack, name = asked.name, with = with,
    on = {
      message = take, view = view,
      decision = function(d) print(("decision %s %s"):format(d.peer, d.text)) end,
    },
  })
  if not channel then return print("failed " .. code .. ": " .. tostring(detail)) end
  here = channel.address
  local n = 0
  local limit = neap.now() + 60e9 -- Whoever started it may be gone.
  while not stopped() and neap.now() < limit do
    n = n + 1
    local life = here
    local ok, info = channel:send(tostring(n), { rsvp = n % 10 == 0 and "delivery" or nil })
    if ok and n % 10 == 0 and life == here then
      promised = ("%s %d %s"):format(here, n, table.concat(info and info.left or {}, " "))
    end
    if not ok then n = n - 1 end
    neap.sleep "5ms"
  end
  channel:close()
  for _, from in ipairs(order) do print(("got %s %d %d"):format(from, first[from], last[from])) end
  if promised then print("promised " .. promised) end
  print "over"
end)
