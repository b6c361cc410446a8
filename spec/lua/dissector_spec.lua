-- What `neap dissector` writes says of every packet what `neap decode` says: its reader, in plain
-- Lua, field by field, also of broken bytes; and all of it inside tshark, where there is one.

local build = require "support.build"
local decode = require "neap.decode"
local dissect = require "neap.dissect"
local dissector = require "neap.commands.dissector"
local form = require "neap.form"
local frames = require "support.frames"
local golden = require "support.golden"
local random = require "support.random"
local shown = require "neap.shown"

-- The reader as the file holds it, and where it gets its wide numbers from.
local function reader_of()
  local text = dissector.modules()
    .. "\nreturn require \"neap.wireshark.reader\", require \"neap.wireshark.scalar\"\n"
  local reader, scalar = assert(loadstring(text, "=neap.lua"))()
  local ffi = require "ffi"
  function scalar.wide(low, high)
    return ffi.cast("int64_t", high) * 2LL ^ 32 + ffi.cast("int64_t", low)
  end
  function scalar.add(number, more)
    return form.exact(ffi.cast("int64_t", number) + more)
  end
  return reader
end

local message_keys = { "type", "flags", "dest", "src", "own_src", "body", "direct", "skipped",
  "payload_kind", "payload", "payload_fault" }

local function plain_message(message)
  local copy = { headers = {} }
  for _, key in ipairs(message_keys) do copy[key] = message[key] end
  for n, header in ipairs(message.headers) do
    copy.headers[n] = { name = header.name, protocol = header.protocol, class = header.class,
      word = header.word, fields = header.fields, order = header.order }
  end
  if message.messages then
    copy.messages = {}
    for n, inner in ipairs(message.messages) do copy.messages[n] = plain_message(inner) end
  end
  return copy
end

local function plain(packet)
  local copy = { version = packet.version, list = packet.list, multicast = packet.multicast,
    dest = packet.dest, src = packet.src, cluster = packet.cluster, fault = packet.fault,
    messages = {} }
  for n, message in ipairs(packet.messages) do copy.messages[n] = plain_message(message) end
  return copy
end

