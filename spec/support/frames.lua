-- frames: captures made by hand, from the payload outwards.

local frames = {}

local function big(value, width)
  local bytes = {}
  for n = width, 1, -1 do
    bytes[n] = string.char(value % 256)
    value = math.floor(value / 256)
  end
  return table.concat(bytes)
end

frames.big = big

local function little(value, width) return big(value, width):reverse() end

function frames.udp(from, to, data)
  return big(from, 2) .. big(to, 2) .. big(8 + #data, 2) .. "\0\0" .. data
end

-- flags: 2 is SYN, 16 ACK.
function frames.tcp(from, to, seq, data, flags)
  return big(from, 2) .. big(to, 2) .. big(seq, 4) .. "\0\0\0\0\80" .. string.char(flags or 16)
    .. "\255\255\0\0\0\0" .. data
end

local LOCAL = "\127\0\0\1"

-- options: id, offset (in bytes), more.
function frames.ip4(protocol, data, options)
  options = options or {}
  local word = (options.offset or 0) / 8 + (options.more and 8192 or 0)
  return "\69\0" .. big(20 + #data, 2) .. big(options.id or 1, 2) .. big(word, 2) .. "\64"
    .. string.char(protocol) .. "\0\0" .. LOCAL .. LOCAL .. data
end

local ONE = ("\0"):rep(15) .. "\1"

function frames.ip6(protocol, data, options)
  if options then
    local word = options.offset + (options.more and 1 or 0)
    data = string.char(protocol) .. "\0" .. big(word, 2) .. big(options.id, 4) .. data
    protocol = 44
  end
  return "\96\0\0\0" .. big(#data, 2) .. string.char(protocol) .. "\64" .. ONE .. ONE .. data
end

function frames.ethernet(ip, tag)
  local kind = ip:byte() >= 96 and "\134\221" or "\8\0"
  return ("\0"):rep(12) .. (tag and "\129\0\0\5" or "") .. kind .. ip
end

function frames.cooked(ip) return ("\0"):rep(14) .. "\8\0" .. ip end

-- A classic file; `order` "little" or "big".
function frames.pcap(link, packets, order, parts)
  local number = order == "big" and big or little
  local magic = (parts == "ns" and 0xa1b23c4d or 0xa1b2c3d4)
  local file = { number(magic, 4), number(2, 2), number(4, 2), ("\0"):rep(8), number(65535, 4),
    number(link, 4) }
  for n, packet in ipairs(packets) do
    file[#file + 1] = number(n, 4) .. number(500, 4) .. number(#packet, 4) .. number(#packet, 4)
    file[#file + 1] = packet
  end
  return table.concat(file)
end

local function block(kind, body)
  body = body .. ("\0"):rep(-#body % 4)
  local len = little(12 + #body, 4)
  return little(kind, 4) .. len .. body .. len
end

-- A file of the next generation: one interface, its clock in nanoseconds.
function frames.pcapng(link, packets)
  local file = {
    block(0x0a0d0d0a, little(0x1a2b3c4d, 4) .. little(1, 2) .. little(0, 2) .. ("\255"):rep(8)),
    block(1, little(link, 2) .. "\0\0" .. little(65535, 4) .. little(9, 2) .. little(1, 2)
      .. "\9\0\0\0" .. ("\0"):rep(4)),
  }
  for n, packet in ipairs(packets) do
    local ticks = n * 1000000000
    file[#file + 1] = block(6, ("\0"):rep(4) .. little(math.floor(ticks / 2 ^ 32), 4)
      .. little(ticks % 2 ^ 32, 4) .. little(#packet, 4) .. little(#packet, 4) .. packet)
  end
  return table.concat(file)
end

return frames
