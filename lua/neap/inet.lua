-- inet: from frames to datagrams and streams.
--
-- Ethernet (also tagged), Linux cooked, raw and loopback frames; IPv4 and IPv6, fragments put
-- together; UDP, and TCP in the order of its bytes.
--
--     inet.new { udp = f(flow, bytes, frame), tcp = f(flow, bytes, frame, fresh),
--                lost = f(flow, count) }
--     it:frame(frame)    it:finish()
--
-- A flow is one direction: from, to (text, with port), key.  `tcp` gets the bytes as they become
-- complete; `fresh` says that they do not follow what came before: the stream begins, or some were
-- never seen.  Every table is bounded: the oldest fragments and the largest gaps are given up.

local inet = {}
inet.__index = inet

local FRAGMENTS_MAX, PENDING_MAX = 256, 4 * 1024 * 1024

local function u16(text, at)
  local high, low = text:byte(at, at + 1)
  return low and high * 256 + low or 0
end

local function u32(text, at)
  return u16(text, at) * 65536 + u16(text, at + 2)
end

-- Where the IP packet begins, by the type of the link; nil for anything else.
local links = {
  [0] = function() return 5 end,
  [1] = function(bytes)
    local at = 13
    while u16(bytes, at) == 0x8100 or u16(bytes, at) == 0x88a8 do at = at + 4 end
    local kind = u16(bytes, at)
    return (kind == 0x0800 or kind == 0x86dd) and at + 2 or nil
  end,
  [113] = function(bytes)
    local kind = u16(bytes, 15)
    return (kind == 0x0800 or kind == 0x86dd) and 17 or nil
  end,
  [276] = function(bytes)
    local kind = u16(bytes, 1)
    return (kind == 0x0800 or kind == 0x86dd) and 21 or nil
  end,
}
for _, raw in ipairs { 12, 14, 101, 228, 229 } do links[raw] = function() return 1 end end

local function ip4_text(bytes, at)
  return ("%d.%d.%d.%d"):format(bytes:byte(at, at + 3))
end

-- Full groups, the longest run of zeros left out.
local function ip6_text(bytes, at)
  local groups = {}
  for n = 1, 8 do groups[n] = ("%x"):format(u16(bytes, at + 2 * n - 2)) end
  local text = ":" .. table.concat(groups, ":") .. ":"
  for run = 8, 2, -1 do
    local zeros = ":" .. ("0:"):rep(run)
    local first, last = text:find(zeros, 1, true)
    if first then
      text = text:sub(1, first) .. ":" .. text:sub(last + 1)
      break
    end
  end
  text = text:gsub("^:(%x)", "%1"):gsub("(%x):$", "%1")
  return "[" .. text .. "]"
end

function inet.new(told)
  return setmetatable({ told = told, fragments = {}, order = {}, streams = {} }, inet)
end

-- ---- TCP ----

local function distance(from, to)
  local d = (to - from) % 2 ^ 32
  return d >= 2 ^ 31 and d - 2 ^ 32 or d
end

