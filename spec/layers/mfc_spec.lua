-- mfc: who multicasts waits for the slowest; the stories it shares with ufc are credits'.

local credits = require "support.credits"

describe("mfc", function()
  for _, story in ipairs(credits.stories "mfc") do it(story.says, story.run) end

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
