-- pcap: the frames of a capture file, classic (both byte orders, micro- and nanoseconds) or pcapng.
--
--     for frame in pcap.frames(text) do … end       nil and the reason when it is neither
--
--     frame     number (from 1, as other tools count), time (seconds), link (type), bytes,
--               cut (the capture kept less than there was)

local pcap = {}

local SECTION, INTERFACE, SIMPLE, ENHANCED = 0x0a0d0d0a, 1, 3, 6
local RESOLUTION = 9 -- option: of an interface's clock

local function number(text, at, width, little)
  local value = 0
  for n = 0, width - 1 do
    value = value * 256 + text:byte(little and at + width - 1 - n or at + n)
  end
  return value
end

local magics = { -- first four bytes: little, parts of a second
  ["\161\178\195\212"] = { false, 1e6 },
  ["\212\195\178\161"] = { true, 1e6 },
  ["\161\178\060\077"] = { false, 1e9 },
  ["\077\060\178\161"] = { true, 1e9 },
}

local function classic(text, little, parts)
  local link = number(text, 21, 4, little) % 0x10000000
  local at, count = 25, 0
  return function()
    if at + 16 > #text + 1 then return nil end
    local caught, whole = number(text, at + 8, 4, little), number(text, at + 12, 4, little)
    local bytes = text:sub(at + 16, at + 15 + caught)
    local time = number(text, at, 4, little) + number(text, at + 4, 4, little) / parts
    at, count = at + 16 + caught, count + 1
    return { number = count, time = time, link = link, bytes = bytes, cut = #bytes < whole }
  end
end

-- Parts of a second: the option says 10^n, or 2^n with the top bit set; else microseconds.
local function resolution(text, at, last, little)
  while at + 4 <= last do
    local code, len = number(text, at, 2, little), number(text, at + 2, 2, little)
    if code == RESOLUTION and len > 0 then
      local power = text:byte(at + 4)
      return power < 128 and 10 ^ power or 2 ^ (power - 128)
    end
    if code == 0 then break end
    at = at + 4 + math.ceil(len / 4) * 4
  end
  return 1e6
end

local function next_generation(text)
  local at, count, little, interfaces = 1, 0, false, {}

  local function frame(interface, time, bytes, whole)
    count = count + 1
    return { number = count, time = time, link = interface.link, bytes = bytes,
      cut = #bytes < whole }
  end

  local blocks = {
    [INTERFACE] = function(first, last)
      interfaces[#interfaces + 1] = { link = number(text, first, 2, little),
        parts = resolution(text, first + 8, last, little) }
    end,
    [ENHANCED] = function(first)
      local interface = interfaces[number(text, first, 4, little) + 1]
      if not interface then return nil end
      local ticks = number(text, first + 4, 4, little) * 2 ^ 32
        + number(text, first + 8, 4, little)
      local caught = number(text, first + 12, 4, little)
      return frame(interface, ticks / interface.parts, text:sub(first + 20, first + 19 + caught),
        number(text, first + 16, 4, little))
    end,
    [SIMPLE] = function(first, last)
      local whole = number(text, first, 4, little)
      local bytes = text:sub(first + 4, math.min(last, first + 3 + whole))
      return interfaces[1] and frame(interfaces[1], 0, bytes, whole)
    end,
  }

  return function()
    while at + 12 <= #text + 1 do
      local kind = number(text, at, 4, little)
      if kind == SECTION then
        little, interfaces = text:byte(at + 8) == 0x4d, {}
      end
      local len = number(text, at + 4, 4, little)
      if len < 12 or at + len > #text + 1 then return nil end
      local first, last = at + 8, at + len - 5
      at = at + len
      local least = kind == ENHANCED and 20 or kind == INTERFACE and 8 or 4
      local found = blocks[kind] and last - first + 1 >= least and blocks[kind](first, last)
      if found then return found end
    end
  end
end

function pcap.frames(text)
  local magic = magics[text:sub(1, 4)]
  if magic and #text >= 24 then return classic(text, magic[1], magic[2]) end
  if text:sub(1, 4) == "\10\13\13\10" and #text >= 28 then return next_generation(text) end
  return nil, "not a capture file (pcap or pcapng)"
end

return pcap
