-- state: lan, and who joins can get the state of the group, by either mode.

return stack "state" {
  "As lan, and a member gets the state of the group, with nothing twice or never.",

  state_transfer { mode = "applied" },
  rsvp     { timeout = "10s", ack_on = "delivery" },
  frag     {},
  ufc      {},
  mfc      {},
  barrier  {},
  gms      { join_timeout = "1s" },
  stable   { interval = "20s", max_bytes = "2MB" },
  unicast  { retransmission = "ack" },
  nakack   { retransmission = "nak", xmit_interval = "500ms" },
  verify_suspect {},
  fd_all   { timeout = "40s", interval = "8s" },
  ping     {},
  udp      { group = "239.7.7.7:7600" },
}
