-- Four layers break things on purpose.  Below the layers that repair, nobody notices; above them
-- the application does, and the stack file says what no longer holds.
--
--     neap run examples/09-broken-on-purpose.lua

local neap = require "neap"

-- lan with one more layer before `place`.
local function broken(place, what)
  return neap.stack(function(s)
    return s.extend("lan", { "Something breaks.", s.before(place, what(s)) })
  end)
end

local ways = {
  { "drop", function(s) return s.drop { when = 'body="3" way=up times=1' } end },
  { "dupl", function(s) return s.dupl { up = 1, when = 'body="3"' } end },
  { "delay", function(s) return s.delay { up = "20ms", ordered = false, when = 'body="3"' } end },
  { "shuffle", function(s) return s.shuffle { up = 4 } end },
}

local function story(place, what)
  local sim = neap.sim { seed = 3, latency = "1ms" }
  local got, members = {}, {}
  for _, name in ipairs { "ann", "bob" } do
    members[name] = sim:join("group", { stack = broken(place, what), name = name })
  end
  members.bob:on("message", function(msg) table.insert(got, msg.body) end)
  members.ann:on("message", function() end)
  sim:run "5s"
  for n = 1, 8 do members.ann:send(tostring(n)) end
  sim:run "5s"
  return table.concat(got, " ")
end

print "         below nakack      above everything"
for _, way in ipairs(ways) do
  print(("%-8s %-17s %s"):format(way[1], story("udp", way[2]), story("rsvp", way[2])))
end
