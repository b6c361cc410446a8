-- udp over the sockets of this machine: processes, namespaces, errors, forgeries, descriptors.
-- What needs no kernel is asked in spec/layers/udp_spec.lua.

local bit = require "bit"
local ffi = require "ffi"
local neap = require "neap"
local processes = require "support.processes"

pcall(ffi.cdef, [[
  int socket(int, int, int);
  int close(int);
  struct neap_spec_in { uint16_t family, port; uint8_t addr[4]; uint8_t zero[8]; };
  int bind(int, const struct neap_spec_in *, unsigned);
  long sendto(int, const void *, size_t, int, const struct neap_spec_in *, unsigned);
]])

local INET, DGRAM = 2, 2

-- Specs may run twice on one machine at a time: names and ports are this process's own.
local here = require("neap.core").pid()
local PORT = 20000 + here % 20000

local function group(n) return ("239.7.7.%d:%d"):format(n, PORT) end
local function space(name) return ("neap%d-%s"):format(here, name) end

local function place(a, b, c, d, port)
  local name = ffi.new "struct neap_spec_in"
  name.family = INET
  name.port = bit.bor(bit.lshift(port % 256, 8), math.floor(port / 256))
  name.addr[0], name.addr[1], name.addr[2], name.addr[3] = a, b, c, d
  return name
end

-- A socket of somebody else, bound there.
local function socket(name)
  local fd = ffi.C.socket(INET, DGRAM, 0)
  assert(fd >= 0)
  if name then assert.equal(0, ffi.C.bind(fd, name, ffi.sizeof(name))) end
  return fd
end

-- Runs f with a channel on the bare stack; what it raises comes out.
local function alone(with, f)
  neap.run(function()
    local channel, code, detail = neap.join("alone", { stack = "bare", name = "ann", with = with })
    f(channel, code, detail)
    if channel then channel:close() end
  end)
end

local function descriptors()
  collectgarbage() -- Worlds of earlier specs have some, too.
  collectgarbage()
  local pipe = io.popen("ls -l /proc/" .. here .. "/fd")
  local text = pipe:read "*a"
  pipe:close()
  -- Pipes are those of the command itself, whose far end may or may not be closed yet.
  local _, all = text:gsub("%->", "")
  local _, pipes = text:gsub("%-> pipe", "")
  return all - pipes, text
end

-- Everybody got everything of everybody, in order.
local function assert_complete(told, names, multicasts, unicasts)
  for _, name in ipairs(names) do
    for _, from in ipairs(names) do
      local row = told[name].got[from]
      assert(row, ("%s heard nothing of %s:\n%s"):format(name, from, told.text))
      local expected = from == name and 0 or unicasts
      assert.same({ multicasts = multicasts, unicasts = expected, wrong = 0 }, row)
    end
  end
end

local function group_of(names, words, each)
  local members = {}
  for n, name in ipairs(names) do
    members[n] = { name = name, members = #names, ["udp.group"] = group(41),
      cluster = "processes" .. here }
    for key, value in pairs(words) do members[n][key] = value end
    for key, value in pairs(each and each(n) or {}) do members[n][key] = value end
  end
  return members
end

describe("members as processes #real", function()
  it("exchange everything, two of them", function()
    local told = processes.run(group_of({ "ann", "bob" },
      { multicasts = 2000, unicasts = 200,  }))
    assert_complete(told, { "ann", "bob" }, 2000, 200)
    assert(told.ann.attr["udp.receive_granted"] > 0)
  end)

  it("exchange everything, three of them, when each loses a tenth", function()
    local told = processes.run(group_of({ "ann", "bob", "cho" },
      { multicasts = 1000, unicasts = 100, stack = "lossy", show = "discard" }))
    assert_complete(told, { "ann", "bob", "cho" }, 1000, 100)
    assert(told.bob.attr["discard.dropped_up"] > 20)
  end)

  it("need no offload, no large buffer and no large packets", function()
    local told = processes.run(group_of({ "ann", "bob" }, { multicasts = 20000, size = 1000,
      ["udp.offload"] = "off", ["udp.receive_buffer"] = "104KiB",
      ["udp.max_packet"] = "1472B" }))
    assert_complete(told, { "ann", "bob" }, 20000, 0)
    assert.equal(212992, told.ann.attr["udp.receive_granted"]) -- The usual default.
  end)
end)

