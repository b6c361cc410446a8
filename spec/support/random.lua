-- random: values of every form of header field, drawn by seed.

local form = require "neap.form"

local random = {}
random.__index = random

-- Park and Miller's generator: 31 bits, exact in a double, the same on every machine.
function random.new(seed)
  return setmetatable({ state = seed * 7919 % 2147483646 + 1 }, random)
end

function random:below(bound)
  self.state = self.state * 48271 % 2147483647
  return self.state % bound
end

function random:text(len)
  local parts = {}
  for n = 1, len do parts[n] = string.char(97 + self:below(26)) end
  return table.concat(parts)
end

function random:bits(width)
  return self:below(2 ^ math.min(width, 30)) * (width > 30 and 2 ^ self:below(width - 30) or 1)
end

local hex = "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x"

function random:member()
  local bytes = {}
  for n = 1, 16 do bytes[n] = self:below(256) end
  return hex:format(unpack(bytes))
end

function random:place()
  if self:below(2) == 0 then
    return ("%d.%d.%d.%d:%d"):format(self:below(256), self:below(256), self:below(256),
      self:below(256), self:below(65536))
  end
  return ("[fe80::%x:%x:1:%x]:%d"):format(1 + self:below(65535), 1 + self:below(65535),
    1 + self:below(65535), self:below(65536))
end

function random:list(one)
  local all = {}
  for n = 1, self:below(5) do all[n] = one(self) end
  return all
end

local function maybe(draw)
  return function(self)
    if self:below(4) > 0 then return draw(self) end
  end
end

local function signed(width)
  return function(self)
    local value = self:bits(width - 1)
    return self:below(2) == 0 and value or -value
  end
end

local function unsigned(width)
  return function(self) return self:bits(width) end
end

local function view_id(self) return { creator = self:member(), number = self:bits(40) } end

local function row(self)
  local delivered = self:bits(30)
  return { delivered = delivered, received = delivered + self:bits(20) }
end

local function view(self)
  local drawn = view_id(self)
  drawn.members = self:list(self.member)
  drawn.members[1] = drawn.members[1] or self:member()
  return drawn
end

local forms = {
  i8 = function(self) return self:below(12) end, -- mostly a type: small, so that fields are there
  u8 = function(self) return self:below(9) end,
  i16 = signed(16), u16 = unsigned(16), i32 = signed(32), u32 = unsigned(32), i64 = signed(52),
  cint = unsigned(31), clong = unsigned(52),
  flag = function(self) return self:below(2) == 1 end,
  seq2 = function(self)
    local drawn = row(self)
    return { drawn.delivered, drawn.received }
  end,
  addr = maybe(function(self) return self:below(3) > 0 and self:member() or self:place() end),
  ip = random.place,
  ip_opt = maybe(random.place),
  str = maybe(function(self) return self:text(self:below(20)) end),
  utf = function(self) return self:text(self:below(20)) end,
  ascii = maybe(function(self) return self:text(self:below(20)) end),
  bytes = maybe(function(self) return self:text(self:below(40)) end),
  addrs = maybe(function(self) return self:list(self.member) end),
  addrs32 = function(self) return self:list(self.member) end,
  view_id = view_id, view_id_opt = maybe(view_id), view = view, view_opt = maybe(view),
  digest = function(self)
    local all = self:list(row)
    for _, one in ipairs(all) do one.member = self:member() end
    return all
  end,
  seq2s = function(self) return self:list(row) end,
  seqnos = function(self)
    local first = self:bits(40)
    local all = { first = first, bits = 1 + self:below(200) }
    for bit = 0, all.bits - 1 do
      if self:below(3) == 0 then all[#all + 1] = first + bit end
    end
    return all
  end,
}
forms.digest_opt = maybe(forms.digest)

function random:form(name)
  return assert(forms[name], name)(self)
end

-- Bytes with a few changes: bits turned, stretches cut or doubled, counts made absurd.
function random:mutated(bytes)
  for _ = 1, 1 + self:below(3) do
    local at, what = 1 + self:below(#bytes), self:below(4)
    if what == 0 then
      local byte = (bytes:byte(at) + 2 ^ self:below(8)) % 256
      bytes = bytes:sub(1, at - 1) .. string.char(byte) .. bytes:sub(at + 1)
    elseif what == 1 then
      bytes = bytes:sub(1, at) .. bytes:sub(at + 1 + self:below(16))
    elseif what == 2 then
      bytes = bytes:sub(1, at) .. bytes:sub(math.max(1, at - self:below(16)))
    else
      local absurd = ({ "\127\255\255\255", "\255\255", "\128\0\0\0", "\127\255", "\255" })
      bytes = bytes:sub(1, at - 1) .. absurd[1 + self:below(5)] .. bytes:sub(at + 4)
    end
    if #bytes == 0 then return bytes end
  end
  return bytes
end

random.hex = form.hex

return random
