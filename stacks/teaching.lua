-- teaching: order without repair.  What discard swallows is gone; what arrives is in order.

return stack "teaching" {
  "One sender's messages arrive in the order they were sent; some may be missing.",

  fifo    { window = 64, patience = "20ms" },
  discard {},
  udp     { group = "239.7.7.7:7777" },
}
