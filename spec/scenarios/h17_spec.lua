-- H17: a member that most cannot hear returns with accusations (Consul 5928, serf 336).

local membership = require "support.membership"

local NAMES = {}
for i = 1, 12 do NAMES[i] = ("m%02d"):format(i) end
local VICTIM = NAMES[7]

-- Cut both ways from nine of the eleven others; it still reaches two, which the seed chooses.
local function cut_off(group, seed)
  local kept = { [(seed - 1) % 11 + 1] = true, [(seed + 3) % 11 + 1] = true }
  local place = 0
  for _, name in ipairs(NAMES) do
    if name ~= VICTIM then
      place = place + 1
      if not kept[place] then
        group.sim:cut { from = name, to = VICTIM }
        group.sim:cut { from = VICTIM, to = name }
      end
    end
  end
end

-- The numbers of views that each saw since.
local function views_of(group)
  local counts = {}
  for _, name in ipairs(NAMES) do counts[name] = group:gms(name).views end
  return counts
end

local function story(seed, mode)
  local group = membership.group {
    seed = seed, latency = "1ms", jitter = "1ms",
    with = { fd_all = { timeout = "4s", interval = "1s" }, nakack = { retransmission = mode } },
  }
  group:form(NAMES):agree(NAMES)
  local shown = #group.story
  cut_off(group, seed)
  group:run "40s"
  local before = views_of(group)
  group.sim:heal()
  group:wait(NAMES, 20e9)
  group:run("20s"):agree(NAMES)
  for n = shown + 1, #group.story do -- Nobody but the victim was ever missed.
    local who, members = group.story[n]:match "^(%S+) at .*{(.*)}"
    for _, name in ipairs(NAMES) do
      assert(name == VICTIM or who == VICTIM or members:find(name, 1, true), group.story[n])
    end
  end
  local after = views_of(group)
  for _, name in ipairs(NAMES) do
    assert(name == VICTIM or after[name] - before[name] <= 2, name)
  end
  group:close()
end

describe("H17", function()
  for _, mode in ipairs { "nak", "ack" } do
    it("loses nobody but the one that is cut off, in " .. mode .. " mode", function()
      membership.each_seed(20, function(seed) story(seed, mode) end)
    end)
  end
end)
