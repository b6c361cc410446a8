-- message: what a callback gets.  A box with a pointer into C, read by FFI when a field is asked
-- for; when the callback has returned the box is empty and touching it raises.
--
-- The metatable keeps nothing of this file's state: a C type has one for the life of the process.

local C = require "neap.cdef"
local ffi = require "ffi"
local mistake = require "neap.mistake"
local quantity = require "neap.quantity"

local message = {}

local OOB, REPLAYED, NULL_BODY, OWN, RSVP = 1, 128, 1, 32, 128
local text = ffi.new "char[64]"
local exact = quantity.exact

function message.address(peer)
  C.neap_bind_addr_text(peer.addr, text)
  return ffi.string(text)
end

-- The name of a peer, or its address where it has none.
function message.name(peer)
  if peer.name[0] == 0 then return message.address(peer) end
  return ffi.string(peer.name)
end

local address, name = message.address, message.name

local fields = {}

function fields.from(m) return name(m.from) end
function fields.to(m) if m.to ~= nil then return name(m.to) end end
function fields.from_address(m) return address(m.from) end
function fields.oob(m) return bit.band(m.flags, OOB) ~= 0 end
function fields.rsvp(m) return bit.band(m.flags, RSVP) ~= 0 end
function fields.seqno(m) return exact(m.seqno) end
function fields.replayed(m) return bit.band(m.marks, REPLAYED) ~= 0 end
function fields.own(m) return bit.band(m.marks, OWN) ~= 0 end
function fields.len(m) return m.len end

function fields.body(m)
  if bit.band(m.marks, NULL_BODY) ~= 0 or m.type == 2 then return nil end
  return ffi.string(m.body, m.len)
end

local Box = {}

function Box.__index(box, key)
  local field = fields[key]
  if not field then mistake.raise("a message has no field '%s'", tostring(key)) end
  if box.m == nil then
    mistake.raise("this message is no longer valid: its callback has returned, or it was passed on")
  end
  return field(box.m)
end

function Box.__newindex(_, key)
  mistake.raise("a message cannot be changed (field '%s'): somebody else may hold it",
    tostring(key))
end

function Box.__tostring(box)
  if box.m == nil then return "a message that is no longer valid" end
  return ("%s -> %s: %s"):format(name(box.m.from), box.m.to ~= nil and name(box.m.to) or "all",
    tostring(fields.body(box.m)))
end

message.box = ffi.typeof "struct neap_box"
pcall(ffi.metatype, message.box, Box)

return message
