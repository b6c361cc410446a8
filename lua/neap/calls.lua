-- calls: what a program, a stack file and a layer in Lua can call, for help.
--
-- Read out of the tables of lua/README.md, which is there wherever these files are: what help says
-- and what the page says cannot differ.  A row is one line, `| call, call | what it does |`.

local calls = {}

-- The folder above this file's.
local function page()
  local here = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
  return here .. "../README.md"
end

local read

-- All rows, in the order of the page: section, call, doc.
local function rows()
  if read then return read end
  local file, section = io.open(page(), "r"), ""
  read = {}
  if not file then return read end
  for line in file:lines() do
    section = line:match "^## (.*)" or section
    local call, doc = line:match "^| (.-`.-) | (.*) |$"
    if call then
      read[#read + 1] = { section = section, call = call:gsub("`", ""), doc = doc }
    elseif line:match "^| `" then
      read[#read + 1] = { section = section, call = line:match "^| (.-) |":gsub("`", ""), doc = "" }
    end
  end
  file:close()
  return read
end

-- What a row is about: names that are called or read, not those of options.
local function names_of(row)
  local plain, list = row.call:gsub("%b()", ""):gsub("%b{}", ""):gsub('%b""', ""), {}
  for name in plain:gmatch "[%a_][%w_]*" do list[#list + 1] = name end
  return list
end

local function is_about(row, word)
  for _, name in ipairs(names_of(row)) do
    if name == word then return true end
  end
  return false
end

local function mentions(row, word)
  return (row.call .. " " .. row.doc):find("%f[%w_]" .. word .. "%f[^%w_]") ~= nil
end

-- The rows that fit a word, as text; nil when none does.
local function text_of(word, fits)
  local found = {}
  if not word:match "^[%a_][%w_]*$" then return nil end
  for _, row in ipairs(rows()) do
    if fits(row, word) then
      found[#found + 1] = ("%s\n  %s\n  (lua/README.md, %s)"):format(row.call, row.doc, row.section)
    end
  end
  return found[1] and table.concat(found, "\n\n")
end

function calls.about(word) return text_of(word, is_about) end

-- For words that nothing is called by, such as an option.
function calls.mentioning(word) return text_of(word, mentions) end

-- All names, each once: for "did you mean".
function calls.names()
  local list, seen = {}, {}
  for _, row in ipairs(rows()) do
    for _, name in ipairs(names_of(row)) do
      if not seen[name] then list[#list + 1] = name end
      seen[name] = true
    end
  end
  return list
end

return calls
