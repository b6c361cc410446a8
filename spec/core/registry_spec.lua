-- A stack's registry: the order of encoding is the order of the stack, ids belong to one layer, and
-- what arrives with a header of no layer here is told apart.

local dissect = require "neap.dissect"
local form = require "neap.form"

local ffi = require "ffi"

local lib = form.lib

local function stack(owners)
  local why = ffi.new "char[200]"
  local wire = lib.neap_wire_stack(owners, why, 200)
  if wire == nil then return nil, ffi.string(why) end
  return ffi.gc(wire, lib.neap_wire_free)
end

local function header(protocol, class, fields)
  return { protocol = protocol, class = class, fields = fields or {} }
end

local heads = {
  rsvp = header(39, 76, { type = 1, id = 5 }),
  frag = header(4, 52, { id = 1, index = 0, count = 2, encoded = false, type = 0 }),
  nakack = header(41, 78, { type = 1, seqno = 9 }),
  tp = header(57, 60, { cluster = "gold", flag = 0 }),
  rsvp_own = header(1026, 1026, { ack_on = 2, number = 7 }),
}

local function packet(...)
  local headers = {}
  for n, name in ipairs { ... } do headers[n] = heads[name] end
  local message = { type = "bytes", flags = 0, body = "x", headers = headers }
  return (dissect.encode { version = 0x2946, messages = { message } })
end

-- What a stack sees of a packet: the message and the ids of its headers, in their order.
local function seen(wire, bytes)
  assert.equal(0, lib.neap_wire_open(wire, bytes, #bytes, 0x2946))
  local step = lib.neap_wire_next(wire)
  if step < 0 then return nil, form.fault(-step) end
  local got = ffi.new "struct neap_wire_message"
  lib.neap_wire_read(wire, got)
  local ids = {}
  for n = 1, got.headers do
    local head = ffi.new "struct neap_wire_head"
    lib.neap_wire_header(wire, n - 1, head)
    ids[n] = head.protocol
  end
  return got, ids
end

local STRAY = 16

describe("a registry", function()
  it("encodes upper layers first, however headers were put", function()
    local wire = stack "rsvp frag nakack tp"
    lib.neap_wire_begin(wire)
    local head = ffi.new "struct neap_wire_head"
    for _, name in ipairs { "tp", "nakack", "rsvp" } do
      assert.equal(1, lib.neap_wire_put(wire, heads[name].protocol, heads[name].class, head))
      form.fill(wire, head, heads[name].fields)
    end
    lib.neap_wire_stack_out(wire)
    local read = dissect.packet("\41\70\2" .. form.written(wire))
    assert.is_nil(read.fault)
    local names = {}
    for n, one in ipairs(read.messages[1].headers) do names[n] = one.name end
    assert.same({ "rsvp", "nakack", "tp" }, names)
  end)

  it("gives an id to one layer only", function()
    local _, why = stack "nakack frag nakack"
    assert.equal("header of nakack (protocol 41, class 78) is taken by nakack already", why)
  end)

  it("takes several forms of a header into one slot and remembers which came", function()
    local wire = stack "nakack tp"
    for _, ids in ipairs { { 41, 78 }, { 76, 99 }, { 77, 99 } } do
      local message = { type = "empty", flags = 0,
        headers = { header(ids[1], ids[2], { type = 1, seqno = 3 }) } }
      local _, found = seen(wire, (dissect.encode { version = 0x2946, messages = { message } }))
      assert.same({ ids[1] }, found)
    end
  end)

  it("marks a message with a header of no layer here", function()
    local got, ids = seen(stack "rsvp nakack tp", packet("rsvp", "frag", "nakack", "tp"))
    assert(math.floor(got.marks / STRAY) % 2 == 1)
    assert.equal(4, got.stray_protocol)
    assert.equal(1, got.stray_below) -- nakack sees it, rsvp does not
    assert.same({ 39, 41, 57 }, ids)
  end)

  it("lets nobody see a message whose lowest header is a stranger's", function()
    local got = seen(stack "rsvp nakack", packet("rsvp", "tp"))
    assert.equal(255, got.stray_below)
  end)

  it("reads the rest of a list behind a stray", function()
    local stray = { type = "empty", flags = 0, headers = { heads.frag, heads.tp } }
    local plain = { type = "empty", flags = 0, headers = { heads.tp } }
    local bytes = dissect.encode { version = 0x2946, list = true, cluster = "gold",
      messages = { stray, plain } }
    local wire = stack "tp"
    local first = seen(wire, bytes)
    assert.equal(STRAY, first.marks)
    assert.equal(1, lib.neap_wire_next(wire))
    lib.neap_wire_read(wire, first)
    assert.equal(0, first.marks)
    assert.equal(0, lib.neap_wire_next(wire))
  end)

  it("passes over own headers that nobody knows", function()
    local body = "\8\0\8\0\0\3abc" -- ids 2048, three bytes
    local bytes = "\41\70\2\0\2\0\0\0\0\2" .. body .. "\0\57\0\60\255\255\0"
    local got, ids = seen(stack "tp", bytes)
    assert.equal(1, got.skipped)
    assert.equal(0, got.marks)
    assert.same({ 57 }, ids)
    local _, why = seen(stack "tp", "\41\70\2\0\2\0\0\0\0\1\8\0\8\0\0\9abc")
    assert.equal("short", why)
  end)

  it("reads an own header that a newer member made longer", function()
    local bytes = "\41\70\2\0\2\0\0\0\0\1\4\2\4\2\0\6\2\1\7new"
    local got, ids = seen(stack "rsvp", bytes)
    assert.equal(0, got.marks)
    assert.same({ 1026 }, ids)
  end)

  it("drops a whole packet only for a header that cannot be passed over", function()
    local _, why = seen(stack "tp", "\41\70\2\0\2\0\0\0\0\1\0\99\0\99")
    assert.equal("header", why)
  end)
end)
