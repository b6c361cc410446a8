-- voting: what specs of `stable` have in common.

local voting = {}

-- Own multicasts that are kept, at each member.
function voting.kept(g)
  local list = {}
  for _, name in ipairs(g.names) do list[#list + 1] = g[name].stack.nakack.window_stored end
  return list
end

-- Nobody keeps anything.
function voting.nothing(g)
  for _, count in ipairs(voting.kept(g)) do if count > 0 then return false end end
  return true
end

-- Votes by time only, and rarely: what a spec sees is what it asked for.
function voting.quiet(stable, more)
  local with = { nakack = { retransmission = "nak" } }
  with.stable = { interval = "1h", max_bytes = "1GB" }
  for key, value in pairs(stable or {}) do with.stable[key] = value end
  for key, value in pairs(more or {}) do with[key] = value end
  return with
end

-- Of a counter, over all members.
function voting.total(g, counter)
  local sum = 0
  for _, name in ipairs(g.names) do sum = sum + g[name].stack.stable[counter] end
  return sum
end

function voting.coordinator(g)
  return g[g.ann:view().coordinator]
end

-- A member that is not the coordinator.
function voting.other(g)
  return voting.coordinator(g) == g.ann and g.bob or g.ann
end

return voting
