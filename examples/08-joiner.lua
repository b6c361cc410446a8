-- A joiner takes two megabytes of state over a slow network and shows how far it is, while the
-- others count on.  What they counted meanwhile comes after the state, once.
--
--     neap run examples/08-joiner.lua

local neap = require "neap"

local sim = neap.sim { seed = 8, latency = "5ms" }
local count = { ann = 0, bob = 0 }
local archive = ("lines of the past "):rep(120000) -- what makes the state large

local function join(name, on)
  on.message = function() count[name] = count[name] + 1 end
  local member = sim:join("counters", { stack = "state", name = name, on = on })
  sim:run "3s"
  return member
end

local ann = join("ann", {
  state_request = function() return count.ann .. "\n" .. archive end,
})
join("bob", {})
sim:spawn(function()
  for _ = 1, 1500 do
    ann:send "one more"
    neap.sleep "5ms"
  end
end)
sim:run "1s"

sim:set { capacity = "1MB" } -- a second
local parts
count.cho = 0
local cho = join("cho", {
  state = {
    begin = function(from)
      parts = {}
      print("the state comes from " .. from)
    end,
    chunk = function(text) parts[#parts + 1] = text end,
    commit = function() count.cho = tonumber(table.concat(parts):match "^%d+") end,
  },
})

local shown = 0
sim:spawn(function()
  local ok, how = cho:get_state { timeout = "30s", progress = function(done, total)
    local tenths = math.floor(done / total * 10)
    if tenths == shown then return end
    shown = tenths
    print(("[%-10s] %3d %%  ann has counted %d"):format(("#"):rep(tenths), tenths * 10, count.ann))
  end }
  print(("done: %s, %d bytes; the state said %d, ann is at %d"):format(tostring(ok), how.bytes,
    count.cho, count.ann))
end)
sim:run "20s"
print(("in the end: ann %d, cho %d"):format(count.ann, count.cho))
