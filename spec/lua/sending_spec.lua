-- sending: to all and to one, with and without room, synchronous, and what leave waits for.

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

describe("send", function()
  local sim, m
  before_each(function() sim, m = members.group { "ann", "bob", "cho" } end)

  it("goes to all, or to one by name or address", function()
    assert.is_true(m.ann:send "all")
    assert.is_true(m.ann:send("name", { to = "bob" }))
    assert.is_true(m.ann:send("address", { to = m.bob.address }))
    sim:settle()
    assert.equal(3, #m.bob.got)
    assert.same({ "all" }, m.cho.got)
    assert.same({ "all" }, m.ann.got)
  end)

  it("may go out of order, or without repair", function()
    sim:drop { from = "ann", to = "bob", body = "lost", times = 1 }
    m.ann:send "lost"
    m.ann:send("first", { oob = true })
    sim:drop { from = "ann", to = "bob", body = "gone", times = 1 }
    m.ann:send("gone", { reliable = false })
    m.ann:send("here", { reliable = false })
    sim:run "5s"
    local got = table.concat(m.bob.got, " ")
    assert.equal("first here lost", got)
    assert.is_true(#m.cho.got == 4)
  end)

  it("leaves out its sender with loopback = false", function()
    m.ann:send("x", { loopback = false })
    sim:settle()
    assert.same({}, m.ann.got)
    assert.same({ "x" }, m.bob.got)
  end)

  it("says who is not a member", function()
    local ok, code, detail = m.ann:send("x", { to = "zoe" })
    assert.is_nil(ok)
    assert.equal("not a member", code)
    assert.truthy(detail:find("'zoe' is not in view", 1, true))
  end)

  it("refuses what it does not know, with the caller's line", function()
    fails("send has no option 'tu' (did you mean 'to'?)", m.ann.send, m.ann, "x", { tu = "bob" })
    fails("a message's body is a string or nil, not a table", m.ann.send, m.ann, {})
    fails("loopback is true or false, not no", m.ann.send, m.ann, "x", { loopback = "no" })
    fails("timeout goes with rsvp", m.ann.send, m.ann, "x", { timeout = "1s" })
    fails("rsvp is true", m.ann.send, m.ann, "x", { rsvp = "deliver" })
    local ok, problem = pcall(function() m.ann:send("x", { tu = 1 }) end)
    assert.is_false(ok)
    assert.truthy(problem:match "sending_spec.lua:%d+: send has no option")
  end)

  it("refuses bodies that the stack cannot carry, and names the limit", function()
    local _, d = members.group({ "ann", "bob" }, nil, { frag = { max_message = "100KB" } }, "lan")
    local ok, code, detail = d.ann:send(("x"):rep(100001))
    assert.is_nil(ok)
    assert.equal("too big", code)
    assert.equal("100001 bytes; this stack carries at most 100000", detail)
  end)

  it("says would block outside a coroutine when there is no room", function()
    local code
    for _ = 1, 1000 do
      local ok
      ok, code = m.ann:send(("x"):rep(60000))
      if not ok then break end
    end
    assert.equal("would block", code)
  end)

  it("waits for room inside a coroutine, and not with block = false", function()
    local sent, refused = 0, nil
    sim:spawn(function()
      for _ = 1, 300 do
        assert(m.ann:send(("x"):rep(60000)))
        sent = sent + 1
      end
    end)
    sim:spawn(function()
      neap.sleep "1us"
      refused = { m.ann:send("y", { block = false }) }
    end)
    sim:run "60s"
    assert.equal(300, sent)
    assert.same({ nil, "would block" }, refused)
    assert.equal(300, #m.bob.got)
  end)

  it("says writable when there is room again", function()
    local writable = 0
    m.ann:on("writable", function() writable = writable + 1 end)
    repeat
      local ok = m.ann:send(("x"):rep(60000))
    until not ok
    sim:run "5s"
    assert.is_true(writable > 0)
    assert.is_true(m.ann:send "x")
  end)

  -- Sends until it would block, and once more.
  local function fill(to)
    local sent = 0
    while m.ann:send(("x"):rep(60000), { to = to, block = false }) do sent = sent + 1 end
    local _, code = m.ann:send(("x"):rep(60000), { to = to, block = false })
    assert.equal("would block", code)
    return sent
  end

  it("says writable once for each class that was turned away", function()
    local told = {}
    m.ann:on("writable", function(to)
      told[#told + 1] = to or "all"
      assert.is_true(m.ann:send("room", { to = to, block = false }))
    end)
    fill()
    fill "bob"
    sim:run "20s"
    table.sort(told)
    assert.same({ "all", "bob" }, told)
    for _ = 1, 10 do m.ann:send("x", { block = false }) end
    sim:run "20s"
    assert.equal(2, #told) -- Nobody was turned away since.
    fill "bob"
    sim:run "20s"
    assert.equal("bob", told[3])
  end)

  it("says writable to nobody who waited, and not before they have sent", function()
    local told = 0
    m.ann:on("writable", function()
      told = told + 1
      assert.is_true(m.ann:send("behind them", { block = false }))
    end)
    sim:spawn(function()
      for _ = 1, 300 do assert(m.ann:send(("x"):rep(60000))) end
    end)
    sim:run "60s"
    assert.equal(0, told)
    fill()
    for n = 1, 50 do
      sim:spawn(function() assert(m.ann:send(("%02d"):format(n) .. ("x"):rep(60000))) end)
    end
    sim:run "60s"
    assert.equal(1, told)
    assert.equal("behind them", m.bob.got[#m.bob.got])
    assert.equal("50", m.bob.got[#m.bob.got - 1]:sub(1, 2))
  end)

  it("says writable when the member is gone, and the next send why", function()
    local told = {}
    m.ann:on("writable", function(to) told[#told + 1] = to end)
    fill "bob"
    sim:kill "bob"
    sim:run "60s"
    assert.same({ "bob" }, told)
    assert.same({ nil, "not a member" }, { (m.ann:send("x", { to = "bob" })),
      (select(2, m.ann:send("x", { to = "bob" }))) })
  end)

  it("names the addresses of an ambiguous name", function()
    local sim2 = neap.sim { seed = 4 }
    local d = members.join(sim2, { "ann" }, members.grouped())
    for _ = 1, 2 do sim2:join("spec", { stack = members.grouped(), name = "twin" }) end
    sim2:run "10s"
    local view = d.ann:view()
    if not view or #view.members < 3 then pending "a name is one host in this simulator" end
    fails("the name 'twin' is ambiguous", d.ann.send, d.ann, "x", { to = "twin" })
  end)
end)

describe("a synchronous send", function()
  local sim, m
  before_each(function() sim, m = members.group({ "ann", "bob", "cho" }, nil, nil, "lan") end)

  it("returns when everybody has it", function()
    local ok, result = in_sim(sim, function() return m.ann:send("now", { rsvp = true }) end)
    assert.is_true(ok)
    assert.same({ left = {} }, result)
    assert.same({ "now" }, m.bob.got)
  end)

  it("returns as soon as its ack_on is true", function()
    m.bob:on("message", function() neap.sleep "1s" end)
    local took = {}
    for _, ack_on in ipairs { "reception", "completion", "delivery" } do
      in_sim(sim, function()
        local before = neap.now()
        assert(m.ann:send("now", { rsvp = ack_on, timeout = "5s" }))
        took[ack_on] = neap.now() - before
      end)
    end
    assert.is_true(took.reception < 100e6)
    assert.is_true(took.completion < 100e6)
    assert.is_true(took.delivery >= 1e9)
  end)

  it("says who is missing when time is up", function()
    sim:pause "cho"
    local ok, code, detail = in_sim(sim, function()
      return m.ann:send("now", { rsvp = true, timeout = "2s" })
    end)
    assert.is_nil(ok)
    assert.equal("timeout", code)
    assert.same({ "cho" }, detail.missing)
  end)

  it("gives a handle with wait = false", function()
    local s = m.ann:send("commit", { rsvp = "delivery", wait = false })
    local missing = { unpack(s.missing) }
    table.sort(missing)
    assert.same({ "ann", "bob", "cho" }, missing)
    local ok = in_sim(sim, function() return s:wait "2s" end)
    assert.is_true(ok)
    assert.same({}, s.missing)
    assert.is_true(s.acked.bob > 0 and s.acked.bob < "1s")
  end)

  it("can be waited for in pieces", function()
    sim:pause "cho"
    local s = m.ann:send("commit", { rsvp = true, wait = false })
    local ok, code, detail = in_sim(sim, function() return s:wait "1s" end)
    assert.is_nil(ok)
    assert.equal("timeout", code)
    assert.same({ "cho" }, detail.missing)
  end)

  it("is called inside a coroutine, and says so", function()
    fails("call it inside sim:spawn", m.ann.send, m.ann, "x", { rsvp = true })
    local s = m.ann:send("x", { rsvp = true, wait = false })
    fails("call it inside sim:spawn", s.wait, s)
  end)

  it("never waits for itself", function()
    local result, patient
    m.ann:on("message", function(msg)
      if msg.body ~= "first" then return end
      result = { m.ann:send("second", { rsvp = "delivery" }) }
      patient = { m.ann:send("third", { rsvp = "delivery", timeout = 0, to = "bob" }) }
    end)
    m.ann:send "first"
    sim:run "1s"
    assert.same({ nil, "refused", "would wait for itself; use neap.spawn or wait = false" }, result)
    assert.equal("refused", patient[2])
  end)

  it("refuses reliable = false", function()
    local ok, code = in_sim(sim, function()
      return m.ann:send("x", { rsvp = true, reliable = false })
    end)
    assert.is_nil(ok)
    assert.equal("refused", code)
  end)

  it("is refused by a stack without rsvp", function()
    local sim2, d = members.group { "ann", "bob" }
    local ok, code, detail = in_sim(sim2, function() return d.ann:send("x", { rsvp = true }) end)
    assert.is_nil(ok)
    assert.equal("refused", code)
    assert.truthy(detail:find("no layer that gives rsvp", 1, true))
  end)

  it("ends with closed when the channel does", function()
    sim:pause "cho"
    local result
    sim:spawn(function() result = { m.ann:send("x", { rsvp = true }) } end)
    sim:run "1s"
    m.ann:close()
    sim:run "1ms"
    assert.equal("closed", result[2])
  end)
end)

describe("flush_sent", function()
  local sim, m
  before_each(function() sim, m = members.group({ "ann", "bob", "cho" }, nil, nil, "lan") end)

  it("waits until everybody has what was sent before, and delivers nothing itself", function()
    sim:set { latency = "50ms" }
    local took, got
    sim:spawn(function()
      for i = 1, 20 do m.ann:send(i) end
      local before = neap.now()
      assert(m.ann:flush_sent())
      took, got = neap.now() - before, #m.bob.got
    end)
    sim:run "10s"
    assert.is_true(took >= 100e6)
    assert.equal(20, got)
    assert.equal(20, #m.cho.got)
  end)

  it("may be about one member", function()
    sim:pause "cho"
    local to_bob, to_all, missing
    sim:spawn(function()
      m.ann:send "x"
      m.ann:send("y", { to = "bob" })
      to_bob = m.ann:flush_sent { to = "bob", timeout = "1s" }
      local ok, code, detail = m.ann:flush_sent { timeout = "1s" }
      to_all, missing = ok or code, detail.missing
    end)
    sim:run "10s"
    assert.is_true(to_bob)
    assert.equal("timeout", to_all)
    assert.same({ "cho" }, missing)
  end)

  it("is called inside a coroutine, with options it knows", function()
    fails("flush_sent waits", m.ann.flush_sent, m.ann)
    fails("flush_sent takes a table", m.ann.flush_sent, m.ann, "bob")
    fails("flush_sent takes a table", m.ann.flush_sent, m.ann, false)
    local ok, problem = in_sim(sim, function()
      return pcall(m.ann.flush_sent, m.ann, { too = 1 })
    end)
    assert.is_false(ok)
    assert.truthy(problem:find("flush_sent has no option 'too' (did you mean 'to'?)", 1, true))
  end)
end)

describe("leave", function()
  it("waits first until everybody has what was sent, as long as leave_timeout allows", function()
    local sim, m = members.group({ "ann", "bob", "cho" }, nil, nil, "lan")
    sim:set { loss = 0.3 }
    local left
    sim:spawn(function()
      for i = 1, 50 do m.bob:send(i) end
      m.bob:leave()
      left = neap.now()
    end)
    sim:run "20s"
    assert.is_true(left ~= nil)
    for _, name in ipairs { "ann", "cho" } do
      assert.equal(50, #m[name].got, name)
    end
  end)
end)

describe("a member without a handler", function()
  it("is told why its sends wait", function()
    local sim, told = require("neap").sim { seed = 1, latency = "1ms" }, {}
    local ann = sim:join("g", { stack = "lan", name = "ann",
      with = { nakack = { window_bytes = "10KB" } },
      on = { trouble = function(trouble) told[#told + 1] = trouble.text end } })
    sim:run "5s"
    local sent = 0
    for _ = 1, 50 do
      if ann:send(("x"):rep(1000)) then sent = sent + 1 end
      sim:run "1ms"
    end
    assert.equal(1, #told)
    assert(told[1]:find('set one with ann:on("message", f)', 1, true), told[1])
    assert(sent < 50)
    ann:on("message", function() end)
    sim:run "1s"
    assert.is_true(ann:send "goes on")
  end)
end)
