-- H19, synchronous sends: somebody is gone, and a sender that waits for it, or for room, goes on.

local group = require "support.group"
local neap = require "neap"

local MODES = { "nak", "ack" }

-- cho hears nothing and says nothing; ann sends synchronously until ten wait.
local function stuck(seed, mode)
  local g = group.new { seed = seed, with = { fd_all = { timeout = "1000s" },
    nakack = { retransmission = mode, window_messages = 10 },
    unicast = { retransmission = mode, window_messages = 10 },
    rsvp = { timeout = "100s", max_pending = 12 } } }
  g.sim:pause "cho"
  local ends = {}
  for n = 1, 30 do
    g.sim:spawn(function()
      local ok, code = g.ann:send("x", { rsvp = true, to = n % 3 == 0 and "cho" or nil })
      ends[n] = { ok = ok, code = type(code) == "string" and code, at = neap.now() }
    end)
  end
  g.sim:run "200ms"
  for n = 1, 30 do assert.is_nil(ends[n]) end
  return g, ends
end

local function both_modes(f)
  for _, mode in ipairs(MODES) do
    group.each_seed(20, function(seed) f(seed, mode) end)
  end
end

describe("H19, synchronous", function()
  it("resumes within 100 ms of the view, and fails what was for the one that left", function()
    both_modes(function(seed, mode)
      local g, ends = stuck(seed, mode)
      assert.equal("would block", (select(2, g.ann:send("y", { rsvp = true, wait = false }))))
      g.sim:inject_view("bob", { "ann", "bob" })
      local began = g.sim:now()
      g.sim:inject_view("ann", { "ann", "bob" })
      g.sim:run "100ms"
      for n = 1, 30 do
        assert(ends[n], n)
        assert(ends[n].at - began <= 100e6)
        if n % 3 ~= 0 then
          assert.is_true(ends[n].ok)
        else
          assert(ends[n].code == "left" or ends[n].code == "not a member", ends[n].code)
        end
      end
      for _ = 1, 20 do
        local ok, code = g.ann:send("y", { to = "cho", rsvp = true, wait = false })
        assert.is_nil(ok)
        assert.equal("not a member", code)
      end
      assert.is_true((g:call(function() return g.ann:send("z", { rsvp = true }) end)))
      assert.equal(0, g.ann.stack.rsvp.pending)
      g.sim:close()
    end)
  end)

  it("ends with closed when the channel does", function()
    both_modes(function(seed, mode)
      local g, ends = stuck(seed, mode)
      g.ann:close()
      g.sim:run "1ms"
      for n = 1, 30 do assert.equal("closed", ends[n].code) end
      g.sim:close()
    end)
  end)
end)
