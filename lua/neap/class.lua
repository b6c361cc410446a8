-- class: from a layer's table to a class that C understands: attribute rows, header rows and
-- functions.  Everything that C points to is kept in the class for as long as anybody uses it.

local C = require "neap.cdef"
local ffi = require "ffi"
local keys = require "neap.keys"
local mistake = require "neap.mistake"
local nearest = require "neap.nearest"
local quantity = require "neap.quantity"

local KINDS = { param = 1, gauge = 2, counter = 3 }
local LIVE = { no = 0, now = 1, tick = 2, timer = 3 }
local NUMBER, BOOL, CHOICE, TEXT, REAL = 0, 1, 2, 3, 4
local ATTRS_MAX = 32 -- NEAP_BIND_ATTRS
local ABI = 1

local FIELDS = {
  "doc", "needs", "hears", "gives", "breaks", "peer", "peer_gone", "headers", "attrs", "ops",
  "open", "down", "up", "each_down", "each_up", "event", "still", "may", "changed", "close",
  "check",
}
local WORDS = { doc = true, needs = true, hears = true, gives = true, breaks = true }
local TABLES = { headers = true, attrs = true, ops = true }

-- Forms that a Lua layer can write, in the order of enum neap_form (the others need memory that
-- lives as long as the message: text goes into the body).
local FORMS = {
  i8 = { 0, "int8_t" }, u8 = { 1, "uint8_t" }, i16 = { 2, "int16_t" }, u16 = { 3, "uint16_t" },
  i32 = { 4, "int32_t" }, u32 = { 5, "uint32_t" }, i64 = { 6, "int64_t" }, flag = { 7, "bool" },
  cint = { 8, "uint32_t" }, clong = { 9, "uint64_t" },
}
local FORM_NAMES = { "i8", "u8", "i16", "u16", "i32", "u32", "i64", "flag", "cint", "clong" }

-- ---- attributes ---------------------------------------------------------------------------------

local function number_of(layer, row, value, what)
  if value == nil then return 0 end
  if row.unit == "ns" or row.unit == "bytes" then
    local number, problem = quantity.read(value, row.unit)
    if not number then mistake.raise("%s.%s: %s: %s", layer, row.name, what, problem) end
    return number
  end
  if type(value) ~= "number" then
    mistake.raise("%s.%s: %s is a number, not a %s", layer, row.name, what, type(value))
  end
  return value
end

local function type_of(row)
  if row.choices then return CHOICE end
  if row.real then return REAL end
  local kind = type(row.default)
  if kind == "boolean" then return BOOL end
  if kind == "string" and row.unit ~= "ns" and row.unit ~= "bytes" then return TEXT end
  if kind == "number" and row.default ~= math.floor(row.default) then return REAL end
  return NUMBER
end

local function choice_of(layer, row)
  local index = 0
  for word in row.choices:gmatch "%S+" do
    if word == row.default then return index end
    index = index + 1
  end
  mistake.raise("%s.%s: the default %s is none of: %s", layer, row.name, tostring(row.default),
    row.choices)
end

-- One row; `c` is its struct neap_attr.
local function attr(layer, row, index, c, methods)
  if methods[row.name] then
    mistake.raise("%s: an attribute cannot be called '%s': layers have a method of that name",
      layer, row.name)
  end
  if type(row.doc) ~= "string" then
    mistake.raise("%s.%s needs a doc line", layer, row.name)
  end
  if row.live and not LIVE[row.live] then
    mistake.raise("%s.%s: live is no, now, tick or timer, not %s", layer, row.name,
      tostring(row.live))
  end
  for _, field in ipairs { "unit", "words", "choices" } do
    if row[field] ~= nil and type(row[field]) ~= "string" then
      mistake.raise("%s.%s: %s is a string, not a %s", layer, row.name, field, type(row[field]))
    end
  end
  row.type = row.kind == "param" and type_of(row) or NUMBER
  local scale = row.type == REAL and 1e6 or 1
  c.kind, c.name, c.doc, c.unit = KINDS[row.kind], row.name, row.doc, row.unit or ""
  c.type, c.live = row.type, LIVE[row.live or "no"]
  c.at = ffi.offsetof("struct neap_bind_layer", "values") + 8 * index
  if row.choices then c.choices = row.choices end
  if row.words then c.words = row.words end
  if row.type == CHOICE then
    c.value = choice_of(layer, row)
  elseif row.type == TEXT then
    c.text = row.default
  elseif row.type == BOOL then
    c.value = row.default and 1 or 0
  else
    c.value = number_of(layer, row, row.default, "the default") * scale
    c.min = number_of(layer, row, row.min, "min") * scale
    c.max = row.max ~= nil and number_of(layer, row, row.max, "max") * scale or 0
  end
