-- barrier: while it is closed messages wait and none is lost; what layers say passes.

local group = require "support.group"
local neap = require "neap"

local function members(options)
  options = options or {}
  options.stack = "state"
  return group.new(options)
end

local function talk(g, from, to)
  for i = from, to do g.ann:send(tostring(i)) end
end

describe("barrier", function()
  it("holds what rises and lets it rise again, in order, whatever the wire does", function()
    group.each_seed(20, function(seed)
      local g = members { seed = seed, loss = 0.1, jitter = "2ms", duplicate = 0.05 }
      talk(g, 1, 20)
      g.sim:run "300ms"
      g.bob.barrier:close()
      local had = g:got "bob"
      talk(g, 21, 60)
      g.sim:run "300ms"
      g.cho:send "from cho"
      g.cho:send("to bob", { to = "bob" })
      g.sim:run "2s"
      assert.equal(had, g:got "bob")
      assert.equal(42 + 20 - select(2, had:gsub("%d+", "")), tonumber(g.bob.barrier.held_messages))
      assert.is_true(g.bob.barrier.drained)
      g.bob.barrier:open()
      g:calm()
      local numbers = {}
      for _, body in ipairs(g.bodies.bob) do numbers[#numbers + 1] = body:match "^%d+$" end
      assert.equal(group.counted(60), table.concat(numbers, " "))
      assert.equal(62, #g.bodies.bob)
      assert.equal(0, tonumber(g.bob.barrier.held_messages))
    end)
  end)

  it("lets unicasts pass that may overtake, but no multicasts", function()
    local g = members()
    g.bob.barrier:close()
    g.ann:send("one", { to = "bob", oob = true })
    g.ann:send("all", { oob = true })
    g.ann:send("later", { to = "bob" })
    g.sim:run "1s"
    assert.equal("one", g:got "bob")
    g.bob.barrier:open()
    g.sim:run "100ms"
    assert.equal("one all later", g:got "bob")
  end)

  it("opens by itself when nobody does, and says so", function()
    local g = members { with = { barrier = { max_close_time = "300ms" } } }
    local trouble
    g.bob:on("trouble", function(t) trouble = t.text end)
    g.bob.barrier:close()
    talk(g, 1, 3)
    g.sim:run "200ms"
    assert.equal("", g:got "bob")
    g.sim:run "200ms"
    assert.equal("1 2 3", g:got "bob")
    assert.equal(1, tonumber(g.bob.barrier.opened_itself))
    assert.matches("nobody opened it", trouble)
  end)

  it("is of use after callbacks have not returned in time", function()
    local g = members { with = { barrier = { drain_timeout = "200ms" } },
      message = function(self, name, msg)
        if msg.body == "wait" then neap.sleep "1s" end
        table.insert(self.bodies[name], msg.body)
      end }
    g.ann:send "wait"
    g.sim:run "100ms"
    g.bob.barrier:close()
    g.sim:run "500ms"
    assert.equal(1, tonumber(g.bob.barrier.late))
    assert.is_true(g.bob.barrier.closed)
    assert.is_false(g.bob.barrier.drained)
    g.sim:run "1s"
    assert.is_true(g.bob.barrier.drained) -- Late, but they have.
    g.bob.barrier:open()
    g.bob.barrier:close()
    talk(g, 1, 2)
    g.sim:run "100ms"
    assert.is_true(g.bob.barrier.drained)
    g.bob.barrier:open()
    g.sim:run "100ms"
    assert.equal("wait 1 2", g:got "bob")
  end)

  it("is closed once: a second closing by hand is refused", function()
    local g = members()
    assert.is_true(g.bob.barrier:close())
    local ok, code = g.bob.barrier:close()
    assert.is_nil(ok)
    assert.equal("refused", code)
  end)

  it("makes senders wait when too much is held, and loses nothing", function()
    local g = members { with = { barrier = { hold_bytes = "20kB" },
      nakack = { window_bytes = "100kB", retransmission = "ack" } } }
    g.bob.barrier:close()
    local sent = 0
    g.sim:spawn(function()
      for _ = 1, 400 do
        g.ann:send(("x"):rep(1000))
        sent = sent + 1
      end
    end)
    g.sim:run "5s"
    assert(sent < 250, ("%d were sent to a member that takes nothing"):format(sent))
    assert.equal(1, tonumber(g.bob.barrier.pushed_back))
    g.bob.barrier:open()
    g.sim:run "5s"
    assert.equal(400, sent)
    g:calm()
    assert.equal(400, #g.bodies.bob)
  end)
end)
