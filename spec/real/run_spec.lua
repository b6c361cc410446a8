-- neap.run on the real world: the same surface, real sockets on loopback.

local neap = require "neap"

local function fails(text, f, ...)
  local ok, problem = pcall(f, ...)
  assert.is_false(ok)
  assert.truthy(tostring(problem):find(text, 1, true), tostring(problem))
end

-- What an error hook would have said goes to the end of run; keep it off the screen.
local function quiet(f)
  local stderr = io.stderr
  io.stderr = { write = function() end } -- luacheck: ignore 122
  local result = { pcall(f) }
  io.stderr = stderr -- luacheck: ignore 122
  return unpack(result)
end

describe("neap.run #real", function()
  it("returns when its function has returned and no channel is open", function()
    local slept
    assert.is_true(neap.run(function()
      local before = neap.now()
      neap.sleep "20ms"
      slept = neap.now() - before
    end))
    assert.is_true(slept >= 20e6)
  end)

  it("goes on while a channel is open", function()
    local log = {}
    neap.run(function()
      local ann = assert(neap.join("run", { stack = "bare", name = "ann" }))
      neap.spawn(function()
        neap.sleep "20ms"
        log[#log + 1] = "closing"
        ann:close()
      end)
      log[#log + 1] = "returned"
    end)
    assert.same({ "returned", "closing" }, log)
  end)

  it("returns after stop, whatever is open", function()
    neap.run(function()
      neap.join("run", { stack = "bare", name = "ann" })
      neap.stop()
    end)
  end)

  it("raises what its function raised", function()
    local value = { "a table" }
    local ok, problem = pcall(neap.run, function()
      neap.sleep "1ms"
      error(value)
    end)
    assert.is_false(ok)
    assert.equal(value, problem)
  end)

  it("raises at its end what nobody handled", function()
    local ok, problem = quiet(function()
      neap.run(function()
        neap.spawn(function() error "in a coroutine" end)
        neap.sleep "1ms"
      end)
    end)
    assert.is_false(ok)
    assert.truthy(problem:find("in a coroutine", 1, true))
  end)

  it("says when its function waits for what cannot happen", function()
    fails("waits for something that cannot happen any more", neap.run, function()
      coroutine.yield()
    end)
  end)

  it("cannot be nested, and what waits is called inside", function()
    neap.run(function()
      fails("inside a world already", neap.run, function() end)
    end)
    fails("join is called inside neap.run", neap.join, "x", {})
    fails("sleep is called inside neap.run", neap.sleep, "1ms")
    fails("now is called inside neap.run", neap.now)
    fails("spawn is called inside neap.run", neap.spawn, print)
    fails("stop is called inside neap.run", neap.stop)
  end)

  it("tells why it cannot open, and goes on", function()
    neap.run(function()
      local ok, code, detail = neap.join("run", { stack = "bare", name = "ann", with = {
        udp = { bind = "192.0.2.1" }, -- an address that is nobody's
      } })
      assert.is_nil(ok)
      assert.equal("string", type(code))
      assert.truthy(detail:find("udp: cannot open", 1, true), detail)
    end)
  end)

  it("carries messages of a group", function()
    local got, views = {}, {}
    neap.run(function()
      local with = { udp = { group = "239.7.7.9:7699" } }
      local ann = assert(neap.join("run", { stack = "lan", name = "ann", with = with }))
      ann:on("message", function() end) -- what nobody takes is not delivered
      local bob = assert(neap.join("run", { stack = "lan", name = "bob", with = with, on = {
        message = function(msg) got[#got + 1] = msg.from .. " " .. msg.body end,
        view = function(view) views[#views + 1] = #view.members end,
      } }))
      for i = 1, 100 do assert(ann:send(i)) end
      local ok = ann:send("now", { rsvp = true, timeout = "5s" })
      assert(ok)
      assert(bob:leave())
      assert(ann:leave())
    end)
    assert.equal(101, #got)
    assert.equal("ann now", got[101])
    assert.equal(2, views[1])
  end)
end)
