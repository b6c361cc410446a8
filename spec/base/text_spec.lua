-- Bounded text, and the nearest word: properties in C.

local proof = require "support.proof"

describe("text", function()
  it("never leaves its room, and finds the word that was meant", function() proof "text" end)
end)
