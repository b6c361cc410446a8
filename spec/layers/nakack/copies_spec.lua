-- nakack, copies: with xmit_from_random_member any member answers for any sender, from what it
-- keeps until that is stable.

local group = require "support.group"

local FIVE = { "ann", "bob", "cho", "dee", "eve" }

local function new(options, settings)
  settings = settings or {}
  settings.xmit_from_random_member = true
  options.names = options.names or FIVE
  options.with = { nakack = settings, stable = options.stable }
  local g = group.new(options)
  g.sim:run "1s"
  return g
end

local function send(g, name, first, last)
  for i = first, last do assert(g[name]:send(tostring(i))) end
end

local function nakack(g, name) return g[name].stack.nakack end

local function sum(g, counter)
  local all = 0
  for _, name in ipairs(g.names) do all = all + nakack(g, name)[counter] end
  return all
end

describe("copies", function()
  for _, mode in ipairs { "nak", "ack" } do
    it(("fill gaps while their sender cannot be heard, in %s mode"):format(mode), function()
      group.each_seed(20, function(seed)
        local g = new({ seed = seed }, { retransmission = mode })
        g.sim:drop { from = "ann", to = "bob", layer = "nakack", body = "2", times = 1 }
        g.ann:send("1")
        g.ann:send("2", { oob = seed % 2 == 0 })
        g.ann:send("3")
        g.sim:run "1200us"
        g.sim:cut { from = "ann", to = "bob" }
        g.sim:run "2s"
        assert.equal("1 2 3", g:got "bob")
        assert(sum(g, "xmit_rsps_others") >= 1)
        g.sim:close()
      end)
    end)

    it(("leave each stream whole under loss, in %s mode"):format(mode), function()
      group.each_seed(20, function(seed)
        local g = new({
          seed = seed, loss = 0.1, duplicate = 0.05, reorder = 0.05,
          message = function(g, name, msg)
            g.bodies[name][msg.from] = (g.bodies[name][msg.from] or "") .. msg.body .. " "
          end,
        }, { retransmission = mode })
        for i = 1, 60, 4 do
          for _, name in ipairs { "ann", "bob" } do send(g, name, i, i + 3) end
          g.sim:run "1ms"
        end
        g:calm()
        for _, to in ipairs(FIVE) do
          for _, from in ipairs { "ann", "bob" } do
            assert.equal(group.counted(60) .. " ", g.bodies[to][from])
          end
        end
        assert(sum(g, "xmit_rsps_others") > 0)
        g.sim:close()
      end)
    end)

    it(("are freed when all have them, in %s mode"):format(mode), function()
      local g = new({ stable = { interval = "2s" } }, { retransmission = mode })
      send(g, "ann", 1, 20)
      g.sim:run "50ms"
      assert(nakack(g, "bob").copies >= 20)
      g.sim:run "20s"
      for _, name in ipairs(FIVE) do assert.equal(0, nakack(g, name).copies) end
    end)
  end

  it("are a window of each sender at most, where rounds are rare", function()
    local g = new({ stable = { interval = "1h", max_bytes = 0 } },
      { retransmission = "ack", window_messages = 16 })
    g:call(function()
      for i = 1, 200 do assert(g.ann:send(tostring(i))) end
    end)
    g.sim:run "1s"
    assert.equal(group.counted(200), g:got "cho")
    local mine = nakack(g, "cho"):windows():match "ann low=(%d+)"
    assert.equal(16, nakack(g, "ann").current_seqno - tonumber(mine))
  end)

  it("are freed at once when nobody is to ask for them any more, and kept from now on", function()
    local g = new { stable = { interval = "1h", max_bytes = 0 } }
    send(g, "ann", 1, 20)
    g.sim:run "50ms"
    assert(nakack(g, "bob").copies >= 20)
    nakack(g, "bob").xmit_from_random_member = false
    g.sim:run "1ms"
    assert.equal(0, nakack(g, "bob").copies)
    nakack(g, "bob").xmit_from_random_member = true
    send(g, "ann", 21, 25)
    g.sim:run "50ms"
    assert.equal(5, nakack(g, "bob").copies)
    assert.equal(group.counted(25), g:got "bob")
  end)

  it("are refused where nobody finds out what all have", function()
    assert.has_error(function()
      group.new { names = { "ann" }, with = {
        nakack = { xmit_from_random_member = true, retransmission = "ack" },
        stable = { interval = 0, max_bytes = 0 },
      } }
    end)
  end)
end)
