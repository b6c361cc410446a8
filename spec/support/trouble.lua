-- trouble: what goes wrong in a swarm while its members talk, beyond what the network does.
-- trouble[kind](story, name) does it once, to one member, and returns when it is over.

local trouble = {}

function trouble.pauses(story, name)
  if story.paused[name] or not story:together() then return end
  story.paused[name] = true
  story.sim:pause(name)
  story:sleep(story.c:pick { 20, 300, 2000, 5000 })
  if story:is_alive(name) then story.sim:resume(name) end
  story.paused[name] = nil
end

function trouble.crashes(story, name)
  if #story:alive() <= 2 or story.crashed >= story.plan.count / 2 then return end
  story.crashed = story.crashed + 1
  story.gone[name] = true
  if story.addresses[name] then story.oracle:gone(story.addresses[name]) end
  story.sim:kill(name)
  if story.plan.has.returns and story.c:yes(0.5) then
    story:sleep(story.c:pick { 1, 500, 5000 })
    story.returned[name] = true
    story:join_late(name)
  end
end

-- Beyond the time after which the others give it up: it comes back under another address.
function trouble.long_pauses(story, name)
  if story.paused[name] or #story:alive() <= 2 or story.long_paused or not story:together() then
    return
  end
  story.long_paused, story.paused[name] = true, true
  story.sim:pause(name)
  story:sleep(18000)
  if story:is_alive(name) then story.sim:resume(name) end
  story.paused[name] = nil
end

-- The network falls apart, not for so long that anybody is given up.  Not while somebody comes in:
-- who finds nobody founds a group of its own, and parts of two or more stay apart.
function trouble.cuts(story)
  if not story:together() then return end
  story.cut = true
  local sides = { {}, {} }
  for _, name in ipairs(story:alive()) do table.insert(story.c:pick(sides), name) end
  story.sim:partition(sides[1], sides[2])
  story:sleep(story.c:pick { 10, 100, 1000 })
  story.sim:heal()
  story.cut = false
  story:sleep(3000)
end

local CHANGES = {
  nakack = {
    window_bytes = { "20KB", "200KB", "4MB" }, window_messages = { 16, 256, 16384 },
    xmit_interval = { "20ms", "500ms" }, max_xmit_req_size = { 64, 1024 },
  },
  unicast = { window_bytes = { "10KB", "4MB" }, window_messages = { 8, 1024 } },
  mfc = { max_credits = { "10KB", "200KB", "4MB" } },
  ufc = { max_credits = { "10KB", "200KB", "4MB" } },
  frag = { frag_size = { "1KB", "20KB", "60KB" } },
  stable = { interval = { "1s", "20s" }, max_bytes = { "50KB", "2MB" } },
  rsvp = {
    ack_on = { "reception", "completion", "delivery" }, resend_interval = { "500ms", "2s" },
    resend = { "auto", "beacon", "payload", "off" },
  },
}

-- A live attribute of one member.
function trouble.changes(story, name)
  local layers = { "nakack", "unicast", "mfc", "ufc", "frag", "stable", "rsvp" }
  local layer = story.c:pick(layers)
  local attributes = {}
  for attribute in pairs(CHANGES[layer]) do attributes[#attributes + 1] = attribute end
  table.sort(attributes)
  local attribute = story.c:pick(attributes)
  story.channels[name].stack[layer][attribute] = story.c:pick(CHANGES[layer][attribute])
end

function trouble.leaves(story, name)
  if #story:alive() <= 2 or story.left or story.paused[name] then return end
  story.left = true
  story.gone[name] = true
  if story.addresses[name] then story.oracle:gone(story.addresses[name]) end
  story.channels[name]:leave()
end

local function other_mode(layer) return layer.retransmission == "nak" and "ack" or "nak" end

-- A set, of one member or of all; what it ends with when it does not succeed has to make sense.
local function set(story, name, settings, options)
  local ok, code, detail = story.channels[name].stack:set(settings, options)
  if not ok and code ~= "timeout" and not story.FAILURES[code] then
    story.oracle:complain("set: %s got %s (%s)", name, tostring(code), tostring(detail))
  end
  return ok
end

-- Multicasts, unicasts or both; sometimes the next one does not wait for the one before.
function trouble.toggles(story, name)
  local stack = story.channels[name].stack
  if not story.channels[name]:view() then return end
  local settings, which = {}, story.c:between(1, 3)
  if which ~= 2 then settings.nakack = { retransmission = other_mode(stack.nakack) } end
  if which ~= 1 then settings.unicast = { retransmission = other_mode(stack.unicast) } end
  local function toggle()
    if set(story, name, settings) then story.toggled = story.toggled + 1 end
  end
  if story.c:yes(0.3) then story.sim:spawn(toggle) else toggle() end
end

local TOGETHER = {
  { "nakack", "retransmission", { "nak", "ack" } },
  { "unicast", "retransmission", { "nak", "ack" } },
  { "unicast", "sync", { "timestamp", "handshake" } },
  { "stable", "interval", { "1s", "20s" } },
  { "rsvp", "resend", { "auto", "beacon", "payload", "off" } },
  { "nakack", "xmit_interval", { "100ms", "500ms" } },
}

-- The whole group sets one or two attributes, or none of it does.
function trouble.group_changes(story, name)
  if not story.channels[name]:view() then return end
  local settings = {}
  for _ = 1, story.c:between(1, 2) do
    local layer, attribute, values = unpack(story.c:pick(TOGETHER))
    settings[layer] = settings[layer] or {}
    settings[layer][attribute] = story.c:pick(values)
  end
  if set(story, name, settings, { all = true }) then story.together_set = story.together_set + 1 end
end

-- Tables of unicast connections end by age: nobody may notice.
function trouble.expiries(story, name)
  local view = story.channels[name]:view()
  if not view then return end
  story.channels[name].stack.unicast:expire(story.c:pick(view.addresses))
end

-- They are lost, on either side, with all that was in them: what was under way comes twice or
-- never, and everything from then on once and in order.
function trouble.table_losses(story, name)
  local channel = story.channels[name]
  local view = channel:view()
  if not view then return end
  local other = story.c:pick(view.addresses)
  if other == channel.address then return end
  if story.c:yes(0.5) then
    story.oracle:on_table_loss(other, channel.address)
    channel.stack.unicast:forget(other)
  else
    story.oracle:on_table_loss(channel.address, other)
    channel.stack.unicast:lose(other)
  end
  story.tables_lost = story.tables_lost + 1
end

-- It asks for a state, of somebody or of whom it chooses.  Slow ones overlap.
function trouble.states(story, name)
  local channel, c = story.channels[name], story.c
  local view = channel:view()
  if not view or story.paused[name] then return end
  channel.stack.state_transfer.mode = c:pick { "applied", "barrier" }
  local options = { timeout = c:pick { "100ms", "3s", "30s" } }
  if c:yes(0.3) then options.from = c:pick(view.addresses) end
  story.sim:spawn(function() story:fetch(name, options) end)
end

return trouble
