-- The main job, shown: three members as processes of their own over real UDP multicast, with loss.
--
-- They find each other and talk; one send waits for everybody; repair goes from nak to ack under
-- load, while messages flow; one member is killed.  Every figure is counted by a member on the way.
--
--     neap run lua/neap/main_job.lua          (what `make run` does; ends by itself)

local neap = require "neap"

local EACH, LOAD, LOSS = 3000, 6000, 0.1
local NAMES = { "ann", "bob", "cho" }
local me, group = arg[1] or "ann", arg[2] or ("job-%d"):format(os.time())

-- What this member has seen: last number per sender, counts, the longest silence of ann.
local seen = { last = {}, got = 0, twice = 0, gap = 0, heard = nil, facts = {}, over = false }

local function ms(ns) return ("%.1f ms"):format(tonumber(ns) / 1e6) end

local function say(who, text, ...)
  io.write(("%-13s "):format(who), text:format(...), "\n")
end

local function until_true(what, f)
  local limit = neap.now() + 20e9
  while not f() do
    if neap.now() > limit then error(("%s waited 20 s for %s"):format(me, what)) end
    neap.sleep "1ms"
  end
end

-- ---- what a member does with a message ----------------------------------------------------------

local function on_number(from, number)
  local now = neap.now()
  local count = number <= (seen.last[from] or 0) and "twice" or "got"
  seen[count] = seen[count] + 1
  seen.last[from] = number
  if from == "ann" then
    if seen.heard then seen.gap = math.max(seen.gap, now - seen.heard) end
    seen.heard = now
  end
end

local function handler(member)
  return function(msg)
    local number = msg.body:match "^#(%d+)"
    if number then
      on_number(msg.from, tonumber(number))
    elseif msg.body == "measure" then
      seen.gap, seen.heard = 0, nil
    elseif msg.body == "measured" and me ~= "ann" then
      local gap = seen.gap
      neap.spawn(function() member():send("gap " .. gap, { to = "ann" }) end)
    elseif msg.body == "over" then
      seen.over = true
    elseif msg.to == me then
      seen.facts[msg.from] = msg.body
    end
  end
end

-- Numbered messages, about ten thousand a second.
local function burst(member, from, count)
  for n = from, from + count - 1 do
    member:send(("#%d %s"):format(n, ("x"):rep(90)))
    if n % 10 == 0 then neap.sleep "1ms" end
  end
end

local function facts_of(member)
  return ("%d %d %d %d %d"):format(member.discard.dropped_up, member.nakack.repaired,
    member.nakack.repair_time.ns, seen.twice, require("neap.core").pid())
end

-- ---- ann tells the story ------------------------------------------------------------------------

local function delivered(ann)
  until_true("everybody's figures", function() return seen.facts.bob and seen.facts.cho end)
  seen.facts.ann = facts_of(ann)
  local lost, repaired, time, twice = 0, 0, 0, 0
  for _, name in ipairs(NAMES) do
    local l, r, t, d = seen.facts[name]:match "(%d+) (%d+) (%d+) (%d+)"
    lost, repaired, twice = lost + l, repaired + r, twice + d
    time = math.max(time, tonumber(t))
  end
  say("ann bob cho", "view %s over udp 239.7.7.7 on lo, %d %% loss      %d delivered each: "
    .. "%d messages lost, %d repaired (%s), %d twice", ann:view().id, LOSS * 100, #NAMES * EACH,
    lost, repaired, ms(time), twice)
end

local function synchronous(ann)
  local began = neap.now()
  local s = ann:send("commit", { rsvp = true, timeout = "5s", wait = false })
  assert(s:wait())
  say("ann", "rsvp \"commit\" returned after %s      bob %s  cho %s", ms(neap.now() - began),
    ms(s.acked.bob.ns), ms(s.acked.cho.ns))
end

-- Load; what went over the wire per second, and the longest silence bob and cho saw.
local function measure(ann, from, during)
  local before, began = ann.stack:metrics().nakack, neap.now()
  seen.facts = {}
  ann:send "measure"
  burst(ann, from, LOAD / 2)
  if during then during() end
  burst(ann, from + LOAD / 2, LOAD / 2)
  ann:send "measured"
  until_true("the others' gaps", function() return seen.facts.bob and seen.facts.cho end)
  local after, time = ann.stack:metrics().nakack, (neap.now() - began) / 1e9
  local gap = 0
  for _, name in ipairs { "bob", "cho" } do
    gap = math.max(gap, tonumber(seen.facts[name]:match "gap (%S+)"))
  end
  return { naks = (after.xmit_reqs_received - before.xmit_reqs_received) / time,
    acks = (after.acks_received - before.acks_received) / time, gap = gap }
end

local function toggle(ann)
  local nak = measure(ann, EACH + 1)
  local at
  local switch = measure(ann, EACH + LOAD + 1, function()
    at = ann.nakack.current_seqno
    neap.spawn(function() assert(ann.stack:set { nakack = { retransmission = "ack" } }) end)
  end)
  local ack = measure(ann, EACH + 2 * LOAD + 1)
  say("ann", "nakack.retransmission nak -> ack at #%d under load      naks %.0f/s -> %.0f/s   "
    .. "acks %.0f/s -> %.0f/s   longest pause %s (%s before, %s after)", tonumber(at), nak.naks,
    ack.naks, nak.acks, ack.acks, ms(switch.gap), ms(nak.gap), ms(ack.gap))
end

local function killed(ann, pid)
  local began = neap.now()
  os.execute("kill -9 " .. pid)
  local ok, result = ann:send("still there?", { rsvp = true, timeout = "15s" })
  assert(ok, result)
  say("cho", "killed: view %s { %s } after %.1f s;  ann's waiting send released (left: %s)",
    ann:view().id, table.concat(ann:view().members, " "), (neap.now() - began) / 1e9,
    table.concat(result.left, " "))
end

-- ---- everybody ----------------------------------------------------------------------------------

neap.run(function()
  local member
  if me == "ann" then
    for _, name in ipairs { "bob", "cho" } do -- This file again, as processes of their own.
      os.execute(("'%s' run '%s' %s %s &"):format(os.getenv "NEAP_COMMAND", arg[0], name, group))
    end
  end
  member = assert(neap.join(group, { stack = "lossy", name = me,
    on = { message = handler(function() return member end) },
    with = { discard = { up = LOSS }, fd_all = { timeout = "2s", interval = "500ms" },
      verify_suspect = { timeout = "300ms" } } }))
  until_true("a view of three", function() return #member:view().members == #NAMES end)
  burst(member, 1, EACH)
  until_true("all messages", function() return seen.got == #NAMES * EACH end)
  if me == "ann" then
    delivered(member)
    local pid = seen.facts.cho:match "(%d+)$"
    synchronous(member)
    toggle(member)
    killed(member, pid)
    member:send("over", { rsvp = true })
    io.write "next: make repl\n"
  else
    member:send(facts_of(member), { to = "ann" })
    until_true("the end", function() return seen.over end)
  end
  member:leave()
end)
