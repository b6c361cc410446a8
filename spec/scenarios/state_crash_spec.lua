-- Each word of a transfer of state may be the last one of who says it: heard, or lost with it.

local counters = require "support.counters"

local WORDS = { "ask", "digest", "part", "end", "stored", "taken" }
local ALL = { "ann", "bob", "cho", "dee" }

-- cho asks ann while all talk; whoever says `word` dies of it.
local function story(seed, word, lost, mode)
  local c = counters.new { seed = seed, names = ALL, filler = 40000, naps = { ann = "2ms" },
    waits = seed % 2 == 0 and "1ms" or nil,
    with = { state_transfer = { mode = mode }, stable = { interval = "300ms" },
      fd_all = { timeout = "600ms", interval = "150ms" }, verify_suspect = { timeout = "200ms" } } }
  for _, name in ipairs(ALL) do c:talk(name, 40, "2ms") end
  c.sim:run "50ms"
  local rule = { layer = "state_transfer", type = word, times = 1 }
  local id = lost and c.sim:drop(rule) or c.sim:duplicate(rule)
  local result = c:get("cho", { timeout = "1min" })
  for _ = 1, 20000 do
    if c.sim:hits(id) > 0 or result.at then break end
    c.sim:run "100us"
  end
  assert(c.sim:hits(id) == 1, word .. " was never said")
  local by_taker = word == "ask" or word == "stored" or word == "taken"
  local dead = by_taker and "cho" or "ann"
  c.sim:kill(dead)
  c:calm "5s"
  for _, state in pairs(c.states) do state[dead] = nil end -- Its last words reached some of them.
  if by_taker then
    c:check { "ann", "bob", "dee" }
    assert.is_false(c.members.ann.state_transfer.giving)
  else
    assert(result.ok, result.code)
    c:check { "bob", "cho", "dee" }
  end
  for _, name in ipairs(ALL) do
    if name ~= dead then assert.equal(0, tonumber(c.members[name].nakack.holds), name) end
  end
end

describe("whoever says it dies of", function()
  for number, word in ipairs(WORDS) do
    it(word .. ", before or after it was heard, in both modes", function()
      for seed = 1, 5 do
        for variant = 0, 3 do
          local lost, mode = variant % 2 == 0, variant < 2 and "applied" or "barrier"
          local ok, problem = xpcall(story, debug.traceback, seed * 10 + number, word, lost, mode)
          if not ok then error(("seed %d %s %s: %s"):format(seed * 10 + number,
            lost and "lost" or "heard", mode, problem), 0) end
        end
      end
    end)
  end
end)
