-- seeds: a story over many seeds; a failure says which.
--
-- Under the sanitizers, which cost several times as much, every third seed is told: the compiled
-- and the interpreted variant tell all of them.

local seeds = {}

local STEP = os.getenv "NEAP_SAN" and 3 or 1

-- f(seed) for 1 .. count.
function seeds.each(count, f)
  for seed = 1, count, STEP do
    local ok, problem = xpcall(f, debug.traceback, seed)
    if not ok then error(("seed %d: %s"):format(seed, tostring(problem)), 3) end
  end
end

return seeds