describe("members in namespaces of their own #real", function()
  local names, reason = { "ann", "bob", "cho" }, nil

  setup(function()
    reason = processes.no_namespaces()
    if reason then return end
    local sh = processes.shell
    local bridge = space "bridge"
    sh("ip netns add " .. bridge)
    assert(sh(("ip -n %s link add sw0 type bridge mcast_snooping 0"):format(bridge)))
    assert(sh(("ip -n %s link set sw0 up"):format(bridge)))
    for n, name in ipairs(names) do
      local ns = space(name)
      sh("ip netns add " .. ns)
      assert(sh(("ip link add p%d netns %s type veth peer name eth0 netns %s")
        :format(n, bridge, ns)))
      assert(sh(("ip -n %s link set p%d master sw0"):format(bridge, n)))
      assert(sh(("ip -n %s link set p%d up"):format(bridge, n)))
      assert(sh(("ip -n %s addr add 10.77.0.%d/24 dev eth0"):format(ns, n)))
      assert(sh(("ip -n %s link set eth0 up"):format(ns)))
      assert(sh(("ip -n %s link set lo up"):format(ns)))
    end
  end)

  teardown(function()
    for _, name in ipairs { "bridge", "ann", "bob", "cho" } do
      processes.shell("ip netns del " .. space(name))
    end
  end)

  local function members(words)
    words["udp.interface"] = "eth0"
    return group_of(names, words, function(n) return { ns = space(names[n]) } end)
  end

  for _, offload in ipairs { "on", "off" } do
    it("fill packets of the interface's MTU, offload " .. offload, function()
      if reason then pending(reason) return end
      local told = processes.run(members { multicasts = 5000, unicasts = 200, size = 200,
        ["udp.offload"] = offload })
      assert_complete(told, names, 5000, 200)
      assert.equal(1472, told.ann.attr["udp.packet_limit"])
      local packets, bytes = told.ann.attr["udp.packets_sent"], told.ann.attr["udp.bytes_sent"]
      assert(bytes / packets > 700 and bytes / packets <= 1472, bytes / packets)
      assert.equal(0, told.ann.attr["udp.oversize"])
    end)
  end

  it("speak IPv6 too", function()
    if reason then pending(reason) return end
    local six = members { multicasts = 500, unicasts = 50,  }
    for _, member in ipairs(six) do member["udp.group"] = "[ff02::7:7]:" .. PORT end
    processes.shell "sleep 2" -- The kernel makes sure that nobody else has their addresses.
    assert_complete(processes.run(six), names, 500, 50)
  end)

  it("take what a firewall forbids for lost", function()
    if reason then pending(reason) return end
    if not processes.shell "command -v nft" then pending "there is no nft command" return end
    if not processes.shell(("ip netns exec %s nft list ruleset"):format(space "ann")) then
      pending "nft is not permitted"
      return
    end
    local rules = "/tmp/neap-firewall." .. here
    local file = assert(io.open(rules, "w"))
    file:write [[
      table inet neap {
        chain out {
          type filter hook output priority 0;
          ip protocol udp numgen inc mod 5 == 0 drop
        }
      }
    ]]
    file:close()
    assert(processes.shell(("ip netns exec %s nft -f %s"):format(space "ann", rules)))
    os.remove(rules)
    local told = processes.run(members { multicasts = 300, unicasts = 30, size = 500,
      ["udp.offload"] = "off" })
    processes.shell(("ip netns exec %s nft flush ruleset"):format(space "ann"))
    assert_complete(told, names, 300, 30)
    assert(told.ann.attr["udp.send_refused"] > 5)
    assert.equal(0, told.ann.attr["udp.send_errors"])
  end)

  it("say plainly that there is no way to the group", function()
    if reason then pending(reason) return end
    local told = processes.run { { name = "ann", ns = space "ann", ["udp.bind"] = "0.0.0.0" } }
    assert.matches("group 239.7.7.7:7600: no route %(name an interface", told.ann.failed)
    processes.shell(("ip -n %s link set eth0 down"):format(space "ann"))
    told = processes.run { { name = "ann", ns = space "ann", ["udp.interface"] = "eth0" } }
    processes.shell(("ip -n %s link set eth0 up"):format(space "ann"))
    assert.matches("interface eth0: it is down", told.ann.failed)
  end)
end)

