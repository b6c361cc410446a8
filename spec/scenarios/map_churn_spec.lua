-- Half an hour of members that come, leave and die while all write: the map is the same everywhere.

local neap = require "neap"
local random = require "support.random"

local NAMES = { "ann", "bob", "cho", "dee", "eve", "fay" }
local MINUTES = 30

local function contents(map)
  local rows = {}
  for key, value in map:each() do rows[#rows + 1] = key .. "=" .. value end
  return table.concat(rows, " ")
end

local function with(mode)
  return { state_transfer = { mode = mode }, stable = { interval = "2s" },
    fd_all = { timeout = "4s", interval = "1s" }, verify_suspect = { timeout = "500ms" } }
end

local Churn = {}
Churn.__index = Churn

function Churn:between(least, most) return least + self.c:below(most - least + 1) end

function Churn:yes(percent) return self.c:below(100) < percent end

function Churn:join(name)
  self.maps[name] = "joins"
  self.sim:spawn(function()
    local map, code, detail = neap.map("churn", { stack = "state", name = name,
      with = with(self.mode),
      on = { error = function(text) table.insert(self.problems, text) end } })
    if map then
      self.joins = self.joins + 1
    elseif self.maps[name] == "joins" and code ~= "closed" then
      table.insert(self.problems, ("%s: %s %s"):format(name, code, tostring(detail)))
    end
    self.maps[name] = map
    while map and self.maps[name] == map and map.channel:is_open() do
      local key = "k" .. self:between(1, 60)
      if self:yes(20) then
        map:remove(key)
      else
        map:put(key, name .. self:between(1, 1000000), { rsvp = self:yes(5) or nil })
      end
      neap.sleep(self:between(100, 900) .. "ms")
    end
  end)
end

-- One thing happens to one member.
function Churn:act()
  local name = NAMES[self:between(1, #NAMES)]
  local map = self.maps[name]
  if not map then
    self:join(name)
  elseif map ~= "joins" and self:here() > 2 then
    self.maps[name] = nil
    if self:yes(50) then
      map:leave { wait = false }
    else
      self.sim:kill(name)
      self.kills = self.kills + 1
    end
  end
end

function Churn:here()
  local count = 0
  for _, name in ipairs(NAMES) do
    local map = self.maps[name]
    if map and map ~= "joins" then count = count + 1 end
  end
  return count
end

local function story(seed, mode)
  local churn = setmetatable({ sim = neap.sim { seed = seed, latency = "1ms", loss = 0.02 },
    c = random.new(seed), mode = mode, maps = {}, problems = {}, joins = 0, kills = 0 }, Churn)
  for index = 1, 3 do
    churn:join(NAMES[index])
    churn.sim:run "5s"
  end
  local ends = churn.sim:now() + MINUTES * 60e9
  while churn.sim:now() < ends do
    churn:act()
    churn.sim:run(churn:between(5, 25) .. "s")
  end
  return churn
end

describe("half an hour of churn", function()
  for number, mode in ipairs { "applied", "barrier" } do
    it("leaves the map the same everywhere, mode " .. mode, function()
      local churn = story(number, mode)
      local live, first = churn.maps, nil
      churn.maps = {} -- Nobody writes any more.
      churn.sim:run "1min"
      for _, name in ipairs(NAMES) do
        local map = live[name]
        if map and map ~= "joins" then
          first = first or contents(map)
          assert.equal(first, contents(map), name)
        end
      end
      assert.same({}, churn.problems)
      assert.same({}, churn.sim:complaints())
      assert(#first > 100 and churn.joins > 20 and churn.kills > 5)
    end)
  end
end)
