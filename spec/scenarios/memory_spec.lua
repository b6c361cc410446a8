-- Memory stays bounded, whatever holds it back: what is out of the pools after a while is all that
-- will ever be.  The figures at full size stand in spec/README.md.

local group = require "support.group"
local neap = require "neap"
local own = require("neap.channel").own

-- Slabs of 64 kB of the world, messages of all members, and bytes of Lua.
local function out(g)
  local messages = 0
  for _, name in ipairs(g.names) do
    messages = messages + g[name][own].pointer.stack.msgs_out
  end
  collectgarbage()
  collectgarbage()
  return { slabs = g.sim.world.pointer.slab_out, messages = messages,
    lua = collectgarbage "count" * 1024 }
end

-- Ann sends as much as it may, for so many seconds; how many were taken.
local function flood(g, options, seconds)
  local sent = 0
  options.block = false
  g.sim:spawn(function()
    for _ = 1, seconds * 100 do
      for _ = 1, 5 do if g.ann:send(g.body, options) then sent = sent + 1 end end
      neap.sleep "10ms"
    end
  end)
  g.sim:run(("%ds"):format(seconds))
  return sent
end

-- Bytes of own multicasts that are kept.
local function used(g)
  local bytes = g.ann.stack.nakack.window_used
  return bytes == 0 and 0 or bytes.bytes
end

local WINDOW, MESSAGES = 200e3, 500

-- What a story adds; `flows`: sends go on for ever.
local stories = {
  { says = "with a member that is paused", pause = true },
  { says = "with synchronous sends that nobody waits for, and a member that is paused",
    pause = true, options = { rsvp = true, wait = false, timeout = 0 } },
  { says = "with synchronous sends that nobody waits for", flows = true,
    options = { rsvp = true, wait = false } },
  { says = "with a callback that does not return", stuck = true },
  { says = "with stable off, where all are asked for reports", flows = true,
    stable = { interval = 0, max_bytes = 0 }, nakack = { resend_last_seqno_max_times = 0 } },
  -- A window that is half full asks for reports whatever was said.
  { says = "with stable off, by force", flows = true,
    stable = { interval = 0, max_bytes = 0 }, nakack = { force = true } },
}

local function new(seed, mode, story)
  local nakack = { retransmission = mode, window_bytes = "200KB",
    window_messages = MESSAGES }
  for key, value in pairs(story.nakack or {}) do nakack[key] = value end
  local g = group.new {
    seed = seed,
    message = function(_, name) if story.stuck and name == "cho" then neap.sleep "24h" end end,
    with = { nakack = nakack, fd_all = { timeout = "24h" }, mfc = { max_credits = "1MB" },
      stable = story.stable or { interval = "20s", max_bytes = "2MB" } },
  }
  g.body = ("x"):rep(1000)
  if story.pause then g.sim:pause "cho" end
  return g
end

describe("memory", function()
  for _, mode in ipairs { "nak", "ack" } do
    for _, story in ipairs(stories) do
      it(("stays bounded %s, in %s mode"):format(story.says, mode), function()
        for seed = 1, 2 do
          local g = new(seed, mode, story)
          flood(g, story.options or {}, 5)
          local early = out(g)
          local sent = flood(g, story.options or {}, 10)
          local late = out(g)
          assert(used(g) <= WINDOW, used(g))
          -- A slab may be begun, and layers' own messages are few.  5000 handles that
          -- stay would take more than a megabyte of Lua.
          assert(late.slabs <= early.slabs + 2, late.slabs .. " slabs after " .. early.slabs)
          assert(late.messages <= MESSAGES + 100, late.messages)
          assert(late.lua < early.lua + 600e3, late.lua .. " bytes after " .. early.lua)
          assert(story.flows and sent > 4000 or not story.flows and sent == 0, sent)
          g.sim:close()
        end
      end)
    end
  end
end)
