-- Rules: one message of a packet is dropped, delayed or doubled; the rest arrives.

local neap = require "neap"

local MS = 1e6

local function world(options)
  local sim = neap.sim(options)
  local got, chans = { bob = {}, cho = {} }, {}
  for _, name in ipairs { "ann", "bob", "cho" } do
    chans[name] = sim:join("wire", { stack = "spec/support/ordered.lua", name = name, on = {
      message = function(m)
        if got[name] then table.insert(got[name], { at = sim:now(), body = m.body }) end
      end,
    } })
  end
  sim:run "1ms"
  return sim, chans, got
end

-- All in one packet: they are sent in one turn.
local function say(sim, channel, ...)
  local list = { ... }
  sim:spawn(function()
    for _, body in ipairs(list) do assert(channel:send(body)) end
  end)
end

local function bodies(list)
  local texts = {}
  for index, row in ipairs(list) do texts[index] = row.body end
  return table.concat(texts, " ")
end

describe("rules", function()
  it("drop one message of a bundle on one link", function()
    local sim, chans, got = world { seed = 1, log = 100 }
    local id = sim:drop { from = "ann", to = "bob", layer = "fifo", seq = 1 }
    say(sim, chans.ann, "one", "two", "three")
    sim:run "20ms"
    assert.equal("one three", bodies(got.bob))
    assert.equal("one two three", bodies(got.cho))
    assert.equal(1, sim:hits(id))
    local packets = {}
    for _, row in ipairs(sim:log()) do
      if row.from == "ann" and row.to ~= "ann" then packets[#packets + 1] = row end
    end
    assert.equal(2, #packets) -- They were one packet, and what is left of it still is.
    assert(packets[1].ruled and not packets[2].ruled)
    assert.equal("fifo seq=0, 3 B | fifo seq=2, 5 B", packets[1].text)
  end)

  it("drop whole packets when every message fits", function()
    local sim, chans, got = world { seed = 1 }
    local id = sim:drop { from = "ann", to = "bob" }
    say(sim, chans.ann, "one", "two")
    say(sim, chans.cho, "three")
    sim:run "20ms"
    assert.equal("three", bodies(got.bob))
    assert.equal(2, sim:hits(id))
    assert.equal(1, sim:counts().lost["dropped by a rule"])
  end)

  it("know the body", function()
    local sim, chans, got = world { seed = 1 }
    sim:drop { body = "two", to = "cho" }
    say(sim, chans.ann, "one", "two", "twofold")
    sim:run "20ms"
    assert.equal("one twofold", bodies(got.cho))
    assert.equal("one two twofold", bodies(got.bob))
  end)

  it("hit so many times, and not after they were cleared", function()
    local sim, chans, got = world { seed = 1 }
    local id = sim:drop { to = "bob", layer = "fifo", times = 2 }
    say(sim, chans.ann, "1", "2", "3")
    sim:run "20ms"
    assert.equal("3", bodies(got.bob))
    local other = sim:drop { to = "bob" }
    assert.is_true(sim:clear(other))
    assert.is_false(sim:clear(other))
    say(sim, chans.ann, "4")
    sim:run "20ms"
    assert.equal("3 4", bodies(got.bob))
    assert.equal(2, sim:hits(id))
    assert.equal(0, sim:hits(other))
  end)

  it("hit with their probability, and leave the losses alone", function()
    local function story(probability)
      local sim, chans, got = world { seed = 5, loss = 0.1 }
      local id
      if probability then id = sim:drop { to = "bob", probability = probability } end
      for n = 1, 1000 do
        say(sim, chans.ann, ("%04d"):format(n))
        sim:run "2ms"
      end
      sim:run "50ms"
      return got, id and sim:hits(id), sim:counts().lost["lost by chance"]
    end
    local plain, _, lost = story(nil)
    local ruled, hits, lost_too = story(0.3)
    assert(hits > 220 and hits < 320, hits) -- Of the 900 that were not lost; four deviations.
    assert.equal(lost, lost_too)
    assert.equal(bodies(plain.cho), bodies(ruled.cho))
    assert.equal(#plain.bob, #ruled.bob + hits)
  end)

  it("delay a message, which then arrives by itself", function()
    local sim, chans, got = world { seed = 1 }
    sim:delay { body = "two", to = "bob", by = "10ms" }
    local sent = sim:now()
    say(sim, chans.ann, "one", "two")
    sim:run "50ms"
    assert.equal("one two", bodies(got.bob))
    assert.equal(1 * MS, got.bob[1].at - sent)
    assert.equal(11 * MS, got.bob[2].at - sent)
    assert.equal(1, sim:counts().delayed)
    assert.equal(0, sim:counts().lost["dropped by a rule"])
  end)

  it("double a message", function()
    local sim, chans, got = world { seed = 1 }
    sim:duplicate { layer = "fifo", seq = 1, to = "bob", by = "3ms" }
    say(sim, chans.ann, "one", "two", "three")
    sim:run "50ms"
    assert.equal("one two three", bodies(got.bob))
    assert.equal(1, chans.bob.fifo.stale)
    assert.equal(0, chans.cho.fifo.stale)
  end)

  it("say what they expected", function()
    local sim = world { seed = 1 }
    local function why(rule)
      local ok, text = pcall(function() sim:drop(rule) end)
      assert.is_false(ok)
      return text
    end
    assert.matches("did you mean 'fifo'", why { layer = "fifi" }, 1, true)
    assert.matches("did you mean 'seqno'", why { layer = "nakack", seqnr = 5 }, 1, true)
    assert.matches("did you mean 'msg'", why { layer = "nakack", type = "mgs" }, 1, true)
    assert.matches("times", why { times = 0 }, 1, true)
    assert.matches("probability", why { probability = 2 }, 1, true)
    assert.has_error(function() sim:delay { body = "x" } end) -- By how much?
  end)
end)
