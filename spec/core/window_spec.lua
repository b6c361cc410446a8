-- The retransmission window against a model of it: properties in C.

local proof = require "support.proof"

describe("window", function()
  it("does what a model does, also across 2^31, 2^53, 2^63 and 2^64", function()
    proof "window"
  end)
end)
