-- map: a replicated map.  Every member has all of it; who joins takes it from another member.
--
--     local prices = neap.map("prices", { stack = "state", name = "ann" })
--     prices:put("tea", "3")                         plain: everybody has it soon
--     prices:put("tea", "4", { rsvp = true })        returns when everybody has it
--     prices:remove "tea"; prices:get "tea"
--     prices:watch(function(key, value, before, by) ... end)
--
-- Each entry carries the stamp of its writing, larger than any its writer had seen, and the address
-- of the writer.  The larger (stamp, writer) wins wherever two meet, so it does not matter in which
-- order members hear of them, or whether twice.  A removal is an entry without a value; the last
-- ones are remembered.
--
-- A member that dies may have been heard by some only.  Therefore, when members left, the
-- coordinator tells what the map has from writers that are gone, each entry once, and who has more
-- of theirs tells that.

local Channel = require "neap.channel"
local keys = require "neap.keys"
local mistake = require "neap.mistake"

local Map = {}
Map.__index = Map

local own = setmetatable({}, { __tostring = function() return "(inside)" end })

local REMEMBERED = 1024   -- removals
local FILL_BYTES = 8000   -- of one message about the entries of writers that are gone
local TRIES, PAUSE = 100, "100ms" -- for the state, where nobody can give it right now
local LIMIT = "30s"       -- for each of them

-- ---- rows ---------------------------------------------------------------------------------------

local function row_text(key, entry)
  local value = entry.value
  return ("%.0f %s %d %d\n%s%s"):format(entry.stamp, entry.by, #key, value and #value or -1, key,
    value or "")
end

-- f(key, entry) for each row of a text.
local function each_row(text, f)
  local at = 1
  while at <= #text do
    local stamp, by, key_size, value_size, last = text:match("^(%d+) (%S+) (%d+) (-?%d+)\n()", at)
    if not stamp then return end -- No row of ours.
    local from = last + tonumber(key_size)
    local key, size = text:sub(last, from - 1), tonumber(value_size)
    at = from + math.max(size, 0)
    local value = size >= 0 and text:sub(from, at - 1) or nil
    f(key, { stamp = tonumber(stamp), by = by, value = value })
  end
end

local function newer(a, b)
  return not b or a.stamp > b.stamp or (a.stamp == b.stamp and a.by > b.by)
end

-- ---- applying -----------------------------------------------------------------------------------

local function tell(map, key, value, before, by)
  local inside = map[own]
  if value == before then return end
  for _, f in ipairs(inside.watchers) do f(key, value, before, by) end
end

-- The oldest removals are forgotten.
local function forget(inside)
  while #inside.removed > REMEMBERED do
    local key = table.remove(inside.removed, 1)
    local entry = inside.entries[key]
    if entry and not entry.value then inside.entries[key] = nil end
  end
end

local function apply(map, key, entry)
  local inside = map[own]
  local before = inside.entries[key]
  inside.clock = math.max(inside.clock, entry.stamp)
  if not newer(entry, before) then return end
  inside.entries[key] = entry
  inside.size = inside.size + (entry.value and 1 or 0) - (before and before.value and 1 or 0)
  if not entry.value then
    table.insert(inside.removed, key)
    forget(inside)
  end
  tell(map, key, entry.value, before and before.value, entry.by)
end

-- ---- writers that are gone ----------------------------------------------------------------------

local function members_of(view)
  return keys.set(view.addresses)
end

