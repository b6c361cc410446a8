-- H19: a sender is blocked on somebody who is gone (JGRP-2853, 2854, 2873, 2929).  cho says nothing
-- any more, ann sends until it would block; then comes a view without cho, or ann closes.

local group = require "support.group"

local BODY = ("x"):rep(1000)

-- Windows of ten messages; cho is heard by nobody, which hears everything.
local function blocked(seed, mode)
  local g = group.new { seed = seed, with = {
    nakack = { retransmission = mode, window_messages = 10 },
    unicast = { retransmission = mode, window_messages = 10 },
    fd_all = { timeout = "5s", interval = "1s" },
  } }
  for _, name in ipairs { "ann", "bob" } do g.sim:cut { from = "cho", to = name } end
  local ended = {}
  for _, to in ipairs { "all", "cho" } do
    g.sim:spawn(function()
      for n = 1, 1000 do
        local ok, code = g.ann:send(BODY, { to = to == "cho" and to or nil })
        ended[to] = { at = g.sim:now(), ok = ok, code = code, sent = n }
        if not ok then return end
      end
    end)
  end
  g.sim:run "1s"
  assert.is_true(g.sim:now() - ended.cho.at > 900e6, "it is not blocked")
  assert.is_true(g.sim:now() - ended.all.at > 900e6, "it is not blocked")
  return g, ended
end

describe("H19", function()
  for _, mode in ipairs { "nak", "ack" } do
    it("resumes with the view that who is gone is not in, in " .. mode .. " mode", function()
      group.each_seed(20, function(seed)
        local g, ended = blocked(seed, mode)
        assert.same({ nil, "would block" }, { g.ann:send(BODY, { to = "cho", block = false }) })
        assert.same({ nil, "would block" }, { g.ann:send(BODY, { block = false }) })
        local view, first
        g.ann:on("view", function() view = g.sim:now() end)
        for _ = 1, 4000 do
          g.sim:run "5ms"
          if view and not first then first = ended.all.sent end
          if view and g.sim:now() - view >= 100e6 then break end
        end
        assert.same({ "ann", "bob" }, g.ann:view().members)
        assert.is_nil(ended.cho.ok)
        assert.truthy(ended.cho.code == "not a member" or ended.cho.code == "left",
          tostring(ended.cho.code))
        assert.is_true(ended.cho.at - view <= 100e6)
        assert.is_true(ended.all.ok)
        assert.is_true(ended.all.at >= view - 5e6)
        for _ = 1, 20 do
          local ok, code = g.ann:send(BODY, { to = "cho", block = false })
          assert.same({ nil, "not a member" }, { ok, code })
        end
        g:call(function()
          for n = 1, 50 do assert(g.ann:send(tostring(n))) end
        end)
        g.sim:run "30s"
        assert.equal(1000 + 50, #g.bodies.bob)
        g.sim:close()
      end)
    end)

    it("ends with closed when the sender closes, in " .. mode .. " mode", function()
      group.each_seed(20, function(seed)
        local g, ended = blocked(seed, mode)
        g.ann:close()
        g.sim:run "10ms"
        assert.same({ nil, "closed" }, { ended.cho.ok, ended.cho.code })
        assert.same({ nil, "closed" }, { ended.all.ok, ended.all.code })
        assert.same({ nil, "closed" }, { g.ann:send(BODY) })
        g.sim:close()
      end)
    end)
  end
end)
