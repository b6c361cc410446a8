-- keys: the keys of a table that somebody wrote down, in the order of the alphabet.  The one place
-- that walks a table as it comes: the order of `pairs` differs from run to run, so nothing may see
-- it.

return function(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) == type(b) and (type(a) == "string" or type(a) == "number") then return a < b end
    return tostring(a) < tostring(b)
  end)
  return keys
end
