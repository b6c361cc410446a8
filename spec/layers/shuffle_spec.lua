-- shuffle: who overtakes whom, by seed, and that nobody waits for ever.

local group = require "support.group"
local members = require "support.members"
local neap = require "neap"

local bare = neap.stack(function(s)
  return s.stack "mixed" { "A wire where messages overtake each other.", s.shuffle {}, s.udp {} }
end)

local function world(seed, with)
  local sim, m = members.new({ "ann", "bob", "cho" }, { seed = seed }, bare,
    { shuffle = with or {} })
  sim:run "1ms"
  return sim, m
end

local function pour(sim, channel, count)
  sim:spawn(function()
    for n = 1, count do assert(channel:send(tostring(n))) end
  end)
  sim:run "5ms"
end

local function sorted(list)
  local copy = { unpack(list) }
  table.sort(copy, function(a, b) return tonumber(a) < tonumber(b) end)
  return table.concat(copy, " ")
end

describe("shuffle", function()
  it("lets everything pass until it is told otherwise", function()
    local sim, m = world(1)
    pour(sim, m.ann, 100)
    assert.equal(group.counted(100), table.concat(m.bob.got, " "))
    assert.equal(0, m.bob.shuffle.shuffled)
  end)

  it("collects so many, and lets them go in a drawn order", function()
    group.each_seed(20, function(seed)
      local sim, m = world(seed)
      m.bob.stack.shuffle.up = 8
      pour(sim, m.ann, 20)
      assert.equal(16, #m.bob.got)
      assert.equal(4, m.bob.shuffle.held_up)
      assert.equal("1 2 3 4 5 6 7 8", sorted { unpack(m.bob.got, 1, 8) }) -- in each collection
      sim:run "20ms"
      assert.equal(group.counted(20), sorted(m.bob.got))
      assert.equal(3, m.bob.shuffle.rounds)
      assert.equal(20, m.bob.shuffle.shuffled)
      assert.not_equal(group.counted(20), table.concat(m.bob.got, " "))
      sim:close()
    end)
  end)

  it("draws the same again with the same seed, for everybody when it is on the way down", function()
    local function story(seed)
      local sim, m = world(seed, { down = 10 })
      pour(sim, m.ann, 30)
      sim:run "20ms"
      assert.same(m.bob.got, m.cho.got)
      return m.bob.got, sim:hash()
    end
    local got, hash = story(6)
    local again, hash_again = story(6)
    assert.same(got, again)
    assert.equal(hash, hash_again)
    assert.not_same(got, (story(7)))
  end)

  it("mixes only what a rule means", function()
    local sim, m = world(8, { up = 2 })
    m.bob.stack.shuffle.when = "from=" .. m.ann.address
    pour(sim, m.cho, 5)
    assert.equal(group.counted(5), table.concat(m.bob.got, " "))
    pour(sim, m.ann, 2)
    assert.equal(2, m.bob.shuffle.shuffled)
  end)

  it("lets go what waits when it is turned off or made smaller", function()
    local sim, m = world(9, { up = 100, wait = "1s" })
    pour(sim, m.ann, 5)
    assert.equal(5, m.bob.shuffle.held_up)
    m.bob.stack.shuffle.up = 6
    assert.equal(5, m.bob.shuffle.held_up)
    m.bob.stack.shuffle.up = 4
    sim:run "1ms"
    assert.equal(5, #m.bob.got)
    pour(sim, m.ann, 3)
    m.bob.stack.shuffle.up = 0
    sim:run "1ms"
    assert.equal(8, #m.bob.got)
  end)

  for _, mode in ipairs { "nak", "ack" } do
    it("is mended below layers that put things in order: " .. mode, function()
      local mixed = neap.stack(function(s)
        return s.extend("lan", { "Mixes.", s.before("udp", s.shuffle { up = 6, down = 4 }) })
      end)
      group.each_seed(20, function(seed)
        local g = group.new { stack = mixed, seed = seed, loss = 0.05,
          with = { nakack = { retransmission = mode } } }
        g:call(function()
          for n = 1, 20 do
            g.ann:send(tostring(n))
            g.cho:send("c" .. n, { to = "bob" })
          end
        end)
        g:calm()
        local ann, cho = {}, {}
        for _, body in ipairs(g.bodies.bob) do
          table.insert(body:match "c" and cho or ann, (body:gsub("c", "")))
        end
        assert.equal(group.counted(20), table.concat(ann, " "))
        assert.equal(group.counted(20), table.concat(cho, " "))
        assert.is_true(g.bob.shuffle.shuffled > 0)
        g.sim:close()
      end)
    end)
  end

  it("lets a view pass only behind what came before it", function()
    local mixed = neap.stack(function(s)
      return s.extend("lan", { "Mixes.", s.before("rsvp", s.shuffle { up = 9, wait = "10s" }) })
    end)
    local g = group.new { stack = mixed }
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
end)
