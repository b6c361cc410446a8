-- policy: the application's order of the members of a view that this member makes.
--
--     ann:on("membership", function(change)
--       table.sort(change.members)      -- who stays, then who comes: as they would stand
--       return change.members           -- change.joined, change.left, change.addresses: see view
--     end)
--
-- The answer names each member once, by name or by address.  A policy does not wait: the change
-- does.  What it gets wrong goes to the channel's error hook, and members stand as they would.

local C = require "neap.cdef"
local ffi = require "ffi"
local mistake = require "neap.mistake"
local view_of = require "neap.view"

local policy = {}

-- The places of those that `answer` lists in `members` and `addresses`, from 0; or nil and why not.
function policy.places(members, addresses, answer)
  if type(answer) ~= "table" then
    return nil, ("a membership policy returns a list of members, not a %s"):format(type(answer))
  end
  local by_word, places, taken = {}, {}, {}
  local function learn(word, place)
    by_word[word] = by_word[word] or {}
    table.insert(by_word[word], place)
  end
  for index = 1, #members do
    learn(members[index], index - 1)
    if addresses[index] ~= members[index] then learn(addresses[index], index - 1) end
  end
  for index = 1, #answer do
    local free
    for _, place in ipairs(by_word[answer[index]] or {}) do
      if not taken[place] and not free then free = place end -- Of equal names, one after the other.
    end
    if not free then
      return nil, ("a membership policy returned '%s', which is %s"):format(tostring(answer[index]),
        by_word[answer[index]] and "there twice" or "no member of the next view")
    end
    taken[free], places[index] = true, free
  end
  if #places == #members then return places end
  for index = 1, #members do
    if not taken[index - 1] then
      return nil, ("a membership policy left out '%s'"):format(members[index])
    end
  end
end

-- Calls it and passes its word on, whatever that is.  `report` is told what went wrong.
function policy.answer(pointer, note, handler, report)
  local change = view_of(note.view)
  local members, addresses = {}, {} -- Of our own: the handler may do with its lists as it likes.
  for index = 1, #change.members do
    members[index], addresses[index] = change.members[index], change.addresses[index]
  end
  local places, problem
  local ok, answer = xpcall(handler, mistake.traceback, change)
  if ok then
    places, problem = policy.places(members, addresses, answer)
  else
    problem = answer
  end
  local count = places and #places or 0
  local list = ffi.new("uint16_t[?]", math.max(count, 1))
  for index = 1, count do list[index - 1] = places[index] end
  C.neap_bind_ordered(pointer, note.number, list, count)
  if problem then report(problem) end
end

return policy
