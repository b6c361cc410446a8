-- membership: groups for specs about who is in them.
--
--     local group = membership.group { seed = 7, loss = 0.1 }
--     group:form { "ann", "bob" }
--     group:kill "ann":wait({ "bob" }, 10e9)
--
-- Every view that anybody sees goes by the rules: numbers rise within one life, one id is one list,
-- whoever sees it is in it.  A life ends with the address.

local neap = require "neap"
local seeds = require "support.seeds"

local membership = {}

-- Faster to suspect than the shipped stack; everything else as there.
membership.stack = neap.stack(function(s)
  return s.stack "membership" {
    "Views, and what they need.",
    s.gms { join_timeout = "1s" },
    s.stable {},
    s.unicast {},
    s.nakack {},
    s.verify_suspect {},
    s.fd_all { timeout = "4s", interval = "1s" },
    s.ping {},
    s.udp {},
  }
end)

-- The same with a layer right below another one.
function membership.stack_with(layer, above)
  return neap.stack(function(s)
    return s.extend(membership.stack, { s.after(above, layer) })
  end)
end

local Group = {}
Group.__index = Group

-- Options are those of neap.sim, `stack`, and `with`: changes to the stack.
function membership.group(options)
  options = options or {}
  local settings = {}
  for _, key in ipairs { "latency", "jitter", "loss", "duplicate", "reorder", "log" } do
    settings[key] = options[key]
  end
  settings.seed = options.seed or 1
  return setmetatable({
    sim = neap.sim(settings), stack = options.stack or membership.stack, with = options.with,
    channels = {}, ids = {}, last = {}, story = {}, left = {}, troubles = 0,
  }, Group)
end

-- The same for so many seeds; says which seed it was when one fails.
membership.each_seed = seeds.each

local function on_view(group, name, view)
  local list, number = table.concat(view.addresses, " "), tonumber(view.id:match "|(%d+)$")
  local id = view.addresses[1] .. "|" .. number
  local life = group.channels[name] and group.channels[name].address or "?"
  local before = group.last[life]
  local at = ("%s at %d ms"):format(name, group.sim:now() / 1e6)
  group.story[#group.story + 1] = ("%s: %s {%s}"):format(at, view.id,
    table.concat(view.members, " "))
  assert(list:find(life, 1, true), at .. " sees a view without itself")
  assert(not before or before < number, at .. " sees a view that is not newer")
  assert(not group.ids[id] or group.ids[id] == list, at .. " sees other members of " .. view.id)
  group.ids[id], group.last[life] = list, number
end

-- Opens; it joins as time runs.
function Group:join(name, options)
  self.channels[name] = assert(self.sim:join("chat", {
    stack = self.stack, name = name, with = self.with,
    on = {
      view = function(view) on_view(self, name, view) end,
      trouble = function() self.troubles = self.troubles + 1 end,
      message = options and options.message,
    },
  }))
  return self
end

function Group:run(time)
  self.sim:run(time)
  return self
end

-- One after the other, each when the one before is in: their order in the view is this one.
function Group:form(names)
  for _, name in ipairs(names) do
    self:join(name)
    repeat self:run "10ms" until self.channels[name]:view()
  end
  return self:run "100ms"
end

-- Begins to leave; what it came to is in group.left[name] later.
function Group:leave(name)
  local channel, sim = self.channels[name], self.sim
  sim:spawn(function()
    local since = sim:now()
    local ok, code = channel:leave()
    self.left[name] = { ok = ok, code = code, time = sim:now() - since }
  end)
  return self
end

function Group:kill(name)
  assert(self.sim:kill(name))
  return self
end

-- "ann|3 {ann bob}" of one member.
function Group:view(name)
  local view = self.channels[name]:is_open() and self.channels[name]:view()
  return view and ("%s {%s}"):format(view.id, table.concat(view.members, " ")) or "no view"
end

-- True when these, in any order, are the members of one view that all of them have.
function Group:agrees(names)
  local first
  for _, name in ipairs(names) do
    local view = self.channels[name]:is_open() and self.channels[name]:view()
    if not view or #view.members ~= #names then return false end
    local here = view.id .. " " .. table.concat(view.addresses, " ")
    first = first or here
    if here ~= first or not first:find(self.channels[name].address, 1, true) then return false end
  end
  return true
end

function Group:agree(names)
  if self:agrees(names) then return self end
  local views = {}
  for _, name in ipairs(names) do views[#views + 1] = name .. ": " .. self:view(name) end
  error(("no agreement at %d ms:\n  %s\nwhat they saw:\n  %s"):format(self.sim:now() / 1e6,
    table.concat(views, "\n  "), table.concat(self.story, "\n  ")), 2)
end

-- Runs until they agree; the time it took, in ns.
function Group:wait(names, limit)
  local since = self.sim:now()
  while not self:agrees(names) do
    if self.sim:now() - since > limit then self:agree(names) end
    self.sim:run "10ms"
  end
  return self.sim:now() - since
end

function Group:gms(name) return self.channels[name].stack.gms end

function Group:close() self.sim:close() end

return membership
