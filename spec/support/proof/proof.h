/* proof: properties of the bricks, in C, where Lua cannot reach.  Each is a function that aborts
 * when it does not hold; spec/base and spec/core run them by name, one per process. */

#ifndef NEAP_PROOF_H
#define NEAP_PROOF_H

#include "base/random.h"
#include "core/layer.h"

/* A stack of one layer that swallows everything, in a world without a network. */
struct proof {
  struct neap_world world;
  struct neap_channel *channel;
  struct neap_stack *stack;
  struct neap_layer *layer;
  uint64_t applied;             /* events APPLIED that the layer was told */
  struct neap_receipts *closes; /* what it closes as soon as it is told of it */
};

void proof_open(struct proof *proof, uint64_t seed);
void proof_close(struct proof *proof); /* asserts that nothing is out */
void proof_turn(struct proof *proof);

struct neap_peer *proof_peer(struct proof *proof, unsigned number);

typedef void proof_run(void);
proof_run proof_addr, proof_digest, proof_events, proof_promise, proof_quantity, proof_receipt,
  proof_text, proof_trace, proof_view, proof_window;

#endif
