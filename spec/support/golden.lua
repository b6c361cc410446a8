-- golden: the vectors and captures of spec/golden, in the words of neap.dissect.
--
-- The files speak the names of the implementation that made them.  What a header's field is called
-- there and here stands in `fields`, by class id; a function makes several of one.

local json = require "support.json"

local golden = {}

local folder = "spec/golden/"

golden.captures = { "udp-basic", "tcp-basic", "udp-discard", "tcp-discard", "udp-drops",
  "udp-state", "tcp-state", "udp-types", "udp-merge", "udp-nak4", "udp-credits", "udp-sizes" }

function golden.text(name)
  local file = assert(io.open(folder .. name, "rb"))
  local text = file:read "*a"
  file:close()
  return text
end

function golden.rows(name)
  local rows = {}
  for line in golden.text(name):gmatch "[^\n]+" do rows[#rows + 1] = json.read(line) end
  return rows
end

-- ---- values ----

local function given(value)
  if value ~= json.null then return value end
end

golden.given = given

local function ip6(host)
  local groups, scope = host:match "^([^%%]+)(.*)$"
  local best, from = 1, nil -- a run of zeros that is worth leaving out
  local list = {}
  for group in groups:gmatch "[^:]+" do list[#list + 1] = group end
  for n = 1, 8 do
    local run = 0
    while list[n + run] == "0" do run = run + 1 end
    if run > best then best, from = run, n end
  end
  if not from then return "[" .. groups .. scope .. "]" end
  return "[" .. table.concat(list, ":", 1, from - 1) .. "::"
    .. table.concat(list, ":", from + best) .. scope .. "]"
end

function golden.addr(text)
  text = given(text)
  if not text then return nil end
  local kind, rest = text:match "^(%w+):(.*)$"
  if kind == "uuid" then return rest end
  local host, port = rest:match "^(.*):(%d+)$"
  return (host:find ":" and ip6(host) or host) .. ":" .. port
end

function golden.addrs(list)
  list = given(list)
  if not list then return nil end
  local all = {}
  for n, text in ipairs(list) do all[n] = golden.addr(text) end
  return all
end

function golden.view_id(id)
  id = given(id)
  return id and { creator = golden.addr(id.creator), number = id.id }
end

function golden.view(view)
  view = given(view)
  if not view then return nil end
  local read = golden.view_id(view.id)
  if view.kind == "delta" then
    read.old_creator, read.old_number = golden.addr(view.ref.creator), view.ref.id
    read.left, read.joined = golden.addrs(view.left), golden.addrs(view.joined)
    return read
  end
  read.members = golden.addrs(view.members)
  if view.subgroups then
    read.parts = {}
    for n, part in ipairs(view.subgroups) do read.parts[n] = golden.view(part) end
  end
  return read
end

function golden.digest(digest, without_members)
  digest = given(digest)
  if not digest then return nil end
  local all = {}
  for n, row in ipairs(digest) do
    all[n] = { delivered = row.hd, received = row.hr }
    if not without_members then all[n].member = golden.addr(row.member) end
  end
  return all
end

-- ---- headers ----

local function rename(name, turn)
  return function(fields, value) fields[name] = (turn or given)(value) end
end

local nak = { type = rename "type", seqno = rename "seqno", sender = rename("sender", golden.addr) }
local uni = { type = rename "type", seqno = rename "seqno", conn_id = rename "conn",
  first = rename "first", timestamp = rename "stamp" }
local merge_types = { INFO = 0, VIEW_REQ = 1, VIEW_RSP = 2 }
local stream = { type = rename "type", digest = rename("digest", golden.digest),
  bind_addr = rename("place", golden.addr) }
local correlator = { type = rename "type", req_id = rename "id", corrId = rename "correlator",
  exclusion_list = rename("excluded", golden.addrs) }

golden.fields = {
  [52] = { id = rename "id", frag_id = rename "index", num_frags = rename "count",
    needs_deserialization = rename "encoded", original_type = rename "type" },
  [53] = { type = rename "type", cluster_name = rename "cluster",
    initial_discovery = rename "initial" },
  [55] = { type = rename "type", mbr = rename("member", golden.addr),
    merge_id = function(fields, id)
      id = given(id)
      if not id then return end
      fields.initiator, fields.merge = golden.addr(id.initiator), id.id
      fields.bits = (fields.bits or 0) + 4
    end,
    merge_rejected = function(fields, rejected)
      fields.bits = (fields.bits or 0) + (rejected and 16 or 0)
    end },
  [56] = { type = rename "type", view_id = rename("view", golden.view_id) },
  [57] = { type = rename "type", my_digest = rename("digest", golden.digest) },
  [59] = { type = rename "type" },
  [60] = { cluster_name = rename "cluster", flag = rename "flag", index = rename "index" },
  [62] = {},
  [65] = stream,
  [67] = correlator,
  [68] = correlator,
  [75] = { type = rename("type", function(text) return merge_types[text] end),
    view_id = rename("view", golden.view_id), logical_name = rename "name",
    physical_addr = rename("place", golden.addr) },
  [76] = { type = rename "type", id = rename "id" },
  [78] = nak,
  [82] = uni,
  [91] = { id = rename "id", frag_id = rename "index", num_frags = rename "count",
    original_length = rename "length", offset = rename "offset",
    needs_deserialization = rename "encoded" },
  [93] = { type = rename "type", mbrs = rename("members", function(list)
    return golden.addrs(list) or {}
  end), srv = rename("server", golden.addr), cluster = rename "cluster" },
  [94] = { type = rename "type", from = rename("from", golden.addr) },
  [99] = nak,
  [100] = uni,
}

-- The fields that `order` names; those that the type does not carry are left out, as they have
-- default values in the files.
function golden.header(class, fields, order)
  local all, read = {}, {}
  local rows = assert(golden.fields[class], "a header of the files")
  for name, turn in pairs(rows) do
    if fields[name] ~= nil then turn(all, fields[name]) end
  end
  for _, name in ipairs(order) do read[name] = all[name] end
  return read
end

return golden
