-- shown: what was decoded, in words: values, headers, bodies, flags, versions.
--
-- `names` gives members names: { [address] = "ann" }.  Plain Lua of any version: `neap decode` says
-- what the dissector for Wireshark, which holds this text, says.

local shown = {}

local flag_names = { { 1, "OOB" }, { 2, "DONT_BUNDLE" }, { 4, "NO_FC" }, { 16, "NO_RELIABILITY" },
  { 32, "NO_TOTAL_ORDER" }, { 64, "NO_RELAY" }, { 128, "RSVP" }, { 256, "RSVP_NB" },
  { 1024, "SKIP_BARRIER" }, { 2048, "SERIALIZED" } }

function shown.flags(flags)
  local names = {}
  for _, row in ipairs(flag_names) do
    if math.floor(flags / row[1]) % 2 == 1 then names[#names + 1] = row[2] end
  end
  return #names > 0 and " " .. table.concat(names, "|") or ""
end

function shown.version(version)
  return ("%d.%d.%d"):format(math.floor(version / 2048), math.floor(version / 64) % 32,
    version % 64)
end

local value_text -- below: values within values

local function list_text(names, list)
  local parts = {}
  for n, value in ipairs(list) do parts[n] = value_text(names, value) end
  return "[" .. table.concat(parts, " ") .. "]"
end

local function number_text(number)
  return (tostring(number):gsub("LL$", ""))
end

local shown_keys = { "class", "kind", "bits", "creator", "number", "old_creator", "old_number",
  "member", "name", "place", "delivered", "received", "members", "parts", "left", "joined",
  "wanted", "view", "merge_view", "delta_view", "digest", "pairs", "failure", "first", "value" }

-- Views and digests in the short form that people use, all else by key.
local function table_text(names, value)
  if value.creator and value.number and not value.old_creator then
    local id = ("%s|%s"):format(value_text(names, value.creator), number_text(value.number))
    if not value.members then return id end
    local parts = value.parts and " of " .. list_text(names, value.parts) or ""
    return id .. list_text(names, value.members) .. parts
  end
  if value.delivered then
    local who = value.member and value_text(names, value.member) .. ":" or ""
    return ("%s%s/%s"):format(who, number_text(value.delivered), number_text(value.received))
  end
  local parts = {}
  for _, key in ipairs(shown_keys) do
    if value[key] ~= nil then
      parts[#parts + 1] = ("%s=%s"):format(key, value_text(names, value[key]))
    end
  end
  if #parts == 0 or value.first then parts[#parts + 1] = list_text(names, value) end
  return table.concat(parts, " ")
end

function value_text(names, value)
  if type(value) == "table" then return table_text(names, value) end
  if type(value) == "string" then
    return names[value] or (value:find "^[%w%p ]*$" and value or ("%q"):format(value))
  end
  return number_text(value)
end

function shown.header(names, header)
  local parts = { header.name }
  for _, name in ipairs(header.order) do
    local value = header.fields[name]
    local text = value_text(names, value)
    if name == "type" and header.word then
      parts[#parts + 1] = header.word
    elseif value ~= nil then
      parts[#parts + 1] = ("%s=%s"):format(name, text)
    end
  end
  return table.concat(parts, " ")
end

function shown.body(names, message)
  if message.payload_fault then
    return ("%s, %s: %s"):format(message.type, message.payload_kind or "", message.payload_fault)
  end
  if message.payload ~= nil then
    return ("%s: %s"):format(message.payload_kind, value_text(names, message.payload))
  end
  if message.type == "empty" then return "empty" end
  if not message.body then return message.type .. " null" end
  local text = message.body:sub(1, 32)
  text = text:find "^[%w%p ]*$" and ("%q"):format(text) or (text:gsub(".", function(c)
    return ("%02x"):format(c:byte())
  end))
  return ("%s %d%s"):format(message.type, #message.body, #message.body > 0 and " " .. text or "")
end

shown.value, shown.number = value_text, number_text

return shown
