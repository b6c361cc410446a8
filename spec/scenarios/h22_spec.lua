-- H22: views and stability go on while a state is on its way, and the state is exact.

local counters = require "support.counters"
local neap = require "neap"

local ALL = { "ann", "bob", "dee", "eve" }

-- ann gives cho's and bob's increments to dee, slowly; meanwhile eve joins and cho dies.
local function story(seed, mode, waits)
  local c = counters.new { seed = seed, names = { "ann", "bob", "cho", "dee" }, filler = 200000,
    waits = waits,
    with = { state_transfer = { mode = mode, window = "10kB" }, stable = { interval = "200ms" },
      fd_all = { timeout = "600ms", interval = "100ms" }, verify_suspect = { timeout = "200ms" } } }
  c.sim:set { capacity = "100kB" }
  local closed, since, purged = 0, nil, nil
  c:talk("bob", 250, "10ms")
  c:talk("cho", 250, "10ms")
  c.sim:spawn(function() -- How long ann's barrier is closed at a time.
    while c.busy > 0 do
      neap.sleep "5ms"
      local now = c.sim:now()
      since = c.members.ann.barrier.closed and (since or now) or nil
      if since then closed = math.max(closed, (now - since) / 1e6) end
    end
  end)
  c.sim:run "500ms"
  local result = c:get("dee", { from = "ann", timeout = "60s" })
  c.sim:run "200ms"
  local seen = {}
  for _, name in ipairs { "ann", "bob", "dee" } do
    c.members[name]:on("view", function(view) seen[name .. " " .. view.id] = c.sim:now() / 1e6 end)
  end
  local low = tonumber(c.members.bob.nakack.current_low)
  c:join "eve"
  c.sim:run "300ms"
  c.sim:kill "cho"
  while not result.at and c.sim:now() < 120e9 do
    c.sim:run "100ms"
    if c.members.dee.state_transfer.fetching then
      purged = tonumber(c.members.bob.nakack.current_low) > low or purged
    end
  end
  return c, result, seen, closed, purged
end

local function check(seed, mode, waits)
  local c, result, seen, closed, purged = story(seed, mode, waits)
  assert(result.ok, tostring(result.code) .. tostring(result.detail))
  local view = c.members.bob:view()
  assert.equal("ann bob dee eve", table.concat(view.members, " "))
  for _, name in ipairs { "ann", "dee" } do
    local late = seen[name .. " " .. view.id] - seen["bob " .. view.id]
    assert(late < 2000 and seen[name .. " " .. view.id] < result.at,
      ("%s saw %s %d ms later"):format(name, view.id, late))
  end
  assert(closed < 100, ("closed for %d ms"):format(closed))
  assert(purged, "nothing became stable during the transfer")
  c:get("eve", { timeout = "30s" })
  c:calm "3s"
  for _, state in pairs(c.states) do state.cho = nil end -- Its last words reached some of them.
  c:check(ALL)
  return c
end

describe("H22", function()
  it("mode applied, read in one go: each increment counts exactly once", function()
    counters.each_seed(20, function(seed) assert.equal(0, check(seed, "applied").replayed) end)
  end)

  it("a callback that waits: what may be in the state comes again, marked", function()
    local replayed = 0
    counters.each_seed(20, function(seed)
      local c = check(seed, seed % 2 == 0 and "applied" or "barrier", "20ms")
      replayed = replayed + c.replayed
    end)
    assert(replayed > 0)
  end)
end)
