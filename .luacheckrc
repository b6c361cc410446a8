std = "luajit"
max_line_length = 100
self = false
files["spec"] = { std = "+busted" }
files["stacks"] = { ignore = { "113" } } -- layer names are looked up by the loader
files["lua/neap/wireshark/tree.lua"] = { -- what Wireshark's own Lua has
  read_globals = { "Proto", "ProtoField", "ProtoExpert", "DissectorTable", "Int64", "UInt64",
    "base", "expert", "DESEGMENT_ONE_MORE_SEGMENT" },
}
