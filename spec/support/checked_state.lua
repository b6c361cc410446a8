-- checked_state: what stacks/state.lua promises, with checkers above whoever promises it.
-- luacheck: ignore 113

return extend("state", {
  "A group that gives its state, whose promises are watched.",

  before("state_transfer", check_state {}),
  before("rsvp", check_rsvp {}),
  before("frag", check_frag {}),
  before("settings", check_settings {}),
  before("gms", check_view {}),
  before("unicast", check_stable {}),
})
