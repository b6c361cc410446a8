-- A state of some megabytes over real sockets, in both modes, while another member talks.

local neap = require "neap"

local PORTS = { applied = 7711, barrier = 7712 }
local CHUNK, CHUNKS = ("x"):rep(500000), 12

local function join(name, mode, on)
  return assert(neap.join("state", { stack = "state", name = name, on = on, with = {
    state_transfer = { mode = mode },
    udp = { group = "239.7.7.11:" .. PORTS[mode] },
  } }))
end

-- What ann gives: her count, then a lot.
local function story(mode)
  local count, bytes, replayed, took = { ann = 0, bob = 0 }, 0, 0, nil
  neap.run(function()
    local ann = join("ann", mode, {
      message = function() count.ann = count.ann + 1 end,
      state_request = function(out)
        out:write(("%-20d"):format(count.ann))
        for _ = 1, CHUNKS do out:write(CHUNK) end
      end,
    })
    local first, text
    local bob = join("bob", mode, {
      message = function(msg)
        if msg.replayed then replayed = replayed + 1 else count.bob = count.bob + 1 end
      end,
      state = {
        begin = function() text = nil end,
        chunk = function(part)
          text = text or part
          bytes = bytes + #part
        end,
        commit = function() count.bob, first = tonumber(text:match "%d+"), text end,
      },
    })
    local talking = true
    neap.spawn(function()
      while talking do
        ann:send "one more"
        neap.sleep "1ms"
      end
    end)
    neap.sleep "20ms"
    took = bob:get_state { timeout = "20s" }
    talking = false
    assert(first)
    assert(ann:flush_sent())
    neap.sleep "20ms"
    bob:close()
    ann:close()
  end)
  return took, bytes, count, replayed
end

for _, mode in ipairs { "applied", "barrier" } do
  describe("a state over real sockets, mode " .. mode .. " #real", function()
    it("comes whole, and then what is not in it", function()
      local took, bytes, count, replayed = story(mode)
      assert.is_true(took)
      assert.equal(#CHUNK * CHUNKS + 20, bytes)
      assert.is_true(count.ann > 20)
      assert.equal(count.ann, count.bob + replayed) -- The count was written first: none is in it.
    end)
  end)
end
