-- state: lan, and a member can get the state of the group from another one (ann:get_state).
--
--     state_transfer   top: holds multicasts while a state is on its way to this member
--     rsvp ... mfc     as lan
--     barrier          closed for a moment at both sides, in mode "barrier" only
--     gms ... udp      as lan
--
-- Cost: nothing on the wire until somebody asks.  Then the state, two digests and three words; and
-- what was said since the digest once more, at a member that was ahead of the one it asked.

return extend("lan", {
  "As lan, and a member gets the state of the group, with nothing twice or never.",

  before("rsvp", state_transfer { mode = "applied" }),
  before("gms", barrier {}),
})
