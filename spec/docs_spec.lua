-- docs: code in READMEs runs, and generated pages are fresh.

local build = require "support.build"

local function text_of(path)
  local f = assert(io.open(path))
  local text = f:read "*a"
  f:close()
  return text
end

local function blocks(path, kind)
  local list = {}
  for block in text_of(path):gmatch("```" .. kind .. "\n(.-)\n```") do list[#list + 1] = block end
  return list
end

describe("README.md", function()
  it("has Lua blocks that run as they stand #real", function()
    local ran = 0
    for _, block in ipairs(blocks("README.md", "lua")) do
      local path = build.write("readme.lua", block)
      local command
      if block:find "return extend" or block:find "return stack" then
        command = build.neap .. " check " .. path
      else
        command = ("timeout 60 %s run %s"):format(build.neap, path)
      end
      local text, code = build.run(command)
      assert(code == 0, block .. "\n" .. text)
      ran = ran + 1
    end
    assert(ran >= 4, "the README has lost its examples")
  end)

  it("has a page for Lua whose layer runs", function()
    local list = blocks("lua/README.md", "lua")
    assert(#list >= 1, "lua/README.md has lost its example")
    for _, block in ipairs(list) do
      local path = build.write("readme-lua.lua", block)
      local text, code = build.run(("timeout 60 %s run %s"):format(build.neap, path))
      assert(code == 0, text)
    end
  end)

  it("has a prompt session that works", function()
    local session = text_of("README.md"):match "```\n(neap> .-)\n```"
    local lines = {}
    for line in session:gmatch "neap> ([^\n]*)" do lines[#lines + 1] = line end
    local typed = build.write("readme-session.txt", table.concat(lines, "\n") .. "\n")
    local text = build.run(("timeout 60 %s repl <%s"):format(build.neap, typed))
    for _, expected in ipairs { "without what a rule took", "xmit_req",
      "nakack %- Multicasts arrive", "did you mean 'interval'", "nakack.gap_delay %- " } do
      assert(text:find(expected), ("no %q in:\n%s"):format(expected, text))
    end
  end)

  it("names only make targets that exist", function()
    local makefile = text_of "Makefile"
    for target in text_of("README.md"):gmatch "make ([%l]+)" do
      if target ~= "and" then
        assert(makefile:find("\n" .. target .. ":"), "no target " .. target)
      end
    end
  end)

  it("is linked to pages that exist", function()
    for link in text_of("README.md"):gmatch "%]%(([%w_/%.]+)%)" do
      local f = io.open(link) or io.open(link .. "/01-hello.lua")
      assert(f, link)
      f:close()
    end
  end)
end)

describe("generated pages", function()
  it("are fresh", function()
    local text, code = build.run(build.neap .. " doc --check")
    assert(code == 0, text)
  end)
end)

-- What a cell names, in its order: calls f(path, title) for each path, and for each text in quotes
-- with the path before it.
local function named(line, f)
  local at, path = 1, nil
  while true do
    local first, last, word = line:find("([%w_/]+_spec)%f[^%w_]", at)
    local a, b, story = line:find("(support/%w+)", at)
    if a and a < (first or math.huge) then first, last, word = a, b, story end
    local from, to, title = line:find('"([^"]+)"', at)
    if not first and not from then return end
    if first and first < (from or math.huge) then
      at, path = last + 1, word
      f(path)
    else
      at = to + 1
      if path then f(path, title) end
    end
  end
end

describe("spec/catalogue.md", function()
  it("has tables of three columns, and names specs and stories that exist", function()
    local texts, problems, rows = {}, {}, 0
    for line in io.lines "spec/catalogue.md" do
      if line:match "^|" then
        rows = rows + 1
        if select(2, line:gsub("|", "")) ~= 4 then
          problems[#problems + 1] = "not three columns: " .. line
        end
        named(line, function(path, title)
          local file = io.open("spec/" .. path .. ".lua")
          texts[path] = texts[path] or file and file:read "*a" or ""
          if file then file:close() end
          if texts[path] == "" then
            problems[#problems + 1] = "no spec " .. path
          elseif title and not texts[path]:find(title, 1, true) then
            problems[#problems + 1] = ("nothing in %s is called %q"):format(path, title)
          end
        end)
      end
    end
    assert(#problems == 0, "\n" .. table.concat(problems, "\n"))
    assert(rows > 150, rows)
  end)
end)
