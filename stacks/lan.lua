-- lan: what a group on one network wants.  Stays on this host until `udp.bind` names an interface.

return stack "lan" {
  "Reliable messages in a group on one network, with views and synchronous sends.",

  rsvp     { timeout = "10s", ack_on = "delivery" },
  frag     {},
  ufc      {},
  mfc      {},
  settings {},
  gms      { join_timeout = "1s" },
  stable   { interval = "20s", max_bytes = "2MB" },
  unicast  { retransmission = "ack" },
  nakack   { retransmission = "nak", xmit_interval = "500ms" },
  verify_suspect {},
  fd_all   { timeout = "40s", interval = "8s" },
  ping     {},
  udp      { group = "239.7.7.7:7600" },
}
