-- Processes that are stopped, killed and cut off while they talk: the group is one again, each
-- sender's messages came in order, and what a synchronous send promised is kept.

local processes = require "support.processes"

local here = require("neap.core").pid()
local PORT = 21000 + here % 20000
local function space(name) return ("neapc%d-%s"):format(here, name) end

-- Quick to suspect: nobody here is far.
local function crowd(n, more)
  local words = {
    cluster = "crowd", ["udp.group"] = ("239.7.7.%d:%d"):format(20 + n, PORT),
    ["fd_all.timeout"] = "1s", ["fd_all.interval"] = "250ms", ["verify_suspect.timeout"] = "300ms",
    ["gms.join_timeout"] = "1s", ["gms.lone_timeout"] = "1s",
  }
  for key, value in pairs(more or {}) do words[key] = value end
  return processes.crowd(words)
end

local function list(...)
  local names = { ... }
  table.sort(names)
  return table.concat(names, " ")
end

-- In order; and whoever heard a promise's sender from before has what was promised.
local function kept(told)
  local looked = 0
  for name, row in pairs(told) do
    assert.equal(0, row.wrong, name .. "\n" .. row.text)
    local promised = row.promised
    for other, theirs in pairs(told) do
      local got = promised and theirs.got[promised.address]
      if got and got[1] <= promised.n and not promised.left:find(other, 1, true) then
        looked = looked + 1
        assert.is_true(got[2] >= promised.n, ("%s was promised %d at %s, which has %d..%d"):format(
          name, promised.n, other, got[1], got[2]))
      end
    end
  end
  assert.is_true(looked > 1, "nothing was promised")
end

-- Calls f(crowd) and leaves nobody behind.
local function with(group, f)
  local ok, problem = xpcall(f, debug.traceback, group)
  group:close()
  if not ok then error(problem, 0) end
end

describe("processes over real sockets #real", function()
  it("take back who was stopped (SIGSTOP) and goes on", function()
    with(crowd(1), function(group)
      for _, name in ipairs { "ann", "bob", "cho" } do group:start(name) end
      group:agree(5, { "ann", "bob", "cho" })
      group:signal("bob", "STOP")
      group:agree(5, { "ann", "cho" })
      group:signal("bob", "CONT")
      group:agree(8, { "ann", "bob", "cho" })
      kept(group:stop { "ann", "bob", "cho" })
    end)
  end)

  it("outlive a coordinator killed while ten join at once", function()
    with(crowd(2), function(group)
      local names = { "bob" }
      group:start "ann"
      group:await(5, function() return group:view "ann" == "ann" end, "no ann")
      group:start "bob"
      group:agree(5, { "ann", "bob" })
      for n = 1, 10 do
        names[#names + 1] = "m" .. n
        group:start("m" .. n)
      end
      group:await(5, function() return group:view "ann" ~= list("ann", "bob") end, "no joiner")
      group:signal("ann", "KILL")
      group:agree(15, names)
      local told, port = group:stop(names), 0
      for _, row in pairs(told) do
        if row.text:find("ann suspected: .*nobody listens at its port any more") then
          port = port + 1
        end
      end
      assert.is_true(port > 0, "nobody saw that its port is nobody's")
      kept(told)
    end)
  end)

  local reason = processes.no_namespaces()

  it("find each other when an interface was down (H29)", function()
    if reason then pending(reason) return end
    local sh = processes.shell
    local left, right = space "left", space "right"
    sh("ip netns add " .. left)
    sh("ip netns add " .. right)
    sh(("ip link add eth0 netns %s type veth peer name eth0 netns %s"):format(left, right))
    for n, ns in ipairs { left, right } do
      sh(("ip -n %s addr add 10.78.0.%d/24 dev eth0"):format(ns, n))
      sh(("ip -n %s link set eth0 up"):format(ns))
      sh(("ip -n %s link set lo up"):format(ns))
    end
    local ok, problem = pcall(with, crowd(3, { ["udp.interface"] = "eth0" }), function(group)
      group:start("ann", left)
      group:start("bob", left)
      group:start("cho", right)
      group:agree(5, { "ann", "bob", "cho" })
      assert(sh(("ip -n %s link set eth0 down"):format(right)))
      group:agree(5, { "ann", "bob" })
      group:await(5, function() return group:view "cho" == "cho" end, "cho is not alone")
      assert(sh(("ip -n %s link set eth0 up"):format(right)))
      group:agree(8, { "ann", "bob", "cho" })
      kept(group:stop { "ann", "bob", "cho" })
    end)
    sh("ip netns del " .. left)
    sh("ip netns del " .. right)
    if not ok then error(problem, 0) end
  end)
end)
