-- Each example runs and says what it is there to say.

local build = require "support.build"

local function example(name, arguments, input)
  local command = ("timeout 60 %s run examples/%s %s"):format(build.neap, name, arguments or "")
  if input then command = ("printf '%s' | %s"):format(input, command) end
  local text, code = build.run(command)
  assert(code == 0, text)
  return text
end

local function has(text, pattern)
  assert(text:find(pattern), ("no %q in:\n%s"):format(pattern, text))
end

describe("examples", function()
  it("01 finds the other one and says hello #real", function()
    local text = example "01-hello.lua"
    has(text, "view ann|1: ann bob")
    has(text, "bob hears from ann: hello")
    has(text, "ann hears from bob: nice to meet you")
  end)

  it("02 sends lines to the group #real", function()
    local text = example("02-chat.lua", "ann chat-" .. os.time(), "hello\\n/ann psst\\n")
    has(text, "%* here now: ann")
    has(text, "ann: hello")
    has(text, "ann %(to you%): psst")
  end)

  it("03 finds what was lost and shows how", function()
    local text = example "03-lost-and-found.lua"
    has(text, "bob: dropped by a rule")
    has(text, "xmit_req")
    has(text, "cho has: message 1, message 2, message 3, message 4")
  end)

  it("04 loses with a layer of ten lines, and nakack repairs", function()
    local text = example "04-your-first-layer.lua"
    has(text, "bare: +bob got 1 2 4 5 7 8 ")
    has(text, "under nakack: +bob got 1 2 3 4 5 6 7 8 9 ")
  end)

  it("05 goes from nak to ack and back and loses nothing", function()
    has(example "05-toggle.lua", "6000 sent; bob got 6000, cho got 6000, in order, once")
  end)

  it("06 is a member of a group in C #real", function()
    if os.getenv "NEAP_SAN" then pending "a program of its own, without the sanitizers" end
    local lib, program = build.lib, build.folder .. "/06-embed"
    local text, code = build.run(("cc -Wall -Werror -Icsrc examples/06-embed.c -L%s -lneap "
      .. "-Wl,-rpath,$(realpath %s) -o %s && timeout 20 %s ann"):format(lib, lib, program, program))
    assert(code == 0, text)
    has(text, "view ann|0: ann")
    has(text, "ann: hello from C")
    has(text, "1: everybody has it\n2: everybody has it\nstable.interval is 5s")
    has(text, "refused: stable.interval: cannot read \"5 parsecs\" as a time")
    has(text, "closed: left")
  end)

  it("07 shows who is waited for under each policy", function()
    local text = example "07-rsvp.lua"
    has(text, "\nreception +0 ms +2 ms +61 ms +2 ms +after 61 ms: true\n")
    has(text, "\ncompletion +0 ms +2 ms +61 ms +1%d ms +after 61 ms: true\n")
    has(text, "\ndelivery +0 ms +32 ms +61 ms +1%d ms +after 61 ms: true\n")
    has(text, "\npayload .* true, payloads sent: 1\n")
    has(text, "\noff .* timeout, missing cho\n")
    has(text, "\n5min .* true, left cho\n")
  end)

  it("08 takes a state and shows how far it is", function()
    local text = example "08-joiner.lua"
    has(text, "%[#####     %]  50 %%")
    has(text, "done: true, 2160004 bytes")
    has(text, "in the end: ann 1500, cho 1500")
  end)

  it("09 breaks things below those who repair, and above", function()
    local text = example "09-broken-on-purpose.lua"
    for _, row in ipairs { "drop     1 2 3 4 5 6 7 8   1 2 4 5 6 7 8",
      "dupl     1 2 3 4 5 6 7 8   1 2 3 3 4 5 6 7 8", "delay    1 2 3 4 5 6 7 8   1 2 4 5 6 7 8 3",
      "shuffle  1 2 3 4 5 6 7 8   2 3 1 4" } do
      has(text, row)
    end
  end)

  it("10 has one map everywhere, also for who comes late", function()
    local text = example "10-map.lua"
    has(text, "bob sees: rum 9 %-> nothing")
    has(text, "the same: true")
    has(text, "everybody has dee's gin for 12")
  end)
end)
