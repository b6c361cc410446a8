-- What keeps a member from voting as it would: digests that it has handed out, and suspensions.

local build = require "support.build"
local foreign = require "support.foreign"
local group = require "support.group"
local neap = require "neap"
local voting = require "support.voting"

local coordinator, nothing, other, quiet, total =
  voting.coordinator, voting.nothing, voting.other, voting.quiet, voting.total

-- Suspends and resumes from inside the stack, as a layer that transfers state would.
neap.layer "suspender" {
  doc = "Suspends the votes below it.",
  attrs = {},
  ops = {
    begin = { doc = "Begins, for a time, or without a limit of its own.", run = function(self, time)
      self:event_down("stable_suspend", { number = 7, time = time ~= "" and time or nil })
    end },
    done = { doc = "Ends it.", run = function(self)
      self:event_down("stable_resume", { number = 7 })
    end },
  },
}

local SUSPENDING = build.write("suspending.lua",
  'return extend("lan", { "Votes can be suspended.", before("gms", suspender {}) })\n')

describe("stable", function()
  it("votes no further than a digest that was handed out, until the hold ends", function()
    local g = group.new { with = quiet() }
    local first = g.ann:view().coordinator
    local sender = first == "ann" and "bob" or "ann"
    local acks = g.sim:drop { to = first, layer = "gms", type = "view_ack" }
    g:join("dee", { with = quiet() })
    g.sim:run "500ms"
    assert.equal(1, g[first].stack.stable.holds)
    for i = 1, 10 do g[sender]:send(tostring(i)) end
    g.sim:run "100ms"
    g[sender].stack.stable:gossip_now()
    g.sim:run "200ms"
    assert.equal(10, g[sender].stack.nakack.window_stored) -- Sent after the digest for dee.
    g.sim:clear(acks)
    g.sim:run "2s"
    assert.equal(0, g[first].stack.stable.holds)
    g[sender].stack.stable:gossip_now()
    g.sim:run "200ms"
    assert.equal(0, g[sender].stack.nakack.window_stored)
  end)

  it("frees everything again after a joiner died on the way", function()
    -- A joiner that dies while it joins leaves its coordinator with a hold; gms ends it in time.
    local g = group.new { with = quiet({ interval = "500ms" },
      { fd_all = { timeout = "3s", interval = "500ms" } }) }
    g:join("dee", { with = { fd_all = { timeout = "3s", interval = "500ms" } } })
    g.sim:run "1500us"
    g.sim:kill "dee"
    for i = 1, 10 do g.ann:send(tostring(i)) end
    g.sim:run "20s"
    for _, name in ipairs(g.names) do assert.equal(0, g[name].stack.stable.holds) end
    assert.equal(3, #g.ann:view().members)
    assert.is_true(nothing(g))
  end)

  it("suspends by an event, and votes once when it is resumed", function()
    group.each_seed(20, function(seed)
      local g = group.new {
        seed = seed, stack = SUSPENDING, with = quiet({ interval = "100ms" }),
      }
      for _, name in ipairs(g.names) do g[name].stack.suspender:begin() end
      local votes, rounds = total(g, "votes_sent"), total(g, "rounds")
      for i = 1, 10 do g.ann:send(tostring(i)) end
      g.sim:run "60s"
      assert.equal(votes, total(g, "votes_sent"))
      assert.is_false(nothing(g))
      for _, name in ipairs(g.names) do
        assert.equal(1, g[name].stack.stable.suspensions)
        g[name].stack.stable.interval = "1h"
        g[name].stack.suspender:done()
      end
      g.sim:run "1s"
      assert.is_true(nothing(g))
      assert(total(g, "rounds") - rounds <= 2, "a storm")
      assert(total(g, "votes_sent") - votes <= 6, "a storm")
      g.sim:close()
    end)
  end)

  it("takes no vote and no STABILITY while it is suspended, and asks afterwards", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, with = quiet() }
      local first, second = coordinator(g), other(g)
      second:send "0" -- Others report on a sender that is new to them.
      g.sim:run "1s"
      local received = first.stack.stable.votes_received
      for i = 1, 10 do second:send(tostring(i)) end
      assert(first.stack.stable:suspend "1h")
      second.stack.stable:gossip_now()
      g.sim:run "50ms"
      second.stack.stable.max_bytes = "1B" -- A vote that it was not asked for.
      g.sim:run "1s"
      assert(first.stack.stable.ignored > 0)
      assert.equal(received, first.stack.stable.votes_received)
      assert.is_false(nothing(g))
      second.stack.stable.max_bytes = "1GB"
      first.stack.stable:resume()
      g.sim:run "100ms"
      assert.is_true(nothing(g)) -- Long before somebody would have voted again.

      local ignored = second.stack.stable.ignored
      second:send "x"
      g.sim:run "100ms"
      local stability = g.sim:delay { to = second.name, layer = "stable", type = "stability",
        by = "1s", times = 1 }
      first.stack.stable:gossip_now()
      g.sim:run "500ms"
      assert.equal(1, g.sim:hits(stability))
      second.stack.stable:suspend()
      g.sim:run "1s"
      assert.equal(ignored + 1, second.stack.stable.ignored)
      assert.is_false(nothing(g))
      g.sim:close()
    end)
  end)

  it("ends a suspension that nobody ends", group.modes(function()
    for mode, given in pairs { timed = "3s", untimed = "" } do
      local troubles = {}
      local g = group.new { stack = SUSPENDING, with = quiet({ suspend_max = "5s" }) }
      for _, name in ipairs(g.names) do
        g[name]:on("trouble", function(t) troubles[#troubles + 1] = t.text end)
        g[name].stack.suspender:begin(given)
      end
      for i = 1, 10 do g.ann:send(tostring(i)) end
      g.ann.stack.stable:gossip_now()
      g.sim:run(mode == "timed" and "2900ms" or "4900ms")
      assert.is_false(nothing(g))
      g.sim:run "200ms"
      assert.equal(0, g.ann.stack.stable.suspensions)
      assert.is_true(nothing(g), mode)
      assert.equal(mode == "timed" and 0 or 3, total(g, "expired"))
      if mode == "untimed" then
        assert.matches("suspender suspended the votes and never resumed them", troubles[1])
      end
    end
  end))

  it("keeps the suspensions of two apart", function()
    local g = group.new { stack = SUSPENDING, with = quiet() }
    g.ann.stack.suspender:begin()
    g.ann.stack.stable:suspend()
    assert.equal(1, g.ann.stack.stable.suspensions) -- The event is on its way.
    g.sim:run "1ms"
    assert.equal(2, g.ann.stack.stable.suspensions)
    g.ann.stack.stable:suspend "2s" -- The same one, now for two seconds.
    assert.equal(2, g.ann.stack.stable.suspensions)
    g.ann.stack.suspender:done()
    g.sim:run "1s"
    assert.equal(1, g.ann.stack.stable.suspensions)
    g.sim:run "2s"
    assert.equal(0, g.ann.stack.stable.suspensions)
    local ok, code, why = g.ann.stack.stable:suspend "2 parsecs"
    assert.is_nil(ok)
    assert.equal("refused", code)
    assert.matches("a time such as", why)
  end)

  it("suspends while a member of JGroups is in the view, which knows nothing of holds", function()
    local g = group.new { names = { "ann", "bob" }, with = quiet { interval = "100ms" } }
    local fay = foreign.new(g.sim, "fay", "chat")
    fay:join(g.ann.address)
    g.sim:run "3s"
    assert.equal(3, #g.bob:view().members)
    fay:stop() -- It does not say that it has the next view, until it is excluded.
    g:join("dee", { with = quiet { interval = "100ms" } })
    g.sim:run "1s"
    local first = coordinator(g)
    local votes, ignored = first.stack.stable.votes_received, first.stack.stable.ignored
    for i = 1, 10 do g.bob:send(tostring(i)) end
    g.sim:run "3s"
    assert.equal(1, first.stack.stable.holds)
    assert(first.stack.stable.ignored > ignored + 10)
    assert.equal(votes, first.stack.stable.votes_received)
    assert.is_false(nothing(g))
    g.sim:run "60s"
    assert.equal(3, #g.bob:view().members)
    assert.equal(0, first.stack.stable.holds)
    assert(first.stack.stable.votes_received > votes + 10)
    assert.is_true(nothing(g))
  end)
end)
