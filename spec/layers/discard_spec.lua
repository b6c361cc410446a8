-- discard: how much is lost, of whom, and that a seed repeats it.

local members = require "support.members"
local neap = require "neap"

local stack = neap.stack(function(s)
  return s.stack "holes" { "A wire with holes.", s.discard {}, s.udp {} }
end)

local function world(seed, with)
  local sim, m = members.new({ "ann", "bob", "cho" }, { seed = seed }, stack,
    with and { discard = with })
  sim:run "1ms"
  return sim, m
end

local function pour(sim, channel, count, options)
  sim:spawn(function()
    for n = 1, count do assert(channel:send(tostring(n), options)) end
  end)
  sim:run "50ms"
end

describe("discard", function()
  it("lets everything pass until it is told otherwise", function()
    local sim, m = world(1)
    pour(sim, m.ann, 1000)
    assert.equal(1000, #m.bob.got)
    assert.equal(1000, m.bob.discard.passed_up)
    assert.equal(0, m.bob.discard.dropped_up)
    assert.equal(1000, m.ann.discard.passed_down)
  end)

  it("loses its share on the way up, each receiver for itself", function()
    local sim, m = world(2, { up = 0.3 })
    pour(sim, m.ann, 5000, { loopback = false })
    for _, bob in ipairs { m.bob, m.cho } do
      local lost = bob.discard.dropped_up
      assert(lost > 1300 and lost < 1700, lost)
      assert.equal(5000, lost + bob.discard.passed_up)
      assert.equal(5000 - lost, #bob.got)
    end
    assert.not_same(m.bob.got, m.cho.got)
  end)

  it("loses its share on the way down, the same for everybody", function()
    local sim, m = world(3, { down = 0.3 })
    pour(sim, m.ann, 5000)
    local lost = m.ann.discard.dropped_down
    assert(lost > 1300 and lost < 1700, lost)
    assert.equal(5000 - lost, #m.bob.got)
    assert.same(m.bob.got, m.cho.got)
  end)

  it("may be changed at any time, from none to all and back", function()
    local sim, m = world(4)
    m.bob.stack.discard.up = 1
    pour(sim, m.ann, 100)
    assert.equal(0, #m.bob.got)
    assert.equal(100, #m.cho.got)
    m.bob.stack.discard.up = 0
    pour(sim, m.ann, 100)
    assert.equal(100, #m.bob.got)
    assert.has_error(function() m.bob.stack.discard.up = 1.5 end)
  end)

  it("can be meant for one sender only", function()
    local sim, m = world(5, { up = 1 })
    for _, who in ipairs { m.ann.address, m.cho.address } do
      m.bob.stack.discard.from = who
      m.bob.got, m.cho.stack.discard.up = {}, 0
      pour(sim, m.ann, 10)
      assert.equal(who == m.ann.address and 0 or 10, #m.bob.got)
    end
  end)

  it("loses the same again with the same seed, and others with another", function()
    local function story(seed)
      local sim, m = world(seed, { up = 0.2, down = 0.1 })
      pour(sim, m.ann, 500)
      return m.bob.got, sim:hash()
    end
    local got, hash = story(6)
    local again, hash_again = story(6)
    assert.same(got, again)
    assert.equal(hash, hash_again)
    local other = story(7)
    assert.not_same(got, other)
  end)
end)
