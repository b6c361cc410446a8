-- Every encoding against bytes that another implementation made (spec/golden/vectors.jsonl), the
-- forms that it never sent against bytes of ours (own.hex), and every header table against itself.

local dissect = require "neap.dissect"
local form = require "neap.form"
local golden = require "support.golden"
local object = require "neap.object"
local payload = require "neap.payload"
local random = require "support.random"

-- A header by its ids, inside a message of one header.
local FRONT, EMPTY = "\41\70\2", "\0\2\0\0\0\0\1"

local function head_bytes(protocol, class, body)
  local ids = form.write("u16", protocol) .. form.write("u16", class)
  return ids .. (class >= 1024 and form.write("u16", #body) or "") .. body
end

local function read_header(bytes)
  local packet = dissect.packet(FRONT .. EMPTY .. bytes)
  assert.is_nil(packet.fault)
  return packet.messages[1].headers[1], packet
end

local function protocol_of(class)
  for _, row in ipairs(dissect.headers()) do
    if row.class == class then return row.protocol end
  end
end

local java_kinds = { Boolean = "bool", Byte = "byte", Character = "char", Double = "double",
  Float = "float", Integer = "int", Long = "long", Short = "short", String = "string",
  ["byte[]"] = "bytes", Class = "class" }

-- The value of an object vector in the words of neap.object.
local function java(value)
  value = golden.given(value)
  if value == nil then return "null", nil end
  if type(value) == "string" then return "string", value end
  local kind, text = java_kinds[value.class], value.value
  if kind == "bool" then return kind, text == "true" end
  if kind == "char" then return kind, text:byte() end
  if kind == "bytes" then return kind, form.bytes(text) end
  if kind == "class" then return kind, 12 end -- java.lang.Integer: the type byte of a boxed int
  return kind, tonumber(text)
end

local function int64(text)
  local value, sign = 0LL, 1
  for c in text:gmatch "." do
    if c == "-" then sign = -1 else value = value * 10 + sign * tonumber(c) end
  end
  return form.exact(value)
end

-- kind: form, and what turns the listed value into ours.
local plain = {
  int_compressed = { "cint", golden.given },
  long_compressed = { "clong", int64 },
  long_sequence = { "seq2", function(pair) return { int64(pair[1]), int64(pair[2]) } end },
  string = { "str", golden.given },
  ascii_string = { "ascii", golden.given },
  ip_address_raw = { "ip", golden.addr },
  address_list = { "addrs", golden.addrs },
  view_id = { "view_id", golden.view_id },
  view_id_opt = { "view_id_opt", golden.view_id },
  view_opt = { "view_opt", golden.view },
  digest = { "digest", golden.digest },
  digest_no_members = { "seq2s", function(rows) return golden.digest(rows, true) end },
  ping_data = { "record", function(value)
    return { member = golden.addr(value.sender), bits = value.flags,
      name = golden.given(value.name), place = golden.addr(value.phys),
      wanted = golden.addrs(value.mbrs) }
  end },
  exception = { "exception", function(value)
    return { null = 0, wrapped = false, class = value.class, message = value.message, frames = {},
      more = false }
  end },
}

local special = {}

function special.address(value, bytes)
  if type(value) == "table" and value.class then
    assert.equal("raw:" .. form.hex(bytes), (form.read("addr", bytes)))
    return form.write("addr", "raw:" .. form.hex(bytes))
  end
  assert.equal(golden.addr(value), (form.read("addr", bytes)))
  return form.write("addr", golden.addr(value))
end

function special.view(value, bytes)
  local name = ({ view = "view", merge = "merge_view", delta = "delta_view" })[value.kind]
  assert.same(golden.view(value), (form.read(name, bytes)))
  return form.write(name, golden.view(value))
end

function special.join_rsp_opt(value, bytes)
  local read = assert(payload.read("join_rsp", bytes))
  assert.same(golden.view(value.view), read.view)
  assert.same(golden.digest(value.digest, true), read.pairs)
  assert.equal(golden.given(value.fail_reason), read.failure)
  return payload.write("join_rsp", read)
end

function special.seqno_list(value, bytes)
  local wanted = value.seqnos
  wanted.first, wanted.bits = value.offset, value.bits
  assert.same(wanted, (form.read("seqnos", bytes)))
  return form.write("seqnos", wanted)
end

function special.seqno_list_generic(value, bytes)
  local read = assert(payload.read("object", bytes))
  assert.equal(15, read.class)
  for n, seqno in ipairs(value) do assert.equal(seqno, read.value[n]) end
  assert.equal(#value, #read.value)
  return payload.write("object", read)
end

for _, dialect in ipairs { "stream", "buffer" } do
  special["object_" .. dialect] = function(value, bytes)
    local kind, wanted = java(value)
    local read, used = assert(object.read(bytes, dialect))
    assert.same({ kind, wanted, #bytes }, { read.kind, read.value, used })
    return object.write(read, dialect)
  end
end

function special.header(value, bytes)
  local wire = head_bytes(protocol_of(value.magic), value.magic, bytes)
  local header = read_header(wire)
  local wanted = golden.header(value.magic, value.fields, header.order)
  assert.same(wanted, header.fields)
  local packet = { version = 0x2946, messages = { { type = "empty", flags = 0,
    headers = { { protocol = header.protocol, class = header.class, fields = wanted } } } } }
  return (dissect.encode(packet):sub(#FRONT + #EMPTY + 5))
end

local function own_text(field, value)
  if value == nil then return "none" end
  if field == "epochs" or field == "names" then return form.hex(value) end
  if type(value) == "table" then return value.creator .. "|" .. value.number end
  return tostring(value)
end

describe("headers and payloads", function()
  it("read every vector to its value and write it to the same bytes", function()
    local count = 0
    for _, vector in ipairs(golden.rows "vectors.jsonl") do
      local bytes, row = form.bytes(vector.hex), plain[vector.kind]
      local again
      if row then
        local wanted = row[2](vector.value)
        local value, used = form.read(row[1], bytes)
        assert.same({ wanted, #bytes }, { value, used })
        again = form.write(row[1], wanted)
      else
        again = special[vector.kind](vector.value, bytes)
      end
      assert.equal(vector.hex, form.hex(again))
      count = count + 1
    end
    assert.equal(194, count)
  end)

  it("read and write our own vectors", function()
    local seen = {}
    for line in golden.text("own.hex"):gmatch "[^\n]+" do
      local hex, name, text = line:match "^(%x+)%s+([%w_]+)%s*(.*)$"
      if hex then
        local header, packet = read_header(form.bytes(hex))
        local shown = {}
        for n, field in ipairs(header.order) do
          shown[n] = field .. "=" .. own_text(field, header.fields[field])
        end
        assert.equal(name .. " " .. text, header.name .. " " .. table.concat(shown, " "))
        assert.equal(hex, form.hex(dissect.encode(packet):sub(#FRONT + #EMPTY + 1)))
        seen[header.protocol] = true
      end
    end
    for _, row in ipairs(dissect.headers()) do
      if row.protocol >= 1024 and row.protocol < 1100 then -- from there on: examples, checkers
        assert(seen[row.protocol], ("no vector of ours for %s %d"):format(row.name, row.protocol))
      end
    end
  end)

  it("come back as they were put, in every table", function()
    for seed = 1, 20 do
      local draw = random.new(seed)
      for _, row in ipairs(dissect.headers()) do
        local fields = {}
        for _, field in ipairs(row.fields) do fields[field.name] = draw:form(field.form) end
        local message = { type = "empty", flags = 0, headers = {
          { protocol = row.protocol, class = row.class, fields = fields } } }
        local bytes = dissect.encode { version = 0x2946, messages = { message } }
        local read = dissect.packet(bytes)
        assert.is_nil(read.fault)
        local header = read.messages[1].headers[1]
        for _, name in ipairs(header.order) do
          assert.same({ name, fields[name] }, { name, header.fields[name] })
        end
        assert.equal(form.hex(bytes), form.hex((dissect.encode(read))))
        assert(dissect.size(message) >= #bytes - #FRONT)
      end
    end
  end)

  it("have words and docs for people", function()
    for _, row in ipairs(dissect.headers()) do
      assert(#row.doc > 0 and #row.name > 0)
      for _, field in ipairs(row.fields) do assert(#field.doc > 0, row.name) end
    end
  end)

  it("are in the table for each layer that adopts them, as it has them", function()
    local known = {}
    for _, row in ipairs(dissect.headers()) do known[row.protocol .. " " .. row.class] = row end
    local adopted = dissect.adopted()
    assert(#adopted > 10)
    for _, row in ipairs(adopted) do
      local same = known[row.protocol .. " " .. row.class]
      assert(same, ("%s %d %d is not in core/headers"):format(row.name, row.protocol, row.class))
      assert.same(same.fields, row.fields)
    end
  end)

  it("turn Java's UTF-8 into everybody's", function()
    assert.equal("a\0b", form.from_java "a\192\128b")
    assert.equal("\240\159\152\128", form.from_java "\237\160\189\237\184\128")
    local texts = { "", "gold", "caf\195\169", "\226\130\172", "\0", "x\240\159\152\128y" }
    for _, text in ipairs(texts) do
      assert.equal(text, form.from_java(form.to_java(text)))
    end
  end)

  it("keep numbers exact beyond 2^53", function()
    local bytes = form.write("clong", 9007199254740993LL)
    local value = form.read("clong", bytes)
    assert.equal("cdata", type(value))
    assert(value == 9007199254740993LL)
    assert.equal(-1, (form.read("clong", form.write("clong", 0xffffffffffffffffULL))))
  end)
end)
