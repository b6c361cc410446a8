-- H09: an older view handed up after a newer one (JGRP-3036).

local membership = require "support.membership"
local neap = require "neap"

local NAMES = { "ann", "bob", "cho", "dee" }
local PIECE = 50000

local watching = neap.layer "watching" {
  doc = "Looks at the numbers of the views that pass.",
  attrs = {
    neap.gauge { "newest", unit = "views", doc = "Number of the last one." },
    neap.counter { "backwards", unit = "views", doc = "Not above the one before." },
  },
  event = function(self, event)
    if event.kind ~= "view" then return end
    local number = tonumber(event.view.id:match "|(%d+)$")
    if self.any and number <= self.newest then self.backwards = self.backwards + 1 end
    self.newest, self.any = number, true
  end,
}

-- Above everything, where views come last, and below everything, where they come first.
local function stack_of()
  return neap.stack(function(s)
    return s.extend("lan", {
      "Views are watched at both ends.",
      s.before("rsvp", watching { as = "top" }),
      s.after("nakack", watching { as = "bottom" }),
    })
  end)
end

-- Bob's view with cho waits 8 s for cho's name, which never comes; dee's join makes the next one.
local function story(seed, mode)
  local pieces = seed == 1 and 100 or 5 -- 5 MB of each member
  local got = { ann = {}, bob = {}, cho = {}, dee = {} }
  local group = membership.group {
    seed = seed, latency = "1ms", stack = stack_of(),
    with = { gms = { name_timeout = "8s" }, nakack = { retransmission = mode } },
  }
  local function join(name)
    group:join(name, { message = function(msg)
      got[name][msg.from_address] = (got[name][msg.from_address] or 0) + #msg.body
    end })
  end
  join "ann"
  group:run "3s"
  join "bob"
  group:run "1s"
  local rule = group.sim:drop { layer = "ping", from = "cho", to = "bob" }
  join "cho"
  group:run "1s"
  assert.equal(3, group:gms("bob").members) -- installed below, but not yet risen
  assert.equal(2, #group.channels.bob:view().members)
  join "dee"
  group:run "20s":agree(NAMES)
  group.sim:clear(rule) -- It was bob's only way to learn where cho is.
  for _, name in ipairs(NAMES) do
    group.sim:spawn(function()
      for _ = 1, pieces do assert(group.channels[name]:send(("x"):rep(PIECE))) end
    end)
  end
  group.sim:settle()
  for _, name in ipairs(NAMES) do
    local stack = group.channels[name].stack
    for _, from in ipairs(NAMES) do
      assert.equal(pieces * PIECE, got[name][group.channels[from].address])
    end
    assert.equal(0, stack.top.backwards + stack.bottom.backwards)
    assert.equal(stack.top.newest, stack.bottom.newest)
    assert.equal(#NAMES, stack.gms.members)
  end
  group:close()
end

describe("H09", function()
  for _, mode in ipairs { "nak", "ack" } do
    it("never hands up an older view behind a newer one, in " .. mode .. " mode", function()
      membership.each_seed(20, function(seed) story(seed, mode) end)
    end)
  end
end)
