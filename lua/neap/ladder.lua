-- ladder: the last packets of a simulated group as a picture in text.
--
--          ms  ann     bob     cho
--        12.4   o------>------->       nakack msg seqno=5 "hello"
--        12.6   o------>-------x       nakack msg seqno=6          [cho: lost by chance]
--        18.9   <--------------o       nakack xmit_req sender=ann
--
-- One line per packet, at the time when it was sent: o sends, > and < receive, x lost it.  The end
-- of the line says why, and when it arrives if that is much later than packets take as a rule.

local ladder = {}

local LANE = 8
local DEFAULT = 30
local TEXT_MAX = 4095 -- sim_log's text; longer ones are cut
local LATE = 2 -- so many times what half of all packets take at most

-- Copies of one packet on several links stand behind each other in the log.
local function same(a, b)
  return a.sent == b.sent and a.from == b.from and a.multicast and b.multicast
    and a.bytes == b.bytes and not b.twice
end

local function grouped(rows, options)
  local groups = {}
  for _, row in ipairs(rows) do
    local wanted = (options.background or not row.background)
      and (not options.member or row.from == options.member or row.to == options.member)
      and (not options.layer or row.text:find(options.layer, 1, true))
    if wanted then
      local last = groups[#groups]
      if last and same(last[1], row) then
        last[#last + 1] = row
      else
        groups[#groups + 1] = { row }
      end
    end
  end
  return groups
end

local function lanes_of(names)
  local lanes = {}
  for index, name in ipairs(names) do lanes[name] = (index - 1) * LANE + 1 end
  return lanes
end

-- Draws one packet over the lanes: a list of characters.
local function arrow(group, names, lanes)
  local cells = {}
  for column = 1, #names * LANE do cells[column] = " " end
  for _, name in ipairs(names) do cells[lanes[name]] = "|" end
  local at = lanes[group[1].from]
  if not at then return table.concat(cells) end
  for _, row in ipairs(group) do
    local to = lanes[row.to]
    if to and to ~= at then
      local step = to > at and 1 or -1
      for column = at + step, to - step, step do
        if cells[column] == " " then cells[column] = "-" end
      end
      cells[to] = row.lost and "x" or (to > at and ">" or "<")
    end
  end
  cells[at] = "o"
  return table.concat(cells)
end

-- "nakack msg seqno=1, 2 B | nakack msg seqno=2, 2 B | ..." becomes one entry with a count.
local function short(text)
  local parts, out = {}, {}
  if #text >= TEXT_MAX then text = text:gsub(" | [^|]*$", " | ...") end
  for part in (text .. " | "):gmatch "(.-) | " do parts[#parts + 1] = part end
  local index = 1
  while index <= #parts do
    local stem, first, rest = parts[index]:match "^(.-seqno=)(%d+)(.*)$"
    local last, upto = first, index
    while stem and parts[upto + 1] do
      local next_stem, seqno = parts[upto + 1]:match "^(.-seqno=)(%d+)"
      if next_stem ~= stem or tonumber(seqno) ~= tonumber(last) + 1 then break end
      last, upto = seqno, upto + 1
    end
    if upto > index then
      out[#out + 1] = ("%s%s..%s (%d messages)"):format(stem, first, last, upto - index + 1)
    else
      out[#out + 1] = stem and stem .. first .. rest or parts[index]
    end
    index = upto + 1
  end
  return table.concat(out, " | ")
end

-- How long packets take as a rule: as half of them do, at most.
local function usual_time(rows)
  local times = {}
  for _, row in ipairs(rows) do
    if row.arrives and row.from ~= row.to then times[#times + 1] = row.arrives - row.sent end
  end
  table.sort(times)
  return times[math.ceil(#times / 2)] or 0
end

-- What happened to one copy of a packet, if it is worth a word.
local function remark(row, usual)
  if row.lost then
    return row.lost:find "^lost" and row.lost or row.lost:find "^dropped" and row.lost
      or "lost, " .. row.lost
  end
  local late = row.arrives and row.arrives - row.sent > usual * LATE
  local arrival = late and ("arrives at %.1f"):format(row.arrives / 1e6)
  if row.ruled and late then return "delayed by a rule, " .. arrival end
  if row.ruled then return "without what a rule took" end
  if row.twice then return late and "a copy, " .. arrival or "a copy" end
  return arrival
end

-- Who met the same stands together: [bob cho: lost at a cut].
local function remarks(group, usual)
  local list, names = {}, {}
  for _, row in ipairs(group) do
    local text = row.from ~= row.to and remark(row, usual)
    if text then
      if not names[text] then
        names[text] = {}
        list[#list + 1] = text
      end
      table.insert(names[text], row.to)
    end
  end
  for index, text in ipairs(list) do
    list[index] = table.concat(names[text], " ") .. ": " .. text
  end
  return #list > 0 and "   [" .. table.concat(list, "; ") .. "]" or ""
end

-- rows: sim:log(); names: the members, a lane each.  options: last (packets), member, layer,
-- background.
function ladder.text(rows, names, options)
  options = options or {}
  local groups, lanes, usual = grouped(rows, options), lanes_of(names), usual_time(rows)
  local head = {}
  for _, name in ipairs(names) do
    head[#head + 1] = name:sub(1, LANE - 1) .. (" "):rep(LANE - math.min(#name, LANE - 1))
  end
  local out = { ("%10s  %s"):format("ms", table.concat(head):gsub("%s+$", "")) }
  local last = options.last or DEFAULT
  if #groups > last then out[2] = ("%10s  (%d earlier)"):format("", #groups - last) end
  for index = math.max(1, #groups - last + 1), #groups do
    local group = groups[index]
    out[#out + 1] = ("%10.1f  %s %s%s"):format(group[1].sent / 1e6, arrow(group, names, lanes),
      short(group[1].text), remarks(group, usual))
  end
  if #groups == 0 then
    out[#out + 1] = ("%10s  %s"):format("", #rows == 0 and "nothing was sent"
      or ("nothing of this among the last %d packets%s"):format(#rows, options.background and ""
        or "; background = true shows heartbeats too"))
  end
  return table.concat(out, "\n")
end

return ladder
