-- reader: packets as tables, in plain Lua of any version, for a program that has none of our C.
--
-- Says what neap.dissect says, in the same tables; how each header is laid out comes in `rows`,
-- generated from core/headers (`neap dissector`).  Beside the values it tells where they are:
--
--     reader.packet(bytes)           packet, messages, headers and fields have `at` and `past`
--     reader.alone(bytes, type)      a message without head and type; nil and why
--
-- Decoding is total, as in C: a cursor that runs out of bytes, or meets what cannot be, remembers
-- the first fault and gives zeros from then on.  Every count is held against what is left.

local java = require "neap.java"
local payload = require "neap.payload"
local rows = require "neap.rows_of_headers"
local scalar = require "neap.wireshark.scalar"
local slice = require "neap.slice"

local reader = {}

local fault, left, u8, u16, i16, i32 = scalar.fault, scalar.left, scalar.u8, scalar.u16,
  scalar.i16, scalar.i32
local NESTING_MAX = 8
local SHORTEST_MESSAGE, SHORTEST_HEADER = 7, 4
local OWN = 1024 -- ids from here on are ours, with a length in front

local types = { [0] = "bytes", "nio", "empty", "object", "long", "composite", "fragment",
  "early_batch" }

-- ---- forms ----

local take -- below: forms are made of forms

local function text(c, len)
  if len > left(c) then return fault(c, "length") end
  return java.read(scalar.bytes(c, len))
end

local function counted(c, width, most)
  local len = scalar.big(c, width)
  if len == 256 ^ width - 1 then return nil end
  if len > most or len > left(c) then return fault(c, "length") end
  return scalar.bytes(c, len)
end

local forms = {
  i8 = scalar.i8, u8 = u8, i16 = i16, u16 = u16, i32 = i32,
  u32 = function(c) return scalar.big(c, 4) end,
  i64 = scalar.i64, flag = scalar.flag, seq2 = scalar.seq2, addr = scalar.addr, ip = scalar.ip,
  cint = function(c) return scalar.compressed(c, 4) end,
  clong = function(c) return scalar.compressed(c, 8) end,
  ip_opt = function(c) if scalar.flag(c) then return scalar.ip(c) end end,
  str = function(c) if scalar.flag(c) then return text(c, u16(c)) end end,
  utf = function(c) return text(c, u16(c)) end,
  ascii = function(c) return counted(c, 2, 0x7fff) end,
  bytes = function(c) return counted(c, 4, 0x7fffffff) end,
}

-- ---- forms of several parts: first passed over, then read from what was checked ----

local skip = {}

local function skip_list(c, count)
  if count < 0 or count > left(c) then return fault(c, "length") end
  while count > 0 and not c.fault do
    scalar.addr(c)
    count = count - 1
  end
end

local function skip_each(c, count, one)
  if count < 0 then return fault(c, "length") end
  while count > 0 and not c.fault do
    one(c)
    count = count - 1
  end
end

local function skip_place(c) if i16(c) < 0 then scalar.addr(c) end end

function skip.addrs(c)
  local count = i16(c)
  if count ~= -1 then skip_list(c, count) end
end

function skip.addrs32(c) skip_list(c, i32(c)) end

function skip.view_id(c)
  scalar.addr(c)
  scalar.compressed(c, 8)
end

function skip.view(c)
  skip.view_id(c)
  skip.addrs(c)
end

function skip.subviews(c)
  skip_each(c, i16(c), function()
    skip_place(c)
    scalar.i64(c)
    skip_each(c, i16(c), skip_place)
  end)
end

function skip.merge_view(c)
  skip.view(c)
  skip.subviews(c)
end

function skip.view_opt(c)
  if scalar.flag(c) then skip.merge_view(c) else skip.view(c) end
end

function skip.delta_view(c)
  skip.view_id(c)
  skip.view_id(c)
  skip.addrs(c)
  skip.addrs(c)
end

function skip.seq2s(c) skip_each(c, i16(c), scalar.seq2) end

function skip.digest(c)
  local count = i16(c)
  skip_list(c, count)
  skip_each(c, count, scalar.seq2)
end

