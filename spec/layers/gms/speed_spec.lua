-- How long a change of members takes, in round trips, and what it costs, in bytes.

local membership = require "support.membership"

local MS = 1e6
local ROUND_TRIP = 2 * MS -- latency is 1 ms
local names = {}
for n = 1, 8 do names[n] = "m" .. n end

local function group_of(count)
  local group, list = membership.group { latency = "1ms" }, {}
  for n = 1, count do list[n] = "m" .. n end
  group:form(list)
  group:run "5s"
  return group
end

local function without(name)
  local rest = {}
  for _, other in ipairs(names) do
    if other ~= name then rest[#rest + 1] = other end
  end
  return rest
end

-- Until these agree, from when `begun()` is true; in ns.
local function takes(group, list, begun)
  local since
  for _ = 1, 200000 do
    since = since or begun() and group.sim:now()
    if since and group:agrees(list) then return group.sim:now() - since end
    group:run "100us"
  end
  error "no agreement"
end

local function within_two_round_trips(time)
  assert.is_true(time <= 2 * ROUND_TRIP, ("%.1f ms"):format(time / MS))
end

describe("a change in a group of eight", function()
  it("has a joiner everywhere two round trips after its request", function()
    local group = group_of(8)
    group:join "new"
    local all = { "new", unpack(names) }
    local time = takes(group, all, function() return group:gms "m1".requests == 8 end)
    within_two_round_trips(time + ROUND_TRIP / 2) -- The request was on its way before.
    group:close()
  end)

  it("has a leaver nowhere two round trips after it wants to go", function()
    for _, name in ipairs { "m1", "m5", "m8" } do
      local group = group_of(8)
      group:leave(name)
      within_two_round_trips(takes(group, without(name), function() return true end))
      group:close()
    end
  end)

  it("has a dead member nowhere two round trips after it is suspected", function()
    for _, name in ipairs { "m1", "m5", "m8" } do
      local group, suspected = group_of(8), false
      group.channels[name == "m1" and "m2" or "m1"]:on("decision", function(decision)
        suspected = suspected or decision.text:find "suspected" ~= nil
      end)
      group:kill(name)
      within_two_round_trips(takes(group, without(name), function() return suspected end))
      group:close()
    end
  end)
end)

describe("the bytes of a change", function()
  it("grow with what changes, not with the group", function()
    local sent = {}
    for _, count in ipairs { 8, 40 } do
      local group = group_of(count)
      local udp = group.channels.m1.stack.udp
      local before = udp.bytes_sent
      group:leave("m" .. count):run "2500us" -- not yet the answers to acks, one a member
      sent[count] = udp.bytes_sent - before
      assert.equal(count - 1, group:gms("m1").members)
      group:close()
    end
    assert.is_true(sent[40] < sent[8] + 100, sent[8] .. " and " .. sent[40])
    assert.is_true(sent[8] > 50)
  end)
end)
