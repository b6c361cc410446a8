-- A coordinator that asks synchronously whether all members have its view (view_ack = "rsvp").

local Channel = require "neap.channel"
local build = require "support.build"
local group = require "support.group"
local neap = require "neap"

local PATIENT = { timeout = "1000s" } -- of fd_all: nobody is suspected
local RSVP = { gms = { view_ack = "rsvp" } }

describe("gms, view_ack = rsvp", function()
  it("knows after a round trip that a view is everywhere, joiners and all", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, with = RSVP }
      local gms = g.ann.stack.gms
      local before = gms.installs
      g:join("dee", { with = RSVP })
      g.sim:run "2s"
      assert.equal(1, gms.installs - before)
      -- To the joiner the view goes with its answer, and then its names: it may take longer.
      assert(gms.install_time >= "2ms" and gms.install_time < "50ms", tostring(gms.install_time))
      assert.equal(0, gms.holds)
      g.dee:leave { wait = false }
      g.sim:run "2s"
      assert.equal(2, gms.installs - before)
      assert.equal(3, #g.cho:view().members)
      assert.is_false(gms.installing)
      g.sim:close()
    end)
  end)

  it("goes on after its time when a member does not answer, and gives it the view later", function()
    local g = group.new { with = { fd_all = PATIENT, gms = { view_ack = "rsvp",
      view_ack_collection_timeout = "1s" } } }
    local gms = g.ann.stack.gms
    g.sim:pause "cho"
    g:join("dee", { with = RSVP })
    g.sim:run "500ms"
    assert.is_true(gms.installing)
    g.sim:run "1s"
    assert.is_false(gms.installing)
    assert.equal(1, gms.acks_missing)
    g:join("eve", { with = RSVP })
    g.sim:run "3s"
    assert.equal(5, #g.dee:view().members)
    g.sim:resume "cho"
    g.sim:run "3s"
    assert.equal(5, #g.cho:view().members)
    assert.equal(0, gms.holds)
  end)

  it("waits for who has the view and has not answered", function()
    local g = group.new { with = RSVP }
    local gms = g.ann.stack.gms
    local silent = g.sim:drop { from = "cho", to = "ann", layer = "rsvp", type = "response" }
    local acks, before = gms.acks, gms.installs
    g:join("dee", { with = RSVP })
    g.sim:run "500ms"
    assert.equal(3, gms.acks - acks)
    assert.is_true(gms.installing)
    g.sim:clear(silent)
    g.sim:run "800ms"
    assert.is_false(gms.installing)
    assert.equal(1, gms.installs - before)
  end)

  it("counts on acks where a member could not answer", function()
    local g = group.new { with = RSVP }
    local gms = g.ann.stack.gms
    g.ann[Channel.own].by_address[g.cho.address].generation = 0 -- as if it were not Neap's
    local before, refused = gms.installs, g.ann.stack.rsvp.refused
    g:join "dee"
    g.sim:run "3s"
    assert.equal(refused + 1, g.ann.stack.rsvp.refused)
    assert.equal(1, gms.installs - before)
    assert.equal(4, #g.cho:view().members)
  end)

  it("is set while the group runs, with effect from the next view", function()
    local g = group.new {}
    local gms, rsvp = g.ann.stack.gms, g.ann.stack.rsvp
    gms.view_ack = "rsvp"
    local before = rsvp.requests
    g:join "dee"
    g.sim:run "2s"
    assert.equal(1, rsvp.requests - before)
    gms.view_ack = "message"
    g:join "eve"
    g.sim:run "2s"
    assert.equal(1, rsvp.requests - before)
  end)

  it("is refused where nobody above could ask", function()
    local stack = build.write("no_rsvp.lua",
      'return extend("lan", { "Without.", remove "rsvp" })\n')
    local sim = neap.sim { seed = 1 }
    local ok, problem = pcall(sim.join, sim, "chat", { stack = stack, name = "ann", with = RSVP })
    assert.is_false(ok)
    assert.matches("rsvp", tostring(problem))
    local ann = sim:join("chat", { stack = stack, name = "ann" })
    sim:run "2s"
    ok, problem = pcall(function() ann.stack.gms.view_ack = "rsvp" end)
    assert.is_false(ok)
    assert.matches("rsvp", tostring(problem))
  end)

  it("agrees on one view over seeds with losses, crashes and joiners", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, loss = 0.2, jitter = "3ms",
        stack = "spec/support/checked.lua",
        with = { gms = { view_ack = "rsvp" }, fd_all = { timeout = "4s", interval = "500ms" },
          nakack = { retransmission = seed % 2 == 0 and "ack" or "nak" } } }
      g:join("dee", { with = RSVP, stack = "spec/support/checked.lua" })
      g.sim:run "3s"
      g.sim:kill(seed % 3 == 0 and "ann" or "cho")
      g.sim:run "3s"
      g.sim:set { loss = 0, jitter = "0ms" }
      g.sim:run "20s"
      assert.equal(3, #g.bob:view().members)
      assert.equal(g.bob:view().id, g.dee:view().id)
      assert.same({}, g.sim:complaints())
      g.sim:close()
    end)
  end)
end)
