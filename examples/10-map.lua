-- A replicated map: three members write prices, a fourth comes later and has them all, and a write
-- that waits returns when everybody has it.
--
--     neap run examples/10-map.lua

local neap = require "neap"

local sim = neap.sim { seed = 7, latency = "1ms", loss = 0.05 }
local maps = {}

local function join(name)
  sim:spawn(function()
    maps[name] = assert(neap.map("prices", { stack = "state", name = name }))
  end)
  sim:run "5s"
end

local function show(name)
  local rows = {}
  for key, value in maps[name]:each() do rows[#rows + 1] = key .. " " .. value end
  print(("%s has: %s"):format(name, table.concat(rows, ", ")))
end

for _, name in ipairs { "ann", "bob", "cho" } do join(name) end

maps.bob:watch(function(key, value, before)
  print(("bob sees: %s %s -> %s"):format(key, before or "nothing", value or "nothing"))
end)

maps.ann:put("tea", "3")
maps.cho:put("rum", "9")
sim:run "1s"
maps.ann:put("tea", "4") -- Two at once: one of them wins, everywhere the same.
maps.cho:put("tea", "5")
maps.bob:remove "rum"
sim:run "1s"

join "dee"
show "ann"
show "dee"
print("the same: " .. tostring(maps.ann:get "tea" == maps.dee:get "tea"))

sim:spawn(function()
  local start = neap.now()
  maps.dee:put("gin", "12", { rsvp = "delivery" })
  print(("everybody has dee's gin for %s, after %.0f ms"):format(
    maps.bob:get "gin", (neap.now() - start) / 1e6))
end)
sim:run "5s"
