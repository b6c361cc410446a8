-- neap: the command.  `build/neap` and the installed `neap` start LuaJIT with this file.

local root, lib = os.getenv "NEAP_ROOT" or ".", os.getenv "NEAP_LIB" or "build/lib"
if not package.path:find(root .. "/lua/?.lua", 1, true) then
  package.path = ("%s/lua/?.lua;%s/lua/?/init.lua;%s"):format(root, root, package.path)
  package.cpath = ("%s/?.so;%s"):format(lib, package.cpath)
end

local command = {}

-- name, arguments, what it does, module, function; more: what help of this one adds.
local COMMANDS = {
  { "run", "FILE [ARGS]", "runs a Lua file, arguments in arg", "neap.commands.run" },
  { "repl", "[STACK] [--live]", "the prompt: simulated members, or a member of a real group",
    "neap.commands.repl", more = [[

  --nodes ann,bob,cho   the simulated members
  --seed 7 --loss 0.1   what happens to packets; equal seeds repeat it
  --live --name ann --group chat   one member of a real group; others may be on this host or network

Lines from a pipe are run one after the other, without a prompt; the code is 1 if one failed.]] },
  { "check", "STACK...", "all problems of stack files at once", "neap.commands.check" },
  { "show", "STACK", "the effective configuration and where each value comes from",
    "neap.commands.check", "show" },
  { "help", "[WORD]", "a layer, an attribute, a promise, a stack, a command",
    "neap.commands.help" },
  { "sim", "FILE --seeds A..B", "runs a file once per seed", "neap.commands.run", "sim" },
  { "decode", "FILE.pcap [--json]", "a capture as readable lines", "neap.decode" },
  { "dissector", "> neap.lua", "writes a dissector for Wireshark and tshark",
    "neap.commands.dissector", more = [[

It says of each packet what `neap decode` says, and every field can be filtered:

  tshark -X lua_script:neap.lua -r FILE -Y 'neap.nakack.seqno == 5'
  tshark -X lua_script:neap.lua -i lo -Y 'neap.header contains "gms"'

In Wireshark: put it into the folder of personal Lua plugins (Help, About, Folders).]] },
  { "bench", "[--json]", "measures and prints the table", "neap.commands.bench" },
  { "new", "layer NAME", "writes a layer in Lua that runs, and its spec", "neap.commands.new" },
  { "doc", "[--check]", "writes the generated pages", "neap.commands.doc" },
}

-- Of all commands, or of one: nil when there is none of that name.
function command.usage(name)
  local rows = {}
  for _, row in ipairs(COMMANDS) do
    if name == row[1] then
      return ("neap %s %s   %s%s"):format(row[1], row[2], row[3], row.more or "")
    end
    rows[#rows + 1] = { row[1], row[2], row[3] }
  end
  if name then return nil end
  return "neap COMMAND ...\n\n" .. require("neap.commands.help").columns(rows)
end

function command.main(args)
  local name = table.remove(args, 1)
  if not name or name == "-h" or name == "--help" then
    io.write(command.usage(), "\n")
    return name and 0 or 2
  end
  local names = {}
  for _, row in ipairs(COMMANDS) do
    if row[1] == name and (args[1] == "-h" or args[1] == "--help") then
      io.write(command.usage(name), "\n")
      return 0
    elseif row[1] == name then
      local module = require(row[4])
      return module[row[5] or "main"](args) or 0
    end
    names[#names + 1] = row[1]
  end
  io.stderr:write(("neap: no command '%s'%s\n"):format(name, require "neap.nearest"(name, names)))
  return 2
end

package.loaded["neap.command"] = command

local arguments = { ... }
if arguments[1] == "neap.command" then return command end -- It was required.
local ok, code = xpcall(command.main, function(problem)
  problem = tostring(problem)
  -- A mistake in what was asked for; anything else is ours, and comes with the way to it.
  if not problem:find "^[^%s:]+%.lua:%d+: " or not problem:find(root, 1, true) then
    return (problem:gsub("^%?: ", ""))
  end
  return debug.traceback(problem, 2)
end, arguments)
if not ok then
  io.stderr:write("neap: ", tostring(code), "\n")
  code = 1
end
io.stdout:flush()
os.exit(code, true)
