-- nakack: multicasts arrive once and in order, out-of-band ones at once; joiners get whole runs;
-- what was promised in a digest is kept.  Its parts have specs of their own in nakack/.

local group = require "support.group"

local MODES = { "nak", "ack" }

-- A second without a message, so that nothing of the join is left.
local function new(options)
  local g = group.new(options or {})
  g.sim:run "1s"
  return g
end

-- All in one turn, so that they share packets.
local function send(g, name, first, last)
  for i = first, last do assert(g[name]:send(tostring(i))) end
end

local function numbers(first, last)
  local list = {}
  for i = first, last do list[#list + 1] = tostring(i) end
  return table.concat(list, " ")
end

local function nakack(g, name) return g[name].stack.nakack end

-- Everything from ann on whose number in her stream counts from her first message on.
local function seqno_of(g, name) return nakack(g, name).current_seqno end

describe("nakack", function()
  for _, mode in ipairs(MODES) do
    it(("delivers everything once and in order whatever the wire does, in %s mode"):format(mode),
      function()
        group.each_seed(20, function(seed)
          local g = new {
            seed = seed, loss = seed % 4 * 0.07, duplicate = seed % 3 * 0.1,
            reorder = seed % 5 * 0.05, jitter = "2ms",
            with = { nakack = { retransmission = mode } },
            message = function(g, name, msg)
              local list = g.bodies[name][msg.from] or {}
              g.bodies[name][msg.from] = list
              list[#list + 1] = msg.body
            end,
          }
          for i = 1, 120, 3 do
            for _, name in ipairs(g.names) do send(g, name, i, i + 2) end
            g.sim:run "1ms"
          end
          g:calm() -- SEED 11
          for _, to in ipairs(g.names) do
            for _, from in ipairs(g.names) do
              assert.equal(numbers(1, 120), table.concat(g.bodies[to][from], " "))
            end
            assert.equal(0, nakack(g, to).waiting)
            assert.equal(0, nakack(g, to).malformed)
          end
          g.sim:close()
        end)
      end)
  end

  it("delivers out-of-band messages at once, and the others in order (JGRP-379)", function()
    local g = new()
    g.sim:drop { from = "ann", to = "bob", layer = "nakack", body = "3", times = 2 }
    for i = 1, 5 do g.ann:send(tostring(i), { oob = i == 4 }) end
    g.sim:run "1200us"
    assert.equal("1 2 4", g:got "bob")
    assert.equal("1 2 3 4 5", g:got "cho")
    g.sim:settle()
    assert.equal("1 2 4 3 5", g:got "bob")
  end)

  it("delivers an out-of-band message once, though it comes again", function()
    group.each_seed(20, function(seed)
      local g = new { seed = seed, loss = 0.15, duplicate = 0.3, reorder = 0.2 }
      for i = 1, 100 do
        g.ann:send(tostring(i), { oob = i % 3 == 0 })
        if i % 7 == 0 then g.sim:run "1ms" end
      end
      g:calm()
      for _, name in ipairs { "bob", "cho" } do
        local seen, regular = {}, 0
        for _, body in ipairs(g.bodies[name]) do
          local i = tonumber(body)
          assert.is_nil(seen[i])
          seen[i] = true
          if i % 3 ~= 0 then
            assert(i > regular)
            regular = i
          end
        end
        assert.equal(100, #g.bodies[name])
      end
      g.sim:close()
    end)
  end)

  it("gives a sender its own messages, but not those that are not looped back", function()
    for _, mode in ipairs(MODES) do
      local g = new { with = { nakack = { retransmission = mode } } }
      for i = 1, 200 do g.ann:send(tostring(i), { loopback = i % 2 == 0, oob = i % 5 == 0 }) end
      g.sim:settle()
      assert.equal(100, #g.bodies.ann)
      assert.equal(200, #g.bodies.bob)
      if mode == "ack" then assert.equal(0, nakack(g, "ann").window_stored) end
    end
  end)

  it("lets messages pass that need no repair", function()
    local g = new()
    local before = seqno_of(g, "ann")
    g.sim:drop { from = "ann", to = "bob", body = "2", times = 1 }
    for i = 1, 3 do g.ann:send(tostring(i), { reliable = false }) end
    g.sim:run "5s"
    assert.equal("1 3", g:got "bob")
    assert.equal("1 2 3", g:got "ann")
    assert.equal(before, seqno_of(g, "ann"))
    assert.equal(0, nakack(g, "bob").xmit_reqs_sent)
  end)

  it("drops what it has already", function()
    local g = new { duplicate = 1 }
    send(g, "ann", 1, 50)
    g.sim:settle()
    assert.equal(numbers(1, 50), g:got "bob")
    assert(nakack(g, "bob").duplicates >= 50)
    assert.equal(0, nakack(g, "bob").xmit_reqs_sent)
  end)

  it("counts and drops what comes from outside the view", function()
    local g = new()
    g.sim:inject_view("bob", { "ann", "bob" })
    g.sim:run "1ms"
    send(g, "cho", 1, 3)
    send(g, "ann", 4, 4)
    g.sim:run "20ms"
    assert.equal("4", g:got "bob")
    assert.equal(3, nakack(g, "bob").strangers)
  end)

  it("gives a joiner a run of each stream, without gap, while everybody sends", function()
    for _, mode in ipairs(MODES) do
      group.each_seed(20, function(seed)
        local g = new {
          seed = seed, loss = 0.05, jitter = "1ms", with = { nakack = { retransmission = mode } },
          message = function(g, name, msg)
            local list = g.bodies[name][msg.from] or {}
            g.bodies[name][msg.from] = list
            list[#list + 1] = tonumber(msg.body)
          end,
        }
        for i = 1, 150 do
          for _, name in ipairs { "ann", "bob", "cho" } do send(g, name, i, i) end
          if i == 30 then
            g:join("dee", { with = { nakack = { retransmission = mode } },
              message = function(_, _, msg)
                local list = g.bodies.dee[msg.from] or {}
                g.bodies.dee[msg.from] = list
                list[#list + 1] = tonumber(msg.body)
              end })
          end
          g.sim:run "20ms"
        end
        g:calm()
        for _, from in ipairs { "ann", "bob", "cho" } do
          local list = g.bodies.dee[from]
          for k = 2, #list do assert.equal(list[k - 1] + 1, list[k]) end
          assert.equal(150, list[#list])
        end
        g.sim:close()
      end)
    end
  end)

  it("keeps what comes before the first view, bounded, and lacks nothing of it", function()
    local kept, dropped = 0, 0
    group.each_seed(20, function(seed)
      local with = { nakack = { become_server_queue_size = seed % 2 == 0 and 50 or 2 } }
      local g = group.new { names = { "ann" }, seed = seed, with = with }
      g:join("bob", { with = with })
      for i = 1, 200 do
        send(g, "ann", i, i)
        g.sim:run "500us"
        kept = math.max(kept, nakack(g, "bob").early)
        assert(nakack(g, "bob").early <= with.nakack.become_server_queue_size)
      end
      g.sim:run "3s"
      local list = g.bodies.bob
      for k = 2, #list do assert.equal(tonumber(list[k - 1]) + 1, tonumber(list[k])) end
      assert.equal("200", list[#list])
      dropped = dropped + nakack(g, "bob").dropped_early
      assert.equal(0, nakack(g, "bob").early)
      g.sim:close()
    end)
    assert(kept > 2 and dropped > 0)
  end)

  it("keeps what a digest promised until everybody has the view", function()
    -- bob learns late of dee, and would free what he sends if the coordinator reported it.
    for _, mode in ipairs(MODES) do
      local with = { nakack = { retransmission = mode }, stable = { max_bytes = "1KB" } }
      local g = new { with = with }
      local troubles = 0
      g.sim:drop { from = "ann", to = "bob", layer = "gms", type = "view" }
      g:join("dee", { with = with })
      g.dee:on("trouble", function() troubles = troubles + 1 end)
      g.sim:cut { from = "bob", to = "dee" }
      for i = 1, 50 do
        send(g, "bob", i, i)
        g.sim:run "10ms"
      end
      g.sim:heal()
      for id = 1, 50 do g.sim:clear(id) end
      send(g, "bob", 51, 51)
      g.sim:run "10s"
      assert.equal(0, troubles)
      local list = g.bodies.dee
      assert.equal("51", list[#list])
      for k = 2, #list do assert.equal(tonumber(list[k - 1]) + 1, tonumber(list[k])) end
      assert.equal(0, nakack(g, "dee").waiting)
    end
  end)

  it("names the gap when what is missing is gone, and asks no more", group.seeds(function()
    local g = new { with = { nakack = { retransmission = "ack", gap_delay = "500ms" } } }
    local troubles = {}
    g.bob:on("trouble", function(text) troubles[#troubles + 1] = text end)
    g.sim:drop { from = "ann", to = "bob", layer = "nakack", body = "2", times = 1 }
    g.sim:inject_view("ann", { "ann", "cho" })
    send(g, "ann", 1, 3)
    g.sim:run "3s"
    assert.equal("1", g:got "bob")
    assert.equal(1, #troubles)
    assert(tostring(troubles[1].text or troubles[1]):find "ann no longer has")
    assert.equal(1, nakack(g, "bob").purged_received)
    assert(nakack(g, "bob"):windows():find "stopped")
    local asked = nakack(g, "bob").xmit_reqs_sent
    g.sim:run "5s"
    assert.equal(asked, nakack(g, "bob").xmit_reqs_sent)
  end))

  it("shows each member's stream", function()
    local g = new { with = { nakack = { retransmission = "ack" } } }
    send(g, "ann", 1, 3)
    g.sim:settle()
    local at = seqno_of(g, "ann")
    local own = ("ann low=%d applied=%d received=%d"):format(at, at, at)
    assert(nakack(g, "ann"):windows():find(own, 1, true))
    assert(nakack(g, "bob"):windows():find(("ann low=%d applied=%d"):format(at, at)))
    local one = nakack(g, "bob"):windows "ann"
    assert(one:find(("^ann low=%d applied=%d"):format(at, at)) and not one:find "cho", one)
  end)

  it("reads its limits back and refuses nonsense", function()
    local g = new()
    local layer = nakack(g, "ann")
    assert.equal("500ms", tostring(layer.xmit_interval))
    assert.equal("auto", tostring(layer.window_bytes))
    assert.has_error(function() layer.xmit_interval = "2min" end)
    assert.has_error(function() layer.retransmission = "maybe" end)
    layer.gap_delay = "tick"
    assert.equal("tick", tostring(layer.gap_delay))
  end)
end)
