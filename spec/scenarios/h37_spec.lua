-- H37: errors in callbacks of the user.  They go to the channel's error hook, once each and with
-- their traceback; the next message is delivered.  Without a hook they come out of sim:run, or out
-- of neap.run when it ends, so a script ends with another exit code than 0.

local build = require "support.build"
local members = require "support.members"

local function overflow() return 1 + overflow() end

local kinds = {
  { "a string", function() error "oops" end, "oops" },
  { "a table", function() error { message = "in a table" } end, "in a table" },
  { "nothing", function() error(nil) end, "nil" },
  { "a full stack", overflow, "overflow" },
  { "a boolean", function() error(false) end, "false" },
}

describe("h37", function()
  for _, kind in ipairs(kinds) do
    local name, fail, text = unpack(kind)

    it("delivers the other 99 when the 50th callback raises " .. name, function()
      local sim, m = members.group { "ann", "bob" }
      local got, errors = 0, {}
      m.bob:on("message", function(msg)
        if msg.body == "50" then fail() end
        got = got + 1
      end)
      m.bob:on("error", function(problem) errors[#errors + 1] = problem end)
      local view = m.bob:view().id
      for i = 1, 100 do m.ann:send(i) end
      sim:run "5s"
      assert.equal(99, got)
      assert.equal(1, #errors)
      assert.equal("string", type(errors[1]))
      assert.truthy(errors[1]:find(text, 1, true), errors[1])
      assert.equal(view, m.bob:view().id)
    end)
  end

  it("gives a traceback into the callback", function()
    local sim, m = members.group { "ann", "bob" }
    local problem
    local function deep() error "oops" end
    m.bob:on("message", function() deep() end)
    m.bob:on("error", function(text) problem = text end)
    m.ann:send "x"
    sim:run "1s"
    assert.truthy(problem:match "h37_spec.lua:%d+: oops")
    assert.truthy(problem:find("in function 'deep'", 1, true))
  end)

  it("goes on with the batch's successor when a batch handler raises", function()
    local sim, m = members.group { "ann", "bob" }
    local errors, calls = 0, 0
    m.bob:on("message", nil)
    m.bob:on("batch", function()
      calls = calls + 1
      if calls == 1 then error "oops" end
    end)
    m.bob:on("error", function() errors = errors + 1 end)
    m.ann:send "x"
    sim:run "1s"
    m.ann:send "y"
    sim:run "1s"
    assert.equal(2, calls)
    assert.equal(1, errors)
  end)

  it("counts an error in a view callback, and the view is there all the same", function()
    local sim, m = members.group { "ann", "bob", "cho" }
    local errors = 0
    m.ann:on("view", function() error "oops" end)
    m.ann:on("error", function() errors = errors + 1 end)
    sim:kill "cho"
    sim:run "40s"
    assert.equal(1, errors)
    assert.equal(2, #m.ann:view().members)
  end)

  it("counts an error after a wait", function()
    local neap = require "neap"
    local sim, m = members.group { "ann", "bob" }
    local errors = 0
    m.bob:on("message", function()
      neap.sleep "10ms"
      error "late"
    end)
    m.bob:on("error", function() errors = errors + 1 end)
    m.ann:send "x"
    m.ann:send "y"
    sim:run "1s"
    assert.equal(2, errors)
  end)

  it("comes out of sim:run when nobody handles it", function()
    local sim, m = members.group { "ann", "bob" }
    m.bob:on("message", function() error "unhandled" end)
    m.ann:send "x"
    m.ann:send "y"
    local ok, problem = pcall(sim.run, sim, "1s")
    assert.is_false(ok)
    assert.truthy(problem:find("unhandled", 1, true))
    assert.truthy(problem:find("(and 1 more)", 1, true))
    assert.is_true(sim:run "1s") -- said once
  end)

  it("comes out of sim:run when the error hook itself fails", function()
    local sim, m = members.group { "ann", "bob" }
    m.bob:on("message", function() error "first" end)
    m.bob:on("error", function() error "in the hook" end)
    m.ann:send "x"
    local ok, problem = pcall(sim.run, sim, "1s")
    assert.is_false(ok)
    assert.truthy(problem:find("in the hook", 1, true))
  end)

  it("ends a script with another exit code than 0 #real", function()
    local text, code = build.script("h37.lua", [[
      local neap = require "neap"
      neap.run(function()
        local ann = assert(neap.join("h37", { stack = "bare", name = "ann" }))
        ann:on("message", function() error "unhandled" end)
        ann:send "x"
        neap.sleep "50ms"
        ann:close()
      end)
    ]])
    assert.truthy(text:find("unhandled", 1, true), text)
    assert.equal(1, code)
  end)
end)
