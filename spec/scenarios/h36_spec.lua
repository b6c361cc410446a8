-- H36: C calls back into compiled Lua.  Layers in Lua run under hot loops that send; no Lua is ever
-- entered from an FFI call.

local core = require "neap.core"
local build = require "support.build"
local members = require "support.members"
local neap = require "neap"

local counting = neap.layer "h36" {
  doc = "Counts both ways, and touches every message.",
  attrs = {
    neap.counter { "rose", unit = "messages", doc = "Going up." },
    neap.counter { "fell", unit = "messages", doc = "Going down." },
  },
  headers = { id = 2060, { "seq", "clong", "place" } },
  peer = function() return { last = 0 } end,
  down = function(self, batch)
    for m in batch:each() do
      self.fell = self.fell + 1
      self:put(m, { seq = self.fell })
      self:pass_down(m)
    end
  end,
  up = function(self, batch)
    for m in batch:each() do
      local p, head = self:peer_of(m), self:get(m)
      assert(head.seq == p.last + 1, "a number came out of order")
      p.last = head.seq
      self.rose = self.rose + 1
      self:pass_up(m)
    end
  end,
}

local function story(count)
  local stack = neap.stack(function(s)
    return s.stack "h36" { "S.", counting {}, s.fifo {}, s.udp {} }
  end)
  local sim, m = members.new({ "ann", "bob" }, { seed = 1 }, stack)
  local got, sum = 0, 0
  m.bob:on("message", function(msg)
    got = got + 1
    sum = (sum * 31 + #msg.body + msg.seqno) % 2147483647
  end)
  sim:run "1ms"
  local spawned = 0
  for i = 1, count do
    m.ann:send("m" .. i % 100, { loopback = false })
    if i % 64 == 0 then
      sim:run "1ms"
      neap.sim { seed = i } -- one more to collect
      sim:spawn(function() spawned = spawned + 1 end)
    end
  end
  sim:settle()
  return ("%d %d %d %d %s"):format(got, sum, m.bob.h36.rose, m.ann.h36.fell, sim:hash()), got
end

describe("h36", function()
  it("gives the same results under every setting of collector and compiler", function()
    local expected, got = story(2000)
    assert.equal(2000, got)
    local pause, step = collectgarbage("setpause", 100), collectgarbage("setstepmul", 1000)
    local ok, again = pcall(story, 2000)
    collectgarbage("setpause", pause)
    collectgarbage("setstepmul", step)
    assert.is_true(ok, again)
    assert.equal(expected, again)
    if jit.status() then
      jit.off()
      ok, again = pcall(story, 2000)
      jit.on()
      assert.is_true(ok, again)
      assert.equal(expected, again)
    end
  end)

  it("holds over very many calls", function()
    local _, got = story(200000)
    assert.equal(200000, got)
  end)

  it("has no FFI function that could run a turn, or that returns 32 unsigned bits", function()
    local declared = core.shape()
    for _, turning in ipairs { "step", "turn", "open", "close", "set", "op" } do
      for name in declared:gmatch "neap_bind_(%w+)%s*%(" do
        assert.is_true(name ~= turning, name)
      end
    end
    assert.is_nil(declared:match "uint32_t neap_bind_[%w_]+ ?%(")
    assert.is_nil(declared:match "unsigned neap_bind_[%w_]+ ?%(")
  end)

  it("ends the process when Lua would be entered by an FFI call", function()
    local text, code = build.script("h36.lua", [[
      local C, ffi = require "neap.cdef", require "ffi"
      local neap, members = require "neap", require "support.members"
      local plain = neap.layer "plain" {
        doc = "Passes.",
        up = function(self, batch)
          for m in batch:each() do self:pass_up(m) end
        end,
      }
      local stack = neap.stack(function(s) return s.stack "h36" { "S.", plain {}, s.udp {} } end)
      local sim, m = members.new({ "ann" }, { seed = 1 }, stack)
      local channel = m.ann[require("neap.channel").own].pointer
      C.neap_bind_layer_still(C.neap_bind_layer_of(channel, "plain"))
    ]])
    assert.truthy(text:find("this was believed and is not so: L && !l->running", 1, true), text)
    assert.equal(134, code)
  end)

  it("refuses to run a world that is in the middle of a turn", function()
    local sim
    local rude = neap.layer "h36_rude" {
      doc = "Wants to run its own world.",
      up = function(self, batch)
        for m in batch:each() do
          local ok, problem = pcall(core.step, sim.handle, 1)
          assert(not ok and problem:find("in the middle of a turn", 1, true), problem)
          self:pass_up(m)
        end
      end,
    }
    local stack = neap.stack(function(s) return s.stack "h36" { "S.", rude {}, s.udp {} } end)
    local m
    sim, m = members.new({ "ann", "bob" }, { seed = 1 }, stack)
    sim:run "1ms"
    m.ann:send "x"
    sim:settle()
    assert.same({ "x" }, m.bob.got)
  end)
end)
