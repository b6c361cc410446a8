-- neap new layer NAME: writes a layer in Lua that runs, and its spec, into the working directory.

local new = {}

local LAYER = [=[
-- NAME: what it promises, in a sentence.
--
-- How it does that.  Going down each message gets a number; coming up they are counted.  Change it:
-- `each_up` and `each_down` get a message, `self:put` and `self:get` reach its header, and what is
-- neither passed on nor held (`self:hold`) is freed.
--
--     local NAME = require "NAME"                                     in a stack file
--     return extend("lan", { "As lan, and NAME.", before("udp", NAME {}) })

local neap = require "neap"
local param, counter = neap.param, neap.counter

return neap.layer "NAME" {
  doc = "Numbers messages and counts those that were lost on the way.",
  needs = "unicast",

  headers = {
    id = ID, -- users' headers are 2048 and above, each id once in a stack
    { "seq", "clong", "place in the sender's sequence" },
  },

  attrs = {
    param { "start", default = 1, min = 0, max = 1000000, live = "no",
      doc = "The first number." },
    counter { "seen", unit = "messages", doc = "Messages that came up." },
    counter { "lost", unit = "messages", doc = "Numbers that were skipped." },
  },

  open = function(self) self.next_down = self.start end,
  peer = function(self) return { next = self.start } end,

  each_down = function(self, m)
    self:put(m, { seq = self.next_down })
    self.next_down = self.next_down + 1
    self:pass_down(m)
  end,

  each_up = function(self, m, p)
    local head = self:get(m)
    if head then
      self.seen = self.seen + 1
      self.lost = self.lost + math.max(0, head.seq - p.next)
      p.next = math.max(p.next, head.seq + 1)
    end
    self:pass_up(m)
  end,
}
]=]

local SPEC = [=[
-- NAME: the layer in NAME.lua, over a wire that loses messages.
--
--     neap run NAME_spec.lua

require "busted.runner" ()
local neap = require "neap"
local layer = dofile "NAME.lua"

describe("NAME", function()
  it("counts what was lost, on any seed", function()
    for seed = 1, 20 do
      local sim = neap.sim { seed = seed, latency = "1ms", loss = 0.2 }
      local stack = neap.stack(function(s)
        return s.stack "NAME" { "For the spec.", layer {}, s.udp {} }
      end)
      local got = 0
      local ann = sim:join("g", { stack = stack, name = "ann" })
      local bob = sim:join("g", { stack = stack, name = "bob",
        on = { message = function() got = got + 1 end } })
      for _ = 1, 100 do
        ann:send "x"
        sim:run "1ms"
      end
      sim:settle()
      assert.equal(got, bob.stack.NAME.seen)
      assert.is_true(bob.stack.NAME.seen + bob.stack.NAME.lost <= 100)
    end
  end)
end)
]=]

local function write(path, text)
  local file = io.open(path, "r")
  if file then
    file:close()
    return nil, path .. " is there already; nothing was written over it"
  end
  local problem
  file, problem = io.open(path, "w")
  if not file then return nil, problem end
  file:write(text)
  file:close()
  return true
end

-- An id of its own for each name, so that two new layers can meet in one stack.
local function id_of(name)
  local sum = 0
  for index = 1, #name do sum = (sum * 31 + name:byte(index)) % 28000 end
  return 2048 + sum
end

function new.main(args)
  local what, name = args[1], args[2]
  if what ~= "layer" or not name or not name:match "^%l[%l%d_]*$" then
    io.stderr:write "neap new layer NAME: a name of small letters, digits and _\n"
    return 2
  end
  if not loadstring("local " .. name) then
    io.stderr:write(("neap new: '%s' is a word of Lua\n"):format(name))
    return 2
  end
  if require("neap.reference").layer(name) then
    io.stderr:write(("neap new: there is a layer called '%s' already\n"):format(name))
    return 1
  end
  for _, row in ipairs { { name .. ".lua", LAYER }, { name .. "_spec.lua", SPEC } } do
    local ok, problem = write(row[1], (row[2]:gsub("NAME", name):gsub("ID", id_of(name))))
    if not ok then
      io.stderr:write("neap new: ", problem, "\n")
      return 1
    end
    io.write("wrote ", row[1], "\n")
  end
  return 0
end

return new
