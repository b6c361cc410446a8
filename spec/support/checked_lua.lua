-- checked_lua: checked, with layers in Lua above and below those that keep the promises, and a wire
-- that is worse than the network's settings say.
-- luacheck: ignore 113

return extend("spec/support/checked.lua", {
  "A group whose promises are watched, with layers in Lua.",

  before("frag", passing {}),
  before("unicast", counting {}),
  before("udp", discard { up = 0.02, down = 0.01 }),
})
