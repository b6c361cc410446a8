-- luacheck: ignore 113
-- stuck: with a layer that a spec makes and that is never done.

return stack "stuck" {
  "Never settles.",

  stuck {},
  udp   {},
}
