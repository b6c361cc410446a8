-- sim: the surface of simulated worlds, on the bare wire where that is enough.

local members = require "support.members"
local neap = require "neap"

local function fails(text, f, ...)
  local ok, problem = pcall(f, ...)
  assert.is_false(ok)
  assert.truthy(tostring(problem):find(text, 1, true), tostring(problem))
end

local function story(seed)
  local sim, m = members.group({ "ann", "bob", "cho" }, { seed = seed, loss = 0.1, jitter = "3ms" })
  sim:spawn(function()
    for i = 1, 50 do
      m.ann:send(i)
      neap.sleep "2ms"
    end
  end)
  sim:run "5s"
  return sim:hash(), table.concat(m.bob.got, " ")
end

describe("a sim", function()
  it("gives the same run for the same seed, and another for another", function()
    local hash, got = story(7)
    local again, got_again = story(7)
    assert.equal(hash, again)
    assert.equal(got, got_again)
    assert.truthy(hash:match "^%x+$")
    assert.is_true(story(8) ~= hash)
  end)

  it("advances virtual time by what run says", function()
    local sim = neap.sim { seed = 1 }
    assert.equal(0, sim:now())
    sim:run "2s"
    assert.equal(2e9, sim:now())
    fails("a time needs a unit", sim.run, sim, 2)
  end)

  it("settles when only background work is left", function()
    local sim, m = members.group { "ann", "bob" }
    m.ann:send "x"
    local before = sim:now()
    assert.is_true(sim:settle())
    assert.same({ "x" }, m.bob.got)
    assert.is_true(sim:now() - before < 60e9)
  end)

  it("settles only when sleeping coroutines have woken", function()
    local sim = neap.sim { seed = 1 }
    local woke
    sim:spawn(function()
      neap.sleep "10min"
      woke = neap.now()
    end)
    sim:settle()
    assert.equal(600e9, woke)
  end)

  it("does not settle for ever", function()
    local sim = neap.sim { seed = 3 }
    sim:spawn(function()
      while true do neap.sleep "1min" end
    end)
    fails("not settled after a virtual hour (seed 3)", sim.settle, sim)
    assert.equal(3600e9, sim:now())
  end)

  it("raises what a coroutine raised, with its traceback", function()
    local sim = neap.sim { seed = 1 }
    local function deep() error "deep down" end
    sim:spawn(function()
      neap.sleep "1ms"
      deep()
    end)
    local ok, problem = pcall(sim.run, sim, "1s")
    assert.is_false(ok)
    assert.truthy(problem:find("deep down", 1, true))
    assert.truthy(problem:find("in function 'deep'", 1, true), problem)
  end)

  it("runs coroutines in the order of what they wait for", function()
    local sim = neap.sim { seed = 1 }
    local log = {}
    local function sleeper(name, time)
      sim:spawn(function()
        neap.sleep(time)
        log[#log + 1] = name
      end)
    end
    sleeper("c", "3ms")
    sleeper("a", "1ms")
    sleeper("b1", "2ms")
    sleeper("b2", "2ms")
    sim:run "3ms"
    assert.equal("a b1 b2 c", table.concat(log, " "))
  end)

  it("is what neap.now, spawn and stop act on inside it", function()
    local sim = neap.sim { seed = 1 }
    local at = {}
    sim:spawn(function()
      neap.sleep "5ms"
      at[1] = neap.now()
      neap.spawn(function() at[2] = neap.now() end)
      neap.sleep "5ms"
      neap.stop()
    end)
    sim:run "1s"
    assert.same({ 5e6, 5e6 }, at)
    assert.equal(10e6, sim:now())
    sim:run "1ms"
    assert.equal(11e6, sim:now())
  end)

  it("cannot be run from inside", function()
    local sim = neap.sim { seed = 1 }
    sim:spawn(function() sim:run "1s" end)
    fails("run moves the time of this sim, and is called outside of it", sim.run, sim, "1s")
  end)

  it("may run inside another", function()
    local outer, inner = neap.sim { seed = 1 }, neap.sim { seed = 2 }
    local now
    outer:spawn(function()
      inner:spawn(function() neap.sleep "1s" end)
      inner:run "2s"
      now = neap.now()
    end)
    outer:run "1ms"
    assert.equal(0, now)
    assert.equal(2e9, inner:now())
  end)

  it("knows its settings", function()
    fails("a sim has no setting 'lost' (did you mean 'loss'?)", neap.sim, { lost = 1 })
    fails("loss", neap.sim, { loss = 2 })
    fails("seed is a whole number", neap.sim, { seed = "x" })
    for _, log in ipairs { -1, 1.5, 1e300, 0 / 0, "10", true } do
      fails("log is a number of packets", neap.sim, { log = log })
    end
    local sim = neap.sim { seed = 1 }
    fails("latency", sim.set, sim, { latency = 5 })
    fails("a link has both ends", sim.set, sim, { from = "ann", loss = 1 })
  end)

  it("shows itself", function()
    local sim = neap.sim { seed = 9 }
    sim:run "2s"
    assert.equal("sim seed 9 at 2s", tostring(sim))
  end)
end)

describe("a sim's network", function()
  local sim, m
  before_each(function() sim, m = members.new({ "ann", "bob", "cho" }, { seed = 1 }) end)

  local function send(body)
    m.ann:send(body)
    sim:settle()
  end

  it("loses what set says, of every link or of one", function()
    sim:run "1ms"
    sim:set { from = "ann", to = "bob", loss = 1 }
    send "x"
    assert.same({}, m.bob.got)
    assert.same({ "x" }, m.cho.got)
    sim:set { loss = 1 }
    send "y"
    assert.same({ "x" }, m.cho.got)
  end)

  it("is late as latency says", function()
    sim:run "1ms"
    sim:set { latency = "50ms" }
    local at
    m.bob:on("message", function() at = neap.now() end)
    send "x"
    assert.equal(51e6, at)
  end)

  it("drops by rules on fields, the body or the link, so often, and counts", function()
    sim:run "1ms"
    local id = sim:drop { from = "ann", to = "bob", body = "x", times = 1 }
    send "x"
    send "x"
    send "y"
    assert.same({ "x", "y" }, m.bob.got)
    assert.same({ "x", "x", "y" }, m.cho.got)
    assert.equal(1, sim:hits(id))
    local all = sim:drop { from = "ann" }
    send "z"
    assert.equal(2, #m.bob.got)
    assert.is_true(sim:clear(all))
    assert.is_false(sim:clear(all))
    assert.is_true(sim:hits(all) > 0)
    send "z"
    assert.equal(3, #m.bob.got)
    fails("there never was a rule", sim.hits, sim, 99)
    fails("hits takes what drop, delay or duplicate gave", sim.hits, sim, "x")
    fails("clear takes what drop, delay or duplicate gave", sim.clear, sim)
  end)

  it("delays and duplicates by rules", function()
    sim:run "1ms"
    sim:delay { to = "bob", by = "1s", times = 1 }
    sim:duplicate { to = "cho", times = 1 }
    m.ann:send "x"
    sim:run "500ms"
    assert.same({}, m.bob.got)
    assert.same({ "x", "x" }, m.cho.got)
    sim:run "1s"
    assert.same({ "x" }, m.bob.got)
  end)

  it("drops by the fields of any layer's header", function()
    local grouped, g = members.group { "ann", "bob", "cho" }
    local id = grouped:drop {
      from = "ann", to = "bob", layer = "nakack", type = "msg", body = "x", times = 1,
    }
    g.ann:send "x"
    grouped:run "5s"
    assert.equal(1, grouped:hits(id))
    assert.same({ "x" }, g.bob.got)
  end)

  it("says what is wrong with a rule", function()
    fails("drop", sim.drop, sim, { frm = "ann" })
    fails("drop takes a table", sim.drop, sim, "ann")
  end)

  it("says when nobody has the name that a rule or a cut is about", function()
    local function note(ok, text)
      assert.is_truthy(ok)
      return text
    end
    assert.is_nil(note(sim:drop { from = "ann", to = "bob", times = 1 }))
    local text = note(sim:drop { from = "anne", times = 1 })
    assert.equal("nobody is called 'anne' so far (did you mean 'ann'?): it holds when one joins",
      text)
    assert.matches("'zoe' so far: it holds", note(sim:delay { to = "zoe", by = "1ms" }))
    assert.matches("'zoe' so far", note(sim:cut { from = "ann", to = "zoe" }))
    assert.is_nil(note(sim:cut { from = m.ann, to = "bob" }))
    local both = note(sim:partition({ "ann", "bop" }, { "bob", "chox" }))
    assert.matches("'bop' so far %(did you mean 'bob'%?%).*\nnobody is called 'chox'", both)
    assert.is_nil(note(sim:partition({ "ann" }, { "bob" })))
    sim:heal()
  end)

  it("falls into parts and heals", function()
    sim:run "1ms"
    sim:partition({ "ann" }, { "bob", "cho" })
    send "x"
    assert.same({}, m.bob.got)
    sim:heal()
    send "y"
    assert.same({ "y" }, m.bob.got)
    sim:cut { from = "ann", to = "bob" }
    send "z"
    assert.same({ "y" }, m.bob.got)
    assert.same({ "y", "z" }, m.cho.got)
    fails("cut takes both ends", sim.cut, sim, { from = "ann" })
  end)

  it("counts what became of the packets", function()
    sim:run "1ms"
    send "x"
    local counts = sim:counts()
    assert.is_true(counts.sent > 0 and counts.arrived > 0)
    assert.equal("table", type(counts.lost))
  end)

  it("remembers packets when asked to", function()
    local logged = neap.sim { seed = 1, log = 100 }
    local d = members.join(logged, { "ann", "bob" }, "bare")
    logged:run "1ms"
    d.ann:send "hello"
    logged:settle()
    local rows = logged:log()
    assert.is_true(#rows > 0)
    assert.equal("ann", rows[1].from)
    assert.is_true(#rows[1].bytes > 0)
  end)
end)

describe("a sim's members", function()
  it("are paused, resumed and killed by name", function()
    local sim, m = members.group { "ann", "bob", "cho" }
    assert.is_true(sim:pause "bob")
    m.ann:send "x"
    sim:run "1s"
    assert.same({}, m.bob.got)
    assert.is_true(sim:resume "bob")
    sim:run "1s"
    assert.same({ "x" }, m.bob.got)
    assert.is_true(sim:kill "bob")
    assert.is_false(m.bob:is_open())
    sim:run "40s"
    assert.equal(2, #m.ann:view().members)
    assert.same({ nil, "not a member", "nobody is called 'zoe'" }, { sim:pause "zoe" })
  end)

  it("believe an injected view", function()
    local sim, m = members.group { "ann", "bob", "cho" }
    assert.is_true(sim:inject_view("bob", { "bob" }))
    sim:run "1ms"
    assert.same({ "bob" }, m.bob:view().members)
    fails("inject_view takes a name and a list", sim.inject_view, sim, "bob")
  end)

  it("end with the sim", function()
    local sim, m = members.group { "ann", "bob" }
    sim:close()
    sim:close()
    assert.is_false(m.ann:is_open())
    assert.same({ nil, "closed" }, { m.ann:send "x" })
    assert.is_true(m.ann:close())
    fails("ann is closed", function() return m.ann.nakack.waiting end)
    assert.same({}, m.ann.stack:layers())
    assert.equal("number", type(sim:now()))
    fails("this world is closed", sim.run, sim, "1s")
    fails("this world is closed", sim.hash, sim)
  end)

  it("cannot be ended from inside", function()
    local sim, m = members.group { "ann", "bob" }
    local problem
    m.bob:on("message", function() problem = select(2, pcall(sim.close, sim)) end)
    m.ann:send "x"
    sim:run "1s"
    assert.truthy(problem:find("cannot end from inside", 1, true))
    assert.is_true(m.bob:is_open())
  end)
end)
