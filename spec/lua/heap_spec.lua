-- heap: earliest first, equal times in the order of adding.

local heap = require "neap.heap"

-- Numbers that look random and are the same on every run.
local function numbers(seed)
  local state = seed
  return function(bound)
    state = (state * 48271) % 2147483647
    return state % bound
  end
end

local function drain(h)
  local list = {}
  while h[1] do
    local first = h[1]
    list[#list + 1] = first
    h:remove(first)
  end
  return list
end

describe("heap", function()
  it("gives back what was added, earliest first, in the order of adding", function()
    for seed = 1, 50 do
      local h, draw = heap(), numbers(seed)
      for index = 1, 100 do h:add { at = draw(20), index = index } end
      local list = drain(h)
      assert.equal(100, #list)
      for i = 2, #list do
        local a, b = list[i - 1], list[i]
        assert.is_true(a.at < b.at or (a.at == b.at and a.index < b.index))
      end
    end
  end)

  it("forgets what was removed; twice is fine", function()
    for seed = 1, 50 do
      local h, draw, entries, gone = heap(), numbers(seed), {}, {}
      for index = 1, 100 do
        entries[index] = { at = draw(20), index = index }
        h:add(entries[index])
      end
      for _ = 1, 60 do
        local entry = entries[draw(100) + 1]
        h:remove(entry)
        h:remove(entry)
        gone[entry] = true
      end
      local count = 0
      for _, entry in ipairs(entries) do count = count + (gone[entry] and 0 or 1) end
      local list = drain(h)
      assert.equal(count, #list)
      for i, entry in ipairs(list) do
        assert.is_nil(gone[entry])
        assert.is_true(i == 1 or list[i - 1].at <= entry.at)
      end
      assert.equal(0, h.count)
    end
  end)
end)
