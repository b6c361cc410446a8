-- drop: the words of sim:drop, inside a member.

local group = require "support.group"
local neap = require "neap"

-- lan with drop somewhere in it.
local function stack(before, with)
  return neap.stack(function(s)
    return s.extend("lan", { "Loses what it is told to.", s.before(before, s.drop(with or {})) })
  end)
end

local function told(f, ...)
  local ok, text = pcall(f, ...)
  assert.is_false(ok)
  return text
end

describe("drop", function()
  it("lets everything pass without a rule", function()
    local g = group.new { stack = stack "udp" }
    for n = 1, 20 do g.ann:send(tostring(n)) end
    g.sim:settle()
    assert.equal(group.counted(20), g:got "bob")
    assert.equal("no rules", g.bob.stack.drop:list())
    assert.equal(0, g.bob.drop.hits)
  end)

  for _, mode in ipairs { "nak", "ack" } do
    it("loses one message below nakack, which is asked for and comes again: " .. mode, function()
      group.each_seed(20, function(seed)
        local g = group.new { stack = stack "udp", seed = seed,
          with = { nakack = { retransmission = mode } } }
        local n = 1 + seed % 5
        assert.equal("1", g.bob.stack.drop:rule {
          layer = "nakack", from = "ann", body = tostring(n), way = "up", times = 1 })
        g:call(function()
          for i = 1, 5 do
            g.ann:send(tostring(i))
            neap.sleep "1us"
          end
        end)
        g.sim:run "10s"
        assert.equal(group.counted(5), g:got "bob")
        assert.equal(1, g.bob.drop.hits)
        assert.equal(0, g.cho.drop.hits)
        g.sim:close()
      end)
    end)
  end

  it("knows the fields of headers, types by name, and members by name or address", function()
    local g = group.new { stack = stack "udp" }
    local drop = g.bob.stack.drop
    drop:rule { layer = "nakack", type = "msg", seqno = 1000000 }
    drop:rule { layer = "unicast", type = "data", from = g.ann.address, to = "bob", times = 2 }
    drop:rule { body = "x y\0\"", from = "cho" }
    g:call(function()
      g.ann:send("to bob", { to = "bob" })
      g.cho:send("x y\0\"", { to = "bob", reliable = false, oob = true })
      g.cho:send("x y", { reliable = false })
    end)
    g.sim:run "10s"
    table.sort(g.bodies.bob)
    assert.same({ "to bob", "x y" }, g.bodies.bob)
    assert.equal('1: layer="nakack" seqno=1000000 type="msg", 0 hits\n'
      .. ('2: from="%s" layer="unicast" times=2 to="bob" type="data", 2 hits\n'):format(
        g.ann.address)
      .. '3: body="x y\\x00\\"" from="cho", 1 hits', drop:list())
    assert.equal(3, g.bob.drop.hits)
    assert.equal(3, g.bob.drop.rules)
  end)

  it("has rules for one way", function()
    for _, way in ipairs { "up", "down" } do
      local g = group.new { stack = stack "udp" }
      g.bob.stack.drop:rule { body = "x", way = way }
      g:call(function()
        g.ann:send("x", { reliable = false })
        g.bob:send("x", { reliable = false, loopback = false })
      end)
      g.sim:run "1s"
      assert.equal(way == "up" and "" or "x", g:got "bob")
      assert.equal(way == "up" and "x x" or "x", g:got "ann")
    end
  end)

  it("stops when rules are cleared, one or all", function()
    local g = group.new { stack = stack "udp" }
    local drop = g.bob.stack.drop
    for _ = 1, 3 do drop:rule { layer = "nakack", body = "x" } end
    assert.is_true(drop:clear(2))
    assert.same({ nil, "refused", "there is no rule '2'" }, { drop:clear(2) })
    assert.equal(2, g.bob.drop.rules)
    assert.is_true(drop:clear())
    assert.equal("no rules", drop:list())
    assert.equal("4", drop:rule {}) -- Numbers are never used again.
    assert.equal("4: everything, 0 hits", drop:list())
  end)

  it("has a rule from the stack file, which may be set anew", function()
    local rule = "layer=nakack body=lost way=down" -- Whatever type: what is sent again, too.
    local g = group.new { stack = stack("udp", { when = rule }) }
    g.ann:send "lost"
    g.ann:send "found"
    g.sim:run "50ms"
    assert.equal("", g:got "bob") -- The second waits for the first, which is sent again in vain.
    assert.is_true(g.ann.drop.hits >= 1)
    g.ann.stack.drop.when = ""
    g.sim:run "10s"
    assert.equal("lost found", g:got "bob")
  end)

  it("loses for good above what would have repaired it, and says so", function()
    local text = told(group.new, { stack = stack "stable" })
    assert.truthy(text:find("gms needs 'mcast_reliable'", 1, true), text)
    assert.truthy(text:find("drop breaks it", 1, true), text)
    local g = group.new { stack = stack("rsvp", { when = "body=two way=up" }) }
    for _, body in ipairs { "one", "two", "three" } do g.ann:send(body) end
    g.sim:settle()
    assert.equal("one three", g:got "bob")
  end)

  it("stands between layers that rely on each other when it is not honest", function()
    local g = group.new { stack = stack("stable", { honest = false }) }
    g.bob.stack.drop:rule { body = "two", way = "up" }
    for _, body in ipairs { "one", "two", "three" } do g.ann:send(body) end
    g.sim:settle()
    assert.equal("one three", g:got "bob")
    assert.equal("one two three", g:got "cho")
  end)

  it("says what it expected", function()
    local g = group.new { stack = stack "udp" }
    local drop = g.ann.stack.drop
    local function refused(rule)
      local ok, code, detail = drop:rule(rule)
      assert.is_nil(ok)
      assert.equal("config", code)
      return detail
    end
    local function says(wanted, text) assert.truthy(text:find(wanted, 1, true), text) end
    says("no layer called 'nakak' has a header (did you mean 'nakack'?)",
      refused { layer = "nakak" })
    says("no header of nakack has a field 'seqn' (did you mean 'seqno'?)",
      refused { layer = "nakack", seqn = 1 })
    says("way: up or down is expected", refused { way = "left" })
    says("a rule is written name=value", refused "seqno")
    says("the quotes are not closed", refused 'body="x')
    says("a backslash stands before", refused 'body="\\y"')
    says("a space is expected behind quotes", refused 'body="x"y')
    says("at most 32 rows", refused(("x=1 "):rep(33)))
    says("at most 511 bytes", refused(('body="%s"'):format(("x"):rep(600))))
    says("a number above 0", told(function() drop.when = "times=0" end))
    local _, _, why = g.sim:join("chat", { stack = stack("udp", { when = "seqn=1" }) })
    says("drop: cannot open: when: no header has a field 'seqn' (did you mean 'seqno'?)", why)
    for _ = 1, 32 do drop:rule {} end
    assert.same({ nil, "refused", "there are 32 rules; clear one first" }, { drop:rule {} })
  end)
end)
