-- ufc: who sends to one member waits for that member; the stories it shares with mfc are credits'.

local credits = require "support.credits"

describe("ufc", function()
  for _, story in ipairs(credits.stories "ufc") do it(story.says, story.run) end

  it("lets a slow member hold back only those who send to it", function()
    local g = credits.members "ufc"
    credits.hold(g, "bob")
    credits.fill(g, "bob")
    g:call(function()
      for _ = 1, 100 do assert(g.ann:send(credits.body, { to = "cho" })) end
    end)
    g.sim:run "1s"
    assert.equal(100, #g.bodies.cho)
  end)
end)
