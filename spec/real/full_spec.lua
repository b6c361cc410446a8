-- H35 over real sockets: more than the kernel takes at once.  Each send says what became of it, and
-- what was taken comes, once and in order.

local neap = require "neap"

-- Another one than that of whoever runs these specs on this host as well.
local GROUP = "full " .. tostring({})

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
      ann = assert(neap.join(GROUP, { stack = "lan", name = "ann", with = with }))
      bob = assert(neap.join(GROUP, { stack = "lan", name = "bob", with = with }))
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

  it("count what is not kept and had no room, and say so once a second", function()
    local with = {
      udp = { receive_buffer = "64KB", max_packet = "11KB", offload = false },
      gms = { join_timeout = "200ms" },
      unicast = { window_bytes = "64MB", window_messages = 16384 },
    }
    local stack = neap.stack(function(s)
      return s.extend("lan", { "Nobody asks for less.", s.remove "mfc", s.remove "ufc" })
    end)
    local told, got, sent, lost = {}, 0, 0, 0
    neap.run(function()
      local ann = assert(neap.join(GROUP, { stack = stack, name = "ann", with = with }))
      local bob = assert(neap.join(GROUP, { stack = stack, name = "bob", with = with }))
      bob:on("trouble", function(trouble) told[#told + 1] = trouble.text end)
      bob:on("message", function(msg) got = got + (msg.body == "end" and 0 or 1) end)
      while #ann:view().members < 2 do neap.sleep "10ms" end
      for _ = 1, 15 do -- Each is more than bob has room for before it may look.
        for _ = 1, 100 do
          if ann:send(("x"):rep(10000), { to = "bob", reliable = false, block = false }) then
            sent = sent + 1
          end
        end
        neap.sleep "100ms"
      end
      assert(ann:send("end", { to = "bob" })) -- The kernel tells of a loss with the next packet.
      neap.sleep "1100ms"
      lost = ann.udp.send_dropped + bob.udp.receive_overflow
      ann:close()
      bob:close()
    end)
    assert(lost > 0 and sent > 100, lost)
    assert.equal(sent, got + lost)
    assert(#told >= 1 and #told <= 3, #told)
    local sum = 0
    for _, text in ipairs(told) do
      sum = sum + tonumber(text:match "(%d+) had no room to come in")
    end
    assert.equal(lost, sum)
  end)
end)
