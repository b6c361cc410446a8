-- attrs: what is read and set through ann.stack.

local agreed = require "support.agreed"
local members = require "support.members"
local neap = require "neap"

local function fails(text, f, ...)
  local ok, problem = pcall(f, ...)
  assert.is_false(ok)
  assert.truthy(tostring(problem):find(text, 1, true), tostring(problem))
end

describe("an attribute", function()
  local m
  before_each(function() m = select(2, members.group({ "ann", "bob" }, nil, nil, "lan")) end)

  it("is read as what it is", function()
    assert.equal("20s", tostring(m.ann.stack.stable.interval))
    assert.equal(20e9, m.ann.stack.stable.interval.ns)
    assert.equal("2MB", tostring(m.ann.stack.stable.max_bytes))
    assert.equal("nak", m.ann.stack.nakack.retransmission)
    assert.equal("number", type(m.ann.stack.udp.messages_sent))
    assert.equal("number", type(m.ann.stack.udp.bytes_sent))
    assert.equal("boolean", type(m.ann.stack.udp.offload))
    assert.equal("239.7.7.7:7600", m.ann.stack.udp.group)
    assert.equal("auto", m.ann.stack.udp.max_packet)
  end)

  it("is set by assignment, with the checks of the stack file", function()
    m.ann.stack.stable.interval = "5s"
    assert.equal("5s", tostring(m.ann.stack.stable.interval))
    m.ann.stack.stable.interval = m.bob.stack.stable.interval / 2
    assert.equal("10s", tostring(m.ann.stack.stable.interval))
    fails('stable.interval: cannot read "2m"', function() m.ann.stack.stable.interval = "2m" end)
    fails('stable.interval: cannot read "5" as a time such as "50ms": a number needs a unit',
      function() m.ann.stack.stable.interval = 5 end)
    fails("a table is no value", function() m.ann.stack.stable.interval = {} end)
    fails('"${X}" is not replaced', function() m.ann.stack.stable.interval = "${X}" end)
    assert.equal("10s", tostring(m.ann.stack.stable.interval))
  end)

  it("raises at the line that assigned", function()
    local ok, problem = pcall(function() m.ann.stack.stable.interval = 5 end)
    assert.is_false(ok)
    assert.truthy(problem:match "attrs_spec.lua:%d+: stable.interval: ", problem)
  end)

  it("is a period or 0, but never next to nothing", function()
    fails("mfc.max_block_time: 1us is outside 1ms .. 1h, and not 0", function()
      neap.sim({}):join("g", { stack = "lan", with = { mfc = { max_block_time = "1us" } } })
    end)
    fails("stable.interval: 1ns is outside 1ms .. 24h, and not 0", function()
      m.ann.stack.stable.interval = "1ns"
    end)
    for _, good in ipairs { "1ms", 0 } do m.ann.stack.stable.interval = good end
    assert.equal("0", tostring(m.ann.stack.stable.interval))
  end)

  it("cannot be changed when it is read only, or fixed by the file", function()
    fails("nakack.waiting cannot be changed while running", function()
      m.ann.stack.nakack.waiting = 0
    end)
    fails("udp.group cannot be changed while running", function()
      m.ann.stack.udp.group = "239.1.1.1:1"
    end)
  end)

  it("is answered with the nearest name when nobody knows it", function()
    fails("stable has no attribute 'intervall' (did you mean 'interval'?)", function()
      return m.ann.stack.stable.intervall
    end)
    fails("the stack has no layer called 'stabel' (did you mean 'stable'?)", function()
      return m.ann.stack.stabel.interval
    end)
    fails("stable has no parameter '5'", function() m.ann.stack.stable[5] = 5 end)
    fails("stable has no parameter '1'", function() m.ann.stack:set { stable = { "5s" } } end)
    fails("a layer is not assigned to", function() m.ann.stack.stable = {} end)
  end)

  it("is reached by the channel, too", function()
    assert.equal("20s", tostring(m.ann.stable.interval))
    assert.is_nil(m.ann.no_such_layer)
  end)
end)

