-- slice: what fields of several parts are made of: lists of addresses, views, digests.
--
-- Reads through the reader that it is given, so that neap.form (where C reads the parts) and the
-- dissector for Wireshark (plain Lua of any version) say the same.
--
--     slice.readers(take, add)    a function of (cursor) by the name of each such form
--
--     take(cursor, form)          the next value; take(cursor, name, true): of the table of a name
--     add(number, more)           exact, also beyond 2^53
--
-- The bytes were checked before: a reader here never meets a fault.

local slice = {}

local slices = {}

local function list(r, cursor, count, name)
  local all = {}
  for n = 1, count do all[n] = r.take(cursor, name) end
  return all
end

local function spread(all)
  for n, pair in ipairs(all) do all[n] = { delivered = pair[1], received = pair[2] } end
  return all
end

function slices.addrs(r, cursor) return list(r, cursor, r.take(cursor, "i16"), "addr") end
function slices.addrs32(r, cursor) return list(r, cursor, r.take(cursor, "i32"), "addr") end
function slices.seq2s(r, cursor) return spread(list(r, cursor, r.take(cursor, "i16"), "seq2")) end

function slices.digest(r, cursor)
  local members = slices.addrs(r, cursor)
  local all = spread(list(r, cursor, #members, "seq2"))
  for n, member in ipairs(members) do all[n].member = member end
  return all
end

function slices.view_id(r, cursor)
  return { creator = r.take(cursor, "addr"), number = r.take(cursor, "clong") }
end

-- A view's slice is a table of its own name.
function slices.view(r, cursor) return (r.take(cursor, "view", true)) end
function slices.delta_view(r, cursor) return (r.take(cursor, "delta_view", true)) end

-- Places become members, where they are in the list.
function slices.merge_view(r, cursor)
  local view = r.take(cursor, "merge_view", true)
  local function member(place)
    return type(place) == "number" and view.members[place + 1] or place
  end
  for _, part in ipairs(view.parts) do
    part.creator = member(part.creator)
    for n, place in ipairs(part.members) do part.members[n] = member(place) end
  end
  return view
end

local function place(r, cursor)
  local index = r.take(cursor, "i16")
  if index >= 0 then return index end
  return r.take(cursor, "addr")
end

function slices.subviews(r, cursor)
  local all = {}
  for n = 1, r.take(cursor, "i16") do
    all[n] = { creator = place(r, cursor), number = r.take(cursor, "i64"), members = {} }
    for m = 1, r.take(cursor, "i16") do all[n].members[m] = place(r, cursor) end
  end
  return all
end

function slices.view_opt(r, cursor)
  return r.take(cursor, r.take(cursor, "flag") and "merge_view" or "view")
end

function slices.seqnos(r, cursor)
  local all = { bits = r.take(cursor, "i32"), first = r.take(cursor, "i64") }
  for word = 0, math.ceil(all.bits / 64) - 1 do
    local bytes = list(r, cursor, 8, "u8") -- the lowest bits stand in the last
    for bit = 0, 63 do
      local set = math.floor(bytes[8 - math.floor(bit / 8)] / 2 ^ (bit % 8)) % 2 == 1
      if set and word * 64 + bit < all.bits then
        all[#all + 1] = r.add(all.first, word * 64 + bit)
      end
    end
  end
  return all
end

function slices.frames(r, cursor)
  local all = {}
  for n = 1, r.take(cursor, "i16") do
    all[n] = { class = r.take(cursor, "str"), method = r.take(cursor, "str"),
      file = r.take(cursor, "str"), line = r.take(cursor, "cint") }
  end
  return all
end

slices.view_id_opt, slices.digest_opt = slices.view_id, slices.digest

function slice.readers(take, add)
  local r = { take = take, add = add }
  return setmetatable({}, { __index = function(readers, name)
    local one = slices[name]
    local reader = one and function(cursor) return one(r, cursor) end or nil
    rawset(readers, name, reader)
    return reader
  end })
end

return slice