end

local function attrs_of(layer, rows, methods)
  if #rows > ATTRS_MAX then
    mistake.raise("%s has %d attributes; a layer in Lua has at most %d", layer, #rows, ATTRS_MAX)
  end
  local list, metrics = ffi.new("struct neap_attr[?]", #rows + 1), {}
  for index, row in ipairs(rows) do
    if type(row) ~= "table" or not KINDS[row.kind] then
      mistake.raise("%s: attrs are written param { ... }, gauge { ... } or counter { ... }", layer)
    end
    attr(layer, row, index - 1, list[index - 1], methods)
    if row.kind ~= "param" then metrics[#metrics + 1] = { name = row.name, index = index - 1 } end
  end
  return list, metrics
end

-- ---- headers ------------------------------------------------------------------------------------

local function present_when(layer, field, fields, c)
  local when = field.when
  if not when then return end
  for _, other in ipairs(fields) do
    if other[1] == when[1] then
      c.when_at, c.when_size = other.at, ffi.sizeof(FORMS[other[2]][2])
      for index = 2, #when do c.when_mask = bit.bor(c.when_mask, bit.lshift(1, when[index])) end
      return
    end
  end
  mistake.raise("%s: field %s depends on '%s', which is no earlier field", layer, field[1],
    tostring(when[1]))
end

-- put and get for one struct.  Fields of 64 bits come out as plain numbers where they fit.
local function accessors(names, members, struct)
  local pointer = ffi.typeof(struct .. " *")
  local Head = {}
  function Head.__index(head, name)
    local member = members[name]
    if not member then mistake.raise("the header has no field '%s'", tostring(name)) end
    local value = head[member]
    if type(value) == "cdata" then return quantity.exact(value) end
    return value
  end
  pcall(ffi.metatype, ffi.typeof(struct), Head)
  local function at_of(m, at)
    return ffi.cast("char *", m) + at
  end
  local function put(m, slot, at, given)
    local place = at_of(m, at)
    local head = ffi.cast(pointer, place)
    m.present = bit.bor(m.present, bit.lshift(1ULL, slot))
    place[-8] = 0
    for index = 1, #names do head[members[names[index]]] = given[names[index]] or 0 end
  end
  local function get(m, slot, at)
    if bit.band(bit.rshift(m.present, slot), 1ULL) == 0 then return nil end
    return ffi.cast(pointer, at_of(m, at))
  end
  return put, get
end

-- The C struct, whose name says what is in it: declared once for the life of the process.
local function struct_of(fields, lines)
  local parts = { "struct neap_head_" .. #fields }
  for _, field in ipairs(fields) do parts[#parts + 1] = field[2] .. "_" .. field[1] end
  local struct = table.concat(parts, "__")
  if not pcall(ffi.sizeof, struct) then
    ffi.cdef(("%s { %s };"):format(struct, table.concat(lines, " ")))
  end
  return struct
end

local function header_of(layer, definition, doc)
  local id = definition.id
  if type(id) ~= "number" or id < 1024 or id > 32767 or id ~= math.floor(id) then
    mistake.raise("%s: headers need an id, yours from 2048 on: headers = { id = 2048, ... }", layer)
  end
  local lines, names, members = {}, {}, {}
  for index, field in ipairs(definition) do
    local name, form = field[1], field[2]
    if type(name) ~= "string" or not name:match "^[%a_][%w_]*$" then
      mistake.raise("%s: field %d of the header needs a name: { \"seq\", \"clong\", \"doc\" }",
        layer, index)
    end
    if not FORMS[form] then
      mistake.raise("%s: the field %s has no form '%s'%s", layer, name, tostring(form),
        nearest(tostring(form), FORM_NAMES))
    end
    names[index], members[name] = name, "f_" .. name
    lines[index] = ("%s f_%s;"):format(FORMS[form][2], name)
  end
  if #names == 0 then lines[1] = "uint8_t unused;" end
  local struct = struct_of(definition, lines)
  local rows = ffi.new("struct neap_field[?]", #names + 1)
  for index, field in ipairs(definition) do
    local c = rows[index - 1]
    field.at = ffi.offsetof(ffi.typeof(struct), "f_" .. field[1])
    field[3] = field[3] or ""
    c.name, c.doc, c.at, c.form = field[1], field[3], field.at, FORMS[field[2]][1]
    present_when(layer, field, definition, c)
  end
  local headers = ffi.new "struct neap_header[2]"
  headers[0].name, headers[0].protocol, headers[0].class = layer, id, definition.class or id
  headers[0].size, headers[0].doc = ffi.sizeof(ffi.typeof(struct)), doc
  headers[0].rows, headers[0].row_count = rows, #names
  local put, get = accessors(names, members, struct)
  return { rows = rows, headers = headers, put = put, get = get, names = names,
    known = keys.set(names) }
end

local no_header = {
  put = function() mistake.raise("this layer has no headers") end,
  get = function() return nil end,
}

-- ---- the class ----------------------------------------------------------------------------------

local function check_fields(layer, definition)
  if type(definition) ~= "table" then
    mistake.raise("neap.layer \"%s\" is followed by a table", layer)
  end
  for _, key in ipairs(keys.sorted(definition)) do
    local known, wanted = false, "function"
    for _, field in ipairs(FIELDS) do known = known or field == key end
    if WORDS[key] then wanted = "string" elseif TABLES[key] then wanted = "table" end
    if not known then
      mistake.raise("%s: a layer has no field '%s'%s", layer, tostring(key),
        nearest(tostring(key), FIELDS))
    end
    if type(definition[key]) ~= wanted then
      mistake.raise("%s: %s is a %s, not a %s", layer, key, wanted, type(definition[key]))
    end
  end
  if not definition.doc then mistake.raise("%s: a layer says in doc what it promises", layer) end
  if definition.up and definition.each_up or definition.down and definition.each_down then
    mistake.raise("%s: a direction has one form: the batch or each message", layer)
  end
end

local function pointer(f) return ffi.cast("void *", f) end

local function functions(c, definition)
  c.open, c.close = pointer(C.neap_bind_layer_open), pointer(C.neap_bind_layer_close)
  c.changed, c.peer_gone = pointer(C.neap_bind_layer_changed), pointer(C.neap_bind_layer_peer_gone)
  if definition.up or definition.each_up then c.up = pointer(C.neap_bind_layer_up) end
  if definition.down or definition.each_down then c.down = pointer(C.neap_bind_layer_down) end
  if definition.event then c.event = pointer(C.neap_bind_layer_event) end
  if definition.still then c.still = pointer(C.neap_bind_layer_still) end
  if definition.may then c.may = pointer(C.neap_bind_layer_may) end
  if definition.check then c.check = pointer(C.neap_bind_layer_check) end
end

local function ops_of(layer, ops)
  local names = keys.sorted(ops)
  local list = ffi.new("struct neap_op[?]", #names + 1)
  for index, name in ipairs(names) do
    local op = ops[name]
    if type(op) ~= "table" or type(op.doc) ~= "string" or type(op.run) ~= "function" then
      mistake.raise("%s: an operation is written %s = { doc = \"...\", run = function(self) end }",
        layer, tostring(name))
    end
    list[index - 1].name, list[index - 1].doc = name, op.doc
    list[index - 1].run = pointer(C.neap_bind_layer_op)
  end
  return list
end

-- With a header of its own on its messages a layer leaves the common wire format.
local function breaks_of(definition)
  local breaks = definition.breaks or ""
  if not definition.headers or breaks:find("jgroups5", 1, true) then return breaks end
  return breaks .. " jgroups5"
end

-- { name, class (C), definition, rows, metrics, header, headers, ops }.
return function(name, definition, methods)
  check_fields(name, definition)
  local c = ffi.new "struct neap_class"
  local class = { name = name, class = c, definition = definition, rows = definition.attrs or {} }
  c.name, c.doc, c.abi = name, definition.doc, ABI
  c.needs, c.hears = definition.needs or "", definition.hears or ""
  c.gives, c.breaks = definition.gives or "", breaks_of(definition)
  c.size, c.peer_size = ffi.sizeof "struct neap_bind_layer", 8
  class.attrs, class.metrics = attrs_of(name, class.rows, methods)
  c.attrs = class.attrs
  class.header = no_header
  if definition.headers then
    class.header = header_of(name, definition.headers, definition.doc)
    class.headers = class.header.headers
    c.headers = class.headers
  end
  class.ops = {}
  if definition.ops then
    class.op_rows = ops_of(name, definition.ops)
    c.ops = class.op_rows
    for _, op in ipairs(keys.sorted(definition.ops)) do class.ops[op] = definition.ops[op].run end
  end
  functions(c, definition)
  return class
end
