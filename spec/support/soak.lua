-- soak: three processes over real UDP on loopback; each receiver loses one message in ten.
--
-- Each member multicasts 100 000 messages and sends 5 000 to each other one, numbered, while its
-- repair goes from nak to ack and back every 200 ms.  Everything has to arrive, in order, once.
--
--     neap run spec/support/soak.lua [MULTICASTS [UNICASTS]]          exit code 0 when all is well

local neap = require "neap"

local NAMES = { "ann", "bob", "cho" }
local me, group = os.getenv "SOAK_NAME" or "ann", os.getenv "SOAK_GROUP"
local MULTICASTS, UNICASTS = tonumber(arg[1] or 100000), tonumber(arg[2] or 10000)
local TO_EACH = math.floor(UNICASTS / (#NAMES - 1))
local LIMIT = 540e9 -- ns: a soak that has not ended by then has failed

group = group or ("soak-%d"):format(os.time())

local got = { all = {}, mine = {} } -- highest number per sender
local count, wrong, toggles, verdicts = 0, {}, 0, {}

local function expect(kind, msg, number)
  local last = got[kind][msg.from] or 0
  if number ~= last + 1 and #wrong < 20 then
    wrong[#wrong + 1] = ("%s %s: %d after %d"):format(kind, msg.from, number, last)
  end
  got[kind][msg.from] = number
  count = count + 1
end

local function on_message(msg)
  local kind, number = msg.body:match "^(%a)(%d+)"
  if kind == "m" then
    expect("all", msg, tonumber(number))
  elseif kind == "u" then
    expect("mine", msg, tonumber(number))
  else
    verdicts[msg.from] = msg.body
  end
end

local function until_true(what, f)
  while not f() do
    if neap.now() - got.began > LIMIT then
      error(("%s: waited too long for %s; so far %d messages"):format(me, what, count))
    end
    neap.sleep "5ms"
  end
end

local function everything()
  for _, name in ipairs(NAMES) do
    if (got.all[name] or 0) < MULTICASTS then return false end
    if name ~= me and (got.mine[name] or 0) < TO_EACH then return false end
  end
  return true
end

local function multicasts(member)
  for n = 1, MULTICASTS do assert(member:send("m" .. n .. " " .. ("x"):rep(n % 200))) end
end

local function unicasts(member)
  for n = 1, TO_EACH do
    for _, name in ipairs(NAMES) do
      if name ~= me then assert(member:send("u" .. n, { to = name })) end
    end
    if n % 20 == 0 then neap.sleep "10ms" end -- So that they last as long as the multicasts.
  end
end

-- Goes on while there is work; each toggle is set at once, whether the last has settled or not.
local function toggle(member)
  local modes = { "ack", "nak" }
  while not got.done do
    neap.sleep "200ms"
    if got.done then return end
    toggles = toggles + 1
    member.nakack.retransmission = modes[(toggles - 1) % 2 + 1]
  end
end

local function summary(member)
  local n, u = member.nakack, member.unicast
  return ("%s: %d messages, %d wrong, %d toggles, %d lost on the way in, %d multicasts repaired, "
    .. "%d sent again, unicast %d sent again; %.0f s"):format(me, count, #wrong, toggles,
    member.discard.dropped_up, n.repaired, n.xmit_rsps_sent, u.xmits or 0,
    (neap.now() - got.began) / 1e9)
end

neap.run(function()
  got.began = neap.now()
  if not os.getenv "SOAK_NAME" then
    for _, name in ipairs { "bob", "cho" } do
      os.execute(("SOAK_NAME=%s SOAK_GROUP=%s '%s' run '%s' %d %d &"):format(name, group,
        os.getenv "NEAP_COMMAND", arg[0], MULTICASTS, UNICASTS))
    end
  end
  local member = assert(neap.join(group, { stack = "lossy", name = me,
    on = { message = on_message }, with = { discard = { up = 0.1 } } }))
  until_true("a view of three", function() return #member:view().members == #NAMES end)
  neap.spawn(function() multicasts(member) end)
  neap.spawn(function() unicasts(member) end)
  neap.spawn(function() toggle(member) end)
  until_true("everything", everything)
  got.done = true
  local text = summary(member)
  if #wrong > 0 then text = text .. "\n  " .. table.concat(wrong, "\n  ") end
  if me ~= "ann" then
    assert(member:send("verdict " .. text, { to = "ann" }))
    until_true("the end", function() return verdicts.ann or #member:view().members < 3 end)
  else
    until_true("verdicts", function() return verdicts.bob and verdicts.cho end)
    member:send("verdict", { rsvp = true, timeout = "10s" })
    io.write(text, "\n", verdicts.bob:sub(9), "\n", verdicts.cho:sub(9), "\n")
    local bad = #wrong > 0 or verdicts.bob:find "\n" or verdicts.cho:find "\n"
    io.write(("soak: %d passed, %d failed\n"):format(bad and 0 or 1, bad and 1 or 0))
    if bad then error("soak: something was lost, twice or out of order", 0) end
  end
  member:leave()
end)
