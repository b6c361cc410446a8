-- mistake: errors of the user are raised at the user's line, however deep we found out.

local here = debug.getinfo(1, "S").source:match "^(.*/)mistake%.lua$" or "@./"
local layers = here .. "layers/"

local mistake = {}

-- "file:line" of the nearest frame that is not ours; nil when `last`, a function, comes first.
function mistake.where(last)
  for level = 2, 60 do
    local frame = debug.getinfo(level, "Slf")
    if not frame then break end
    if last and frame.func == last then return nil end
    local ours = frame.source:sub(1, #here) == here and frame.source:sub(1, #layers) ~= layers
    if not ours and frame.currentline > 0 then
      return ("%s:%d"):format(frame.short_src, frame.currentline), frame.short_src,
        frame.currentline
    end
  end
  return "?", "?", 0
end

local place -- where what raises now is told to be; nil: where it is

function mistake.raise(format, ...)
  error(("%s: " .. format):format(place or mistake.where(), ...), 0)
end

-- f(...), whose mistakes stand at `where`: a call in a `return` leaves no frame to find.
function mistake.at(where, f, ...)
  local before = place
  place = where
  local ok, result = pcall(f, ...)
  place = before
  if not ok then error(result, 0) end
  return result
end

-- Any error value as text, with where it came from.
function mistake.traceback(value)
  local text
  if type(value) == "string" then
    text = value
  else
    local ok, shown = pcall(tostring, value)
    text = ok and shown or "(an error that cannot be shown)"
    if type(value) == "table" and type(value.message) == "string" then text = value.message end
  end
  return debug.traceback(text, 2)
end

return mistake
