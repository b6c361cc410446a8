-- H33: answers without a coordinator (JGRP-2262, JGRP-2506): of the dead, of nobody, of those who
-- search themselves.

local membership = require "support.membership"

local LIMIT = 4 * 1000 -- ms: attempts times join_timeout

local function group_of(seed)
  return membership.group { seed = seed, latency = "1ms", jitter = "1ms",
    with = { gms = { join_timeout = "1s", max_join_attempts = 4 } } }
end

describe("H33", function()
  it("begins alone when only members answer whose coordinator died, and others follow", function()
    membership.each_seed(20, function(seed)
      local group = group_of(seed)
      group:form { "ann", "eve" }
      group.sim:cut { from = "ann", to = "bob" }
      group:kill "ann"
      -- Eve still believes in ann, and says so; until she sees it bob finds no coordinator.
      group:join "bob"
      assert.is_true(group:wait({ "eve", "bob" }, 20e9) < 10e9)
      group:join "cho"
      group:wait({ "eve", "bob", "cho" }, 5e9)
      group:close()
    end)
  end)

  it("begins alone when nobody who answers stays, in the time of its attempts", function()
    membership.each_seed(20, function(seed)
      local group = group_of(seed)
      group:join "ann" -- Searches, is seen by bob, and is gone before it has a view.
      group:run "10ms"
      group:join "bob"
      group:run "500ms"
      group:kill "ann"
      group:run(LIMIT .. "ms"):agree { "bob" }
      group:join "cho"
      group:wait({ "bob", "cho" }, 3e9)
      assert.equal("bob", group.channels.cho:view().coordinator)
      group:close()
    end)
  end)

  it("is not confused by answers that come twice", function()
    membership.each_seed(20, function(seed)
      local group = group_of(seed)
      group:form { "ann" }
      local rule = group.sim:duplicate { layer = "ping", from = "ann" }
      group:join "bob"
      group:wait({ "ann", "bob" }, 3e9)
      group.sim:clear(rule)
      group:close()
    end)
  end)
end)
