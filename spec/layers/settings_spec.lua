-- settings: what the whole group sets, all members set, or nobody does.

local agreed = require "support.agreed"
local each_seed = require("support.group").each_seed
local neap = require "neap"

local ACK = { nakack = { retransmission = "ack" }, stable = { interval = "5s" } }

-- Refuses what it is told to, each member by itself.
neap.layer "picky" {
  doc = "Refuses to be set to what this member does not like.",
  attrs = {
    neap.param { "taste", unit = "", default = 0, live = "now", doc = "Set by the group." },
    neap.param { "hates", unit = "", default = 0, live = "now", doc = "What is not liked." },
  },
  may = function(self, name, value)
    if name == "taste" and value == self.hates and value > 0 then return "I hate " .. value end
  end,
}

local picky = neap.stack(function(s)
  return s.extend("lan", {
    "With a layer that has a taste.",
    s.before("rsvp", s.picky {}), s.before("settings", s.check_settings {}),
    s.fd_all { timeout = "3s", interval = "500ms" },
  })
end)

local function set_all(g, name, shape, options)
  options = options or {}
  options.all = true
  return g:call(function() return g[name].stack:set(shape, options) end)
end

describe("settings", function()
  it("sets it at all members, and then says so", function()
    each_seed(20, function(seed)
      local g = agreed.group { seed = seed, loss = seed % 3 / 10, reorder = 0.1 }
      local asker = g.names[seed % 3 + 1]
      local ok, entry
      g.sim:spawn(function()
        ok, entry = assert(g[asker].stack:set(ACK, { all = true }))
        for _, name in ipairs(g.names) do
          assert.equal("ack", g[name].nakack.retransmission)
          assert.equal("5s", tostring(g[name].stable.interval))
        end
      end)
      g.sim:run "20s"
      assert.is_true(ok)
      assert.equal(asker, entry.by)
      assert.equal(1, entry.epoch)
      assert.equal("nakack.retransmission=ack\nstable.interval=5s\n", agreed.same(g))
    end)
  end)

  it("sets it nowhere when one refuses, and says who and why", function()
    each_seed(20, function(seed)
      local g = agreed.group { seed = seed, loss = seed % 3 / 10, stack = picky }
      g.bob.picky.hates, g.cho.picky.hates = 7, 7
      local ok, code, why = set_all(g, g.names[seed % 3 + 1],
        { picky = { taste = 7 }, stable = { interval = "5s" } })
      if seed % 3 == 0 then -- Ann asks.
        assert.same({ nil, "refused", "bob: picky.taste: I hate 7\ncho: picky.taste: I hate 7" },
          { ok, code, why })
      else -- Whoever asks looks at home first.
        assert.same({ nil, "refused", "picky.taste: I hate 7" }, { ok, code, why })
      end
      for _, name in ipairs(g.names) do
        assert.equal("20s", tostring(g[name].stable.interval))
        assert.equal(0, g[name].settings.epoch)
      end
      assert.is_true(set_all(g, "ann", { picky = { taste = 6 } })) -- Nothing is left over.
      agreed.same(g)
    end)
  end)

  it("refuses a change that breaks a promise anywhere", function()
    local g = agreed.group {}
    g.bob.stack:set { stable = { max_bytes = 0 } }
    local ok, code, why = set_all(g, "ann", { stable = { interval = 0 } })
    assert.same({ nil, "refused" }, { ok, code })
    assert.truthy(why:match "^bob: nakack hears 'stable'", why)
    assert.equal("20s", tostring(g.ann.stable.interval))
  end)

  it("names who has not answered in time, and changes nothing", function()
    each_seed(20, function(seed)
      local g = agreed.group { seed = seed, with = { fd_all = { timeout = "40s" } } }
      g.sim:pause "cho"
      local before = g.sim:now()
      local ok, code, detail = set_all(g, seed % 2 == 0 and "ann" or "bob", ACK,
        { timeout = "700ms" })
      assert.same({ nil, "timeout", { "cho" }, false }, { ok, code, detail.missing, detail.made })
      assert(g.sim:now() - before < 1.2e9)
      g.sim:resume "cho"
      g.sim:run "1s"
      assert.is_nil(agreed.same(g))
      assert.is_true(set_all(g, "bob", ACK))
      agreed.same(g)
    end)
  end)

  it("does not make what nobody waits for any more", function()
    each_seed(20, function(seed)
      local g = agreed.group { seed = seed, with = { fd_all = { timeout = "40s" } } }
      g.sim:run(seed * 50 .. "us")
      g.sim:pause "ann"
      local ok, code, detail = set_all(g, "bob", ACK, { timeout = "100ms" })
      assert.same({ nil, "timeout", { "ann" }, false }, { ok, code, detail.missing, detail.made })
      g.sim:resume "ann"
      g.sim:run "5s"
      assert.equal(1, g.ann.settings.asked)
      assert.is_nil(agreed.same(g))
      assert.equal(0, g.ann.settings.queued)
      assert.is_true(set_all(g, "bob", ACK))
      agreed.same(g)
    end)
  end)

  it("gives a joiner what is set, a round trip after its view", function()
    each_seed(20, function(seed)
      local g = agreed.group { seed = seed }
      set_all(g, "cho", ACK)
      local came
      g:join("dee", { stack = agreed.stack })
      g.names[4] = "dee"
      g.dee:on("view", function() came = came or g.sim:now() end)
      while not came do g.sim:run "100us" end
      g.sim:run "2100us" -- 1 ms there, 1 ms back.
      assert.equal("ack", g.dee.nakack.retransmission)
      assert.equal("5s", tostring(g.dee.stable.interval))
      g.sim:run "1s"
      agreed.same(g)
      assert.equal("cho", g.dee.stack:journal()[1].by)
    end)
  end)

  it("makes concurrent changes one after the other", function()
    each_seed(20, function(seed)
      local g = agreed.group { seed = seed, loss = seed % 3 / 10 }
      local made = 0
      for index, name in ipairs { "ann", "bob", "cho", "ann", "bob", "cho" } do
        g.sim:spawn(function()
          local mode = index % 2 == 0 and "ack" or "nak"
          assert(g[name].stack:set({
            nakack = { retransmission = mode }, stable = { interval = index .. "s" },
          }, { all = true, timeout = "20s" }))
          made = made + 1
        end)
      end
      g.sim:run "1min"
      assert.equal(6, made)
      assert.equal(6, g.bob.settings.epoch)
      local rows = agreed.same(g)
      local interval = tonumber(rows:match "interval=(%d)s")
      assert.equal(interval % 2 == 0 and "ack" or "nak", rows:match "retransmission=(%a+)")
    end)
  end)

  it("aborts when the view changes before all have agreed", function()
    each_seed(20, function(seed)
      local g = agreed.group { seed = seed, latency = "5ms" }
      local code, made
      g:join("dee", { stack = agreed.stack })
      g.names[4] = "dee"
      local asked = 0
      g.sim:spawn(function()
        while not g.dee:view() do
          local ok, problem = g.bob.stack:set({ stable = { interval = asked + 1 .. "s" } },
            { all = true })
          asked = asked + 1
          if ok then made = asked else code = problem end
          neap.sleep(seed * 100 .. "us")
        end
      end)
      agreed.together(g)
      assert(made > 1 and (code == nil or code == "reset"), tostring(code))
      agreed.same(g)
    end)
  end)
end)

