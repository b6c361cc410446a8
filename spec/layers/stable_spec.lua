-- Stability: when members vote, and what they may free.

local core = require "neap.core"
local dissect = require "neap.dissect"
local group = require "support.group"
local neap = require "neap"
local voting = require "support.voting"

local coordinator, kept, nothing, other, quiet, total =
  voting.coordinator, voting.kept, voting.nothing, voting.other, voting.quiet, voting.total

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

  for _, mode in ipairs { "nak", "ack" } do
    it("never reports what a waiting callback has not returned from, in " .. mode, function()
      local g = group.new {
        with = quiet({ interval = "200ms" }, { nakack = { retransmission = mode } }),
        message = function(_, name) if name == "cho" then neap.sleep "5s" end end,
      }
      g.ann:send "x"
      g.sim:run "4s"
      assert(kept(g)[1] > 0)
      g.sim:run "2s"
      assert.equal(0, kept(g)[1])
    end)
  end

  it("heals a lost vote and a lost STABILITY by the votes that follow", group.modes(function()
    local g = group.new { with = quiet { max_bytes = "10KB" } }
    local vote = g.sim:drop { layer = "stable", type = "vote", times = 2 }
    local stability = g.sim:drop { layer = "stable", type = "stability", times = 2 }
    for _ = 1, 3 do g.ann:send(("x"):rep(5000)) end
    g.sim:run "30s"
    assert.equal(2, g.sim:hits(vote))
    assert.equal(2, g.sim:hits(stability))
    assert.is_true(kept(g)[1] < 2, kept(g)[1])
  end))

  it("gives a sender room at once when its window is full", function()
    for seed = 1, 20 do
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

  it("follows a change of interval at once, from and to 0", group.modes(function()
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
  end))

  it("votes at once when max_bytes falls below what was counted", function()
    local g = group.new { with = quiet() }
    for _ = 1, 5 do g.ann:send(("x"):rep(10000)) end
    g.sim:run "1s"
    assert.is_false(nothing(g))
    for _, name in ipairs(g.names) do g[name].stack.stable.max_bytes = "20KB" end
    g.sim:run "10ms"
    assert.is_true(nothing(g))
  end)

  it("votes by bytes no more while max_bytes is 0, and once when it is on again", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, with = quiet { interval = "24h", max_bytes = "10KB" } }
      local function set(bytes)
        for _, name in ipairs(g.names) do g[name].stack.stable.max_bytes = bytes end
      end
      -- A vote that nobody answers is repeated; that ends as well.
      local lost = g.sim:drop { layer = "stable" }
      for _ = 1, 5 do g.ann:send(("x"):rep(10000)) end
      g.sim:run "1s"
      assert(g.sim:hits(lost) > 4, g.sim:hits(lost))
      set(0)
      g.sim:clear(lost)
      local votes = total(g, "votes_sent")
      for _ = 1, 30 do g.ann:send(("x"):rep(10000)) end -- Too few for nakack to ask.
      g.sim:run "100s"
      assert.equal(votes, total(g, "votes_sent"))
      assert.is_false(nothing(g))
      set "10KB"
      g.sim:run "1s"
      assert.equal(votes + 3, total(g, "votes_sent"))
      assert.is_true(nothing(g))
      g.sim:close()
    end)
  end)

  it("votes by rank, spaced, under a flood", function()
    local g = group.new { with = quiet { max_bytes = "1KB", spacing = "1ms" } }
    local votes = total(g, "votes_sent")
    for i = 1, 1000 do
      g.sim:spawn(function()
        neap.sleep(("%dus"):format(i * 100))
        g.ann:send(("x"):rep(1000))
      end)
    end
    g.sim:run "100ms"
    -- Each message is worth a vote of each; 750 us for three members is the space between two.
    assert(total(g, "votes_sent") - votes <= 3 * 140, total(g, "votes_sent") - votes)
    assert(total(g, "votes_sent") - votes >= 3 * 20)
  end)

  it("averages its interval", function()
    local g = group.new { names = { "ann", "bob" }, with = quiet { interval = "1s" } }
    g.sim:run "1000s"
    local votes = math.max(g.ann.stack.stable.votes_sent, g.bob.stack.stable.votes_sent)
    assert(votes > 900 and votes < 1100, votes)
  end)

  it("counts each vote once, however often it comes", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, with = quiet() }
      local hits = g.sim:duplicate { layer = "stable", type = "vote" }
      local before = coordinator(g).stack.stable.votes_received
      local rounds = total(g, "rounds")
      for i = 1, 10 do g.ann:send(tostring(i)) end
      g.sim:run "100ms"
      other(g).stack.stable:gossip_now()
      g.sim:run "100ms"
      assert.equal(2, g.sim:hits(hits))
      assert.equal(rounds + 1, total(g, "rounds"))
      assert.equal(before + 3, coordinator(g).stack.stable.votes_received)
      assert.is_true(nothing(g))
      g.sim:close()
    end)
  end)

  it("counts no vote of a stranger, and none that cannot be read", function()
    local g = group.new { with = quiet() }
    core.sim_log_start(g.sim.handle, 1000)
    other(g).stack.stable:gossip_now()
    g.sim:run "100ms"
    local vote, view
    for _, row in ipairs(g.sim:log()) do
      local packet = dissect.packet(row.bytes)
      for _, message in ipairs(packet.messages) do
        for _, head in ipairs(message.headers) do
          if head.name == "stable" and head.fields.type == 1 then vote, view = message, packet end
        end
      end
    end
    local first = coordinator(g)
    local function inject(change)
      local received, dropped = first.stack.stable.votes_received, first.stack.stable.dropped
      local copy = {}
      for key, value in pairs(vote) do copy[key] = value end
      copy.src = copy.src or view.src
      change(copy)
      g.sim:inject { from = "zoe", to = first.name,
        bytes = dissect.encode { version = 5 * 2048 + 5 * 64 + 6, list = false,
          messages = { copy } } }
      g.sim:run "10ms"
      return first.stack.stable.votes_received - received, first.stack.stable.dropped - dropped
    end
    assert.same({ 1, 0 }, { inject(function() end) }) -- It opens a round, were it a member's.
    assert.same({ 0, 1 }, { inject(function(m)
      m.src = "0a0b0c0d-0e0f-1011-1213-141516171800"
    end) })
    assert.same({ 0, 1 }, { inject(function(m)
      m.payload, m.payload_kind, m.body, m.type = nil, nil, "no digest", "bytes"
    end) })
  end)

  it("counts no vote of another view", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, names = { "ann", "bob", "cho", "dee" }, with = quiet() }
      local first = coordinator(g)
      local gone
      for _, name in ipairs(g.names) do if g[name] ~= first then gone = name end end
      -- The votes of a round that was asked for arrive when one of the voters has left.
      local late = g.sim:delay { layer = "stable", type = "vote", by = "1s" }
      g.ann:send "x"
      first.stack.stable:gossip_now()
      g.sim:run "10ms"
      g.sim:clear(late)
      g:call(function() g[gone]:leave() end)
      assert.equal(3, #first:view().members)
      local received, dropped = first.stack.stable.votes_received, first.stack.stable.dropped
      g.sim:run "950ms" -- They come now; nobody votes anew.
      assert.equal(0, first.stack.stable.missing, "a round was begun by them")
      assert.equal(received, first.stack.stable.votes_received)
      assert(first.stack.stable.dropped >= dropped + 2)
      g.sim:close()
    end)
  end)

  for _, mode in ipairs { "nak", "ack" } do
    it("tells the least that was applied, the most that was received, in " .. mode, function()
      group.each_seed(20, function(seed)
        local g = group.new {
          seed = seed, with = quiet(nil, { nakack = { retransmission = mode } }),
          message = function(g, name, msg)
            if name == "cho" and msg.body == "4" then neap.sleep "1h" end
            table.insert(g.bodies[name], msg.body)
          end,
        }
        g.sim:drop { layer = "nakack", type = "highest" }
        g.sim:drop { to = "bob", layer = "nakack", type = "msg", body = "9", times = 1 }
        for i = 1, 9 do g.ann:send(tostring(i)) end
        g.sim:run "2s"
        assert.equal(group.counted(8), g:got "bob") -- Nobody told it of the ninth.
        g.ann.stack.stable:gossip_now()
        g.sim:run "2s"
        assert.equal(6, g.ann.stack.nakack.window_stored) -- Cho is still busy with the fourth,
        assert.equal(group.counted(9), g:got "bob")       -- and has received the ninth.
        g.sim:close()
      end)
    end)
  end

  for _, mode in ipairs { "nak", "ack" } do
    it("brings a lost last message back in two rounds, unannounced, in " .. mode, function()
      group.each_seed(20, function(seed)
        local g = group.new { seed = seed,
            with = quiet({ interval = "1s" }, { nakack = { retransmission = mode } }) }
        g.sim:drop { layer = "nakack", type = "highest" }
        g.sim:drop { to = "cho", layer = "nakack", type = "msg", body = "5", times = 1 }
        for i = 1, 5 do g.ann:send(tostring(i)) end
        local rounds = coordinator(g).stack.stable.rounds
        for _ = 1, 400 do
          if g:got "cho" == group.counted(5) then break end
          g.sim:run "50ms"
        end
        assert.equal(group.counted(5), g:got "cho")
        assert(coordinator(g).stack.stable.rounds - rounds <= 2)
        g.sim:close()
      end)
    end)
  end

  it("begins to count anew everywhere when a round is over", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, with = quiet { max_bytes = "50KB" } }
      for i = 1, 6 do g[g.names[i % 3 + 1]]:send(("x"):rep(9000)) end
      g.sim:run "1s"
      assert.equal(1, total(g, "rounds"))
      for _, name in ipairs(g.names) do
        local bytes = g[name].stack.stable.bytes
        assert(bytes == 0 or bytes.bytes < 1000, tostring(bytes)) -- It was 54 kB.
      end
      g.sim:close()
    end)
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
