-- H44: a live group switches between ack and nak, multicasts and connections, as a whole: accepted
-- by all or refused, each stream at a seqno of its own, while messages flow and are lost.  (G29.)

local agreed = require "support.agreed"
local each_seed = require("support.group").each_seed
local neap = require "neap"

local NAMES = { "ann", "bob", "cho", "dee" }

local function both(mode)
  return { nakack = { retransmission = mode }, unicast = { retransmission = mode } }
end

local function is(g, mode)
  for _, name in ipairs(agreed.alive(g)) do
    assert.equal(mode, g[name].nakack.retransmission)
    assert.equal(mode, g[name].unicast.retransmission)
  end
end

-- Asks for it again until it is made: a view change is no refusal.
local function insist(g, name, mode)
  for _ = 1, 100 do
    local ok, code, detail = g[name].stack:set(both(mode), { all = true })
    if ok then return end
    if code == "timeout" and detail.made then return end -- It is made, and somebody is late.
    assert(code == "reset" or code == "timeout", code)
    neap.sleep "50ms"
  end
  error "it is never made"
end

-- From nak to ack, back and again, a second apart; ann dies in the middle of the second, dee stands
-- still around the third.
local function story(seed)
  local g = agreed.group { seed = seed, names = { "ann", "bob", "cho", "dee" }, loss = 0.1,
    latency = "2ms", with = { unicast = { retransmission = "nak" } } }
  -- 200 messages a second of each kind from each, in some; in most a quarter of that is enough.
  if seed % 10 == 0 then agreed.traffic(g, 2000, "5ms") else agreed.traffic(g, 500, "20ms") end
  g.sim:spawn(function()
    insist(g, "bob", "ack")
    is(g, "ack")
    neap.sleep "1s"
    g.sim:spawn(function()
      neap.sleep(seed * 2 % 50 .. "ms")
      agreed.kill(g, "ann")
    end)
    insist(g, "bob", "nak")
    neap.sleep "5s" -- Ann is out of the view.
    is(g, "nak")
    g.sim:pause "dee"
    g.sim:spawn(function()
      neap.sleep "2s"
      g.sim:resume "dee"
    end)
    insist(g, "bob", "ack")
    g.third = true
  end)
  g.sim:run "25s"
  assert.is_true(g.third)
  is(g, "ack")
  agreed.together(g)
  g:calm()
  agreed.same(g)
  agreed.complete(g)
  g.sim:close()
end

-- Everybody sends as fast as there is room; somebody toggles every so often.
local function flood(g, bytes, messages)
  g.traffic = { count = messages }
  for index, name in ipairs(g.names) do
    local nextdoor = g.names[index % #g.names + 1]
    local filler = (" "):rep(bytes)
    g[name]:on("message", function(m)
      table.insert(g.bodies[name], m.body:match "^(.-) *$")
    end)
    g.sim:spawn(function()
      for n = 1, messages do
        assert(g[name]:send(("%s all %d%s"):format(name, n, filler)))
        assert(g[name]:send(("%s one %d%s"):format(name, n, filler), { to = nextdoor }))
      end
      g.sent = (g.sent or 0) + 1
    end)
  end
end

local function toggle(g, count, set)
  g.sim:spawn(function()
    for n = 1, count do
      set(n % 2 == 1 and "ack" or "nak", n)
      neap.sleep "20ms"
    end
    g.toggled = true
  end)
end

local function under_load(set)
  each_seed(20, function(seed)
    local g = agreed.group { seed = seed, loss = seed % 3 * 0.05, reorder = 0.05,
      with = {
        nakack = { window_bytes = "100KB" }, unicast = { window_bytes = "50KB" },
        settings = { timeout = "20s" },
      } }
    flood(g, 1000, 150)
    toggle(g, 8, function(mode, n) set(g, mode, n) end)
    g.sim:run "40s"
    assert.equal(3, g.sent)
    assert.is_true(g.toggled)
    g:calm()
    agreed.same(g)
    agreed.complete(g)
    for _, name in ipairs(g.names) do
      assert.equal(0, g[name].nakack.mode_pending)
      assert.equal(0, g[name].unicast.mode_pending)
    end
    g.sim:close()
  end)
end

describe("H44", function()
  it("all streams follow though the coordinator dies and a member stands still", function()
    each_seed(20, story)
  end)

  it("is refused as a whole when one cannot follow, and nothing changes", function()
    local g = agreed.group { names = NAMES, with = { stable = { interval = "20s" } } }
    for _, name in ipairs(g.names) do
      assert(g[name].stack:set { nakack = { retransmission = "ack" } })
    end
    g.sim:run "1s"
    assert(g.cho.stack:set { stable = { interval = 0, max_bytes = 0 } })
    local ok, code, why = g:call(function() return g.bob.stack:set(both "nak", { all = true }) end)
    assert.same({ nil, "refused" }, { ok, code })
    assert.truthy(why:match "^cho: nakack hears 'stable'", why)
    for _, name in ipairs(NAMES) do
      assert.equal("ack", g[name].nakack.retransmission)
      assert.equal("ack", g[name].unicast.retransmission)
    end
  end)
end)

describe("a toggle under full load", function()
  it("of one member loses, doubles and reorders nothing", function()
    under_load(function(g, mode, n) assert(g[g.names[n % 3 + 1]].stack:set(both(mode))) end)
  end)

  it("of the whole group loses, doubles and reorders nothing", function()
    under_load(function(g, mode, n)
      assert(g[g.names[n % 3 + 1]].stack:set(both(mode), { all = true }))
    end)
  end)

  it("taken back is a toggle, too", function()
    under_load(function(g, _, n)
      if n % 2 == 1 then
        assert(g.bob.stack:set({ nakack = { retransmission = "ack" } }, { all = true }))
      else
        assert(g.bob.stack:undo())
      end
    end)
  end)
end)
