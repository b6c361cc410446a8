-- luacheck: ignore 113
-- basic: membership and reliable messages and nothing more, with quick failure detection.

return stack "basic" {
  "Members, views, and reliable messages.",

  gms      {},
  stable   {},
  unicast  {},
  nakack   {},
  verify_suspect {},
  fd_all   { timeout = "3s", interval = "500ms" },
  ping     {},
  udp      {},
}
