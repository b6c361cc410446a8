-- H07: a synchronous send with the flagged message lost, over nak and over ack.

local group = require "support.group"
local neap = require "neap"

local function new(seed, mode, message)
  return group.new { seed = seed, message = message, with = {
    rsvp = { resend_interval = "200ms", timeout = "5s" },
    nakack = { retransmission = mode },
    stable = { interval = 0, max_bytes = "2MB" },
  } }
end

-- 1 .. 4 plain, 5 with rsvp; 2 and 5 never get to cho the first time.  Returns what cho had when
-- the call returned, and how long it took.
local function story(g, ack_on)
  local at_return, took
  for _, lost in ipairs { "2", "5" } do
    g.sim:drop { from = "ann", to = "cho", layer = "nakack", type = "msg", body = lost, times = 1 }
  end
  g:call(function()
    for n = 1, 4 do g.ann:send(tostring(n)) end
    local began = neap.now()
    assert(g.ann:send("5", { rsvp = ack_on }))
    took, at_return = (neap.now() - began) / 1e9, g:got "cho"
  end)
  return at_return, took
end

describe("H07", function()
  for _, mode in ipairs { "nak", "ack" } do
    it("returns on completion when everything up to 5 is in the buffer, over " .. mode, function()
      group.each_seed(20, function(seed)
        local g = new(seed, mode)
        local _, took = story(g, "completion")
        assert(took < 1, took)
        -- In the buffer and nothing to wait for: the callbacks of all five come without more.
        g.sim:run "1ms"
        assert.equal("1 2 3 4 5", g:got "cho")
        g.sim:close()
      end)
    end)

    it("returns on delivery when the callback for 5 has returned, over " .. mode, function()
      group.each_seed(20, function(seed)
        local done = {}
        local g = new(seed, mode, function(g, name, msg)
          local body = msg.body
          if name == "cho" then neap.sleep "20ms" end -- What comes out must wait for this.
          table.insert(g.bodies[name], body)
          done[name] = body
        end)
        local at_return, took = story(g, "delivery")
        assert.equal("1 2 3 4 5", at_return)
        assert(took >= 0.1 and took < 1, took)
        assert.equal("5", done.cho)
        g.sim:close()
      end)
    end)
  end

  for _, mode in ipairs { "nak", "ack" } do
    it("may return on reception as soon as 5 is there, over " .. mode, function()
      group.each_seed(20, function(seed)
        local g = new(seed, mode)
        local hold = g.sim:drop { from = "ann", to = "cho", layer = "nakack", body = "2" }
        local took
        g:call(function()
          for n = 1, 4 do g.ann:send(tostring(n)) end
          local began = neap.now()
          assert(g.ann:send("5", { rsvp = "reception" }))
          took = (neap.now() - began) / 1e6
        end)
        assert.equal("1", g:got "cho")
        assert.equal(2, took)
        g.sim:clear(hold)
        g.sim:settle()
        assert.equal("1 2 3 4 5", g:got "cho")
        g.sim:close()
      end)
    end)
  end

  it("sends nothing of its own again over ack, and a switch counts for the next call", function()
    group.each_seed(20, function(seed)
      local g = new(seed, "ack")
      story(g, "completion")
      assert.equal(0, tonumber(g.ann.stack.rsvp.beacons_sent))
      g:call(function() assert(g.ann.stack:set { nakack = { retransmission = "nak",
        announce_delay = "60s", xmit_interval = "60s" } }) end)
      g.sim:drop { from = "ann", to = "cho", layer = "nakack", type = "msg", body = "6", times = 1 }
      g:call(function() assert(g.ann:send("6", { rsvp = "delivery" })) end)
      assert(tonumber(g.ann.stack.rsvp.beacons_sent) > 0)
      g.sim:close()
    end)
  end)
end)
