-- stack_file: finds files of stacks, and knows at which line one is while it runs.

local mistake = require "neap.mistake"

local stack_file = {}

-- Instructions between two looks, and how many looks: two million take about half a second.
local STEP, STEPS = 1000, 2000
local ENDLESS = "%s:%d: this runs without end: no stack after %d million instructions"

function stack_file.readable(path)
  local file = io.open(path, "r")
  if file then file:close() end
  return file ~= nil
end

-- The folder so many levels above this file's.
local function above(levels)
  local here = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
  for level = 1, levels do
    local parent = here:match "^(.*/)[^/]+/$"
    if not parent or here:match "%.%./$" then return here .. ("../"):rep(levels - level + 1) end
    here = parent
  end
  return here
end

-- Folders with stacks that are there: of the working directory, of the tree, of an installation.
function stack_file.folders()
  local list = {}
  for _, folder in ipairs { "stacks/", above(2) .. "stacks/", above(1) .. "stacks/",
    above(3) .. "neap/stacks/" } do
    if stack_file.readable(folder) then list[#list + 1] = folder end
  end
  return list
end

-- The path of the stack with this name, or that is a path; nil when there is none.
function stack_file.path(name)
  if name:find "/" or name:match "%.lua$" then return name end
  for _, folder in ipairs(stack_file.folders()) do
    if stack_file.readable(folder .. name .. ".lua") then return folder .. name .. ".lua" end
  end
end

-- Names of the stacks in these folders, for "did you mean".
function stack_file.names()
  local names = {}
  for _, folder in ipairs(stack_file.folders()) do
    local listing = io.popen(("ls '%s' 2>/dev/null"):format(folder:gsub("'", "'\\''")))
    for line in listing and listing:lines() or function() end do
      names[#names + 1] = line:match "^(.*)%.lua$"
    end
    if listing then listing:close() end
  end
  return names
end

-- Enough of a path for a person.
function stack_file.shown(path)
  return path:match "[^/]*/?[^/]*$"
end

-- The line at which the `return` stands that ends at `line` of this source.
local function return_line(source, line)
  local file = io.open(source:match "^@(.*)$" or "", "r")
  local found, number = line, 0
  for text in file and file:lines() or function() end do
    number = number + 1
    if number <= line and text:find "%f[%w_]return%f[^%w_]" then found = number end
  end
  if file then file:close() end
  return found
end

-- Calls body(), which runs a chunk, and gives a function that says where the chunk is meanwhile.
-- A call in a `return` leaves no frame behind, so the lines are followed: `return extend(...)`.
-- A loop without end is stopped; the chunk is not compiled, for compiled code looks at no hooks.
function stack_file.followed(chunk, body)
  local about, line, running, steps = debug.getinfo(chunk, "S"), 0, false, 0
  local hook, mask, count = debug.gethook()
  local function follow(event, now)
    local inside = debug.getinfo(2, "S").source == about.source
    if event == "line" then
      if inside then line = now end
      return
    end
    steps = steps + 1
    if steps < STEPS or steps > STEPS and not inside then return end
    debug.sethook(follow, "l", 1) -- From now on nothing of it runs: a pcall does not help.
    error(ENDLESS:format(about.short_src, line, STEP * STEPS / 1e6), 0)
  end
  local function on() debug.sethook(follow, "l", steps < STEPS and STEP or 1) end
  local function at()
    if not running then return (mistake.where()) end
    debug.sethook(hook, mask, count) -- What follows is ours.
    local where = mistake.where(body)
    steps = steps + 1 -- The count begins anew.
    on()
    return where or ("%s:%d"):format(about.short_src,
      return_line(about.source, math.max(line, about.linedefined, 1)))
  end
  return at, function(...)
    jit.off(chunk, true)
    on()
    running = true
    local ok, result = xpcall(body, ...)
    running = false
    debug.sethook(hook, mask, count)
    return ok, result
  end
end

return stack_file
