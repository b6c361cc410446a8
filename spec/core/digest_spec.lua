-- Digests: properties in C.

local proof = require "support.proof"

describe("digest", function()
  it("comes back from the wire, and is refused when it is cut", function() proof "digest" end)
end)
