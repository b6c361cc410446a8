-- test: every spec with its variants, and one closing line over all of them.
--
--   specs       JIT on: everything
--   joff        the interpreter: everything but what opens sockets
--   sanitizers  address, undefined behaviour, leaks: everything; sockets in a part of their own
--   valgrind    spec/base and spec/core
--   luacheck    all Lua files
--
-- Variants run side by side, two lanes for two cores, in two rounds:
--
--     1   specs            sanitizers
--     2   joff             sockets, valgrind
--
-- so that one variant at a time opens sockets.  What failed is shown; the whole output of a variant
-- stays in build/test-<variant>.txt.

local passed, failed, skipped = 0, 0, 0

local function there(command)
  local result = os.execute(command .. " >/dev/null 2>&1")
  return result == true or result == 0
end

local function output_of(name) return ("build/test-%s.txt"):format(name) end

local function show_failures(text)
  local shown = false
  for line in text:gmatch "[^\n]+" do
    if line:match "^not ok" then shown = true elseif line:match "^ok" then shown = false end
    if shown then print("    " .. line) end
  end
end

local function show_skipped(text)
  for reason in text:gmatch "\nok %d+ %- # SKIP ([^\n]+)" do print("    skipped: " .. reason) end
end

local function judge(variant)
  local name = variant[1]
  local file = assert(io.open(output_of(name)))
  local text = file:read "*a"
  file:close()
  local code, seconds = text:match "\nrc (%d+) after (%d+) s\n$"
  local p, f, s
  for a, b, c in text:gmatch "(%d+) passed, (%d+) failed, (%d+) skipped" do p, f, s = a, b, c end
  if not p then p, f, s = 0, 1, 0 end -- It did not get to its closing line.
  if code ~= "0" and tonumber(f) == 0 then f = 1 end -- A leak, a crash at exit.
  passed, failed, skipped = passed + p, failed + f, skipped + s
  print(("%-11s %s passed, %s failed, %s skipped (%s s)"):format(name, p, f, s, seconds or "?"))
  show_skipped(text)
  if tonumber(f) > 0 then
    show_failures(text)
    print(("    the end of %s:"):format(output_of(name)))
    print("    " .. text:sub(-3000):gsub("\n", "\n    "))
  end
end

-- Lanes side by side; the variants of a lane one after the other.
local function round(...)
  local commands = {}
  for n, lane in ipairs { ... } do
    local steps = {}
    for _, variant in ipairs(lane) do
      steps[#steps + 1] = ('since=$(date +%%s); ( %s ) >%s 2>&1; '
        .. 'printf "\\nrc %%s after %%s s\\n" $? $(($(date +%%s) - since)) >>%s'):format(
        variant[2], output_of(variant[1]), output_of(variant[1]))
    end
    commands[n] = ("{ %s; } &"):format(table.concat(steps, "; "))
  end
  os.execute(table.concat(commands, "\n") .. "\nwait")
  for _, lane in ipairs { ... } do
    for _, variant in ipairs(lane) do judge(variant) end
  end
end

local BUSTED = "/usr/bin/busted --ignore-lua -o spec/support/closing.lua"

local function sanitized(arguments)
  return 'LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" '
    .. "ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=halt_on_error=1 "
    .. ('NEAP_LIB="$PWD/build/san/lib" NEAP_SAN=1 luajit %s %s'):format(BUSTED, arguments)
end

local MEMCHECK = "valgrind -q --error-exitcode=9"
local function valgrind()
  return ('NEAP_WRAPPER="%s --leak-check=full" %s luajit -joff %s '
    .. "spec/base spec/core"):format(MEMCHECK, MEMCHECK, BUSTED)
end

if there "luacheck -q lua spec stacks examples" then
  print "luacheck    clean"
  passed = passed + 1
else
  os.execute "luacheck -q lua spec stacks examples"
  failed = failed + 1
end

local last = { { "sockets", sanitized "--tags=real --exclude-tags=slow" } }
if there "command -v valgrind" then
  last[2] = { "valgrind", valgrind() }
else
  print "valgrind    skipped: there is no valgrind"
  skipped = skipped + 1
end
round({ { "specs", "luajit " .. BUSTED } },
  { { "sanitizers", sanitized "--exclude-tags=slow,real" } })
round({ { "joff", ("NEAP_LUAJIT=-joff luajit -joff %s --exclude-tags=real,slow"):format(BUSTED) } },
  last)

print(("%d passed, %d failed, %d skipped"):format(passed, failed, skipped))
os.exit(failed == 0 and 0 or 1)
