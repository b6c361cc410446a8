std = "luajit"
max_line_length = 100
self = false
files["spec"] = { std = "+busted" }
files["stacks"] = { ignore = { "113" } } -- layer names are looked up by the loader
