-- H11: the coordinator dies with a join in progress (ISPN-4766, OpenMPF 721, case D).

local membership = require "support.membership"

local SURVIVORS = { "bob", "cho", "dee" }

-- What dee's join came to: true once a view with dee in it was there.
local function group_of(seed, mode)
  local group = membership.group {
    seed = seed, latency = "1ms", jitter = "1ms",
    with = {
      gms = { join_timeout = "2s", max_join_attempts = 3 },
      nakack = { retransmission = mode },
    },
  }
  return group:form { "ann", "bob", "cho" }
end

local function survive(group)
  group:kill "ann"
  for rule = 1, group.rules or 0 do group.sim:clear(rule) end
  group:wait(SURVIVORS, 20e9)
  group:run("30s"):agree(SURVIVORS)
  group:close()
end

for _, mode in ipairs { "nak", "ack" } do
  describe("H11 in " .. mode .. " mode, ann dies", function()
    it("when dee's request arrives", function()
      membership.each_seed(20, function(seed)
        local group = group_of(seed, mode)
        group:join "dee"
        repeat group:run "100us" until group:gms("ann").requests > 0
        survive(group)
      end)
    end)

    for _, lucky in ipairs { "bob", "cho" } do
      it("after the new view was sent to " .. lucky .. " only", function()
        membership.each_seed(20, function(seed)
          local group = group_of(seed, mode)
          group.sim:drop { layer = "gms", type = "view", to = lucky == "bob" and "cho" or "bob" }
          group.sim:drop { layer = "gms", type = "join_rsp" }
          group.rules = 2
          group:join "dee"
          repeat group:run "100us" until #group.channels[lucky]:view().members == 4
          survive(group)
        end)
      end)
    end

    it("after the answer was sent, but no view", function()
      membership.each_seed(20, function(seed)
        local group = group_of(seed, mode)
        group.sim:drop { layer = "gms", type = "view", from = "ann" }
        group.rules = 1
        group:join "dee"
        repeat group:run "100us" until group.channels.dee:view()
        survive(group)
      end)
    end)
  end)
end
