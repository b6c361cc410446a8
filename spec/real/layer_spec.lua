-- A layer in Lua that fails, on real sockets: its stack stands still, loop and other stacks go on.

local neap = require "neap"

local bomb = neap.layer "real_bomb" {
  doc = "Fails on a word.",
  up = function(self, batch)
    for m in batch:each() do
      if m.body == "boom" then error "exploded" end
      self:pass_up(m)
    end
  end,
}

describe("an error in a Lua layer, on real sockets #real", function()
  it("stops that stack and no other", function()
    local got, errors, code = {}, {}, nil
    local plain = neap.stack(function(s)
      return s.stack "plain" { "S.", s.udp { group = "239.7.7.11:7703" } }
    end)
    local failing = neap.stack(function(s)
      return s.stack "failing" { "S.", bomb {}, s.udp { group = "239.7.7.11:7703" } }
    end)
    neap.run(function()
      local ann = assert(neap.join("bomb", { stack = plain, name = "ann", on = {
        message = function(msg) got[#got + 1] = msg.body end,
      } }))
      local bob = assert(neap.join("bomb", { stack = failing, name = "bob", on = {
        error = function(text) errors[#errors + 1] = text end,
      } }))
      for _, body in ipairs { "before", "boom", "after" } do
        ann:send(body)
        neap.sleep "10ms"
      end
      for i = 1, 1000 do ann:send(tostring(i)) end -- bob takes none of them
      neap.sleep "20ms"
      code = select(2, bob:send "x")
      assert(bob:leave())
      ann:close()
    end)
    assert.equal("before boom after", table.concat(got, " ", 1, 3))
    assert.is_true(#got > 900)
    assert.equal(1, #errors)
    assert.truthy(errors[1]:find("layer real_bomb stopped its stack", 1, true))
    assert.equal("closed", code)
  end)
end)
