-- A coordinator that was away wakes, serves what waited for it, and makes views of its own before
-- it hears that the others went on without it.  (Swarm seed 314: both parts stayed as they were.)

local neap = require "neap"

describe("a coordinator that was away", function()
  it("yields to those who went on without it", function()
    for seed = 1, 5 do
      local sim = neap.sim { seed = seed, loss = 0.1 }
      local chans = {}
      for _, name in ipairs { "ann", "bob", "cho", "dee" } do
        chans[name] = sim:join("back", { stack = "spec/support/basic.lua", name = name })
        sim:run "2s"
      end
      assert.equal("ann", chans.dee:view().coordinator)
      sim:spawn(function()
        for _ = 1, 300 do
          for _, name in ipairs { "ann", "bob", "dee" } do
            chans[name]:send("on and on", { block = false })
          end
          neap.sleep "50ms"
        end
      end)
      sim:pause "ann"
      chans.cho:leave { wait = false }
      sim:run "15s"
      assert.equal(2, #chans.bob:view().members)
      sim:resume "ann"
      sim:run "100s"
      for _, name in ipairs { "ann", "bob", "dee" } do
        assert.equal(3, #chans[name]:view().members)
        assert.equal(chans.bob:view().id, chans[name]:view().id)
      end
    end
  end)
end)
