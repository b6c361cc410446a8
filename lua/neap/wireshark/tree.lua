-- tree: what the reader read, in Wireshark's tree, and where packets are found.
--
--     neap, neap.version ...            the packet
--       neap.message                    each message, as `neap decode` says it
--         neap.header                   each header
--           neap.nakack.seqno ...       its fields; those of our own headers: neap.nakack.own.epoch
--         neap.body                     what is in the body
--       neap.fault                      why the rest cannot be read
--
-- A UDP packet is ours when it begins like one and its first message can be read.  A TCP connection
-- is ours when it begins with a greeting; its frames are packets, or, of a failure detector,
-- messages alone, which the first byte tells.

local reader = require "neap.wireshark.reader"
local rows = require "neap.rows_of_headers"
local scalar = require "neap.wireshark.scalar"
local shown = require "neap.shown"

local COOKIE, CLOSE = "bela", "\255\255\255\251"
local FRAME_MAX = 16 * 1024 * 1024 -- longer ones are no frames of ours
local ALONE_MOST = 3 -- the first byte of a message alone; versions begin with more
local INFO_MESSAGES = 3

scalar.wide = function(low, high) return Int64.new(low, high) end
scalar.add = function(number, more)
  if type(number) == "number" then return number + more end
  return number + Int64.new(more)
end

-- ---- fields ----

local neap = Proto("neap", "Neap group communication")
local own_fields = {
  version = ProtoField.string("neap.version", "Version"),
  list = ProtoField.bool("neap.list", "List"),
  multicast = ProtoField.bool("neap.multicast", "Multicast"),
  dest = ProtoField.string("neap.dest", "Destination"),
  src = ProtoField.string("neap.src", "Source"),
  cluster = ProtoField.string("neap.cluster", "Group"),
  kind = ProtoField.string("neap.kind", "Kind", base.NONE, nil, 0, "of what a connection says"),
  peer = ProtoField.string("neap.peer", "Peer", base.NONE, nil, 0, "who greets"),
  len = ProtoField.uint32("neap.len", "Length", base.DEC, nil, 0, "of the frame"),
  message = ProtoField.string("neap.message", "Message"),
  message_type = ProtoField.string("neap.message.type", "Type"),
  flags = ProtoField.int16("neap.message.flags", "Flags"),
  message_dest = ProtoField.string("neap.message.dest", "Destination"),
  message_src = ProtoField.string("neap.message.src", "Source"),
  skipped = ProtoField.uint32("neap.message.skipped", "Skipped", base.DEC, nil, 0,
    "own headers that this dissector does not know"),
  header = ProtoField.string("neap.header", "Header"),
  body = ProtoField.string("neap.body", "Body"),
  fault = ProtoField.string("neap.fault", "Cannot be decoded"),
}
local broken = ProtoExpert.new("neap.broken", "Cannot be decoded", expert.group.MALFORMED,
  expert.severity.ERROR)

local number_fields = { i8 = "int8", u8 = "uint8", i16 = "int16", u16 = "uint16", i32 = "int32",
  u32 = "uint32", i64 = "int64", cint = "uint32", clong = "uint64" }
local header_fields = {} -- by name and kind: rows of one name have one field for each
local all = { own_fields.version, own_fields.list, own_fields.multicast, own_fields.dest,
  own_fields.src, own_fields.cluster, own_fields.kind, own_fields.peer, own_fields.len,
  own_fields.message, own_fields.message_type, own_fields.flags, own_fields.message_dest,
  own_fields.message_src, own_fields.skipped, own_fields.header, own_fields.body,
  own_fields.fault }

local function field_name(row_name, own, name)
  return ("neap.%s%s.%s"):format(row_name, own and ".own" or "", name)
end

