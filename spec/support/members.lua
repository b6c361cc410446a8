-- members: a simulated group for specs.
--
--     local sim, m = members.new({ "ann", "bob" }, { seed = 7 }, "bare")
--     m.bob.got      bodies, in the order in which they came

local neap = require "neap"

local members = {}

-- Joins everybody; every member remembers what it got.
function members.join(sim, names, stack, with)
  local m = {}
  for _, name in ipairs(names) do
    local channel = assert(sim:join("spec", { stack = stack, name = name, with = with }))
    channel.got, channel.views = {}, {}
    channel:on("message", function(message) table.insert(channel.got, message.body) end)
    channel:on("view", function(view) table.insert(channel.views, view) end)
    m[name] = channel
  end
  return m
end

function members.new(names, options, stack, with)
  local sim = neap.sim(options or { seed = 1 })
  return sim, members.join(sim, names, stack or "bare", with)
end

-- A group with views: everybody is in the same one when this returns.
function members.group(names, options, with, stack)
  local sim, m = members.new(names, options, stack or members.grouped(), with)
  for _ = 1, 60 do
    sim:run "500ms"
    local same = true
    for _, name in ipairs(names) do
      local view = m[name]:view()
      same = same and view and #view.members == #names
    end
    if same then return sim, m end
  end
  error("no common view after 30 virtual seconds, seed " .. sim.seed)
end

-- Views and reliable messages, without flow control: what most specs of the surface need.
function members.grouped()
  return neap.stack(function(s)
    return s.stack "grouped" {
      "Reliable messages in a group with views.",
      s.gms { join_timeout = "1s" }, s.stable { max_bytes = "2MB" }, s.unicast {}, s.nakack {},
      s.verify_suspect {}, s.fd_all { timeout = "12s", interval = "2s" }, s.ping {}, s.udp {},
    }
  end)
end

return members
