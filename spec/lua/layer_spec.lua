-- layer: layers written in Lua, in both forms.

local members = require "support.members"
local neap = require "neap"

local param, gauge, counter = neap.param, neap.gauge, neap.counter

local function fails(text, f, ...)
  local ok, problem = pcall(f, ...)
  assert.is_false(ok)
  assert.truthy(tostring(problem):find(text, 1, true), tostring(problem))
end

-- Two members over the wire with this layer.
local function over(layer, options)
  local stack = neap.stack(function(s) return s.stack "test" { "S.", layer {}, s.udp {} } end)
  local sim, m = members.new({ "ann", "bob" }, options, stack)
  sim:run "1ms"
  return sim, m
end

describe("a layer in short form", function()
  local third = neap.layer "third" {
    doc = "Drops every third message of each sender.",
    attrs = { param { "n", default = 3, min = 2, live = "now", doc = "Drop one in n." } },
    peer = function() return { seen = 0 } end,
    each_up = function(self, m, p)
      p.seen = p.seen + 1
      if p.seen % self.n ~= 0 then self:pass_up(m) end
    end,
  }

  it("is called once per message, with the state of its sender", function()
    local sim, m = over(third)
    for i = 1, 7 do m.ann:send(i) end
    sim:settle()
    assert.equal("1 2 4 5 7", table.concat(m.bob.got, " "))
    m.bob.third.n = 2
    for i = 1, 4 do m.ann:send(i) end
    sim:settle()
    assert.equal("1 2 4 5 7 2 4", table.concat(m.bob.got, " ")) -- 7 were seen before
  end)

  it("frees what it does not pass", function()
    local sim, m = over(third)
    for i = 1, 100 do m.ann:send(i) end
    sim:settle()
    assert.equal(67, #m.bob.got)
    sim:close() -- asserts that the pools are full again
  end)

  it("has state that comes and goes with the members", function()
    local gone = {}
    local watch = neap.layer "watch" {
      doc = "Says who went.",
      needs = "view",
      peer = function(_, name) return { name = name } end,
      peer_gone = function(_, p) gone[#gone + 1] = p.name end,
      each_up = function(self, m) self:pass_up(m) end,
    }
    local stack = neap.stack(function(s)
      return s.extend(members.grouped(), { s.before("gms", watch {}) })
    end)
    local sim, m = members.group({ "ann", "bob", "cho" }, nil, nil, stack)
    for _, name in ipairs { "ann", "bob", "cho" } do m[name]:send "x" end
    sim:run "1s"
    local last = m.ann:view().members[3]
    sim:kill(last)
    sim:run "40s"
    assert.same({ last, last }, gone) -- of the two that are left
  end)
end)

describe("a layer in batch form", function()
  it("sees what came together, and may turn it round", function()
    local turn = neap.layer "turn" {
      doc = "Each batch the other way round.",
      up = function(self, batch)
        local list = {}
        for m in batch:each() do list[#list + 1] = m end
        for index = #list, 1, -1 do self:pass_up(list[index]) end
      end,
    }
    local sim, m = over(turn)
    for i = 1, 3 do m.ann:send(i) end
    sim:settle()
    assert.equal("3 2 1", table.concat(m.bob.got, " "))
  end)

  it("sees messages going down", function()
    local directions = {}
    local both = neap.layer "both" {
      doc = "Writes down what passes.",
      down = function(self, batch)
        for m in batch:each() do
          directions[#directions + 1] = "down " .. m.body
          self:pass_down(m)
        end
      end,
      up = function(self, batch)
        for m in batch:each() do
          directions[#directions + 1] = "up " .. m.body
          self:pass_up(m)
        end
      end,
    }
    local sim, m = over(both)
    m.ann:send "x"
    sim:settle()
    table.sort(directions)
    assert.same({ "down x", "up x", "up x" }, directions)
  end)

  it("holds messages and passes them later", function()
    local function pass(self)
      for _, m in ipairs(self.waiting_list) do self:pass_up(m) end
      self.waiting_list, self.held = {}, 0
    end
    local late = neap.layer "late" {
      doc = "Passes everything after a while.",
      attrs = {
        param { "delay", unit = "ns", default = "10ms", live = "now", doc = "How long." },
        gauge { "held", unit = "messages", doc = "Waiting now." },
      },
      open = function(self) self.waiting_list = {} end,
      up = function(self, batch)
        for m in batch:each() do
          table.insert(self.waiting_list, self:hold(m))
          self.held = self.held + 1
        end
        if not self:waiting() then self:after(self.delay, pass) end
      end,
      check = function(self) assert(#self.waiting_list == self.held) end,
    }
    local sim, m = over(late)
    m.ann:send "x"
    sim:run "5ms"
    assert.same({}, m.bob.got)
    assert.equal(1, m.bob.late.held)
    sim:run "10ms"
    assert.same({ "x" }, m.bob.got)
    assert.equal(0, m.bob.late.held)
    m.ann:send "held when it closes"
    sim:run "5ms"
    sim:close()
  end)

  it("cannot touch what it passed, freed or did not hold", function()
    local problems, kept = {}, nil
    local rude = neap.layer "rude" {
      doc = "Touches what is not its own.",
      up = function(self, batch)
        for m in batch:each() do
          local before = kept
          if before then
            problems[#problems + 1] = select(2, pcall(function() return before.body end))
          end
          kept = m
          self:pass_up(m)
          problems[#problems + 1] = select(2, pcall(self.pass_up, self, m))
        end
      end,
    }
    local sim, m = over(rude)
    m.ann:send "x"
    sim:settle()
    m.ann:send "y"
    sim:settle()
    assert.is_true(#problems >= 3)
    for _, problem in ipairs(problems) do
      assert.truthy(problem:find("passed on", 1, true), problem)
    end
  end)
end)

describe("a layer's header", function()
  it("is written and read by its fields", function()
    local heads = {}
    local counting = neap.layer "counting" {
      doc = "Numbers.",
      headers = {
        id = 2049,
        { "kind", "u8", "1 or 2" },
        { "seq", "clong", "place" },
        { "late", "flag", "or not" },
        { "extra", "i32", "only of kind 2", when = { "kind", 2 } },
      },
      open = function(self) self.last = 0 end,
      down = function(self, batch)
        for m in batch:each() do
          self.last = self.last + 1
          self:put(m, { kind = self.last, seq = 2 ^ 40 + self.last, late = true, extra = -7 })
          self:pass_down(m)
        end
      end,
      up = function(self, batch)
        for m in batch:each() do
          local h = self:get(m)
          heads[#heads + 1] = { h.kind, h.seq, h.late, h.extra, pcall(function() return h.nix end) }
          self:pass_up(m)
        end
      end,
    }
    local sim, m = over(counting)
    m.ann:send("a", { loopback = false })
    m.ann:send("b", { loopback = false })
    sim:settle()
    local of_bob = {}
    for _, head in ipairs(heads) do of_bob[#of_bob + 1] = table.concat({ tostring(head[1]),
      ("%.0f"):format(head[2]), tostring(head[3]), tostring(head[4]) }, " ") end
    local text = table.concat(of_bob, "; ")
    assert.truthy(text:find("1 1099511627777 true 0", 1, true), text)
    assert.truthy(text:find("2 1099511627778 true -7", 1, true), text)
    assert.is_false(heads[1][5])
    assert.truthy(heads[1][6]:find("the header has no field 'nix'", 1, true))
  end)

  it("has no other fields than those", function()
    local typo = neap.layer "typo" {
      doc = "Writes a field that is not there.",
      headers = { id = 2990, { "seq", "clong" } },
      each_down = function(self, m)
        self:put(m, { sec = 1 })
        self:pass_down(m)
      end,
    }
    local sim, m = over(typo)
    m.ann:send "x"
    fails("the header of typo has no field 'sec' (did you mean 'seq'?)", sim.settle, sim)
  end)

  it("is absent on messages without it", function()
    local seen
    local reader = neap.layer "reader" {
      doc = "Reads.",
      headers = { id = 2050, { "seq", "clong", "place" } },
      up = function(self, batch)
        for m in batch:each() do
          seen = self:get(m) == nil
          self:pass_up(m)
        end
      end,
    }
    local sim, m = over(reader)
    m.ann:send "x"
    sim:settle()
    assert.is_true(seen)
  end)

  it("drops on rules by its fields", function()
    local plain = neap.layer "plain" {
      doc = "Numbers.",
      headers = { id = 2051, { "seq", "clong", "place" } },
      open = function(self) self.last = 0 end,
      down = function(self, batch)
        for m in batch:each() do
          self.last = self.last + 1
          self:put(m, { seq = self.last })
          self:pass_down(m)
        end
      end,
    }
    local sim, m = over(plain)
    sim:drop { layer = "plain", seq = 2, to = "bob" }
    for i = 1, 3 do m.ann:send(i) end
    sim:settle()
    assert.equal("1 3", table.concat(m.bob.got, " "))
  end)
end)

describe("a layer in Lua", function()
  it("makes messages of its own, that the application never sees", function()
    local pongs = 0
    local ping = neap.layer "pinger" {
      doc = "Answers every message.",
      headers = { id = 2052, { "answer", "u8", "1" } },
      up = function(self, batch)
        for m in batch:each() do
          if self:get(m) then
            pongs = pongs + 1
          else
            local answer = self:new { to = m, body = "pong" }
            self:put(answer, { answer = 1 })
            self:pass_down(answer)
            self:pass_up(m)
          end
        end
      end,
    }
    local stack = neap.stack(function(s)
      return s.extend(members.grouped(), { s.before("gms", ping {}) })
    end)
    local sim, m = members.group({ "ann", "bob" }, nil, nil, stack)
    m.ann:send("x", { loopback = false })
    sim:run "1s"
    assert.same({ "x" }, m.bob.got)
    assert.equal(1, pongs)
    assert.same({}, m.ann.got)
  end)

  it("sees events, and says whether they travel on", function()
    local seen = {}
    local watch = neap.layer "events" {
      doc = "Watches.",
      event = function(_, event, up)
        if event.kind == "view" and up then
          seen[#seen + 1] = table.concat(event.view.members, " ")
        end
        if event.kind == "suspect" then return "stop" end
      end,
    }
    local stack = neap.stack(function(s)
      return s.extend(members.grouped(), { s.before("gms", watch {}) })
    end)
    local _, m = members.group({ "ann", "bob" }, nil, nil, stack)
    local view = table.concat(m.ann:view().members, " ")
    assert.equal(view, seen[#seen])
  end)

  it("raises events", function()
    local trouble
    local alarm = neap.layer "alarm" {
      doc = "Raises trouble.",
      up = function(self, batch)
        for m in batch:each() do
          self:event_up("trouble", { text = "it burns" })
          self:pass_up(m)
        end
      end,
    }
    local sim, m = over(alarm)
    m.bob:on("trouble", function(t) trouble = t.text end)
    m.ann:send "x"
    sim:settle()
    assert.equal("it burns", trouble)
  end)

  it("has operations", function()
    local op = neap.layer "op" {
      doc = "Has one.",
      attrs = { counter { "hits", doc = "Of hit." } },
      ops = {
        hit = { doc = "Counts.", run = function(self, by) self.hits = self.hits + (by or 1) end },
      },
    }
    local sim, m = over(op)
    m.bob.op:hit()
    m.bob.op:hit(4)
    m.ann:send "x"
    sim:settle()
    assert.equal(5, m.bob.op.hits)
  end)

  it("is told of sets, and may refuse them", function()
    local changes = {}
    local choosy = neap.layer "choosy" {
      doc = "Likes even numbers.",
      attrs = {
        param { "even", default = 2, live = "now", doc = "An even number." },
        param { "pause", unit = "ns", default = "5ms", live = "timer", doc = "A time." },
        param { "mode", default = "a", choices = "a b", live = "now", doc = "A choice." },
        param { "on", default = true, live = "now", doc = "A flag." },
        param { "chance", default = 0.5, real = true, max = 1, live = "now", doc = "A real." },
        param { "label", default = "x", live = "now", doc = "A text." },
      },
      may = function(_, name, value)
        if name == "even" and value % 2 == 1 then return "that is odd" end
      end,
      changed = function(self, name)
        changes[#changes + 1] = name .. "=" .. tostring(self[name])
      end,
    }
    local _, m = over(choosy)
    m.bob.choosy.even = 4
    m.bob.choosy.pause = "7ms"
    m.bob.choosy.mode = "b"
    m.bob.choosy.on = false
    m.bob.choosy.chance = 0.25
    m.bob.choosy.label = "y"
    assert.equal("even=4 pause=7ms mode=b on=false chance=0.25 label=y", table.concat(changes, " "))
    assert.equal("7ms", tostring(m.bob.choosy.pause))
    assert.equal("b", m.bob.choosy.mode)
    assert.is_false(m.bob.choosy.on)
    assert.equal(0.25, m.bob.choosy.chance)
    assert.equal("y", m.bob.choosy.label)
    fails("choosy.even: that is odd", function() m.bob.choosy.even = 5 end)
    fails("choosy.chance", function() m.bob.choosy.chance = 2 end)
    fails("choosy.mode", function() m.bob.choosy.mode = "c" end)
    assert.equal(4, m.bob.choosy.even)
  end)

  it("has time and chance from the world", function()
    local at, drawn = {}, {}
    local clock = neap.layer "clock" {
      doc = "Ticks.",
      open = function(self)
        local function tick(layer)
          at[#at + 1] = layer:now()
          drawn[#drawn + 1] = layer:random(1000)
          if #at < 3 then layer:after("1ms", tick) end
        end
        self:after("1ms", tick, { background = true })
      end,
    }
    local stack = neap.stack(function(s) return s.stack "t" { "S.", clock {}, s.udp {} } end)
    local sim = neap.sim { seed = 1 }
    sim:join("g", { stack = stack, name = "ann" })
    sim:run "1s"
    assert.same({ 1e6, 2e6, 3e6 }, at)
    for _, number in ipairs(drawn) do assert.is_true(number >= 0 and number < 1000) end
  end)
end)

describe("an error in a Lua layer", function()
  local function bomb(name, what)
    return neap.layer(name) {
      doc = "Fails.",
      up = function(self, batch)
        for m in batch:each() do
          if m.body == "boom" then what() end
          self:pass_up(m)
        end
      end,
    }
  end

  it("stops that stack where it stands, and no other", function()
    local function exploding() error "exploded" end
    local sim, m = over(bomb("bomb", exploding))
    local texts = {}
    m.bob:on("error", function(text) texts[#texts + 1] = text end)
    m.ann:on("error", function() end)
    m.ann:send "before"
    sim:settle()
    m.bob:send("boom", { to = m.bob.address })
    sim:run "1s"
    m.ann:send "after"
    sim:run "1s"
    assert.same({ "before" }, m.bob.got)
    assert.same({ "before", "after" }, m.ann.got)
    assert.equal(1, #texts)
    assert.truthy(texts[1]:find("layer bomb stopped its stack: ", 1, true))
    assert.truthy(texts[1]:find("exploded", 1, true))
    assert.truthy(texts[1]:find("in function 'what'", 1, true)
      or texts[1]:find("exploding", 1, true), texts[1])
    sim:close()
  end)

  it("leaves nobody waiting for the stack", function()
    local sim, m = over(bomb("bomb3", function() error "exploded" end))
    m.bob:on("error", function() end)
    local results = {}
    m.ann:send("boom", { loopback = false })
    sim:run "1s"
    results[1] = { m.bob:send "x" }
    sim:spawn(function() results[2] = m.bob:leave() end)
    sim:run "1s"
    assert.is_nil(results[1][1])
    assert.equal("closed", results[1][2])
    assert.truthy(results[1][3]:find("exploded", 1, true))
    assert.is_true(results[2])
    assert.is_false(m.bob:is_open())
  end)

  it("comes out of sim:run when nobody handles it", function()
    local sim, m = over(bomb("bomb2", function() error "exploded" end))
    m.ann:send("boom", { loopback = false })
    fails("layer bomb2 stopped its stack", sim.run, sim, "1s")
  end)

  it("in open refuses to join", function()
    local closed = neap.layer "closed" {
      doc = "Cannot open.",
      open = function() error "no key" end,
    }
    local stack = neap.stack(function(s) return s.stack "t" { "S.", closed {}, s.udp {} } end)
    local sim = neap.sim { seed = 1 }
    local ok, code, detail = sim:join("g", { stack = stack, name = "ann" })
    assert.is_nil(ok)
    assert.equal("string", type(code))
    assert.matches("closed: cannot open: .*layer_spec.lua:%d+: no key$", detail)
  end)

  it("in close is told, also when nothing happens any more", function()
    local sim, m = over(neap.layer "keeper" { doc = "Stays.", close = function() error "no" end })
    for _, name in ipairs { "ann", "bob" } do m[name]:close() end
    fails("layer keeper stopped its stack: ", sim.run, sim, "1ms")
  end)

  it("in check stops the stack too", function()
    local wrong = neap.layer "wrong" {
      doc = "Believes what is not so.",
      check = function() error "two and two is five" end,
    }
    local stack = neap.stack(function(s) return s.stack "t" { "S.", wrong {}, s.udp {} } end)
    local sim, m = members.new({ "ann" }, { seed = 1 }, stack)
    m.ann:send "x"
    fails("two and two is five", sim.run, sim, "1s")
  end)
end)