-- Hands on what follows without a gap.
local function advance(self, stream, frame)
  local moved = true
  while moved do
    moved = false
    for n, piece in ipairs(stream.pending) do
      local ahead = distance(stream.next, piece.seq)
      if ahead <= 0 then
        table.remove(stream.pending, n)
        stream.pending_bytes = stream.pending_bytes - #piece.bytes
        local bytes = piece.bytes:sub(1 - ahead)
        if #bytes > 0 then
          stream.next = (stream.next + #bytes) % 2 ^ 32
          self.told.tcp(stream, bytes, frame, stream.fresh)
          stream.fresh = false
        end
        moved = true
        break
      end
    end
  end
end

-- Gives up what lies before the first piece that waits.
local function skip_gap(self, stream, frame)
  local least
  for _, piece in ipairs(stream.pending) do
    local ahead = distance(stream.next, piece.seq)
    if not least or ahead < least then least = ahead end
  end
  if not least then return end
  self.told.lost(stream, least)
  stream.next, stream.fresh = (stream.next + least) % 2 ^ 32, true
  advance(self, stream, frame)
end

local function tcp(self, from, to, bytes, frame)
  local source, target = u16(bytes, 1), u16(bytes, 3)
  local seq, offset = u32(bytes, 5), math.floor((bytes:byte(13) or 0) / 16) * 4
  local syn = math.floor((bytes:byte(14) or 0) / 2) % 2 == 1
  if #bytes < 20 or offset < 20 then return end
  from, to = ("%s:%d"):format(from, source), ("%s:%d"):format(to, target)
  local key = from .. " " .. to
  local stream = self.streams[key]
  if syn or not stream then
    stream = { from = from, to = to, key = key, pending = {}, pending_bytes = 0,
      next = (seq + (syn and 1 or 0)) % 2 ^ 32, fresh = true, from_start = syn }
    self.streams[key] = stream
    self.streams[#self.streams + 1] = stream
  end
  local data = bytes:sub(offset + 1)
  if #data == 0 then return end
  stream.pending[#stream.pending + 1] = { seq = seq, bytes = data }
  stream.pending_bytes = stream.pending_bytes + #data
  advance(self, stream, frame)
  while stream.pending_bytes > PENDING_MAX do skip_gap(self, stream, frame) end
end

local function udp(self, from, to, bytes, frame)
  if #bytes < 8 then return end
  local flow = { from = ("%s:%d"):format(from, u16(bytes, 1)),
    to = ("%s:%d"):format(to, u16(bytes, 3)) }
  local len = u16(bytes, 5)
  local last = len >= 8 and math.min(len, #bytes) or #bytes -- 0: offloaded by the kernel
  self.told.udp(flow, bytes:sub(9, last), frame, last < len)
end

local function transport(self, protocol, from, to, bytes, frame)
  if protocol == 17 then udp(self, from, to, bytes, frame) end
  if protocol == 6 then tcp(self, from, to, bytes, frame) end
end

-- ---- fragments ----

local function whole(parts)
  table.sort(parts, function(a, b) return a.at < b.at end)
  local bytes, at = {}, 0
  for _, part in ipairs(parts) do
    if part.at > at then return nil end
    bytes[#bytes + 1] = part.bytes:sub(at - part.at + 1)
    at = math.max(at, part.at + #part.bytes)
    if part.last then return table.concat(bytes) end
  end
end

local function fragment(self, key, part)
  local parts = self.fragments[key]
  if not parts then
    parts = {}
    self.fragments[key] = parts
    self.order[#self.order + 1] = key
    if #self.order > FRAGMENTS_MAX then self.fragments[table.remove(self.order, 1)] = nil end
  end
  parts[#parts + 1] = part
  local bytes = whole(parts)
  if not bytes then return nil end
  self.fragments[key] = nil
  for n, other in ipairs(self.order) do
    if other == key then table.remove(self.order, n) end
  end
  return bytes
end

-- ---- IP ----

local function ip4(self, bytes, frame)
  local head, total = bytes:byte(1) % 16 * 4, u16(bytes, 3)
  if #bytes < 20 or head < 20 then return end
  local from, to, protocol = ip4_text(bytes, 13), ip4_text(bytes, 17), bytes:byte(10)
  local data = bytes:sub(head + 1, total >= head and total or #bytes) -- 0: offloaded
  local word = u16(bytes, 7)
  local offset, more = word % 8192 * 8, math.floor(word / 8192) % 2 == 1
  if more or offset > 0 then
    local key = ("%s %s %d %d"):format(from, to, protocol, u16(bytes, 5))
    data = fragment(self, key, { at = offset, bytes = data, last = not more })
    if not data then return end
  end
  transport(self, protocol, from, to, data, frame)
end

local skipped = { [0] = true, [43] = true, [60] = true } -- headers that only have a length

local function ip6(self, bytes, frame)
  if #bytes < 40 then return end
  local from, to, protocol = ip6_text(bytes, 9), ip6_text(bytes, 25), bytes:byte(7)
  local len = u16(bytes, 5)
  local data = bytes:sub(41, len > 0 and 40 + len or #bytes)
  while skipped[protocol] and #data >= 8 do
    local size = (data:byte(2) + 1) * 8
    protocol, data = data:byte(1), data:sub(size + 1)
  end
  if protocol == 44 and #data >= 8 then
    local word = u16(data, 3)
    local key = ("%s %s %d"):format(from, to, u32(data, 5))
    protocol = data:byte(1)
    data = fragment(self, key,
      { at = math.floor(word / 8) * 8, bytes = data:sub(9), last = word % 2 == 0 })
    if not data then return end
  end
  transport(self, protocol, from, to, data, frame)
end

function inet:frame(frame)
  local start = links[frame.link] and links[frame.link](frame.bytes)
  local bytes = start and frame.bytes:sub(start) or ""
  local version = #bytes > 0 and math.floor(bytes:byte(1) / 16)
  if version == 4 then ip4(self, bytes, frame) end
  if version == 6 then ip6(self, bytes, frame) end
end

-- What waits behind a gap comes now, as it is.
function inet:finish()
  for _, stream in ipairs(self.streams) do
    while #stream.pending > 0 do skip_gap(self, stream, nil) end
  end
end

return inet
