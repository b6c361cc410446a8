-- neap decode reads what captures hold: every kind of link, fragments, streams in any order, the
-- two kinds of connections; and says with its exit code whether everything could be read.

local build = require "support.build"
local decode = require "neap.decode"
local dissect = require "neap.dissect"
local form = require "neap.form"
local frames = require "support.frames"
local golden = require "support.golden"
local json = require "support.json"

local ANN = "4a470000-0000-0001-8000-000000000001"

local function packet(body)
  return (dissect.encode { version = 0x2946, messages = { {
    type = "bytes", flags = 0, src = ANN, body = body, headers = {
      { protocol = 41, class = 78, fields = { type = 1, seqno = 5 } },
      { protocol = 57, class = 60, fields = { cluster = "gold", flag = 0 } },
    } } } })
end

local function suspect()
  return (dissect.encode_bare { type = "empty", flags = 0, src = ANN, headers = {
    { protocol = 71, class = 93, fields = { type = 3, server = ANN } } } })
end

local function frame_of(bytes) return frames.big(#bytes, 4) .. bytes end

local GREETING = "bela" .. "\41\70\0\7" .. "\4\127\0\0\1\30\120"

local function items(text)
  local all = {}
  local counts = assert(decode.items(text, function(item) all[#all + 1] = item end))
  return all, counts
end

local function bodies(text)
  local read, all = items(text), {}
  for n, item in ipairs(read) do
    assert.is_nil(item.fault)
    all[n] = item.packet and item.packet.messages[1].body or item.kind
  end
  return all
end

local function udp(body) return frames.udp(7800, 45588, packet(body)) end

describe("neap decode", function()
  it("reads every kind of link and file", function()
    local ip4, ip6 = frames.ip4(17, udp "four"), frames.ip6(17, udp "six")
    local raw = { ip4, ip6 }
    assert.same({ "four", "six" }, bodies(frames.pcap(101, raw)))
    assert.same({ "four", "six" }, bodies(frames.pcap(101, raw, "big")))
    assert.same({ "four", "six" }, bodies(frames.pcap(101, raw, "little", "ns")))
    assert.same({ "four", "six" }, bodies(frames.pcapng(101, raw)))
    assert.same({ "four", "six" },
      bodies(frames.pcap(1, { frames.ethernet(ip4), frames.ethernet(ip6, true) })))
    assert.same({ "four" }, bodies(frames.pcap(113, { frames.cooked(ip4) })))
    assert.same({ "four" }, bodies(frames.pcap(0, { "\2\0\0\0" .. ip4 })))
  end)

  it("keeps time and ends", function()
    local read = items(frames.pcapng(101, { frames.ip4(17, udp "a"), frames.ip6(17, udp "b") }))
    assert.same({ 0, 1 }, { read[1].time, read[2].time })
    assert.same({ "127.0.0.1:7800", "[::1]:45588" }, { read[1].from, read[2].to })
  end)

  it("puts fragments together, in any order", function()
    for _, order in ipairs { { 1, 2, 3 }, { 3, 1, 2 }, { 2, 2, 3, 1 } } do
      local whole = udp(("x"):rep(100))
      local ip4, ip6 = {}, {}
      for n, part in ipairs { { 0, 48 }, { 48, 96 }, { 96, #whole } } do
        local data = whole:sub(part[1] + 1, part[2])
        local how = { id = 9, offset = part[1], more = part[2] < #whole }
        ip4[n], ip6[n] = frames.ip4(17, data, how), frames.ip6(17, data, how)
      end
      local mixed = {}
      for _, n in ipairs(order) do mixed[#mixed + 1], mixed[#mixed + 2] = ip4[n], ip6[n] end
      assert.same({ ("x"):rep(100), ("x"):rep(100) }, bodies(frames.pcap(101, mixed)))
    end
  end)

  local function stream(parts, seq)
    local packets = {}
    for n, part in ipairs(parts) do
      packets[n] = frames.ip4(6, frames.tcp(7801, 7800, part[1], part[2], part[3]))
    end
    return packets, seq
  end

  it("reads streams whose segments come late, twice and torn", function()
    local text = GREETING .. frame_of(packet "one") .. frame_of(packet "two") .. "\255\255\255\251"
    local cut = { 3, 17, 40, 90, #text }
    local parts, at = { { 1000, "", 2 } }, 0
    for _, to in ipairs(cut) do
      parts[#parts + 1] = { 1001 + at, text:sub(at + 1, to) }
      at = to
    end
    for _, order in ipairs { { 1, 2, 3, 4, 5, 6 }, { 1, 3, 2, 2, 6, 5, 4 } } do
      local shuffled = {}
      for n, which in ipairs(order) do shuffled[n] = parts[which] end
      assert.same({ "greeting", "one", "two", "close" },
        bodies(frames.pcap(101, (stream(shuffled)))))
    end
  end)

  it("reads over the end of the sequence numbers", function()
    local text = GREETING .. frame_of(packet "one")
    local first = 2 ^ 32 - 20
    assert.same({ "greeting", "one" }, bodies(frames.pcap(101, (stream {
      { first - 1, "", 2 }, { first, text:sub(1, 30) }, { (first + 30) % 2 ^ 32, text:sub(31) },
    }))))
  end)

  it("tells a failure detector's connection by what it says", function()
    local read = items(frames.pcap(101, (stream {
      { 0, "", 2 }, { 1, GREETING .. frame_of(suspect()) } })))
    assert.equal("fd_sock2", read[2].transport)
    assert.equal("connect", read[2].message.headers[1].word)
  end)

  it("finds its way into a connection from the middle, and behind a hole", function()
    local two = frame_of(packet "two")
    local read, counts = items(frames.pcap(101, (stream {
      { 500, frame_of(packet "one"):sub(20) }, { 600, two }, { 900, two } })))
    assert.same({ 2, 0 }, { counts.packets, counts.broken })
    assert.equal("two", read[2].packet.messages[1].body)
    assert(counts.lost > 0)
  end)

  it("leaves the connections of others alone", function()
    local _, counts = items(frames.pcap(101, (stream {
      { 0, "", 2 }, { 1, "GET / HTTP/1.1\r\n\r\n" }, { 19, "more" } })))
    assert.same({ 0, 1 }, { counts.packets, counts.foreign })
  end)

  it("names what cannot be read", function()
    local good = packet "one"
    local _, last = good:find("\0\57\0\60", 1, true)
    local bad = good:sub(1, last - 1) .. "\99" .. good:sub(last + 1) -- a header of class 99
    local read, counts = items(frames.pcap(101, { frames.ip4(17, frames.udp(1, 2, bad)) }))
    assert.equal("header", read[1].fault)
    assert.equal(1, counts.broken)
    local lines = table.concat(decode.lines(read[1], {}), "\n")
    assert(lines:find("CANNOT BE DECODED: header", 1, true), lines)
  end)

  local function run(text, ...)
    local path = build.write("decode.pcap", text)
    local out, write, err = {}, io.write, io.stderr
    io.write = function(...) -- luacheck: ignore 122
      for _, part in ipairs { ... } do out[#out + 1] = part end
      return true
    end
    io.stderr = { write = function() end } -- luacheck: ignore 122
    local ok, code = pcall(decode.main, { path, ... })
    io.write, io.stderr = write, err -- luacheck: ignore 122
    assert(ok, code)
    return code, table.concat(out)
  end

  it("ends with 0, with 1 when a packet could not be read, with 2 for a mistake", function()
    assert.equal(0, (run(golden.text "udp-types.pcap")))
    assert.equal(1, (run(frames.pcap(101, { frames.ip4(17, frames.udp(1, 2, "no packet")) }))))
    assert.equal(2, (run "no capture"))
    assert.equal(2, (run(golden.text "udp-types.pcap", "--xml")))
  end)

  it("shows names, types and payloads on readable lines", function()
    local _, text = run(golden.text "udp-basic.pcap")
    for _, line in ipairs {
      "A -> all OOB|DONT_BUNDLE  ping request cluster=gold initial=true",
      "nakack msg seqno=1", "view_digest: bits=17 view=A|1[A B]",
      "join_rsp: bits=3 view=A|2[A B C]", "rsvp request id=0", "B -> A OOB  gms join_req",
      "0 could not be decoded",
    } do
      assert(text:find(line, 1, true), line)
    end
  end)

  it("writes JSON that says the same", function()
    for _, name in ipairs { "tcp-state", "udp-types", "udp-merge" } do
      local _, text = run(golden.text(name .. ".pcap"), "--json")
      local rows, n = golden.rows(name .. ".jsonl"), 0
      for line in text:gmatch "[^\n]+" do
        n = n + 1
        local item = json.read(line)
        assert.same({ rows[n].frame, rows[n].from }, { item.frame, item.from })
        local messages = item.packet and item.packet.messages or { item.message }
        for m, message in ipairs(messages) do
          for h, header in ipairs(message.headers) do
            assert.equal(rows[n].messages[m].headers[h].protocol, header.protocol)
          end
        end
      end
      assert.equal(#rows, n)
    end
  end)

  it("never stops at any bytes", function()
    local random = require "support.random"
    local text = golden.text "tcp-discard.pcap"
    for seed = 1, 40 do
      local draw = random.new(seed)
      local broken = text:sub(1, 24) .. draw:mutated(text:sub(25, 4000))
      assert(decode.items(broken, function(item) decode.lines(item, {}) end))
    end
    assert.equal("string", type(form.hex(text:sub(1, 4))))
  end)
end)
