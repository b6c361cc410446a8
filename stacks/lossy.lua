-- lossy: lan over a network that loses messages, to see repair at work.

return extend("lan", {
  "As lan, while one message in ten is lost on its way in.",

  before("udp", discard { up = 0.1 }),
})
