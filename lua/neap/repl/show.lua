-- show: values as a person wants to read them.  Tables with their keys in order, cycles and depth
-- cut, lists of records in columns, 64-bit numbers exact, channels and layers by what they hold.

local quantity = require "neap.quantity"

local show = {}

local DEPTH, WIDTH, ENTRIES = 4, 100, 200

local function sorted_keys(t)
  local list = {}
  for key in pairs(t) do list[#list + 1] = key end -- any order: sorted below
  table.sort(list, function(a, b)
    if type(a) == type(b) and (type(a) == "number" or type(a) == "string") then return a < b end
    return tostring(a) < tostring(b)
  end)
  return list
end

local function key_text(key)
  if type(key) == "string" and key:match "^[%a_][%w_]*$" then return key end
  return "[" .. (type(key) == "string" and ("%q"):format(key) or tostring(key)) .. "]"
end

-- Quoted; what is bytes rather than text has all its unreadable ones as numbers.
local function quoted(value)
  local text = ("%q"):format(value):gsub("\\\n", "\\n")
  if not value:find "[%z\1-\8\14-\31\127]" then return text end
  return (text:gsub("[\127-\255]", function(byte) return ("\\%03d"):format(byte:byte()) end))
end

local function scalar(value)
  if type(value) == "string" then return quoted(value) end
  if quantity.is(value) then return quantity.short(value) end
  if type(value) == "number" and value == math.floor(value) and math.abs(value) < 2 ^ 53 then
    return ("%d"):format(value)
  end
  return (tostring(value):gsub("ULL$", ""):gsub("LL$", ""))
end

local function plain(value)
  return type(value) ~= "table" or (getmetatable(value) and getmetatable(value).__tostring)
end

-- Same scalar fields in each entry: a table with columns.
local function columns(list)
  if #list > ENTRIES then return nil end
  for _, row in ipairs(list) do
    if type(row) ~= "table" or plain(row) or next(row) == nil then return nil end
    for _, value in pairs(row) do -- any order: only looked at
      if not plain(value) then return nil end
    end
  end
  local names, rows = sorted_keys(list[1]), {}
  for c, name in ipairs(names) do
    if name == "name" then table.insert(names, 1, table.remove(names, c)) end -- Who it is about.
  end
  rows[1] = {}
  for c, name in ipairs(names) do rows[1][c] = tostring(name) end
  for _, row in ipairs(list) do
    local cells = {}
    for c, name in ipairs(names) do
      local value = row[name]
      cells[c] = type(value) == "string" and value or scalar(value)
    end
    rows[#rows + 1] = cells
  end
  return require("neap.commands.help").columns(rows)
end

local function render(value, depth, seen)
  if plain(value) then return scalar(value) end
  if seen[value] then return "(seen above)" end
  if depth > DEPTH then return "{...}" end
  seen[value] = true
  local parts, n = {}, 0
  for index, entry in ipairs(value) do
    if index > ENTRIES then break end
    n = index
    parts[#parts + 1] = render(entry, depth + 1, seen)
  end
  for _, key in ipairs(sorted_keys(value)) do
    if not (type(key) == "number" and key >= 1 and key <= n) then
      if #parts >= ENTRIES then
        parts[#parts + 1] = "..."
        break
      end
      parts[#parts + 1] = key_text(key) .. " = " .. render(value[key], depth + 1, seen)
    end
  end
  seen[value] = nil
  local line = "{ " .. table.concat(parts, ", ") .. " }"
  if #parts == 0 then return "{}" end
  if #line + depth * 2 <= WIDTH and not line:find "\n" then return line end
  local pad = ("  "):rep(depth + 1)
  return "{\n" .. pad .. table.concat(parts, ",\n" .. pad) .. "\n" .. ("  "):rep(depth) .. "}"
end

-- One value as text.  Strings at the top stand as they are: they are meant to be read.
function show.value(value)
  if type(value) == "string" then return (value:gsub("\n$", "")) end
  if type(value) == "table" and not plain(value) then
    local table_text = #value > 0 and columns(value)
    if table_text then return table_text end
  end
  return render(value, 0, {})
end

-- All results of an expression.
function show.values(list)
  local parts = {}
  for index = 1, list.n do
    local value = list[index]
    parts[index] = (type(value) == "string" and list.n > 1) and scalar(value) or show.value(value)
  end
  return table.concat(parts, "\t")
end

return show
