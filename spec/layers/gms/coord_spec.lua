-- How views are made: acks, holds on join digests, and a coordinator that dies at any moment.

local membership = require "support.membership"
local neap = require "neap"

local function with_traffic(group, names, until_ns)
  for _, name in ipairs(names) do
    local channel = group.channels[name]
    group.sim:spawn(function()
      local n = 0
      while group.sim:now() < until_ns and channel:is_open() do
        n = n + 1
        channel:send(("%s %d"):format(name, n))
        neap.sleep "4ms"
      end
    end)
  end
end

-- A message handler that insists on one run without gaps per sender and life of the receiver.
local function contiguous(got)
  return { message = function(msg)
    local name, n = msg.body:match "(%a+) (%d+)"
    n = tonumber(n)
    assert(not got[name] or got[name] + 1 == n,
      ("%s %d came after %s"):format(name, n, tostring(got[name])))
    got[name] = n
  end }
end

describe("gms, acks", function()
  it("end a hold when all have acknowledged", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob" }
    local rule = group.sim:drop { layer = "gms", type = "view_ack", from = "bob" }
    group:join "cho":wait({ "ann", "bob", "cho" }, 1e9)
    group:run "1s"
    assert.equal(1, group:gms("ann").holds)
    group.sim:clear(rule)
    group:run "3s"
    assert.equal(0, group:gms("ann").holds)
    group:close()
  end)

  it("do not hold up the next change for longer than their time", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob" }
    group.sim:drop { layer = "gms", type = "view_ack", from = "bob" }
    group:join "cho":wait({ "ann", "bob", "cho" }, 1e9)
    group:join "dee"
    local time = group:wait({ "ann", "bob", "cho", "dee" }, 3e9)
    assert.is_true(time > 1.8e9 and time < 2.2e9, ("%d ms"):format(time / 1e6))
    assert.equal(1, group:gms("ann").acks_missing)
    group:close()
  end)

  it("are not waited for from the dead", function()
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho", "dee" }
    group:kill "bob":kill "cho"
    group:wait({ "ann", "dee" }, 8e9)
    assert.equal(0, group:gms("ann").acks_missing)
    assert.equal(5, group:gms("ann").views) -- both at once: they died in the same window
    group:close()
  end)

  it("are not waited for from those who are suspected meanwhile", function()
    local group = membership.group {
      latency = "1ms", with = { gms = { view_ack_collection_timeout = "60s" } },
    }
    group:form { "ann", "bob", "cho" }
    group:kill("bob"):join "dee" -- the view with dee waits for bob's ack
    group:wait({ "ann", "cho", "dee" }, 8e9)
    group:close()
  end)

  it("bring the view once more to who missed it for good", function()
    local group = membership.group {
      latency = "1ms", with = { nakack = { resend_last_seqno_max_times = 1 } },
    }
    group:form { "ann", "bob", "cho" }
    group.sim:drop { to = "bob", layer = "gms", type = "view", times = 1 }
    group.sim:drop { to = "bob", layer = "nakack", type = "highest" }
    group:join "dee":wait({ "ann", "bob", "cho", "dee" }, 3e9)
    group:close()
  end)
end)

describe("gms, a hold", function()
  it("is void after hold_timeout, and the joiner comes again", function()
    local group = membership.group {
      latency = "1ms", with = { gms = { hold_timeout = "3s" } },
    }
    group:form { "ann", "bob" }
    local rule = group.sim:drop { layer = "gms", type = "view_ack", from = "bob" }
    group:join "cho":wait({ "ann", "bob", "cho" }, 1e9)
    local address = group.channels.cho.address
    group:run "2800ms"
    assert.equal(0, group:gms("ann").voids)
    group:run "300ms"
    assert.equal(1, group:gms("ann").voids)
    group.sim:clear(rule)
    group:wait({ "ann", "bob", "cho" }, 5e9)
    assert.not_equal(address, group.channels.cho.address)
    group:close()
  end)

  it("keeps for the joiner whatever its digest promised", function()
    membership.each_seed(6, function(seed)
      local loss = seed % 3 * 0.05
      local group = membership.group {
        seed = seed, latency = "1ms", jitter = "2ms", loss = loss,
        with = {
          stable = { interval = "100ms" }, -- purge as soon as may be
          nakack = { retransmission = seed % 2 == 0 and "ack" or "nak" },
        },
      }
      group:form { "ann", "bob" }
      with_traffic(group, { "ann", "bob" }, group.sim:now() + 4e9)
      local got = {}
      for _, name in ipairs { "cho", "dee", "eve", "fay" } do
        got[name] = {}
        group:join(name, contiguous(got[name])):run(seed * 7 .. "ms")
      end
      group:run "4s"
      group.sim:set { loss = 0 }
      group:run "2s":wait({ "ann", "bob", "cho", "dee", "eve", "fay" }, 10e9)
      for _, name in ipairs { "cho", "dee", "eve", "fay" } do
        assert(got[name].ann and got[name].bob, name .. " got nothing")
        assert.equal(got.cho.ann, got[name].ann)
      end
      assert.equal(0, group.troubles)
      group:close()
    end)
  end)
end)

-- The same story with the coordinator dead after 0, 1, 2, ... steps of it.
local function dies_at_any_step(begin, stay, steps)
  for step = 0, steps do
    local group = membership.group { latency = "1ms" }
    group:form { "ann", "bob", "cho" }
    begin(group)
    group:run(("%dus"):format(step * 250))
    group:kill "ann"
    local ok, problem = pcall(group.wait, group, stay, 20e9)
    if not ok then error(("dead after %.2f ms: %s"):format(step / 4, problem), 0) end
    group:close()
  end
end

describe("gms, a coordinator that dies", function()
  it("at any step of a join", function()
    dies_at_any_step(function(group) group:join "dee" end, { "bob", "cho", "dee" }, 120)
  end)

  it("at any step of two joins and a leave", function()
    dies_at_any_step(function(group) group:join "dee":join "eve":leave "bob" end,
      { "cho", "dee", "eve" }, 120)
  end)

  it("at any step of a leave", function()
    dies_at_any_step(function(group) group:leave "bob" end, { "cho" }, 30)
  end)

  it("at any step of its own leave", function()
    dies_at_any_step(function(group) group:leave "ann" end, { "bob", "cho" }, 7)
  end)

  it("at any step of an exclusion", function()
    dies_at_any_step(function(group) group:gms("ann"):suspect "bob" end, { "bob", "cho" }, 30)
  end)
end)
