-- A chat: what you type goes to everybody in the group.  Start it in several terminals.
--
--     neap run examples/02-chat.lua ann [GROUP]        "/bob psst" is for bob alone; ^D leaves

local neap = require "neap"
local name, group = arg[1] or "guest", arg[2] or "chat"

io.stdout:setvbuf "line"

local function on_message(msg)
  print(("%s%s: %s"):format(msg.from, msg.to and " (to you)" or "", msg.body))
end

neap.run(function()
  local me, code, detail = neap.join(group, {
    stack = "lan", name = name,
    on = {
      message = on_message,
      view = function(view) print("* here now: " .. table.concat(view.members, ", ")) end,
    },
  })
  if not me then error(("cannot join: %s (%s)"):format(code, tostring(detail)), 0) end

  for line in neap.read_line do
    local to, text = line:match "^/(%S+)%s+(.*)$"
    local ok, problem = pcall(function() return me:send(text or line, { to = to }) end)
    if not ok then print("* " .. tostring(problem)) end
  end
  me:leave()
end)
