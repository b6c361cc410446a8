-- H24: sequence numbers near the limits of 31, 32, 53 and 63 bits (JGRP-1950).

local group = require "support.group"

local FIRST = { "2147483638", "4294967286", "9007199254740982", "9223372036854775798" }

local NAMES = { "ann", "bob", "cho" }

local function story(seed, mode, first)
  local got = {}
  local g = group.new {
    seed = seed, loss = 0.1,
    with = {
      nakack = { retransmission = mode, first_seqno = first }, stable = { interval = "1s" },
    },
    message = function(_, name, msg)
      local key = name .. msg.from
      got[key] = (got[key] or "") .. msg.body .. " "
    end,
  }
  local reqs = 0
  for i = 1, 100 do
    for _, name in ipairs(NAMES) do assert(g[name]:send(tostring(i))) end
    if i % 3 == 0 then g.sim:run "1ms" end
  end
  g:calm()
  for _, to in ipairs(NAMES) do
    local nakack = g[to].stack.nakack
    for _, from in ipairs(NAMES) do assert.equal(group.counted(100) .. " ", got[to .. from]) end
    reqs = reqs + nakack.xmit_reqs_sent
    assert.equal(0, nakack.malformed + nakack.dropped_far + nakack.window_stored)
    local last = tostring(nakack.current_seqno):match "%d+"
    assert.equal(tostring(nakack.current_seqno), tostring(nakack.current_low))
    assert.equal(#first, #last)
    assert(last > first)
    local own = ("%s low=%s applied=%s received=%s gaps=0"):format(to, last, last, last)
    assert(nakack:windows():find(own, 1, true), nakack:windows())
  end
  assert(reqs > 0)
  g.sim:close()
end

describe("H24", function()
  for _, mode in ipairs { "nak", "ack" } do
    for _, first in ipairs(FIRST) do
      it(("delivers, repairs and purges from seqno %s on, in %s mode"):format(first, mode),
        function()
          group.each_seed(20, function(seed) story(seed, mode, first) end)
        end)
    end
  end

  it("refuses a first seqno beyond the middle of 64 bits with the reason", function()
    local ok, problem = pcall(group.new, {
      names = { "ann" }, with = { nakack = { first_seqno = "18446744073709551615" } },
    })
    assert.is_false(ok)
    assert(tostring(problem):find "first_seqno", problem)
  end)
end)
