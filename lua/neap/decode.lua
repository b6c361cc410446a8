-- decode: what a capture file holds, as lines for people or JSON for programs (`neap decode`).
--
-- Each datagram is a packet.  A TCP connection is ours when it begins with a greeting; its frames
-- are packets, or, where a failure detector speaks, messages alone: the first byte tells, since a
-- packet begins with its version.  A connection that the capture shows from the middle is read from
-- the first segment that looks like the start of a frame.
--
--     decode.items(text, told) calls told(item), returns counts
--     item   frame, time (seconds since the first), from, to, transport, kind ("packet", "message",
--            "greeting", "close", "broken"), len, bytes, packet or message, fault

local dissect = require "neap.dissect"
local form = require "neap.form"
local inet = require "neap.inet"
local pcap = require "neap.pcap"
local shown = require "neap.shown"

local decode = {}

local COOKIE, CLOSE = "bela", "\255\255\255\251"
local FRAME_MAX = 16 * 1024 * 1024 -- longer ones are no frames of ours
local UNICAST_BARE = 3 -- the first byte of a message alone; versions begin with more

local function u16(text, at)
  return text:byte(at) * 256 + text:byte(at + 1)
end

local function u32(text, at)
  return u16(text, at) * 65536 + u16(text, at + 2)
end

-- ---- frames of a stream ----

local function plausible(bytes)
  local start = bytes:sub(1, 4)
  if #bytes < 7 then return start == COOKIE or start == CLOSE end
  if start == COOKIE or start == CLOSE then return true end
  local len = u32(bytes, 1)
  if len < 3 or len > FRAME_MAX then return false end
  return bytes:byte(5) <= UNICAST_BARE or math.floor(bytes:byte(5) / 8) == 5
end

local function greeting(bytes)
  if #bytes < 8 then return nil end
  local len = u16(bytes, 7)
  if #bytes < 8 + len then return nil end
  local place, why = form.read("ip", bytes:sub(9, 8 + len))
  return { kind = place and "greeting" or "broken", version = u16(bytes, 5), peer = place,
    fault = not place and why or nil }, 8 + len
end

local function alone(bytes)
  local message, why = dissect.bare(bytes, "empty")
  return { kind = message and "message" or "broken", message = message, fault = why }
end

local function packet(bytes)
  local read = dissect.packet(bytes)
  return { kind = "packet", packet = read, fault = read.fault }
end

-- The first thing in the bytes of a stream and how many they are; nil while it is incomplete.
local function first_of(stream, bytes)
  if #bytes < 4 then return nil end
  if bytes:sub(1, 4) == COOKIE then return greeting(bytes) end
  if bytes:sub(1, 4) == CLOSE then return { kind = "close" }, 4 end
  local len = u32(bytes, 1)
  if len > FRAME_MAX then
    stream.state = "looking"
    return { kind = "broken", fault = "length" }, #bytes
  end
  if #bytes < 4 + len then return nil end
  local body = bytes:sub(5, 4 + len)
  local is_alone = len > 0 and body:byte() <= UNICAST_BARE
  stream.kind = is_alone and "fd_sock2" or "tcp"
  local item = is_alone and alone(body) or packet(body)
  item.len = len
  return item, 4 + len
end

-- ---- all of a file ----

-- Where a stream begins, or goes on behind a gap: "new" and "looking" become "ours", or "foreign"
-- for good.  `ours`: connections that began with a greeting, by the key of either direction.
local function state_of(stream, ours, counts)
  if stream.state == "new" and #stream.buffer >= 4 then
    if stream.buffer:sub(1, 4) == COOKIE then
      ours[stream.key], ours[stream.to .. " " .. stream.from] = true, true
    end
    stream.state = ours[stream.key] and "ours" or "foreign"
    if stream.state == "foreign" then counts.foreign = counts.foreign + 1 end
  elseif stream.state == "looking" then
    if plausible(stream.buffer) then stream.state = "ours" else stream.buffer = "" end
  end
  return stream.state
end

