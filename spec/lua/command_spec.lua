-- The command: help, check, show, run, sim, new, decode, and what it says when it is used wrongly.

local build = require "support.build"

local function neap(arguments, input)
  local command = ("timeout 60 %s %s"):format(build.neap, arguments)
  if input then command = command .. " <" .. build.write("command-input.txt", input) end
  return build.run(command)
end

local function has(text, expected)
  assert(text:find(expected, 1, true), ("no %q in:\n%s"):format(expected, text))
end

describe("neap help", function()
  it("explains a layer from its rows", function()
    local text, code = neap "help nakack"
    assert.equal(0, code)
    has(text, "gives: mcast_reliable mcast_fifo digest")
    has(text, "retransmission")
    has(text, "nak (nak | ack)")
  end)

  it("explains an attribute, an operation and a promise", function()
    has(neap "help stable.interval", "default 20s")
    has(neap "help nakack.trigger_xmit", "nakack.trigger_xmit() - ")
    has(neap "help view", "given by: gms")
  end)

  it("explains an attribute of all layers, a stack and a command", function()
    local text = neap "help gap_delay"
    has(text, "nakack.gap_delay - ")
    has(text, "unicast.gap_delay - ")
    has(neap "help lan", "stack lan - Reliable messages")
    has(neap "help check", "neap check STACK...")
  end)

  it("finds a call, an option of one, and all that one word is the name of", function()
    has(neap "help undo", "ann.stack:undo()\n  takes back the last set")
    has(neap "help neap.map", "(lua/README.md, State)")
    has(neap "help loopback", "ann:send(body, { ... })")
    local text = neap "help state"
    has(text, "state - a joiner can get the state of the group\ngiven by: state_transfer\n")
    has(text, "stack state - As lan")
    has(neap "help sync", "given by no layer yet\nbroken by: drop\n\nunicast.sync - ")
  end)

  it("says under which conditions a promise is needed or broken", function()
    has(neap "help nakack", "hears: view, stable (if retransmission = nak and "
      .. "resend_last_seqno_max_times is not 0 and force = false), ")
    has(neap "help dupl", "breaks: mcast_fifo ucast_fifo total (if honest = true)\n")
  end)

  it("answers an unknown word with the nearest one", function()
    local text, code = neap "help nakcak"
    assert.equal(1, code)
    has(text, "did you mean 'nakack'")
    has(neap "help stable.intervl", "did you mean 'interval'")
  end)
end)

describe("neap check", function()
  it("passes the shipped stacks and says what they give", function()
    local text, code = neap "check lan lossy teaching"
    assert.equal(0, code)
    has(text, "lan: good")
    has(text, "mcast_fifo")
    local lan, teaching = text:match "lan: good[^\n]*\n([^\n]*)\nlossy.-(teaching: good.*)$"
    has(lan, "jgroups5")
    assert.is_nil(teaching:match "gives:[^\n]*jgroups5")
    has(teaching, "leaves the wire format of JGroups by: fifo")
  end)

  it("tells all problems at once, with file and line", function()
    local path = build.write("wrong.lua", [[
return stack "wrong" {
  "Has problems.",
  nakcak {},
  gms { join_timeout = 500 },
  stable { intervall = "5s" },
  udp { ttl = 900 },
}
]])
    local text, code = neap("check " .. path)
    assert.equal(1, code)
    has(text, path .. ":3: no layer called 'nakcak' (did you mean 'nakack'?)")
    has(text, path .. ":4: gms.join_timeout:")
    has(text, path .. ":5: stable has no parameter 'intervall' (did you mean 'interval'?)")
    has(text, path .. ":6: udp.ttl: 900 is outside")
  end)

  it("says what is missing below a layer", function()
    local path = build.write("missing.lua", [[
return stack "missing" {
  "Nobody orders anything.",
  gms {},
  udp {},
}
]])
    local text, code = neap("check " .. path)
    assert.equal(1, code)
    has(text, path .. ":3: gms needs")
    has(text, "nakack")
  end)

  it("answers a file that is not there and one that does not compile", function()
    local path = build.scratch .. "/no-such-file.lua"
    local text, code = neap("check " .. path)
    assert.equal(1, code)
    has(text, path)
    text, code = neap("check " .. build.write("broken.lua", "return stack \"x\" {"))
    assert.equal(1, code)
    has(text, build.scratch .. "/broken.lua:1:")
  end)
end)

describe("neap show", function()
  it("says what it shows, and what that was made from", function()
    has(neap "show lossy", "lossy (from lan) - As lan, while")
    has(neap "show lan", "lan - Reliable")
  end)

  it("tells every value and where it comes from", function()
    local text, code = neap "show lan"
    assert.equal(0, code)
    assert(text:match "interval%s+20s%s+stacks/lan.lua:%d+", text)
    assert(text:match "ack_delay%s+5ms%s+default", text)
  end)
end)

