-- The simulated network: latency, chance, links, queues, partitions.

local neap = require "neap"

local MS = 1e6

-- Members on the bare wire, who note what came and when.
local function world(options, ...)
  local sim = neap.sim(options)
  local got, chans = {}, {}
  for _, name in ipairs { ... } do
    got[name] = {}
    chans[name] = sim:join("wire", { stack = "bare", name = name, on = {
      message = function(m)
        table.insert(got[name], { at = sim:now(), body = m.body, from = m.from_address })
      end,
    } })
  end
  sim:run "1ms"
  return sim, chans, got
end

local function say(sim, channel, ...)
  for _, body in ipairs { ... } do
    sim:spawn(function() assert(channel:send(body)) end)
  end
end

local function bodies(list)
  local texts = {}
  for index, row in ipairs(list) do texts[index] = row.body end
  return table.concat(texts, " ")
end

describe("the simulated network", function()
  it("takes exactly its latency", function()
    local sim, chans, got = world({ seed = 1, latency = "5ms" }, "ann", "bob", "cho")
    local sent = sim:now()
    say(sim, chans.ann, "hello")
    sim:run "20ms"
    assert.equal("hello", bodies(got.bob))
    assert.equal(sent + 5 * MS, got.bob[1].at)
    assert.equal(sent + 5 * MS, got.cho[1].at)
    assert.equal(chans.ann.address, got.bob[1].from)
  end)

  it("has latency that changes from now on, for all or for one link", function()
    local sim, chans, got = world({ seed = 1 }, "ann", "bob", "cho")
    sim:set { latency = "2ms" }
    sim:set { from = "ann", to = "cho", latency = "30ms" }
    local sent = sim:now()
    say(sim, chans.ann, "one")
    sim:run "50ms"
    assert.equal(2 * MS, got.bob[1].at - sent)
    assert.equal(30 * MS, got.cho[1].at - sent)
    sim:set { latency = "7ms" } -- The link of its own goes its own way.
    sent = sim:now()
    say(sim, chans.ann, "two")
    sim:run "50ms"
    assert.equal(7 * MS, got.bob[2].at - sent)
    assert.equal(30 * MS, got.cho[2].at - sent)
  end)

  it("keeps the order on a link in spite of jitter", function()
    local sim, chans, got = world({ seed = 3, latency = "1ms", jitter = "20ms" }, "ann", "bob")
    local sent, late = {}, 0
    for n = 1, 200 do
      sent[n] = sim:now()
      say(sim, chans.ann, tostring(n))
      sim:run "1ms"
    end
    sim:run "50ms"
    assert.equal(200, #got.bob)
    for n, row in ipairs(got.bob) do
      assert.equal(tostring(n), row.body)
      local delay = row.at - sent[n]
      assert(delay >= MS and delay <= 21 * MS, delay)
      if delay > 2 * MS then late = late + 1 end
    end
    assert(late > 100)
  end)

  it("lets packets pass each other only when told to", function()
    local sim, chans, got = world({ seed = 3, reorder = 0.2 }, "ann", "bob")
    for n = 1, 500 do
      say(sim, chans.ann, ("%03d"):format(n))
      sim:run "200us"
    end
    sim:run "50ms"
    assert.equal(500, #got.bob)
    local passed = 0
    for n = 2, 500 do
      if got.bob[n].body < got.bob[n - 1].body then passed = passed + 1 end
    end
    assert(passed > 40 and passed < 110, passed)
    assert(sim:counts().reordered > 60)
  end)

  it("loses and doubles as often as it was told, each link for itself", function()
    local sim, chans, got = world({ seed = 9, loss = 0.1, duplicate = 0.05 }, "ann", "bob", "cho")
    for n = 1, 4000 do
      say(sim, chans.ann, ("%04d"):format(n))
      sim:run "1ms"
    end
    sim:run "50ms"
    local differ = false
    for _, name in ipairs { "bob", "cho" } do
      local seen, twice = {}, 0
      for _, row in ipairs(got[name]) do
        if seen[row.body] then twice = twice + 1 end
        seen[row.body] = true
      end
      local lost = 0
      for n = 1, 4000 do
        if not seen[("%04d"):format(n)] then lost = lost + 1 end
      end
      -- Four standard deviations: 4 * sqrt(4000 * 0.1 * 0.9) = 76; for the doubles 4 * 13.
      assert(lost > 324 and lost < 476, lost)
      assert(twice > 128 and twice < 232, twice)
    end
    for n = 1, #got.bob do differ = differ or got.bob[n].body ~= (got.cho[n] or {}).body end
    assert(differ)
    assert.equal(4000, #got.ann) -- Nothing is lost on the way to oneself.
  end)

  it("loses nothing and everything at the ends of the range", function()
    local sim, chans, got = world({ seed = 1, loss = 1 }, "ann", "bob")
    say(sim, chans.ann, "lost")
    sim:run "10ms"
    sim:set { loss = 0 }
    say(sim, chans.ann, "found")
    sim:run "10ms"
    assert.equal("found", bodies(got.bob))
    assert.equal(1, sim:counts().lost["lost by chance"])
  end)

  it("sends at the capacity of a link, and loses what its queue cannot hold", function()
    local sim, chans, got = world({ seed = 1, capacity = "1MB", queue = "60KB" }, "ann", "bob")
    local sent = sim:now()
    say(sim, chans.ann, ("x"):rep(50000))
    sim:run "200ms"
    local took = (got.bob[1].at - sent) / MS -- 1 ms of latency and a millisecond per kilobyte
    assert(took > 51 and took < 51.5, took)
    for _ = 1, 5 do say(sim, chans.ann, ("x"):rep(25000)) end
    sim:run "1s"
    assert.equal(3, #got.bob) -- The first, and two of 25 kB that the queue had room for.
    assert(sim:counts().lost["link queue full"] > 0)
  end)

  it("parts groups, and heals", function()
    local sim, chans, got = world({ seed = 1 }, "ann", "bob", "cho", "dee")
    sim:partition({ "ann" }, { "bob", "cho" })
    say(sim, chans.ann, "a1")
    say(sim, chans.bob, "b1")
    say(sim, chans.dee, "d1") -- In no group: hears all, and all hear it.
    sim:run "10ms"
    assert.equal("a1 d1", bodies(got.ann))
    assert.equal("b1 d1", bodies(got.bob))
    assert.equal("b1 d1", bodies(got.cho))
    assert.equal("d1 a1 b1", bodies(got.dee))
    sim:heal()
    say(sim, chans.ann, "a2")
    sim:run "10ms"
    assert.equal("b1 d1 a2", bodies(got.bob))
    assert.equal(3, sim:counts().lost["lost at a cut"]) -- To bob, to cho, and to ann.
  end)

  it("cuts one way", function()
    local sim, chans, got = world({ seed = 1 }, "ann", "bob")
    sim:cut { from = "ann", to = "bob" }
    say(sim, chans.ann, "a1")
    say(sim, chans.bob, "b1")
    sim:run "10ms"
    assert.equal("b1", bodies(got.bob))
    assert.equal("a1 b1", bodies(got.ann))
  end)

  it("carries packets that were under way before a cut", function()
    local sim, chans, got = world({ seed = 1, latency = "10ms" }, "ann", "bob")
    say(sim, chans.ann, "a1")
    sim:run "1ms"
    sim:cut { from = "ann", to = "bob" }
    sim:run "20ms"
    assert.equal("a1", bodies(got.bob))
  end)

  it("carries packets of a host that is only made up, and tells what it is sent", function()
    local sim, chans, got = world({ seed = 1, log = 100 }, "ann", "bob")
    local said = {}
    local function ask(options) return pcall(sim.inject, sim, options) end
    say(sim, chans.ann, "a1")
    sim:run "10ms"
    for _, row in ipairs(sim:log()) do
      if row.from == "ann" and row.to == "bob" then said[#said + 1] = row.bytes end
    end
    local place = sim:inject { from = "fay", to = "bob", bytes = said[1] }
    assert.equal("10.0.0.3:1", place)
    sim:inject { from = "fay", bytes = "no packet" }
    sim:run "10ms"
    assert.equal("a1 a1", bodies(got.bob)) -- The bytes of ann's.
    assert.equal("a1", bodies(got.ann))
    assert.is_false((ask { to = "bob" }))
    assert.is_false((ask { from = "fay", bytes = ("x"):rep(70000) }))
  end)

  it("refuses a port that is taken, as a kernel would", function()
    local sim = neap.sim { seed = 1 }
    local with = { udp = { port = 7800, port_range = 0 } }
    assert(sim:join("wire", { stack = "bare", name = "ann", with = with }))
    assert(sim:join("wire", { stack = "bare", name = "bob", with = with })) -- Another host.
    local channel, code, detail = sim:join("wire", { stack = "bare", name = "ann", with = with })
    assert.is_nil(channel)
    assert.equal("system", code)
    assert(detail:find("udp: cannot open: bind 10.0.0.1:7800: address in use", 1, true), detail)
  end)

  it("says what it expected when a setting is wrong", function()
    local function why(settings)
      local ok, text = pcall(function() neap.sim { seed = 1 }:set(settings) end)
      assert.is_false(ok)
      return text
    end
    assert.matches("loss: 1.5 is outside 0 .. 1", why { loss = 1.5 }, 1, true)
    assert.matches("did you mean 'latency'", why { latencie = "1ms" }, 1, true)
    assert.matches("latency", why { latency = 5 }, 1, true) -- A time has a unit.
    assert.matches("both ends", why { from = "ann", loss = 1 }, 1, true)
  end)
end)
