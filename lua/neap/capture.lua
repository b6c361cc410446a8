-- capture: what the members of a world send and get, as a pcapng file (csrc/core/capture.h), for
-- `neap decode`, tshark and Wireshark.
--
--     capture(world, "run.pcapng", { bytes = "10MB" })     true; nil and why
--     capture(world, false)                                { frames, bytes, dropped }, or nil
--
-- In simulated time each packet is there once, as it was sent, also when it is lost on its way; in
-- real time what came is there too.

local core = require "neap.core"
local keys = require "neap.keys"
local mistake = require "neap.mistake"
local quantity = require "neap.quantity"

local BYTES = 64 * 1024 * 1024
local BYTES_MIN, BYTES_MAX = 1024, 2 ^ 40

local function bytes_of(options)
  if type(options) ~= "table" then mistake.raise("capture takes a table: { bytes = \"10MB\" }") end
  for _, name in ipairs(keys.sorted(options)) do
    if name ~= "bytes" then mistake.raise("capture has no option '%s': bytes", tostring(name)) end
  end
  local bytes = options.bytes == nil and BYTES or quantity.bytes(options.bytes)
  if bytes < BYTES_MIN or bytes > BYTES_MAX then
    mistake.raise("bytes is the file's bound, 1 KB to 1 TB")
  end
  return bytes
end

return function(world, path, options)
  if path == false then
    local frames, bytes, dropped = core.capture_stop(world.handle)
    return frames and { frames = frames, bytes = bytes, dropped = dropped } or nil
  end
  if type(path) ~= "string" or path == "" then
    mistake.raise("capture takes a file to write, or false to end it: capture \"run.pcapng\"")
  end
  local bytes, calendar = bytes_of(options or {}), world.calendar
  local ok, why = core.capture(world.handle, path, bytes, calendar and calendar() or 0,
    not world.is_sim)
  if not ok then return nil, ("%s: %s"):format(path, why) end
  return true
end