describe("stack:set", function()
  local sim, m
  before_each(function() sim, m = members.group({ "ann", "bob", "cho" }, nil, nil, "lan") end)

  it("sets several, all or nothing", function()
    assert.is_true(m.ann.stack:set { stable = { interval = "5s" }, fd_all = { timeout = "9s" } })
    assert.equal("5s", tostring(m.ann.stable.interval))
    assert.equal("9s", tostring(m.ann.fd_all.timeout))
    fails("fd_all.timeout", m.ann.stack.set, m.ann.stack,
      { stable = { interval = "7s" }, fd_all = { timeout = "many" } })
    assert.equal("5s", tostring(m.ann.stable.interval))
  end)

  it("says what it does not know", function()
    fails("the stack has no layer called 'stabel' (did you mean 'stable'?)", m.ann.stack.set,
      m.ann.stack, { stabel = {} })
    fails("followed by its settings", m.ann.stack.set, m.ann.stack, { stable = "5s" })
    fails("set takes the stack's shape", m.ann.stack.set, m.ann.stack, "x")
    fails("set has no option 'al' (did you mean 'all'?)", m.ann.stack.set, m.ann.stack, {},
      { al = true })
  end)

  it("returns at once outside a coroutine, and counts who has not followed a mode", function()
    assert.is_true(m.ann.stack:set { nakack = { retransmission = "ack" } })
    assert.equal("ack", m.ann.nakack.retransmission)
    assert.is_true(m.ann.nakack.mode_pending > 0)
    sim:run "2s"
    assert.equal(0, m.ann.nakack.mode_pending)
  end)

  it("waits for a mode inside a coroutine", function()
    local result, took
    sim:spawn(function()
      local before = neap.now()
      result = m.ann.stack:set { nakack = { retransmission = "ack" } }
      took = neap.now() - before
      assert.equal(0, m.ann.nakack.mode_pending)
    end)
    sim:run "2s"
    assert.is_true(result)
    assert.is_true(took > 0)
  end)

  it("names who has not followed in time", function()
    sim:pause "cho"
    local result
    sim:spawn(function()
      result = { m.ann.stack:set { nakack = { retransmission = "ack" } } }
    end)
    sim:run "15s"
    assert.is_nil(result[1])
    assert.equal("timeout", result[2])
    assert.same({ "cho" }, result[3].missing)
    assert.equal("ack", m.ann.nakack.retransmission)
  end)

  it("refuses what breaks a promise, and keeps everything", function()
    local without_stable = neap.stack(function(s)
      return s.extend("lan", { s.remove "stable", s.nakack { retransmission = "ack" } })
    end)
    local _, d = members.group({ "ann", "bob" }, nil, nil, without_stable)
    local ok, code, why = d.ann.stack:set {
      nakack = { retransmission = "nak" }, fd_all = { timeout = "9s" },
    }
    assert.is_nil(ok)
    assert.equal("refused", code)
    assert.truthy(why:find("stable", 1, true), why)
    assert.equal("ack", d.ann.nakack.retransmission)
    assert.equal("40s", tostring(d.ann.fd_all.timeout))
    fails("stable", function() d.ann.nakack.retransmission = "nak" end)
  end)

  it("says all that is wrong at once", function()
    local ok, problem = pcall(m.ann.stack.set, m.ann.stack, {
      stable = { intervall = "5s", desired_avg_gossip = "5s", bytes = 7 }, nakak = {},
      fd_all = { timeout = "many" },
    })
    assert.is_false(ok)
    assert.truthy(problem:match "attrs_spec.lua:%d+: set has 5 problems:\n", problem)
    for _, text in ipairs {
      'fd_all.timeout: cannot read "many" as a time', "no layer called 'nakak' (did you mean",
      "no parameter 'desired_avg_gossip' (did you mean 'interval'?)",
      "no parameter 'intervall' (did you mean 'interval'?)",
      "stable.bytes cannot be changed while running: it is a gauge",
    } do assert.truthy(problem:find(text, 1, true), problem) end
  end)

  it("says what it set and when that takes effect", function()
    local _, entry = m.ann.stack:set {
      nakack = { announce_delay = "20ms", resend_last_seqno_max_times = 3 },
      stable = { interval = "5s" },
    }
    local effects = {}
    for index, row in ipairs(entry) do
      effects[index] = ("%s %s: %s"):format(row.name, tostring(row.to), row.effect)
    end
    assert.same({
      "announce_delay 20ms: at its next use",
      "resend_last_seqno_max_times 3: at the layer's next round",
      "interval 5s: its timer starts anew at once",
    }, effects)
    assert.equal(20e9, entry[3].from.ns)
    assert.equal("ann", entry.by)
    assert.equal(sim:now(), entry.time)
    assert.is_false(entry.all)
    _, entry = m.ann.stack:set { nakack = { retransmission = "ack" } }
    assert.equal("in its streams, which all follow", entry[1].effect)
  end)

  it("for all members waits, and outside a coroutine tells later what came of it", function()
    local ok, asked = m.ann.stack:set({ stable = { interval = "5s" } }, { all = true })
    assert.is_true(ok)
    assert.is_nil(asked.ended)
    assert.equal("20s", tostring(m.bob.stable.interval))
    sim:run "1s"
    assert.is_true(asked.ended and asked.ok)
    assert.equal(1, asked.entry.epoch)
    assert.equal("5s", tostring(m.bob.stable.interval))
    fails("timeout is for { all = true }", m.ann.stack.set, m.ann.stack, {}, { timeout = "1s" })
  end)

  it("for all members is refused where nothing agrees on it", function()
    local _, d = members.group({ "ann", "bob" })
    local ok, code, why = d.ann.stack:set({ nakack = { retransmission = "ack" } }, { all = true })
    assert.is_nil(ok)
    assert.equal("refused", code)
    assert.truthy(why:find("settings {} above gms", 1, true), why)
    assert.equal("nak", d.ann.nakack.retransmission)
  end)

  it("for all members says to who asked and leaves that it is made, or closed", function()
    local made = 0
    for step = 1, 40 do
      local g = agreed.group {}
      local ok, code
      g.sim:spawn(function()
        ok, code = g.bob.stack:set({ nakack = { retransmission = "ack" } }, { all = true })
      end)
      g.sim:run(step * 200 .. "us")
      g.sim:spawn(function() g.bob:leave() end)
      g.sim:run "1s"
      assert.is_true(ok or code == "closed", tostring(code))
      made = made + (ok and 1 or 0)
    end
    assert.is_true(made > 0 and made < 40)
  end)
end)

