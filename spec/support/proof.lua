-- proof: builds and runs the properties in spec/support/proof/*.c, with the objects of the build.
--
--     proof "window"     an error with what was believed, unless it holds
--
-- NEAP_WRAPPER: a program that runs it, as valgrind.

local folder = require("support.build").folder
local sanitizers = os.getenv "NEAP_SAN" and "-fsanitize=address,undefined" or ""

local function run(command)
  -- Without a sanitizer that was loaded for the machine itself.
  local pipe = assert(io.popen(("env -u LD_PRELOAD sh -c '%s' 2>&1; echo rc $?"):format(command)))
  local text = pipe:read "*a"
  pipe:close()
  return text:match "rc (%d+)\n$" == "0", text
end

-- Something is newer than the program, or there is none.
local function stale(program)
  local ok = run(("test -x %s && ! find spec/support/proof %s/obj/base %s/obj/core -newer %s "
    .. "| grep -q ."):format(program, folder, folder, program))
  return not ok
end

return function(name)
  local program = folder .. "/proof"
  if stale(program) then
    local ok, text = run(("gcc -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -Icsrc "
      .. "-Ispec/support/proof %s -o %s.new spec/support/proof/*.c %s/obj/base/*.o %s/obj/core/*.o "
      .. "-lm && mv %s.new %s"):format(sanitizers, program, folder, folder, program, program))
    assert(ok, text)
  end
  local ok, text = run(("%s %s %s"):format(os.getenv "NEAP_WRAPPER" or "", program, name))
  assert(ok, text)
  return text
end