describe("udp, when the system refuses #real", function()
  it("names an interface that is not there, and an address that nobody has", function()
    alone({ udp = { interface = "eth77" } }, function(channel, code, detail)
      assert.is_nil(channel)
      assert.equal("system", code)
      assert.equal("udp: cannot open: interface eth77: no such interface", detail)
    end)
    alone({ udp = { bind = "10.99.98.97" } }, function(_, code, detail)
      assert.equal("system", code)
      assert.equal("udp: cannot open: bind 10.99.98.97:0: no interface has this address", detail)
    end)
  end)

  it("names a port in use, or takes one near it if it may", function()
    local fd = socket(place(127, 0, 0, 1, PORT))
    alone({ udp = { port = PORT, port_range = 0 } }, function(_, code, detail)
      assert.equal("system", code)
      assert.equal(("udp: cannot open: bind 127.0.0.1:%d: address in use"):format(PORT), detail)
    end)
    alone({ udp = { port = PORT, port_range = 5 } }, function(channel)
      assert.equal(PORT + 1, channel.udp.port_number)
    end)
    ffi.C.close(fd)
  end)

  it("names a group whose port somebody keeps for himself", function()
    local fd = socket(place(239, 7, 7, 42, PORT))
    alone({ udp = { group = group(42) } }, function(_, code, detail)
      assert.equal("system", code)
      assert.equal(("udp: cannot open: bind %s: address in use"):format(group(42)), detail)
    end)
    ffi.C.close(fd)
  end)
end)