-- G15, for all: 0 is off, and then it is on again.
describe("stable.interval, set for all", function()
  local function votes(g, time)
    local function sum()
      local all = 0
      for _, name in ipairs(g.names) do all = all + g[name].stable.votes_sent end
      return all
    end
    local before = sum()
    g.sim:run(time)
    return sum() - before
  end

  for _, mode in ipairs { "nak", "ack" } do
    it("is off at 0 and on again after that, in " .. mode .. " mode", function()
      each_seed(20, function(seed)
        local g = agreed.group { seed = seed, loss = 0.05,
          with = { nakack = { retransmission = mode } } }
        local function interval(value)
          assert.is_true(set_all(g, g.names[seed % 3 + 1], { stable = { interval = value } }))
          agreed.same(g)
        end
        interval "1s"
        local often = votes(g, "20s")
        assert(often >= 20 and often <= 120, often) -- Three members, one a second each.
        interval(0)
        g.ann:send "something to vote about"
        assert.equal(0, votes(g, "20s"))
        interval "1s"
        often = votes(g, "20s")
        assert(often >= 20 and often <= 120, often)
        g.sim:close()
      end)
    end)
  end
end)

describe("settings, when somebody dies", function()
  -- Kills `victim` at a moment of a change that `asker` asks for; what the asker was told is true.
  local function story(seed, asker, victim)
    local g = agreed.group { seed = seed, names = { "ann", "bob", "cho", "dee" },
      loss = seed % 4 == 0 and 0.2 or 0 }
    assert(set_all(g, "ann", { stable = { interval = "7s" } }))
    local ended, ok, code
    g.sim:spawn(function()
      ok, code = g[asker].stack:set(ACK, { all = true })
      ended = true
    end)
    g.sim:run(seed * 300 .. "us") -- A change takes 5 ms.
    agreed.kill(g, victim)
    agreed.together(g)
    g.sim:run "12s"
    local rows = agreed.same(g)
    local made = rows == "nakack.retransmission=ack\nstable.interval=5s\n"
    assert(made or rows == "stable.interval=7s\n", rows)
    if asker ~= victim then
      assert.is_true(ended)
      if made then
        assert(ok, code)
      else
        assert.same({ nil, "reset" }, { ok, code })
      end
    end
    for _, name in ipairs(agreed.alive(g)) do -- And it goes on.
      assert(set_all(g, name, { stable = { interval = "9s" } }))
    end
    agreed.same(g)
    return made
  end

  local function at_each_step(asker, victim)
    local made, not_made = 0, 0
    each_seed(24, function(seed)
      if story(seed, asker, victim) then made = made + 1 else not_made = not_made + 1 end
    end)
    assert(made > 0 and not_made > 0, ("made %d, not made %d"):format(made, not_made))
  end

  it("lets the others agree: the asker", function() at_each_step("bob", "bob") end)
  it("lets the others agree: the coordinator that asked", function() at_each_step("ann", "ann") end)
  it("tells the asker what came of it: the coordinator", function() at_each_step("cho", "ann") end)
  it("tells the asker what came of it: the next coordinator", function()
    at_each_step("bob", "ann")
  end)
  it("goes on without it: another member", function() at_each_step("bob", "dee") end)
end)

