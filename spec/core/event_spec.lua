-- Events and trails of errors: properties in C.

local proof = require "support.proof"

describe("event", function()
  it("has a name, and gives up what it holds; a trail says who was doing what", function()
    proof "events"
  end)
end)
