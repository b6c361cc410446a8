-- build: the build that is asked, and what specs write and start.
--
--     local text, code = build.run(build.neap .. " run " .. build.write("x.lua", "print(1)"))
--
-- NEAP_LIB says where neap/core.so lies; the command stands above it, and so do the files of specs.

local build = {}

build.lib = ((os.getenv "NEAP_LIB" or "build/lib"):gsub("^%./", ""))
build.folder = (build.lib:gsub("/lib/?$", ""))
build.neap = build.folder .. "/neap"
build.scratch = build.folder .. "/spec"

-- Writes a file of this name for a spec, and gives its path.
function build.write(name, text)
  local path = build.scratch .. "/" .. name
  os.execute("mkdir -p " .. path:match "^(.*)/")
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  return path
end

-- What a shell command prints, errors among it, and its exit code.
function build.run(command)
  local pipe = assert(io.popen(("{ %s\n} 2>&1; echo rc=$?"):format(command)))
  local text, code = pipe:read("*a"):match "^(.*)rc=(%d+)%s*$"
  pipe:close()
  return text, tonumber(code)
end

-- The same for a Lua program, which finds neap and the specs' support as this one does.
function build.script(name, text)
  local path = build.write(name, ("package.path, package.cpath = %q, %q\n%s"):format(package.path,
    package.cpath, text))
  return build.run(("luajit %s %s"):format(jit.status() and "" or "-joff", path))
end

return build
