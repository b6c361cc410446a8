-- H03: a new process on the address of a dead one, to which old messages still come
-- (JGroups PR 515, JGRP-2599).

local group = require "support.group"
local core = require "neap.core"
local talk = require "support.talk"

describe("H03", function()
  for _, mode in ipairs { "nak", "ack" } do
    it("gives who comes to a dead one's place nothing that was sent to it, in " .. mode, function()
      group.each_seed(20, function(seed)
        local g = group.new { names = { "ann", "bob" }, seed = seed,
          with = { fd_all = { timeout = "3s", interval = "500ms" },
            unicast = { retransmission = mode } } }
        g.sim:settle()
        core.sim_log_start(g.sim.handle, 1000)
        g.sim:kill "bob"
        for i = 1, 50 do
          assert(g.ann:send("old " .. i, { to = "bob" }))
          if i % 10 == 0 then g.sim:run "1us" end
        end
        g.sim:run "1s"
        g:join "cho"
        -- Whatever was on its way to bob comes to cho, who sits where bob sat.
        local old = 0
        for _, row in ipairs(g.sim:log()) do
          if row.from == "ann" and not row.multicast and row.bytes:find("old", 1, true) then
            g.sim:inject { from = "ann", to = "cho", bytes = row.bytes }
            old = old + 1
          end
        end
        assert(old > 1)
        g.sim:run "10s"
        assert.equal(2, #g.cho:view().members)
        assert.equal(2, #g.ann:view().members)
        talk.say(g, "ann", "cho", 1, 20)
        g.sim:settle()
        assert.equal(group.counted(20), g:got "cho")
        assert.equal(old, g.cho.stack.udp.bad_target)
        local resent = g.ann.stack.unicast.tail_xmits
        g.sim:run "30s"
        assert.equal(resent, g.ann.stack.unicast.tail_xmits) -- Nobody goes on sending to bob.
        g.sim:close()
      end)
    end)
  end
end)
