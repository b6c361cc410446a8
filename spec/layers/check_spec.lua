-- The checkers: silent while promises are kept, and each loud about a layer that breaks one.

local bit = require "bit"
local build = require "support.build"
local ffi = require "ffi"
local group = require "support.group"
local neap = require "neap"

local CHECKED = "spec/support/checked.lua"

-- Layers that break a promise and say nothing of it.
local function liar(name, up)
  return neap.layer(name) { doc = "Breaks a promise on its way up.", attrs = {}, each_up = up }
end

local function nth(body, act)
  return function(self, m)
    if m.body == body then act(self, m) else self:pass_up(m) end
  end
end

liar("loses", nth("lost", function() end))
liar("repeats", nth("twice", function(self, m)
  self:pass_up(self:clone(m))
  self:pass_up(m)
end))
liar("alters", nth("other", function(self, m)
  ffi.cast("uint8_t *", m.m.body)[0] = 0
  self:pass_up(m)
end))
liar("shortens", nth("less", function(self, m)
  m.m.len = 1
  self:pass_up(m)
end))
liar("empties", nth("", function(self, m)
  m.m.marks = bit.bor(m.m.marks, 1) -- No body at all.
  self:pass_up(m)
end))
liar("hurries", nth("slow", function(self, m) self:pass_up(self:clone(m)) end)) -- m is done with.
liar("swaps", nth("late", function(self, m)
  if self.kept then
    self:pass_up(m)
    self:pass_up(self.kept)
  end
  self.kept = not self.kept and self:hold(m) or nil
end))

neap.layer "forgets" {
  doc = "Those below never hear of a promise.",
  attrs = {},
  event = function(_, event) return event.kind == "hold" and "stop" or nil end,
}

-- Nobody above hears that something is stored; `some`: that all before it is.
local function deaf(name, some)
  return neap.layer(name) {
    doc = "Keeps to itself what is stored.", attrs = {}, each_up = nth("lost", function() end),
    event = function(_, event)
      if event.kind == "stored" and (event.flag or not some) then return "stop" end
    end,
  }
end
deaf "hides"
deaf("belittles", true)

-- checked.lua with a liar between the checker and who it watches.
local function lying(liar_name, before)
  return build.write(liar_name .. ".lua",
    ('return extend("%s", { "One layer lies.", before("%s", %s {}) })\n'):format(CHECKED, before,
      liar_name))
end

local function complaints_of(stack, body, options)
  local g = group.new { stack = stack }
  g.ann:send(body, options)
  g.sim:run "1s"
  g.ann:send("after", options)
  g.sim:run "1s"
  return table.concat(g.sim:complaints(), "\n")
end

