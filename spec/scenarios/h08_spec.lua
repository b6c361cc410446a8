-- H08: synchronous sends to a group in which one member stands still for 10 s; then so many that
-- their ids are used again.

local group = require "support.group"
local neap = require "neap"

local MODES = { "nak", "ack" }

local function new(seed, mode, rsvp)
  rsvp.timeout = "3s"
  return group.new { seed = seed, with = { rsvp = rsvp, fd_all = { timeout = "30s" },
    nakack = { retransmission = mode } } }
end

-- Many at a time, one after the other in each of `rows` coroutines; how many came true.
local function storm(g, count, rows)
  local fine = 0
  for row = 1, rows do
    g.sim:spawn(function()
      for n = row, count, rows do
        assert(g.ann:send(tostring(n), { rsvp = "delivery" }))
        fine = fine + 1
      end
    end)
  end
  return function() return fine end
end

local function both_modes(f)
  for _, mode in ipairs(MODES) do
    group.each_seed(20, function(seed) f(seed, mode) end)
  end
end

describe("H08", function()
  it("raises in assert, or says who is missing, after 3 s; late answers change nothing", function()
    both_modes(function(seed, mode)
      local g = new(seed, mode, { ids = 64 })
      g.sim:pause "cho"
      local raised, took, result
      g:call(function()
        local began = neap.now()
        raised = { pcall(function() assert(g.ann:send("first", { rsvp = true })) end) }
        took = (neap.now() - began) / 1e6
        local ok, code, detail = g.ann:send("second", { rsvp = true })
        result = { ok = ok, code = code, missing = detail.missing, left = detail.left }
      end)
      assert.is_false(raised[1])
      assert.matches("timeout", raised[2].message or raised[2]) -- busted has an assert of its own
      assert.equal(3000, took)
      assert.same({ code = "timeout", missing = { "cho" }, left = {} }, result)
      g.sim:run "4s"
      g.sim:resume "cho"
      local before = g.ann.stack.rsvp.ended
      local fine = storm(g, 700, 4) -- The ids go round eleven times.
      g.sim:run "10s"
      assert.equal(700, fine())
      assert.equal(700, g.ann.stack.rsvp.ended - before)
      assert.equal(2, g.ann.stack.rsvp.timeouts)
      assert.equal(702, #g.bodies.cho)
      assert.equal(0, g.ann.stack.rsvp.pending)
      g.sim:close()
    end)
  end)

  it("does so with all ids there are: 70000 sends #slow", function()
    local g = new(1, "nak", {})
    g.sim:pause "cho"
    assert.is_nil((g:call(function() return g.ann:send("first", { rsvp = true }) end)))
    g.sim:resume "cho"
    local fine = storm(g, 70000, 50)
    g.sim:run "60s"
    assert.equal(70000, fine())
    assert.equal(70001, #g.bodies.cho)
    g.sim:close()
  end)
end)