local function items_of(name)
  local all = {}
  assert(decode.items(golden.text(name .. ".pcap"), function(item) all[#all + 1] = item end))
  return all
end

-- The bytes of a packet: a connection has their length in front.
local function packet_bytes(item)
  return item.transport == "udp" and item.bytes or item.bytes:sub(5)
end

describe("what neap dissector writes", function()
  local reader = reader_of()

  it("reads all captures as neap decode does", function()
    for _, name in ipairs(golden.captures) do
      for _, item in ipairs(items_of(name)) do
        if item.packet then
          assert.same(plain(item.packet), plain(reader.packet(packet_bytes(item))))
        elseif item.message then
          assert.same(plain_message(item.message),
            plain_message(assert(reader.alone(item.bytes:sub(5), "empty"))))
        end
      end
    end
  end)

  it("reads broken bytes as far, and names the same reason", function()
    local faults = {}
    for _, name in ipairs { "udp-types", "udp-basic", "udp-merge", "udp-nak4" } do
      local items = items_of(name)
      for seed = 1, 300 do
        local draw = random.new(seed)
        local item = items[draw:below(#items) + 1]
        if item.transport == "udp" then
          local bytes = draw:mutated(item.bytes)
          local expected = dissect.packet(bytes)
          local read = reader.packet(bytes)
          faults[expected.fault or "none"] = true
          assert.same(expected.fault, read.fault, form.hex(bytes))
          assert.equal(#expected.messages, #read.messages)
        end
      end
    end
    for _, fault in ipairs { "none", "short", "length", "value", "header", "type", "address" } do
      assert(faults[fault], fault)
    end
  end)

  -- With an own header that nobody knows.
  local function strange()
    local bytes = dissect.encode { version = 0x2946, messages = { { type = "bytes", flags = 0,
      body = "hi", headers = { { protocol = 1100, class = 1100, fields = { seq = 5 } } } } } }
    return (bytes:gsub("\4\76\4\76", "\7\231\7\231")) -- 1100 becomes 2023
  end

  it("passes over an own header that it does not know, by its length", function()
    local message = reader.packet(strange()).messages[1]
    assert.same({ "hi", 1, 0 }, { message.body, message.skipped, #message.headers })
  end)

  -- ---- in tshark ----

  local has_tshark = select(2, build.run "command -v tshark") == 0

  local function ethernet(bytes)
    return frames.ethernet(frames.ip4(17, frames.udp(7800, 45588, bytes)))
  end

  -- Numbers that no double holds, in a header of ours.
  local function wide()
    return (dissect.encode { version = 0x2946, messages = { { type = "bytes", flags = 0,
      body = "hi", headers = { { protocol = 1024, class = 1024, fields = { type = 3,
        bytes = 0x7fffffffffffffffLL, received = 2LL ^ 53 + 1, votes = 1 } } } } } })
  end

  -- All captures and these as one file: tshark takes a second to start.
  local function all_captures()
    local parts = { golden.text(golden.captures[1] .. ".pcap"):sub(1, 24) }
    for n, name in ipairs(golden.captures) do
      parts[n + 1] = golden.text(name .. ".pcap"):sub(25)
    end
    return table.concat(parts) .. frames.pcap(1, { ethernet(wide()), ethernet(strange()) }):sub(25)
  end

  local function unescaped(text)
    return (text:gsub("&(%w+);", { lt = "<", gt = ">", quot = '"', apos = "'", amp = "&" }))
  end

  -- "frame name=value" of each field of ours, in order.  (What the sanitizers load is not for
  -- strangers.)
  local function told_by_tshark(capture)
    local text = build.run(("LC_ALL=C.UTF-8 env -u LD_PRELOAD tshark -X lua_script:%s -r %s "
      .. "-T pdml -J neap 2>/dev/null"):format(build.write("neap.lua", dissector.text()),
      build.write("all.pcap", capture)))
    assert.is_nil(text:find "_ws%.malformed")
    assert.is_nil(text:find "_ws%.lua%.error")
    local all, frame = {}, nil
    for line in text:gmatch "[^\n]+" do
      frame = line:match '<field name="num".- show="(%d+)"' or frame
      local field, value = line:match '<field name="(neap%.[^"]*)".- show="([^"]*)"'
      if field then
        all[#all + 1] = ("%s %s=%s"):format(frame, field, unescaped(value))
      end
    end
    return all
  end

  local function text(value)
    if type(value) == "boolean" then return value and "1" or "0" end
    return shown.value({}, value)
  end

  local function expected_of(item, told)
    local function tell(field, value)
      if value ~= nil then told[#told + 1] = ("%d neap.%s=%s"):format(item.frame, field,
        text(value)) end
    end
    local function message_told(message)
      local parts = {}
      for n, header in ipairs(message.headers) do parts[n] = shown.header({}, header) end
      tell("message", ("%s -> %s%s  %s | %s"):format(message.src or "?", message.dest or "all",
        shown.flags(message.flags), table.concat(parts, " | "), shown.body({}, message)))
      tell("message.type", message.type)
      tell("message.flags", message.flags)
      tell("message.dest", message.dest)
      tell("message.src", message.src)
      for _, header in ipairs(message.headers) do
        tell("header", shown.header({}, header))
        local own = header.protocol >= 1024 and ".own" or ""
        for _, name in ipairs(header.order) do
          tell(header.name .. own .. "." .. name, header.fields[name])
        end
      end
      tell("message.skipped", message.skipped)
      tell("body", shown.body({}, message))
      for _, inner in ipairs(message.messages or {}) do message_told(inner) end
    end
    if item.len and item.transport ~= "udp" then tell("len", item.len) end
    if item.transport ~= "udp" then tell("kind", item.kind) end
    if item.version then tell("version", shown.version(item.version)) end
    tell("peer", item.peer)
    local packet = item.packet or {}
    if item.packet then
      tell("version", shown.version(packet.version))
      tell("list", packet.list)
      tell("multicast", packet.multicast)
      tell("dest", packet.dest)
      tell("src", packet.src)
      tell("cluster", packet.cluster)
    end
    for _, message in ipairs(packet.messages or { item.message }) do message_told(message) end
  end

  it("says in tshark of each packet of all captures what neap decode says", function()
    if not has_tshark then pending "there is no tshark (apt-get install tshark)" end
    local capture, expected = all_captures(), {}
    assert(decode.items(capture, function(item) expected_of(item, expected) end))
    local told = told_by_tshark(capture)
    for n, line in ipairs(expected) do
      if line ~= told[n] then assert.equal(line, told[n]) end
    end
    assert.equal(#expected, #told)
    assert(#told > 10000, #told)
  end)
end)
