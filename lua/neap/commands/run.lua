-- neap run FILE [ARGS]: the file as with `luajit FILE`, with `require "neap"` at hand.
-- neap sim FILE --seeds A..B: the file once per seed; neap.sim {} without a seed takes it.

local run = {}

-- A traceback without the lines of Neap's own files, unless there are no others.
local function trimmed(problem)
  local ours = debug.getinfo(1, "S").source:match "^@(.*/)commands/" or "./"
  local head, trace = problem:match "^(.-\nstack traceback:)(.*)$"
  if not head then return problem end
  local lines = {}
  for line in trace:gmatch "\n([^\n]+)" do
    if not line:find(ours, 1, true) and not line:find("^%s*%[C%]") then
      lines[#lines + 1] = line
    end
  end
  return #lines > 0 and head .. "\n" .. table.concat(lines, "\n") or problem
end

local function load_file(path)
  local chunk, problem = loadfile(path)
  if not chunk then io.stderr:write("neap: ", problem, "\n") end
  return chunk
end

-- Runs the file; 0, or 1 after its error was told.
local function run_file(path, args)
  local chunk = load_file(path)
  if not chunk then return 1 end
  args[0] = path
  rawset(_G, "arg", args)
  local ok, why = xpcall(function() return chunk(unpack(args)) end, function(value)
    if value == nil then return nil end -- It only ends: whoever raised it has told why.
    return type(value) == "string" and value:find "\nstack traceback:" and value
      or debug.traceback(tostring(value), 2)
  end)
  if ok then return 0 end
  if why ~= nil then io.stderr:write("neap: ", trimmed(tostring(why)), "\n") end
  return 1
end

function run.main(args)
  local path = table.remove(args, 1)
  if not path then
    io.stderr:write "neap run FILE [ARGS]\n"
    return 2
  end
  return run_file(path, args)
end

function run.sim(args)
  local path, from, to, rest = nil, nil, nil, {}
  local index = 1
  while index <= #args do
    if args[index] == "--seeds" then
      from, to = (args[index + 1] or ""):match "^(%d+)%.%.(%d+)$"
      if not from then from = (args[index + 1] or ""):match "^%d+$"; to = from end
      index = index + 1
    elseif not path then
      path = args[index]
    else
      rest[#rest + 1] = args[index]
    end
    index = index + 1
  end
  if not path or not from or tonumber(from) > tonumber(to) or tonumber(to) >= 2 ^ 53 then
    io.stderr:write "neap sim FILE --seeds A..B [ARGS]: each seed from A up to B\n"
    return 2
  end
  if not load_file(path) then return 1 end
  local Sim, failed = require "neap.sim", 0
  for seed = tonumber(from), tonumber(to) do
    Sim.default_seed = seed
    if run_file(path, { unpack(rest) }) ~= 0 then
      failed = failed + 1
      io.stderr:write(("seed %d failed; again: neap sim %s --seeds %d\n"):format(seed, path, seed))
    end
  end
  io.write(("%d seeds, %d failed\n"):format(tonumber(to) - tonumber(from) + 1, failed))
  return failed == 0 and 0 or 1
end

return run
