-- object: values behind a type byte, as Lua values and back (core/object.h).
--
--     { code = 12, kind = "int", value = 5 }
--
-- `code` is the type byte; it says what `kind` says, and if the value was boxed.  An object has
-- its class id in `class` and its content, in bytes, in `value`; a string says if it is `ascii`.

local ffi = require "ffi"
local form = require "neap.form"

local lib = form.lib
local value_t = ffi.typeof "struct neap_wire_value"
local byte_t = ffi.typeof "const uint8_t *"

local object = {}

local dialects = { buffer = 0, stream = 1 }
local kinds = { [0] = "null", "bool", "byte", "char", "double", "float", "int", "long", "short" }
local single = { [17] = "string", [18] = "bytes", [19] = "class", [50] = "object" }

local function kind_of(code)
  return code < 17 and kinds[math.ceil(code / 2)] or single[code]
end

-- nil and the reason, or the value and how many bytes it took.  Dialect: "buffer" or "stream".
function object.read(bytes, dialect)
  local at = ffi.cast(byte_t, bytes)
  local cursor, value = form.cursor(at, #bytes), value_t()
  local code, real = ffi.new "int32_t[1]", ffi.new "double[1]"
  lib.neap_wire_object_read(cursor, dialects[dialect], code, value, real)
  if cursor.fault ~= 0 then return nil, form.fault(cursor.fault) end
  local read = { code = code[0], kind = kind_of(code[0]) }
  if read.kind == "bool" then
    read.value = value.number ~= 0
  elseif read.kind == "double" or read.kind == "float" then
    read.value = real[0]
  elseif read.kind == "string" then
    read.ascii = value.second ~= 0
    read.value = ffi.string(value.at, value.len)
    if not read.ascii then read.value = form.from_java(read.value) end
  elseif read.kind == "bytes" or read.kind == "object" then
    read.class = read.kind == "object" and value.kind or nil
    read.value = value.at ~= nil and ffi.string(value.at, value.len) or ""
  elseif read.kind ~= "null" then
    read.value = form.exact(value.number)
  end
  return read, tonumber(cursor.at - at)
end

local function bits_of(kind, real)
  if kind == "float" then return ffi.cast("uint32_t *", ffi.new("float[1]", real))[0] end
  return ffi.cast("int64_t *", ffi.new("double[1]", real))[0]
end

function object.write(given, dialect)
  local value, bytes = value_t(), nil
  if given.kind == "double" or given.kind == "float" then
    value.number = bits_of(given.kind, given.value)
  elseif type(given.value) == "boolean" then
    value.number = given.value and 1 or 0
  elseif type(given.value) == "string" then
    bytes = given.kind == "string" and not given.ascii and form.to_java(given.value) or given.value
    value.at, value.len = ffi.cast(byte_t, bytes), #bytes
    value.second, value.kind = given.ascii and 1 or 0, given.class or 0
  elseif given.value ~= nil then
    value.number = given.value
  end
  lib.neap_wire_begin(form.scratch)
  lib.neap_wire_object_write(form.scratch, dialects[dialect], given.code, value)
  return form.written(form.scratch), bytes
end

return object
