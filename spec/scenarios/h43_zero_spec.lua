-- H43: settings go to zero and back while messages flow and a gap is open.  Zero means off, not as
-- fast as can be; each change works at once, is in the journal, and in the end nothing is lost.

local group = require "support.group"
local neap = require "neap"

local function new(seed, mode)
  return group.new { seed = seed, loss = 0.1, latency = "20ms", with = {
    nakack = { retransmission = mode, xmit_interval = "200ms" },
    stable = { interval = "1s", max_bytes = "1GB" },
    rsvp = { timeout = "5s" },
  } }
end

local function set(g, layer, attr, value)
  for _, name in ipairs(g.names) do g[name].stack[layer][attr] = value end
end

-- How much a counter of all members grows meanwhile.
local function grows(g, layer, counter, time)
  local function sum()
    local all = 0
    for _, name in ipairs(g.names) do all = all + g[name].stack[layer][counter] end
    return all
  end
  local before = sum()
  g.sim:run(time)
  return sum() - before
end

-- Ann sends 1, 2, 3 ... every 20 ms for so long.
local function talk(g, seconds)
  g.count = 0
  g.sim:spawn(function()
    while g.count < seconds * 50 do
      neap.sleep "20ms"
      g.count = g.count + 1
      assert(g.ann:send(tostring(g.count)))
    end
  end)
end

local function open_gap(g)
  local cut = g.sim:drop { from = "ann", to = "cho", layer = "nakack", body = "5" }
  g.sim:run "400ms"
  assert(g.sim:hits(cut) > 0)
  return cut
end

local function no_votes(g)
  set(g, "stable", "interval", 0)
  g.sim:run "100ms" -- The coordinator follows a vote that is under way.
  assert.equal(0, grows(g, "stable", "votes_sent", "10s"))
  set(g, "stable", "interval", "1s")
  local votes = grows(g, "stable", "votes_sent", "2s")
  assert(votes >= 1 and votes < 20, votes)
end

local function clean_wire(g)
  local function lost() return g.sim:counts().lost.loss or 0 end
  g.sim:set { loss = 0 }
  local before = lost()
  g.sim:run "1s"
  assert.equal(before, lost())
  g.sim:set { latency = 0 }
  g.sim:run "100ms"
  local began = g.sim:now()
  assert.is_true((g:call(function() return g.ann:send("now", { rsvp = "reception" }) end)))
  assert(g.sim:now() - began < 200e6) -- group.call looks every 100 ms.
end

-- Without a limit a synchronous send waits for as long as it takes.
local function wait_for_ever(g)
  set(g, "rsvp", "timeout", 0)
  g.sim:pause "bob"
  local done
  g.sim:spawn(function() done = { g.ann:send("then", { rsvp = "delivery" }) } end)
  g.sim:run "20s"
  assert.is_nil(done)
  g.sim:resume "bob"
  g.sim:run "5s"
  assert.is_true(done[1])
end

local function journal_of(channel)
  local lines = {}
  for _, entry in ipairs(channel.stack:journal()) do
    for _, row in ipairs(entry) do lines[#lines + 1] = row.layer .. "." .. row.name end
  end
  return table.concat(lines, " ")
end

describe("H43", function()
  for _, mode in ipairs { "nak", "ack" } do
    it("takes zero for off while messages flow, in " .. mode .. " mode", function()
      group.each_seed(20, function(seed)
        local g = new(seed, mode)
        talk(g, 15)
        local cut = open_gap(g)
        set(g, "nakack", "xmit_interval", 0)
        g.sim:run "200ms" -- What was asked for before is answered.
        g.sim:clear(cut)
        assert.equal(0, grows(g, "nakack", "xmit_reqs_sent", "2s"))
        assert.equal(4, #g.bodies.cho) -- The gap is open still.
        set(g, "nakack", "xmit_interval", "200ms")
        g.sim:run "3s" -- One packet in ten is lost, requests and answers as well.
        assert(#g.bodies.cho > 50, #g.bodies.cho)
        no_votes(g)
        clean_wire(g)
        g.sim:run "2s"
        wait_for_ever(g)

        local wanted = group.counted(g.count)
        for _, name in ipairs(g.names) do
          local got = g:got(name):gsub(" %a+", "") -- Without "now" and "then".
          assert.equal(wanted, got, name)
          assert.equal("nakack.xmit_interval nakack.xmit_interval stable.interval "
            .. "stable.interval rsvp.timeout", journal_of(g[name]))
        end
        g.sim:close()
      end)
    end)
  end

  it("says of each what zero means", function()
    local g = group.new { names = { "ann" } }
    local function doc(layer, attr)
      return tostring(g.ann.stack[layer]):match("\n  " .. attr .. " [^\n]*")
    end
    assert.matches("0: no gap is asked for", doc("nakack", "xmit_interval"))
    assert.matches("0: by bytes only", doc("stable", "interval"))
    assert.matches("0: by time only", doc("stable", "max_bytes"))
    assert.matches("0: for ever", doc("rsvp", "timeout"))
  end)
end)
