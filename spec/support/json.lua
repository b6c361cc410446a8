-- json: just enough to read golden data.  null is json.null inside tables, so that a key is there.

local json = { null = setmetatable({}, { __tostring = function() return "null" end }) }

local escapes = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

local function utf8(code)
  if code < 0x80 then return string.char(code) end
  if code < 0x800 then
    return string.char(0xc0 + math.floor(code / 0x40), 0x80 + code % 0x40)
  end
  if code < 0x10000 then
    return string.char(0xe0 + math.floor(code / 0x1000), 0x80 + math.floor(code / 0x40) % 0x40,
      0x80 + code % 0x40)
  end
  return string.char(0xf0 + math.floor(code / 0x40000), 0x80 + math.floor(code / 0x1000) % 0x40,
    0x80 + math.floor(code / 0x40) % 0x40, 0x80 + code % 0x40)
end

local function string_at(text, at)
  local parts = {}
  while true do
    local stop = text:find('["\\]', at)
    parts[#parts + 1] = text:sub(at, stop - 1)
    if text:byte(stop) == 34 then return table.concat(parts), stop + 1 end
    local escape = text:sub(stop + 1, stop + 1)
    at = stop + 2
    if escape == "u" then
      local code = tonumber(text:sub(at, at + 3), 16)
      at = at + 4
      if code >= 0xd800 and code < 0xdc00 then
        code = 0x10000 + (code - 0xd800) * 0x400 + tonumber(text:sub(at + 2, at + 5), 16) - 0xdc00
        at = at + 6
      end
      parts[#parts + 1] = utf8(code)
    else
      parts[#parts + 1] = escapes[escape] or escape
    end
  end
end

local value_at

local function items(text, at, close, add)
  at = text:find("%S", at)
  if text:sub(at, at) == close then return at + 1 end
  while true do
    at = add(text:find("%S", at))
    at = text:find("%S", at)
    local sign = text:sub(at, at)
    at = at + 1
    if sign == close then return at end
    assert(sign == ",", "a comma")
  end
end

function value_at(text, at)
  at = text:find("%S", at)
  local first = text:sub(at, at)
  if first == '"' then return string_at(text, at + 1) end
  if first == "[" then
    local list = {}
    return list, items(text, at + 1, "]", function(where)
      list[#list + 1], where = value_at(text, where)
      return where
    end)
  end
  if first == "{" then
    local object = {}
    return object, items(text, at + 1, "}", function(where)
      local key, value
      key, where = string_at(text, where + 1)
      value, where = value_at(text, text:find(":", where, true) + 1)
      object[key] = value
      return where
    end)
  end
  local word = text:match("^[%w.+-]+", at)
  local words = { ["true"] = true, ["false"] = false, null = json.null }
  local value = words[word]
  if value == nil then value = assert(tonumber(word), word) end
  return value, at + #word
end

function json.read(text)
  return (value_at(text, 1))
end

return json
