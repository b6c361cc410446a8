-- What gms says below itself: holds before digests, views between messages; and what it hears that
-- nobody should have sent.

local membership = require "support.membership"
local neap = require "neap"

describe("gms", function()
  it("freezes what it asks for, holds what it got, and lets go when all have the view", function()
    local seen = {}
    local probe = neap.layer "probe" {
      doc = "Writes down what goes by.",
      event = function(_, event, up)
        local kinds = { hold = true, release = true, digest_get = true, view = true }
        if up or not kinds[event.kind] then return end
        seen[#seen + 1] = event.kind .. (event.number > 0 and " " .. event.number or "")
      end,
    }
    local group = membership.group {
      latency = "1ms", stack = membership.stack_with(probe {}, "gms"),
    }
    group:form { "ann" }
    seen = {}
    group:join "bob":run "1030ms"
    -- ann's, then bob's; the two holds of number 1 are the freeze and the digest.
    assert.equal("hold 1, digest_get 1, hold 1, view, view, release 1", table.concat(seen, ", "))
    group:close()
  end)

  it("sends each message in the form of the wire format", function()
    local dissect = require "neap.dissect"
    local group = membership.group { latency = "1ms", log = 4096 }
    group:form { "ann", "bob", "cho" }
    assert(group.sim:inject_view("cho", { "bob", "ann", "cho" }))
    group:join("dee"):run "2500ms"
    group:join("eve"):run("1s"):leave("dee"):run "100ms"
    local forms = {}
    for _, row in ipairs(group.sim:log()) do
      for _, message in ipairs(dissect.packet(row.bytes).messages) do
        for _, header in ipairs(message.headers) do
          if header.name == "gms" and header.protocol == 12 then
            local form = ("%d %s%s"):format(message.flags, message.type,
              message.type == "bytes" and not message.body and " null" or "")
            local word = header.word .. (row.multicast and " to all" or "")
            assert.equal(forms[word] or form, form, word)
            forms[word] = form
          end
        end
      end
    end
    assert.same({
      join_req = "1 bytes null", join_rsp = "0 bytes", leave_req = "1 empty",
      leave_rsp = "17 empty", view_ack = "5 empty", get_view = "5 bytes",
      ["view to all"] = "68 bytes", view = "5 bytes",
    }, forms)
    group:close()
  end)

  it("hands views up behind the messages that were sent before them", function()
    membership.each_seed(10, function(seed)
      local group = membership.group { seed = seed, latency = "1ms" }
      group:form { "ann", "bob", "cho" }
      local story = {}
      group.channels.bob:on("message", function(msg) story[#story + 1] = msg.body end)
      group.channels.bob:on("view", function(view) story[#story + 1] = view.id end)
      -- Lost once, so that it comes in one batch with the view that follows.
      group.sim:drop { layer = "nakack", type = "msg", body = "before", to = "bob", times = 1 }
      group.sim:spawn(function() group.channels.ann:send "before" end)
      group:gms("ann"):suspect "cho"
      group:run "500ms"
      assert.equal("before", story[1])
      assert.truthy(story[2]:find "^ann|3")
      group:close()
    end)
  end)

  it("shows joiners the mode of each stream", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob" }
    group.sim:spawn(function()
      group.channels.bob.stack:set { nakack = { retransmission = "ack" } }
    end)
    group:run "1s"
    -- Whatever bob says himself is lost on cho: she knows it from her join digest.
    group.sim:drop { from = "bob", to = "cho", layer = "nakack" }
    group:join "cho":wait({ "ann", "bob", "cho" }, 1e9)
    local bob = group.channels.cho.stack.nakack:windows():match "bob [^\n]*"
    assert.truthy(bob:find "mode=ack" and bob:find "epoch=1", bob)
    group:close()
  end)

  it("counts and drops what is cut short, of every kind", function()
    local cut = neap.layer "cut" {
      doc = "Cuts the bodies of membership messages short, one in three.",
      each_up = function(self, box, peer)
        peer.seen = peer.seen + 1
        if peer.seen % 3 == 0 and box.m.len > 0 then box.m.len = box.m.len - 1 end
        self:pass_up(box)
      end,
      peer = function() return { seen = 0 } end,
    }
    local malformed = 0
    membership.each_seed(20, function(seed)
      local group = membership.group {
        seed = seed, latency = "1ms", stack = membership.stack_with(cut {}, "gms"),
      }
      group:form { "ann", "bob", "cho", "dee" }
      group:leave("bob"):run "2s"
      group:gms("ann"):suspect "cho"
      group:run "30s"
      for _, name in ipairs { "ann", "cho", "dee" } do
        malformed = malformed + group:gms(name).malformed
      end
      group:close()
    end)
    assert.is_true(malformed > 20)
  end)
end)
