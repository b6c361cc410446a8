-- rows: a table as one line of names and values, as operations in C read it (core/rule.h).
--
--     { layer = "nakack", seqno = 5, body = "x y" }   ->   body="x y" layer="nakack" seqno=5

local keys = require "neap.keys"
local mistake = require "neap.mistake"
local quantity = require "neap.quantity"

local rows = {}

local function escaped(char)
  if char == '"' or char == "\\" then return "\\" .. char end
  return ("\\x%02x"):format(char:byte())
end

local function value_text(name, value)
  if type(value) == "boolean" then return tostring(value) end
  if type(value) == "number" then return ("%.17g"):format(value) end
  if quantity.is(value) then value = tostring(value) end
  if type(value) ~= "string" then mistake.raise("%s: a %s is no value", name, type(value)) end
  return '"' .. value:gsub('[%z\1-\31"\\]', escaped) .. '"'
end

function rows.text(given)
  local parts = {}
  for index, name in ipairs(keys.sorted(given)) do
    if type(name) ~= "string" or not name:match "^[%w_]+$" then
      mistake.raise("'%s' is no name of a row", tostring(name))
    end
    parts[index] = name .. "=" .. value_text(name, given[name])
  end
  return table.concat(parts, " ")
end

return rows
