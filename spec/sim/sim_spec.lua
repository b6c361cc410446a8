-- The simulated world as a whole: its clock, settling, and its hash.

local neap = require "neap"

local function pair(options)
  local sim = neap.sim(options)
  local ann = sim:join("wire", { stack = "spec/support/basic.lua", name = "ann" })
  local bob = sim:join("wire", { stack = "spec/support/basic.lua", name = "bob" })
  sim:run "3s"
  return sim, ann, bob
end

describe("virtual time", function()
  it("goes as far as it is told", function()
    local sim = neap.sim { seed = 1 }
    assert.equal(0, sim:now())
    sim:run "90s"
    assert.equal(90e9, sim:now())
    sim:run "1ns"
    assert.equal(90e9 + 1, sim:now())
  end)

  it("wakes coroutines on the nanosecond", function()
    local sim = neap.sim { seed = 1 }
    local woke
    sim:spawn(function()
      neap.sleep "1500us"
      woke = neap.now()
    end)
    sim:run "1s"
    assert.equal(1500000, woke)
  end)
end)

describe("settling", function()
  it("ends when only heartbeats and their like are left", function()
    local sim, ann, bob = pair { seed = 2, loss = 0.2 }
    local got = 0
    bob:on("message", function() got = got + 1 end)
    sim:spawn(function()
      for n = 1, 50 do ann:send(tostring(n)) end
    end)
    local began = sim:now()
    sim:settle()
    assert.equal(50, got)
    assert(sim:now() - began < 60e9)
    local heartbeats = bob.fd_all.heartbeats_received
    sim:run "10s"
    assert(bob.fd_all.heartbeats_received > heartbeats)
  end)

  it("waits for packets that are under way", function()
    local sim = neap.sim { seed = 2, latency = "500ms" }
    local got
    local ann = sim:join("wire", { stack = "bare", name = "ann" })
    sim:join("wire", { stack = "bare", name = "bob", on = {
      message = function(m) got = m.body end,
    } })
    sim:run "1ms"
    ann:send "on its way"
    sim:settle()
    assert.equal("on its way", got)
  end)

  it("waits for coroutines that sleep", function()
    local sim = pair { seed = 2 }
    local woke = false
    sim:spawn(function()
      neap.sleep "20min"
      woke = true
    end)
    sim:settle()
    assert.is_true(woke)
  end)

  it("does not wait for what a paused member has to do", function()
    local sim, ann = pair { seed = 2 }
    sim:spawn(function() ann:send "unheard" end)
    sim:run "1us"
    sim:pause "ann"
    sim:settle()
    assert(sim:now() < 10e9)
  end)

  it("names what never ends", function()
    local sim = pair { seed = 2 }
    sim:spawn(function()
      while true do neap.sleep "1s" end
    end)
    local stuck = neap.layer "stuck" {
      doc = "Works for ever, in the foreground.",
      open = function(self)
        local function again(layer) layer:after("100ms", again) end
        self:after("100ms", again)
      end,
    }
    assert(stuck)
    sim:join("wire", { stack = "spec/support/stuck.lua", name = "eve" })
    local ok, text = pcall(sim.settle, sim)
    assert.is_false(ok)
    assert.matches("not settled after a virtual hour (seed 2)", text, 1, true)
    assert.matches("eve: a timer of stuck is due in", text, 1, true)
  end)
end)

describe("the hash", function()
  local function run(luajit, seed)
    local pipe = assert(io.popen(luajit .. " spec/support/hash_story.lua " .. seed .. " 2>&1"))
    local text = pipe:read "*a"
    pipe:close()
    assert.matches("^%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x\n$", text)
    return text
  end

  it("is the same in three processes, compiled, interpreted, and compiled at once", function()
    for seed = 1, 3 do
      local hash = run("luajit", seed)
      assert.equal(hash, run("luajit -joff", seed))
      assert.equal(hash, run("luajit -Ohotloop=2", seed))
    end
  end)

  it("differs between seeds", function()
    assert.are_not.equal(run("luajit", 1), run("luajit", 2))
  end)

  it("is the same whether packets are logged or not (JGRP-2619)", function()
    for seed = 1, 20 do
      local function hash(log)
        local sim = pair { seed = seed, loss = 0.1, log = log }
        sim:run "1s"
        return sim:hash()
      end
      assert.equal(hash(nil), hash(1000))
    end
  end)

  it("covers what is done to the world", function()
    local function hash(act)
      local sim = pair { seed = 3 }
      if act then act(sim) end
      sim:run "1s"
      return sim:hash()
    end
    local plain = hash(nil)
    assert.equal(plain, hash(nil))
    for _, act in ipairs {
      function(sim) sim:set { latency = "2ms" } end,
      function(sim) sim:partition({ "ann" }, { "bob" }) end,
      function(sim) sim:cut { from = "ann", to = "bob" } end,
      function(sim) sim:pause "bob" end,
      function(sim) sim:kill "bob" end,
      function(sim) sim:drop { to = "bob" } end,
      function(sim) sim:inject_view("bob", { "bob" }) end,
    } do
      assert.are_not.equal(plain, hash(act))
    end
  end)
end)
