-- form: fields of the wire as Lua values, and back.
--
-- C reads and writes each form and knows the rows of each table (csrc/bind/bind_wire.h).  Here is
-- only what slices are made of: lists of addresses, views, digests.  Both ways stand side by side:
--
--     form.read("view_id_opt", bytes)   ->  { creator = "…", number = 5 }, bytes that were read
--     form.write("view_id_opt", value)  ->  bytes
--
-- A name is a form of core/header.h or one of the tables record, view, merge_view, delta_view,
-- view_digest, join_rsp, exception.
--
-- Numbers are exact: beyond 2^53 they are 64-bit cdata.  Addresses are text, nil for none, and
-- "raw:" with hex for the kinds that only relays make.  Texts are UTF-8; Java's two deviations
-- (NUL, characters above U+FFFF) are turned.

local ffi = require "ffi"
local java = require "neap.java"
local slice = require "neap.slice"

local lib = ffi.load(assert(package.searchpath("neap.core", package.cpath)))
if not pcall(ffi.typeof, "neap_wire_is_declared") then
  ffi.cdef "extern const char neap_wire_declarations[];"
  ffi.cdef(ffi.string(lib.neap_wire_declarations) .. "typedef int neap_wire_is_declared;")
end

local form = { lib = lib }
local from_java, to_java = java.read, java.write

local NONE, UUID, IP = 1, 2, 16
local EXACT = 2 ^ 53

local value_t = ffi.typeof "struct neap_wire_value"
local head_t = ffi.typeof "struct neap_wire_head"
local cursor_t = ffi.typeof "struct neap_wire_cursor"
local byte_t = ffi.typeof "const uint8_t *"

function form.wire()
  return ffi.gc(lib.neap_wire_new(), lib.neap_wire_free)
end

local scratch = form.wire() -- what is written here is taken out at once
form.scratch = scratch

function form.fault(number)
  return ffi.string(lib.neap_wire_fault(number))
end

