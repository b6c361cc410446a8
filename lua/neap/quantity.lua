-- quantity: durations and sizes as values that print with their unit.
--
--     local q = ann.stack.stable.interval     20s
--     q * 2, q + "500ms", q > "1s"            40s  20.5s  true
--     q.ns                                    20000000000
--
-- A bare number for a time or a size is a mistake that names the unit; 0 is the exception.  The
-- metatables keep nothing of this file's state: a C type has one for the life of the process.

local C = require "neap.cdef"
local ffi = require "ffi"
local mistake = require "neap.mistake"

if not pcall(ffi.typeof, "struct neap_time") or not pcall(ffi.sizeof, "struct neap_time") then
  ffi.cdef "struct neap_time { uint64_t number; }; struct neap_size { uint64_t number; };"
end

local quantity = {}
local out, why, text = ffi.new "uint64_t[1]", ffi.new "char[256]", ffi.new "char[64]"
local MAX = 2 ^ 53

-- A 64-bit number as a plain one, or as it is where that would round.
local function exact(number)
  return number <= MAX and tonumber(number) or number
end
quantity.exact = exact

local kinds = {
  ns = {
    type = ffi.typeof "struct neap_time", unit = "ns", what = "a time", example = "50ms",
  },
  bytes = {
    type = ffi.typeof "struct neap_size", unit = "bytes", what = "a size", example = "4MB",
  },
}

local function kind_of(value)
  if ffi.istype(kinds.ns.type, value) then return kinds.ns end
  if ffi.istype(kinds.bytes.type, value) then return kinds.bytes end
end

-- The number in `value` (text, a quantity, or 0) as uint64_t; nil and why.
local function read(kind, value)
  if type(value) == "string" then
    if C.neap_bind_quantity_parse(value, kind.unit, out, why, 256) < 0 then
      return nil, ffi.string(why)
    end
    return out[0]
  end
  local same = kind_of(value)
  if same == kind then return value.number end
  if value == 0 then return 0ULL end
  if type(value) == "number" then
    return nil, ("%s needs a unit: \"%s\", not %s"):format(kind.what, kind.example, value)
  end
  return nil, ("%s such as \"%s\" is wanted, not %s"):format(kind.what, kind.example,
    same and same.what .. ", " .. tostring(value) or "a " .. type(value))
end

local function wanted(kind, value)
  local number, problem = read(kind, value)
  if not number then mistake.raise("%s", problem) end
  return number
end

-- One side of an operation whose other side is a quantity.
local function operand(kind, value)
  if type(value) == "number" and value ~= 0 then
    mistake.raise("%s needs a unit: \"%s\", not %s; the plain number of %s is its .%s",
      kind.what, kind.example, value, kind.what, kind.unit)
  end
  return wanted(kind, value)
end

local function pair(a, b)
  local kind = kind_of(a) or kind_of(b)
  return kind, operand(kind, a), operand(kind, b)
end

local function made(kind, number)
  if not (number >= 0 and number < 2 ^ 63) then
    mistake.raise("%s cannot be %s", kind.what, number < 0 and "negative" or "that large")
  end
  return kind.type(math.floor(number + 0.5))
end

local function less(a, b)
  local _, x, y = pair(a, b)
  return x < y
end

local methods = {}

function methods.__index(q, key)
  if key == kind_of(q).unit then return exact(q.number) end
  mistake.raise("%s has no field '%s'; its number is .%s", kind_of(q).what, tostring(key),
    kind_of(q).unit)
end

function methods.__tostring(q)
  C.neap_bind_quantity_text(q.number, kind_of(q).unit, text, 64)
  return ffi.string(text)
end

function methods.__concat(a, b) return tostring(a) .. tostring(b) end
function methods.__lt(a, b) return less(a, b) end
function methods.__le(a, b) return not less(b, a) end

function methods.__eq(a, b)
  local kind = kind_of(a) or kind_of(b)
  local x, y = read(kind, a), read(kind, b)
  return x ~= nil and y ~= nil and x == y
end

function methods.__add(a, b)
  local kind, x, y = pair(a, b)
  return kind.type(x + y)
end

function methods.__sub(a, b)
  local kind, x, y = pair(a, b)
  if x < y then mistake.raise("%s cannot be negative", kind.what) end
  return kind.type(x - y)
end

function methods.__mul(a, b)
  local kind, q, factor = kind_of(a), a, b
  if type(a) == "number" then kind, q, factor = kind_of(b), b, a end
  if type(factor) ~= "number" then mistake.raise("%s is multiplied by numbers only", kind.what) end
  return made(kind, tonumber(q.number) * factor)
end

-- By a number: a quantity; by a quantity: how often it fits.
function methods.__div(a, b)
  local kind = kind_of(a)
  if not kind then mistake.raise("only a number or its like divides a quantity") end
  if type(b) == "number" then return made(kind, tonumber(a.number) / b) end
  return tonumber(a.number) / tonumber(wanted(kind, b))
end

for _, kind in ipairs { kinds.ns, kinds.bytes } do pcall(ffi.metatype, kind.type, methods) end

local SCALES = {
  ns = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" } },
  bytes = { { 1e9, "GB" }, { 1e6, "MB" }, { 1e3, "kB" } },
}

-- For reading: six digits at most, 2.0019ms for 2001895ns.
function quantity.short(q)
  local exactly, number = tostring(q), tonumber(q.number)
  if #exactly <= 8 then return exactly end
  for _, scale in ipairs(SCALES[kind_of(q).unit]) do
    if number >= scale[1] then return ("%.6g%s"):format(number / scale[1], scale[2]) end
  end
  return exactly
end

function quantity.time(number) return kinds.ns.type(number) end
function quantity.size(number) return kinds.bytes.type(number) end
function quantity.is(value) return kind_of(value) ~= nil end

-- Nanoseconds or bytes as a plain number; what is not one is the caller's mistake.
function quantity.ns(value) return exact(wanted(kinds.ns, value)) end
function quantity.bytes(value) return exact(wanted(kinds.bytes, value)) end

-- The same without raising: nil and why.
function quantity.read(value, unit)
  local number, problem = read(kinds[unit], value)
  if not number then return nil, problem end
  return exact(number)
end

return quantity
