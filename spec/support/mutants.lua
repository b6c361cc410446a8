-- mutants: every fault of spec/mutants.md, alone; the specs beside it have to notice.
--
--     luajit spec/support/mutants.lua [FOLDER [NUMBER...]]      FOLDER: of the build, "build"
--
-- A fault stands in the code (NEAP_IS_MUTANT(n)), or in its row: a text and what is there instead.
-- One file is compiled with it and linked with the other objects of the build, which are shared.
-- What a row says of how the fault is noticed has to be so: "its own check", an assertion in that
-- layer's files; a text in quotes, in what the specs print.  The specs must pass without it.
--
-- Ends with the assertions in checks that no fault broke, when all were tried.

local FOLDER = arg[1] or "build"

local function run(command)
  local pipe = assert(io.popen(("{ %s\n} 2>&1; echo rc=$?"):format(command)))
  local text, code = pipe:read("*a"):match "^(.*)rc=(%d+)%s*$"
  pipe:close()
  return text, tonumber(code)
end

local function text_of(path)
  local file = assert(io.open(path))
  local text = file:read "*a"
  file:close()
  return text
end

local rows = require "support.mutant_rows"

-- ---- building --------------------------------------------------------------------------------

-- The file with the row's text replaced, below `folder`, and its path there.
local function mutated(row, folder)
  if not row.was then return "csrc/" .. row.where end
  local path = folder .. "/" .. row.where
  local text = text_of("csrc/" .. row.where)
  local at, last = rows.place(row, text)
  if not at then return nil, ("%q %s"):format(row.was, last) end
  assert(run("mkdir -p " .. path:match "^(.*)/"))
  local function lines(part) return select(2, part:gsub("\n", "")) end
  local file = assert(io.open(path, "w"))
  file:write(('#line 1 "csrc/%s"\n'):format(row.where), text:sub(1, at - 1), row.is,
    ("\n"):rep(lines(row.was) - lines(row.is)), text:sub(last + 1)) -- Lines stay where they were.
  file:close()
  return path
end

local function build(row)
  local folder = ("%s/mutants/%d"):format(FOLDER, row.n)
  run("rm -rf " .. folder)
  local from, why = mutated(row, folder .. "/src")
  if not from then return folder, false, why end
  local text, code = run(("make --no-print-directory -s BUILD=%s MUTANT=%d WHERE=%s FROM=%s mutant")
    :format(FOLDER, row.n, row.where, from))
  return folder, code == 0, text
end

local function ask(folder, specs)
  local paths = {}
  for i, spec in ipairs(specs) do paths[i] = ("spec/%s.lua"):format(spec) end
  return run(("NEAP_LIB=$(realpath %s)/lib timeout 120 luajit /usr/bin/busted --ignore-lua "
    .. "-o spec/support/closing.lua %s"):format(folder, table.concat(paths, " ")))
end

-- ---- judging ---------------------------------------------------------------------------------

local fired = {} -- "file:line" of assertions

-- A check stands in a file of the layer, which may be one of several in its folder.
local function layer_of(path)
  local name = path:match "^layers/([%w_]+)"
  return name == "transport" and "udp" or name -- The one layer it serves.
end

local function is_own(row, file)
  return file == row.where or (layer_of(file) ~= nil and layer_of(row.where) == layer_of(file))
end

local function noticed(row, text, code)
  local file, line, belief =
    text:match "neap: csrc/([^:\n]+):(%d+): this was believed and is not so: ([^\n]*)"
  if file then fired[("%s:%s"):format(file, line)] = true end
  if code == 0 then return false, "survived" end
  if row.check and not (file and is_own(row, file)) then
    return false, "noticed, but not by its own check: " .. (belief or text:sub(-200))
  end
  if row.says and not text:find(row.says, 1, true) then
    return false, ("noticed, but nobody said %q"):format(row.says)
  end
  if belief then return true, belief end
  if code == 124 then return true, "it hung" end
  return true, ("\n" .. text):match "\nnot ok %d+ %- ([^\n]*)" or ("it ended with " .. code)
end

-- ---- assertions in checks --------------------------------------------------------------------

local function assertions()
  local list = {}
  for path in run("ls csrc/core/window.c csrc/layers/*.c csrc/layers/*/*.c | grep -v template")
    :gmatch "%S+" do
    local inside, n = false, 0
    for line in (text_of(path) .. "\n"):gmatch "(.-)\n" do
      n = n + 1
      local name, argument = line:match "^[%w_].-([%w_]+)%((%w*)"
      if name and argument == "const" and name:find "check" then inside = true end
      if line == "}" then inside = false end
      if inside and line:find "NEAP_ASSERT" then
        list[#list + 1] = { at = ("%s:%d"):format(path:match "^csrc/(.*)", n),
          text = line:match "^%s*(.*)" }
      end
    end
  end
  return list
end

local function show_unbroken()
  local all = assertions()
  local left = 0
  for _, one in ipairs(all) do
    if not fired[one.at] then
      left = left + 1
      print("  unbroken  " .. one.at .. "  " .. one.text)
    end
  end
  print(("%d of %d assertions in checks were broken"):format(#all - left, #all))
end

-- ---- the campaign ----------------------------------------------------------------------------

local chosen = {}
for i = 2, #arg do chosen[tonumber(arg[i])] = true end

local sound, bad, tried = {}, 0, 0
for _, row in ipairs(rows.read()) do
  if next(chosen) == nil or chosen[row.n] then
    tried = tried + 1
    local verdict, how
    for _, spec in ipairs(row.specs) do
      if sound[spec] == nil then sound[spec] = select(2, ask(FOLDER, { spec })) == 0 end
      if not sound[spec] then verdict, how = false, spec .. " fails without it" end
    end
    local folder, built, text = build(row)
    if not built then verdict, how = false, "not built: " .. text end
    if verdict == nil then verdict, how = noticed(row, ask(folder, row.specs)) end
    run("rm -rf " .. folder)
    if not verdict then bad = bad + 1 end
    print(("%4d %-8s %-26s %s"):format(row.n, verdict and "killed" or "ALIVE", row.where, how))
    io.stdout:flush()
  end
end
if next(chosen) == nil then show_unbroken() end
print(("%d mutants, %d killed, %d alive"):format(tried, tried - bad, bad))
os.exit(bad == 0 and 0 or 1)
