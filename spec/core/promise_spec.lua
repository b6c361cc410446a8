-- Promises: properties in C.  The layers' own: spec/lua/stack_spec.lua.

local proof = require "support.proof"

describe("promise", function()
  it("holds until it is broken, and each problem is a sentence", function() proof "promise" end)
end)
