-- Members of a simulated world: paused, woken, killed, deluded.

local neap = require "neap"

local function world(options, stack, with)
  local sim = neap.sim(options)
  local got, chans = {}, {}
  for _, name in ipairs { "ann", "bob", "cho" } do
    got[name] = {}
    chans[name] = sim:join("wire", { stack = stack or "bare", name = name, with = with, on = {
      message = function(m) table.insert(got[name], { at = sim:now(), body = m.body }) end,
    } })
  end
  sim:run(stack and "5s" or "1ms")
  return sim, chans, got
end

local function say(sim, channel, body)
  sim:spawn(function() assert(channel:send(body)) end)
end

describe("a paused member", function()
  it("gets what its socket buffer held when it wakes", function()
    local sim, chans, got = world { seed = 1 }
    sim:pause "bob"
    say(sim, chans.ann, "one")
    say(sim, chans.ann, "two")
    sim:run "50ms"
    assert.equal(0, #got.bob)
    assert.equal(2, #got.cho)
    local woke = sim:now()
    sim:resume "bob"
    sim:run "1ms"
    assert.equal(2, #got.bob)
    assert.equal(woke, got.bob[1].at)
  end)

  it("loses what its socket buffer cannot hold", function()
    local sim, chans, got = world({ seed = 1, buffer = "50KB" }, nil,
      { udp = { receive_buffer = 0 } })
    sim:pause "bob"
    for n = 1, 40 do
      say(sim, chans.ann, tostring(n) .. (" "):rep(1000))
      sim:run "1ms"
    end
    sim:resume "bob"
    sim:run "10ms"
    -- A kernel charges about 1300 bytes beyond a datagram: 50 kB hold 21 of these.
    assert(#got.bob > 15 and #got.bob < 25, #got.bob)
    assert.equal(40, #got.cho)
    assert.equal(40 - #got.bob, sim:counts().lost["socket buffer full"])
    assert.equal("1", got.bob[1].body:match "%d+") -- The first, not the last.
  end)

  it("sends nothing, and its timers wait", function()
    local sim, chans = world({ seed = 1 }, "spec/support/basic.lua")
    assert.equal(3, #chans.ann:view().members)
    sim:pause "bob"
    local before = chans.cho.fd_all.heartbeats_received
    sim:run "2s"
    local from_two = chans.cho.fd_all.heartbeats_received - before
    sim:resume "bob"
    before = chans.cho.fd_all.heartbeats_received
    sim:run "2s"
    local from_three = chans.cho.fd_all.heartbeats_received - before
    assert(from_two > 0 and from_three > from_two * 1.5, from_two .. " " .. from_three)
    assert.equal(3, #chans.ann:view().members) -- It was not away for long enough.
  end)

  it("is excluded when it stays away, and wakes into a world without it", function()
    local sim, chans = world({ seed = 1 }, "spec/support/basic.lua")
    sim:pause "bob"
    sim:run "10s"
    assert.equal(2, #chans.ann:view().members)
    sim:resume "bob"
    sim:run "30s"
    assert.equal(3, #chans.ann:view().members)
    assert.equal(3, #chans.bob:view().members)
  end)
end)

describe("a killed member", function()
  it("stops at once, while what it has sent arrives", function()
    local sim, chans, got = world { seed = 1, latency = "10ms" }
    say(sim, chans.ann, "last words")
    sim:run "1ms"
    say(sim, chans.bob, "too late")
    sim:run "1ms"
    assert.is_true(sim:kill "ann")
    sim:run "50ms"
    assert.is_false(chans.ann:is_open())
    assert.equal("last words", got.cho[1].body)
    assert.equal(1, #got.ann) -- Its own words, from before.
    local ok, code = chans.ann:send "from the grave"
    assert.is_nil(ok)
    assert.equal("closed", code)
    assert.equal(1, sim:counts().lost["nobody there"])
  end)

  it("says no goodbye: the others find out by silence", function()
    local sim, chans = world({ seed = 1 }, "spec/support/basic.lua")
    sim:kill "bob"
    sim:run "1s"
    assert.equal(3, #chans.ann:view().members)
    sim:run "9s"
    assert.equal(2, #chans.ann:view().members)
  end)

  it("can come again under its name", function()
    local sim, _, got = world { seed = 1 }
    sim:kill "bob"
    local bob = sim:join("wire", { stack = "bare", name = "bob" })
    say(sim, bob, "back")
    sim:run "10ms"
    assert.equal("back", got.ann[1].body)
  end)

  it("has to be there", function()
    local sim = world { seed = 1 }
    for _, act in ipairs { "kill", "pause", "resume" } do
      local ok, code = sim[act](sim, "zoe")
      assert.is_nil(ok)
      assert.equal("not a member", code)
    end
  end)
end)

describe("an injected view", function()
  it("is what the member believes from then on", function()
    local sim, chans = world({ seed = 1 }, "spec/support/basic.lua")
    local views = {}
    chans.bob:on("view", function(view) views[#views + 1] = table.concat(view.members, " ") end)
    assert.is_true(sim:inject_view("bob", { "bob", "cho" }))
    sim:run "1ms"
    assert.equal("bob cho", views[1])
    assert.equal(3, #chans.ann:view().members)
  end)

  it("needs members and a stack with membership", function()
    local sim = world { seed = 1 }
    assert.is_nil((sim:inject_view("bob", { "bob" })))
    local with_views = world({ seed = 1 }, "spec/support/basic.lua")
    local ok, code = with_views:inject_view("bob", { "bob", "zoe" })
    assert.is_nil(ok)
    assert.equal("not a member", code)
  end)
end)
