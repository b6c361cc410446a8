-- H46: out-of-band messages beside ordered ones (JGRP-780, JGRP-2327).  They overtake and come
-- once; the ordered ones wait for the place that one of them still keeps, but never for long.

local group = require "support.group"

-- Sends 1 to 4, the second out of band, in one packet or in four.
local function four(g, packets)
  for i = 1, 4 do
    assert(g.ann:send(tostring(i), { oob = i == 2 }))
    if packets then g.sim:run "50us" end
  end
end

local function without(list, body)
  local left = {}
  for _, each in ipairs(list) do
    if each ~= body then left[#left + 1] = each end
  end
  return table.concat(left, " ")
end

-- What a joiner has: everything from some message on, once, the ordered ones in order.
local function check_run(list, last)
  local seen, first, regular = {}, math.huge, 0
  for _, body in ipairs(list) do
    local i = tonumber(body)
    assert(not seen[i], body .. " came twice")
    seen[i] = true
    first = math.min(first, i)
    if i % 3 ~= 0 then
      assert(i > regular, body .. " came late")
      regular = i
    end
  end
  for i = first, last do assert(seen[i], i .. " never came") end
  return first
end

describe("H46", function()
  for _, mode in ipairs { "nak", "ack" } do
    for _, packets in ipairs { false, true } do
      local how = ("%s mode, %s"):format(mode, packets and "singly" or "in batches")

      it("brings 1, 3 and 4 in order and 2 once, when 3 comes first: " .. how, function()
        group.each_seed(20, function(seed)
          local g = group.new {
            names = { "ann", "bob" }, seed = seed, with = { nakack = { retransmission = mode } },
          }
          g.sim:run "1s"
          g.sim:drop {
            from = "ann", to = "bob", layer = "nakack", body = "2", times = 1 + seed % 2,
          }
          four(g, packets)
          g.sim:run "1s"
          assert.equal("1 3 4", without(g.bodies.bob, "2"))
          assert.equal(4, #g.bodies.bob)
          g.sim:close()
        end)
      end)

      it("brings a joiner whole runs, once: " .. how, function()
        local early = 0
        group.each_seed(20, function(seed)
          local with = { nakack = { retransmission = mode, become_server_queue_size = 1000 } }
          local g = group.new { names = { "ann" }, seed = seed, with = with }
          for i = 1, 300 do
            assert(g.ann:send(tostring(i), { oob = i % 3 == 0 }))
            if i == 60 then g:join("bob", { with = with }) end
            if packets or i % 5 == 0 then g.sim:run(packets and "100us" or "500us") end
            if i > 60 then early = math.max(early, g.bob.stack.nakack.early) end
          end
          g.sim:run "5s"
          assert(check_run(g.bodies.bob, 300) < 300)
          assert.equal(0, g.bob.stack.nakack.waiting)
          g.sim:close()
        end)
        assert(early > 0) -- Some came before there was a window for them.
      end)
    end
  end
end)
