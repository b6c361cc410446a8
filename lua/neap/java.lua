-- java: Java's UTF-8 and ours.  It writes NUL in two bytes, and characters above U+FFFF as two
-- halves of three bytes each.  Plain Lua of any version: the dissector for Wireshark holds it too.

local java = {}

local function utf8(code)
  return string.char(0xf0 + math.floor(code / 0x40000), 0x80 + math.floor(code / 0x1000) % 0x40,
    0x80 + math.floor(code / 0x40) % 0x40, 0x80 + code % 0x40)
end

function java.read(text)
  if not text:find "[\192\237]" then return text end
  text = text:gsub("\192\128", "\0")
  return (text:gsub("\237([\160-\175])([\128-\191])\237([\176-\191])([\128-\191])",
    function(a, b, c, d)
      local high = (a:byte() - 0xa0) * 0x40 + b:byte() - 0x80
      local low = (c:byte() - 0xb0) * 0x40 + d:byte() - 0x80
      return utf8(0x10000 + high * 0x400 + low)
    end))
end

local function surrogate(code)
  return string.char(0xed, 0x80 + math.floor(code / 0x40) % 0x40, 0x80 + code % 0x40)
end

function java.write(text)
  if not text:find "[%z\240-\247]" then return text end
  text = text:gsub("%z", "\192\128")
  return (text:gsub("([\240-\247])([\128-\191])([\128-\191])([\128-\191])", function(a, b, c, d)
    local code = (a:byte() % 8) * 0x40000 + (b:byte() % 64) * 0x1000 + (c:byte() % 64) * 0x40
      + d:byte() % 64 - 0x10000
    return surrogate(0xd800 + math.floor(code / 0x400)) .. surrogate(0xdc00 + code % 0x400)
  end))
end

return java
