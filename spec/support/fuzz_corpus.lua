-- fuzz_corpus: what `make fuzz` begins with, from the captures and vectors of spec/golden.
--
--     luajit spec/support/fuzz_corpus.lua FOLDER
--
-- The first byte of a file says how the rest is read: see fuzz_packet.c.

local root = arg[0]:match "^(.*)spec/support/"
local lib = os.getenv "NEAP_LIB" or root .. "build/lib"
package.cpath = lib .. "/?.so;" .. package.cpath
package.path = root .. "lua/?.lua;" .. root .. "spec/?.lua;" .. package.path

local decode = require "neap.decode"
local form = require "neap.form"
local golden = require "support.golden"

local ALL, FEW, BARE, PAYLOAD = "\0", "\1", "\2", "\3"
local folder, count = arg[1], 0

local function add(bytes)
  count = count + 1
  local file = assert(io.open(("%s/%04d"):format(folder, count), "wb"))
  file:write(bytes)
  file:close()
end

local function add_payloads(messages)
  for _, message in ipairs(messages) do
    if message.payload_kind then add(PAYLOAD .. message.body) end
  end
end

for _, name in ipairs(golden.captures) do
  assert(decode.items(golden.text(name .. ".pcap"), function(item)
    local bytes = item.transport == "udp" and item.bytes or item.bytes:sub(5)
    if item.kind == "message" then add(BARE .. bytes) end
    if item.kind == "packet" and #bytes < 4000 then
      add((count % 2 == 0 and ALL or FEW) .. bytes)
      add_payloads(item.packet.messages)
    end
  end))
end
for _, vector in ipairs(golden.rows "vectors.jsonl") do add(PAYLOAD .. form.bytes(vector.hex)) end
for line in golden.text("own.hex"):gmatch "[^\n]+" do
  local hex = line:match "^(%x+)%s"
  if hex then add(BARE .. "\0\0\0\0\1" .. form.bytes(hex)) end
end
io.write(("%d files\n"):format(count))
