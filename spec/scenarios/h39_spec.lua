-- H39, over UDP: a process runs out of file descriptors.  Members that are there stay, one that
-- cannot open says why, and once there are descriptors again it can.

local neap = require "neap"

local PORT = 20000 + require("neap.core").pid() % 20000

-- Read while files can be.
local LAN = neap.stack(function(s) return s.extend("lan", { "The shipped stack, in hand." }) end)

local function join(name)
  return neap.join("h39", { stack = LAN, name = name, with = {
    udp = { group = "239.7.7.39:" .. PORT },
    fd_all = { timeout = "600ms", interval = "150ms" }, verify_suspect = { timeout = "200ms" },
    gms = { join_timeout = "500ms" },
  } })
end

-- Of one core; the sanitizers make everything dearer.
local SHARE = os.getenv "NEAP_SAN" and 0.6 or 0.2

-- Opens what can be opened.
local function exhaust()
  local files = {}
  while true do
    local file = io.open "/dev/null"
    if not file then return files end
    files[#files + 1] = file
    assert(#files < 100000, "there is no end of descriptors")
  end
end

describe("out of file descriptors (H39) #real", function()
  it("the members stay, a join says why not, and comes when it can", function()
    local inside, files = 0, nil
    neap.run(function()
      local ann, bob = assert(join "ann"), assert(join "bob")
      files = exhaust()
      local cpu, since = os.clock(), neap.now()
      local none, code, detail = join "cho"
      assert.is_nil(none)
      assert.equal("system", code)
      assert.truthy(detail:find("too many open files", 1, true), detail)
      neap.sleep "1500ms" -- Longer than it takes to put somebody out.
      assert.is_true(os.clock() - cpu < SHARE * (neap.now() - since) / 1e9)
      assert.equal(2, #ann:view().members)
      assert.equal(2, #bob:view().members)
      assert.is_true(ann:send("still here", { rsvp = "reception", timeout = "2s" }))
      for _, file in ipairs(files) do file:close() end
      files = {}
      local released = neap.now()
      local cho = assert(join "cho")
      assert.is_true(neap.now() - released < 5e9)
      inside = #cho:view().members
      for _, channel in ipairs { cho, bob, ann } do channel:close() end
    end)
    for _, file in ipairs(files) do file:close() end
    assert.equal(3, inside)
  end)
end)
