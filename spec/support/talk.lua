-- talk: two members, what one says to the other, and what is left of it; for specs of unicast.
--
--     local g = talk.pair(); talk.say(g, "ann", "bob", 1, 10); talk.until_got(g, "bob", 10)

local assert = require "luassert"
local group = require "support.group"

local talk = {}

-- A group of two whose messages are put down in their order.
function talk.pair(options)
  options = options or {}
  options.names = options.names or { "ann", "bob" }
  return group.new(options)
end

function talk.say(g, from, to, first, last)
  for i = first, last do assert(g[from]:send(tostring(i), { to = to })) end
end

-- Time until bob has so many, in milliseconds.
function talk.until_got(g, name, count)
  local since = g.sim:now()
  for _ = 1, 40000 do
    if #g.bodies[name] >= count then return (g.sim:now() - since) / 1e6 end
    g.sim:run "250us"
  end
  error(("%s has %d of %d"):format(name, #g.bodies[name], count))
end

function talk.nothing_left(g, names)
  for _, name in ipairs(names or g.names) do
    local unicast = g[name].stack.unicast
    assert.equal(0, unicast.unacked)
    assert.equal(0, unicast.waiting)
    assert.equal(0, unicast.early)
  end
end

return talk