describe("neap run and neap sim", function()
  it("give the file its arguments and pass on its failure", function()
    local path = build.write("arguments.lua", "print(arg[0], arg[1], ...) if arg[1] == 'bad' then "
      .. "error 'no good' end")
    local text, code = neap("run " .. path .. " one")
    assert.equal(0, code)
    has(text, path .. "\tone\tone")
    text, code = neap("run " .. path .. " bad")
    assert.equal(1, code)
    has(text, "no good")
    has(text, path .. ":1: in main chunk")
    assert(not text:find("commands/run.lua", 1, true), text)
  end)

  it("run a file once per seed, and say how to repeat a failure", function()
    local path = build.write("seeds.lua", [[
local sim = require("neap").sim {}
assert(sim.seed ~= 3, "three is bad")
]])
    local text, code = neap("sim " .. path .. " --seeds 1..4")
    assert.equal(1, code)
    has(text, ("neap sim %s --seeds 3"):format(path))
    has(text, "4 seeds, 1 failed")
    text, code = neap("sim " .. path .. " --seeds 4..1")
    assert.equal(2, code)
    has(text, "each seed from A up to B")
  end)
end)

describe("neap new layer", function()
  it("writes a layer that runs, and its spec", function()
    local new = build.scratch .. "/new"
    local up = (new:gsub("^[^/]+", "..")):gsub("/[^/]+", "/..") -- From there to here.
    if new:match "^/" then up = build.run("pwd"):match "%S+" end
    local lib = (build.lib:match "^/" and "" or up .. "/") .. build.lib
    local function there(command)
      return build.run(("cd %s && export NEAP_LIB=%s && %s"):format(new, lib, command))
    end
    build.run(("rm -rf %s; mkdir -p %s"):format(new, new))
    local text, code = there "timeout 60 ../../neap new layer counting"
    has(text, "wrote counting.lua")
    assert.equal(0, code)
    text = there(("LUA_PATH='%s/lua/?.lua;%s/lua/?/init.lua;;' LUA_CPATH='%s/?.so;;' "
      .. "timeout 60 luajit /usr/bin/busted --ignore-lua counting_spec.lua"):format(up, up, lib))
    has(text, "1 success / 0 failures")
    text, code = there "../../neap new layer counting"
    has(text, "is there already")
    assert.equal(1, code)
  end)
end)

describe("neap", function()
  it("answers arguments that cannot be", function()
    for arguments, answer in pairs { -- any order: each for itself
      ["decode /tmp"] = "neap decode: /tmp: Is a directory",
      ["new layer end"] = "neap new: 'end' is a word of Lua",
      ["repl --nodes ,"] = "neap repl: --nodes is followed by names",
    } do
      local text, code = neap(arguments)
      assert.equal(2, code)
      has(text, answer)
    end
  end)

  it("answers an unknown command, and none at all", function()
    local text, code = neap "chekc"
    assert.equal(2, code)
    has(text, "did you mean 'check'")
    text, code = neap ""
    assert.equal(2, code)
    has(text, "neap COMMAND")
  end)
end)

