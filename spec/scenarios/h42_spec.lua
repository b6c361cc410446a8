-- H42: units and numbers, the same at load and at run time.  Each value for a time, a size and a
-- count: what it becomes, or what the error names.

local neap = require "neap"

local layer = neap.layer "h42" {
  doc = "Has one of each.",
  attrs = {
    neap.param { "time", unit = "ns", default = "1s", live = "now", doc = "A time." },
    neap.param { "size", unit = "bytes", default = "1KB", live = "now", doc = "A size." },
    neap.param { "count", unit = "messages", default = 1, live = "now", doc = "A count." },
  },
}

-- value, as a time, as a size, as a count; false: refused.
local rows = {
  { 500, false, false, 500 },
  { "500ms", 500e6, false, false },
  { "0.5m", false, false, false }, -- minutes or mega: nobody can know
  { "0.5min", 30e9, false, false },
  { "1.2s", 1.2e9, false, false },
  { "2m", false, false, false },
  { "2mb", false, 2e6, false },
  { "2mib", false, 2 * 1048576, false },
  { "2MB", false, 2e6, false },
  { "1e3", false, false, 1000 },
  { "", false, false, false },
  { "-1", false, false, false },
  { -1, false, false, false },
  { "10 parsecs", false, false, false },
  { "${VAR}", false, false, false },
  { "${VAR:default}", false, false, false },
  { 0, 0, 0, 0 },
  { "0", 0, 0, 0 },
  { 1.5, false, false, false },
  { {}, false, false, false },
  { 0 / 0, false, false, false },
  { math.huge, false, false, false },
}


local readers = {
  time = function(channel) return channel.h42.time == 0 and 0 or channel.h42.time.ns end,
  size = function(channel) return channel.h42.size == 0 and 0 or channel.h42.size.bytes end,
  count = function(channel) return channel.h42.count end,
}

local function at_load(attr, value)
  local sim = neap.sim { seed = 1 }
  local ok, result = pcall(function()
    local stack = neap.stack(function(s)
      return s.stack "h42" { "S.", layer { [attr] = value }, s.udp {} }
    end)
    return readers[attr](assert(sim:join("g", { stack = stack, name = "ann" })))
  end)
  return ok and result, not ok and result
end

local function running(set)
  return function(attr, value)
    local sim = neap.sim { seed = 1 }
    local stack = neap.stack(function(s) return s.stack "h42" { "S.", layer {}, s.udp {} } end)
    local ann = assert(sim:join("g", { stack = stack, name = "ann" }))
    local ok, problem = pcall(set, ann, attr, value)
    return ok and readers[attr](ann), not ok and problem
  end
end

local at_run_time = running(function(ann, attr, value) ann.h42[attr] = value end)
local by_set = running(function(ann, attr, value)
  return assert(ann.stack:set { h42 = { [attr] = value } })
end)

-- The whole group, and nobody is told of what cannot be.
local function for_all(attr, value)
  local sim = neap.sim { seed = 1 }
  local stack = neap.stack(function(s)
    return s.extend("lan", { "S.", s.before("udp", layer {}) })
  end)
  local ann = assert(sim:join("g", { stack = stack, name = "ann" }))
  local bob = assert(sim:join("g", { stack = stack, name = "bob" }))
  sim:run "3s"
  local ok, problem = pcall(function()
    return assert(ann.stack:set({ h42 = { [attr] = value } }, { all = true }))
  end)
  sim:run "1s"
  return ok and readers[attr](bob), not ok and problem
end

describe("h42", function()
  for _, row in ipairs(rows) do
    for index, attr in ipairs { "time", "size", "count" } do
      local shown = type(row[1]) == "string" and ("%q"):format(row[1]) or
        type(row[1]) == "table" and "a table" or tostring(row[1])
      it(("%s for a %s is %s"):format(shown, attr,
        row[index + 1] and tostring(row[index + 1]) or "refused"), function()
        for _, when in ipairs { at_load, at_run_time, by_set, for_all } do
          local result, problem = when(attr, row[1])
          assert.equal(row[index + 1], result, problem)
          if not result then
            -- Layer, field, value or what is wrong with it, and where.
            assert.truthy(problem:find("h42." .. attr, 1, true), problem)
            assert.truthy(problem:match "h42_spec.lua:%d+: ", problem)
          end
        end
      end)
    end
  end

  it("names the unit that is expected", function()
    local _, problem = at_load("time", "2m")
    assert.truthy(problem:find('a time such as "50ms"', 1, true), problem)
    _, problem = at_load("size", "2m")
    assert.truthy(problem:find('a size such as', 1, true), problem)
  end)

  it("says the same at load and at run time", function()
    for _, value in ipairs { "2m", 500, "10 parsecs", "", "-1" } do
      local _, load_problem = at_load("time", value)
      local _, run_problem = at_run_time("time", value)
      assert.equal(load_problem:match "h42%.time: .*", run_problem:match "h42%.time: .*")
    end
  end)
end)
