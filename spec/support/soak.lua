-- soak: processes over real UDP on loopback; each receiver loses one message in ten.
--
-- Each member multicasts numbered messages and sends others to each member, as fast as it can,
-- while its repair, of multicasts and of unicasts, is toggled from one way to the other.
-- Everything has to arrive, in order, once.
--
--     three members: 100 000 multicasts and 10 000 unicasts each, a toggle every 200 ms
--     two and four members: for 30 s, a toggle every 100 ms
--
--     neap run spec/support/soak.lua [MEMBERS AMOUNT]     AMOUNT: multicasts, or seconds as "30s"
--
-- Without arguments it goes through these three; exit code 0 when all is well.

local neap = require "neap"

local NAMES = { "ann", "bob", "cho", "dee" }
local ROUNDS = { { 3, "100000" }, { 2, "30s" }, { 4, "30s" } }
local LIMIT = 300e9 -- ns: a round that has not ended by then has failed
local UNICAST_EACH = 10 -- multicasts

local members, amount = tonumber(arg[1]), arg[2]
if not members then
  local failed = 0
  for _, round in ipairs(ROUNDS) do
    local code = os.execute(("'%s' run '%s' %d %s"):format(os.getenv "NEAP_COMMAND", arg[0],
      round[1], round[2]))
    if code ~= 0 and code ~= true then failed = failed + 1 end
  end
  print(("soak: %d passed, %d failed"):format(#ROUNDS - failed, failed))
  os.exit(failed == 0 and 0 or 1)
end

local SECONDS = tonumber(amount:match "^(%d+)s$")
local MULTICASTS = SECONDS and 1e9 or tonumber(amount)
local TOGGLE_EACH = SECONDS and "100ms" or "200ms"
local me, group = os.getenv "SOAK_NAME" or NAMES[1], os.getenv "SOAK_GROUP"
group = group or ("soak-%d-%d"):format(os.time(), members)

local others = {}
for index = 1, members do
  if NAMES[index] ~= me then others[#others + 1] = NAMES[index] end
end

-- ---- what comes ---------------------------------------------------------------------------------

local got = { m = {}, u = {} }  -- highest number per sender
local last = { m = {}, u = {} } -- the number it ended with
local count, wrong, toggles, verdicts, began, done = 0, {}, 0, {}, nil, false

local function expect(kind, msg, number)
  local before = got[kind][msg.from] or 0
  if number ~= before + 1 and #wrong < 20 then
    wrong[#wrong + 1] = ("%s %s: %d after %d"):format(kind, msg.from, number, before)
  end
  got[kind][msg.from] = number
  count = count + 1
end

local function on_message(msg)
  local kind, number = msg.body:match "^(%a)(%d+)"
  if kind == "m" or kind == "u" then
    expect(kind, msg, tonumber(number))
  elseif kind == "M" or kind == "U" then
    last[kind:lower()][msg.from] = tonumber(number)
  else
    verdicts[msg.from] = msg.body
  end
end

local function until_true(what, f)
  while not f() do
    if neap.now() - began > LIMIT then
      error(("%s: waited too long for %s; so far %d messages"):format(me, what, count))
    end
    neap.sleep "5ms"
  end
end

local function complete(kind, name)
  return last[kind][name] and (got[kind][name] or 0) >= last[kind][name]
end

local function everything()
  for _, name in ipairs(others) do
    if not complete("m", name) or not complete("u", name) then return false end
  end
  return complete("m", me)
end

-- ---- what goes ----------------------------------------------------------------------------------

local function more(n)
  return n < MULTICASTS and not (SECONDS and neap.now() - began > SECONDS * 1e9)
end

local function send_all(member)
  local n, u = 0, 0
  while more(n) do
    n = n + 1
    assert(member:send("m" .. n .. " " .. ("x"):rep(n % 200)))
    if n % (UNICAST_EACH * #others) == 0 then
      u = u + 1
      for _, name in ipairs(others) do assert(member:send("u" .. u, { to = name })) end
    end
  end
  assert(member:send("M" .. n))
  for _, name in ipairs(others) do assert(member:send("U" .. u, { to = name })) end
end

-- Goes on while there is work; each toggle is set at once, whether the last has settled or not.
local function toggle(member)
  local modes = { "ack", "nak" }
  while not done do
    neap.sleep(TOGGLE_EACH)
    if done then return end
    toggles = toggles + 1
    local mode = modes[(toggles - 1) % 2 + 1]
    member.nakack.retransmission, member.unicast.retransmission = mode, mode
  end
end

local function summary(member)
  local n, u = member.nakack, member.unicast
  return ("%s of %d: %d messages, %d wrong, %d toggles, %d lost on the way in, %d multicasts "
    .. "repaired, %d sent again, %d unicasts sent again; %.0f s"):format(me, members, count, #wrong,
    toggles, member.discard.dropped_up, n.repaired, n.xmit_rsps_sent, u.xmits,
    (neap.now() - began) / 1e9)
end

-- ---- a round ------------------------------------------------------------------------------------

local function start_others()
  for _, name in ipairs(others) do
    os.execute(("SOAK_NAME=%s SOAK_GROUP=%s '%s' run '%s' %d %s &"):format(name, group,
      os.getenv "NEAP_COMMAND", arg[0], members, amount))
  end
end

local function judge(member, text)
  until_true("verdicts", function()
    for _, name in ipairs(others) do
      if not verdicts[name] then return false end
    end
    return true
  end)
  member:send("verdict", { rsvp = true, timeout = "10s" })
  print(text)
  local bad = #wrong > 0
  for _, name in ipairs(others) do
    print(verdicts[name]:sub(9))
    if verdicts[name]:find "\n" then bad = true end
  end
  if bad then error("soak: something was lost, twice or out of order", 0) end
end

neap.run(function()
  began = neap.now()
  if me == NAMES[1] then start_others() end
  local member = assert(neap.join(group, { stack = "lossy", name = me,
    on = { message = on_message }, with = { discard = { up = 0.1 } } }))
  until_true("a whole view", function() return #member:view().members == members end)
  neap.spawn(function() send_all(member) end)
  neap.spawn(function() toggle(member) end)
  until_true("everything", everything)
  done = true
  local text = summary(member)
  if #wrong > 0 then text = text .. "\n  " .. table.concat(wrong, "\n  ") end
  if me == NAMES[1] then
    judge(member, text)
  else
    assert(member:send("verdict " .. text, { to = NAMES[1] }))
    until_true("the end", function()
      return verdicts[NAMES[1]] or #member:view().members < members
    end)
  end
  member:leave()
end)
