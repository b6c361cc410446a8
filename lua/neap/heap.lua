-- heap: what has to happen when, earliest first; equal times in the order of adding.
-- Entries are tables of the caller's; `at` is theirs, `place` and `id` are the heap's.

local Heap = {}
Heap.__index = Heap

local function before(a, b)
  return a.at < b.at or (a.at == b.at and a.id < b.id)
end

local function put(heap, place, entry)
  heap[place] = entry
  entry.place = place
end

local function rise(heap, place)
  local entry = heap[place]
  while place > 1 and before(entry, heap[math.floor(place / 2)]) do
    put(heap, place, heap[math.floor(place / 2)])
    place = math.floor(place / 2)
  end
  put(heap, place, entry)
end

local function sink(heap, place)
  local entry = heap[place]
  while true do
    local child = 2 * place
    if child > heap.count then break end
    if child < heap.count and before(heap[child + 1], heap[child]) then child = child + 1 end
    if not before(heap[child], entry) then break end
    put(heap, place, heap[child])
    place = child
  end
  put(heap, place, entry)
end

function Heap:add(entry)
  self.count, self.last = self.count + 1, self.last + 1
  entry.id = self.last
  self[self.count] = entry
  rise(self, self.count)
end

-- Twice is fine.
function Heap:remove(entry)
  local place = entry.place
  if not place then return end
  local last = self[self.count]
  self[self.count] = nil
  self.count = self.count - 1
  entry.place = nil
  if last == entry then return end
  self[place] = last
  rise(self, place)
  sink(self, last.place)
end

return function() return setmetatable({ count = 0, last = 0 }, Heap) end
