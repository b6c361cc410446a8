-- The short way through the codec gives what the long way gives: it is taken for messages alike,
-- and the bytes that come out are those that went in.

local dissect = require "neap.dissect"
local form = require "neap.form"
local random = require "support.random"

local ffi = require "ffi"

local lib = form.lib

local CLUSTER = "gold"

local function message(seqno, body, flags)
  return { type = "bytes", flags = flags or 0, body = body, headers = {
    { protocol = 41, class = 78, fields = { type = 1, seqno = seqno } },
    { protocol = 57, class = 60, fields = { cluster = CLUSTER, flag = 0 } },
  } }
end

local function unicast(seqno, conn, body)
  return { type = "bytes", flags = 0, body = body, headers = {
    { protocol = 48, class = 82, fields = { type = 0, seqno = seqno, conn = conn, first = false } },
    { protocol = 57, class = 60, fields = { cluster = CLUSTER, flag = 0 } },
  } }
end

-- Messages as a list; how many went the short way in and out.
local function through(messages, owners)
  local bytes = dissect.encode { version = 0x2946, list = true, multicast = true,
    src = "4a470000-0000-0001-8000-000000000001", cluster = CLUSTER, messages = messages }
  local head = 3 + 1 + 17 + 2 + #CLUSTER + 4
  local wire = lib.neap_wire_stack(owners or "rsvp frag unicast nakack tp", ffi.new "char[99]", 99)
  local out = ffi.new "int32_t[1]"
  local read = lib.neap_wire_short(wire, bytes, #bytes, out)
  local again = form.written(wire)
  lib.neap_wire_free(wire)
  return read, out[0], form.hex(bytes:sub(head + 1)), form.hex(again)
end

describe("a pattern", function()
  it("serves all messages alike but the first two", function()
    local messages = {}
    for n = 1, 50 do messages[n] = message(250 + n, ("x"):rep(100)) end
    local read, _, bytes, again = through(messages)
    assert.equal(bytes, again)
    assert.equal(48, read)
  end)

  it("is not fooled by a difference anywhere", function()
    for seed = 1, 200 do
      local draw, messages = random.new(seed), {}
      for n = 1, 12 do
        local body = draw:text(draw:below(4) * 13)
        messages[n] = draw:below(5) > 0 and message(draw:bits(1 + draw:below(52)), body)
          or unicast(draw:bits(8), draw:below(2), body)
        local what = draw:below(12)
        if what == 0 then messages[n].flags = 2 ^ draw:below(2) end
        if what == 1 then messages[n].headers[1].fields.type = 3 end
        if what == 2 then messages[n].headers[2].fields.flag = 1 end
        if what == 3 then messages[n].headers[2].fields.cluster = "told" end
        if what == 4 then messages[n].body = nil end
        if what == 5 then messages[n].type, messages[n].body = "empty", nil end
        if what == 6 then table.remove(messages[n].headers, 1) end
        if what == 7 then messages[n].src = "4a470000-0000-0001-8000-000000000002" end
      end
      local _, _, bytes, again = through(messages)
      assert.equal(bytes, again)
    end
  end)

  it("serves multicasts and unicasts side by side", function()
    local messages = {}
    for n = 1, 40 do
      messages[n] = n % 4 < 2 and message(n, "multicast") or unicast(n, 7, "unicast")
    end
    local read, _, bytes, again = through(messages)
    assert.equal(bytes, again)
    assert(read >= 34, read)
  end)

  it("writes what is alike, with the name of the group in one place", function()
    local messages = {}
    for n = 1, 50 do messages[n] = message(n, "") end
    messages[1].headers[2].fields.cluster = nil -- so that slices are none
    for n = 1, 50 do messages[n].headers[2].fields.cluster = nil end
    local read, written, bytes, again = through(messages)
    assert.equal(bytes, again)
    assert.equal(48, written)
    assert(read >= 45, read) -- the last ones are too near the end to be read by words
  end)
end)
