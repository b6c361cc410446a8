-- fifo, in Lua.  Same promise, header and attributes as csrc/layers/fifo.c, same functions in the
-- same order; spec/layers/fifo_spec.lua runs against both.

local neap = require "neap"
local param, gauge, counter = neap.param, neap.gauge, neap.counter

local SLOTS = 256

local function release(self, p)
  while p.slot[p.next] do
    self:pass_up(p.slot[p.next])
    p.slot[p.next] = nil
    p.next = p.next + 1
    p.held, self.held = p.held - 1, self.held - 1
  end
end

local function store(self, p, m, seq)
  if p.slot[seq] then
    self.stale = self.stale + 1
  else
    p.held, self.held = p.held + 1, self.held + 1
    p.slot[seq] = self:hold(m)
  end
end

-- Whatever is missing before `seq` is given up; what waits there rises.
local function give_up(self, p, seq)
  for _ = 1, SLOTS do
    if p.next == seq then return end
    release(self, p)
    if p.next == seq then return end
    p.next = p.next + 1
    self.skipped = self.skipped + 1
  end
  self.skipped = self.skipped + seq - p.next -- Further ahead than there are slots.
  p.next = seq
end

local function skip_gaps(self)
  for p in self:peers() do
    local gap = 0
    while gap < SLOTS and not p.slot[p.next + gap] do gap = gap + 1 end
    if gap < SLOTS then
      give_up(self, p, p.next + gap)
      release(self, p)
    end
  end
  if self.held > 0 then self:after(self.patience, skip_gaps) end
end

return neap.layer "fifo_lua" {
  doc = "Multicasts of one sender come out in the order they went in.",
  needs = "multicast",
  gives = "mcast_fifo",
  breaks = "jgroups5",

  peer = function() return { next = 0, slot = {}, held = 0 } end,
  peer_gone = function(self, p)
    for seq = p.next, p.next + SLOTS do
      if p.slot[seq] then self:free(p.slot[seq]) end
    end
    self.held = self.held - p.held
  end,

  headers = {
    id = 1101, -- ours are 1024 to 2047, in the table of core/headers
    { "seq", "clong", "place in the sender's sequence" },
  },

  attrs = {
    param { "window", unit = "messages", default = 64, min = 1, max = SLOTS, live = "now",
      doc = "How far a sender may run ahead of a gap; what waits further ahead stays." },
    param { "patience", unit = "ns", default = "50ms", min = "1ms", max = "60s", live = "now",
      doc = "How long a gap may stay open before it is given up, from the next." },
    gauge { "held", unit = "messages", doc = "Waiting behind a gap right now." },
    counter { "skipped", unit = "messages", doc = "Never came; given up on." },
    counter { "stale", unit = "messages", doc = "Twice, or too late." },
  },

  open = function(self) self.next_down = 0 end,

  down = function(self, batch)
    for m in batch:each() do
      if not m.to then
        self:put(m, { seq = self.next_down })
        self.next_down = self.next_down + 1
      end
      self:pass_down(m)
    end
  end,

  up = function(self, batch)
    for m in batch:each() do
      local p = self:peer_of(m)
      local head = self:get(m)

      if not head then
        self:pass_up(m)
      elseif head.seq < p.next then
        self.stale = self.stale + 1
      else
        local seq = head.seq
        if seq - p.next >= self.window then give_up(self, p, seq - self.window + 1) end
        store(self, p, m, seq)
        release(self, p)
      end
    end
    if self.held > 0 and not self:waiting(skip_gaps) then
      self:after(self.patience, skip_gaps)
    end
  end,

  check = function(self)
    for p in self:peers() do
      assert(not p.slot[p.next], "a message that could rise is waiting")
    end
    assert(self.held == 0 or self:waiting(skip_gaps), "messages wait behind a gap nobody watches")
  end,
}
