-- test: every spec with its variants, and one closing line over all of them.
--
--   specs       JIT on: everything
--   -joff       the interpreter: everything but spec/real
--   sanitizers  address, undefined behaviour, leaks: everything
--   valgrind    undefined values too, under the interpreter: spec/base and spec/core
--   luacheck    all Lua files
--
-- A variant that fails shows what failed; its whole output stays in build/test-<variant>.txt.

local passed, failed, skipped = 0, 0, 0

local function capture(command, file)
  local ok = os.execute(("( %s ) >%s 2>&1"):format(command, file))
  local f = assert(io.open(file))
  local text = f:read "*a"
  f:close()
  return text, ok == true or ok == 0
end

local function show_failures(text)
  local shown = false
  for line in text:gmatch "[^\n]+" do
    if line:match "^not ok" then shown = true elseif line:match "^ok" then shown = false end
    if shown then print("    " .. line) end
  end
end

local function variant(name, command)
  local file = "build/test-" .. name .. ".txt"
  local started = os.time()
  local text, ok = capture(command, file)
  local p, f, s = text:match "(%d+) passed, (%d+) failed, (%d+) skipped%s*\n?[^\n]*\n?$"
  if not p then p, f, s = 0, 1, 0 end -- It did not get to its closing line.
  if not ok and tonumber(f) == 0 then f = 1 end -- A leak, a crash at exit.
  passed, failed, skipped = passed + p, failed + f, skipped + s
  local seconds = os.time() - started
  print(("%-11s %s passed, %s failed, %s skipped (%d s)"):format(name, p, f, s, seconds))
  if tonumber(f) > 0 then
    show_failures(text)
    print(("    the end of %s:"):format(file))
    print("    " .. text:sub(-3000):gsub("\n", "\n    "))
  end
end

local busted = "/usr/bin/busted --ignore-lua -o spec/support/closing.lua"
local function asan(command)
  return 'LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" '
    .. "ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=halt_on_error=1 "
    .. "NEAP_LIB=build/san/lib NEAP_SAN=1 " .. command
end

local text, ok = capture("luacheck -q lua spec stacks examples", "build/test-luacheck.txt")
if ok then passed = passed + 1 else failed = failed + 1; print(text) end
print(("%-11s %s"):format("luacheck", ok and "clean" or "failed"))

variant("specs", "luajit " .. busted)
variant("joff", "luajit -joff " .. busted .. " --exclude-tags=real,slow")
variant("sanitizers", asan("luajit " .. busted .. " --exclude-tags=slow"))
local valgrind = "valgrind -q --error-exitcode=9 --leak-check=full"
variant("valgrind", ("NEAP_WRAPPER='%s' %s luajit -joff %s spec/base spec/core"):format(valgrind,
  valgrind, busted))

print(("%d passed, %d failed, %d skipped"):format(passed, failed, skipped))
os.exit(failed == 0 and 0 or 1)
