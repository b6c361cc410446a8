-- The trace: properties in C.

local proof = require "support.proof"

describe("trace", function()
  it("keeps the last moves, oldest first", function() proof "trace" end)
end)
