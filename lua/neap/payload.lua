-- payload: what the body of a message holds, where the protocol of one of its headers says so.
--
--     kind          message                                    value
--     records       discovery                                  list of records
--     view_digest   gms view, merge response and install, …    bits, views, digest
--     join_rsp      gms join response                          bits, view, digest, failure
--     addrs         gms merge request                          members
--     view_id_opt   gms get view                               creator, number
--     view_rsp      merge view response                        view
--     value         SERIALIZED bytes                           see neap.object
--     object        object message                             class, value; {} for null
--     long          long message                               number
--
-- Each kind is read and written by the same row here.

local form = require "neap.form"
local object = require "neap.object"

local payload = {}

local SERIALIZED = 2048

-- The content of objects by class id: a form or table; what is not here stays bytes.
local classes = {
  [1] = "ip", [4] = "view", [5] = "view_id", [6] = "merge_view", [7] = "record",
  [8] = "join_rsp", [9] = "digest", [10] = "digest", [15] = "seqnos",
}
local PRIMITIVE = 21

local kinds = {}

local function plain(name)
  return {
    read = function(bytes) return form.read(name, bytes) end,
    write = function(value) return (form.write(name, value)) end,
  }
end

for _, name in ipairs { "view_digest", "addrs", "view_id_opt" } do
  kinds[name] = plain(name)
end
kinds.long = plain "clong"

-- Behind a flag that is always 1.
local function flagged(name)
  return {
    read = function(bytes)
      if bytes:byte() ~= 1 then return nil, "value" end
      local value, used = form.read(name, bytes:sub(2))
      return value, value and used + 1 or used
    end,
    write = function(value) return "\1" .. form.write(name, value) end,
  }
end

kinds.join_rsp, kinds.view_rsp = flagged "join_rsp", flagged "view"

kinds.records = {
  read = function(bytes)
    local count, at = form.read("i32", bytes)
    if not count then return nil, at end
    if count < 0 or count > #bytes then return nil, "length" end
    local all = {}
    for n = 1, count do
      local record, used = form.read("record", bytes:sub(at + 1))
      if not record then return nil, used end
      all[n], at = record, at + used
    end
    return all, at
  end,
  write = function(all)
    local parts = { (form.write("i32", #all)) }
    for n, record in ipairs(all) do parts[n + 1] = form.write("record", record) end
    return table.concat(parts)
  end,
}

kinds.value = {
  read = function(bytes) return object.read(bytes, "buffer") end,
  write = function(value) return (object.write(value, "buffer")) end,
}

local function content(class, bytes)
  if class == PRIMITIVE then return object.read(bytes, "stream") end
  if classes[class] then return form.read(classes[class], bytes) end
  return bytes, #bytes
end

kinds.object = {
  read = function(bytes)
    if bytes == "\0" then return {}, 1 end
    local class, used = form.read("u16", bytes:sub(2))
    if not class then return nil, used end
    local value, more = content(class, bytes:sub(4))
    if value == nil then return nil, more end
    return { class = class, value = value }, more + 3
  end,
  write = function(given)
    if not given.class then return "\0" end
    local bytes = given.value
    if given.class == PRIMITIVE then
      bytes = object.write(given.value, "stream")
    elseif classes[given.class] then
      bytes = form.write(classes[given.class], given.value)
    end
    return "\1" .. form.write("u16", given.class) .. bytes
  end,
}

local gms = {
  [2] = "join_rsp", [5] = "view_digest", [6] = "addrs", [7] = "view_digest", [8] = "view_digest",
  [14] = "view_digest", [15] = "view_digest", [16] = "view_id_opt",
}
local PING_CLASS, GMS_CLASS, MERGE_CLASS = 53, 55, 75

-- The kind of payload that this message should have, or nil.
function payload.kind(message)
  if message.type == "object" or message.type == "long" then return message.type end
  if message.type ~= "bytes" or not message.body then return nil end
  for _, header in ipairs(message.headers) do
    if header.class == PING_CLASS then return "records" end
    if header.class == GMS_CLASS then
      return #message.body > 0 and gms[header.fields.type] or nil
    end
    if header.class == MERGE_CLASS and #message.body > 0 then return "view_rsp" end
  end
  if message.flags >= SERIALIZED and message.flags % (2 * SERIALIZED) >= SERIALIZED then
    return "value"
  end
end

-- nil and the reason, or the value: of the whole body.
function payload.read(kind, bytes)
  local value, used = kinds[kind].read(bytes)
  if value == nil then return nil, used end
  if used ~= #bytes then return nil, "trailing" end
  return value
end

function payload.write(kind, value)
  return kinds[kind].write(value)
end

return payload
