-- A layer in ten lines: it drops every third message of each sender.  Below a stack that repairs,
-- nobody notices; alone, the gaps show.
--
--     neap run examples/04-your-first-layer.lua

local neap = require "neap"
local param, counter = neap.param, neap.counter

local third = neap.layer "third" {
  doc = "Drops every third message of each sender.",
  breaks = "mcast_reliable ucast_reliable mcast_fifo ucast_fifo",
  attrs = {
    param { "n", default = 3, min = 2, live = "now", doc = "Drop one in n." },
    counter { "dropped", unit = "messages", doc = "Gone." },
  },
  peer = function() return { seen = 0 } end,
  each_up = function(self, m, p)
    p.seen = p.seen + 1
    if p.seen % self.n ~= 0 then return self:pass_up(m) end
    self.dropped = self.dropped + 1
  end,
}

local function story(title, stack)
  local sim, got = neap.sim { seed = 4, latency = "1ms" }, {}
  local ann = sim:join("group", { stack = stack, name = "ann" })
  local bob = sim:join("group", { stack = stack, name = "bob",
    on = { message = function(msg) table.insert(got, msg.body) end } })
  sim:run "5s"
  for n = 1, 9 do ann:send(tostring(n)) end
  sim:run "5s"
  print(("%-18s bob got %s   (%d dropped by third)"):format(title, table.concat(got, " "),
    bob.third.dropped))
end

story("bare:", neap.stack(function(s)
  return s.stack "bare" { "As it comes.", third {}, s.udp {} }
end))
story("under nakack:", neap.stack(function(s)
  return s.extend("lan", { "As lan, over a bad wire.", s.before("udp", third {}) })
end))
