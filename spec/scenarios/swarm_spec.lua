-- The swarm: twenty seeds of it here, any number by `make sim SEEDS=1..1000`; and its oracle, which
-- has to notice.

local Oracle = require "support.oracle"
local swarm = require "support.swarm"

describe("a swarm of stories", function()
  for seed = 1, 20 do
    it(("keeps every promise with seed %d"):format(seed), function()
      local problem, plan = swarm.try(seed)
      assert(not problem, ("%s\n%s\nagain: make sim SEEDS=%d"):format(
        swarm.describe(plan), tostring(problem), seed))
    end)
  end

  it("is the same story in three processes", function()
    for _, seed in ipairs { 4, 11, 18 } do
      local told = {}
      for _, mode in ipairs { "", "-joff", "-Ohotloop=2" } do
        local pipe = assert(io.popen(("luajit %s spec/support/swarm_main.lua %d 2>&1"):format(
          mode, seed)))
        local text = pipe:read "*a"
        pipe:close()
        told[#told + 1] = assert(text:match "%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x", text)
      end
      assert.equal(told[1], told[2])
      assert.equal(told[1], told[3])
    end
  end)
end)

describe("the oracle", function()
  local A, B, C = "address of ann", "address of bob", "address of cho"
  local NAMES = { [A] = "ann", [B] = "bob", [C] = "cho" }

  -- Three members in one view; ann has sent 1 2 3 to all.
  local function scene()
    local o = Oracle.new()
    for _, address in ipairs { A, B, C } do
      o:on_view(address, NAMES[address], { id = "ann|2", members = { "ann", "bob", "cho" },
        addresses = { A, B, C }, joined = { "cho" }, left = {} })
    end
    return o
  end

  local function send(o, body, options)
    options = options or {}
    return o:on_send(A, "ann", { body = body, to = options.to, oob = options.oob,
      loopback = options.loopback })
  end

  local function get(o, address, ...)
    for _, body in ipairs { ... } do
      o:on_done(o:on_got(address, NAMES[address], { from_address = A, body = body }))
    end
  end

  local function verdict(o)
    return table.concat(o:verdict { A, B, C }, "\n")
  end

  local function case(cho_gets, sent)
    local o = scene()
    for _, body in ipairs(sent or { "1", "2", "3" }) do send(o, body) end
    for _, address in ipairs { A, B } do get(o, address, unpack(sent or { "1", "2", "3" })) end
    get(o, C, unpack(cho_gets))
    return verdict(o)
  end

  it("is content when all got everything in order", function()
    assert.equal("", case { "1", "2", "3" })
    assert.equal("", case({ "", "", "x" }, { "", "", "x" }))
  end)

  it("sees a gap, a repetition, a swap, a stranger and a loss at the end", function()
    assert.matches("fifo: cho .* #3 of the stream came behind #1", case { "1", "3" })
    assert.matches("fifo: cho", case { "1", "2", "2", "3" })
    assert.matches("fifo: cho", case { "1", "3", "2" })
    assert.matches("fifo: cho .* is nothing that was sent", case { "1", "2", "4" })
    assert.matches("reliable: cho never got #3", case { "1", "2" })
    assert.matches("reliable: cho never got #1", case {})
    assert.matches("reliable: cho never got #3", case({ "", "" }, { "", "", "" }))
  end)

  it("excuses who was not there when it was sent, and who is gone", function()
    local o = Oracle.new()
    o:on_view(A, "ann", { id = "ann|0", members = { "ann" }, addresses = { A }, joined = {},
      left = {} })
    send(o, "early")
    for _, address in ipairs { A, B } do
      o:on_view(address, NAMES[address], { id = "ann|1", members = { "ann", "bob" },
        addresses = { A, B }, joined = { "bob" }, left = {} })
    end
    send(o, "late")
    get(o, A, "early", "late")
    get(o, B, "late")
    assert.equal("", table.concat(o:verdict { A, B }))
    o = scene()
    send(o, "1")
    get(o, A, "1")
    get(o, B, "1")
    o:gone(C)
    assert.not_matches("reliable", verdict(o))
  end)

  it("asks for one's own messages, unless they were not to come back", function()
    local o = scene()
    send(o, "mine")
    send(o, "not mine", { loopback = false })
    for _, address in ipairs { B, C } do get(o, address, "mine", "not mine") end
    assert.matches("reliable: ann never got #1", verdict(o))
    get(o, A, "mine")
    o.problems = {}
    assert.equal("", verdict(o))
  end)

  it("takes sends back that were refused", function()
    local o = scene()
    send(o, "refused").refused = true
    assert.equal("", verdict(o))
    get(o, B, "refused")
    assert.matches("fifo: bob .* is nothing that was sent", verdict(o))
  end)

  it("sees what comes twice or never out of band", function()
    local function oob(...)
      local o = scene()
      send(o, "1", { oob = true })
      send(o, "2", { oob = true })
      for address in pairs(NAMES) do
        local list = address == C and { ... } or { "2", "1" }
        for _, body in ipairs(list) do
          o:on_got(address, NAMES[address], { from_address = A, body = body, oob = true })
        end
      end
      return verdict(o)
    end
    assert.equal("", oob("1", "2"))
    assert.matches("cho never got of .* oob", oob("1"))
    assert.matches("cho got a second time", oob("1", "2", "1"))
    assert.matches("cho got what nobody sent", oob("1", "2", "3"))
  end)

  it("sees views that fall, differ, or leave out who installs them", function()
    local o = scene()
    local function view(number, addresses, joined, left)
      local names = {}
      for index, address in ipairs(addresses) do names[index] = NAMES[address] end
      o:on_view(C, "cho", { id = "ann|" .. number, members = names, addresses = addresses,
        joined = joined or {}, left = left or {} })
      local text = table.concat(o.problems, "\n")
      o.problems = {}
      return text
    end
    assert.matches("installed ann|1 after 2", view(1, { A, B, C }), 1, true)
    assert.matches("two lists of members", view(2, { A, C }, {}, { "bob" }))
    assert.matches("in which it is not", view(3, { A, B }, { "bob" }, { "cho" }))
    assert.matches("says joined (), left ()", view(4, { A, C }), 1, true)
    assert.matches("ended in", verdict(o))
  end)

  it("knows when a delivery was reported too early", function()
    local o = scene()
    local first, second = send(o, "1"), send(o, "2")
    get(o, B, "1")
    assert.is_true(o:delivered(first, B))
    assert.is_false(o:delivered(second, B))
    local token = o:on_got(B, "bob", { from_address = A, body = "2" })
    assert.is_false(o:delivered(second, B)) -- Its callback has not returned.
    o:on_done(token)
    assert.is_true(o:delivered(second, B))
    assert.is_false(o:delivered(first, C))
  end)
end)
