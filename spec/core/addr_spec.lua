-- Addresses: properties in C.  The bytes of another implementation: spec/core/headers_spec.lua.

local proof = require "support.proof"

describe("addr", function()
  it("parses what it prints, reads what it writes, and has one order", function()
    proof "addr"
  end)
end)
