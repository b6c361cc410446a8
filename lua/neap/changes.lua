-- changes: what is set while a member runs: planned, made, written down, taken back.
--
--     plan     each row is read as in a stack file; all that is wrong is raised at once
--     make     here at once (core.set), or with the whole group: a ticket, and later its end
--     journal  C writes down what was set, by whom and when, also what others set for all
--     undo     the last set of this member that was not taken back, for as many as it was for
--
-- Where waiting is possible a set waits until everybody has followed a mode, and one for the whole
-- group until everybody has made it.

local C = require "neap.cdef"
local attribute = require "neap.attribute"
local core = require "neap.core"
local ffi = require "ffi"
local keys = require "neap.keys"
local mistake = require "neap.mistake"
local nearest = require "neap.nearest"
local quantity = require "neap.quantity"

local changes = {}

local PARAM, GAUGE, TEXT = 1, 2, 3
local OPTIONS = { "all", "timeout", "wait" }

-- When a set takes effect, by the attribute's `live`; a mode, when all have followed.
changes.LIVE = { now = "at its next use", tick = "at the layer's next round",
  timer = "its timer starts anew at once", no = "with the stack file only" }
local MODE = "in its streams, which all follow"

local value, why = ffi.new "struct neap_value", ffi.new "char[512]"

local function inside_of(channel) return channel[require("neap.channel").own] end

local function code_text(code) return ffi.string(C.neap_bind_code_text(code)) end

-- ---- planning -----------------------------------------------------------------------------------

-- One row of a change; or nil and what is wrong with it.
local function plan(channel, layer_name, name, given)
  local layer = attribute.layer(channel, layer_name)
  local attr = type(name) == "string" and C.neap_bind_attr_find(layer.class, name) or nil
  if attr == nil then
    C.neap_bind_attr_unknown(layer.class, layer_name, tostring(name), why, 512)
    return nil, ffi.string(why)
  end
  if attr.kind ~= PARAM then
    return nil, ("%s.%s cannot be changed while running: it is a %s"):format(layer_name, name,
      attr.kind == GAUGE and "gauge" or "counter")
  end
  if attr.live == 0 then
    return nil, ("%s.%s cannot be changed while running"):format(layer_name, name)
  end
  local problem = attribute.parse(attr, given, value)
  if problem then return nil, ("%s.%s: %s"):format(layer_name, name, problem) end
  return {
    layer = layer_name, name = name, pointer = layer, attr = attr, type = value.type,
    number = value.number, real = value.real,
    -- Text points into what was given; that lives as long as the row.
    text = value.type == TEXT and tostring(given) or nil,
  }
end

