-- handle: a synchronous send that is under way.  s.missing: names that have not answered; s.acked:
-- how long each of the others took; s:wait(limit): true, { left = ... } or nil, code, detail.
--
-- left: who was not waited for, because it left.  Only if there are any, split: those of them that
-- are in another part of a group that fell apart; by_own_setting: who could not be told what to
-- wait for before it answers (members that are not Neap's) and did as its own stack says.

local message = require "neap.message"
local quantity = require "neap.quantity"
local C = require "neap.cdef"
local ffi = require "ffi"

local LEFT, SPLIT, BY_OWN_SETTING = 1, 2, 4

local Handle = {}
Handle.__index = Handle

local function without(list, name)
  local rest = {}
  for _, other in ipairs(list) do
    if other ~= name then rest[#rest + 1] = other end
  end
  return rest
end

-- From a struct neap_found: rows of { name, left, split, by_own_setting }.
function Handle.found(found)
  local rows = {}
  if found == nil then return rows end
  for index = 1, found.count do
    local row = found.rows[index - 1]
    rows[index] = {
      name = message.name(row.peer),
      left = bit.band(row.bits, LEFT) ~= 0,
      split = bit.band(row.bits, SPLIT) ~= 0,
      by_own_setting = bit.band(row.bits, BY_OWN_SETTING) ~= 0,
    }
  end
  return rows
end

function Handle.new(world, targets)
  return setmetatable({ world = world, missing = targets, acked = {}, waiters = {} }, Handle)
end

function Handle:on_acked(name, time)
  self.acked[name] = quantity.time(time)
  self.missing = without(self.missing, name)
end

function Handle:finish(...)
  if self.result then return end
  self.result = { n = select("#", ...), ... }
  for _, waiter in ipairs(self.waiters) do waiter.wake() end
end

-- The verdict: who left is not missing.
function Handle:on_done(code, rows)
  local said = { left = {}, split = {}, by_own_setting = {}, missing = {} }
  for _, row in ipairs(rows) do
    if row.by_own_setting then
      table.insert(said.by_own_setting, row.name)
    else
      table.insert((row.left or row.split) and said.left or said.missing, row.name)
    end
    if row.split then table.insert(said.split, row.name) end
  end
  self.missing = code < 0 and said.missing or {}
  if #said.split == 0 then said.split = nil end
  if #said.by_own_setting == 0 then said.by_own_setting = nil end
  if code >= 0 then
    said.missing = nil
    return self:finish(true, said)
  end
  local text = ffi.string(C.neap_bind_code_text(code))
  self:finish(nil, text, text == "refused" and self.why_refused or said)
end

-- Waits for the verdict, at most `limit` (the send goes on: it can be waited for again).
function Handle:wait(limit)
  limit = limit ~= nil and quantity.ns(limit) or nil
  if not self.result then
    self.world:must_wait "wait"
    local why = self.hopeless and self.hopeless(limit)
    if why then return nil, "refused", why end
    local waiter = self.world:waiter()
    table.insert(self.waiters, waiter)
    local _, code = self.world:wait(waiter, limit)
    if not self.result then
      return nil, code or "timeout", { missing = self.missing, left = {} }
    end
  end
  return unpack(self.result, 1, self.result.n)
end

function Handle:__tostring()
  return ("send: %s, missing %s"):format(self.result and "done" or "under way",
    #self.missing > 0 and table.concat(self.missing, " ") or "nobody")
end

return Handle
