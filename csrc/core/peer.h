/* peer: one member as one stack sees it.
 *
 * Interned by address: equal address, equal pointer.  The slot number stays the same as long as
 * anyone holds the peer, so per-member state is an array by slot and needs no remapping when views
 * change.  A peer outside the layer's view has no rank (NEAP_STRANGER).
 *
 * Life: a peer appears with its first message or view.  When it is in no view, each layer that does
 * not hold it (neap_peer_hold) is told by `peer_gone` and its state is zeroed; when the last
 * message and the last hold are gone too, the slot is used again.  Members number at most
 * NEAP_MEMBERS_MAX; strangers at most NEAP_STRANGERS_MAX, beyond that their packets are counted and
 * dropped. */

#ifndef NEAP_CORE_PEER_H
#define NEAP_CORE_PEER_H

#include "core/addr.h"

enum { NEAP_MEMBERS_MAX = 1024, NEAP_STRANGERS_MAX = 1024, NEAP_NAME_MAX = 64 };
enum { NEAP_STRANGER = -1 };

struct neap_layer;
struct neap_stack;

struct neap_peer {
  struct neap_addr addr;
  struct neap_stack *stack;
  char name[NEAP_NAME_MAX]; /* "" until known */
  uint32_t slot;
  uint32_t refs;            /* messages, views, digests, holds */
  uint32_t views;           /* installed views of layers that list it */
  uint8_t generation;       /* 0: not a Neap member */
  bool self;
};

/* The peer with this address, made if need be; NULL when there are too many. */
struct neap_peer *neap_peer_intern(struct neap_stack *stack, const struct neap_addr *addr);

/* The same, but only if it exists. */
struct neap_peer *neap_peer_find(struct neap_stack *stack, const struct neap_addr *addr);

static inline struct neap_peer *neap_peer_ref(struct neap_peer *peer)
{
  if (peer) peer->refs++;
  return peer;
}

void neap_peer_unref(struct neap_peer *peer);

/* This layer's state for `peer`, zeroed when new; also for one outside the view. */
void *neap_peer_state_make(struct neap_layer *layer, struct neap_peer *peer);

/* Keeps this layer's state (and the slot) over the peer's departure; not counted: twice is once. */
void neap_peer_hold(struct neap_layer *layer, struct neap_peer *peer);
/* Ends the hold; if the peer is in no view, peer_gone follows before the turn ends. */
void neap_peer_release(struct neap_layer *layer, struct neap_peer *peer);

/* The name, or the address where there is none. */
const char *neap_peer_text(const struct neap_peer *peer, char *text);

/* Gives it a name: what discovery said.  Longer ones are cut at a character. */
void neap_peer_name(struct neap_peer *peer, const char *name, uint32_t len);

#endif
