-- A walk over everything that can meet a transfer of state: both modes and ways of repair, loss,
-- joiners that want it too, crashes, leaves and pauses, giver and taker in turn, slow callbacks.

local counters = require "support.counters"
local random = require "support.random"

local function draw(seed)
  local c = random.new(seed)
  return function(least, most) return least + c:below(most - least + 1) end, function(percent)
    return c:below(100) < percent
  end
end

local function options_of(seed, between, yes)
  return {
    seed = seed, names = { "ann", "bob", "cho" },
    filler = yes(35) and between(1, 400000) or 0,
    naps = yes(50) and { ann = between(1, 10) .. "ms", cho = yes(30) and "1ms" or nil } or nil,
    waits = yes(50) and between(1, 20) .. "ms" or nil,
    faults = yes(50) and { loss = 0.1, jitter = "3ms", reorder = 0.1, duplicate = 0.05 } or {},
    with = {
      state_transfer = { mode = yes(50) and "applied" or "barrier", close_timeout = "1min",
        chunk_size = yes(30) and "1kB" or "16kB", window = yes(30) and "5kB" or "256kB" },
      nakack = { retransmission = yes(50) and "nak" or "ack" },
      stable = { max_bytes = yes(50) and "2kB" or "2MB", interval = yes(50) and "200ms" or "20s" },
      fd_all = { timeout = "2s", interval = "300ms" }, verify_suspect = { timeout = "300ms" },
    },
  }
end

local ACTS = {
  function(c) -- Another one comes and wants it, too.
    c:join "dee"
    c.wants = c.wants + 1
    c.sim:spawn(function()
      local neap = require "neap"
      while not c.members.dee:view() do neap.sleep "10ms" end
      c:get("dee", { timeout = "2min" })
    end)
  end,
  function(c) c.sim:kill(c.victim) c.dead[c.victim] = true end,
  function(c) c.members[c.victim]:leave { wait = false } c.dead[c.victim] = true end,
  function(c)
    c.sim:pause(c.victim)
    c.sim:run "500ms"
    c.sim:resume(c.victim)
  end,
  function(c, between) c:get("bob", { timeout = between(20, 400) .. "ms" }) end,
}

-- What is left when all is calm: those who are to have the same counts.
local function live(c)
  local names = {}
  for _, name in ipairs { "ann", "bob", "cho", "dee" } do
    local member = c.members[name]
    if member and member:is_open() and not c.dead[name] and (name ~= "dee" or c.got.dee) then
      names[#names + 1] = name
    end
  end
  return names
end

local function walk(seed)
  local between, yes = draw(seed)
  local c = counters.new(options_of(seed, between, yes))
  c.wants, c.dead = 0, {}
  for _, name in ipairs { "ann", "bob", "cho" } do c:talk(name, 80, between(1, 4) .. "ms") end
  c.sim:run(between(1, 150) .. "ms")
  local result = c:get("cho", { timeout = "2min" })
  c.victim = yes(70) and "bob" or "ann" -- ann gives, unless she is gone.
  for _ = 1, between(0, 2) do
    c.sim:run(between(1, 60) .. "ms")
    local act = between(1, #ACTS)
    if not c.dead[c.victim] and not (act == 1 and c.members.dee) then ACTS[act](c, between) end
  end
  c:calm "30s"
  local names = live(c)
  -- The last words of the dead may have reached some only.
  for _, state in pairs(c.states) do
    for name in pairs(c.dead) do state[name] = nil end
  end
  c:check(names)
  for _, name in ipairs(names) do
    local layer = c.members[name].state_transfer
    assert(not layer.fetching and not layer.giving and not c.members[name].barrier.closed)
    assert.equal(0, tonumber(c.members[name].nakack.holds))
  end
  return result
end

describe("a walk through transfers of state", function()
  it("ends with equal states, nothing held and nobody waiting", function()
    local got = 0
    counters.each_seed(tonumber(os.getenv "SEEDS") or 20, function(seed)
      if walk(seed + (tonumber(os.getenv "FROM") or 0)).ok then got = got + 1 end
    end)
    assert(got >= 12, ("%d got it"):format(got))
  end)
end)
