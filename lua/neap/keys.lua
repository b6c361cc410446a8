-- keys: the keys of a table that somebody wrote down, in the order of the alphabet.  The one place
-- that walks a table as it comes: the order of `pairs` differs from run to run, so nothing may see
-- it.

local keys = {}

function keys.sorted(t)
  local list = {}
  for key in pairs(t) do list[#list + 1] = key end -- any order: sorted right after
  table.sort(list, function(a, b)
    if type(a) == type(b) and (type(a) == "string" or type(a) == "number") then return a < b end
    return tostring(a) < tostring(b)
  end)
  return list
end

-- The first key, in that order, that is not in `known`; nil when all are.
function keys.unknown(t, known)
  local found
  for key in pairs(t) do -- any order: the first by name is found
    if not known[key] and (found == nil or tostring(key) < tostring(found)) then found = key end
  end
  return found
end

function keys.set(list)
  local set = {}
  for _, key in ipairs(list) do set[key] = true end
  return set
end

return keys