local function field_of(row, own, field)
  local abbr, kind = field_name(row.name, own, field.name), number_fields[field.form]
  local key = abbr .. " " .. (kind or field.form)
  if header_fields[key] then return header_fields[key] end
  local made
  if kind then
    made = ProtoField[kind](abbr, field.name, base.DEC, field.name == "type" and row.words or nil,
      nil, field.doc)
  elseif field.form == "flag" then
    made = ProtoField.bool(abbr, field.name, base.NONE, nil, nil, field.doc)
  else
    made = ProtoField.string(abbr, field.name, base.NONE, nil, nil, field.doc)
  end
  header_fields[key] = made
  all[#all + 1] = made
  return made
end

local by_row = {} -- fields of each row, by its ids and the name
for _, ids in ipairs(rows.headers) do
  local row = rows.headers[ids]
  by_row[ids] = {}
  for _, field in ipairs(row.fields) do
    by_row[ids][field.name] = { form = field.form, field = field_of(row, tonumber(
      ids:match "^%d+") >= 1024, field) }
  end
end
neap.fields, neap.experts = all, { broken }

-- ---- trees ----

local function range(tvb, span)
  if not span or span.past <= span.at then return tvb(0, 0) end
  return tvb(span.at - 1, span.past - span.at)
end

local function wide(form, value)
  if form == "i64" then return type(value) == "number" and Int64.new(value) or value end
  if type(value) == "number" and value >= 0 then return UInt64.new(value) end
  local signed = type(value) == "number" and Int64.new(value) or value
  return UInt64.new(signed:lower(), signed:higher())
end

local function add_header(tree, tvb, header)
  local fields = by_row[header.protocol .. " " .. header.class]
  local under = tree:add(own_fields.header, range(tvb, header), shown.header({}, header))
  for _, name in ipairs(header.order) do
    local value, row = header.fields[name], fields[name]
    if value ~= nil then
      if row.form == "i64" or row.form == "clong" then
        value = wide(row.form, value)
      elseif not number_fields[row.form] and row.form ~= "flag" then
        value = shown.value({}, value)
      end
      under:add(row.field, range(tvb, header.spans[name]), value)
    end
  end
end

local function message_text(message)
  local parts = {}
  for n, header in ipairs(message.headers) do parts[n] = shown.header({}, header) end
  return ("%s -> %s%s  %s | %s"):format(message.src or "?", message.dest or "all",
    shown.flags(message.flags), table.concat(parts, " | "), shown.body({}, message))
end

local function add_message(tree, tvb, message)
  local span = range(tvb, message)
  local under = tree:add(own_fields.message, span, message_text(message))
  under:add(own_fields.message_type, span, message.type)
  under:add(own_fields.flags, span, message.flags)
  if message.dest then under:add(own_fields.message_dest, span, message.dest) end
  if message.src then under:add(own_fields.message_src, span, message.src) end
  for _, header in ipairs(message.headers) do add_header(under, tvb, header) end
  if message.skipped then under:add(own_fields.skipped, span, message.skipped) end
  local body = range(tvb, { at = message.body_at, past = message.body_past })
  under:add(own_fields.body, body, shown.body({}, message))
  if message.payload_fault then
    under:add(own_fields.fault, body, message.payload_fault):add_proto_expert_info(broken,
      message.payload_fault)
  end
  for _, inner in ipairs(message.messages or {}) do add_message(under, tvb, inner) end
end

local function add_fault(tree, tvb, why)
  if not why then return end
  tree:add(own_fields.fault, tvb(), why):add_proto_expert_info(broken, why)
end

local function add_packet(tree, tvb, packet)
  local len = tvb:len()
  local bits, list = tvb(math.min(2, len), len > 2 and 1 or 0), tvb(math.min(3, len))
  tree:add(own_fields.version, tvb(0, math.min(2, len)), shown.version(packet.version))
  tree:add(own_fields.list, bits, packet.list)
  tree:add(own_fields.multicast, bits, packet.multicast)
  if packet.dest then tree:add(own_fields.dest, list, packet.dest) end
  if packet.src then tree:add(own_fields.src, list, packet.src) end
  if packet.cluster then tree:add(own_fields.cluster, list, packet.cluster) end
  for _, message in ipairs(packet.messages) do add_message(tree, tvb, message) end
  add_fault(tree, tvb, packet.fault)
end

-- What the list of packets says: the headers without the transport's, and the body.
local function tell(pinfo, messages, what)
  local parts = {}
  for n, message in ipairs(messages) do
    if n > INFO_MESSAGES then
      parts[n] = ("and %d more"):format(#messages - INFO_MESSAGES)
      break
    end
    local words = {}
    for _, header in ipairs(message.headers) do
      if header.name ~= "tp" then words[#words + 1] = shown.header({}, header) end
    end
    parts[n] = #words > 0 and table.concat(words, " | ") or shown.body({}, message)
  end
  pinfo.cols.protocol = "Neap"
  pinfo.cols.info = #parts > 0 and table.concat(parts, ", ") or what
end

-- ---- datagrams ----

local function datagram(tvb, pinfo, root, packet)
  local tree = root:add(neap, tvb())
  add_packet(tree, tvb, packet)
  tell(pinfo, packet.messages, "packet")
  return tvb:len()
end

local function bytes_of(tvb) return tvb:len() > 0 and tvb():raw() or "" end

local function looks_ours(tvb)
  return tvb:len() >= 10 and math.floor(tvb(0, 1):uint() / 8) == 5 and tvb(2, 1):uint() <= 3
end

neap:register_heuristic("udp", function(tvb, pinfo, root)
  if not looks_ours(tvb) then return false end
  local packet = reader.packet(bytes_of(tvb))
  if packet.fault and #packet.messages == 0 then return false end
  datagram(tvb, pinfo, root, packet)
  return true
end)

-- ---- connections ----

local function add_greeting(tree, tvb, text)
  local place, why = reader.read("ip", text:sub(9))
  tree:add(own_fields.kind, tvb(), place and "greeting" or "broken")
  tree:add(own_fields.version, tvb(4, 2), shown.version(tvb(4, 2):uint()))
  if place then tree:add(own_fields.peer, tvb(8), place) end
  add_fault(tree, tvb, not place and why or nil)
end

local function add_frame(tree, tvb, text, pinfo)
  tree:add(own_fields.len, tvb(0, 4), #text - 4)
  if #text == 4 then return add_fault(tree, tvb, "short") end
  local inner = tvb(4):tvb()
  if text:byte(5) <= ALONE_MOST then
    local message, why = reader.alone(text:sub(5), "empty")
    tree:add(own_fields.kind, tvb(), message and "message" or "broken")
    if message then add_message(tree, inner, message) end
    tell(pinfo, { message }, "broken")
    return add_fault(tree, tvb, why)
  end
  local packet = reader.packet(text:sub(5))
  tree:add(own_fields.kind, tvb(), "packet")
  add_packet(tree, inner, packet)
  tell(pinfo, packet.messages, "packet")
end

-- Bytes of the first thing in a stream; nil: more must come to know.
local function first_len(text)
  if #text < 4 then return nil end
  if text:sub(1, 4) == COOKIE then
    return #text >= 8 and 8 + text:byte(7) * 256 + text:byte(8) or nil
  end
  if text:sub(1, 4) == CLOSE then return 4 end
  return 4 + ((text:byte(1) * 256 + text:byte(2)) * 256 + text:byte(3)) * 256 + text:byte(4)
end

local function add_first(tvb, pinfo, root, text)
  local tree = root:add(neap, tvb())
  if text:sub(1, 4) == COOKIE then
    tell(pinfo, {}, "greeting")
    add_greeting(tree, tvb, text)
  elseif text == CLOSE then
    tell(pinfo, {}, "close")
    tree:add(own_fields.kind, tvb(), "close")
  else
    add_frame(tree, tvb, text, pinfo)
  end
end

local function stream(tvb, pinfo, root)
  local text, at = bytes_of(tvb), 0
  while at < #text do
    local len = first_len(text:sub(at + 1, at + 8))
    if len and len > 4 + FRAME_MAX then
      add_fault(root:add(neap, tvb(at)), tvb(at):tvb(), "length")
      return #text
    end
    if not len or at + len > #text then
      pinfo.desegment_offset = at
      pinfo.desegment_len = len and at + len - #text or DESEGMENT_ONE_MORE_SEGMENT
      return #text
    end
    add_first(tvb(at, len):tvb(), pinfo, root, text:sub(at + 1, at + len))
    at = at + len
  end
  return #text
end

neap:register_heuristic("tcp", function(tvb, pinfo, root)
  if tvb:len() < 4 or tvb(0, 4):raw() ~= COOKIE then return false end
  pinfo.conversation = neap
  stream(tvb, pinfo, root)
  return true
end)

-- By the heuristics of connections, and by Decode As.
function neap.dissector(tvb, pinfo, root)
  if pinfo.port_type == 2 then return stream(tvb, pinfo, root) end
  return datagram(tvb, pinfo, root, reader.packet(bytes_of(tvb)))
end

DissectorTable.get("udp.port"):add_for_decode_as(neap)
DissectorTable.get("tcp.port"):add_for_decode_as(neap)

return neap