local function reader(told)
  local counts = { frames = 0, packets = 0, broken = 0, foreign = 0, lost = 0, cut = 0 }
  local ours, start = {}, nil

  local function item(found, flow, frame, bytes)
    found.frame, found.time = frame and frame.number, frame and frame.time - start
    found.from, found.to, found.bytes = flow.from, flow.to, bytes
    found.transport = found.transport or flow.kind or "tcp"
    if found.fault then counts.broken = counts.broken + 1 end
    counts.packets = counts.packets + 1
    told(found)
  end

  local function udp(flow, bytes, frame, cut)
    if cut or frame.cut then counts.cut = counts.cut + 1 end
    local found = packet(bytes)
    found.transport, found.len = "udp", #bytes
    item(found, flow, frame, bytes)
  end

  local function tcp(stream, bytes, frame, fresh)
    if fresh and stream.state ~= "foreign" then
      stream.buffer = ""
      stream.state = stream.from_start and not stream.state and "new" or "looking"
    end
    if stream.state == "foreign" then return end
    stream.buffer = stream.buffer .. bytes
    if state_of(stream, ours, counts) ~= "ours" then return end
    local found, used = first_of(stream, stream.buffer)
    while found do
      item(found, stream, frame, stream.buffer:sub(1, used))
      stream.buffer = stream.buffer:sub(used + 1)
      found, used = first_of(stream, stream.buffer)
    end
  end

  local function lost(stream, count)
    if stream.state == "ours" then counts.lost = counts.lost + count end
  end

  local net = inet.new { udp = udp, tcp = tcp, lost = lost }
  return {
    counts = counts,
    frame = function(frame)
      start = start or frame.time
      counts.frames = counts.frames + 1
      net:frame(frame)
    end,
    finish = function() net:finish() end,
  }
end

-- nil and the reason when the text is no capture file.
function decode.items(text, told)
  local frames, why = pcap.frames(text)
  if not frames then return nil, why end
  local reading = reader(told)
  for frame in frames do reading.frame(frame) end
  reading.finish()
  return reading.counts
end

-- ---- lines ----

-- Names that discovery and merge announcements gave so far.
local function learn(names, message)
  for _, header in ipairs(message.headers) do
    if header.name == "merge" and header.fields.name and message.src then
      names[message.src] = header.fields.name
    end
  end
  if message.payload_kind == "records" and message.payload then
    for _, record in ipairs(message.payload) do
      if record.member and record.name then names[record.member] = record.name end
    end
  end
end

local function message_lines(names, message, indent, lines)
  learn(names, message)
  local parts = {}
  for n, header in ipairs(message.headers) do parts[n] = shown.header(names, header) end
  lines[#lines + 1] = ("%s%s -> %s%s  %s | %s"):format(indent,
    message.src and shown.value(names, message.src) or "?",
    message.dest and shown.value(names, message.dest) or "all", shown.flags(message.flags),
    table.concat(parts, " | "), shown.body(names, message))
  for _, inner in ipairs(message.messages or {}) do
    message_lines(names, inner, indent .. "  ", lines)
  end
end

