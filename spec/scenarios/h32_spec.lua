-- H32: everybody starts at once (Keycloak 41290, ISPN-15586); discovery by multicast.

local membership = require "support.membership"

local function story(seed, count)
  local names = {}
  local group = membership.group { seed = seed, latency = "1ms", jitter = "1ms", stack = "lan" }
  for i = 1, count do
    names[i] = ("m%02d"):format(i)
    group:join(names[i])
    group:run(("%dus"):format(seed * 7919 * i % math.floor(10000 / count)))
  end
  group:wait(names, 10e9)
  group:run("30s"):agree(names)
  group:close()
end

describe("H32", function()
  for _, count in ipairs { 2, 5, 10 } do
    it(("makes one group of %d that begin within 10 ms"):format(count), function()
      membership.each_seed(100, function(seed) story(seed, count) end)
    end)
  end
end)
