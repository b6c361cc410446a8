-- H21: sizes around the packet boundary (corosync 0ebae6b4, 105f3ae9, 9898fc87).

local group = require "support.group"
local neap = require "neap"

local MAX = 20000

-- Bytes that depend on place and number; made once, since there are many.
local pattern
do
  local state, parts = 1, {}
  for i = 1, MAX + 1000 do
    state = state * 48271 % 2147483647
    parts[i] = string.char(state % 256)
  end
  pattern = table.concat(parts)
end

local function body_of(len, number) return pattern:sub(number % 997 + 1, number % 997 + len) end

local function around(list, size)
  for d = -3, 3 do list[#list + 1] = size + d end
end

-- Every SHARE-th pair, in an order that the seed draws: as many seeds in a row have all of them.
local SHARE = 5

local function pairs_of(sizes, seed, random)
  local list, count = {}, 0
  for _, a in ipairs(sizes) do
    for _, b in ipairs(sizes) do
      count = count + 1
      if count % SHARE == seed % SHARE then list[#list + 1] = { a, b } end
    end
  end
  for i = #list, 2, -1 do
    local j = random:below(i) + 1
    list[i], list[j] = list[j], list[i]
  end
  return list
end

local function join(sim, name, piece, mode, got)
  local channel = sim:join("chat", { stack = "lan", name = name,
    with = { frag = { frag_size = piece .. "B", max_message = MAX .. "B" },
      nakack = { retransmission = mode }, unicast = { retransmission = mode } } })
  channel:on("message", function(msg) got[#got + 1] = msg.body end)
  return channel
end

local function story(mtu, piece, mode, seed)
  local sim = neap.sim { seed = seed, latency = "1ms", mtu = mtu .. "B" }
  local got, sizes, sent = {}, { 0, 1, MAX - 3, MAX - 2, MAX - 1, MAX }, {}
  local ann, bob = join(sim, "ann", piece, mode, {}), join(sim, "bob", piece, mode, got)
  sim:run "3s"
  assert.equal(2, #bob:view().members)
  around(sizes, mtu)
  around(sizes, 2 * mtu)
  around(sizes, ann.stack.udp.packet_limit.bytes)
  if piece < mtu then around(sizes, piece) end
  local list = pairs_of(sizes, seed, require("support.random").new(mtu + seed))
  sim:spawn(function()
    for i, pair in ipairs(list) do
      for _, len in ipairs(pair) do
        local body = body_of(len, #sent)
        sent[#sent + 1] = body
        assert(ann:send(body, { to = i % 2 == 0 and "bob" or nil }))
      end
      neap.sleep(i % 5 == 0 and "2ms" or "10us")
      if i % 20 == 0 then neap.sleep "20ms" end -- so that neither class runs far ahead
    end
  end)
  sim:settle()
  -- Two classes, each in its order: what one lacks at the front the other has.
  local to_bob, to_all, at_bob, at_all = {}, {}, 1, 1
  for i in ipairs(list) do
    local class = i % 2 == 0 and to_bob or to_all
    class[#class + 1], class[#class + 2] = sent[2 * i - 1], sent[2 * i]
  end
  assert.equal(#sent, #got)
  local states = { [at_bob .. "," .. at_all] = { at_bob, at_all } }
  for _, body in ipairs(got) do
    local after = {}
    for _, state in pairs(states) do -- any order: a set of what is possible
      if to_bob[state[1]] == body then
        after[(state[1] + 1) .. "," .. state[2]] = { state[1] + 1, state[2] }
      end
      if to_all[state[2]] == body then
        after[state[1] .. "," .. (state[2] + 1)] = { state[1], state[2] + 1 }
      end
    end
    states = after
    assert.truthy(next(states), "a body that is not the next of either class")
  end
  local ok, code, detail = ann:send(body_of(MAX + 1, 1))
  assert.is_nil(ok)
  assert.equal("too big", code)
  assert.truthy(detail:find(tostring(MAX), 1, true))
  assert.equal(0, bob.stack.frag.partials)
  sim:close()
end

describe("H21", function()
  for _, mtu in ipairs { 576, 1500, 9000 } do
    for _, mode in ipairs { "nak", "ack" } do
      it(("brings all pairs of sizes around packets of %d bytes, in %s mode"):format(mtu, mode),
        function()
          group.each_seed(20, function(seed)
            story(mtu, seed <= 10 and mtu - 100 or 60000, mode, seed)
          end)
        end)
    end
  end
end)
