-- H35 over real sockets: more than the kernel takes at once.  Each send says what became of it, and
-- what was taken comes, once and in order.

local neap = require "neap"

describe("full send buffers #real", function()
  it("lose nothing that was taken, whoever waits and whoever does not", function()
    local with = {
      udp = { send_buffer = "16KB" }, gms = { join_timeout = "200ms" },
      nakack = { window_bytes = "300KB" }, unicast = { window_bytes = "300KB" },
    }
    local body = ("x"):rep(10000)
    local taken, got, turned, writable = { all = {}, bob = {} }, { all = {}, bob = {} }, 0, {}
    local ann, bob
    local function said(to, text)
      local list = taken[to or "all"]
      list[#list + 1] = text
    end
    neap.run(function()
      ann = assert(neap.join("full", { stack = "lan", name = "ann", with = with }))
      bob = assert(neap.join("full", { stack = "lan", name = "bob", with = with }))
      ann:on("message", function() end)
      ann:on("writable", function(to) writable[to or "all"] = true end)
      bob:on("message", function(msg)
        local list = got[msg.to or "all"]
        list[#list + 1] = msg.body:match "^%a%d+"
      end)
      while #ann:view().members < 2 do neap.sleep "10ms" end
      for i = 1, 300 do
        for _, to in ipairs { "all", "bob" } do
          local one = to ~= "all" and to or nil
          local ok, code = ann:send("n" .. i .. body, { to = one, block = false })
          if ok then said(one, "n" .. i) else turned = turned + 1 end
          assert(ok or code == "would block", code)
        end
        if i % 30 == 0 then -- Waits.
          assert(ann:send("w" .. i .. body))
          said(nil, "w" .. i)
        end
      end
      assert(ann:flush_sent { timeout = "10s" })
      local function missing() return #got.all < #taken.all or #got.bob < #taken.bob end
      for _ = 1, 500 do
        if not missing() then break end
        neap.sleep "10ms"
      end
      ann:close()
      bob:close()
    end)
    assert.same(taken, got)
    assert(turned > 0 and #taken.all > 10 and #taken.bob > 10, turned)
    assert.is_true(writable.all and writable.bob)
  end)
end)
