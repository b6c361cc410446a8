-- bare: nothing but the wire, to see how messages fare without help.

return stack "bare" {
  "Messages that may be lost, doubled or overtaken.",

  udp { group = "239.7.7.7:7600" },
}
