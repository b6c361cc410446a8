/* gate: admission, once, at the top of the channel (protocols 3).
 *
 * Layers never refuse a batch.  A send reserves whole-message bytes in its traffic class (the
 * multicast stream, or one unicast peer); the layers that own the room publish how far the class
 * may go, as an absolute position, so nothing is counted twice and nothing drifts:
 *
 *     position    bytes (and messages) admitted so far, since the channel began
 *     horizon     per owner: position may go this far
 *     room      = min over owners of horizon - position
 *
 *     nakack: horizon = charges purged so far + window     (m->charge tells what a message took)
 *     mfc:    horizon = min over members of what they have let through + credits
 *
 * Messages made by layers (NEAP_OWN) bypass the gate and carry no charge, so a full window can
 * never hold up the view that would free it.
 *
 * Synchronous sends take a place besides, until they have ended: whoever gives `rsvp` says how many
 * may have begun since the channel did, so those that nobody waits for are bounded as well. */

#ifndef NEAP_CORE_GATE_H
#define NEAP_CORE_GATE_H

#include "core/peer.h"

struct neap_msg;

enum { NEAP_GATE_OWNERS = 8 };

struct neap_gate_position {
  uint64_t bytes, messages;
};

struct neap_gate_class {
  struct neap_gate_position at;
  struct neap_gate_position horizon[NEAP_GATE_OWNERS];
  uint64_t best[NEAP_GATE_OWNERS]; /* most bytes of room an owner has published */
  bool owned[NEAP_GATE_OWNERS];
  struct neap_gate_position limit; /* the nearest horizon: up to it nobody need be asked */
  bool wanted; /* somebody was turned away: say so when there is room */
};

/* Publishes this layer's horizon for multicasts (`peer` NULL) or for one peer. */
void neap_gate_horizon(struct neap_layer *layer, struct neap_peer *peer, uint64_t bytes,
  uint64_t messages);

/* This layer no longer bounds the class (it closes, or was told to). */
void neap_gate_open(struct neap_layer *layer, struct neap_peer *peer);

/* Where the class stands now: what a fresh owner starts its own sums from. */
struct neap_gate_position neap_gate_at(struct neap_layer *layer, struct neap_peer *peer);

/* Somebody was turned away and waits; owners hear of it by the event WANTED. */
bool neap_gate_wanted(struct neap_layer *layer, struct neap_peer *peer);

/* So many synchronous sends may have begun since the channel did; who was turned away is told. */
void neap_gate_asks(struct neap_layer *layer, uint64_t horizon);

/* ---- for the channel ---- */

/* Is there no doubt that so many bytes have room?  Near its end the gate takes a closer look. */
static inline bool neap_gate_far(const struct neap_gate_class *class, uint32_t len)
{
  return class->at.bytes + len <= class->limit.bytes && class->at.messages < class->limit.messages;
}

/* Reserves room for a message to `to` (NULL: all) with so many bytes, which then carries that
 * charge; false: would block.  A message larger than the room is admitted once half of the best
 * room is free again, so that one larger than the whole window can never wait for ever; the caller
 * refuses what is over the channel's limit. */
bool neap_gate_admit(struct neap_stack *stack, struct neap_peer *to, uint32_t len);

/* Is there a place for one more synchronous send?  neap_gate_ask takes it. */
bool neap_gate_may_ask(struct neap_stack *stack);
void neap_gate_ask(struct neap_stack *stack);

/* Bytes and messages that could be admitted now. */
struct neap_gate_position neap_gate_room(struct neap_stack *stack, struct neap_peer *peer);

#endif
