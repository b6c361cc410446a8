-- scalar: the smallest parts of the wire in plain Lua of any version, as base/bytes.h and
-- core/addr.c read them.
--
-- A cursor is { bytes, at, last, fault }.  Numbers are exact: those beyond 2^53 are what
-- `scalar.wide(low, high)` makes of their halves, and `scalar.add` of a sum.

local java = require "neap.java"

local scalar = {}

local EXACT = 2 ^ 53

function scalar.cursor(bytes, at, last)
  return { bytes = bytes, at = at or 1, last = last or #bytes }
end

-- The first one stays.
function scalar.fault(c, why)
  c.fault = c.fault or why
  c.at = c.last + 1
end

function scalar.left(c) return c.last - c.at + 1 end

local fault, left = scalar.fault, scalar.left

function scalar.bytes(c, len)
  if left(c) < len then
    fault(c, "short")
    return ""
  end
  c.at = c.at + len
  return c.bytes:sub(c.at - len, c.at - 1)
end

-- ---- numbers ----

-- Up to four bytes.
function scalar.big(c, width)
  if left(c) < width then
    fault(c, "short")
    return 0
  end
  local value = 0
  for n = c.at, c.at + width - 1 do value = value * 256 + c.bytes:byte(n) end
  c.at = c.at + width
  return value
end

function scalar.u8(c) return scalar.big(c, 1) end
function scalar.u16(c) return scalar.big(c, 2) end

local function signed(value, width)
  local half = 0x80
  for _ = 2, width do half = half * 256 end
  return value >= half and value - 2 * half or value
end

function scalar.i8(c) return signed(scalar.big(c, 1), 1) end
function scalar.i16(c) return signed(scalar.big(c, 2), 2) end
function scalar.i32(c) return signed(scalar.big(c, 4), 4) end

-- A number of 64 bits from its halves, with a sign.
local function whole(low, high)
  local number = signed(high, 4) * 0x100000000 + low
  if number < EXACT and number > -EXACT then return number end
  return scalar.wide(low, high)
end

function scalar.i64(c)
  local high = scalar.big(c, 4)
  return whole(scalar.big(c, 4), high)
end

function scalar.flag(c)
  local value = scalar.u8(c)
  if value > 1 then fault(c, "value") end
  return value == 1
end

local function little(c, width)
  local low, high, bytes = 0, 0, scalar.bytes(c, width)
  for n = #bytes, 5, -1 do high = high * 256 + bytes:byte(n) end
  for n = math.min(#bytes, 4), 1, -1 do low = low * 256 + bytes:byte(n) end
  return low, high
end

function scalar.compressed(c, most)
  local width = scalar.u8(c)
  if width > most then
    fault(c, "value")
    return 0
  end
  return whole(little(c, width))
end

function scalar.seq2(c)
  local widths = scalar.u8(c)
  local wide_a, wide_b = math.floor(widths / 16), widths % 16
  if wide_a > 8 or wide_b > 8 then fault(c, "value") end
  if c.fault or widths == 0 then return { 0, 0 } end
  local low, high = little(c, wide_a)
  local more_low, more_high = little(c, wide_b)
  local sum_low, sum_high = low + more_low, high + more_high
  if sum_low >= 0x100000000 then sum_low, sum_high = sum_low - 0x100000000, sum_high + 1 end
  if sum_high >= 0x100000000 then fault(c, "value") end
  return { whole(low, high), whole(sum_low, sum_high % 0x100000000) }
end

-- ---- addresses ----

local function hex(bytes)
  return (bytes:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end))
end

local function ip6_text(bytes)
  local all = {}
  for n = 1, 16, 2 do all[#all + 1] = ("%x"):format(bytes:byte(n) * 256 + bytes:byte(n + 1)) end
  local best, from = 1, nil -- a run of zeros that is worth leaving out
  for n = 1, 8 do
    local run = 0
    while all[n + run] == "0" do run = run + 1 end
    if run > best then best, from = run, n end
  end
  if not from then return table.concat(all, ":") end
  return table.concat(all, ":", 1, from - 1) .. "::" .. table.concat(all, ":", from + best)
end

function scalar.ip(c)
  local size = scalar.u8(c)
  if size ~= 0 and size ~= 4 and size ~= 16 then return fault(c, "address") end
  local bytes = scalar.bytes(c, size)
  local scope = size == 16 and scalar.big(c, 4) or 0
  local port = scalar.u16(c)
  if c.fault then return nil end
  if size == 16 then
    local zone = scope > 0 and ("%%%d"):format(scope) or ""
    return ("[%s%s]:%d"):format(ip6_text(bytes), zone, port)
  end
  if size == 0 then return ("*:%d"):format(port) end
  return ("%d.%d.%d.%d:%d"):format(bytes:byte(1), bytes:byte(2), bytes:byte(3), bytes:byte(4),
    port)
end

local function extension(c)
  scalar.compressed(c, 4)
  local count = scalar.u8(c)
  while count > 0 and not c.fault do
    scalar.bytes(c, scalar.u8(c))
    scalar.bytes(c, scalar.u8(c))
    count = count - 1
  end
end

local function site(c)
  extension(c)
  for _ = 1, 2 do
    if scalar.flag(c) then scalar.bytes(c, scalar.u16(c)) end
  end
end

local UUID, EXTENDED, SITE, SITE_MASTER, FLAGS, NUMBER = 11, 12, 13, 14, 19, 22
scalar.addr_classes = { [UUID] = function() end, [EXTENDED] = extension, [SITE] = site,
  [SITE_MASTER] = site, [FLAGS] = function(c) scalar.compressed(c, 4) end, [NUMBER] = false }

-- Passes over the content of an address object.
function scalar.addr_class(c, class)
  scalar.bytes(c, class == NUMBER and 8 or 16)
  if scalar.addr_classes[class] then scalar.addr_classes[class](c) end
end

local function raw(c, kind)
  local at, class = c.at, SITE
  if kind == 0 then
    class = scalar.u16(c)
    if class == UUID or class == SITE or class == SITE_MASTER then fault(c, "address") end
  end
  if scalar.addr_classes[class] == nil then fault(c, "address") end
  if c.fault then return nil end
  scalar.addr_class(c, class)
  if c.fault then return nil end
  return ("raw:%02x%s"):format(kind, hex(c.bytes:sub(at, c.at - 1)))
end

-- As neap.form shows addresses; nil for none.
function scalar.addr(c)
  local kind = scalar.u8(c)
  if kind == 16 then return scalar.ip(c) end
  if kind == 0 or kind == 4 or kind == 8 then
    if not c.fault then return raw(c, kind) end
  elseif kind == 2 then
    local bytes = scalar.bytes(c, 16)
    if c.fault then return nil end
    local text = hex(bytes:sub(9, 16) .. bytes:sub(1, 8)) -- the low half comes first
    return ("%s-%s-%s-%s-%s"):format(text:sub(1, 8), text:sub(9, 12), text:sub(13, 16),
      text:sub(17, 20), text:sub(21))
  elseif kind ~= 1 then
    fault(c, "address")
  end
end

-- ---- values behind a type byte ----

local kinds = { [0] = "null", "bool", "byte", "char", "double", "float", "int", "long", "short" }
local single = { [17] = "string", [18] = "bytes", [19] = "class", [50] = "object" }

-- IEEE 754, from the upper 32 bits and those below.
local function real(top, low, exponent_bits)
  local unit, most = 2 ^ (31 - exponent_bits), 2 ^ exponent_bits - 1
  local sign, exponent = top >= 0x80000000 and -1 or 1, math.floor(top / unit) % (most + 1)
  local fraction, bias = (top % unit + low / 2 ^ 32) / unit, (most - 1) / 2
  if exponent == most then return fraction == 0 and sign * math.huge or 0 / 0 end
  if exponent == 0 then return sign * fraction * 2 ^ (1 - bias) end
  return sign * (1 + fraction) * 2 ^ (exponent - bias)
end

local function counted(c)
  local len = scalar.i32(c)
  if len < 0 or len > left(c) then
    fault(c, "length")
    return ""
  end
  return scalar.bytes(c, len)
end

local values = { null = function() end, bool = scalar.flag, byte = scalar.i8, class = scalar.i8,
  char = scalar.u16, short = scalar.i16 }

function values.float(c) return real(scalar.big(c, 4), 0, 8) end

function values.double(c)
  local high = scalar.big(c, 4)
  return real(high, scalar.big(c, 4), 11)
end

function values.int(c, buffer)
  if not buffer then return scalar.i32(c) end
  local value = scalar.compressed(c, 4)
  return value >= 0x80000000 and value - 0x100000000 or value
end

function values.long(c, buffer)
  if buffer then return scalar.compressed(c, 8) end
  return scalar.i64(c)
end

function values.bytes(c, buffer)
  return buffer and scalar.bytes(c, left(c)) or counted(c)
end

function values.string(c, _, read)
  read.ascii = scalar.flag(c)
  if read.ascii then return counted(c) end
  return java.read(scalar.bytes(c, scalar.u16(c)))
end

-- `skip(c, class, depth)` passes over the content of an object.
function scalar.object(c, dialect, skip, depth)
  local code = scalar.u8(c)
  local kind = code < 17 and kinds[math.ceil(code / 2)] or single[code]
  if not kind then return fault(c, "java") end
  local read = { code = code, kind = kind }
  if kind == "object" then
    if scalar.u8(c) ~= 1 then fault(c, "value") end
    read.class = scalar.u16(c)
    local at = c.at
    skip(c, read.class, depth + 1)
    read.value = c.bytes:sub(at, c.at - 1)
  else
    read.value = values[kind](c, dialect == "buffer", read)
  end
  return read
end

return scalar