describe("the checkers", function()
  it("are silent over seeds in which all promises are kept", function()
    group.each_seed(20, function(seed)
      local g = group.new {
        seed = seed, stack = CHECKED, loss = 0.1, reorder = 0.1, duplicate = 0.1, jitter = "2ms",
        with = { nakack = { retransmission = seed % 2 == 0 and "ack" or "nak" },
          stable = { interval = "100ms" } },
        message = function(_, _, msg) if #msg.body % 5 == 0 then neap.sleep "50ms" end end,
      }
      for i = 1, 60 do
        g.sim:spawn(function()
          neap.sleep(("%dms"):format(i * 20))
          local from = g.names[i % 3 + 1]
          g[from]:send(("x"):rep(i % 10 == 0 and 150000 or i), {
            to = i % 4 == 0 and g.names[i % 2 + 1] or nil, oob = i % 7 == 0,
            rsvp = i % 5 == 0 and (i % 2 == 0 and "completion" or "delivery") or nil,
          })
        end)
      end
      g.sim:run "30s"
      for _, name in ipairs(g.names) do g[name].stack.check_fifo:settled() end
      assert.same({}, g.sim:complaints())
      for _, name in ipairs(g.names) do
        for _, layer in ipairs { "check_fifo", "check_frag" } do
          assert(g[name].stack[layer].marked > 0)
          assert(g[name].stack[layer].compared > 0)
        end
        assert(g[name].stack.check_stable.compared > 0)
        assert.equal(0, g[name].stack.check_stable.busy)
        assert(g[name].stack.check_view.views > 0)
      end
      assert(g.ann.stack.check_rsvp.watched > 0)
    end)
  end)

  it("see a message that never comes", function()
    local stack = lying("loses", "check_stable")
    assert.matches("of ann's multicasts #%d+ came, #%d+ was due", complaints_of(stack, "lost"))
    assert.matches("of ann's unicasts #%d+ came, #%d+ was due",
      complaints_of(stack, "lost", { to = "bob" }))
    local g = group.new { stack = stack }
    g.ann:send "first"
    g.sim:run "1s"
    g.ann:send "lost"
    g.sim:run "1s"
    assert.same({}, g.sim:complaints())
    g.ann.stack.check_fifo:settled()
    assert.matches("of ann's %d+ multicasts #%d+ never came", g.sim:complaints()[1])
  end)

  it("see unicasts that never come", function()
    local g = group.new { stack = lying("loses", "check_stable") }
    g.ann:send("first", { to = "bob" })
    g.sim:run "1s"
    g.ann:send("lost", { to = "bob" })
    g.sim:run "1s"
    assert.same({}, g.sim:complaints())
    g.ann.stack.check_fifo:settled()
    assert.matches("of ann's %d+ unicasts #%d+ never came", g.sim:complaints()[1])
  end)

  it("see bodies that come out otherwise", function()
    assert.matches("4 bytes of ann came out as 1", complaints_of(lying("shortens", "frag"), "less"))
    assert.matches("5 bytes of ann are other ones now", complaints_of(lying("alters", "frag"),
      "other"))
    assert.matches("ann sent an empty body", complaints_of(lying("empties", "frag"), ""))
  end)

  it("see a message that comes twice", function()
    local stack = lying("repeats", "check_stable")
    assert.matches("of ann's multicasts #%d+ came again or late", complaints_of(stack, "twice"))
    assert.matches("of ann's multicasts out of band #%d+ came again",
      complaints_of(stack, "twice", { oob = true }))
  end)

  it("see messages in another order", function()
    local g = group.new { stack = lying("swaps", "check_stable"), names = { "ann", "bob" } }
    for _, body in ipairs { "first", "late", "late" } do g.ann:send(body) end
    g.sim:run "1s"
    local text = table.concat(g.sim:complaints(), "\n")
    assert.matches("bob check_fifo: of ann's multicasts #%d+ came, #%d+ was due", text)
    assert.matches("bob check_fifo: of ann's multicasts #%d+ came again or late", text)
  end)

  it("see a synchronous send that returns without having been delivered", function()
    local g = group.new { stack = lying("loses", "rsvp") }
    assert.is_true((g:call(function() return g.ann:send("lost", { rsvp = "delivery" }) end)))
    assert.matches("send 1 ended, and %a+ has not got it", table.concat(g.sim:complaints(), "\n"))
  end)

  it("see what was said to be complete and never rises", function()
    local g = group.new { stack = lying("loses", "rsvp") }
    assert.is_true((g:call(function() return g.ann:send("lost", { rsvp = "completion" }) end)))
    assert.same({}, g.sim:complaints())
    g.sim:run "3s" -- It could have been in a buffer.
    assert.matches("send 1 ended, and %a+ still has not got what came before it",
      table.concat(g.sim:complaints(), "\n"))
  end)

  it("see a synchronous send that returns though the message is nowhere, or alone", function()
    for liar_name, ack_on in pairs { hides = "reception", belittles = "completion" } do
      local g = group.new { stack = lying(liar_name, "rsvp") }
      local gap = g.sim:drop { from = "ann", to = "bob", layer = "nakack", body = "1" }
      g.ann:send "1"
      local handle = g.ann:send("lost", { rsvp = ack_on, wait = false })
      g.sim:run "20ms"
      g.sim:clear(gap)
      g.sim:run "2s"
      assert.same({}, handle.missing)
      assert.matches("send 1 ended, and bob has not got it",
        table.concat(g.sim:complaints(), "\n"))
    end
  end)

  it("see a synchronous send that returns while a callback runs", function()
    local g = group.new { stack = lying("hurries", "rsvp"), message = function(_, _, msg)
      if msg.body == "slow" then neap.sleep "5s" end
    end }
    assert.is_true((g:call(function() return g.ann:send("slow", { rsvp = "delivery" }) end)))
    assert.matches("send 1 ended, and %a+ is not done with it",
      table.concat(g.sim:complaints(), "\n"))
  end)

  -- Dee joins, and nobody tells the coordinator that the view is there: its digest stays promised.
  -- Then everybody has what the others sent after it, and is asked how far it is.
  local function promised(stack, mode)
    local with = { nakack = { retransmission = mode },
      stable = { interval = "50ms", max_bytes = "1GB" } }
    local g = group.new { stack = stack, with = with }
    local first = g.ann:view().coordinator
    g.sim:drop { to = first, layer = "gms", type = "view_ack" }
    g:join("dee", { stack = stack, with = with })
    g.sim:run "500ms"
    assert.equal(1, g[first].stack.check_stable.promises)
    for i = 1, 10 do
      for _, name in ipairs(g.names) do g[name]:send(tostring(i)) end
    end
    g.sim:run "2s"
    assert(g.ann.stack.check_stable.freed > 0)
    return table.concat(g.sim:complaints(), "\n")
  end

  it("see what is freed though it was promised", function()
    for _, mode in ipairs { "nak", "ack" } do assert.equal("", promised(CHECKED, mode)) end
    assert.matches("check_stable: %a+'s #%d+ goes, and %a+ has promised it from #%d+ on",
      promised(lying("forgets", "unicast"), "ack"))
  end)

  it("see a view that another member has otherwise", function()
    local g = group.new { stack = CHECKED }
    g.sim:inject_view("bob", { "bob" })
    g.sim:inject_view("cho", { "bob", "cho" })
    g.sim:run "10ms"
    assert.matches("check_view: bob|%d+ has other members somewhere else", g.sim:complaints()[1])
  end)
end)
