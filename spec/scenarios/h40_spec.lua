-- H40: tests that load modules which define C types, again and again.  This file and every other
-- one load the toolkit with isolation; here it is also done by hand, and in a process of its own.

local build = require "support.build"

local function fresh()
  for _, name in ipairs {
    "neap", "neap.core", "neap.cdef", "neap.quantity", "neap.message", "neap.channel", "neap.layer",
    "neap.class", "neap.classes", "neap.stack", "neap.sim", "neap.world", "neap.attrs",
    "neap.sending", "neap.handle", "neap.view",
  } do package.loaded[name] = nil end
  return require "neap"
end

local function story(neap)
  local once = neap.layer "once" {
    doc = "Passes.",
    headers = { id = 2070, { "seq", "clong", "place" } },
    down = function(self, batch)
      for m in batch:each() do
        self:put(m, { seq = 7 })
        self:pass_down(m)
      end
    end,
    up = function(self, batch)
      for m in batch:each() do
        assert(self:get(m).seq == 7)
        self:pass_up(m)
      end
    end,
  }
  local stack = neap.stack(function(s) return s.stack "h40" { "S.", once {}, s.udp {} } end)
  local sim = neap.sim { seed = 1, latency = "1ms" }
  local ann = sim:join("g", { stack = stack, name = "ann" })
  local got
  ann:on("message", function(msg) got = msg.body end)
  sim:run "1ms"
  ann:send "x"
  sim:settle()
  assert(tostring(ann.udp.who_has_cache_timeout * 2) == "4s")
  return got, sim:hash()
end

describe("h40", function()
  it("loads twice in one process as if once", function()
    local got, hash = story(fresh())
    assert.equal("x", got)
    for _ = 1, 20 do
      local again, same = story(fresh())
      assert.equal("x", again)
      assert.equal(hash, same)
    end
  end)

  it("keeps objects of the first load working after the second", function()
    local first = fresh()
    local sim = first.sim { seed = 1, latency = "1ms" }
    local ann = sim:join("g", { stack = "bare", name = "ann" })
    local got
    ann:on("message", function(msg) got = msg.body end)
    sim:run "1ms"
    story(fresh())
    ann:send "x"
    sim:settle()
    assert.equal("x", got)
  end)

  it("works without busted's own patches of the FFI, to the end of the process", function()
    local text, code = build.script("h40.lua", [[
      for round = 1, 5 do
        for name in pairs(package.loaded) do
          if name:match "^neap" then package.loaded[name] = nil end
        end
        local build = require "support.build"
local neap = require "neap"
        local sim = neap.sim { seed = 1, latency = "1ms" }
        local ann = sim:join("g", { stack = "bare", name = "ann" })
        local got
        ann:on("message", function(msg) got = msg.from_address .. msg.body end)
        sim:run "1ms"
        ann:send "x"
        sim:settle()
        assert(got:match "x$")
        assert(tostring(ann.udp.who_has_cache_timeout + "1s") == "3s")
        local layer = neap.layer "again" {
          doc = "x", headers = { id = 2071, { "seq", "clong", "x" } },
        }
      end
      print "fine"
    ]])
    assert.equal("fine\n", text)
    assert.equal(0, code)
  end)

  it("runs spec files with --repeat and --shuffle, and ends with 0", function()
    local text, code = build.run(("luajit /usr/bin/busted --ignore-lua --repeat=20 --shuffle "
      .. "--cpath='%s' spec/lua/quantity_spec.lua"):format(package.cpath))
    assert(code == 0, text)
  end)
end)
