-- H23: the provider disappears in the middle, or is born again under its name.

local counters = require "support.counters"

-- dee asks ann, who dies when so many bytes have come; `back`: and comes again 300 ms later.
local function story(seed, part, back, from)
  local c = counters.new { seed = seed, names = { "ann", "bob", "cho", "dee" }, filler = 400000,
    with = { state_transfer = { chunk_size = "1kB", window = "3kB" },
      stable = { interval = "300ms" }, fd_all = { timeout = "600ms", interval = "100ms" },
      verify_suspect = { timeout = "200ms" } } }
  c.sim:set { capacity = "200kB" }
  c:talk("bob", 150, "20ms")
  c:talk("cho", 150, "20ms")
  c.sim:run "100ms"
  local dee, excluded = c.members.dee, nil
  dee:on("view", function(view)
    if view.left[1] == "ann" then excluded = excluded or c.sim:now() / 1e6 end
  end)
  local result = c:get("dee", { timeout = "60s", from = from })
  for _ = 1, 4000 do
    if tonumber(dee.state_transfer.bytes_in) >= part * 400000 then break end
    c.sim:run "5ms"
  end
  assert(dee.state_transfer.fetching)
  c.sim:kill "ann"
  if back then
    c.sim:run "300ms"
    c:join "ann"
  end
  for _ = 1, 1200 do
    if result.at then break end
    c.sim:run "100ms"
  end
  return c, result, excluded
end

local function each(f)
  counters.each_seed(20, function(seed)
    f(seed, ({ 0.1, 0.5, 0.99 })[seed % 3 + 1], seed % 2 == 0)
  end)
end

describe("H23", function()
  it("the state comes whole from another member, when the provider is gone or reborn", function()
    each(function(seed, part, back)
      local c, result, excluded = story(seed, part, back)
      assert(result.ok, result.code)
      assert.equal(1, c.got.dee)
      if result.from == "ann" then -- The end was on its way already.
        assert.equal(0.99, part)
        assert.equal(0, c.aborts)
      else
        assert(excluded)
        assert.equal(1, c.aborts)
      end
      c:calm "3s"
      c:check { "bob", "cho", "dee" }
    end)
  end)

  it("one that was chosen is missed at once: an abort, and all goes on", function()
    each(function(seed, part, back)
      local c, result, excluded = story(seed, part, back, "ann")
      if result.ok then
        assert.equal(0.99, part) -- The end was on its way already.
      else
        assert.equal("left", result.code)
        assert(result.at - excluded < 3000, "known too late")
        assert.is_nil(c.got.dee)
        assert.equal(1, c.aborts)
      end
      c:calm "3s"
      c:check { "bob", "cho", "dee" } -- dee was a member all the time: it lacks nothing.
    end)
  end)
end)
