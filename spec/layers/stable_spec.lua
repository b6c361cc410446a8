-- Stability: when members vote, what they may free, and what holds them back.

local group = require "support.group"
local neap = require "neap"

-- Own multicasts that are kept, at each member.
local function kept(g)
  local list = {}
  for _, name in ipairs(g.names) do list[#list + 1] = g[name].stack.nakack.window_stored end
  return list
end

local function nothing(g)
  for _, count in ipairs(kept(g)) do if count > 0 then return false end end
  return true
end

-- Votes by time only, and rarely: what a spec sees is what it asked for.
local function quiet(stable, more)
  local with = { nakack = { retransmission = "nak" } }
  with.stable = { interval = "1h", max_bytes = "1GB" }
  for key, value in pairs(stable or {}) do with.stable[key] = value end
  for key, value in pairs(more or {}) do with[key] = value end
  return with
end

describe("stable", function()
  it("lets everybody free what all have, within two intervals", function()
    local g = group.new { with = quiet { interval = "1s" } }
    for i = 1, 30 do g[g.names[i % 3 + 1]]:send(tostring(i)) end
    g.sim:run "100ms"
    assert.is_false(nothing(g))
    g.sim:run "3900ms"
    assert.is_true(nothing(g))
  end)

  it("votes by bytes without waiting for the interval", function()
    local g = group.new { with = quiet { max_bytes = "100KB" } }
    for _ = 1, 9 do g.ann:send(("x"):rep(10000)) end
    g.sim:run "1s"
    assert.equal(0, g.ann.stack.stable.stabilities + g.ann.stack.stable.rounds)
    g.ann:send(("x"):rep(10000))
    g.sim:run "1s"
    assert.equal(1, g.ann.stack.stable.stabilities + g.ann.stack.stable.rounds)
    assert.is_true(kept(g)[1] < 2)
  end)

  it("counts own messages that are not looped back", function()
    local g = group.new { names = { "ann" }, with = quiet { max_bytes = "10KB" } }
    for _ = 1, 5 do g.ann:send(("x"):rep(3000), { loopback = false }) end
    g.sim:run "1s"
    assert(g.ann.stack.stable.rounds >= 1)
  end)

  it("is its own coordinator in a view of one", function()
    local g = group.new { names = { "ann" }, with = quiet { interval = "1s" } }
    for i = 1, 10 do g.ann:send(tostring(i)) end
    g.sim:run "4s"
    assert(g.ann.stack.stable.rounds >= 1)
    assert.is_true(nothing(g))
  end)

  it("holds a round when it is told to, at any member", function()
    for _, name in ipairs { "ann", "bob", "cho" } do
      local g = group.new { with = quiet() }
      for i = 1, 10 do g.ann:send(tostring(i)) end
      g.sim:run "100ms"
      assert.is_false(nothing(g))
      g[name].stack.stable:gossip_now()
      g.sim:run "100ms"
      assert.is_true(nothing(g), name)
    end
  end)

  it("never reports what a waiting callback has not returned from", function()
    local g = group.new {
      with = quiet { interval = "200ms" },
      message = function(_, name) if name == "cho" then neap.sleep "5s" end end,
    }
    g.ann:send "x"
    g.sim:run "4s"
    assert(kept(g)[1] > 0)
    g.sim:run "2s"
    assert.equal(0, kept(g)[1])
  end)

  it("heals a lost vote and a lost STABILITY by the votes that follow", function()
    local g = group.new { with = quiet { max_bytes = "10KB" } }
    local vote = g.sim:drop { layer = "stable", type = "vote", times = 2 }
    local stability = g.sim:drop { layer = "stable", type = "stability", times = 2 }
    for _ = 1, 3 do g.ann:send(("x"):rep(5000)) end
    g.sim:run "30s"
    assert.equal(2, g.sim:hits(vote))
    assert.equal(2, g.sim:hits(stability))
    assert.is_true(kept(g)[1] < 2, kept(g)[1])
  end)

  it("names the member that keeps everybody from freeing", function()
    local g = group.new { with = quiet { interval = "1s" } }
    g.sim:pause "cho"
    for i = 1, 10 do g.ann:send(tostring(i)) end
    g.sim:run "10s"
    assert.is_false(nothing(g))
    local coordinator = g[g.ann:view().coordinator]
    assert.equal(1, coordinator.stack.stable.missing)
    assert.matches("^cho has not voted in this round, last [%d.]+m?s ago$",
      coordinator.stack.stable:who())
    local other = coordinator == g.ann and g.bob or g.ann
    assert.matches("ask " .. g.ann:view().coordinator, other.stack.stable:who())
    g.sim:resume "cho"
    g.sim:run "4s"
    assert.is_true(nothing(g))
  end)

  it("gives a sender room at once when its window is full", function()
    for seed = 1, 10 do
      local g = group.new {
        seed = seed, loss = seed % 2 * 0.1,
        with = quiet(nil, { nakack = { retransmission = "nak", window_bytes = "50KB" } }),
      }
      local sent = 0
      g.sim:spawn(function()
        for i = 1, 100 do
          assert(g.ann:send(tostring(i) .. (" "):rep(5000)))
          sent = i
        end
      end)
      g.sim:run "20s" -- The next vote by time is an hour away.
      assert.equal(100, sent, "seed " .. seed)
      assert.equal(100, #g.bodies.bob)
      assert.equal(100, #g.bodies.cho)
    end
  end)

  it("goes on after its coordinator has crashed", function()
    local g = group.new { with = quiet({ interval = "1s" },
      { fd_all = { timeout = "2s", interval = "500ms" } }) }
    local first = g.ann:view().coordinator
    g.sim:kill(first)
    local names = {}
    for _, name in ipairs(g.names) do if name ~= first then names[#names + 1] = name end end
    g.names = names
    for i = 1, 10 do g[names[1]]:send(tostring(i)) end
    g.sim:run "15s"
    assert.equal(2, #g[names[1]]:view().members)
    assert.is_true(nothing(g))
  end)

  it("drops votes of another view", function()
    local g = group.new { with = quiet { interval = "100ms" } }
    g.sim:delay { layer = "stable", by = "3s", times = 20 }
    g.sim:run "2s"
    g:join "dee"
    g.sim:run "10s"
    local dropped = 0
    for _, name in ipairs(g.names) do dropped = dropped + g[name].stack.stable.dropped end
    assert(dropped > 0)
    assert.equal(4, #g.dee:view().members)
  end)

  it("follows a change of interval at once, from and to 0", function()
    local g = group.new { with = quiet() }
    local function votes()
      local sum = 0
      for _, name in ipairs(g.names) do sum = sum + g[name].stack.stable.votes_sent end
      return sum
    end
    local function set(interval)
      for _, name in ipairs(g.names) do g[name].stack.stable.interval = interval end
    end
    local before = votes()
    g.sim:run "10s"
    assert.equal(before, votes())
    set "100ms"
    g.sim:run "10s"
    local now = votes()
    assert(now - before > 150 and now - before < 450, now - before)
    set(0)
    g.sim:run "60s"
    assert.equal(now, votes())
  end)

  it("averages its interval", function()
    local g = group.new { names = { "ann", "bob" }, with = quiet { interval = "1s" } }
    g.sim:run "1000s"
    local votes = math.max(g.ann.stack.stable.votes_sent, g.bob.stack.stable.votes_sent)
    assert(votes > 900 and votes < 1100, votes)
  end)

  it("votes no further than a digest that was handed out, until the hold ends", function()
    local g = group.new { with = quiet() }
    local coordinator = g.ann:view().coordinator
    local sender = coordinator == "ann" and "bob" or "ann"
    local acks = g.sim:drop { to = coordinator, layer = "gms", type = "view_ack" }
    g:join("dee", { with = quiet() })
    g.sim:run "500ms"
    assert.equal(1, g[coordinator].stack.stable.holds)
    for i = 1, 10 do g[sender]:send(tostring(i)) end
    g.sim:run "100ms"
    g[sender].stack.stable:gossip_now()
    g.sim:run "200ms"
    assert.equal(10, g[sender].stack.nakack.window_stored) -- Sent after the digest for dee.
    g.sim:clear(acks)
    g.sim:run "2s"
    assert.equal(0, g[coordinator].stack.stable.holds)
    g[sender].stack.stable:gossip_now()
    g.sim:run "200ms"
    assert.equal(0, g[sender].stack.nakack.window_stored)
  end)

  it("frees everything again after a joiner died on the way", function()
    -- A joiner that dies while it joins leaves its coordinator with a hold; gms ends it in time.
    local g = group.new { with = quiet({ interval = "500ms" },
      { fd_all = { timeout = "3s", interval = "500ms" } }) }
    g:join("dee", { with = { fd_all = { timeout = "3s", interval = "500ms" } } })
    g.sim:run "1500us"
    g.sim:kill "dee"
    for i = 1, 10 do g.ann:send(tostring(i)) end
    g.sim:run "20s"
    for _, name in ipairs(g.names) do assert.equal(0, g[name].stack.stable.holds) end
    assert.equal(3, #g.ann:view().members)
    assert.is_true(nothing(g))
  end)

  it("frees nothing that somebody lacks, over seeds with loss and slow callbacks", function()
    group.each_seed(20, function(seed)
      local g = group.new {
        seed = seed, loss = 0.2, reorder = 0.2, duplicate = 0.1, jitter = "3ms",
        with = { stable = { interval = "50ms", max_bytes = "5KB" } },
        message = function(g, name, msg)
          if name == "bob" and #g.bodies.bob % 5 == 0 then neap.sleep "30ms" end
          table.insert(g.bodies[name], msg.body)
        end,
      }
      for i = 1, 100 do
        g.sim:spawn(function()
          neap.sleep(("%dms"):format(i * 10))
          g.ann:send(tostring(i))
        end)
      end
      g.sim:run "20s"
      for _, name in ipairs(g.names) do
        assert.equal(group.counted(100), g:got(name), name)
        assert.equal(0, g[name].stack.nakack.purged_received)
      end
      g.sim:set { loss = 0 }
      g.sim:run "5s"
      assert.is_true(nothing(g))
    end)
  end)
end)
