-- quantity: times and sizes as values.

local neap = require "neap"
local quantity = require "neap.quantity"

local function time(text) return quantity.time(quantity.ns(text)) end
local function size(text) return quantity.size(quantity.bytes(text)) end

local function fails(text, f, ...)
  local ok, problem = pcall(f, ...)
  assert.is_false(ok)
  assert.truthy(tostring(problem):find(text, 1, true), tostring(problem))
end

describe("quantity", function()
  it("prints with the unit that reads back exactly", function()
    for _, text in ipairs { "20s", "500ms", "1.5s", "7us", "3ns", "2min", "1h" } do
      assert.equal(text, tostring(time(text)))
    end
    for _, text in ipairs { "4MB", "1KB", "500B", "64KiB", "2GB" } do
      assert.equal(text, tostring(size(text)))
    end
  end)

  it("reads units in either case", function()
    assert.equal(quantity.bytes "4MB", quantity.bytes "4mb")
    assert.equal(quantity.bytes "2MiB", quantity.bytes "2mib")
    assert.equal(quantity.ns "5S", quantity.ns "5s")
  end)

  it("gives its number", function()
    assert.equal(20e9, time("20s").ns)
    assert.equal(4e6, size("4MB").bytes)
    assert.equal(65536, size("64KiB").bytes)
  end)

  it("compares with its kind, as text too", function()
    assert.is_true(time "1s" > time "999ms")
    assert.is_true(time "1s" >= "1s")
    assert.is_true(time "1s" == time "1000ms")
    assert.is_true(time "1s" == "1s")
    assert.is_false(time "1s" == "1KB")
    assert.is_true(size "1KB" < "1KiB")
    assert.is_true(time "1s" > 0)
  end)

  it("calculates", function()
    assert.equal("40s", tostring(time "20s" * 2))
    assert.equal("40s", tostring(2 * time "20s"))
    assert.equal("20.5s", tostring(time "20s" + "500ms"))
    assert.equal("19.5s", tostring(time "20s" - "500ms"))
    assert.equal("5s", tostring(time "20s" / 4))
    assert.equal(4, time "20s" / "5s")
    assert.equal("limit 20s", "limit " .. time "20s")
  end)

  it("never goes below nothing", function()
    fails("negative", function() return time "1s" - "2s" end)
    fails("negative", function() return time "1s" * -1 end)
  end)

  it("refuses bare numbers and other kinds, and names the unit", function()
    fails('a time needs a unit: "50ms", not 5', function() return time "1s" + 5 end)
    fails('a size needs a unit: "4MB", not 5', function() return size "1KB" < 5 end)
    fails("cannot read", function() return time "1s" + "2m" end)
    fails("a size", function() return time "1s" + size "1KB" end)
    fails("no field 'bytes'", function() return time("1s").bytes end)
  end)

  it("raises at the line of whoever made the mistake", function()
    local ok, problem = pcall(function() return time "1s" + 5 end)
    assert.is_false(ok)
    assert.truthy(problem:match "quantity_spec.lua:%d+: ")
  end)

  it("keeps numbers above 2^53 as they are", function()
    assert.equal("number", type(quantity.exact(2ULL ^ 53)))
    assert.equal("cdata", type(quantity.exact(9007199254740993ULL)))
    assert.is_true(quantity.exact(9007199254740993ULL) == 9007199254740993ULL)
  end)

  it("goes back in where it came from", function()
    local sim = neap.sim { seed = 1 }
    local ann = sim:join("g", { stack = "bare", name = "ann" })
    sim:run(time "5ms")
    assert.equal(5e6, sim:now())
    ann.udp.who_has_cache_timeout = ann.udp.who_has_cache_timeout * 2
    assert.equal("4s", tostring(ann.udp.who_has_cache_timeout))
  end)
end)