describe("udp, what strangers send #real", function()
  -- Sends each text to the member's own port; returns what its counters grew by.
  local function hears(packets)
    local grown = {}
    alone({ udp = { group = group(43) } }, function(channel)
      local fd, to = socket(), place(127, 0, 0, 1, channel.udp.port_number)
      local before = channel.stack:metrics().udp
      for _, packet in ipairs(packets) do
        ffi.C.sendto(fd, packet, #packet, 0, to, ffi.sizeof(to))
      end
      neap.sleep "50ms"
      ffi.C.close(fd)
      local after = channel.stack:metrics().udp
      for _, word in ipairs { "short", "length", "value", "version", "cluster", "header", "type",
        "address", "trailing", "target", "java" } do
        local more = after["bad_" .. word] - before["bad_" .. word]
        if more > 0 then grown[word] = more end
      end
      grown.messages = after.messages_received - before.messages_received
    end)
    return grown
  end

  local VERSION = "\41\70" -- 5.5.6
  local UUID = "\2" .. ("u"):rep(16)
  local TP = "\0\57\0\60\0\5alone\0"
  local function single(rest) return VERSION .. "\2" .. rest end
  local function list(dest, cluster, count, rest)
    return VERSION .. "\3" .. dest .. UUID .. "\0" .. string.char(#cluster) .. cluster
      .. "\0\0\0" .. string.char(count) .. rest
  end
  local good = "\0\2\2\0\0" .. UUID .. "\0\1" .. TP -- type EMPTY, with a source, one header

  it("takes a good message, and counts each bad one by its reason", function()
    assert.same({ messages = 1 }, hears { single(good) })
    assert.same({ messages = 0, short = 2 }, hears { "", "\41" })
    assert.same({ messages = 0, short = 1 }, hears { single(good:sub(1, 12)) })
    assert.same({ messages = 0, length = 1 }, hears { single(good:sub(1, -3)) })
    assert.same({ messages = 0, version = 1 }, hears { "\42\70\2" .. good })
    assert.same({ messages = 0, type = 1 }, hears { single("\0\77" .. good:sub(3)) })
    assert.same({ messages = 1, trailing = 1 }, hears { single(good .. "x") })
    assert.same({ messages = 0, cluster = 1 }, hears { single(good:gsub("alone", "other")) })
    assert.same({ messages = 0, cluster = 1 }, hears { list("\1", "other", 0, "") })
    assert.same({ messages = 0, length = 1 }, hears { list("\1", "alone", 200, "") })
    assert.same({ messages = 0, target = 1 }, hears { list("\2" .. ("t"):rep(16), "alone", 0, "") })
    assert.same({ messages = 0, header = 1 }, hears { single(good:gsub("\57\0\60", "\57\0\61")) })
    assert.same({ messages = 0, address = 1 }, hears { single("\0\2\2\0\0\99" .. good:sub(7)) })
  end)

  it("lives through any bytes", function()
    local packets = {}
    math.randomseed(4)
    for n = 1, 300 do
      local bytes = { VERSION }
      for b = 2, math.random(2, 60) do bytes[b] = string.char(math.random(0, 255)) end
      packets[n] = table.concat(bytes)
    end
    for n = 1, 300 do -- A good one with one byte changed.
      local text, at = single(good), math.random(1, #good)
      packets[300 + n] = text:sub(1, at - 1) .. string.char(math.random(0, 255)) .. text:sub(at + 1)
    end
    local grown, all = hears(packets), 0
    for _, count in pairs(grown) do all = all + count end
    assert(all > 400, all)
  end)
end)

describe("real time #real", function()
  it("comes back from a sleep of a millisecond after one, not two", function()
    local late = {}
    neap.run(function()
      for n = 1, 50 do
        local before = neap.now()
        neap.sleep "1ms"
        late[n] = neap.now() - before
      end
    end)
    table.sort(late)
    assert(late[1] >= 1e6, late[1])
    assert(late[25] < 1.5e6, late[25])
  end)
end)

describe("opening and closing in a loop #real", function()
  it("leaves no descriptor behind, also when it fails", function()
    local fd, counts, lists = socket(place(127, 0, 0, 1, PORT + 2)), {}, {}
    neap.run(function()
      for n = 1, 200 do
        local taken = n % 10 == 0
        local udp = { group = group(44), port = taken and PORT + 2 or 0, port_range = 0 }
        local channel, code =
          neap.join("loop", { stack = "bare", name = "ann", with = { udp = udp } })
        assert.equal(taken, channel == nil)
        if channel then
          for m = 1, 10 do channel:send(tostring(m)) end
          channel:close()
          channel:close() -- Twice is fine.
        else
          assert.equal("system", code)
        end
        if n == 20 or n == 200 then
          counts[#counts + 1], lists[#lists + 1] = descriptors()
        end
      end
    end)
    ffi.C.close(fd)
    assert(counts[1] == counts[2], lists[1] .. lists[2])
  end)

  it("may be done from within a callback", function()
    local got, views = 0, 0
    neap.run(function()
      local channel
      local function open()
        channel = assert(neap.join("nest", { stack = "bare", name = "ann",
          with = { udp = { group = group(45) } } }))
        channel:on("view", function() views = views + 1 end)
        channel:on("message", function()
          got = got + 1
          for n = 1, 100 do channel:send(tostring(n)) end -- Pending when it closes.
          channel:close()
          channel:close()
          if got < 5 then
            open()
            channel:send "again"
          end
        end)
      end
      open()
      channel:send "first"
      while got < 5 do neap.sleep "5ms" end
    end)
    assert.equal(5, got)
  end)
end)
