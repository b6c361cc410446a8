-- drop, dupl, delay and shuffle over real sockets: nobody above those who repair notices.

local neap = require "neap"

describe("a wire broken on purpose #real", function()
  it("is repaired over real sockets as in the simulator", function()
    local stack = neap.stack(function(s)
      return s.extend("lan", { "Everything goes wrong below nakack.",
        s.before("udp", s.drop { when = "layer=nakack way=up probability=0.1" }),
        s.before("udp", s.dupl { up = 0.2, down = 0.1 }),
        s.before("udp", s.delay { up = "3ms", drawn = true, ordered = false }),
        s.before("udp", s.shuffle { down = 3, wait = "1ms" }) })
    end)
    local got, wanted, counts = {}, {}, nil
    neap.run(function()
      local with = { gms = { join_timeout = "500ms" } }
      local ann = assert(neap.join("broken", { stack = stack, name = "ann", with = with }))
      local bob = assert(neap.join("broken", { stack = stack, name = "bob", with = with }))
      ann:on("message", function() end)
      bob:on("message", function(msg) got[#got + 1] = msg.body end)
      for n = 1, 100 do
        wanted[n] = tostring(n)
        assert(ann:send(wanted[n]))
        neap.sleep "500us"
      end
      for _ = 1, 500 do
        if #got == 100 then break end
        neap.sleep "10ms"
      end
      counts = { bob.drop.hits, bob.dupl.doubled_up, bob.delay.delayed, ann.shuffle.shuffled }
      ann:close()
      bob:close()
    end)
    assert.same(wanted, got)
    for n = 1, 4 do assert(counts[n] > 0, n) end
  end)
end)
