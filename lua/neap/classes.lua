-- classes: every kind of layer there is, by name: those in C, those written in Lua that were made
-- by neap.layer, and those that can be found as neap/layers/<name>.lua.

local C = require "neap.cdef"
local ffi = require "ffi"

local classes = {}
local known, names = {}, {}

-- A class is { name, class (the C struct), maker (of instances; nil for C), layer (Lua) }.
function classes.add(class)
  if not known[class.name] then names[#names + 1] = class.name end
  known[class.name] = class
  return class
end

-- Forgets a class written in Lua; stacks that have it go on.
function classes.remove(name)
  known[name] = nil
  for index, other in ipairs(names) do
    if other == name then return table.remove(names, index) end
  end
end

do
  local index = 0
  local class = C.neap_bind_class(index)
  while class ~= nil do
    classes.add { name = ffi.string(class.name), class = class }
    index = index + 1
    class = C.neap_bind_class(index)
  end
  table.sort(names)
end

-- The class of this name or nil; an error in the file that should make it is raised.
function classes.find(name)
  if known[name] then return known[name] end
  if not name:match "^[%w_]+$" then return nil end
  if not package.searchpath("neap.layers." .. name, package.path) then return nil end
  local layer = require("neap.layers." .. name)
  return known[name] or (type(layer) == "table" and layer.class)
end

-- Names of those that are loaded, in the order in which they came.
function classes.names() return names end

return classes
