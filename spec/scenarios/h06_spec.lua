-- H06: one slow member stops purging.  Memory stays within the window, whoever sends waits, and
-- everybody can be told who it is.

local group = require "support.group"

-- Bob and ann send `bytes` each, in messages of 1 KB, while cho is stopped for a minute.
local function story(seed, mode, bytes, window)
  local g = group.new { seed = seed, message = function(g, name, msg)
    local from = g.count[name]
    from[msg.from] = (from[msg.from] or 0) + 1
    if tonumber(msg.body:match "^%d+") ~= from[msg.from] then g.wrong = g.wrong + 1 end
  end, with = {
    fd_all = { timeout = "120s", interval = "8s" },
    stable = { interval = "1s", max_bytes = "2MB" },
    nakack = { retransmission = mode, window_bytes = window },
  } }
  g.count, g.wrong, g.most, g.sent = { ann = {}, bob = {}, cho = {} }, 0, 0, {}
  g.sim:pause "cho"
  local count = bytes / 1000
  for _, name in ipairs { "ann", "bob" } do
    g.sent[name] = 0
    g.sim:spawn(function()
      for i = 1, count do
        assert(g[name]:send(("%d "):format(i) .. ("x"):rep(1000 - #tostring(i) - 1)))
        g.sent[name] = i
      end
    end)
  end
  return g, count
end

local function used(g, name)
  local bytes = g[name].stack.nakack.window_used
  return bytes == 0 and 0 or bytes.bytes
end

local function watch(g, seconds, most)
  for _ = 1, seconds do
    g.sim:run "1s"
    for _, name in ipairs { "ann", "bob" } do
      assert(used(g, name) <= most, ("%s keeps %d bytes"):format(name, used(g, name)))
    end
  end
end

local function whole(seed, mode, bytes, window, most)
  local g, count = story(seed, mode, bytes, window)
  watch(g, 60, most)
  for _, name in ipairs { "ann", "bob" } do
    assert(g.sent[name] < count) -- It waits for room.
    local ok, code = g[name]:send(("x"):rep(1000), { block = false })
    assert.is_nil(ok)
    assert.equal("would block", code)
  end
  -- Those who wait can be told for whom, and the coordinator who does not vote.
  for _, name in ipairs { "ann", "bob" } do
    local text = g[name].stack.stable:held_back_by()
    local mine = text:match(("cho has applied #%%d+ of %s's #%%d+, and no more for (%%S+)")
      :format(name))
    local votes = text:match "cho has not voted in this round, last (%S+) ago"
    local coordinator = g[name]:view().coordinator == name
    assert(mine or coordinator, text)
    for _, time in ipairs { mine or votes, votes or mine } do
      assert(time == "1min" or tonumber((time:match "^([%d.]+)s$")) > 55, text)
    end
  end
  g.sim:resume "cho"
  for _ = 1, 300 do
    if g.sent.ann == count and g.sent.bob == count and g.count.cho.ann == count
      and g.count.cho.bob == count then break end
    watch(g, 1, most)
  end
  g.sim:run "6s" -- Three rounds, each within twice the interval.
  for _, name in ipairs { "ann", "bob", "cho" } do
    assert.equal(count, g.count[name].ann, name)
    assert.equal(count, g.count[name].bob, name)
    assert(used(g, name) < 64000, ("%s keeps %d bytes"):format(name, used(g, name)))
  end
  assert.equal(0, g.wrong)
  g.sim:close()
end

describe("H06", function()
  for _, mode in ipairs { "nak", "ack" } do
    it("keeps memory within the window, and names who is slow, in " .. mode .. " mode", function()
      whole(1, mode, 20e6, "4MB", 4e6)
    end)

    it("does so over seeds, on a smaller scale, in " .. mode .. " mode", function()
      group.each_seed(20, function(seed) whole(seed, mode, 500e3, "100KB", 100e3) end)
    end)
  end
end)
