-- frag: pieces become wholes in their place, free with them, and leave nothing behind.

local group = require "support.group"
local neap = require "neap"

-- A body in which every byte depends on its place and on the seed.
local function body_of(len, seed)
  local block = {}
  for i = 1, 251 do block[i] = string.char((i * 7 + seed * 13) % 256) end
  return (table.concat(block):rep(math.floor(len / 251) + 1)):sub(1, len)
end

local function nothing_left(g, names)
  for _, name in ipairs(names or g.names) do
    local stack = g[name].stack
    assert.equal(0, stack.frag.partials)
    assert.equal(0, stack.frag.partial_bytes.bytes)
    assert.equal(0, stack.unicast.unacked)
  end
end

describe("frag", function()
  it("gives up what a connection left incomplete, and its credits with it", function()
    local g = group.new { with = { frag = { frag_size = "1KB" }, ufc = { max_credits = "4KB" } } }
    local rule = g.sim:drop { from = "ann", to = "bob", layer = "frag", index = 3 }
    g.ann:send(body_of(3900, 1), { to = "bob" })
    g.sim:run "20ms"
    assert.equal(1, g.bob.stack.frag.partials)
    g.ann.stack.unicast:lose "bob"
    g.sim:clear(rule)
    local taken
    g.sim:spawn(function() taken = g.ann:send(body_of(3900, 2), { to = "bob" }) end)
    g.sim:settle()
    assert.is_true(taken)
    assert.equal(body_of(3900, 2), g:got "bob")
    nothing_left(g)
  end)

  it("makes of any body around the size of a piece the same body again", function()
    local g = group.new { with = { frag = { frag_size = "1000B" } } }
    local sent = {}
    for _, len in ipairs { 0, 1, 999, 1000, 1001, 1999, 2000, 2001, 10000, 123457 } do
      local body = body_of(len, #sent)
      sent[#sent + 1] = body
      g.ann:send(body, { to = "bob" })
      g.ann:send(body)
    end
    g.sim:settle()
    local both = {}
    for i, body in ipairs(sent) do both[2 * i - 1], both[2 * i] = body, body end
    table.sort(both)
    table.sort(g.bodies.bob)
    assert.same(both, g.bodies.bob)
    assert.same(sent, g.bodies.cho)
    assert.equal(2 * 6, g.bob.stack.frag.joined)
    nothing_left(g)
  end)

  it("gives each sender's messages in order, large and small, whatever the network does", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, loss = 0.1, duplicate = 0.1, reorder = 0.1,
        with = { frag = { frag_size = "1KB" } } }
      local random = require("support.random").new(seed)
      local sent = {}
      for i = 1, 40 do
        sent[i] = i .. ":" .. body_of(random:below(3) == 0 and random:below(20000) or 10, i)
        g.ann:send(sent[i])
        g.bob:send(sent[i], { to = "cho" })
        if random:below(4) == 0 then g.sim:run "2ms" end
      end
      g.sim:settle()
      assert.same(sent, g.bodies.bob)
      -- cho has both streams: each is there once, and in its order.
      local seen = { 0, 0 }
      for _, body in ipairs(g.bodies.cho) do
        local number = tonumber(body:match "^%d+")
        assert.equal(sent[number], body)
        local stream = seen[1] == number - 1 and 1 or 2
        assert.equal(seen[stream] + 1, number)
        seen[stream] = number
      end
      assert.same({ 40, 40 }, seen)
      nothing_left(g)
      g.sim:close()
    end)
  end)

  it("puts the headers of the layers above on the first piece only", function()
    local g = group.new { with = { frag = { frag_size = "1KB" } } }
    for layer, hits in pairs { frag = 5, rsvp = 1 } do
      local rule = g.sim:delay { from = "ann", to = "bob", layer = layer, by = "1us" }
      assert.is_true((g:call(function()
        return g.ann:send(body_of(4500, 1), { to = "bob", rsvp = true })
      end)))
      assert.equal(hits, g.sim:hits(rule))
      g.sim:clear(rule)
    end
  end)

  it("frees pieces with their whole: reports and credits wait for the callback", function()
    local g = group.new { with = { frag = { frag_size = "1KB" } } }
    local done = false
    g.bob:on("message", function() neap.sleep "300ms"; done = true end)
    g.ann:send(body_of(10000, 1), { to = "bob" })
    g.sim:run "250ms"
    assert.is_false(done)
    assert.equal(10, g.ann.stack.unicast.unacked)
    assert.equal(10000, g.bob.stack.ufc.waiting.bytes)
    g.sim:run "100ms"
    assert.is_true(done)
    assert.equal(0, g.ann.stack.unicast.unacked)
    assert.equal(0, g.bob.stack.ufc.waiting.bytes)
  end)

  it("hands the charge on, so that the gate gets back what a message took", function()
    local g = group.new { loss = 0.1, with = { frag = { frag_size = "1KB" },
      unicast = { window_bytes = "20KB" }, nakack = { window_bytes = "20KB" } } }
    local sent = g:call(function()
      for i = 1, 30 do
        assert(g.ann:send(body_of(7777, i), { to = "bob" }))
        assert(g.ann:send(body_of(7777, i)))
      end
      return 30
    end)
    assert.equal(30, sent)
    g.sim:settle()
    assert.equal(60, #g.bodies.bob)
    assert.equal(30, #g.bodies.cho)
  end)

  it("tells of a tagged message once, when all its pieces are there", function()
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, loss = 0.15, with = { frag = { frag_size = "1KB" } } }
      for _, ack_on in ipairs { "reception", "completion", "delivery" } do
        for _, to in ipairs { "bob", false } do
          for _, oob in ipairs { false, true } do
            local ok, code = g:call(function()
              return g.ann:send(body_of(6000, seed), { to = to or nil, rsvp = ack_on, oob = oob })
            end)
            assert.is_true(ok, code)
          end
        end
      end
      g.sim:settle()
      assert.equal(12, #g.bodies.bob)
      assert.equal(6, #g.bodies.cho)
      nothing_left(g)
      g.sim:close()
    end)
  end)

  it("does not say that a message is there while a piece of it is missing", function()
    local g = group.new { with = { frag = { frag_size = "1KB" } } }
    local rule = g.sim:drop { from = "ann", to = "bob", layer = "frag", index = 3 }
    local handle = g.ann:send(body_of(6000, 1), { to = "bob", rsvp = "reception", wait = false })
    g.sim:run "300ms"
    assert.same({ "bob" }, handle.missing)
    assert.equal(1, g.bob.stack.frag.partials)
    g.sim:clear(rule)
    assert.is_true((g:call(function() return handle:wait "2s" end)))
    nothing_left(g)
  end)

  it("forgets in time what a leaver did not finish", function()
    local g = group.new { with = { frag = { frag_size = "1KB", partial_timeout = "30s" },
      fd_all = { timeout = "4s", interval = "1s" } } }
    g.sim:drop { from = "ann", to = "bob", layer = "frag", index = 3 }
    g.ann:send(body_of(6000, 1), { to = "bob" })
    g.sim:run "20ms"
    assert.equal(1, g.bob.stack.frag.partials)
    g.sim:kill "ann"
    g.sim:run "20s"
    assert.equal(2, #g.bob:view().members)
    assert.equal(0, g.bob.stack.frag.abandoned) -- It may be heard again.
    g.sim:run "40s"
    assert.equal(1, g.bob.stack.frag.abandoned)
    nothing_left(g, { "bob", "cho" })
  end)

  it("leaves no hole in what a member sends that was given up and is heard again", function()
    local g = group.new { with = { frag = { frag_size = "1KB" },
      fd_all = { timeout = "4s", interval = "1s" } } }
    local rule = g.sim:drop { from = "ann", to = "bob", layer = "frag", index = 3 }
    local bodies = { body_of(6000, 1), "after it" }
    for _, body in ipairs(bodies) do g.ann:send(body, { to = "bob" }) end
    g.sim:run "20ms"
    assert.equal(1, g.bob.stack.frag.partials)
    g.sim:pause "ann"
    g.sim:run "20s"
    assert.equal(2, #g.bob:view().members)
    g.sim:clear(rule)
    g.sim:resume "ann" -- It sends again what was not acknowledged, before it learns of its fate.
    g.sim:run "20s"
    assert.same(bodies, g.bodies.bob)
    assert.equal(0, g.bob.stack.frag.partials)
  end)

  it("forgets what a reset connection did not finish, with the next message", function()
    local g = group.new { with = { frag = { frag_size = "1KB" } } }
    local rule = g.sim:drop { from = "ann", to = "bob", layer = "frag", index = 3 }
    g.ann:send(body_of(6000, 1), { to = "bob" })
    g.sim:run "20ms"
    g.ann.stack.unicast:close "bob"
    g.sim:clear(rule)
    g.ann:send(body_of(6000, 2), { to = "bob" })
    g.sim:settle()
    assert.same({ body_of(6000, 2) }, g.bodies.bob)
    assert.equal(1, g.bob.stack.frag.abandoned)
    nothing_left(g)
  end)

  it("keeps no more partial messages than it may", function()
    local g = group.new { with = { frag = { frag_size = "1KB", max_partials = 3 } } }
    g.sim:drop { from = "ann", to = "bob", layer = "frag", index = 1 }
    for i = 1, 5 do g.ann:send(body_of(3000, i), { to = "bob", oob = true }) end
    g.sim:run "100ms"
    assert.equal(3, g.bob.stack.frag.partials)
    assert.equal(2, g.bob.stack.frag.abandoned)
    g.bob.stack.frag.max_partial_bytes = "4KB"
    g.ann:send(body_of(3000, 6), { to = "bob", oob = true })
    g.sim:run "10ms"
    assert.is_true(g.bob.stack.frag.partial_bytes.bytes <= 4000)
    g.bob.stack.frag:clear()
    assert.equal(0, g.bob.stack.frag.partials)
  end)

  it("drops a piece that comes twice", function()
    local g = group.new { with = { frag = { frag_size = "1KB" } } }
    g.sim:delay { from = "ann", to = "bob", layer = "frag", index = 4, by = "9ms" }
    g.sim:duplicate { from = "ann", to = "bob", layer = "frag", index = 3, by = "5ms" }
    g.ann:send(body_of(5000, 1), { to = "bob", reliable = false })
    g.sim:settle()
    assert.equal(1, g.bob.stack.frag.twice)
    assert.same({ body_of(5000, 1) }, g.bodies.bob)
  end)

  it("refuses what is longer than max_message, and says so", function()
    local g = group.new { with = { frag = { max_message = "100KB" } } }
    local ok, code = g.ann:send(body_of(100001, 1), { to = "bob" })
    assert.is_nil(ok)
    assert.equal("too big", code)
    assert.is_true(g.ann:send(body_of(100000, 1), { to = "bob" }))
    g.ann.stack.frag.max_message = "1MB"
    assert.is_true(g.ann:send(body_of(1000000, 1), { to = "bob" }))
    g.sim:settle()
    assert.equal(2, #g.bodies.bob)
  end)

  it("sends what is more than a plain body as the bytes of the whole message", function()
    local direct = neap.layer "direct" {
      doc = "Makes of every body one that its sender wants in direct memory.",
      each_down = function(self, m)
        if m.len > 1000 then m.m.type, m.m.marks = 1, bit.bor(m.m.marks, 2) end
        self:pass_down(m)
      end,
    }
    local stack = neap.stack(function(s)
      return s.extend("lan", { "With it.", s.before("frag", direct {}) })
    end)
    local g = group.new { stack = stack, loss = 0.1, with = { frag = { frag_size = "1KB" } } }
    for i = 1, 5 do g.ann:send(body_of(5000, i)) end
    g.sim:settle()
    assert.equal(5, g.ann.stack.frag.encoded)
    for i = 1, 5 do assert.equal(body_of(5000, i), g.bodies.bob[i]) end
    assert.equal(0, g.bob.stack.frag.bad)
    nothing_left(g)
  end)
end)
