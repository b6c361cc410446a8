-- dissect: packets as Lua tables, and tables as packets.
--
-- Generic over the field rows of core/headers: a layer's header is shown here as soon as its row is
-- there.  C decodes and encodes; neap.form turns fields into Lua values, neap.payload bodies.
--
--     packet    version (number), multicast, list, dest, src, cluster, messages, fault
--     message   type (name), flags (number), dest, src, own_src, headers, body (nil: a null array),
--               direct, payload_kind, payload, payload_fault, messages (of a composite), skipped
--     header    name, protocol, class, word (of its type), fields, order (names of the fields that
--               are there)
--
-- What cannot be read has `fault`, the reason, beside everything that came before it.

local ffi = require "ffi"
local form = require "neap.form"
local payload = require "neap.payload"

local dissect = {}

local lib = form.lib
local head_t = ffi.typeof "struct neap_wire_head"
local message_t = ffi.typeof "struct neap_wire_message"
local value_t = ffi.typeof "struct neap_wire_value"

local LIST, MULTICAST = 1, 2
local NULL_BODY, DIRECT_BODY = 1, 2
local NESTING_MAX = 8
local WORDS_MAX = 127

local names = { [0] = "bytes", "nio", "empty", "object", "long", "composite", "fragment",
  "early_batch" }
local numbers = {}
for number = 0, #names do numbers[names[number]] = number end

local wires = {} -- one for each depth of messages within messages
local function wire_at(depth)
  wires[depth] = wires[depth] or form.wire()
  return wires[depth]
end

local function has(bits, bit)
  return math.floor(bits / bit) % 2 == 1
end

-- ---- in ----

local function headers_of(wire, count)
  local headers = {}
  for n = 1, count do
    local head = head_t()
    lib.neap_wire_header(wire, n - 1, head)
    local fields, order = form.fields(head)
    local word = type(fields.type) == "number" and lib.neap_wire_word(head, fields.type)
    headers[n] = {
      name = ffi.string(head.name), protocol = head.protocol, class = head.class_,
      word = word and word ~= nil and ffi.string(word) or nil, fields = fields, order = order,
    }
  end
  return headers
end

local nested -- below: the messages of a composite

local function message_of(wire, depth)
  local got = message_t()
  lib.neap_wire_read(wire, got)
  local null = has(got.marks, NULL_BODY) or got.type == numbers.empty
  local message = {
    type = names[got.type],
    flags = got.flags,
    dest = form.addr(got.dest),
    src = form.addr(got.src),
    own_src = got.own_source ~= 0,
    headers = headers_of(wire, got.headers),
    body = not null and ffi.string(got.body, got.len) or nil,
    direct = has(got.marks, DIRECT_BODY) or nil,
    skipped = got.skipped > 0 and got.skipped or nil,
  }
  if message.type == "composite" or message.type == "early_batch" then
    message.messages, message.payload_fault = nested(message, depth + 1)
  else
    message.payload_kind = payload.kind(message)
    if message.payload_kind then
      message.payload, message.payload_fault = payload.read(message.payload_kind, message.body)
    end
  end
  return message, got.rest
end