-- Rows of writers that are not here any more, each told once; `has`: what others have of them.
local function orphans(map, has)
  local inside, list = map[own], {}
  local here = members_of(inside.channel:view())
  for _, key in ipairs(keys.sorted(inside.entries)) do
    local entry = inside.entries[key]
    if not here[entry.by] and not entry.told and newer(entry, has[key]) then
      list[#list + 1] = row_text(key, entry)
    end
    entry.told = not here[entry.by]
  end
  return list
end

local function send_rows(map, mark, rows)
  local size, from = 0, 1
  for index = 1, #rows do
    size = size + #rows[index]
    if size >= FILL_BYTES or index == #rows then
      map[own].channel:send(mark .. table.concat(rows, "", from, index))
      size, from = 0, index + 1
    end
  end
end

-- ---- what arrives -------------------------------------------------------------------------------

local words = {}

-- An entry that its writer writes.
function words.put(map, text) each_row(text, function(key, entry) apply(map, key, entry) end) end

-- Entries of writers that are gone; who has more of them says so.
function words.orphans(map, text)
  local inside = map[own]
  each_row(text, function(key, entry)
    apply(map, key, entry)
    inside.has[key] = entry
  end)
end

-- The coordinator has told all of them.
function words.differences(map)
  local inside = map[own]
  local rows = orphans(map, inside.has)
  inside.has = {}
  send_rows(map, "orphans ", rows)
end

local function on_message(map, msg)
  local word, text = (msg.body or ""):match "^(%l+) (.*)$"
  if words[word] then words[word](map, text) end
end

-- Ours to tell, if we are the coordinator.
local function on_view(map, view)
  local inside = map[own]
  local channel = inside.channel
  if inside.address and channel.address ~= inside.address then
    -- Excluded meanwhile, and back under another address: what we have may be old.
    channel[Channel.own].world:spawn(function() map:refresh() end)
  end
  inside.address = channel.address
  if #view.left == 0 or view.addresses[1] ~= channel.address then return end
  send_rows(map, "orphans ", orphans(map, {}))
  channel:send "differences "
end

-- ---- the state ----------------------------------------------------------------------------------

local function state_text(map)
  local rows = {}
  local entries = map[own].entries
  for _, key in ipairs(keys.sorted(entries)) do rows[#rows + 1] = row_text(key, entries[key]) end
  return table.concat(rows)
end

-- All at once; whoever watches hears what is different.
local function set_state(map, text)
  local inside = map[own]
  local before = inside.entries
  inside.entries, inside.size, inside.removed, inside.has = {}, 0, {}, {}
  each_row(text, function(key, entry)
    inside.clock = math.max(inside.clock, entry.stamp)
    inside.entries[key] = entry
    if entry.value then
      inside.size = inside.size + 1
    else
      table.insert(inside.removed, key)
    end
    tell(map, key, entry.value, before[key] and before[key].value, entry.by)
  end)
  for _, key in ipairs(keys.sorted(before)) do
    if not inside.entries[key] then tell(map, key, nil, before[key].value, before[key].by) end
  end
end

-- ---- what users call ----------------------------------------------------------------------------

local function check_key(key)
  if type(key) ~= "string" then mistake.raise("a key is a string, not a %s", type(key)) end
end

-- As a send: { rsvp = true } waits until everybody has it.
local function write(map, key, value, options)
  local inside = map[own]
  check_key(key)
  inside.clock = inside.clock + 1
  local entry = { stamp = inside.clock, by = inside.channel.address, value = value }
  return inside.channel:send("put " .. row_text(key, entry), options)
end

function Map:put(key, value, options)
  if type(value) ~= "string" then mistake.raise("a value is a string, not a %s", type(value)) end
  return write(self, key, value, options)
end

function Map:remove(key, options) return write(self, key, nil, options) end

function Map:get(key)
  check_key(key)
  local entry = self[own].entries[key]
  return entry and entry.value
end

function Map:size() return self[own].size end

-- Keys and values, in the order of the keys:  for key, value in map:each() do ... end
function Map:each()
  local entries = self[own].entries
  local sorted, at = keys.sorted(entries), 0
  return function()
    repeat at = at + 1 until at > #sorted or (entries[sorted[at]] and entries[sorted[at]].value)
    if sorted[at] then return sorted[at], entries[sorted[at]].value end
  end
end

-- f(key, value, before, by): value nil: removed; before nil: it is new; by: the writer's address.
function Map:watch(f)
  if type(f) ~= "function" then mistake.raise("watch takes a function") end
  table.insert(self[own].watchers, f)
end

-- Takes the state again from another member.  True, or nil, code, detail.
function Map:refresh(progress)
  local inside = self[own]
  local world = inside.channel[Channel.own].world
  local ok, code, detail
  for _ = 1, TRIES do
    ok, code, detail = inside.channel:get_state { timeout = LIMIT, progress = progress }
    if ok or code ~= "refused" or not inside.channel:is_open() then break end
    world:wait(world:waiter(), require("neap.quantity").ns(PAUSE)) -- Who could give waits itself.
  end
  if ok then return true end
  return nil, code, detail
end

function Map:leave(options) return self[own].channel:leave(options) end

-- ---- making one ---------------------------------------------------------------------------------

function Map.__tostring(map)
  return ("map of %d entries, %s"):format(map[own].size, tostring(map[own].channel))
end

-- Joins the group and takes the map; `join` is neap.join.  nil, code, detail.
return function(join, group, options)
  local map = setmetatable({}, Map)
  local inside = { entries = {}, size = 0, clock = 0, removed = {}, has = {}, watchers = {} }
  map[own] = inside
  local given = {}
  for _, key in ipairs(keys.sorted(options)) do given[key] = options[key] end
  if given.watch then map:watch(given.watch) end
  local progress = given.progress
  given.watch, given.progress = nil, nil
  given.on = {
    message = function(msg) on_message(map, msg) end,
    view = function(view) if inside.channel then on_view(map, view) end end,
    state = function(text) set_state(map, text) end,
    state_request = function() return state_text(map) end,
    trouble = options.on and options.on.trouble,
    error = options.on and options.on.error,
  }
  local channel, code, detail = join(group, given)
  if not channel then return nil, code, detail end
  inside.channel, inside.address = channel, channel.address
  map.channel = channel
  local ok
  ok, code, detail = map:refresh(progress)
  if ok then return map end
  channel:close()
  return nil, code, detail
end