describe("neap repl", function()
  it("is clean with piped input: no prompt, values and errors printed, exit code", function()
    local text, code = neap("repl --nodes ann,bob", "1 + 1\n'a', nil, 3\nann.name\n")
    assert.equal(0, code)
    has(text, "2\n\"a\"\tnil\t3\nann\n")
    assert(not text:find "neap>", text)
    text, code = neap("repl --nodes ann", "error 'x'\n")
    assert.equal(1, code)
    has(text, "x")
  end)

  it("moves time only when told, and lets what waits go on then", function()
    local text = neap("repl --nodes ann,bob", 'now() == now()\nann:send("x", { rsvp = true })\n'
      .. 'run "50ms"\n')
    has(text, "true\n")
    has(text, "(it waits, and goes on when time does)\n")
    has(text, "bob < ann: x")
    has(text, "{ left = {} }")
  end)

  it("lives in a real group, and leaves it in the end #real", function()
    local group = "prompt-" .. os.time()
    local text, code = neap("repl --live --name ann --group " .. group,
      'ann:send("x", { rsvp = true })\nladder()\nmembers()\n')
    assert.equal(1, code) -- of ladder()
    has(text, "ann < ann: x")
    has(text, "ladder is for simulated members")
    has(text, "ann|0")
    assert(not text:find("leave waits", 1, true), text)
    text, code = neap("repl --live --name ann --group " .. group, "ann.name\n")
    assert.equal(0, code)
    has(text, "ann\n")
  end)

  it("answers what is misspelt", function()
    local text = neap("repl --nodes ann", "ann.stable.intervl\nanm\nann:sned 'x'\nhelp 'drp'\n"
      .. "ladder { membr = ann }\nann.nakack.sent = 1\n")
    has(text, "did you mean 'interval'")
    has(text, "did you mean 'ann'")
    has(text, "did you mean 'send'")
    has(text, "nothing is called 'drp' (did you mean 'drop'?)")
    has(text, "ladder has no option 'membr' (did you mean 'member'?)")
    has(text, "nakack.sent cannot be changed while running: it is a counter")
    assert(not text:find("prompt:1:", 1, true) and not text:find("?: ", 1, true), text)
  end)

  it("says who is not there, and leaves out what is nil at the end", function()
    local text = neap("repl --nodes ann,bob", "kill 'bo'\njoin()\nann.stack:und()\nann.drop\n"
      .. "drop { layer = 'nakack', times = 1 }\nann.stack:undo()\nann.unicast:ack()\n"
      .. "ann:send('x', { rsvp = true, timeout = '1s' })\npending()\n")
    has(text, "nil\t\"not a member\"\t\"nobody is called 'bo' (did you mean 'bob'?)\"\n")
    has(text, "join takes a name: join \"dee\"\n")
    has(neap("repl --nodes ann,bob", "members()\n"), "  name  coordinator  members  view\n")
    has(text, "the stack has no layer called 'und' (did you mean 'undo'?)\nnil\n1\n")
    has(text, "\"ann has set nothing that is not taken back\"\n")
    has(text, "the name of a peer is wanted, such as \\\"bob\\\"")
    has(text, "ann: a timer of rsvp is due in 333.4ms\n")
  end)

  it("says why nobody could join", function()
    local path = build.write("cannot-open.lua", [[
return extend("lan", { "Drops what cannot be.", before("udp", drop { when = "layr=nakack" }) })
]])
    local text, code = neap("repl " .. path, "ann\n")
    assert.equal(1, code)
    has(text, "neap repl: system: drop: cannot open: when: no header has a field 'layr'")
  end)

  it("goes on after what cannot be read or shown, and ends with 1", function()
    for _, chunk in ipairs {
      "bob:close()\nbob.nakack", ")", "error({})",
      "setmetatable({}, { __tostring = function() error 'q' end })",
    } do
      local text, code = neap("repl --nodes ann,bob", chunk .. "\nann.name\n")
      assert.equal(1, code)
      has(text, "\nann\n")
    end
  end)

  it("has words that say how they are written, and an end without parentheses", function()
    local text, code = neap("repl --nodes ann", "drop\nhelp\nquit\nann.name\n")
    assert.equal(0, code)
    has(text, "drop { layer = \"nakack\", seqno = 5, times = 1 }  lose what fits")
    has(text, "pending()")
    assert(not text:find("function: ", 1, true) and not text:find("\nann\n", 1, true), text)
  end)

  it("draws what rules did to a packet, and says what is waited for", function()
    local text = neap("repl", [[
delay { from = "ann", to = "bob", layer = "nakack", by = "30ms" }
drop { from = "ann", to = "cho", layer = "nakack", type = "msg", times = 1 }
ann:send "x"
pending()
run "20ms"
ladder(9)
hits(2)
]])
    has(text, "a packet from ann to bob: nakack msg seqno=1, 1 B")
    assert(text:find "o%-+>%-+x +nakack msg seqno=1, 1 B   %[bob: delayed by a rule, ", text)
    has(text, "arrives at 1231.0; cho: dropped by a rule]")
    assert(text:find "\n1\n$", text)
  end)

  it("completes members, layers and attributes, keeps history, and survives ^C #real", function()
    local typed = "sleep 2; "
      .. "printf 'ann.nak\\t.retr\\t\\n'; sleep 1; printf 'while true do end\\n'; "
      .. "sleep 1; printf '\\003'; sleep 1; printf 'for i = 1, 2 do\\nzzz'; sleep 1; "
      .. "printf '\\003'; sleep 1; printf '6*7\\n\\004'"
    local home = build.scratch .. "/home"
    local text = build.run(("rm -rf %s; mkdir -p %s; (%s) | HOME=%s TERM=dumb timeout 30 "
      .. "script -qec '%s repl --nodes ann' /dev/null"):format(home, home, typed, home, build.neap))
    has(text, "ann.nakack.retransmission")
    has(text, "\nnak")
    has(text, "interrupted")
    has(text, "42")
    local f = assert(io.open(home .. "/.neap_history"))
    has(f:read "*a", "6*7")
    f:close()
  end)
end)
