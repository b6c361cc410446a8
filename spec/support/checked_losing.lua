-- checked_losing: checked, for stories in which tables of unicast connections are lost: messages to
-- one member may then come twice, or never.
-- luacheck: ignore 113

return extend("spec/support/checked.lua", {
  "A group whose promises are watched, except the order of unicasts.",

  remove "check_fifo",
})