describe("stack:undo", function()
  local m
  before_each(function() m = select(2, members.group({ "ann", "bob" }, nil, nil, "lan")) end)

  it("takes back what was set last, one set at a time", function()
    m.ann.stable.interval = "5s"
    m.ann.stack:set { stable = { interval = "6s" }, fd_all = { timeout = "9s" } }
    assert.equal(2, #m.ann.stack:journal())
    assert.equal("stable", m.ann.stack:journal()[1][1].layer)
    assert.is_true(m.ann.stack:undo())
    assert.equal("5s", tostring(m.ann.stable.interval))
    assert.equal("40s", tostring(m.ann.fd_all.timeout))
    assert.is_true(m.ann.stack:undo())
    assert.equal("20s", tostring(m.ann.stable.interval))
    assert.same({ nil, "refused", "ann has set nothing that is not taken back" },
      { m.ann.stack:undo() })
  end)

  it("of a mode is a toggle back", function()
    m.ann.nakack.retransmission = "ack"
    assert.is_true(m.ann.stack:undo())
    assert.equal("nak", m.ann.nakack.retransmission)
    assert.equal(2, m.ann.nakack.toggles)
  end)

  it("stays in the journal, which is bounded", function()
    m.ann.stable.interval = "5s"
    m.ann.stack:undo()
    local journal = m.ann.stack:journal()
    assert.is_true(journal[1].undone and journal[2].undo)
    assert.truthy(tostring(journal):match
      "^[%d.]+m?s ann: stable.interval 20s %-> 5s %(.-%) %[taken back%]\n"
      .. "[%d.]+m?s ann, undo: stable.interval 5s %-> 20s %(.-%)$", tostring(journal))
    for n = 1, 300 do m.ann.nakack.window_messages = 100 + n end
    journal = m.ann.stack:journal()
    assert.equal(256, #journal)
    assert.equal(400, journal[256][1].to)
    assert.equal(144, journal[1][1].from)
    assert.is_true(m.ann.stack:undo())
    assert.equal(399, m.ann.nakack.window_messages)
  end)
end)

describe("a member that was excluded", function()
  it("comes back with what it had set, and with what the group has set", function()
    local sim, m = members.group({ "ann", "bob", "cho" }, nil,
      { fd_all = { timeout = "3s", interval = "500ms" } }, "lan")
    m.cho.stack:set { stable = { interval = "5s" }, nakack = { ack_delay = "7ms" } }
    m.cho.stable.interval = "6s"
    m.cho.frag.frag_size = "2KB"
    m.cho.stack:undo()
    sim:spawn(function()
      assert(m.ann.stack:set({ nakack = { retransmission = "ack" } }, { all = true }))
    end)
    sim:run "1s"
    local address = m.cho.address
    sim:pause "cho"
    sim:run "10s"
    sim:resume "cho"
    sim:run "20s"
    assert.are_not.equal(address, m.cho.address)
    assert.equal(3, #m.cho:view().members)
    assert.equal("6s", tostring(m.cho.stable.interval))
    assert.equal("7ms", tostring(m.cho.nakack.ack_delay))
    assert.equal("ack", m.cho.nakack.retransmission)
    assert.equal(tostring(m.ann.frag.frag_size), tostring(m.cho.frag.frag_size))
    local journal = m.cho.stack:journal()
    assert.equal("cho, again", journal[#journal - 1].by)
    assert.is_true(m.cho.stack:undo())
    assert.equal("5s", tostring(m.cho.stable.interval))
  end)
end)

describe("a stack", function()
  local sim, m
  before_each(function() sim, m = members.group({ "ann", "bob" }, nil, nil, "lan") end)

  it("lists its layers, top first", function()
    assert.equal(
      "rsvp frag ufc mfc settings gms stable unicast nakack verify_suspect fd_all ping udp",
      table.concat(m.ann.stack:layers(), " "))
    assert.equal("stack lan: " .. table.concat(m.ann.stack:layers(), " "), tostring(m.ann.stack))
  end)

  it("gives its gauges and counters as numbers and quantities", function()
    local metrics = m.ann.stack:metrics()
    assert.equal(0, metrics.nakack.waiting)
    assert.is_true(metrics.udp.messages_sent > 0)
    assert.is_nil(metrics.stable.interval)
  end)

  it("runs operations", function()
    m.ann:send "x"
    sim:run "1s"
    assert.truthy(m.ann.stack.stable:gossip_now())
    assert.truthy(m.ann.stack.nakack:trigger_xmit())
  end)

  it("prints a layer with every attribute", function()
    local text = tostring(m.ann.stable)
    assert.truthy(text:match "^stable %- ")
    assert.truthy(text:match "interval +20s ")
  end)
end)
