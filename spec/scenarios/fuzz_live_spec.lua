-- A living group among packets of its own, changed: see support/fuzz_live for what may be expected
-- of which.  A few rounds of each kind; `make fuzz-live` goes on for as long as one likes.

local fuzz_live = require "support.fuzz_live"
local group = require "support.group"

local EXPECTS = {
  strangers = "keeps every promise whatever strangers send",
  replays = "keeps every promise when what members sent comes again",
  refused = "keeps every promise when packets of members come broken",
  members = "stands when packets in the name of members are changed",
}

describe("a living group", function()
  for _, kind in ipairs(fuzz_live.kinds) do
    it(EXPECTS[kind], function()
      group.each_seed(5, function(seed)
        local packets = fuzz_live.round { seed = seed, kind = kind, steps = 100 }
        assert(packets > 100, packets)
      end)
    end)
  end
end)