function skip.seqnos(c)
  local bits = i32(c)
  scalar.i64(c)
  local len = math.floor((bits + 63) / 64) * 8
  if bits < 0 or len > left(c) then return fault(c, "length") end
  scalar.bytes(c, len)
end

function skip.frames(c)
  skip_each(c, i16(c), function()
    for _ = 1, 3 do forms.str(c) end
    forms.cint(c)
  end)
end

skip.view_id_opt, skip.digest_opt = skip.view_id, skip.digest
local flagged = { view_id_opt = true, view_opt = true, digest_opt = true }

local slices -- below: their readers

local function parts(c, name)
  if flagged[name] and not scalar.flag(c) then return nil end
  local start = c.at
  skip[name](c)
  if c.fault or name == "addrs" and c.bytes:sub(start, start + 1) == "\255\255" then return nil end
  return slices[name](scalar.cursor(c.bytes, start, c.at - 1))
end

-- ---- fields ----

local function present(field, fields)
  local value = field.when and fields[field.when]
  if not field.when then return true end
  if type(value) == "boolean" then value = value and 1 or 0 end
  if field.values then return field.values[value] or false end
  for _, bit in ipairs(field.bits) do
    if math.floor(value / bit) % 2 == 1 then return true end
  end
  return false
end

-- The fields that are there, their names in order, and where each is.
local function read_fields(c, list)
  local fields, order, spans = {}, {}, {}
  for _, field in ipairs(list) do
    if present(field, fields) then
      local at = c.at
      fields[field.name] = take(c, field.form)
      if c.fault then return fields, order, spans end
      order[#order + 1] = field.name
      spans[field.name] = { at = at, past = c.at }
    end
  end
  return fields, order, spans
end

function take(c, name, as_table)
  if rows.tables[name] and (as_table or not skip[name]) then
    local fields = read_fields(c, rows.tables[name])
    return not c.fault and fields or nil
  end
  if skip[name] then return parts(c, name) end
  return forms[name](c)
end

slices = slice.readers(take, function(number, more) return scalar.add(number, more) end)

-- As neap.form.read.
function reader.read(name, bytes)
  local c = scalar.cursor(bytes)
  local value = take(c, name)
  if c.fault then return nil, c.fault end
  return value, c.at - 1
end

-- ---- headers ----

local function own_body(c)
  local body = scalar.cursor(c.bytes, c.at, c.at - 1)
  local len = u16(c)
  body.at = c.at
  scalar.bytes(c, len)
  body.last = c.at - 1
  return body
end

local function read_header(c, message, seen)
  local at, protocol, class = c.at, u16(c), u16(c)
  local row = rows.headers[protocol .. " " .. class]
  local own = protocol >= OWN and class >= OWN
  if c.fault then return end
  if not row then
    if not own then return fault(c, "header") end
    own_body(c)
    message.skipped = (message.skipped or 0) + 1
    return
  end
  if seen[row.slot] then return fault(c, "value") end
  seen[row.slot] = true
  local body = own and own_body(c) or c
  local fields, order, spans = read_fields(body, row.fields)
  if own and body.fault then fault(c, body.fault) end
  message.headers[#message.headers + 1] = { name = row.name, own = own, protocol = protocol,
    class = class, word = row.words and row.words[fields.type], fields = fields, order = order,
    spans = spans, at = at, past = c.at }
end

-- ---- messages ----

local read_message -- below: messages hold messages

local function read_messages(c, count, depth)
  local all = {}
  if count < 0 then fault(c, "length") end
  while count > 0 and not c.fault do
    all[#all + 1] = read_message(c, u16(c), {}, depth)
    count = count - 1
  end
  return all
end

local contents = { [1] = "ip", [4] = "view", [5] = "view_id", [6] = "merge_view", [7] = "record",
  [8] = "join_rsp", [9] = "digest", [10] = "digest", [15] = "seqnos" }
local MESSAGE, PRIMITIVE = 3, 21

local function skip_content(c, class, depth)
  if depth > NESTING_MAX then return fault(c, "length") end
  if contents[class] then
    take(c, contents[class])
  elseif class == MESSAGE then
    read_message(c, 0, {}, depth + 1)
  elseif class == PRIMITIVE then
    scalar.object(c, "stream", skip_content, depth)
  elseif scalar.addr_classes[class] then
    scalar.addr_class(c, class)
  else
    fault(c, "java")
  end
end

-- As neap.object.read.
function reader.object(bytes, dialect)
  local c = scalar.cursor(bytes)
  local read = scalar.object(c, dialect, skip_content, 0)
  if c.fault then return nil, c.fault end
  return read, c.at - 1
end

local bodies = {}

function bodies.bytes(c, message)
  local len = i32(c)
  if len == -1 then return nil end
  if len < 0 or len > left(c) then return fault(c, "length") end
  message.body = scalar.bytes(c, len)
end
bodies.fragment = bodies.bytes

function bodies.nio(c, message)
  message.direct = scalar.flag(c) or nil
  bodies.bytes(c, message)
end

function bodies.empty() end
function bodies.long(c) forms.clong(c) end

function bodies.object(c, _, depth)
  if not scalar.flag(c) then return end
  skip_content(c, u16(c), depth)
end

function bodies.composite(c, message, depth)
  message.messages = read_messages(c, i32(c), depth + 1)
end

function bodies.early_batch(c, message, depth)
  local count = i32(c)
  message.from = scalar.addr(c)
  message.messages = read_messages(c, count, depth + 1)
end

local whole_bodies = { object = true, long = true, composite = true, early_batch = true }

local function read_body(c, message, depth)
  if depth > NESTING_MAX then return fault(c, "length") end
  local at = c.at
  bodies[message.type](c, message, depth)
  if c.fault then return end
  if whole_bodies[message.type] then message.body = c.bytes:sub(at, c.at - 1) end
  message.body_at, message.body_past = at, c.at
  message.payload_kind = not message.messages and payload.kind(message) or nil
  if message.payload_kind then
    message.payload, message.payload_fault = payload.read(message.payload_kind, message.body)
  end
end

function read_message(c, number, list, depth)
  local at, lead = c.at, u8(c)
  if not types[number] then return fault(c, "type") end
  if lead > 3 then return fault(c, "value") end
  local message = { type = types[number], flags = i16(c), dest = list.dest, src = list.src,
    own_src = lead >= 2, headers = {}, at = at }
  if lead % 2 == 1 then message.dest = scalar.addr(c) end
  if lead >= 2 then message.src = scalar.addr(c) end
  local count, seen = i16(c), {}
  if count < 0 or count > left(c) / SHORTEST_HEADER then return fault(c, "length") end
  while count > 0 and not c.fault do
    read_header(c, message, seen)
    count = count - 1
  end
  if c.fault then return nil end
  read_body(c, message, depth)
  message.past = c.at
  return not c.fault and message or nil
end

-- ---- packets ----

-- Into the packet, if nothing is wrong with it; the count of messages.
local function read_list_head(c, packet)
  local dest, src, len = scalar.addr(c), scalar.addr(c), i16(c)
  if len < -1 then fault(c, "length") end
  local cluster = len >= 0 and scalar.bytes(c, len) or nil
  local count = i32(c)
  if count < 0 or count > left(c) / SHORTEST_MESSAGE then fault(c, "length") end
  if not c.fault then packet.dest, packet.src, packet.cluster = dest, src, cluster end
  return count
end

function reader.packet(bytes)
  local c = scalar.cursor(bytes)
  local version, bits = u16(c), u8(c)
  local packet = { version = version, list = bits % 2 == 1, multicast = bits % 4 >= 2,
    messages = {} }
  local count = 1
  if packet.list and not c.fault then count = read_list_head(c, packet) end
  while count > 0 and not c.fault do
    packet.messages[#packet.messages + 1] = read_message(c, u16(c), packet, 0)
    count = count - 1
  end
  if not c.fault and left(c) > 0 then fault(c, "trailing") end
  packet.fault = c.fault
  return packet
end

function reader.alone(bytes, type_name)
  local c = scalar.cursor(bytes)
  for number = 0, #types do
    if types[number] == (type_name or "empty") then
      local message = read_message(c, number, {}, 0)
      if not c.fault and left(c) > 0 then fault(c, "trailing") end
      if c.fault then return nil, c.fault end
      return message
    end
  end
end

return reader
