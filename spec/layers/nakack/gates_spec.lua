-- nakack, gates: how fast it has to be, in virtual time.  A toggle under load, a lost last message,
-- silence when all is done, and few requests where many lost the same.

local group = require "support.group"
local neap = require "neap"

local MS = 1e6
local ONE_WAY = 1 -- ms

-- The longest pause between two deliveries at bob and cho while ann sends each 100 us for 20 ms and
-- `switch` runs in the middle; if it waits, so do they.
local function longest_pause(seed, first, switch)
  local last, longest = {}, 0
  local g = group.new {
    seed = seed, jitter = "50us", with = { nakack = { retransmission = first } },
    message = function(g, name)
      local now = g.sim:now() / MS
      if last[name] and name ~= "ann" then longest = math.max(longest, now - last[name]) end
      last[name] = now
      table.insert(g.bodies[name], now)
    end,
  }
  g.sim:run "1s"
  g:call(function()
    for i = 1, 200 do
      assert(g.ann:send(tostring(i)))
      if i == 100 then switch(g) end
      neap.sleep "100us"
    end
  end)
  g.sim:run "1s"
  for _, name in ipairs(g.names) do assert.equal(200, #g.bodies[name]) end
  g.sim:close()
  return longest
end

describe("a toggle under load", function()
  for _, first in ipairs { "nak", "ack" } do
    local other = first == "nak" and "ack" or "nak"
    it(("to %s stops nobody, where drain and switch stops all for a round trip and more"):format(
      other), function()
      group.each_seed(20, function(seed)
        local live = longest_pause(seed, first, function(g)
          g.sim:spawn(function()
            assert(g.ann.stack:set { nakack = { retransmission = other } })
          end)
        end)
        assert(live <= 3 * ONE_WAY, live)
        local drained = longest_pause(seed, first, function(g)
          assert(g.ann:flush_sent { timeout = "1s" }) -- Everybody has all of it: now it is safe.
          assert(g.ann.stack:set { nakack = { retransmission = other } })
        end)
        assert(drained >= 4 * ONE_WAY and drained > 4 * live, drained)
      end)
    end)
  end
end)

describe("a lost last message", function()
  for _, mode in ipairs { "nak", "ack" } do
    it(("is late by announce_delay and a round trip, in %s mode"):format(mode), function()
      group.each_seed(20, function(seed)
        local came
        local g = group.new { seed = seed, with = { nakack = { retransmission = mode } },
          message = function(g, name, msg)
            if name == "cho" and msg.body == "5" then came = g.sim:now() end
          end }
        g.sim:settle()
        g.sim:drop { from = "ann", to = "cho", layer = "nakack", body = "5", times = 1 }
        local sent = g.sim:now()
        for i = 1, 5 do g.ann:send(tostring(i)) end
        g.sim:run "100ms"
        local late = (came - sent) / MS - ONE_WAY
        assert(late >= 5 + 2 * ONE_WAY and late <= 5 + 2 * ONE_WAY + 3 / 8, late)
        g.sim:close()
      end)
    end)
  end
end)

describe("an idle group", function()
  for _, mode in ipairs { "nak", "ack" } do
    it(("sends heartbeats and votes only, in %s mode"):format(mode), function()
      local g = group.new { seed = 7, loss = 0.1, with = { nakack = { retransmission = mode } } }
      for i = 1, 50 do
        for _, name in ipairs(g.names) do g[name]:send(tostring(i)) end
        g.sim:run "2ms"
      end
      g:calm()
      local function sums()
        local all = { packets = 0, known = 0, ours = 0 }
        for _, name in ipairs(g.names) do
          local stack = g[name].stack
          all.packets = all.packets + stack.udp.packets_sent
          all.known = all.known + stack.fd_all.heartbeats_sent + stack.stable.votes_sent
            + stack.stable.rounds
          all.ours = all.ours + stack.nakack.announcements_sent + stack.nakack.xmit_reqs_sent
            + stack.nakack.acks_sent
        end
        return all
      end
      local before = sums()
      g.sim:run "10min"
      local now = sums()
      assert.equal(0, now.ours - before.ours)
      assert(now.packets - before.packets <= now.known - before.known)
      assert(now.packets > before.packets)
      g.sim:close()
    end)
  end
end)

describe("64 members that lost the same message", function()
  it("ask for it twice at most, and one answer does", function()
    local names, got = {}, 0
    local sim = neap.sim { seed = 3, latency = "1ms" }
    local channels = {}
    for i = 1, 64 do
      names[i] = ("m%02d"):format(i)
      channels[i] = sim:join("chat", { stack = "lan", name = names[i] })
      channels[i]:on("message", function() got = got + 1 end)
      if i == 1 then sim:run "2s" end
    end
    for _ = 1, 60 do
      sim:run "1s"
      if #channels[1]:view().members == 64 then break end
    end
    sim:run "5s"
    sim:set { latency = "200us" }
    local function sum(counter)
      local all = 0
      for i = 1, 64 do all = all + channels[i].stack.nakack[counter] end
      return all
    end
    local requests, answers = sum "xmit_reqs_sent", sum "xmit_rsps_sent"
    for i = 1, 100 do
      if i % 10 == 5 then
        sim:drop { from = names[1], layer = "nakack", type = "msg", body = tostring(i), times = 63 }
      end
      channels[1]:send(tostring(i))
      sim:run "2ms"
    end
    sim:run "2s"
    assert.equal(6400, got)
    assert(channels[1].stack.nakack:windows():find "\n%.%.%. and more: name one\n$")
    assert(channels[1].stack.nakack:windows("m64"):find "^m64 low=%d+ [^\n]+\n$")
    assert(sum "xmit_reqs_sent" - requests <= 20, sum "xmit_reqs_sent" - requests)
    assert(sum "xmit_rsps_sent" - answers <= 11, sum "xmit_rsps_sent" - answers)
    sim:close()
  end)
end)
