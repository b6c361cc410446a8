-- H41: handles, user data and the collector.  What is in use stays alive; what is dropped is
-- closed, at the latest with its world.

local build = require "support.build"
local members = require "support.members"
local neap = require "neap"

local function collect()
  collectgarbage()
  collectgarbage()
end

local function kilobytes()
  local file = assert(io.open("/proc/self/statm"))
  local resident = select(2, file:read("*n", "*n"))
  file:close()
  return resident * 4
end

describe("h41", function()
  it("keeps a connected channel alive whose last reference was dropped", function()
    local sim, m = members.group { "ann", "bob" }
    local got = 0
    do
      local cho = sim:join("spec", { stack = members.grouped(), name = "cho" })
      cho:on("message", function() got = got + 1 end)
    end
    sim:run "5s"
    collect()
    m.ann:send "x"
    sim:run "1s"
    assert.equal(1, got)
    assert.equal(3, #m.ann:view().members)
  end)

  it("survives a collection every 10 ms of traffic", function()
    local sim, m = members.group({ "ann", "bob", "cho" }, { seed = 2, loss = 0.05 })
    sim:spawn(function()
      for i = 1, 400 do
        m.ann:send("message " .. i)
        if i % 10 == 0 then neap.sleep "10ms" end
      end
    end)
    for _ = 1, 60 do -- Each takes long: behind this is a whole suite's memory.
      sim:run "10ms"
      collectgarbage()
    end
    sim:run "5s"
    assert.equal(400, #m.bob.got)
  end)

  it("closes worlds that were dropped with everything in them", function()
    -- Channels joined, callbacks that wait, sends that wait for room, layers in Lua that hold
    -- messages: the pools must be full again, which the world asserts.
    local hoard = neap.layer "hoard" {
      doc = "Holds everything.",
      up = function(self, batch)
        for m in batch:each() do self:hold(m) end
      end,
      open = function(self) self:after("1h", function() end) end,
    }
    local weak = setmetatable({}, { __mode = "v" })
    local function story(seed)
      local sim, m = members.group({ "ann", "bob", "cho" }, { seed = seed })
      m.bob:on("message", function() neap.sleep "1h" end)
      sim:spawn(function()
        while m.ann:send(("x"):rep(50000)) do end
      end)
      local odd = neap.stack(function(s) return s.stack "odd" { "S.", hoard {}, s.udp {} } end)
      local dee = sim:join("other", { stack = odd, name = "dee" })
      sim:run "1s"
      for i = 1, 20 do dee:send(i) end
      sim:run "1s"
      weak[seed] = sim.handle
    end
    for seed = 1, 5 do
      story(seed)
      collect()
    end
    collect()
    assert.is_nil(next(weak))
  end)

  it("collects worlds whose layers only know their world", function()
    local weak = setmetatable({}, { __mode = "v" })
    do
      local sim
      local knowing = neap.layer "knowing" {
        doc = "Has a reference to its sim.",
        open = function(self) self.sim = sim end,
        up = function(self, batch)
          for m in batch:each() do self:pass_up(m) end
        end,
      }
      local stack = neap.stack(function(s) return s.stack "k" { "S.", knowing {}, s.udp {} } end)
      sim = neap.sim { seed = 1 }
      sim:join("g", { stack = stack, name = "ann" })
      sim:run "1s"
      weak.sim = sim
      require("neap.classes").remove "knowing"
    end
    collect()
    collect()
    assert.is_nil(weak.sim)
  end)

  it("lets messages go as soon as their callback returned", function()
    local sim, m = members.new({ "ann", "bob" }, { seed = 1 }, "bare")
    m.bob:on("message", function() end)
    m.ann:on("message", function() end)
    sim:run "1ms"
    local body = ("x"):rep(60000)
    local function send(count)
      for i = 1, count do
        m.ann:send(body)
        if i % 50 == 0 then sim:run "1ms" end
      end
      sim:run "10ms"
    end
    send(1000)
    local before = kilobytes()
    send(20000)
    assert.is_true(kilobytes() - before < 20000, kilobytes() - before)
  end)

  it("ends without a word with channels open and sends under way", function()
    local text, code = build.script("h41.lua", [[
      local neap = require "neap"
      local members = require "support.members"
      local sim, m = members.group({ "a", "b", "c", "d", "e" }, { seed = 1 })
      for i = 1, 100 do m.a:send(i) end
      sim:run "1us"
      local real = require("neap.real").new()
    ]])
    assert.equal("", text)
    assert.equal(0, code)
  end)
end)
