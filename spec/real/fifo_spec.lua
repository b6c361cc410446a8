-- fifo and its Lua twin on real sockets: what arrives is in order, whatever discard swallows.

local neap = require "neap"

local PORTS = { fifo = 7701, fifo_lua = 7702 }

local function talk(layer)
  local got, skipped = {}, nil
  local stack = neap.stack(function(s)
    return s.stack "fifo" {
      "Order without repair.",
      s[layer] { patience = "5ms" }, s.discard { up = 0.1 },
      s.udp { group = "239.7.7.10:" .. PORTS[layer] },
    }
  end)
  neap.run(function()
    local ann = assert(neap.join("fifo", { stack = stack, name = "ann" }))
    local bob = assert(neap.join("fifo", { stack = stack, name = "bob", on = {
      message = function(msg) got[#got + 1] = tonumber(msg.body) end,
    } }))
    for i = 1, 500 do
      ann:send(i)
      if i % 20 == 0 then neap.sleep "1ms" end
    end
    neap.sleep "50ms"
    skipped = bob[layer].skipped
    ann:close()
    bob:close()
  end)
  return got, skipped
end

for _, layer in ipairs { "fifo", "fifo_lua" } do
  describe(layer .. " on real sockets #real", function()
    it("never lets one message overtake another", function()
      local got, skipped = talk(layer)
      assert.is_true(#got > 300, #got)
      assert.is_true(skipped > 0)
      for i = 2, #got do assert.is_true(got[i] > got[i - 1]) end
    end)
  end)
end
