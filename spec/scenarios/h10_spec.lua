-- H10: the coordinator leaves and its last view is lost (JGRP-2277, JGRP-2293).

local membership = require "support.membership"

describe("H10", function()
  for _, victim in ipairs { "bob", "cho" } do
    for _, mode in ipairs { "nak", "ack" } do
      it(("ends in one view when no view of ann reaches %s, in %s mode"):format(victim, mode),
        function()
          membership.each_seed(20, function(seed)
            local group = membership.group {
              seed = seed, latency = "1ms", jitter = "1ms",
              with = { nakack = { retransmission = mode } },
            }
            group:form { "ann", "bob", "cho" }
            group.sim:drop { layer = "gms", type = "view", from = "ann", to = victim }
            group:leave("ann"):run "1s"
            assert.is_true(group.left.ann.ok and group.left.ann.time <= 1e9)
            group:join "dee"
            assert.is_true(group:wait({ "bob", "cho", "dee" }, 2e9) < 2e9)
            assert.equal("bob", group.channels.cho:view().coordinator)
            local raised = 0
            for _, name in ipairs { "bob", "cho", "dee" } do
              raised = raised + group.channels[name].stack.fd_all.suspected
            end
            assert.is_true(raised <= 3)
            group:close()
          end)
        end)
    end
  end
end)
