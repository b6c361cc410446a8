-- channel: messages, callbacks, views, joining and the end.

local members = require "support.members"
local neap = require "neap"

local function in_sim(sim, f)
  local result
  sim:spawn(function() result = { f() } end)
  sim:run "30s"
  assert(result, "it still waits")
  return unpack(result)
end

local function fails(text, f, ...)
  local ok, problem = pcall(f, ...)
  assert.is_false(ok)
  assert.truthy(tostring(problem):find(text, 1, true), tostring(problem))
end

describe("a message", function()
  local sim, m
  before_each(function() sim, m = members.group { "ann", "bob", "cho" } end)

  it("says who sent it, to whom, and what", function()
    local seen = {}
    m.bob:on("message", function(msg)
      seen[#seen + 1] = {
        from = msg.from, to = msg.to, body = msg.body, oob = msg.oob, seqno = msg.seqno,
        from_address = msg.from_address, replayed = msg.replayed,
      }
    end)
    m.ann:send "all"
    m.ann:send("one", { to = "bob", oob = true })
    m.ann:send(nil)
    m.ann:send ""
    m.ann:send(5)
    sim:settle()
    local function row(body)
      for _, message in ipairs(seen) do
        if message.body == body then return message end
      end
    end
    assert.equal(5, #seen)
    assert.equal("ann", row("all").from)
    assert.equal(m.ann.address, row("all").from_address)
    assert.is_nil(row("all").to)
    assert.is_false(row("all").oob)
    assert.is_false(row("all").replayed)
    assert.equal("number", type(row("all").seqno))
    assert.equal("bob", row("one").to)
    assert.is_true(row("one").oob)
    assert.is_nil(row(nil).body)
    assert.equal("", row("").body)
    assert.equal("5", row("5").body)
  end)

  it("is valid until its callback returned", function()
    local kept
    m.bob:on("message", function(msg) kept = msg end)
    m.ann:send "x"
    sim:settle()
    fails("no longer valid", function() return kept.body end)
    fails("no longer valid", function() return kept.from end)
    assert.equal("a message that is no longer valid", tostring(kept))
  end)

  it("stays valid while its callback waits", function()
    local body
    m.bob:on("message", function(msg)
      neap.sleep "1s"
      body = msg.body
    end)
    m.ann:send "x"
    sim:run "2s"
    assert.equal("x", body)
  end)

  it("cannot be changed, and has no other fields", function()
    local problems = {}
    m.bob:on("message", function(msg)
      problems[1] = select(2, pcall(function() msg.body = "y" end))
      problems[2] = select(2, pcall(function() return msg.bodi end))
    end)
    m.ann:send "x"
    sim:settle()
    assert.truthy(problems[1]:find("cannot be changed", 1, true))
    assert.truthy(problems[2]:find("no field 'bodi'", 1, true))
  end)
end)

describe("callbacks", function()
  local sim, m
  before_each(function() sim, m = members.group { "ann", "bob", "cho" } end)

  it("run one at a time per sender; one that waits holds back its own sender only", function()
    local log = {}
    m.cho:on("message", function(msg)
      local body = msg.body
      if body == "slow" then neap.sleep "1s" end
      log[#log + 1] = body
    end)
    m.ann:send "slow"
    m.ann:send "after slow"
    sim:run "10ms"
    m.bob:send "other"
    sim:run "100ms"
    assert.same({ "other" }, log)
    sim:run "2s"
    assert.same({ "other", "slow", "after slow" }, log)
  end)

  it("see views in order, between the messages, also while one waits", function()
    local log = {}
    m.ann:on("message", function(msg)
      log[#log + 1] = msg.body
      if msg.body == "slow" then neap.sleep "60s" end
    end)
    m.ann:on("view", function(view) log[#log + 1] = #view.members end)
    m.bob:send "slow"
    sim:run "10ms"
    sim:kill "cho"
    sim:run "30s"
    assert.same({ "slow", 2 }, log)
  end)

  it("get what arrived together as one list with on batch", function()
    m.bob:on("message", nil)
    local lists = {}
    m.bob:on("batch", function(list)
      local bodies = {}
      for index, msg in ipairs(list) do bodies[index] = msg.body end
      lists[#lists + 1] = table.concat(bodies, " ")
    end)
    for i = 1, 5 do m.ann:send("m" .. i) end
    sim:settle()
    assert.equal("m1 m2 m3 m4 m5", table.concat(lists, " "))
    assert.is_true(#lists < 5)
  end)

  it("may do with their list what they like", function()
    local kept
    m.bob:on("message", nil)
    m.bob:on("batch", function(list) kept = table.remove(list, 1) end)
    m.ann:send "x"
    sim:settle()
    fails("no longer valid", function() return kept.body end)
  end)

  it("take either messages or batches", function()
    fails("a message goes to one of the two", m.bob.on, m.bob, "batch", function() end)
  end)

  it("get what waited for them", function()
    local sim2, d = members.group({ "ann", "bob" })
    d.bob:on("message", nil)
    for i = 1, 10 do d.ann:send(i) end
    sim2:settle()
    local got = {}
    d.bob:on("message", function(msg) got[#got + 1] = msg.body end)
    sim2:run "1ms"
    assert.equal("1 2 3 4 5 6 7 8 9 10", table.concat(got, " "))
  end)

  it("may send, and what they cannot send waits in a small queue", function()
    local results = {}
    m.bob:on("message", function(msg)
      if msg.from == "ann" then
        for _ = 1, 300 do
          local ok, code = m.bob:send(("x"):rep(60000))
          results[#results + 1] = ok or code
          if not ok then break end
        end
      end
    end)
    m.ann:send "go"
    sim:run "10s"
    -- The window takes some, the queue takes 64 more, then it would block.
    assert.equal("would block", results[#results])
    assert.is_true(#results > 65)
    local count = 0
    for _, body in ipairs(m.cho.got) do
      if #body == 60000 then count = count + 1 end
    end
    assert.equal(#results - 1, count)
  end)

  it("are known by name", function()
    fails("the event 'mesage' is not known (did you mean 'message'?)", m.ann.on, m.ann, "mesage",
      print)
    fails("takes a function", m.ann.on, m.ann, "view", 5)
  end)
end)

describe("a view", function()
  it("lists names in order, with who came and who went", function()
    local sim, m = members.group { "ann", "bob", "cho" }
    local view = m.ann:view()
    local last = m.bob.views[#m.bob.views]
    assert.equal(view.id, last.id)
    assert.same(view.members, last.members)
    assert.equal(view.members[1], view.coordinator)
    assert.equal(view.coordinator .. "|" .. view.id:match "|(%d+)$", view.id)
    assert.equal(3, #view.addresses)
    assert.is_false(view.merged)
    assert.is_true(#last.joined >= 1)
    local victim = view.members[3]
    sim:kill(victim)
    sim:run "40s"
    local survivor = view.members[1]
    assert.same({ victim }, m[survivor]:view().left)
    assert.same({}, m[survivor]:view().joined)
  end)
end)

describe("the end of a channel", function()
  local sim, m
  before_each(function() sim, m = members.group { "ann", "bob", "cho" } end)

  it("is good order with leave", function()
    assert.is_true(in_sim(sim, function() return m.bob:leave() end))
    assert.equal(2, #m.ann:view().members)
    assert.same({ "bob" }, m.ann:view().left)
    assert.same({ nil, "closed" }, { m.bob:send "x" })
    assert.is_true(in_sim(sim, function() return m.bob:leave() end))
  end)

  it("is at once with close; twice is fine", function()
    assert.is_true(m.bob:close())
    assert.is_true(m.bob:close())
    assert.is_false(m.bob:is_open())
    assert.same({ nil, "closed" }, { m.bob:send "x" })
    sim:run "60s"
    assert.equal(2, #m.ann:view().members)
    assert.same({ nil, "closed" }, { m.bob:send("x", { to = "ann" }) })
    assert.same({ nil, "closed" }, { m.bob:send("x", { to = m.ann.address }) })
    fails("bob is closed", function() return m.bob.nakack.waiting end)
  end)

  it("comes to those who wait", function()
    local results = {}
    sim:spawn(function()
      for _ = 1, 300 do
        local ok, code = m.ann:send(("x"):rep(60000))
        if not ok then
          results[#results + 1] = code
          break
        end
      end
    end)
    sim:run "1us"
    m.ann:close()
    sim:run "1ms"
    assert.same({ "closed" }, results)
  end)

  it("waits are called inside a coroutine", function()
    fails("leave waits: call it inside sim:spawn", m.ann.leave, m.ann)
    for _, method in ipairs { "on", "view", "send", "flush_sent", "leave", "close", "is_open" } do
      for _, bad in ipairs { "x", 5, {} } do
        fails(("channel_spec.lua:15: %s is called with a colon"):format(method), m.ann[method], bad)
      end
    end
    assert.is_true(m.ann:leave { wait = false })
    sim:run "5s"
    assert.equal(2, #m.bob:view().members)
  end)
end)

describe("get_state", function()
  it("is refused by a stack that has no layer for it", function()
    local _, m = members.group { "ann", "bob" }
    assert.same({ nil, "refused", "the stack has no layer that transfers state" },
      { m.ann:get_state { from = "bob" } })
  end)
end)

describe("join", function()
  local sim
  before_each(function() sim = neap.sim { seed = 1 } end)

  it("knows its options", function()
    fails("the option 'stak' is not known (did you mean 'stack'?)", sim.join, sim, "g",
      { stak = "lan" })
    fails("join needs a stack", sim.join, sim, "g", {})
    fails("a group has a name", sim.join, sim, "", { stack = "bare" })
    fails("a name is a string", sim.join, sim, "g", { stack = "bare", name = 5 })
  end)

  it("opens nothing when a handler is wrong", function()
    fails("the event 'mesage' is not known", sim.join, sim, "g",
      { stack = "bare", name = "ann", on = { mesage = print } })
    fails("takes a function", sim.join, sim, "g",
      { stack = "bare", name = "ann", on = { view = 5 } })
    fails("one of the two", sim.join, sim, "g",
      { stack = "bare", name = "ann", on = { message = print, batch = print } })
    assert.same({ nil, "not a member", "nobody is called 'ann'" }, { sim:pause "ann" })
  end)

  it("takes handlers at once", function()
    local views = 0
    sim:join("g", { stack = "bare", on = { view = function() views = views + 1 end } })
    sim:run "1ms"
    assert.equal(1, views)
  end)

  it("returns with the first view inside a coroutine", function()
    local view
    sim:spawn(function()
      local ann = assert(neap.join("g", { stack = "lan", name = "ann" }))
      view = ann:view()
      assert.equal("ann", ann.name)
    end)
    sim:run "10s"
    assert.same({ "ann" }, view.members)
  end)

  it("gives members without a name one", function()
    local a, b = sim:join("g", { stack = "bare" }), sim:join("g", { stack = "bare" })
    assert.is_true(a.name ~= b.name)
  end)
end)
