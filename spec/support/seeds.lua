-- seeds: a story over many seeds; a failure says which.

local seeds = {}

-- f(seed) for 1 .. count.
function seeds.each(count, f)
  for seed = 1, count do
    local ok, problem = xpcall(f, debug.traceback, seed)
    if not ok then error(("seed %d: %s"):format(seed, tostring(problem)), 3) end
  end
end

return seeds
