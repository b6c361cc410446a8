-- Every packet of twelve captures of another implementation is read to the values that it reads
-- itself, and written to the same bytes.  Any other bytes give messages or a reason, and nothing is
-- read beyond their end (which the sanitizers hold against exact allocations).

local dissect = require "neap.dissect"
local decode = require "neap.decode"
local form = require "neap.form"
local golden = require "support.golden"
local payload = require "neap.payload"
local random = require "support.random"

local lib = form.lib

local types = { [0] = "bytes", "nio", "empty", "object", "long", "composite", "fragment" }

-- ---- payloads: what the files list, what was read ----

local checks = {}
local java = { string = "String", number = "Integer" }

function checks.ping_data(wanted, message)
  for n, row in ipairs(wanted) do
    local record = message.payload[n]
    assert.same({ member = golden.addr(row.sender), bits = row.flags,
      name = golden.given(row.name), place = golden.addr(row.phys),
      wanted = golden.addrs(row.mbrs) }, record)
  end
  assert.equal(#wanted, #message.payload)
end

-- The one of the three that was read has to be the one that is listed.
local function same_view(wanted, read)
  wanted = golden.given(wanted)
  for kind, name in pairs { view = "view", merge = "merge_view", delta = "delta_view" } do
    local this = wanted and wanted.kind == kind
    assert.same(this and golden.view(wanted) or nil, read[name])
  end
end

-- A digest without members is one of the view's, in its order.
local function same_pairs(wanted, read)
  assert.same(golden.digest(wanted, true), read.pairs)
  for n, row in ipairs(golden.given(wanted) or {}) do
    assert.equal(golden.addr(row.member), (read.view or read.merge_view).members[n])
  end
end

function checks.join_rsp(wanted, message)
  local read = message.payload
  same_view(wanted.view, read)
  same_pairs(wanted.digest, read)
  assert.equal(golden.given(wanted.fail_reason), read.failure)
end

function checks.gms_flags(flags, message, all)
  local read = message.payload
  assert.equal(flags, read.bits)
  same_view(all.view, read)
  if read.pairs then return same_pairs(all.digest, read) end
  assert.same(golden.digest(all.digest), read.digest)
end

function checks.members(wanted, message) assert.same(golden.addrs(wanted), message.payload) end

function checks.digest(wanted, message)
  assert(message.payload.class == 9 or message.payload.class == 10)
  assert.same(golden.digest(wanted), message.payload.value)
end

function checks.seqno_list(wanted, message, all)
  local read = message.payload.value
  assert.same({ all.offset, all.bits }, { read.first, read.bits })
  for n, seqno in ipairs(wanted) do assert.equal(seqno, read[n]) end
  assert.equal(#wanted, #read)
end

function checks.view_id(wanted, message)
  local read = message.type == "object" and message.payload.value or message.payload
  assert.same(golden.view_id(wanted), read)
end

function checks.view(wanted, message) assert.same(golden.view(wanted), message.payload) end

checks["long"] = function(wanted, message) assert.equal(wanted, message.payload) end

function checks.object(wanted, message, all)
  assert.equal(all.class, "java.lang." .. java[type(message.payload.value.value)])
  assert.equal(21, message.payload.class)
  assert.equal(wanted, tostring(message.payload.value.value))
end

-- The files keep the first 64 bytes.
local function same_start(hex, message)
  local start = hex:gsub("%.%.%.$", "")
  assert.equal(start, form.hex(message.body):sub(1, #start))
end

function checks.serialized(wanted, message, all)
  same_start(all.hex, message)
  assert.equal("value", message.payload_kind)
  assert.equal(wanted, tostring(message.payload.value))
end

function checks.null_array(wanted, message)
  assert.is_true(wanted)
  assert.is_nil(message.body)
end

function checks.len(wanted, message, all)
  assert.equal(wanted, #message.body)
  same_start(all.hex or "", message)
end

local same_message

function checks.composite(wanted, message)
  for n, row in ipairs(wanted) do same_message(row, message.messages[n], message) end
  assert.equal(#wanted, #message.messages)
end

local first_of = { "ping_data", "join_rsp", "gms_flags", "members", "digest", "seqno_list",
  "view_id", "view", "long", "object", "serialized", "null_array", "composite", "len" }

-- What this header takes on the wire, without its ids.
local function size_of(header)
  local function packet(...)
    return #dissect.encode { version = 0, messages = {
      { type = "empty", flags = 0, headers = { ... } } } }
  end
  return packet(header) - packet() - 4
end

local function same_payload(wanted, message)
  wanted = golden.given(wanted)
  if not wanted then
    assert.equal("empty", message.type)
    return
  end
  assert.is_nil(message.payload_fault)
  for _, key in ipairs(first_of) do
    if wanted[key] ~= nil then
      checks[key](wanted[key], message, wanted)
      break
    end
  end
  if message.payload_kind then
    assert.equal(form.hex(message.body),
      form.hex(payload.write(message.payload_kind, message.payload)))
  end
end

function same_message(wanted, message, outer)
  assert.equal(types[wanted.type], message.type)
  assert.equal(wanted.flags, message.flags)
  assert.equal(golden.addr(wanted.dest), message.dest)
  assert.equal(golden.addr(wanted.src), message.src or outer and outer.src)
  for n, row in ipairs(wanted.headers) do
    local header = message.headers[n]
    assert.same({ row.protocol, row.class, row.size },
      { header.protocol, header.class, size_of(header) })
    assert.same(golden.header(row.class, row.fields, header.order), header.fields)
  end
  assert.equal(#wanted.headers, #message.headers)
  same_payload(wanted.payload, message)
end

-- ---- packets ----

local function same_packet(wanted, packet)
  assert.equal(wanted.version, packet.version)
  assert.equal(wanted.pkt_flags, (packet.list and 1 or 0) + (packet.multicast and 2 or 0))
  assert.equal(wanted.list, packet.list)
  if wanted.list then
    assert.equal(wanted.count, #packet.messages)
    assert.equal(golden.addr(wanted.dest), packet.dest)
    assert.equal(golden.addr(wanted.src), packet.src)
    assert.equal(wanted.cluster, packet.cluster)
  end
  for n, message in ipairs(wanted.messages) do same_message(message, packet.messages[n]) end
end

local function same_item(wanted, item)
  assert.same({ wanted.frame, wanted.from, wanted.to }, { item.frame, item.from, item.to })
  assert.is_nil(item.fault)
  if wanted.greeting then
    assert.equal("greeting", item.kind)
    assert.equal(wanted.greeting.version, item.version)
    assert.equal(golden.addr(wanted.greeting.peer), item.peer)
    assert.equal(wanted.greeting.addr_len, #item.bytes - 8)
    assert.equal(item.bytes:sub(9), (form.write("ip", item.peer)))
    return
  end
  if wanted.graceful_close then
    assert.equal("close", item.kind)
    return
  end
  assert.same({ wanted.transport, wanted.len }, { item.transport, item.len })
  local bytes = item.transport == "udp" and item.bytes or item.bytes:sub(5)
  if item.transport == "fd_sock2" then
    same_message(wanted.messages[1], item.message)
    assert.equal(form.hex(bytes), form.hex(dissect.encode_bare(item.message)))
    return
  end
  same_packet(wanted, item.packet)
  assert.equal(form.hex(bytes), form.hex(dissect.encode(item.packet)))
end

-- The packets and messages alone of all captures, as bytes.
local function all_packets()
  local packets = {}
  for _, name in ipairs(golden.captures) do
    assert(decode.items(golden.text(name .. ".pcap"), function(item)
      if item.kind == "packet" or item.kind == "message" then
        packets[#packets + 1] = { bare = item.kind == "message",
          bytes = item.transport == "udp" and item.bytes or item.bytes:sub(5) }
      end
    end))
  end
  return packets
end

describe("a packet", function()
  for _, name in ipairs(golden.captures) do
    it("is read and written again, all over " .. name, function()
      local rows, at = golden.rows(name .. ".jsonl"), 0
      local counts = assert(decode.items(golden.text(name .. ".pcap"), function(item)
        at = at + 1
        same_item(rows[at], item)
      end))
      assert.equal(#rows, counts.packets)
      assert.equal(0, counts.broken)
    end)
  end

  it("of bytes that were cut off anywhere gives a reason", function()
    local wire = form.wire()
    for n, packet in ipairs(all_packets()) do
      local bytes, step = packet.bytes, n % 8 == 0 and 1 or 13
      for len = #bytes - 1, 0, -step do
        local fault = lib.neap_wire_try(wire, bytes, len, packet.bare and 2 or -1)
        assert(fault ~= 0, len)
      end
    end
  end)

  it("of any bytes gives messages or a reason", function()
    local wire, reasons = form.wire(), {}
    local packets = all_packets()
    for seed = 1, 20 do
      local draw = random.new(seed)
      for _, packet in ipairs(packets) do
        local bytes = draw:mutated(packet.bytes)
        local fault = lib.neap_wire_try(wire, bytes, #bytes, packet.bare and 2 or -1)
        reasons[form.fault(fault)] = true
      end
    end
    for _, reason in ipairs { "none", "short", "length", "value", "version", "header", "type",
      "address", "trailing", "java" } do
      assert(reasons[reason], "never seen: " .. reason)
    end
  end)

  it("is not believed about counts", function()
    local list = "\41\70\1\1\1\255\255" -- to all, from nobody, no cluster
    local function fault_of(bytes) return dissect.packet(bytes, 0x2946).fault end
    assert.equal("length", fault_of(list .. "\127\255\255\255"))
    assert.equal("length", fault_of(list .. "\255\255\255\255"))
    assert.equal("length", fault_of "\41\70\2\0\2\0\0\0\127\255") -- headers
    assert.equal("length", fault_of "\41\70\2\0\0\0\0\0\0\0\127\255\255\255") -- body
    assert.equal("type", fault_of "\41\70\2\0\32\0\0\0\0\0")
    assert.equal("header", fault_of "\41\70\2\0\2\0\0\0\0\1\0\99\0\99")
    assert.equal("version", fault_of "\41\128\2\0\2\0\0\0\0\0")
    assert.is_nil(fault_of "\41\64\2\0\2\0\0\0\0\0") -- 5.5.0 is as good
    assert.equal("java", fault_of "\41\70\2\0\3\0\0\0\0\0\1\0\18") -- a method call
    assert.equal("java", fault_of "\41\70\2\0\3\0\0\0\0\0\1\255\255\0\1x") -- a class by name
    assert.equal("value", fault_of "\41\70\2\0\2\0\0\0\0\2\0\70\0\62\0\70\0\62") -- a header twice
  end)

  it("nests only so deep", function()
    local function inside(depth)
      local body = "\0\2\0\0\0\0\0" -- an empty message in the middle
      for _ = 1, depth do body = "\0\5\0\0\0\0\0\0\0\0\1" .. body end
      return dissect.packet("\41\70\2" .. body)
    end
    assert.is_nil(inside(8).fault)
    assert.equal("length", inside(9).fault)
  end)

  it("says what kind of null a body is", function()
    local null = dissect.packet "\41\70\2\0\0\0\0\0\0\0\255\255\255\255"
    local empty = dissect.packet "\41\70\2\0\0\0\0\0\0\0\0\0\0\0"
    assert.is_nil(null.messages[1].body)
    assert.equal("", empty.messages[1].body)
  end)
end)
