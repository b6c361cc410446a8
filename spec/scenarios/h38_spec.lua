-- H38: closing inside one's own callback.  Sends under way end with "closed" once; twice is fine;
-- everything that was in hand comes back, which the world asserts at its end.

local members = require "support.members"
local neap = require "neap"

local NAMES = { "ann", "bob", "cho" }

-- What a callback does to its own channel.
local ends = {
  { "closes", function(channel) channel:close() end },
  { "closes twice", function(channel)
    channel:close()
    channel:close()
  end },
  { "leaves", function(channel) channel:leave { wait = false } end },
  { "leaves and waits", function(channel) channel:leave() end },
  { "leaves, then closes", function(channel)
    channel:leave { wait = false }
    channel:close()
  end },
  { "closes after a wait", function(channel)
    neap.sleep "5ms"
    channel:close()
  end },
  { "closes and waits", function(channel)
    channel:close()
    neap.sleep "5ms"
  end },
}

-- Where from.
local places = {
  { "the message callback", function(sim, m, act)
    m.bob:on("message", function() act(m.bob) end)
    for i = 1, 20 do m.ann:send(i) end
    sim:run "1s"
  end },
  { "the batch callback", function(sim, m, act)
    m.bob:on("message", nil)
    m.bob:on("batch", function() act(m.bob) end)
    for i = 1, 20 do m.ann:send(i) end
    sim:run "1s"
  end },
  { "the view callback", function(sim, m, act)
    m.bob:on("view", function() act(m.bob) end)
    sim:kill "cho"
    sim:run "40s"
  end },
  { "a coroutine that slept", function(sim, m, act)
    sim:spawn(function()
      neap.sleep "1ms"
      act(m.bob)
    end)
    sim:run "1s"
  end },
  { "the error hook", function(sim, m, act)
    m.bob:on("error", function()
      neap.spawn(function() act(m.bob) end)
    end)
    m.bob:on("message", function() error "oops" end)
    m.ann:send "x"
    sim:run "1s"
  end },
}

describe("h38", function()
  for _, place in ipairs(places) do
    for _, ending in ipairs(ends) do
      it(("%s in %s"):format(ending[1], place[1]), function()
        local sim, m = members.group(NAMES, { seed = 5 })
        place[2](sim, m, ending[2])
        assert.is_false(m.bob:is_open())
        assert.same({ nil, "closed" }, { m.bob:send "x" })
        sim:run "40s"
        for _, name in ipairs(m.ann:view().members) do assert.is_true(name ~= "bob") end
        sim:close()
      end)
    end
  end

  it("ends 100 sends that wait with closed, once each", function()
    local sim, m = members.group(NAMES, { seed = 5 })
    local results = {}
    sim:pause "cho"
    for i = 1, 100 do
      sim:spawn(function()
        local ok, code
        repeat ok, code = m.bob:send(("x"):rep(60000)) until not ok
        results[i] = (results[i] or "") .. code
      end)
    end
    m.bob:on("message", function(msg)
      if msg.from == "ann" then m.bob:close() end
    end)
    sim:run "100ms"
    m.ann:send "close"
    sim:run "1s"
    for i = 1, 100 do assert.equal("closed", results[i]) end
    sim:resume "cho"
    sim:close()
  end)

  it("ends synchronous sends with closed", function()
    local sim, m = members.group(NAMES, { seed = 5 }, nil, "lan")
    local result
    sim:pause "cho"
    sim:spawn(function() result = { m.bob:send("x", { rsvp = true }) } end)
    m.bob:on("message", function(msg)
      if msg.from == "ann" then m.bob:close() end
    end)
    m.ann:send "close"
    sim:run "1s"
    assert.is_nil(result[1])
    assert.equal("closed", result[2])
    sim:resume "cho"
    sim:close()
  end)

  it("opens again at once", function()
    local sim, m = members.group(NAMES, { seed = 5 })
    local again
    m.bob:on("message", function(msg)
      if msg.from ~= "ann" then return end
      m.bob:close()
      again = sim:join("spec", { stack = members.grouped(), name = "bob2" })
    end)
    m.ann:send "x"
    sim:run "60s"
    assert.equal(3, #again:view().members)
    assert.equal(3, #m.ann:view().members)
    sim:close()
  end)
end)
