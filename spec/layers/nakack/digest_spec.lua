-- What digest events do to own, foreign, unknown and unlisted streams (gap G26): a program in C,
-- for nothing above nakack says the words one by one.

local build = require "support.build"

local function run(command)
  -- Without a sanitizer that was loaded for the machine itself.
  return build.run(("env -u LD_PRELOAD sh -c '%s'"):format(command))
end

describe("digest events", function()
  it("set what is missing, raise what is lower, restart what is overwritten", function()
    local folder, program = build.folder, build.folder .. "/digest_events"
    local sanitizers = os.getenv "NEAP_SAN" and "-fsanitize=address,undefined" or ""
    local objects = ("@/base/*.o @/core/*.o @/layers/nakack.o @/layers/nakack/*.o")
      :gsub("@", folder .. "/obj")
    local text, code = run(("gcc -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -Icsrc %s "
      .. "-o %s spec/support/digest_events.c %s -lm"):format(sanitizers, program, objects))
    assert(code == 0, text)
    text, code = run(program)
    assert(code == 0, text)
    assert.matches("held", text)
  end)
end)
