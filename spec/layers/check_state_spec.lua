-- check_state is silent while a state fits the messages around it, and loud where layers lie.
-- (That it sees a digest ahead of its state is shown by mutant 541.)

local bit = require "bit"
local build = require "support.build"
local neap = require "neap"

local CHECKED = "spec/support/checked_state.lua"

-- Layers that spoil what rises, between the one that gives state and the application.
local function liar(name, up)
  return neap.layer(name) { doc = "Spoils what rises.", attrs = {}, each_up = up }
end

liar("remembers", function(self, m)
  if m.body == "new" then self:pass_up(self.kept) end
  if m.body == "old" then
    self.kept = self:hold(m)
    m = self:clone(m)
  end
  self:pass_up(m)
end)
liar("unmarks", function(self, m)
  m.m.marks = bit.band(m.m.marks, bit.bnot(128))
  self:pass_up(m)
end)
liar("marks", function(self, m)
  m.m.marks = bit.bor(m.m.marks, 128)
  self:pass_up(m)
end)

-- Ann gives the state to cho, one of whose layers (`name`) lies.
local function story(name)
  local sim, members = neap.sim { seed = 1, latency = "1ms" }, {}
  local stack = name and build.write(name .. ".lua",
    ('return extend("%s", { "One layer lies.", before("state_transfer", %s {}) })\n'):format(
      CHECKED, name))
  for _, who in ipairs { "ann", "bob", "cho" } do
    members[who] = sim:join("check", {
      stack = who == "cho" and stack or CHECKED, name = who,
      on = {
        message = function(msg) if msg.body == "slow" then neap.sleep "200ms" end end,
        state_request = function()
          neap.sleep "100ms"
          return "state"
        end,
        state = function() end,
      },
    })
    sim:run "2s"
  end
  members.bob:send "old"
  sim:run "50ms"
  members.bob:send "slow"
  sim:run "20ms"
  local ok
  sim:spawn(function() ok = members.cho:get_state { from = "ann", timeout = "5s" } end)
  sim:run "50ms"
  members.bob:send "during"
  sim:run "2s"
  assert.is_true(ok)
  members.bob:send "new"
  sim:run "1s"
  return table.concat(sim:complaints(), "\n"), members
end

local function complaints_of(name)
  return (story(name))
end

describe("check_state", function()
  it("is silent where all is well, and has looked", function()
    local text, m = story()
    assert.equal("", text)
    assert(m.ann.stack.check_state.given == 2 and m.cho.stack.check_state.taken == 1)
    assert(m.cho.stack.check_state.watched > 2)
  end)

  it("sees what is in the state and rises again, and marks that are wrong", function()
    assert.matches("bob's #1 is in the state and rose again",
      complaints_of "remembers")
    assert.matches("bob's #2 may be in the state, unmarked",
      complaints_of "unmarks")
    assert.matches("bob's #%d is marked, and not in the state",
      complaints_of "marks")
  end)
end)
