-- nearest: "did you mean".

local C = require "neap.cdef"
local ffi = require "ffi"

local text = ffi.new "char[64]"

-- " (did you mean 'word'?)", or "" when no word is near.
return function(wanted, words)
  if type(words) == "table" then words = table.concat(words, " ") end
  C.neap_bind_nearest(tostring(wanted), words, text, 64)
  return text[0] == 0 and "" or (" (did you mean '%s'?)"):format(ffi.string(text))
end
