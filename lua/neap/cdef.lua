-- cdef: the C side by FFI.  The declarations come from C itself, so there is no copy to keep in
-- step; what is declared stays for the life of the process, however often this file is loaded.

local core = require "neap.core"
local ffi = require "ffi"

if not pcall(ffi.typeof, "neap_is_declared") then
  ffi.cdef(core.shape() .. "typedef int neap_is_declared;")
end

return ffi.load(assert(package.searchpath("neap.core", package.cpath)))
