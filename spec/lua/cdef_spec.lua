-- cdef: what FFI sees is what C has.

local core = require "neap.core"
local ffi = require "ffi"

require "neap.cdef"

-- The name in a declaration: "struct neap_peer *to", "char name[64]", "bool oob".
local function name_of(field)
  return field:gsub("%b{}", ""):gsub("%[.*$", ""):match "([%w_]+)$"
end

describe("the declarations", function()
  it("put every field where C has it, and make every struct as large", function()
    local rows = core.shapes()
    assert.is_true(#rows > 800)
    for index = 1, #rows, 4 do
      local struct, field = "struct " .. rows[index], rows[index + 1]
      local at, size = rows[index + 2], rows[index + 3]
      if field == "" then
        assert.equal(size, ffi.sizeof(struct), struct)
      else
        assert.equal(at, (ffi.offsetof(struct, name_of(field))), struct .. " " .. field)
      end
    end
  end)

  it("are made once per process", function()
    package.loaded["neap.cdef"] = nil
    assert.truthy(require "neap.cdef")
  end)
end)
