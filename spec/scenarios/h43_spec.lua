-- H43: values are set to 0 and back while the group works (mininet 881, JGRP-2675, JGRP-2866), with
-- a gap open all the while.  0 is off, never a busy loop; the last change repairs what is left.

local group = require "support.group"

local function new(seed, mode)
  local g = group.new {
    seed = seed,
    with = {
      nakack = { retransmission = mode, xmit_interval = "200ms" }, stable = { interval = "1s" },
    },
  }
  g.sim:set { loss = 0.1, latency = "20ms" }
  for i = 1, 20 do
    g.ann:send("noise " .. i)
    g.sim:run "5ms"
  end
  g.sim:set { loss = 0 }
  g.sim:run "5s"
  for _, name in ipairs(g.names) do
    assert.equal(20, #g.bodies[name])
    g.bodies[name] = {}
    g[name]:on("message", function(m) table.insert(g.bodies[name], m.body) end)
  end
  return g
end

-- By what `read` grows in so much time.
local function grows(g, time, read)
  local before = read()
  g.sim:run(time)
  return read() - before
end

local function story(seed, mode)
  local g = new(seed, mode)
  local cho = g.cho.stack
  cho.nakack.xmit_interval = 0
  g.sim:drop { from = "ann", to = "cho", layer = "nakack", body = "1", times = 1 }
  for i = 1, 5 do g.ann:send(tostring(i)) end
  assert.equal(0, grows(g, "3s", function() return cho.nakack.xmit_reqs_sent end))
  assert.equal("", g:got "cho")
  assert.equal("1 2 3 4 5", g:got "bob")

  for _, name in ipairs(g.names) do g[name].stack.stable.interval = 0 end
  g.sim:run "3s" -- A round that had begun ends.
  assert.equal(0, grows(g, "20s", function() return g.bob.stack.stable.votes_sent end))
  for _, name in ipairs(g.names) do g[name].stack.stable.interval = "1s" end
  assert(grows(g, "5s", function() return g.bob.stack.stable.votes_sent end) > 0)

  g.sim:set { latency = "0ms" }
  g.ann.stack.rsvp.timeout = 0
  assert.equal("", g:got "cho")
  cho.nakack.xmit_interval = "200ms"
  g.sim:run "200ms"
  assert.equal("1 2 3 4 5", g:got "cho")
  assert.is_true(g:call(function() return g.ann:send("6", { rsvp = "reception" }) end))
  g.sim:close()
end

describe("H43", function()
  for _, mode in ipairs { "nak", "ack" } do
    it(("0 is off until it is set again, in %s mode"):format(mode), function()
      group.each_seed(20, function(seed) story(seed, mode) end)
    end)
  end
end)
