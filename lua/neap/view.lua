-- view: who is in the group, as plain Lua values.

local C = require "neap.cdef"
local ffi = require "ffi"
local message = require "neap.message"

local text = ffi.new "char[160]"

local function names(peers, count)
  local list = {}
  for index = 1, count do list[index] = message.name(peers[index - 1]) end
  return list
end

-- From a struct neap_view *.  `addresses` are those of the members, in the same order.
return function(pointer)
  C.neap_bind_view_text(pointer, text, 160)
  local view = {
    id = ffi.string(text),
    members = names(pointer.members, pointer.count),
    joined = names(pointer.joined, pointer.joined_count),
    left = names(pointer.left, pointer.left_count),
    merged = pointer.merged,
    addresses = {},
  }
  for index = 1, pointer.count do
    view.addresses[index] = message.address(pointer.members[index - 1])
  end
  view.coordinator = view.members[1]
  return view
end
