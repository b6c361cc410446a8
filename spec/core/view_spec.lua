-- Views: properties in C.

local proof = require "support.proof"

describe("view", function()
  it("tells who joined and left, and each member's rank", function() proof "view" end)
end)
