-- Times and sizes as text: properties in C.  Attributes in Lua: spec/scenarios/h42_spec.lua.

local proof = require "support.proof"

describe("quantity", function()
  it("reads back exactly what it wrote, and says what it cannot read", function()
    proof "quantity"
  end)
end)