function decode.lines(item, names)
  local what = item.kind
  if item.packet then
    local read = item.packet
    what = ("%s%s"):format(shown.version(read.version),
      read.list and (" list of %d, group %s"):format(#read.messages, tostring(read.cluster)) or "")
  elseif item.kind == "greeting" then
    what = ("greeting %s from %s"):format(shown.version(item.version), item.peer)
  end
  local lines = { ("%6s %12.6f  %-8s %s > %s  %d  %s"):format(item.frame or "-", item.time or 0,
    item.transport, item.from, item.to, #item.bytes, what) }
  local messages = item.packet and item.packet.messages or { item.message }
  for _, message in ipairs(messages) do message_lines(names, message, "       ", lines) end
  if item.fault then lines[#lines + 1] = "       CANNOT BE DECODED: " .. item.fault end
  return lines
end

-- ---- JSON ----

local function is_utf8(text)
  local rest = text:gsub("[\194-\223][\128-\191]", ""):gsub("[\224-\239][\128-\191][\128-\191]", "")
    :gsub("[\240-\244][\128-\191][\128-\191][\128-\191]", "")
  return not rest:find "[\128-\255]"
end

local function quoted(text)
  return '"' .. text:gsub(is_utf8(text) and '[%c"\\]' or '[%c"\\\127-\255]', function(c)
    return ("\\u%04x"):format(c:byte())
  end) .. '"'
end

local json

local function object(value, keys)
  local parts = {}
  for _, key in ipairs(keys) do
    if value[key] ~= nil then
      parts[#parts + 1] = ("%s:%s"):format(quoted(key), json(value[key]))
    end
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

-- Bytes beyond ASCII, and 64-bit numbers that a double cannot hold, become texts.
function json(value)
  if type(value) == "string" then return quoted(value) end
  if type(value) == "cdata" then return quoted(shown.number(value)) end
  if type(value) ~= "table" then return tostring(value) end
  local keys = {}
  for key in pairs(value) do -- any order: sorted below
    if type(key) == "string" then keys[#keys + 1] = key end
  end
  if #keys > 0 then
    table.sort(keys)
    local list = #value > 0 and ',"list":[' or nil
    local text = object(value, keys)
    if not list then return text end
    local parts = {}
    for n, one in ipairs(value) do parts[n] = json(one) end
    return text:sub(1, -2) .. list .. table.concat(parts, ",") .. "]}"
  end
  local parts = {}
  for n, one in ipairs(value) do parts[n] = json(one) end
  return "[" .. table.concat(parts, ",") .. "]"
end

local message_keys = { "type", "flags", "dest", "src", "own_src", "headers", "payload_kind",
  "payload", "payload_fault", "messages", "len", "hex" }

local function message_json(message)
  local copy = {}
  for _, key in ipairs(message_keys) do copy[key] = message[key] end
  if message.body then copy.len, copy.hex = #message.body, form.hex(message.body) end
  return copy
end

function decode.json(item)
  local copy = { frame = item.frame, time = item.time, from = item.from, to = item.to,
    transport = item.transport, kind = item.kind, len = #item.bytes, fault = item.fault,
    version = item.version, peer = item.peer,
    message = item.message and message_json(item.message) }
  if item.packet then
    local read = item.packet
    copy.packet = { version = read.version, list = read.list, multicast = read.multicast,
      dest = read.dest, src = read.src, cluster = read.cluster, messages = {} }
    for n, message in ipairs(read.messages) do copy.packet.messages[n] = message_json(message) end
  end
  return json(copy)
end

-- ---- the command ----

local function summary(counts)
  local text = ("%d packets in %d frames, %d could not be decoded"):format(counts.packets,
    counts.frames, counts.broken)
  local function more(count, words)
    if count > 0 then text = text .. (", %d %s"):format(count, words) end
  end
  more(counts.foreign, "connections of others")
  more(counts.lost, "bytes missing")
  more(counts.cut, "cut short by the capture")
  return text
end

-- Returns the exit code: 0, 1 when a packet could not be decoded, 2 for a mistake.
function decode.main(args)
  local path, as_json
  for _, argument in ipairs(args) do
    if argument == "--json" then
      as_json = true
    elseif argument:find "^%-" or path then
      io.stderr:write("usage: neap decode FILE.pcap [--json]\n")
      return 2
    else
      path = argument
    end
  end
  local file, why = io.open(path or "", "rb")
  if not file then
    io.stderr:write(path and ("neap decode: %s\n"):format(why)
      or "usage: neap decode FILE.pcap [--json]\n")
    return 2
  end
  local text
  text, why = file:read "*a"
  file:close()
  if not text then
    io.stderr:write(("neap decode: %s: %s\n"):format(path, why))
    return 2
  end
  local names = {}
  local counts, reason = decode.items(text, function(item)
    local lines = as_json and { decode.json(item) } or decode.lines(item, names)
    io.write(table.concat(lines, "\n"), "\n")
  end)
  if not counts then
    io.stderr:write(("neap decode: %s: %s\n"):format(path, reason))
    return 2
  end
  if not as_json then io.write(summary(counts), "\n") end
  return counts.broken > 0 and 1 or 0
end

return decode
