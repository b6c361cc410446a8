-- neap.map: everybody's map is the same, whatever happens to the members.

local neap = require "neap"

local function contents(map)
  local rows = {}
  for key, value in map:each() do rows[#rows + 1] = key .. "=" .. value end
  return table.concat(rows, " ")
end

-- Joins as time runs; maps[name] is there when it has its state.
local function join(sim, maps, name, with, options)
  sim:spawn(function()
    options = options or {}
    options.stack, options.name, options.with = "state", name, with
    maps[name] = assert(neap.map("prices", options))
  end)
end

local function pair(options)
  local sim, maps = neap.sim(options or { seed = 1, latency = "1ms" }), {}
  for _, name in ipairs { "ann", "bob" } do
    join(sim, maps, name)
    sim:run "3s"
  end
  return sim, maps
end

describe("neap.map", function()
  it("shows what was put and removed everywhere, and to whom joins later", function()
    local sim, maps = pair()
    maps.ann:put("tea", "3")
    maps.bob:put("rum", "9")
    maps.ann:put("a key\n7 with anything", "and a = value\n1 2 3 4\n")
    sim:run "100ms"
    maps.ann:remove "rum"
    sim:run "100ms"
    join(sim, maps, "cho")
    sim:run "3s"
    for _, name in ipairs { "ann", "bob", "cho" } do
      assert.equal("3", maps[name]:get "tea")
      assert.is_nil(maps[name]:get "rum")
      assert.equal("and a = value\n1 2 3 4\n", maps[name]:get "a key\n7 with anything")
      assert.equal(2, maps[name]:size())
    end
    assert.equal(contents(maps.ann), contents(maps.cho))
  end)

  it("returns from a synchronous put when everybody has it", function()
    local sim, maps = pair()
    local done
    sim:spawn(function()
      assert(maps.ann:put("tea", "4", { rsvp = "delivery" }))
      done = maps.bob:get "tea"
    end)
    sim:run "1s"
    assert.equal("4", done)
  end)

  it("tells whoever watches what was, what is and who did it", function()
    local sim, maps = pair()
    local seen = {}
    maps.bob:watch(function(key, value, before, by)
      seen[#seen + 1] = ("%s %s->%s %s"):format(key, tostring(before), tostring(value),
        by == maps.ann.channel.address and "ann" or "bob")
    end)
    maps.ann:put("tea", "3")
    sim:run "50ms"
    maps.ann:put("tea", "3")
    maps.ann:put("tea", "4")
    sim:run "50ms"
    maps.bob:remove "tea"
    sim:run "50ms"
    assert.same({ "tea nil->3 ann", "tea 3->4 ann", "tea 4->nil bob" }, seen)
  end)

  it("agrees on a winner where two write at once", function()
    for seed = 1, 20 do
      local sim, maps = pair { seed = seed, latency = "5ms", jitter = "4ms" }
      for i = 1, 50 do
        local key = "k" .. i % 5
        maps.ann:put(key, "a" .. i)
        if i % 3 == 0 then maps.bob:remove(key) else maps.bob:put(key, "b" .. i) end
        sim:run "3ms"
      end
      sim:run "2s"
      assert.equal(contents(maps.ann), contents(maps.bob))
    end
  end)

  it("heals what somebody who died had told to some only", function()
    for seed = 1, 20 do
      local sim, maps = pair { seed = seed, latency = "1ms" }
      local with = { fd_all = { timeout = "600ms", interval = "100ms" },
        verify_suspect = { timeout = "200ms" } }
      for _, map in ipairs { maps.ann, maps.bob } do map.channel.stack:set(with) end
      join(sim, maps, "cho", with)
      sim:run "3s"
      sim:cut { from = "cho", to = seed % 2 == 0 and "ann" or "bob" }
      maps.cho:put("half", "heard")
      sim:run "20ms"
      sim:kill "cho"
      sim:heal()
      sim:run "5s"
      assert.equal("heard", maps.ann:get "half")
      assert.equal("heard", maps.bob:get "half")
    end
  end)

  it("refuses keys and values that are no strings", function()
    local _, maps = pair()
    assert.has_error(function() maps.ann:put(1, "x") end)
    assert.has_error(function() maps.ann:put("x", 1) end)
    assert.has_error(function() maps.ann:watch "x" end)
  end)
end)
