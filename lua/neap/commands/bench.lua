-- neap bench [--json]: measures, and prints the table; the work is done by build/neap-bench.

local bench = {}

-- Beside the command in the tree; `make bench` builds it.
local function program()
  local lib = os.getenv "NEAP_LIB" or "build/lib"
  local path = lib:gsub("/lib/?$", "") .. "/neap-bench"
  local file = io.open(path, "r")
  if file then file:close() end
  return file and path
end

function bench.main(args)
  local path = program()
  if not path then
    io.stderr:write "neap bench: its programs are not built: make bench, in the source tree\n"
    return 1
  end
  local words = { path }
  for index, word in ipairs(args) do words[index + 1] = "'" .. word:gsub("'", "'\\''") .. "'" end
  local code = os.execute(table.concat(words, " "))
  return (code == true or code == 0) and 0 or 1
end

return bench
