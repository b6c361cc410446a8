-- neap dissector: a dissector for Wireshark, on standard output; Wireshark and tshark run it.
--
-- One file that needs nothing else, of the same tables and texts as `neap decode`:
--
--     rows of core/headers and of the tables in bodies       as Lua tables, generated here
--     neap.java, slice, shown, payload                       their text, unchanged
--     neap.wireshark.scalar, reader, tree                    their text: what C does for decode

local dissect = require "neap.dissect"

local dissector = {}

local HEAD = [[
-- Neap's packets (the JGroups 5 wire format) for Wireshark 4 and tshark, made by `neap dissector`.
--
--     tshark -X lua_script:neap.lua -r FILE -Y neap.nakack.seqno==5
--
-- or put it into Wireshark's folder of plugins (About, Folders, Personal Lua Plugins).  UDP packets
-- are found by their look, TCP connections by their greeting; for one that was caught from the
-- middle, Decode As neap.

local loaders, loaded = {}, {}
local function require(name)
  if loaded[name] == nil then loaded[name] = loaders[name]() end
  return loaded[name]
end
]]

-- neap.payload asks these two, of which half is C elsewhere.
local STAND_INS = [[
loaders["neap.form"] = function()
  return { read = function(...) return require("neap.wireshark.reader").read(...) end }
end
loaders["neap.object"] = function()
  return { read = function(...) return require("neap.wireshark.reader").object(...) end }
end
]]

local MODULES = { "neap.java", "neap.slice", "neap.shown", "neap.payload",
  "neap.wireshark.scalar", "neap.wireshark.reader", "neap.wireshark.tree" }
local TABLES = { "record", "view", "merge_view", "delta_view", "view_digest", "join_rsp",
  "exception" }

local function list_text(all, keyed)
  local parts = {}
  for n, value in ipairs(all) do
    parts[n] = keyed and ("[%d] = true"):format(value) or ("%d"):format(value)
  end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

local function fields_text(fields)
  local lines = {}
  for _, field in ipairs(fields) do
    local when = ""
    if field.when then
      local from = field.values and "values" or "bits"
      when = (", when = %q, %s = %s"):format(field.when, from, list_text(field[from],
        field.values))
    end
    lines[#lines + 1] = ("      { name = %q, form = %q, doc = %q%s },\n"):format(field.name,
      field.form, field.doc, when)
  end
  return "{\n" .. table.concat(lines) .. "    }"
end

local function words_text(words)
  local parts = {}
  for number = 0, 127 do
    if words and words[number] then
      parts[#parts + 1] = ("[%d] = %q"):format(number, words[number])
    end
  end
  return words and (", words = { %s }"):format(table.concat(parts, ", ")) or ""
end

-- Neighbours with the same fields share a slot: a message has at most one of them.
local function headers_text()
  local lines, slot, before = {}, 0, nil
  for _, row in ipairs(dissect.headers()) do
    local fields = fields_text(row.fields)
    if fields ~= before then slot, before = slot + 1, fields end
    lines[#lines + 1] = ("    [\"%d %d\"] = { name = %q, doc = %q, slot = %d%s, fields = %s },\n")
      :format(row.protocol, row.class, row.name, row.doc, slot, words_text(row.words), fields)
    lines[#lines + 1] = ("    \"%d %d\",\n"):format(row.protocol, row.class)
  end
  return table.concat(lines)
end

local function tables_text()
  local lines = {}
  for _, name in ipairs(TABLES) do
    lines[#lines + 1] = ("    %s = %s,\n"):format(name, fields_text(dissect.table_fields(name)))
  end
  return table.concat(lines)
end

local function text_of(module)
  local file = assert(io.open(assert(package.searchpath(module, package.path)), "rb"))
  local text = file:read "*a"
  file:close()
  return text
end

-- Everything but the last line, which runs it.
function dissector.modules()
  local parts = { HEAD, ("loaders[%q] = function() return {\n  headers = {\n%s  },\n"):format(
    "neap.rows_of_headers", headers_text()), ("  tables = {\n%s  },\n} end\n"):format(
    tables_text()), STAND_INS }
  for _, name in ipairs(MODULES) do
    parts[#parts + 1] = ("loaders[%q] = function()\n%send\n"):format(name, text_of(name))
  end
  return table.concat(parts, "\n")
end

function dissector.text()
  return dissector.modules() .. "\nrequire \"neap.wireshark.tree\"\n"
end

function dissector.main(args)
  if #args > 0 then
    io.stderr:write "usage: neap dissector > neap.lua\n"
    return 2
  end
  io.write(dissector.text())
  return 0
end

return dissector
