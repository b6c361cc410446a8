-- A member of JGroups in the group, played by support/foreign: nothing leaves towards it that only
-- Neap can read, and what needs more is refused with the reason or does with less (protocols 4 to
-- 6).  Whatever Neap members send each other is read by the decoder that reads the golden captures.

local core = require "neap.core"
local dissect = require "neap.dissect"
local foreign = require "support.foreign"
local group = require "support.group"
local neap = require "neap"

-- ann, bob and, once it is in everybody's view, fay.
local function mixed(mode, options)
  options = options or {}
  options.names = { "ann", "bob" }
  options.with = options.with or {}
  options.with.nakack = options.with.nakack or {}
  options.with.nakack.retransmission = mode
  local g = group.new(options)
  local fay = foreign.new(g.sim, "fay", "chat")
  fay:join(g.ann.address)
  g.sim:run "3s"
  for _, name in ipairs(g.names) do
    assert.same({ "ann", "bob", "fay" }, g[name]:view().members)
  end
  assert.equal(3, #fay.view.members)
  fay:listen()
  return g, fay
end

local function understood(fay) assert.same({}, fay.unknown) end

local function count(list, body)
  local n = 0
  for _, one in ipairs(list) do n = n + (one == body and 1 or 0) end
  return n
end

for _, mode in ipairs { "nak", "ack" } do
  describe("a member of JGroups in a group in " .. mode .. " mode", function()
    it("gets what is sent to all and to it, and is heard", function()
      group.each_seed(20, function(seed)
        local g, fay = mixed(mode, { seed = seed })
        g:call(function()
          for n = 1, 20 do
            g.ann:send("all " .. n)
            g.bob:send("oob " .. n, { oob = true })
            g.bob:send("to fay " .. n, { to = "fay" })
            neap.sleep "1ms"
          end
        end)
        for n = 1, 5 do fay:multicast("from fay " .. n) end
        fay:reliable(g.bob.address, {}, "to bob")
        g.sim:run "5s"
        for n = 1, 20 do
          assert.equal(1, count(fay.got, "all " .. n))
          assert.equal(1, count(fay.got, "to fay " .. n))
          assert.equal(1, count(fay.got, "oob " .. n))
        end
        for n = 1, 5 do assert.equal(1, count(g.bodies.ann, "from fay " .. n)) end
        assert.equal(1, count(g.bodies.bob, "to bob"))
        understood(fay)
        fay:stop()
        g.sim:close()
      end)
    end)

    it("answers synchronous sends by its own setting, and the result says so", function()
      local g, fay = mixed(mode)
      for _, ack_on in ipairs { "reception", "completion", "delivery" } do
        local ok, result = g:call(function()
          return g.ann:send("now", { rsvp = ack_on, timeout = "2s" })
        end)
        assert.is_true(ok)
        assert.is_table(result)
        local to_it = g:call(function()
          return g.bob:send("now", { rsvp = ack_on, timeout = "2s", to = "fay" })
        end)
        assert.is_true(to_it)
      end
      fay.rsvp = false
      local ok, code, detail = g:call(function()
        return g.ann:send("now", { rsvp = true, timeout = "2s" })
      end)
      assert.same({ nil, "timeout", { "fay" } }, { ok, code, detail.missing })
      understood(fay)
      fay:stop()
    end)

    it("cannot follow a toggle, which is refused with the reason", function()
      local g, fay = mixed(mode)
      local other = mode == "nak" and "ack" or "nak"
      local ok, code, why = g.ann.stack:set { nakack = { retransmission = other } }
      assert.is_nil(ok)
      assert.equal("refused", code)
      assert.truthy(why:find("fay", 1, true) and why:find("Neap", 1, true), why)
      assert.equal(mode, g.ann.nakack.retransmission)
      g.ann:send "still here"
      g.sim:run "2s"
      assert.equal(1, count(fay.got, "still here"))
      understood(fay)
      fay:stop()
    end)

    it("is asked for nothing that it cannot do, and gets no own header for it", function()
      local g, fay = mixed(mode)
      -- Connections: their mode and their handshake are for Neap members only.
      g.ann.stack.unicast.retransmission = "nak"
      g.ann.stack.unicast.sync = "handshake"
      g:call(function()
        for n = 1, 10 do assert(g.ann:send("to fay " .. n, { to = "fay" })) end
        assert(g.ann:send("to bob", { to = "bob" }))
      end)
      g.sim:run "2s"
      for n = 1, 10 do assert.equal(1, count(fay.got, "to fay " .. n)) end
      g.ann.stack.unicast:sync_now "fay"
      g.ann.stack.unicast:nak "fay"
      g.ann.stack.unicast:close "fay"
      g.ann.stack.nakack:trigger_xmit()
      g.ann.stack.nakack:announce_now()
      g.ann.stack.stable:gossip_now()
      g.ann.stack.stable.interval = "1s"
      g.sim:run "5s"
      local ok, code = g:call(function()
        return g.ann.stack:set({ stable = { interval = "7s" } }, { all = true })
      end)
      assert.is_nil(ok)
      assert.equal("refused", code)
      local state, no_state = g:call(function()
        return g.ann:get_state { from = "fay", timeout = "1s" }
      end)
      assert.is_nil(state)
      assert.is_string(no_state)
      understood(fay)
      fay:stop()
    end)

    it("asks for what it lost, and for what is gone, in its own way", function()
      local g, fay = mixed(mode, { with = { stable = { interval = "1s" } } })
      local have = fay.streams[g.ann.address]
      g:call(function()
        for n = 1, 5 do assert(g.ann:send("lost " .. n)) end
      end)
      g.sim:run "10s"
      fay:ask(g.ann.address, have + 1, have + 5)
      fay:ask(g.ann.address, 1, 1) -- Long gone.
      fay:ask(g.ann.address, have + 1000, have + 1010) -- Never sent.
      g.sim:run "2s"
      assert.equal(1, count(fay.got, "lost 5"))
      understood(fay)
      fay:stop()
    end)

    it("stays while others come and go", function()
      local g, fay = mixed(mode, { with = { fd_all = { timeout = "4s", interval = "1s" } } })
      fay.listening = false -- cho does not know of fay before it has a view.
      g:join("cho", { with = { nakack = { retransmission = mode } } })
      g.sim:run "5s"
      assert.same({ "ann", "bob", "fay", "cho" }, g.ann:view().members)
      fay:listen()
      for _, name in ipairs { "ann", "bob", "cho" } do
        assert(g[name]:send(name, { block = false }))
      end
      g.sim:run "3s"
      assert.equal(1, count(fay.got, "cho"))
      g.sim:kill "cho"
      g.sim:run "20s"
      assert.same({ "ann", "bob", "fay" }, g.ann:view().members)
      g:call(function() g.bob:leave() end)
      g.sim:run "3s"
      assert.same({ "ann", "fay" }, g.ann:view().members)
      g.ann:send("last")
      g.sim:run "2s"
      assert.equal(1, count(fay.got, "last"))
      understood(fay)
      fay:stop()
    end)

    it("takes the words of Neap with it when it leaves", function()
      local g, fay = mixed(mode, { with = { fd_all = { timeout = "4s", interval = "1s" } } })
      fay:stop()
      g.sim:run "15s"
      assert.same({ "ann", "bob" }, g.ann:view().members)
      local other = mode == "nak" and "ack" or "nak"
      assert.is_true(g:call(function()
        return g.ann.stack:set { nakack = { retransmission = other } }
      end))
      assert.equal(other, g.ann.nakack.retransmission)
    end)
  end)
end

-- ---- what Neap members send each other ----

local function each_packet(g, f)
  for n = 1, core.sim_log_count(g.sim.handle) do f(core.sim_log(g.sim.handle, n)) end
end

describe("what Neap sends in both modes", function()
  it("is read by the decoder of the golden data, and written again to the same bytes", function()
    local seen = {}
    group.each_seed(20, function(seed)
      local g = group.new { seed = seed, loss = 0.05, duplicate = 0.02, with = {
        nakack = { retransmission = seed % 2 == 0 and "nak" or "ack" },
        unicast = { retransmission = seed % 3 == 0 and "nak" or "ack",
          sync = seed % 4 == 0 and "handshake" or "timestamp" },
        stable = { interval = "1s" }, rsvp = { ack_on = "delivery" },
      } }
      core.sim_log_start(g.sim.handle, 20000)
      g:call(function()
        for n = 1, 12 do
          g.ann:send(("x"):rep(n * n * 200))
          g.bob:send("psst", { to = "ann" })
          g.cho:send("oob", { oob = true, to = n % 2 == 0 and "bob" or nil })
          if n % 4 == 0 then
            g.ann.stack.nakack.retransmission =
              g.ann.nakack.retransmission == "nak" and "ack" or "nak"
            g.bob.stack.unicast.retransmission =
              g.bob.unicast.retransmission == "nak" and "ack" or "nak"
            g.bob:send("now", { rsvp = true, timeout = "5s" })
            g.cho.stack.unicast:close "ann"
          end
          neap.sleep "3ms"
        end
      end)
      g.sim:run "3s"
      each_packet(g, function(row)
        local packet = dissect.packet(row.bytes, 5 * 2048 + 5 * 64 + 6)
        assert.is_nil(packet.fault)
        for _, message in ipairs(packet.messages) do
          assert.is_nil(message.skipped)
          assert.is_nil(message.payload_fault)
          for _, head in ipairs(message.headers) do
            seen[head.name .. " " .. head.protocol .. " " .. tostring(head.fields.type)] = true
          end
        end
        assert.equal(row.bytes, (dissect.encode(packet)))
      end)
      g.sim:close()
    end)
    -- Data, requests, retransmissions, announcements, reports; toggles; synchronous sends.
    for _, what in ipairs { "nakack 41 1", "nakack 77 1", "nakack 41 2", "nakack 41 3",
      "nakack 41 4", "nakack 77 4", "nakack 77 5", "nakack 1024 1", "unicast 48 0", "unicast 48 1",
      "unicast 48 3", "unicast 48 4", "unicast 1025 1", "unicast 1025 2", "rsvp 39 1", "rsvp 39 3",
      "rsvp 1026 nil", "stable 13 1", "stable 13 2" } do
      assert.is_true(seen[what], what .. " was never sent")
    end
  end)
end)
