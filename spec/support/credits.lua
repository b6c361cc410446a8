-- credits: what ufc and mfc both promise, as stories that are asked of each.
--
--     for _, story in ipairs(credits.stories "ufc") do it(story.says, story.run) end

local assert = require "luassert"
local group = require "support.group"
local neap = require "neap"

local credits = { body = ("x"):rep(10000) }
local BODY = credits.body

-- Windows so large that only credits bound a sender.
local function members(layer, options)
  options = options or {}
  options.with = options.with or {}
  for _, carrier in ipairs { "unicast", "nakack" } do
    local settings = options.with[carrier] or {}
    settings.window_bytes, settings.window_messages = "100MB", 65536
    options.with[carrier] = settings
  end
  options.with[layer] = options.with[layer] or {}
  options.with[layer].max_credits = options.with[layer].max_credits or "100KB"
  return group.new(options)
end

-- Sends until it would block; how many.
local function fill(g, to, body)
  local sent = 0
  while g.ann:send(body or BODY, { to = to, block = false }) do
    sent = sent + 1
    assert(sent < 100000, "it never blocks")
  end
  return sent
end

-- A callback at `name` that waits until release(count) lets so many of them return.
local function hold(g, name)
  local free = 0
  g[name]:on("message", function(msg)
    while free == 0 do neap.sleep "1ms" end
    free = free - 1
    table.insert(g.bodies[name], msg.body)
  end)
  return function(count) free = count or 1e9 end
end

-- Both layers that carry messages, in this mode.
local function modes(with, mode)
  with.unicast, with.nakack = { retransmission = mode }, { retransmission = mode }
  return with
end

credits.members, credits.fill, credits.hold = members, fill, hold