describe("settings, when the last words of a coordinator reach one member only", function()
  it("makes it everywhere a round trip after the next view, and tells the asker", function()
    each_seed(20, function(seed)
      local g = agreed.group { seed = seed, names = { "ann", "bob", "cho", "dee" } }
      for _, name in ipairs { "cho", "dee" } do
        g.sim:drop { from = "ann", to = name, layer = "settings", type = 5 } -- COMMIT.
      end
      local ok, came
      g.sim:spawn(function() ok = g.cho.stack:set(ACK, { all = true }) end)
      while g.bob.settings.epoch == 0 do g.sim:run "100us" end
      agreed.kill(g, "ann")
      g.cho:on("view", function(view) came = #view.members == 3 and g.sim:now() or came end)
      while not came do g.sim:run "100us" end
      assert.is_nil(ok)
      assert.equal(0, g.cho.settings.epoch)
      g.sim:run "2100us" -- 1 ms there, 1 ms back.
      for _, name in ipairs { "bob", "cho", "dee" } do
        assert.equal(1, g[name].settings.epoch)
        assert.equal("ack", g[name].nakack.retransmission)
      end
      g.sim:run "1s"
      assert.is_true(ok)
      agreed.same(g)
    end)
  end)

  it("is closed for who asked and closes", function()
    local g = agreed.group {}
    local result
    g.sim:spawn(function() result = { g.bob.stack:set(ACK, { all = true }) } end)
    g.sim:run "500us"
    g.bob:close()
    g.sim:run "1ms"
    assert.same({ nil, "closed" }, result)
  end)
end)

describe("settings, when the network is cut", function()
  it("times out on both sides or is made, and all agree when it is whole again", function()
    each_seed(20, function(seed)
      local g = agreed.group { seed = seed, with = { fd_all = { timeout = "20s" } } }
      g.sim:spawn(function()
        neap.sleep(seed * 300 .. "us")
        g.sim:partition({ "ann" }, { "bob", "cho" })
      end)
      local ends = {}
      for index, name in ipairs(g.names) do
        g.sim:spawn(function()
          local ok, code = g[name].stack:set({ stable = { interval = index .. "s" } },
            { all = true, timeout = "1s" })
          ends[#ends + 1] = ok and "made" or code
        end)
      end
      g.sim:run "5s"
      g.sim:heal()
      g.sim:run "10s"
      assert.equal(3, #ends)
      for _, code in ipairs(ends) do assert(code == "made" or code == "timeout", code) end
      agreed.same(g)
      assert.is_true(set_all(g, "cho", { stable = { interval = "9s" } }))
      agreed.same(g)
    end)
  end)

  it("gives who comes back alone what the others have set meanwhile", function()
    each_seed(20, function(seed)
      local g = agreed.group { seed = seed }
      set_all(g, "bob", ACK)
      g.sim:partition({ "ann" }, { "bob", "cho" })
      g.sim:run "8s" -- Two views.
      for n = 1, seed % 3 + 1 do -- Ann's epoch may be the higher one, and is of no group.
        assert.is_true(set_all(g, "ann", { stable = { interval = 10 + n .. "s" } }))
      end
      assert.is_true(set_all(g, "cho", { stable = { interval = "8s" } }))
      g.sim:heal()
      agreed.together(g)
      assert.equal("nakack.retransmission=ack\nstable.interval=8s\n", agreed.same(g))
    end)
  end)
end)

describe("settings refuses", function()
  it("a member that is not Neap's", function()
    local g = agreed.group {}
    local foreign = "01020304-0506-0708-1112-131415161718"
    g.ann.stack.gms:inject_view(table.concat({ g.ann.address, g.bob.address, foreign }, " "))
    g.sim:run "300ms" -- The view waits for its name.
    local ok, code, why = set_all(g, "ann", { stable = { interval = "5s" } })
    assert.same({ nil, "refused", foreign .. ": is not a Neap member and could not follow" },
      { ok, code, why })
  end)

  it("a member whose stack has no such layer", function()
    local g = agreed.group {}
    g:join("dee", { stack = neap.stack(function(s)
      return s.extend(agreed.stack, {
        "Without.", s.remove "check_settings", s.remove "settings",
      })
    end) })
    g.sim:run "8s" -- Longer than the limit: it would have told.
    local before = g.sim:now()
    local ok, code, why = set_all(g, "bob", ACK)
    assert.same({ nil, "refused", "dee: its stack has no layer settings" }, { ok, code, why })
    assert(g.sim:now() - before < 0.2e9)
    ok, code, why = g:call(function() return g.dee.stack:set(ACK, { all = true }) end)
    assert.same({ nil, "refused" }, { ok, code })
    assert.truthy(why:find("settings {}", 1, true), why)
  end)

  it("more than max_bytes, and more than may wait", function()
    local g = agreed.group { with = { settings = { max_bytes = "64B", queue_max = 1 } } }
    local ok, code = set_all(g, "bob", { nakack = { retransmission = "ack", ack_delay = "3ms" },
      stable = { interval = "1s" } })
    assert.same({ nil, "too big" }, { ok, code })
    local codes = {}
    for index = 1, 3 do
      g.sim:spawn(function()
        local made, problem = g.bob.stack:set({ stable = { interval = index .. "s" } },
          { all = true })
        table.insert(codes, made and "made" or problem)
      end)
    end
    g.sim:run "1s"
    table.sort(codes)
    assert.same({ "made", "would block", "would block" }, codes)
  end)

  it("what comes before the first view", function()
    local sim = neap.sim { seed = 1 }
    local ann = sim:join("g", { stack = "lan", name = "ann" })
    local ok, code = ann.stack:set(ACK, { all = true })
    assert.same({ nil, "not joined" }, { ok, code })
  end)
end)

describe("a joiner", function()
  it("says what it cannot set, and sets the rest", function()
    local g = agreed.group {}
    set_all(g, "ann", { mfc = { max_credits = "1MB" }, stable = { interval = "5s" } })
    g:join("dee", { stack = neap.stack(function(s)
      return s.extend(agreed.stack, { "Without flow control.", s.remove "mfc" })
    end) })
    local troubles = {}
    g.dee:on("trouble", function(trouble) table.insert(troubles, trouble.text) end)
    g.sim:run "3s"
    assert.same({
      "settings: what the group has set cannot be set here: the stack has no layer called 'mfc'",
    }, troubles)
    assert.equal(1, g.dee.settings.unable)
    assert.equal("5s", tostring(g.dee.stable.interval))
    assert.is_true(set_all(g, "bob", { stable = { interval = "6s" } }))
    assert.equal(1, #troubles)
    local ok, code, why = set_all(g, "bob", { mfc = { max_credits = "2MB" } })
    assert.same({ nil, "refused", "dee: the stack has no layer called 'mfc'" }, { ok, code, why })
  end)
end)

describe("a set of one member", function()
  it("holds until the group's settings change next", function()
    local g = agreed.group {}
    set_all(g, "ann", { stable = { interval = "5s" } })
    g.bob.stable.interval = "6s"
    g.sim:run "1s"
    assert.equal("6s", tostring(g.bob.stable.interval))
    set_all(g, "ann", { nakack = { retransmission = "ack" } })
    assert.equal("5s", tostring(g.bob.stable.interval))
    agreed.same(g)
  end)

  it("may not stand in the way of what was promised", function()
    local g = agreed.group { latency = "10ms" }
    g.bob.stack:set { stable = { max_bytes = 0 } }
    local ok, why
    g.sim:spawn(function()
      assert(g.ann.stack:set({ nakack = { retransmission = "ack" } }, { all = true }))
      assert(g.ann.stack:set({ nakack = { retransmission = "nak" } }, { all = true }))
    end)
    for _ = 1, 200 do -- Bob has said yes to nak mode, and not heard that it is made.
      g.sim:run "500us"
      if g.bob.settings.checked == 2 and g.bob.settings.epoch == 1 then break end
    end
    assert.equal("ack", g.bob.nakack.retransmission)
    ok, why = pcall(function() g.bob.stable.interval = 0 end)
    assert.is_false(ok)
    assert.truthy(why:find("nakack hears 'stable'", 1, true), why)
    g.sim:run "1s"
    assert.equal("nak", g.bob.nakack.retransmission)
    agreed.same(g)
  end)
end)

describe("undo for all", function()
  it("gives each member back its own, or what the group had before", function()
    each_seed(20, function(seed)
      local g = agreed.group { seed = seed, loss = seed % 3 / 10 }
      g.cho.stable.interval = "30s"
      set_all(g, "bob", { stable = { interval = "5s" } })
      set_all(g, "bob", { stable = { interval = "6s" }, nakack = { retransmission = "ack" } })
      assert(g:call(function() return g.bob.stack:undo() end))
      assert.equal("stable.interval=5s\n", agreed.same(g))
      assert.equal("nak", g.ann.nakack.retransmission)
      local _, entry = g:call(function() return g.bob.stack:undo() end)
      assert.is_true(entry.undo)
      assert.equal("", agreed.same(g))
      assert.equal("20s", tostring(g.ann.stable.interval))
      assert.equal("30s", tostring(g.cho.stable.interval))
      assert.same({ nil, "refused", "bob has set nothing that is not taken back" },
        { g:call(function() return g.bob.stack:undo() end) })
      assert.is_true(g.cho.stack:undo()) -- Its own, from the beginning.
      assert.equal("20s", tostring(g.cho.stable.interval))
    end)
  end)

  it("is refused when somebody else has changed it since", function()
    local g = agreed.group {}
    set_all(g, "bob", { stable = { interval = "5s" } })
    set_all(g, "cho", { stable = { interval = "6s" } })
    assert.same({ nil, "refused", "stable.interval is 6s now, set by cho since" },
      { g:call(function() return g.bob.stack:undo() end) })
    assert.is_true(g:call(function() return g.cho.stack:undo() end))
    assert.is_true(g:call(function() return g.bob.stack:undo() end))
    assert.equal("", agreed.same(g))
  end)
end)
