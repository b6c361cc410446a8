-- neap check STACK...: all problems of stack files at once; opens nothing.
-- neap show STACK: the effective configuration, with the origin of each value.

local core = require "neap.core"
local ffi = require "ffi"
local reference = require "neap.reference"
local stack = require "neap.stack"

local check = {}

-- What a good stack gives, and which of its layers leave the common wire format.
local function promise_lines(name, description)
  local words = core.promises(stack.ready(name).spec)
  local lines, leave = { "  gives: " .. table.concat(words, " ") }, {}
  for _, layer in ipairs(description.layers) do
    local breaks = layer.class.class.breaks
    if breaks ~= nil and reference.has(ffi.string(breaks), "jgroups5") then
      leave[#leave + 1] = layer.name
    end
  end
  if #leave > 0 then
    lines[2] = "  leaves the wire format of JGroups by: " .. table.concat(leave, " ")
  end
  return table.concat(lines, "\n")
end

function check.main(args)
  if #args == 0 then
    io.stderr:write "neap check STACK...: name the stacks to check\n"
    return 2
  end
  local bad = 0
  for _, name in ipairs(args) do
    local problems, description = stack.problems(name)
    for _, problem in ipairs(problems) do io.stderr:write(problem, "\n") end
    if #problems > 0 then
      bad = bad + 1
    else
      io.write(("%s: good: %s\n%s\n"):format(name, description.sentence or "",
        promise_lines(name, description)))
    end
  end
  return bad == 0 and 0 or 1
end

-- The value that holds for an attribute, and where it comes from.
local function effective(layer, attr)
  for index = #layer.settings, 1, -1 do
    local setting = layer.settings[index]
    if setting.name == attr.name then return tostring(setting.value), setting.at end
  end
  return attr.default, "default"
end

function check.show(args)
  if #args ~= 1 then
    io.stderr:write "neap show STACK\n"
    return 2
  end
  local problems, description = stack.problems(args[1])
  for _, problem in ipairs(problems) do io.stderr:write(problem, "\n") end
  if #problems > 0 then return 1 end
  local columns = require("neap.commands.help").columns
  local base = description.name ~= args[1] and (" (from %s)"):format(description.name) or ""
  io.write(("%s%s - %s\n"):format(args[1], base, description.sentence or ""))
  for _, layer in ipairs(description.layers) do
    local rows = {}
    for _, attr in ipairs(reference.layer(layer.class.name).attrs) do
      if attr.kind == "param" then
        local value, from = effective(layer, attr)
        rows[#rows + 1] = { attr.name, value, from }
      end
    end
    io.write(("\n%s (%s)\n"):format(layer.name, layer.at))
    if #rows > 0 then io.write(columns(rows), "\n") end
  end
  return 0
end

return check
