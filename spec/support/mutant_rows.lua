-- mutant_rows: the rows of spec/mutants.md.
--
--     | 301 | layers/nakack/send.c | what is broken | layers/nakack_spec, its own check |
--     | 801 | layers/gms.c | `was` | `is` | layers/gms/join_spec, its own check |
--
-- In the latter `\n` is the end of a line.

local mutant_rows = {}

-- Between pipes; `\|` is a pipe.
local function cells(line)
  local list = {}
  for cell in line:gsub("\\|", "\1"):gmatch "|([^|\n]*)" do
    list[#list + 1] = (cell:gsub("\1", "|"):match "^%s*(.-)%s*$")
  end
  return list
end

local function unquoted(cell)
  return ((cell:match "^`(.*)`$" or ""):gsub("\\n", "\n"))
end

-- A list of { n, where, specs, check, says, was, is }, in the order of the file.
function mutant_rows.read()
  local list = {}
  for line in io.lines "spec/mutants.md" do
    local cell = cells(line)
    local n = tonumber(cell[1])
    if n then
      local by = cell[#cell - 1] -- Behind the last pipe is nothing.
      local row = { n = n, where = cell[2], specs = {}, says = by:match '"(.-)"',
        check = by:find("its own check", 1, true) ~= nil }
      for spec in by:gsub('".-"', ""):gmatch "[%w_/]+_spec" do row.specs[#row.specs + 1] = spec end
      assert(#row.specs > 0, line)
      if #cell > 5 then row.was, row.is = unquoted(cell[3]), unquoted(cell[4]) end
      list[#list + 1] = row
    end
  end
  return list
end

-- Where the text of a row stands in the file; nil and why, unless it stands there once.
function mutant_rows.place(row, text)
  local at, last = text:find(row.was, 1, true)
  if not at then return nil, "is not there" end
  if text:find(row.was, last + 1, true) then return nil, "is there more than once" end
  return at, last
end

return mutant_rows
