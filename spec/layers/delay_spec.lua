-- delay: how long, in which order, and that nothing is lost.

local group = require "support.group"
local members = require "support.members"
local neap = require "neap"

local MS = 1e6

local bare = neap.stack(function(s)
  return s.stack "slow" { "A wire that takes its time.", s.delay {}, s.udp {} }
end)

-- bob notes when each message came, since the last pour.
local function world(seed, with)
  local sim, m = members.new({ "ann", "bob" }, { seed = seed, latency = "1ms" }, bare,
    { delay = with or {} })
  sim:run "1ms"
  m.bob.times = {}
  m.bob:on("message", function(msg)
    table.insert(m.bob.got, msg.body)
    table.insert(m.bob.times, (sim:now() - m.since) / MS - 1)
  end)
  return sim, m
end

local function pour(sim, m, count)
  m.since = sim:now()
  sim:spawn(function()
    for n = 1, count do assert(m.ann:send(tostring(n))) end
  end)
  sim:run "2s"
end

local function rises(list)
  for n = 2, #list do
    if list[n] < list[n - 1] then return false end
  end
  return true
end

describe("delay", function()
  it("lets everything pass until it is told otherwise", function()
    local sim, m = world(1)
    pour(sim, m, 3)
    assert.same({ 0, 0, 0 }, m.bob.times)
    assert.equal(0, m.bob.delay.delayed)
  end)

  it("holds up going up and going down", function()
    local sim, m = world(2, { up = "20ms" })
    pour(sim, m, 2)
    assert.same({ 20, 20 }, m.bob.times)
    m.ann.stack.delay.down = "5ms"
    m.bob.times = {}
    pour(sim, m, 2)
    assert.same({ 25, 25 }, m.bob.times)
    assert.equal(4, m.bob.delay.delayed)
    assert.equal("1 2 1 2", table.concat(m.bob.got, " "))
  end)

  it("draws times, in order or not", function()
    for _, ordered in ipairs { true, false } do
      local passed = 0
      group.each_seed(20, function(seed)
        local sim, m = world(seed, { up = "100ms", drawn = true, ordered = ordered })
        pour(sim, m, 20)
        assert.equal(20, #m.bob.got)
        for _, time in ipairs(m.bob.times) do assert(time >= 0 and time <= 100, time) end
        local numbers = {}
        for n, body in ipairs(m.bob.got) do numbers[n] = tonumber(body) end
        if not rises(numbers) then passed = passed + 1 end
        sim:close()
      end)
      assert.equal(ordered and 0 or 20, passed)
    end
  end)

  it("lets nothing overtake what a rule holds, or everything", function()
    for _, ordered in ipairs { true, false } do
      local sim, m = world(3, { up = "50ms", ordered = ordered, when = 'body="2"' })
      pour(sim, m, 3)
      assert.equal(ordered and "1 2 3" or "1 3 2", table.concat(m.bob.got, " "))
      assert.same(ordered and { 0, 50, 50 } or { 0, 0, 50 }, m.bob.times)
      assert.equal(1, m.bob.delay.delayed)
    end
  end)

  it("loses nothing when its queue is full: who is due first leaves early", function()
    local sim, m = world(4, { up = "100ms", queue = 10 })
    m.since = sim:now()
    sim:spawn(function()
      for n = 1, 25 do assert(m.ann:send(tostring(n))) end
    end)
    sim:run "50ms"
    assert.equal(10, m.bob.delay.held_up)
    assert.equal(15, m.bob.delay.early)
    assert.equal(15, #m.bob.got)
    m.bob.stack.delay.queue = 4
    assert.equal(4, m.bob.delay.held_up)
    sim:run "100ms"
    assert.equal(group.counted(25), table.concat(m.bob.got, " "))
    assert.equal(0, m.bob.delay.held_up)
  end)

  it("keeps what waits when it is turned off, and loses it with the member", function()
    local sim, m = world(5, { up = "100ms" })
    m.since = sim:now()
    m.ann:send "1"
    sim:run "10ms"
    m.bob.stack.delay.up = 0
    m.ann:send "2"
    sim:run "10ms"
    assert.equal("", table.concat(m.bob.got, " ")) -- In order, behind the first.
    sim:run "100ms"
    assert.equal("1 2", table.concat(m.bob.got, " "))
    m.bob.stack.delay.up = "100ms"
    m.ann:send "3"
    sim:run "10ms"
    m.bob:close()
    sim:settle()
    assert.equal("1 2", table.concat(m.bob.got, " "))
  end)

  for _, mode in ipairs { "nak", "ack" } do
    it("is mended below layers that put things in order, whatever it draws: " .. mode, function()
      local slow = neap.stack(function(s)
        return s.extend("lan", { "Takes its time.", s.before("udp",
          s.delay { up = "20ms", down = "5ms", drawn = true, ordered = false }) })
      end)
      group.each_seed(20, function(seed)
        local g = group.new { stack = slow, seed = seed, loss = 0.05,
          with = { nakack = { retransmission = mode } } }
        g:call(function()
          for n = 1, 20 do g.ann:send(tostring(n)) end
        end)
        g:calm()
        assert.equal(group.counted(20), g:got "bob")
        assert.equal(group.counted(20), g:got "cho")
        g.sim:close()
      end)
    end)
  end

  it("lets a view pass only behind what came before it", function()
    local slow = neap.stack(function(s)
      return s.extend("lan", { "Takes its time.", s.before("rsvp", s.delay { up = "10s" }) })
    end)
    local g = group.new { stack = slow }
    local seen = {}
    g.bob:on("message", function(msg) table.insert(seen, msg.body) end)
    g.bob:on("view", function(view) table.insert(seen, #view.members) end)
    g.ann:send "before"
    g.sim:run "1s"
    assert.same({}, seen)
    g:call(function() g.cho:leave() end)
    g.sim:run "1s"
    assert.same({ "before", 2 }, seen)
  end)

  it("breaks the order above it only when it may", function()
    local function built(with)
      return pcall(group.new, { stack = neap.stack(function(s)
        return s.extend("lan", { "Takes its time.", s.before("ufc", s.delay(with)) })
      end) })
    end
    local ok, text = built { ordered = false }
    assert.is_false(ok)
    assert.truthy(text:find("frag needs 'mcast_fifo'", 1, true), text)
    assert.truthy(text:find("delay breaks it", 1, true), text)
    local _, g = built { ordered = true, up = "1ms" }
    assert.has_error(function() g.ann.stack.delay.ordered = false end)
    g.ann:send "1"
    g.sim:settle()
    assert.equal("1", g:got "bob")
  end)
end)