function credits.stories(layer)
  local to = layer == "ufc" and "bob" or nil
  local stories = {}
  local function story(says, run) stories[#stories + 1] = { says = says, run = run } end

  story("lets a sender go on for max_credits, and further as the application takes", function()
    local g = members(layer)
    local release = hold(g, "bob")
    assert.equal(10, fill(g, to))
    g.sim:run "1s"
    assert.equal(0, fill(g, to)) -- received, reported or not: the application has not taken it
    assert.equal(100000, g.bob.stack[layer].waiting.bytes)
    release(4)
    g.sim:run "100ms"
    assert.equal(0, fill(g, to)) -- given back when no more than half is left
    release(1)
    g.sim:run "100ms"
    assert.equal(5, fill(g, to))
    release()
    g.sim:settle()
    assert.equal(15, #g.bodies.bob)
    assert.equal(0, g.bob.stack[layer].waiting.bytes)
  end)

  story("resumes a waiting send when credits come", function()
    local g = members(layer, { loss = 0.1 })
    local done = 0
    g.sim:spawn(function()
      for _ = 1, 100 do
        assert(g.ann:send(BODY, { to = to }))
        done = done + 1
      end
    end)
    g.sim:settle()
    assert.equal(100, done)
    assert.equal(100, #g.bodies.bob)
    assert.is_true(g.ann.stack[layer].blocked > 0)
    assert.equal(0, g.ann.stack[layer].requests_sent)
  end)

  story("holds nobody back who sends nothing but empty messages, or to itself", function()
    local g = members(layer)
    hold(g, "bob")
    for _ = 1, 1000 do assert(g.ann:send("", { to = to, block = false })) end
    if layer == "ufc" then
      for _ = 1, 100 do assert(g.ann:send(BODY, { to = "ann", block = false })) end
    end
    assert.equal(10, fill(g, to))
  end)

  story("admits a message larger than all credits, and gets its bytes back", function()
    group.each_seed(20, function(seed)
      local g = members(layer, { seed = seed, loss = seed % 3 == 0 and 0.05 or 0,
        with = modes({}, seed % 2 == 0 and "nak" or "ack") })
      g:call(function()
        for _ = 1, 5 do assert(g.ann:send(("x"):rep(1000000), { to = to })) end
      end)
      g:calm()
      assert.equal(5, #g.bodies.bob)
      local bound = fill(g, to)
      assert.is_true(bound >= 4 and bound <= 10, tostring(bound))
      g.sim:close()
    end)
  end)

  story("ends a waiting send when the sender closes", function()
    local g = members(layer)
    hold(g, "bob")
    fill(g, to)
    local ended
    g.sim:spawn(function() ended = { g.ann:send(BODY, { to = to }) } end)
    g.sim:run "1s"
    assert.is_nil(ended)
    g.ann:close()
    g.sim:run "1ms"
    assert.same({ nil, "closed" }, ended)
  end)

  story("frees a waiting sender with the view that a slow member is not in", function()
    local g = members(layer, { with = { fd_all = { timeout = "4s", interval = "1s" } } })
    g.sim:pause "cho"
    fill(g, layer == "ufc" and "cho" or nil)
    local ok, code, at
    g.sim:spawn(function()
      ok, code = g.ann:send(BODY, { to = layer == "ufc" and "cho" or nil })
      at = g.sim:now()
    end)
    g.sim:run "1s"
    assert.is_nil(at)
    g.sim:kill "cho"
    local view
    g.ann:on("view", function() view = g.sim:now() end)
    g.sim:run "20s"
    assert.equal(2, #g.ann:view().members)
    assert.is_true(at - view < 100e6)
    if layer == "ufc" then
      assert.is_nil(ok)
      assert.truthy(code == "not a member" or code == "left", tostring(code))
    else
      assert.is_true(ok)
    end
    assert.is_true(fill(g, to) > 0)
  end)

  story("never waits for credits that nobody gives, whatever the sizes", function()
    for _, size in ipairs { 20000, 33334, 49999, 50001, 66000, 99999, 150000 } do
      local g = members(layer, { with = { frag = { frag_size = "7KB" } } })
      g:call(function()
        for _ = 1, 20 do assert(g.ann:send(("x"):rep(size), { to = to })) end
      end)
      g.sim:settle()
      assert.equal(20, #g.bodies.bob)
      assert.equal(0, g.ann.stack[layer].requests_sent, size)
    end
  end)

  story("heals credits that got lost, after max_block_time", function()
    local g = members(layer, { with = { [layer] = { max_block_time = "2s" } } })
    g.sim:cut { from = "ann", to = "bob" }
    for _ = 1, 10 do g.ann:send(BODY, { to = to, reliable = false, block = false }) end
    g.sim:run "5ms"
    g.sim:heal()
    local at
    local since = g.sim:now()
    g.sim:spawn(function()
      assert(g.ann:send(BODY, { to = to }))
      at = (g.sim:now() - since) / 1e9
    end)
    g.sim:run "1900ms"
    assert.is_nil(at)
    g.sim:run "1s"
    assert.is_true(at >= 2 and at < 2.1)
    assert.is_true(g.ann.stack[layer].requests_sent >= 1)
    g.sim:settle()
    assert.is_true(fill(g, to) >= 5)
  end)

  story("gives nothing on request that waits for a slow application", function()
    local g = members(layer, { with = { [layer] = { max_block_time = "1s" } } })
    hold(g, "bob")
    fill(g, to)
    g.sim:run "10s"
    assert.is_true(g.bob.stack[layer].requests_received > 0)
    assert.equal(0, fill(g, to))
    assert.equal(100000, g.bob.stack[layer].waiting.bytes)
  end)

  story("takes a new max_credits at once, more and less", function()
    local g = members(layer)
    local release = hold(g, "bob")
    assert.equal(10, fill(g, to))
    local sent = false
    g.sim:spawn(function() sent = g.ann:send(BODY, { to = to }) end)
    g.sim:run "100ms"
    assert.is_false(sent)
    for _, name in ipairs(g.names) do g[name].stack[layer].max_credits = "200KB" end
    g.sim:run "1ms"
    assert.is_true(sent)
    assert.equal(9, fill(g, to))
    for _, name in ipairs(g.names) do g[name].stack[layer].max_credits = "50KB" end
    release()
    g.sim:settle()
    assert.equal(20, #g.bodies.bob)
    local now = fill(g, to)
    assert.is_true(now >= 2 and now <= 5, tostring(now))
  end)

  story("starts a joiner with full credits", function()
    local g = members(layer)
    hold(g, "bob")
    fill(g, to)
    g:join("dee", { with = { [layer] = { max_credits = "100KB" } } })
    g.sim:run "2s"
    assert.equal(4, #g.ann:view().members)
    if layer == "ufc" then assert.equal(10, fill(g, "dee")) end
    assert.equal(0, fill(g, to)) -- bob is as slow as before
    assert.truthy(g.ann.stack[layer]:credits():find "dee%s+%d+ left")
  end)

  story("never has more on its way to an application than it may", function()
    group.each_seed(5, function(seed)
      local g = members(layer, { seed = seed, loss = 0.1 })
      g.bob:on("message", function(msg)
        neap.sleep "3ms"
        table.insert(g.bodies.bob, msg.body)
      end)
      for _, from in ipairs { "ann", "cho" } do
        g.sim:spawn(function()
          for _ = 1, 60 do assert(g[from]:send(BODY, { to = to })) end
        end)
      end
      for _ = 1, 600 do
        g.sim:run "1ms"
        local most = layer == "mfc" and 200000 or 100000 -- Some may have waited for a lost one.
        assert.is_true(g.bob.stack[layer].waiting.bytes <= 2 * most)
      end
      g.sim:settle()
      assert.equal(120, #g.bodies.bob)
      g.sim:close()
    end)
  end)

  for _, mode in ipairs { "nak", "ack" } do
    story("heals whatever credits and requests get lost above what resends: " .. mode, function()
      local stack = neap.stack(function(s)
        return s.extend("lan", { "Credits get lost for good.", s.before("gms", s.drop {
          honest = false, when = "layer=" .. layer .. " way=up probability=0.4" }) })
      end)
      group.each_seed(20, function(seed)
        local g = members(layer, { seed = seed, stack = stack, with = modes(
          { [layer] = { max_credits = "100KB", max_block_time = "100ms" } }, mode) })
        g:call(function()
          for _ = 1, 60 do assert(g.ann:send(BODY, { to = to })) end
        end)
        g.sim:run "10s"
        assert.equal(60, #g.bodies.bob)
        assert.is_true(g.ann.drop.hits + g.bob.drop.hits > 0)
        g.sim:close()
      end)
    end)

    story("lets one sender's slow callback starve no other sender: " .. mode, function()
      group.each_seed(20, function(seed)
        local g = members(layer, { seed = seed, loss = 0.05, with = modes({}, mode) })
        local came = { ann = 0, cho = 0 }
        g.bob:on("message", function(msg)
          came[msg.from] = came[msg.from] + 1
          if msg.from == "ann" then neap.sleep "1h" end
        end)
        g.sim:spawn(function()
          while g.ann:is_open() do g.ann:send(BODY, { to = to }) end
        end)
        g:call(function()
          for _ = 1, 60 do assert(g.cho:send(BODY, { to = to })) end
        end)
        g.sim:run "5s"
        assert.same({ ann = 1, cho = 60 }, came)
        g.sim:close()
      end)
    end)

    story("lets a greedy receiver starve nobody, nor its own sends: " .. mode, function()
      group.each_seed(20, function(seed)
        local g = members(layer, { seed = seed, loss = 0.05, with = modes({}, mode) })
        local came = { ann = 0, bob = 0, cho = 0 }
        g.bob:on("message", function(msg) -- Talks whenever it hears something.
          came[msg.from] = came[msg.from] + 1
          if msg.from ~= "bob" then g.bob:send(BODY, { to = to and msg.from }) end
        end)
        for _, from in ipairs { "ann", "cho" } do
          g.sim:spawn(function()
            for _ = 1, 60 do assert(g[from]:send(BODY, { to = to })) end
          end)
        end
        g.sim:run "20s"
        assert.equal(60, came.ann)
        assert.equal(60, came.cho)
        g.sim:close()
      end)
    end)

    story("lets a paused receiver hold back only what goes to it: " .. mode, function()
      group.each_seed(20, function(seed)
        local g = members(layer, { seed = seed, with = modes(
          { fd_all = { timeout = "5s", interval = "1s" } }, mode) })
        g.sim:pause "bob"
        local freed
        g.sim:spawn(function()
          for n = 1, 30 do
            local ok = g.ann:send(BODY, { to = to })
            if n > 15 then freed = { ok = ok, at = g.sim:now() } end
          end
        end)
        g.sim:run "1s"
        assert.is_nil(freed)
        g:call(function() -- The other class, and another member.
          for _ = 1, 60 do assert(g.ann:send(BODY, { to = "cho" })) end
          for _ = 1, 60 do assert(g.cho:send(BODY, { to = "ann" })) end
        end)
        local view
        g.ann:on("view", function() view = view or g.sim:now() end)
        g.sim:run "20s"
        assert.is_true(freed.at >= view)
        assert.equal(layer == "mfc" or nil, freed.ok)
        g.sim:close()
      end)
    end)
  end

  story("by hand takes full credits, which the real ones do not add to", function()
    local g = members(layer)
    local release = hold(g, "bob")
    fill(g, to)
    g.sim:run "10ms"
    assert.truthy(g.ann.stack[layer]:credits():find "bob%s+0 left")
    g.ann.stack[layer]:unblock()
    assert.truthy(g.ann.stack[layer]:credits():find "bob%s+100000 left")
    release()
    g.sim:settle()
    assert.truthy(g.ann.stack[layer]:credits():find "bob%s+100000 left")
    assert.equal(10, fill(g, to))
  end)
  return stories
end

return credits
