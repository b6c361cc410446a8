-- luacheck: ignore 113
-- ordered: fifo on the bare wire, for specs of the simulated network.  A gap is soon given up.

return stack "ordered" {
  "One sender's messages in order; what the network loses is lost.",

  fifo { patience = "1ms" },
  udp  {},
}
