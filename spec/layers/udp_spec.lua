-- udp: packets, places and what is foreign, in the simulated world.  What only a kernel can do to a
-- datagram stands in spec/real/udp_spec.lua.

local dissect = require "neap.dissect"
local members = require "support.members"
local neap = require "neap"

local function pour(sim, channel, bodies, options)
  sim:spawn(function()
    for _, body in ipairs(bodies) do assert(channel:send(body, options)) end
  end)
  sim:run "20ms"
end

local function many(count, size)
  local bodies = {}
  for n = 1, count do bodies[n] = ("%06d"):format(n) .. ("x"):rep((size or 6) - 6) end
  return bodies
end

-- Packets of `name` in the log that carry messages of the application, and their lengths.
local function packets_of(sim, name)
  local lengths = {}
  for _, row in ipairs(sim:log()) do
    if row.from == name and row.to ~= name then table.insert(lengths, #row.bytes) end
  end
  return lengths
end

describe("udp, going down", function()
  it("packs what is sent together into one packet", function()
    local sim, m = members.new { "ann", "bob" }
    sim:run "1ms"
    local before = m.ann.udp.packets_sent
    pour(sim, m.ann, many(100))
    assert.equal(1, m.ann.udp.packets_sent - before)
    assert.same(many(100), m.bob.got)
    assert.equal(0, m.ann.udp.single)
  end)

  it("sends one message alone without the wrapping of a list", function()
    local sim, m = members.new({ "ann", "bob" }, { seed = 1, log = 100 })
    sim:run "1ms"
    pour(sim, m.ann, { "hello" })
    assert.equal(1, m.ann.udp.single)
    assert.same({ "hello" }, m.bob.got)
    local packet = dissect.packet(sim:log()[1].bytes)
    assert.is_false(packet.list)
    assert.equal(m.ann.address, packet.messages[1].src)
  end)

  it("fills packets up to max_packet, which may change at any time", function()
    local sim, m = members.new({ "ann", "bob" }, { seed = 1, log = 1000 }, "bare",
      { udp = { max_packet = "2000B" } })
    sim:run "1ms"
    pour(sim, m.ann, many(200, 100))
    local lengths = packets_of(sim, "ann")
    assert(#lengths >= 10 and #lengths <= 14, #lengths)
    for _, length in ipairs(lengths) do assert(length <= 2000, length) end
    m.ann.stack.udp.max_packet = "1000B"
    assert.equal(1000, m.ann.udp.packet_limit.bytes)
    pour(sim, m.ann, many(200, 100))
    local after = packets_of(sim, "ann")
    assert(#after - #lengths > 20)
    for n = #lengths + 1, #after do assert(after[n] <= 1000, after[n]) end
    assert.equal(400, #m.bob.got)
  end)

  it("sends a message larger than max_packet alone", function()
    local sim, m = members.new({ "ann", "bob" }, { seed = 1 }, "bare",
      { udp = { max_packet = "2000B" } })
    sim:run "1ms"
    local large = ("y"):rep(30000)
    pour(sim, m.ann, { "one", large, "two" })
    assert.same({ "one", large, "two" }, m.bob.got)
    assert.equal(1, m.ann.udp.oversize)
  end)

  it("has a send refused that no packet could carry, and the limit named", function()
    local sim, m = members.new { "ann", "bob" }
    sim:run "1ms"
    local ok, code, detail = m.ann:send(("z"):rep(66000))
    assert.same({ nil, "too big" }, { ok, code })
    local most = tonumber(detail:match "at most (%d+)")
    assert(m.ann:send(("y"):rep(most)))
    assert.is_nil((m.ann:send(("y"):rep(most + 1))))
    sim:run "20ms"
    assert.equal(most, #m.bob.got[1])
    assert.same({ 1, 0 }, { #m.bob.got, m.ann.udp.too_big })
  end)

  it("drops what layers made too large for any packet", function()
    local grows = neap.layer "grows" {
      doc = "Sends more than it got.",
      down = function(self, batch)
        for m in batch:each() do
          self:pass_down(self:new { body = m.body:rep(2) })
          self:pass_down(m)
        end
      end,
    }
    local sim, m = members.new({ "ann", "bob" }, { seed = 1 }, neap.stack(function(s)
      return s.stack "grown" { "What is sent goes twice at once.", grows {}, s.udp {} }
    end))
    sim:run "1ms"
    local large = ("z"):rep(40000)
    pour(sim, m.ann, { large, "b" })
    assert.same({ large, "bb", "b" }, m.bob.got)
    assert.equal(1, m.ann.udp.too_big)
  end)

  it("hands a member its own multicasts once when nobody above does", function()
    local sim, m = members.new { "ann", "bob" }
    sim:run "1ms"
    pour(sim, m.ann, many(10))
    pour(sim, m.ann, { "not for me" }, { loopback = false })
    assert.same(many(10), m.ann.got)
    assert.equal(10, m.ann.udp.looped)
    assert.equal(11, #m.bob.got)
  end)

  it("turns round what a member sends to itself", function()
    local sim, m = members.new { "ann", "bob" }
    sim:run "1ms"
    pour(sim, m.ann, many(10), { to = m.ann.address })
    assert.same(many(10), m.ann.got)
    assert.equal(10, m.ann.udp.looped)
    assert.equal(0, m.ann.udp.packets_sent)
    assert.same({}, m.bob.got)
  end)

  it("writes the same bytes by the short way as by the long one", function()
    for seed = 1, 5 do
      local sim, m = members.group({ "ann", "bob", "cho" }, { seed = seed, log = 4000 })
      local bodies = {}
      math.randomseed(seed)
      for n = 1, 500 do bodies[n] = n .. ":" .. ("b"):rep(math.random(0, 300)) end
      pour(sim, m.ann, bodies)
      sim:run "5s"
      assert.same(bodies, m.bob.got)
      assert.same(bodies, m.cho.got)
      local read = {} -- The long way: the log is decoded without patterns.
      for _, row in ipairs(sim:log()) do
        local packet = row.from == "ann" and row.to == "bob" and dissect.packet(row.bytes)
        for _, message in ipairs(packet and packet.messages or {}) do
          if message.body and message.body:match "^%d+:b*$" then
            assert.is_nil(message.fault)
            table.insert(read, message.body)
          end
        end
        assert(not packet or not packet.fault, packet and packet.fault)
      end
      assert.same(bodies, read)
      sim:close()
    end
  end)
end)

describe("udp, places", function()
  it("looks for a member whose place is unknown, but not for every message", function()
    local sim, m = members.group { "ann", "bob" }
    local other = m.ann:view().coordinator == "ann" and "bob" or "ann"
    local rule = sim:drop { from = "cho", to = other, layer = "ping" }
    m.cho = members.join(sim, { "cho" }, members.grouped()).cho
    sim:run "6s"
    local asking = m[other]
    assert.equal(3, #asking:view().members)
    assert.equal(1, asking.udp.places)
    local before = asking.udp.asked
    pour(sim, asking, many(5), { to = m.cho.address }) -- Its name is unknown, too.
    sim:run "1500ms"
    assert.same({}, m.cho.got)
    assert(asking.udp.homeless >= 5)
    assert.equal(1, asking.udp.asked - before)
    sim:clear(rule)
    sim:run "10s"
    assert.same(many(5), m.cho.got)
    assert.equal(2, asking.udp.places)
  end)

  it("forgets a member that left when nobody has needed it for a while", function()
    local sim, m = members.group({ "ann", "bob" }, { seed = 1 },
      { udp = { logical_addr_cache_expiration = "30s" } })
    assert.equal(1, m.ann.udp.places)
    sim:spawn(function() m.bob:leave() end)
    sim:run "20s"
    assert.equal(1, #m.ann:view().members)
    assert.equal(1, m.ann.udp.places)
    sim:run "3min"
    assert.equal(0, m.ann.udp.places)
  end)

  it("names the places it knows", function()
    local _, m = members.group { "ann", "bob" }
    assert.equal("bob 10.0.0.2:7600", (m.ann.stack.udp:where():gsub("%s+$", "")
      :gsub(":%d+$", ":7600")))
  end)
end)

describe("udp, what is foreign", function()
  it("drops and counts the packets of another group on the same port", function()
    local sim = neap.sim { seed = 1 }
    local ann = sim:join("green", { stack = "bare", name = "ann" })
    local bob = sim:join("red", { stack = "bare", name = "bob" })
    local got = 0
    bob:on("message", function() got = got + 1 end)
    sim:run "1ms"
    pour(sim, ann, { "a single one" })
    pour(sim, ann, many(10))
    assert.equal(0, got)
    assert.equal(2, bob.udp.bad_cluster) -- a single message, and a list
  end)

  it("takes another micro version, and drops and counts another minor one", function()
    local sim = neap.sim { seed = 1 }
    local function join(name, version)
      local with = { udp = { version = version } }
      local c = sim:join("g", { stack = "bare", name = name, with = with })
      c.got = 0
      c:on("message", function() c.got = c.got + 1 end)
      return c
    end
    local ann, bob, cho = join("ann", "5.5.6"), join("bob", "5.5.0"), join("cho", "5.6.0")
    sim:run "1ms"
    pour(sim, ann, { "hello" })
    assert.equal(1, bob.got)
    assert.equal(0, cho.got)
    assert.equal(1, cho.udp.bad_version)
  end)
end)

describe("udp, closed with something still to tell", function()
  it("tells it no more", function()
    local sim, m = members.new({ "ann", "bob" }, { seed = 1 }, "bare",
      { udp = { receive_buffer = "20KB" } })
    sim:run "10ms"
    sim:pause "bob"
    pour(sim, m.ann, many(100, 1000))
    sim:resume "bob"
    sim:run "10ms"
    assert(m.bob.stack.udp.receive_overflow > 0)
    m.bob:close()
    assert.is_true(sim:run "5s")
    sim:close()
  end)
end)

describe("udp, told something it cannot do", function()
  local sim = neap.sim { seed = 1 }
  local function try(with)
    local options = { stack = "bare", name = "x", with = { udp = with } }
    local ok, problem = pcall(sim.join, sim, "g", options)
    assert.is_false(ok)
    return tostring(problem)
  end

  it("names the address that is no group", function()
    assert.matches("udp.group.*multicast address and port such as \"239.7.7.7:7600\"",
      try { group = "10.1.1.1:7600" })
    assert.matches("udp.group", try { group = "239.7.7.7" })
  end)

  it("names an address to bind to that is none, and a version that is none", function()
    assert.matches("udp.bind.*an address such as \"127.0.0.1\"", try { bind = "localhost" })
    assert.matches("udp.version.*a version such as \"5.5.6\"", try { version = "five" })
  end)
end)
