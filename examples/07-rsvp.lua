-- When does a synchronous send return?  ann sends to all; bob's callback takes 30 ms over it, cho
-- is paused for 60 ms, dee has missed the message before.  Each policy waits for something else.
-- Then what is sent again when nobody else finds a loss, and what is said of one who never answers.
--
--     neap run examples/07-rsvp.lua

local neap = require "neap"

local NAMES = { "ann", "bob", "cho", "dee" }

local function group(rsvp)
  local sim, members = neap.sim { seed = 7, latency = "1ms" }, {}
  for _, name in ipairs(NAMES) do
    members[name] = sim:join("group", { stack = "lan", name = name,
      with = { rsvp = rsvp, nakack = { gap_delay = "20ms" }, fd_all = { timeout = "1min" } },
      on = { message = function(msg)
        if name == "bob" and msg.body == "slow" then neap.sleep "30ms" end
      end } })
    sim:run "2s"
  end
  return sim, members
end

-- Sends it, and says after how long each member had answered, or did not.
local function row(label, sim, ann, options, time)
  options.wait = false
  local cells, result, began = {}, "", sim:now()
  local handle = ann:send("slow", options)
  sim:spawn(function()
    local ok, code, detail = handle:wait()
    result = ("after %.0f ms: %s"):format((neap.now() - began) / 1e6, ok and "true" or code)
    if not ok then result = result .. ", missing " .. table.concat(detail.missing, " ") end
    if ok and #code.left > 0 then result = result .. ", left " .. table.concat(code.left, " ") end
  end)
  sim:run(time or "500ms")
  for i, name in ipairs(NAMES) do
    local took = handle.acked[name]
    cells[i] = ("%9s"):format(took and ("%.0f ms"):format(took.ns / 1e6) or "-")
  end
  local rsvp = ann.rsvp
  for _, what in ipairs { "beacons", "payloads" } do
    local sent = rsvp[what .. "_sent"]
    if sent > 0 then result = result .. (", %s sent: %d"):format(what, sent) end
  end
  print(("%-12s"):format(label) .. table.concat(cells) .. "   " .. result)
end

local function title(text)
  print(("\n%-12s"):format(text) .. ("%9s"):rep(#NAMES):format(unpack(NAMES)) .. "   returns")
end

title "waits for"
for _, ack_on in ipairs { "reception", "completion", "delivery" } do
  local sim, m = group {}
  sim:drop { from = "ann", to = "dee", body = "before", times = 1 } -- It comes when asked for.
  m.ann:send "before"
  sim:spawn(function()
    sim:pause "cho"
    neap.sleep "60ms"
    sim:resume "cho"
  end)
  row(ack_on, sim, m.ann, { rsvp = ack_on })
end

title "sends again" -- It is lost on its way to cho, and so is every announcement of it.
for _, resend in ipairs { "auto", "beacon", "payload", "off" } do
  local sim, m = group { resend = resend, resend_interval = "100ms", timeout = "400ms" }
  sim:drop { from = "ann", to = "cho", body = "slow", times = 1 }
  sim:drop { from = "ann", to = "cho", layer = "nakack", type = "highest" }
  row(resend, sim, m.ann, { rsvp = true })
end

title "cho is gone" -- Until the view says so, a minute later, it is waited for.
for _, timeout in ipairs { "2s", "5min" } do
  local sim, m = group { resend_interval = 0 }
  sim:kill "cho"
  row(timeout, sim, m.ann, { rsvp = true, timeout = timeout }, "3min")
end
