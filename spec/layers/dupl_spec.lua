-- dupl: what is doubled, where that is mended and where not.

local group = require "support.group"
local members = require "support.members"
local neap = require "neap"

local bare = neap.stack(function(s)
  return s.stack "twice" { "A wire that says things twice.", s.dupl {}, s.udp {} }
end)

local function world(seed, with)
  local sim, m = members.new({ "ann", "bob", "cho" }, { seed = seed }, bare, { dupl = with or {} })
  sim:run "1ms"
  return sim, m
end

local function pour(sim, channel, count, options)
  sim:spawn(function()
    for n = 1, count do assert(channel:send(tostring(n), options)) end
  end)
  sim:run "50ms"
end

-- lan with dupl before a layer.
local function stack(before, with)
  return neap.stack(function(s)
    return s.extend("lan", { "Says things twice.", s.before(before, s.dupl(with)) })
  end)
end

describe("dupl", function()
  it("lets everything pass until it is told otherwise", function()
    local sim, m = world(1)
    pour(sim, m.ann, 100)
    assert.equal(group.counted(100), table.concat(m.bob.got, " "))
    assert.equal(0, m.ann.dupl.doubled_down + m.bob.dupl.doubled_up)
  end)

  it("doubles going up at one member, going down at all", function()
    local sim, m = world(2)
    m.bob.stack.dupl.up = 1
    pour(sim, m.ann, 3)
    assert.equal("1 1 2 2 3 3", table.concat(m.bob.got, " "))
    assert.equal("1 2 3", table.concat(m.cho.got, " "))
    assert.equal(3, m.bob.dupl.doubled_up)
    m.bob.stack.dupl.up = 0
    m.ann.stack.dupl.down, m.ann.stack.dupl.copies = 1, 2
    pour(sim, m.ann, 1)
    assert.equal("1 2 3 1 1 1", table.concat(m.cho.got, " "))
    assert.equal(2, m.ann.dupl.doubled_down)
  end)

  it("doubles its share, the same again with the same seed", function()
    local function story(seed)
      local sim, m = world(seed, { up = 0.2 })
      pour(sim, m.ann, 1000)
      return m.bob.got, m.bob.dupl.doubled_up, sim:hash()
    end
    local got, doubled, hash = story(6)
    local again, _, hash_again = story(6)
    assert.same(got, again)
    assert.equal(hash, hash_again)
    assert(doubled > 140 and doubled < 260, doubled)
    assert.equal(1000 + doubled, #got)
    assert.not_same(got, (story(7)))
  end)

  it("doubles only what a rule means", function()
    local sim, m = world(8, { up = 1, when = 'body="2" times=1' })
    pour(sim, m.ann, 3)
    pour(sim, m.ann, 3)
    assert.equal("1 2 2 3 1 2 3", table.concat(m.bob.got, " "))
    m.bob.stack.dupl.when = ('body="2" from="%s" times=1'):format(m.cho.address)
    pour(sim, m.ann, 2)
    pour(sim, m.cho, 2)
    assert.equal("1 2 2 3 1 2 3 1 2 1 2 2", table.concat(m.bob.got, " "))
    assert.has_error(function() m.bob.stack.dupl.when = "body=2" end) -- A number is no body.
  end)

  for _, mode in ipairs { "nak", "ack" } do
    it("is mended by layers that number what they send: " .. mode, function()
      group.each_seed(20, function(seed)
        local g = group.new { stack = stack("udp", { up = 0.5, down = 0.5 }), seed = seed,
          loss = 0.05, with = { nakack = { retransmission = mode } } }
        g:call(function()
          for n = 1, 20 do
            g.ann:send(tostring(n))
            g.cho:send(tostring(n), { to = "bob" })
          end
        end)
        g:calm()
        table.sort(g.bodies.bob, function(a, b) return tonumber(a) < tonumber(b) end)
        local twice = {}
        for n = 1, 20 do twice[n] = n .. " " .. n end
        assert.equal(table.concat(twice, " "), g:got "bob")
        assert.is_true(g.ann.dupl.doubled_down > 0 and g.bob.dupl.doubled_up > 0)
        g.sim:close()
      end)
    end)
  end

  -- Regular and out-of-band, to all, to others and to oneself, by everybody at once.
  for _, mode in ipairs { "nak", "ack" } do
    it("brings nobody anything twice, mixed by three senders: " .. mode, function()
      group.each_seed(20, function(seed)
        local g = group.new { stack = stack("udp", { up = 0.5, down = 0.5 }), seed = seed,
          with = { nakack = { retransmission = mode }, unicast = { retransmission = mode } } }
        local wanted = {}
        for _, from in ipairs(g.names) do
          g.sim:spawn(function()
            for n = 1, 8 do
              for _, oob in ipairs { true, false } do
                for _, to in ipairs { "all", "ann", "bob", "cho" } do
                  local body = ("%s %s %d %s"):format(from, to, n, oob and "oob" or "regular")
                  assert(g[from]:send(body, { oob = oob, to = to ~= "all" and to or nil }))
                  wanted[body] = to == "all" and 3 or 1
                end
              end
              neap.sleep "1ms"
            end
          end)
        end
        g:calm()
        local last = {}
        for _, name in ipairs(g.names) do
          for _, body in ipairs(g.bodies[name]) do
            wanted[body] = wanted[body] - 1
            local stream, n, kind = body:match "^(%l+ %l+) (%d+) (%l+)$"
            if kind == "regular" then
              local key = name .. stream
              assert.equal((last[key] or 0) + 1, tonumber(n))
              last[key] = tonumber(n)
            end
          end
        end
        for body, left in pairs(wanted) do assert.equal(0, left, body) end
        g.sim:close()
      end)
    end)
  end

  it("is heard above them, where a synchronous send is answered once", function()
    local g = group.new { stack = stack("rsvp", { down = 1 }) }
    local ok = g:call(function() return g.ann:send("now", { rsvp = true }) end)
    assert.is_true(ok)
    g.sim:settle()
    assert.equal("now now", g:got "bob")
  end)

  it("breaks the order above it, and says so", function()
    local ok, text = pcall(group.new, { stack = stack("ufc", { up = 1 }) })
    assert.is_false(ok)
    assert.truthy(text:find("frag needs 'mcast_fifo'", 1, true), text)
    assert.truthy(text:find("dupl breaks it", 1, true), text)
    assert.is_truthy(group.new { stack = stack("ufc", { up = 1, honest = false }) })
  end)
end)
