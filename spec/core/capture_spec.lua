-- What ports send and get is written to a file that neap decode and tshark read, within its bound,
-- and nothing else is different for it.

local build = require "support.build"
local decode = require "neap.decode"
local neap = require "neap"

local function text_of(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "*a"
  file:close()
  return text
end

local function path_of(name) return build.write(name, "") end

local function items_of(path)
  local all = {}
  local counts = assert(decode.items(text_of(path), function(item) all[#all + 1] = item end))
  assert.equal(0, counts.broken)
  return all
end

-- Two members talk over a bad network; `with` gets the sim before.  Its hash.
local function talk(seed, with, stack)
  local sim = neap.sim { seed = seed, loss = 0.2, log = 10000 }
  if with then with(sim) end
  local ann = sim:join("chat", { stack = stack or "lan", name = "ann" })
  sim:join("chat", { stack = stack or "lan", name = "bob" })
  sim:run "2s"
  for n = 1, 20 do ann:send(("hello %d"):format(n)) end
  sim:run "2s"
  return sim:hash(), sim
end

describe("a capture", function()
  it("changes nothing in a run", function()
    for seed = 1, 5 do
      local path = path_of "run.pcapng"
      local hash, sim = talk(seed, function(s) assert(s:capture(path)) end)
      assert.equal(hash, (talk(seed)))
      local counts = sim:capture(false)
      assert.equal(counts.frames, #items_of(path))
    end
  end)

  it("has what was sent, once, with its time and its ends", function()
    local path = path_of "sent.pcapng"
    local _, sim = talk(3, function(s) s:capture(path) end)
    sim:capture(false)
    local sent, lost, place = {}, 0, {}
    for _, packet in ipairs(sim:log()) do -- a row for each member that it goes to
      if packet.from ~= packet.to then sent[#sent + 1] = packet end
      lost = lost + (packet.lost and 1 or 0)
    end
    assert(lost > 0)
    local items = items_of(path)
    assert(#items >= #sent)
    local n = 0
    for _, packet in ipairs(sent) do
      repeat n = n + 1 until not items[n] or items[n].bytes == packet.bytes
      local item = assert(items[n], "a packet that was sent is not there")
      assert(math.abs(item.time - (packet.sent - sent[1].sent) / 1e9) < 2e-9)
      place[packet.from] = place[packet.from] or item.from
      assert.equal(place[packet.from], item.from)
      assert.equal(packet.multicast, item.to == "239.7.7.7:7600")
    end
    assert.are_not.equal(place.ann, place.bob)
  end)

  it("ends at its bound, and counts what is not there", function()
    local path = path_of "bound.pcapng"
    local _, sim = talk(1, function(s) s:capture(path, { bytes = "3KB" }) end)
    local counts = sim:capture(false)
    assert(counts.dropped > 0 and counts.frames > 5)
    assert.equal(counts.bytes, #text_of(path))
    assert(counts.bytes <= 3072)
    assert.equal(counts.frames, #items_of(path))
    assert.is_nil(sim:capture(false))
  end)

  it("has what was put on the wire by hand", function()
    local path, sim = path_of "injected.pcapng", neap.sim {}
    sim:capture(path)
    sim:join("chat", { stack = "lan", name = "ann" })
    local place = sim:inject { from = "fay", to = "ann", bytes = "\41\70\0\0\2\0\0\0\0\0" }
    sim:capture(false)
    local items = items_of(path)
    assert.equal(place, items[#items].from)
    sim:close()
  end)

  it("says what is wrong with its file and its options", function()
    local sim = neap.sim {}
    local ok, why = sim:capture "/nowhere/at/all.pcapng"
    assert.is_nil(ok)
    assert.equal("/nowhere/at/all.pcapng: No such file or directory", why)
    assert.error_matches(function() sim:capture() end, "capture takes a file")
    assert.error_matches(function() sim:capture("x", { size = 1 }) end, "no option 'size'")
    assert.error_matches(function() sim:capture("x", { bytes = "100B" }) end, "1 KB to 1 TB")
    sim:close()
  end)

  it("is whole in tshark: lengths, checksums, both kinds of IP", function()
    if select(2, build.run "command -v tshark") ~= 0 then
      pending "there is no tshark (apt-get install tshark)"
    end
    local six = neap.stack(function(s)
      return s.extend("lan", { "Over IP version 6.", s.udp { group = "[ff15::7]:7600" } })
    end)
    for _, stack in ipairs { "lan", six } do
      local path = path_of "whole.pcapng"
      local _, sim = talk(2, function(s) s:capture(path) end, stack)
      local counts = sim:capture(false)
      local rows = build.run(("env -u LD_PRELOAD tshark -o ip.check_checksum:TRUE -o "
        .. "udp.check_checksum:TRUE -r %s -T fields -e frame.len -e udp.checksum.status "
        .. "-e ip.checksum.status -e _ws.malformed 2>/dev/null"):format(path))
      local good = 0
      for status in rows:gmatch "%d+\t1\t1?\t\n" do good = good + #status:sub(1, 1) end
      assert.equal(counts.frames, good)
    end
  end)

  it("has what left and what came of members on real sockets #real", function()
    local path, counts = path_of "live.pcapng", nil
    neap.run(function()
      assert(neap.capture(path))
      local with = { gms = { join_timeout = "500ms" } }
      local ann = assert(neap.join("captured", { stack = "lan", name = "ann", with = with }))
      local bob = assert(neap.join("captured", { stack = "lan", name = "bob", with = with }))
      ann:send "hello"
      local function came() return bob.udp.packets_received > 5 end
      for _ = 1, 500 do
        if came() then break end
        neap.sleep "10ms"
      end
      assert(came())
      bob:leave()
      ann:leave()
      counts = neap.capture(false)
    end)
    local seen, twice = {}, 0
    for _, item in ipairs(items_of(path)) do
      local key = item.from .. item.to .. item.bytes
      twice, seen[key] = twice + (seen[key] and 1 or 0), true
    end
    assert(twice > 5, "each end has its own")
    assert(counts.frames > 10 and counts.dropped == 0)
  end)
end)