function form.hex(bytes)
  return (bytes:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

function form.bytes(hex)
  return (hex:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

local function exact(int64)
  local number = tonumber(int64)
  return number < EXACT and number > -EXACT and number or int64
end

form.exact = exact

local ids = {}
local function id_of(name)
  ids[name] = ids[name] or lib.neap_wire_form(name)
  assert(ids[name] >= 0, name)
  return ids[name]
end

form.from_java, form.to_java = from_java, to_java

-- ---- addresses ----

function form.addr(value)
  if value.kind == NONE then return nil end
  if value.kind == UUID or value.kind == IP then return ffi.string(value.text) end
  return ("raw:%02x%s"):format(value.kind, form.hex(ffi.string(value.at, value.len)))
end

-- `keep` holds what the value points to.
function form.put_addr(value, addr, keep)
  local raw = addr and addr:match "^raw:(%x+)$"
  if raw then
    local bytes = form.bytes(raw)
    keep[#keep + 1] = bytes
    value.kind = bytes:byte()
    value.at = ffi.cast(byte_t, bytes) + 1
    value.len = #bytes - 1
  else
    value.kind = not addr and NONE or addr:find "^%x+%-%x+%-" and UUID or IP
    ffi.copy(value.text, (addr or ""):sub(1, 63))
  end
  return value
end

-- ---- reading ----

local addresses = { addr = true, ip = true, ip_opt = true }
local texts = { str = from_java, utf = from_java, ascii = tostring, bytes = tostring }
local slices -- form: reads the content of a slice from a cursor

local function cursor_on(at, len)
  local cursor = cursor_t()
  cursor.at, cursor["end"] = at, at + len
  return cursor
end

form.cursor = cursor_on

-- A value that C read, as Lua's.
local function shown(name, value)
  if addresses[name] then return form.addr(value) end
  if name == "flag" then return value.number ~= 0 end
  if name == "seq2" then return { exact(value.number), exact(value.second) } end
  if not texts[name] and not slices[name] then return exact(value.number) end
  if value.at == nil then return nil end
  if texts[name] then return texts[name](ffi.string(value.at, value.len)) end
  return slices[name](cursor_on(value.at, value.len))
end

-- The fields that are there, and their names in order.
function form.fields(head)
  local fields, order, value = {}, {}, value_t()
  for n = 0, head.fields - 1 do
    lib.neap_wire_field(head, n, value)
    if value.present ~= 0 then
      local name = ffi.string(value.name)
      order[#order + 1] = name
      fields[name] = shown(ffi.string(value.form), value)
    end
  end
  return fields, order
end

-- The second result is the struct: it lives as long as somebody holds it.
local function table_head(name)
  local head = head_t()
  if lib.neap_wire_table(name, head) == 0 then return nil end
  local memory = ffi.new("uint64_t[?]", math.floor(head.size / 8) + 1)
  head.head = memory
  return head, memory
end

-- `as_table`: what is both a form and a table, as the table.
local function take(cursor, name, as_table)
  local head, memory = table_head(name)
  if head and (as_table or not slices[name]) then
    lib.neap_wire_table_read(cursor, head)
    local fields = cursor.fault == 0 and form.fields(head) or nil
    return fields, memory
  end
  local value = value_t()
  lib.neap_wire_form_read(cursor, id_of(name), value)
  if cursor.fault == 0 then return (shown(name, value)) end
end

slices = slice.readers(take, function(int64, more)
  return exact(ffi.cast("int64_t", int64) + more)
end)

-- nil and the reason, or the value and how many bytes it took.
function form.read(name, bytes)
  local at = ffi.cast(byte_t, bytes)
  local cursor = cursor_on(at, #bytes)
  local value = take(cursor, name)
  if cursor.fault ~= 0 then return nil, form.fault(cursor.fault) end
  return value, tonumber(cursor.at - at)
end

-- ---- writing ----

local builders = {} -- form: the content of a slice

local function written(wire)
  local out = cursor_t()
  lib.neap_wire_out(wire, out)
  assert(out.fault == 0, "too much to write")
  return ffi.string(out.at, out["end"] - out.at)
end

form.written = written

local function put(value, name, given, keep)
  local bytes
  if addresses[name] then return form.put_addr(value, given, keep) end
  if name == "flag" then
    value.number = given and 1 or 0
  elseif name == "seq2" then
    value.number, value.second = given[1], given[2]
  elseif texts[name] then
    bytes = given and (texts[name] == from_java and to_java(given) or given)
  elseif builders[name] then
    bytes = given and builders[name](given)
  else
    value.number = given or 0
  end
  if bytes then
    keep[#keep + 1] = bytes
    value.at, value.len = ffi.cast(byte_t, bytes), #bytes
  end
  return value
end

local may_be_none = { addrs = true, addrs32 = true, view_id_opt = true, view_opt = true,
  digest_opt = true }

-- Fills the struct of `head` in `wire`.
function form.fill(wire, head, fields)
  local values, keep, value = {}, {}, value_t()
  for n = 0, head.fields - 1 do -- first all values: building one uses the scratch wire
    lib.neap_wire_field(head, n, value)
    local given = fields[ffi.string(value.name)]
    if given ~= nil then values[n] = put(value_t(), ffi.string(value.form), given, keep) end
  end
  if wire == scratch then lib.neap_wire_begin(wire) end
  for n = 0, head.fields - 1 do
    if values[n] then
      lib.neap_wire_field(head, n, value)
      if lib.neap_wire_set(wire, head, n, values[n]) == 0 then
        error(("%s cannot be this"):format(ffi.string(value.name)), 3)
      end
    end
  end
  for n = 0, head.fields - 1 do
    lib.neap_wire_field(head, n, value)
    local name = ffi.string(value.form)
    if value.present ~= 0 and builders[name] and not may_be_none[name] and value.at == nil then
      error(("%s is missing"):format(ffi.string(value.name)), 3)
    end
  end
  return keep
end

local function write_table(name, fields)
  local head, memory = table_head(name)
  form.fill(scratch, head, fields)
  lib.neap_wire_table_write(scratch, head)
  return written(scratch), memory
end

function form.write(name, given)
  if not builders[name] and table_head(name) then return (write_table(name, given)) end
  local keep = {}
  local value = put(value_t(), name, given, keep)
  lib.neap_wire_begin(scratch)
  if lib.neap_wire_form_write(scratch, id_of(name), value) == 0 then
    error(("cannot be written as %s"):format(name), 2)
  end
  return written(scratch), keep
end

local function write(name, given)
  return (form.write(name, given))
end

local function joined(count_form, name, all)
  local parts = { write(count_form, #all) }
  for n, one in ipairs(all) do parts[n + 1] = write(name, one) end
  return table.concat(parts)
end

local function flat(all)
  local flattened = {}
  for n, one in ipairs(all) do flattened[n] = { one.delivered, one.received } end
  return flattened
end

function builders.addrs(all) return joined("i16", "addr", all) end
function builders.addrs32(all) return joined("i32", "addr", all) end
function builders.seq2s(all) return joined("i16", "seq2", flat(all)) end

function builders.digest(all)
  local members = {}
  for n, one in ipairs(all) do members[n] = one.member end
  return builders.addrs(members) .. builders.seq2s(all):sub(3)
end

function builders.view_id(id) return write("addr", id.creator) .. write("clong", id.number) end
function builders.view(view) return (write_table("view", view)) end
function builders.delta_view(view) return (write_table("delta_view", view)) end

function builders.merge_view(view)
  local places = {}
  for n, member in ipairs(view.members) do places[member] = n - 1 end
  local function placed(member) return places[member] or member end
  local parts = {}
  for n, part in ipairs(view.parts) do
    parts[n] = { creator = placed(part.creator), number = part.number, members = {} }
    for m, member in ipairs(part.members) do parts[n].members[m] = placed(member) end
  end
  return (write_table("merge_view",
    { creator = view.creator, number = view.number, members = view.members, parts = parts }))
end

local function write_place(member)
  if type(member) == "number" then return write("i16", member) end
  return write("i16", -1) .. write("addr", member)
end

function builders.subviews(parts)
  local all = { write("i16", #parts) }
  for _, part in ipairs(parts) do
    all[#all + 1] = write_place(part.creator) .. write("i64", part.number)
      .. write("i16", #part.members)
    for _, member in ipairs(part.members) do all[#all + 1] = write_place(member) end
  end
  return table.concat(all)
end

function builders.view_opt(view)
  if view.parts then return "\1" .. builders.merge_view(view) end
  return "\0" .. builders.view(view)
end

function builders.seqnos(all)
  local bytes = {}
  for n = 1, math.ceil(all.bits / 64) * 8 do bytes[n] = 0 end
  for _, seqno in ipairs(all) do
    local bit = tonumber(seqno - ffi.cast("int64_t", all.first))
    local at = math.floor(bit / 64) * 8 + 8 - math.floor(bit % 64 / 8)
    bytes[at] = bytes[at] + 2 ^ (bit % 8)
  end
  for n, byte in ipairs(bytes) do bytes[n] = string.char(byte) end
  return write("i32", all.bits) .. write("i64", all.first) .. table.concat(bytes)
end

function builders.frames(all)
  local parts = { write("i16", #all) }
  for n, frame in ipairs(all) do
    parts[n + 1] = write("str", frame.class) .. write("str", frame.method)
      .. write("str", frame.file) .. write("cint", frame.line)
  end
  return table.concat(parts)
end

builders.view_id_opt, builders.digest_opt = builders.view_id, builders.digest

return form
