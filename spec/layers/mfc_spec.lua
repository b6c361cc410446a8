-- mfc: who multicasts waits for the slowest; the stories it shares with ufc are credits'.

local credits = require "support.credits"
local group = require "support.group"
local neap = require "neap"

describe("mfc", function()
  for _, story in ipairs(credits.stories "mfc") do it(story.says, story.run) end

  -- JGroups' MFC below NAKACK lost retransmissions for lack of credits; here that is no stack.
  it("does not stand below what resends", function()
    local ok, text = pcall(neap.stack, function(s)
      return s.stack "low" { "Credits below nakack.", s.gms {}, s.stable {}, s.unicast {},
        s.nakack {}, s.mfc {}, s.verify_suspect {}, s.fd_all {}, s.ping {}, s.udp {} }
    end)
    if ok then
      ok, text = pcall(group.new, { stack = text })
    end
    assert.is_false(ok)
    assert.truthy(text:find("mfc needs 'mcast_reliable'", 1, true), text)
  end)

  it("goes as fast as the slowest member, and never starves another sender", function()
    local g = credits.members "mfc"
    local release = credits.hold(g, "bob")
    credits.fill(g, nil)
    assert.equal(0, credits.fill(g, nil))
    -- cho has credits of its own.
    assert.is_true(g.cho:send(credits.body, { block = false }))
    release()
    g.sim:settle()
    assert.equal(11, #g.bodies.ann)
    assert.equal(11, #g.bodies.bob)
  end)
end)
