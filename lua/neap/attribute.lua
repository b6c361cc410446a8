-- attribute: one attribute of a running layer, as Lua sees it: quantity, word, number or boolean.

local C = require "neap.cdef"
local ffi = require "ffi"
local mistake = require "neap.mistake"
local quantity = require "neap.quantity"

local attribute = {}

-- A name that cannot clash with a layer's: stack[attribute.LAYER](name) is the layer, or nil.
attribute.LAYER = {}

local COUNTER = 3
local NUMBER, BOOL, REAL = 0, 1, 4
local TIME, SIZE = 1, 2

local reading, why = ffi.new "struct neap_reading", ffi.new "char[512]"

-- The layer in C, or an error.
function attribute.layer(channel, name)
  local inside = channel[require("neap.channel").own]
  if not inside.pointer or inside.pointer.stack == nil then
    mistake.raise("%s is closed", channel.name)
  end
  local layer = C.neap_bind_layer_of(inside.pointer, name)
  if layer == nil then mistake.raise("%s has no layer '%s' now", channel.name, name) end
  return layer
end

-- What was read, and the same as text.
local function understood()
  local text = ffi.string(reading.text)
  if reading.type == BOOL then return reading.number ~= 0, text end
  if reading.type == REAL then return reading.real, text end
  if reading.type ~= NUMBER then return text, text end
  if reading.kind == COUNTER then return quantity.exact(reading.number), text end
  if text:match "^%a" then return text, text end -- a word, such as "auto"
  if reading.unit == TIME then return quantity.time(reading.number), text end
  if reading.unit == SIZE then return quantity.size(reading.number), text end
  return quantity.exact(reading.number), text
end

function attribute.read(layer, attr)
  C.neap_bind_attr_read(layer, attr, reading)
  return (understood())
end

-- The value and its text, by name.
function attribute.read_text(channel, layer_name, name)
  local layer = attribute.layer(channel, layer_name)
  C.neap_bind_attr_read(layer, C.neap_bind_attr_find(layer.class, name), reading)
  return understood()
end

-- Reads what was given into a struct neap_value, by the words of the loader: quantities and
-- booleans as text, numbers as they are.  What is wrong with it, or nil.
function attribute.parse(attr, given, into)
  if type(given) == "boolean" then given = given and "on" or "off" end
  if quantity.is(given) then given = tostring(given) end
  local code
  if type(given) == "number" then
    code = C.neap_bind_attr_number(attr, given, into, why, 512)
  elseif type(given) == "string" then
    if given:find "%${" then
      return ("%q is not replaced: env(\"NAME\", default) works in stack files"):format(given)
    elseif given:find "%z" then
      return ("%q has a zero byte"):format(given)
    end
    code = C.neap_bind_attr_parse(attr, given, into, why, 512)
  else
    return ("a %s is no value"):format(type(given))
  end
  if code < 0 then return ffi.string(why) end
end

local written = ffi.new "struct neap_value"

-- The value that this text stands for; the text itself where no such layer is any more.
function attribute.from_text(channel, layer_name, name, text)
  local inside = channel[require("neap.channel").own]
  local layer = inside.pointer and C.neap_bind_layer_of(inside.pointer, layer_name) or nil
  local attr = layer ~= nil and C.neap_bind_attr_find(layer.class, name) or nil
  if attr == nil or attribute.parse(attr, text, written) then return text end
  C.neap_bind_attr_value(attr, written, reading)
  return (understood())
end

return attribute
