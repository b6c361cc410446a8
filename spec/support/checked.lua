-- checked: what lan promises, with a checker above whoever promises it.
-- luacheck: ignore 113

return extend("lan", {
  "A group on one network whose promises are watched.",

  before("rsvp", check_rsvp {}),
  before("frag", check_frag {}),
  before("settings", check_settings {}),
  before("gms", check_view {}),
  before("unicast", check_fifo {}),
  before("unicast", check_stable {}),
})
