-- hash_story: a short run full of chance, in a process of its own; prints its hash.
--     luajit spec/support/hash_story.lua SEED

package.path = "./lua/?.lua;./lua/?/init.lua;./spec/?.lua;" .. package.path
package.cpath = (os.getenv "NEAP_LIB" or "./build/lib") .. "/?.so;" .. package.cpath

local neap = require "neap"

local sim = neap.sim {
  seed = tonumber(arg[1]), loss = 0.1, duplicate = 0.05, reorder = 0.1, jitter = "2ms",
}
local members = {}
for _, name in ipairs { "ann", "bob", "cho", "dee" } do
  local channel
  channel = sim:join("hash", { stack = "spec/support/basic.lua", name = name, on = {
    message = function(m)
      if #m.body % 7 == 3 then neap.sleep "3ms" end
      if #m.body % 11 == 5 then channel:send "an echo" end
    end,
  } })
  members[#members + 1] = channel
end
sim:run "3s"
for number, channel in ipairs(members) do
  sim:spawn(function()
    for n = 1, 60 do
      channel:send(("x"):rep(n * number))
      if n % 9 == 0 then neap.sleep(n .. "ms") end
    end
  end)
end
sim:run "200ms"
sim:pause "bob"
sim:run "200ms"
sim:resume "bob"
sim:kill "dee"
sim:run "10s"
print(sim:hash())
