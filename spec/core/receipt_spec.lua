-- Receipts: properties in C.

local proof = require "support.proof"

describe("receipt", function()
  it("is applied up to the first that was not released, in any order", function()
    proof "receipt"
  end)
end)
