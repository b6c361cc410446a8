-- Who holds back purging, by name and for how long.

local group = require "support.group"
local neap = require "neap"
local voting = require "support.voting"

local coordinator, other, quiet = voting.coordinator, voting.other, voting.quiet

describe("stable held_back_by", function()
  for _, mode in ipairs { "nak", "ack" } do
    local function new(more)
      more = more or {}
      more.with = quiet({ interval = "1s" }, { nakack = { retransmission = mode } })
      return group.new(more)
    end

    it("says that there is nobody, in " .. mode .. " mode", function()
      local g = new()
      for i = 1, 10 do g.ann:send(tostring(i)) end
      g.sim:run "10s"
      for _, name in ipairs(g.names) do
        assert.equal("nobody", g[name].stack.stable:held_back_by())
      end
    end)

    it("names a member that is silent, and for how long, in " .. mode .. " mode", function()
      group.each_seed(20, function(seed)
        local g = new { seed = seed }
        local first, second = coordinator(g), other(g)
        g.sim:pause "cho"
        g.sim:run "1s"
        second:send "x"
        g.sim:run "10s"
        assert.matches("cho has not voted in this round, last 1[0-3][%d.]*s ago",
          first.stack.stable:held_back_by())
        local text = second.stack.stable:held_back_by()
        if mode == "ack" then
          assert.matches(("^cho has applied #%%d of %s's #%%d, and no more for 10s$")
            :format(second.name), text)
        else
          assert.equal("who does not vote only the coordinator knows: ask " .. first.name, text)
        end
        g.sim:resume "cho"
        g.sim:run "5s"
        for _, name in ipairs(g.names) do
          assert.equal("nobody", g[name].stack.stable:held_back_by())
        end
        g.sim:close()
      end)
    end)

    it("names one whose application is slow, in " .. mode .. " mode", function()
      local g = new { message = function(_, name) if name == "cho" then neap.sleep "1h" end end }
      local first, second = coordinator(g), other(g)
      second:send "1"
      second:send "2"
      g.sim:run "10s"
      local wanted = ("cho has applied #%%d of %s's #%%d, and no more for %%d"):format(second.name)
      assert.matches(wanted, first.stack.stable:held_back_by())
      if mode == "ack" then assert.matches(wanted, second.stack.stable:held_back_by()) end
    end)

    it("names the member itself when its own application is slow, in " .. mode, function()
      local g = new { message = function(_, name) if name == "ann" then neap.sleep "1h" end end }
      g.ann:send "1"
      g.ann:send "2"
      g.sim:run "10s"
      assert.matches("^ann itself has applied #%d of ann's #%d, and no more for %d",
        g.ann.stack.stable:held_back_by())
    end)

    it("names a hold and a suspension of its own, in " .. mode .. " mode", function()
      local g = new()
      local first = coordinator(g)
      local acks = g.sim:drop { to = first.name, layer = "gms", type = "view_ack" }
      g:join("dee", { with = quiet(nil, { nakack = { retransmission = mode } }) })
      g.sim:run "1500ms"
      assert.matches("^" .. first.name .. " itself: gms handed out a digest 1[%d.]*s ago that not "
        .. "all have confirmed", first.stack.stable:held_back_by())
      g.sim:clear(acks)
      g.sim:run "10s"
      first.stack.stable:suspend "1min"
      g.sim:run "10s"
      assert.matches("^" .. first.name .. " itself: somebody suspended the votes 10s ago, for 50s "
        .. "more at most", first.stack.stable:held_back_by())
    end)
  end

  it("is answered from inside a callback, and refused before there is a view", function()
    local said
    local g = group.new { names = { "ann" }, message = function(g)
      said = g.ann.stack.stable:held_back_by()
    end }
    g.ann:send "x"
    g.sim:run "1s"
    assert.matches("^ann itself has applied #%d of ann's #%d", said)
    local alone = neap.sim { seed = 1 }
    local zoe = alone:join("chat", { stack = group.stack, name = "zoe" })
    local ok, code = zoe.stack.stable:held_back_by()
    assert.is_nil(ok)
    assert.equal("not joined", code)
  end)
end)
