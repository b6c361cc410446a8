-- Two members of a group find each other on this host, and one greets everybody.
--
--     neap run examples/01-hello.lua

local neap = require "neap"

local function member(name)
  local function hear(msg) print(("%s hears from %s: %s"):format(name, msg.from, msg.body)) end
  return assert(neap.join("hello", { stack = "lan", name = name, on = { message = hear } }))
end

neap.run(function()
  local ann, bob = member "ann", member "bob"
  print("view " .. bob:view().id .. ": " .. table.concat(bob:view().members, " "))

  -- Returns when every member's callback has returned.
  assert(ann:send("hello", { rsvp = "delivery", timeout = "2s" }))
  assert(bob:send("nice to meet you", { to = "ann", rsvp = true }))

  bob:leave()
  ann:leave()
end)
