-- real: the world as it is.  One per neap.run, or per prompt.

local World = require "neap.world"
local core = require "neap.core"

local real = {}

function real.new()
  local handle, env = core.real()
  local world = World.new(handle, env)
  function world:default_name()
    self.names = (self.names or 0) + 1
    return ("%s-%d-%d"):format(core.host(), core.pid(), self.names)
  end
  world.calendar = os.time -- for the times in captures: nothing that a member does depends on it
  return world
end

return real
