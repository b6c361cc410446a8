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

function slice.readers(take, add)
  local slices = {}

  local function list(cursor, count, name)
    local all = {}
    for n = 1, count do all[n] = take(cursor, name) end
    return all
  end

  local function spread(all)
    for n, pair in ipairs(all) do all[n] = { delivered = pair[1], received = pair[2] } end
    return all
  end

  function slices.addrs(cursor) return list(cursor, take(cursor, "i16"), "addr") end
  function slices.addrs32(cursor) return list(cursor, take(cursor, "i32"), "addr") end
  function slices.seq2s(cursor) return spread(list(cursor, take(cursor, "i16"), "seq2")) end

  function slices.digest(cursor)
    local members = slices.addrs(cursor)
    local all = spread(list(cursor, #members, "seq2"))
    for n, member in ipairs(members) do all[n].member = member end
    return all
  end

  function slices.view_id(cursor)
    return { creator = take(cursor, "addr"), number = take(cursor, "clong") }
  end

  -- A view's slice is a table of its own name.
  function slices.view(cursor) return (take(cursor, "view", true)) end
  function slices.delta_view(cursor) return (take(cursor, "delta_view", true)) end

  -- Places become members, where they are in the list.
  function slices.merge_view(cursor)
    local view = take(cursor, "merge_view", true)
    local function member(place)
      return type(place) == "number" and view.members[place + 1] or place
    end
    for _, part in ipairs(view.parts) do
      part.creator = member(part.creator)
      for n, place in ipairs(part.members) do part.members[n] = member(place) end
    end
    return view
  end

  local function place(cursor)
    local index = take(cursor, "i16")
    if index >= 0 then return index end
    return take(cursor, "addr")
  end

  function slices.subviews(cursor)
    local all = {}
    for n = 1, take(cursor, "i16") do
      all[n] = { creator = place(cursor), number = take(cursor, "i64"), members = {} }
      for m = 1, take(cursor, "i16") do all[n].members[m] = place(cursor) end
    end
    return all
  end

  function slices.view_opt(cursor)
    return take(cursor, take(cursor, "flag") and "merge_view" or "view")
  end

  function slices.seqnos(cursor)
    local all = { bits = take(cursor, "i32"), first = take(cursor, "i64") }
    for word = 0, math.ceil(all.bits / 64) - 1 do
      local bytes = list(cursor, 8, "u8") -- the lowest bits stand in the last
      for bit = 0, 63 do
        local set = math.floor(bytes[8 - math.floor(bit / 8)] / 2 ^ (bit % 8)) % 2 == 1
        if set and word * 64 + bit < all.bits then
          all[#all + 1] = add(all.first, word * 64 + bit)
        end
      end
    end
    return all
  end

  function slices.frames(cursor)
    local all = {}
    for n = 1, take(cursor, "i16") do
      all[n] = { class = take(cursor, "str"), method = take(cursor, "str"),
        file = take(cursor, "str"), line = take(cursor, "cint") }
    end
    return all
  end

  slices.view_id_opt, slices.digest_opt = slices.view_id, slices.digest
  return slices
end

return slice