local function raise_all(problems)
  if #problems == 1 then mistake.raise("%s", problems[1]) end
  if #problems == 0 then return end
  mistake.raise("set has %d problems:\n  %s", #problems, table.concat(problems, "\n  "))
end

-- Rows from the stack's shape, { stable = { interval = "5s" } }, in the order of the alphabet.
local function plans_of(channel, shape)
  if type(shape) ~= "table" then
    mistake.raise("set takes the stack's shape: { stable = { interval = \"5s\" } }")
  end
  local plans, problems = {}, {}
  for _, layer in ipairs(keys.sorted(shape)) do
    local settings = shape[layer]
    if not channel.stack[attribute.LAYER](layer) then
      problems[#problems + 1] = ("the stack has no layer called '%s'%s"):format(tostring(layer),
        nearest(layer, channel.stack:layers()))
    elseif type(settings) ~= "table" then
      problems[#problems + 1] = ("%s is followed by its settings: { %s = { name = value } }")
        :format(layer, layer)
    else
      for _, name in ipairs(keys.sorted(settings)) do
        local row, problem = plan(channel, layer, name, settings[name])
        table.insert(row and plans or problems, row or problem)
      end
    end
  end
  raise_all(problems)
  return plans
end

-- ---- making -------------------------------------------------------------------------------------

-- Hands the rows to C: its code, and what is wrong.
local function hand_over(channel, plans, options)
  local inside = inside_of(channel)
  local list, set = ffi.new("struct neap_change[?]", math.max(1, #plans)), ffi.new "struct neap_set"
  for index, row in ipairs(plans) do
    local change = list[index - 1]
    change.layer, change.attr, change.own = row.pointer, row.attr, row.own or false
    change.value.type, change.value.number, change.value.real = row.type, row.number, row.real
    if row.text then change.value.text = row.text end
  end
  set.changes, set.count, set.undo = list, #plans, options.undo or false
  set.timeout = options.timeout and quantity.ns(options.timeout) or 0
  return core.set(inside.world.handle, inside.id, set, options.all or false)
end

-- ---- the journal --------------------------------------------------------------------------------

local Entry, Journal = {}, {}

local function effect(row)
  return row.name == "retransmission" and MODE or changes.LIVE[row.live]
end

local function shown(given)
  return quantity.is(given) and quantity.short(given) or tostring(given)
end

local MS = 1e6 -- ns

-- To the millisecond: the nanoseconds are in entry.time.
local function when(entry)
  return tostring(quantity.time(math.floor(tonumber(entry.time) / MS + 0.5) * MS))
end

function Entry.__tostring(entry)
  local rows = {}
  for index, row in ipairs(entry) do
    rows[index] = ("%s.%s %s -> %s (%s)"):format(row.layer, row.name, shown(row.from),
      shown(row.to), row.effect)
  end
  return ("%s %s%s%s: %s%s"):format(when(entry), entry.by,
    entry.all and (" for all (epoch %d)"):format(entry.epoch) or "", entry.undo and ", undo" or "",
    #rows > 0 and table.concat(rows, ", ") or "nothing changes here",
    entry.undone and " [taken back]" or "")
end

function Journal.__tostring(journal)
  local lines = {}
  for index, entry in ipairs(journal) do lines[index] = tostring(entry) end
  return #lines > 0 and table.concat(lines, "\n") or "nothing was set"
end

local function entry_of(row)
  return setmetatable({
    set = tonumber(row.set), time = tonumber(row.time), by = ffi.string(row.by),
    all = row.epoch ~= 0, epoch = row.epoch ~= 0 and tonumber(row.epoch) or nil,
    undo = row.undo, undone = row.undone, mine = row.mine,
  }, Entry)
end

-- Entries, oldest first: { time, by, all, { layer, name, from, to, effect } ... }.
function changes.journal(channel)
  local pointer = inside_of(channel).pointer
  local entries, back = {}, 0
  local row = pointer and C.neap_bind_journal(pointer, back) or nil
  while row ~= nil do
    local last = entries[1]
    if not last or last.set ~= tonumber(row.set) then
      last = entry_of(row)
      table.insert(entries, 1, last)
    end
    local layer, name = ffi.string(row.layer), ffi.string(row.attr)
    local line = { layer = layer, name = name, from_text = ffi.string(row.from),
      to_text = ffi.string(row.to), live = ffi.string(C.neap_bind_live_text(row.live)),
      was_own = row.was_own }
    line.from = attribute.from_text(channel, layer, name, line.from_text)
    line.to = attribute.from_text(channel, layer, name, line.to_text)
    line.effect = effect(line)
    table.insert(last, 1, line)
    back = back + 1
    row = C.neap_bind_journal(pointer, back)
  end
  return setmetatable(entries, Journal)
end

-- The last entry that `fits`, or nil.
local function last_entry(channel, fits)
  local journal = changes.journal(channel)
  for index = #journal, 1, -1 do
    if fits(journal[index]) then return journal[index] end
  end
end

-- ---- waiting ------------------------------------------------------------------------------------

-- Layers whose change others still have to follow say so in a gauge.  The name of one, nil if there
-- is none; with "closed", because the stack is gone and nobody will know.
local function pending(channel, plans)
  local pointer = inside_of(channel).pointer
  for _, row in ipairs(plans) do
    if row.name == "retransmission" then
      if not pointer or pointer.stack == nil then return nil, "closed" end
      local layer = attribute.layer(channel, row.layer)
      local gauge = C.neap_bind_attr_find(layer.class, "mode_pending")
      if gauge ~= nil and attribute.read(layer, gauge) ~= 0 then return row.layer end
    end
  end
end

-- Waits, where that is possible, until everybody has followed a mode.
local function settle(channel, plans)
  local inside = inside_of(channel)
  if not inside.world:may_wait() or inside.receiving:current() then return true end
  local layer, gone = pending(channel, plans)
  while layer do
    local waiter = inside.world:waiter()
    table.insert(inside.settlers, { layer = layer, waiter = waiter })
    local ok, code, detail = inside.world:wait(waiter)
    if not ok then return nil, code, detail end
    layer, gone = pending(channel, plans)
  end
  if gone then return nil, gone end
  return true
end

-- A set that others had to follow ended; nil: the stack is gone.
function changes.settled(channel, text, code, rows_missing)
  local inside = inside_of(channel)
  local settlers = inside.settlers
  inside.settlers = {}
  for _, settler in ipairs(settlers) do
    if text == nil then
      settler.waiter.wake(nil, "closed")
    elseif text ~= "" and not text:find(settler.layer, 1, true) then
      table.insert(inside.settlers, settler)
    elseif code < 0 then
      local missing = {}
      for index, row in ipairs(rows_missing) do missing[index] = row.name end
      settler.waiter.wake(nil, code_text(code), { missing = missing })
    else
      settler.waiter.wake(true)
    end
  end
end

-- ---- the whole group ----------------------------------------------------------------------------

-- A change that is under way and that nobody waits for, yet.
local Asked = {}
Asked.__index = Asked

-- Waits for its end: what set returns.
function Asked:wait()
  self.world:must_wait "wait"
  self.world:wait(self.waiter)
  if self.ok then return true, self.entry end
  return nil, self.code, self.detail
end

function Asked.__tostring(asked)
  if not asked.ended then return "asked of the group; it ends as time runs" end
  return asked.ok and tostring(asked.entry) or ("%s: %s"):format(asked.code, tostring(asked.detail))
end

local function named(text)
  local names = {}
  for name in text:gmatch "[^\n]+" do names[#names + 1] = name end
  return setmetatable({ missing = names }, { __tostring = function()
    return "missing " .. table.concat(names, ", ")
  end })
end

local function finish(channel, asked, code, epoch, text)
  asked.ended, asked.ok = true, code >= 0
  if asked.ok then
    asked.entry = last_entry(channel, function(entry) return entry.epoch == epoch end)
      or setmetatable({ time = inside_of(channel).world:now(), by = channel.name, all = true,
        epoch = epoch }, Entry)
    if asked.undoes then C.neap_bind_journal_undone(inside_of(channel).pointer, asked.undoes) end
  else
    asked.code = code_text(code)
    asked.detail = text ~= "" and text or nil
    if asked.code == "timeout" then
      asked.detail = named(text)
      asked.detail.made = epoch > 0
    end
  end
  asked.waiter.wake()
end

-- Its end came.
function changes.agreed(channel, note)
  local asked = inside_of(channel).asked
  local one = asked[note.ticket]
  asked[note.ticket] = nil
  local m = note.msg
  local text = m ~= nil and m.len > 0 and ffi.string(m.body, m.len) or ""
  if one then finish(channel, one, note.code, tonumber(note.number), text) end
end

-- The stack is gone: nobody will say how what is under way ends.
function changes.reset(channel, code)
  local inside = inside_of(channel)
  changes.settled(channel, nil)
  for _, ticket in ipairs(keys.sorted(inside.asked)) do
    local asked = inside.asked[ticket]
    inside.asked[ticket] = nil
    asked.ended, asked.code = true, code
    asked.waiter.wake()
  end
end

local function agree(channel, plans, options)
  local inside = inside_of(channel)
  local ticket, problem = hand_over(channel, plans, options)
  if ticket < 0 then return nil, code_text(ticket), problem ~= "" and problem or nil end
  local asked = setmetatable({ world = inside.world, waiter = inside.world:waiter(),
    undoes = options.undoes }, Asked)
  inside.asked[ticket] = asked
  if options.wait == false or not inside.world:may_wait() then return true, asked end
  local ok, code, detail = asked:wait()
  if not ok then return nil, code, detail end
  ok, code, detail = settle(channel, plans)
  if not ok then return nil, code, detail end
  return true, asked.entry
end

-- ---- setting and taking back --------------------------------------------------------------------

local function make(channel, plans, options)
  if options.all then return agree(channel, plans, options) end
  local code, problem = hand_over(channel, plans, options)
  if code < 0 then return nil, code_text(code), problem end
  local entry = last_entry(channel, function() return true end)
  if options.undoes then C.neap_bind_journal_undone(inside_of(channel).pointer, options.undoes) end
  local ok, detail
  ok, code, detail = settle(channel, plans)
  if not ok then return nil, code, detail end
  return true, entry
end

-- By assignment: one attribute, at once, or an error.
function changes.assign(channel, layer, name, given)
  local row, problem = plan(channel, layer, name, given)
  if not row then mistake.raise("%s", problem) end
  local code
  code, problem = hand_over(channel, { row }, {})
  if code < 0 then mistake.raise("%s", problem ~= "" and problem or code_text(code)) end
end

-- ann.stack:set(shape, options): true and the journal's entry, or nil, code, detail.
function changes.set(channel, shape, options)
  options = options or {}
  if type(options) ~= "table" then mistake.raise("set's options are a table: { all = true }") end
  for _, key in ipairs(keys.sorted(options)) do
    if not keys.set(OPTIONS)[key] then
      mistake.raise("set has no option '%s'%s", tostring(key), nearest(key, OPTIONS))
    end
  end
  for _, key in ipairs { "timeout", "wait" } do
    if options[key] ~= nil and not options.all then
      mistake.raise("%s is for { all = true }, where others have to agree", key)
    end
  end
  local plans = plans_of(channel, shape)
  if #plans == 0 then return true end
  return make(channel, plans, options)
end

-- Is it still as that set left it?  Else who changed it.
local function changed_since(channel, row)
  local _, now = attribute.read_text(channel, row.layer, row.name)
  if now == row.to_text then return end
  local newest = last_entry(channel, function(entry)
    for _, line in ipairs(entry) do
      if line.layer == row.layer and line.name == row.name then return true end
    end
  end)
  return ("%s.%s is %s now, set by %s since"):format(row.layer, row.name, now,
    newest and newest.by or "nobody")
end

-- Takes back the last set of this member that was not taken back: here, or for all.
function changes.undo(channel)
  local entry = last_entry(channel, function(entry)
    return entry.mine and not entry.undo and not entry.undone
  end)
  if not entry then
    return nil, "refused", ("%s has set nothing that is not taken back"):format(channel.name)
  end
  local plans, problems = {}, {}
  for _, row in ipairs(entry) do
    local problem = changed_since(channel, row)
    local back = not problem and plan(channel, row.layer, row.name, row.from_text)
    if back then back.own = row.was_own end
    table.insert(back and plans or problems, back or problem)
  end
  if #problems > 0 then return nil, "refused", table.concat(problems, "\n") end
  return make(channel, plans, { all = entry.all, undo = true, undoes = entry.set })
end

return changes