local function bare(bytes, type_name, depth)
  local wire = wire_at(depth)
  lib.neap_wire_open_bare(wire, bytes, #bytes, numbers[type_name])
  local step = lib.neap_wire_next(wire)
  if step ~= 1 then return nil, form.fault(-step) end
  return message_of(wire, depth)
end

function nested(message, depth)
  if depth > NESTING_MAX then return {}, "length" end
  local count, at = form.read("i32", message.body)
  if message.type == "early_batch" then
    local from, used = form.read("addr", message.body:sub(at + 1))
    message.from, at = from, at + used
  end
  local all = {}
  for n = 1, count do
    local number, used = form.read("u16", message.body:sub(at + 1))
    if not names[number] then return all, "type" end
    local rest = message.body:sub(at + used + 1)
    local one, left = bare(rest, names[number], depth)
    if not one then return all, left end
    all[n], at = one, #message.body - left
  end
  return all
end

-- A packet, whatever the bytes are.  `version`: whose packets are read; nil: any.
function dissect.packet(bytes, version)
  local wire, got = wire_at(0), message_t()
  version = version or #bytes >= 2 and bytes:byte(1) * 256 + bytes:byte(2) or 0
  local fault = lib.neap_wire_open(wire, bytes, #bytes, version)
  lib.neap_wire_read(wire, got)
  local packet = {
    version = got.version,
    list = has(got.bits, LIST),
    multicast = has(got.bits, MULTICAST),
    messages = {},
  }
  if fault ~= 0 then
    packet.fault = form.fault(fault)
    return packet
  end
  if packet.list then
    packet.dest, packet.src = form.addr(got.list_dest), form.addr(got.list_src)
    packet.cluster = got.cluster ~= nil and ffi.string(got.cluster, got.cluster_len) or nil
  end
  local step = lib.neap_wire_next(wire)
  while step == 1 do
    packet.messages[#packet.messages + 1] = message_of(wire, 0)
    step = lib.neap_wire_next(wire)
  end
  if step < 0 then packet.fault = form.fault(-step) end
  return packet, bytes
end

-- A message alone, without head and type: nil and the reason, or the message.
function dissect.bare(bytes, type_name)
  local message, left = bare(bytes, type_name or "empty", 0)
  if not message then return nil, left end
  if left > 0 then return nil, "trailing" end
  return message
end

-- ---- out ----

local function address(addr, keep)
  return form.put_addr(value_t(), addr, keep)
end

local function fill(wire, message, keep)
  local marks = (not message.body and NULL_BODY or 0) + (message.direct and DIRECT_BODY or 0)
  local body = message.body or ""
  lib.neap_wire_fill(wire, numbers[message.type], message.flags, marks, body, #body)
  for _, header in ipairs(message.headers) do
    local head = head_t()
    if lib.neap_wire_put(wire, header.protocol, header.class, head) == 0 then
      error(("no header with ids %d, %d"):format(header.protocol, header.class), 3)
    end
    keep[#keep + 1] = form.fill(wire, head, header.fields)
  end
end

-- The bytes of a packet.  Bodies are written as they are; payloads are not looked at.
function dissect.encode(packet)
  local wire, keep = wire_at(0), {}
  lib.neap_wire_begin(wire)
  if not packet.list then
    local message = packet.messages[1]
    fill(wire, message, keep)
    lib.neap_wire_single(
      wire, packet.version, address(message.dest, keep), address(message.src, keep))
    return form.written(wire), keep
  end
  lib.neap_wire_list(wire, packet.version, address(packet.dest, keep), address(packet.src, keep),
    packet.cluster, packet.cluster and #packet.cluster or 0)
  for _, message in ipairs(packet.messages) do
    fill(wire, message, keep)
    lib.neap_wire_message_out(wire, message.own_src and address(message.src, keep) or nil)
  end
  return form.written(wire), keep
end

function dissect.encode_bare(message)
  local wire, keep = wire_at(0), {}
  lib.neap_wire_begin(wire)
  fill(wire, message, keep)
  lib.neap_wire_bare(wire, address(message.dest, keep), address(message.src, keep))
  return form.written(wire), keep
end

-- What neap_packet_size says of a message, for the spec that holds it against the truth.
function dissect.size(message)
  local wire, keep = wire_at(0), {}
  lib.neap_wire_begin(wire)
  fill(wire, message, keep)
  return lib.neap_wire_size(wire), keep
end

-- ---- rows ----

-- When a field is there: `when`, an earlier field, has one of `values` or one of these `bits`.
local function condition(field, value, fields)
  if value.when < 0 then return field end
  local from = value.when_mask >= 2 ^ 31 and "bits" or "values"
  field.when, field[from] = fields[value.when + 1].name, {}
  for bit = 0, 30 do
    if has(value.when_mask, 2 ^ bit) then
      table.insert(field[from], from == "bits" and 2 ^ bit or bit)
    end
  end
  return field
end

local function row_of(head)
  local fields, value, words = {}, value_t(), nil
  local memory = ffi.new("uint64_t[?]", math.floor(head.size / 8) + 1)
  head.head = memory
  for n = 1, head.fields do
    lib.neap_wire_field(head, n - 1, value)
    fields[n] = condition({ name = ffi.string(value.name), form = ffi.string(value.form),
      doc = ffi.string(value.doc) }, value, fields)
  end
  for type = 0, WORDS_MAX do
    local word = head.protocol > 0 and lib.neap_wire_word(head, type) or nil
    if word ~= nil then
      words = words or {}
      words[type] = ffi.string(word)
    end
  end
  return { name = ffi.string(head.name), doc = ffi.string(head.doc), protocol = head.protocol,
    class = head.class_, fields = fields, words = words }, memory
end

local function rows(step)
  local all, head = {}, head_t()
  while step(#all, head) == 1 do
    local row = row_of(head)
    all[#all + 1] = row
  end
  return all
end

-- The fields of a table of neap.form; nil when there is no such table.
function dissect.table_fields(name)
  local head = head_t()
  if lib.neap_wire_table(name, head) == 0 then return nil end
  return row_of(head).fields
end

-- Every known header: name, doc, protocol, class, fields (name, form, doc, when, in order), words
-- (of its types, by number).
function dissect.headers() return rows(lib.neap_wire_known) end

-- The same of those that the built-in layers adopt.
function dissect.adopted() return rows(lib.neap_wire_adopted) end

return dissect
