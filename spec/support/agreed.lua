-- agreed: groups whose members set things together, for specs; their promises are watched.
--
--     local g = agreed.group { seed = 3, loss = 0.1 }
--     g:call(function() return g.bob.stack:set({ ... }, { all = true }) end)
--     agreed.same(g)

local group = require "support.group"
local neap = require "neap"

local agreed = {}

agreed.stack = neap.stack(function(s)
  return s.extend("lan", {
    "As lan, its settings and its order watched.",
    s.before("settings", s.check_settings {}),
    s.before("unicast", s.check_fifo {}),
    s.fd_all { timeout = "3s", interval = "500ms" },
  })
end)

-- A group as support.group makes it, with that stack.
function agreed.group(options)
  options.stack = options.stack or agreed.stack
  options.names = options.names or { "ann", "bob", "cho" }
  local g = group.new(options)
  g.gone = {}
  return g
end

function agreed.kill(g, name)
  g.sim:kill(name)
  g.gone[name] = true
end

-- Those that are alive.
function agreed.alive(g)
  local list = {}
  for _, name in ipairs(g.names) do
    if not g.gone[name] and g[name]:is_open() then list[#list + 1] = name end
  end
  return list
end

-- Runs until the living are in one view, and a little longer.
function agreed.together(g)
  local alive = agreed.alive(g)
  for _ = 1, 600 do
    g.sim:run "100ms"
    local one = true
    for _, name in ipairs(alive) do
      local view, first = g[name]:view(), g[alive[1]]:view()
      one = one and view and first and view.id == first.id and #view.members == #alive
    end
    if one then
      g.sim:run "1s"
      return
    end
  end
  error "there is no common view"
end

-- What the group has set, as a member says it: nil when nothing.
local function table_of(channel)
  local text = channel.stack.settings:group()
  return text:match "^epoch [^\n]*\n(.*)$", text
end

-- Everybody alive says the same of what the group has set, and has set it.
function agreed.same(g)
  local alive = agreed.alive(g)
  local first, whole = table_of(g[alive[1]])
  for _, name in ipairs(alive) do
    local rows, text = table_of(g[name])
    assert(text == whole, ("%s: %s\n%s: %s"):format(alive[1], whole, name, text))
    for layer, attr, value in (rows or ""):gmatch "([%w_]+)%.([%w_]+)=([^\n]*)\n" do
      local is = g[name].stack[layer][attr]
      is = type(is) == "boolean" and (is and "on" or "off") or tostring(is)
      assert(is == value,
        ("%s.%s is %s at %s, and %s for all"):format(layer, attr, is, name, value))
    end
  end
  assert(#g.sim:complaints() == 0, table.concat(g.sim:complaints(), "\n"))
  return first
end

-- Every member sends `count` numbered multicasts and, around the ring, as many unicasts, one every
-- `pause`; agreed.complete(g) when all is calm.
function agreed.traffic(g, count, pause)
  g.traffic = { count = count, unicasts = {} }
  for index, name in ipairs(g.names) do
    local nextdoor = g.names[index % #g.names + 1]
    g.sim:spawn(function()
      for n = 1, count do
        if g.gone[name] or not g[name]:is_open() then return end
        g[name]:send(("%s all %d"):format(name, n))
        if not g.gone[nextdoor] then
          local ok = g[name]:send(("%s one %d"):format(name, n), { to = nextdoor })
          if not ok then return end -- It has left.
        end
        neap.sleep(pause)
      end
    end)
  end
end

-- Of everybody alive everything came at everybody alive, once and in order.
function agreed.complete(g)
  for _, name in ipairs(agreed.alive(g)) do
    local last = {}
    for _, body in ipairs(g.bodies[name]) do
      local stream, n = body:match "^(%w+ %w+) (%d+)$"
      n = tonumber(n)
      assert(n == (last[stream] or 0) + 1,
        ("%s got %s behind %s"):format(name, body, tostring(last[stream])))
      last[stream] = n
    end
    for _, other in ipairs(agreed.alive(g)) do
      assert((last[other .. " all"] or 0) == g.traffic.count,
        ("%s got %s of %s"):format(name, tostring(last[other .. " all"]), other))
    end
  end
  assert(#g.sim:complaints() == 0, table.concat(g.sim:complaints(), "\n"))
end

return agreed
