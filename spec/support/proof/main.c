/* Runs the proof that is named, or all: proof window */

#include "proof.h"

#include "core/channel.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the world ---- */

struct hole {
  struct neap_layer layer;
  struct proof *proof;
};

static enum neap_verdict hole_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct hole *hole = (struct hole *)layer;
  (void)up;
  if (event->kind != NEAP_EVENT_APPLIED || !hole->proof) return NEAP_PASS;
  hole->proof->applied++;
  if (event->receipts == hole->proof->closes) neap_receipts_close(event->receipts);
  return NEAP_PASS;
}

static void hole_down(struct neap_layer *layer, struct neap_batch *batch)
{
  (void)layer;
  neap_batch_free(batch);
}

static const struct neap_class hole_class = {
  .name = "hole",
  .doc = "Swallows everything.",
  .size = sizeof(struct hole),
  .down = hole_down,
  .event = hole_event,
};

static const struct neap_world_class proof_world = {.name = "proof"};

void proof_open(struct proof *proof, uint64_t seed)
{
  static const struct neap_layer_spec layer = {.class = &hole_class};
  struct neap_stack_spec spec = {.name = "proof", .file = "proof", .layers = &layer, .count = 1};
  struct neap_trail trail = {""};
  *proof = (struct proof){.applied = 0};
  neap_world_init(&proof->world, &proof_world, seed);
  proof->channel = neap_channel_open(&proof->world, &spec, "proof", "ann", &trail);
  NEAP_ASSERT(proof->channel);
  proof->stack = proof->channel->stack;
  proof->layer = proof->stack->layers[0];
  ((struct hole *)proof->layer)->proof = proof;
}

void proof_close(struct proof *proof)
{
  neap_channel_free(proof->channel);
  neap_world_done(&proof->world);
}

void proof_turn(struct proof *proof)
{
  neap_world_turns(&proof->world, 1000);
}

struct neap_peer *proof_peer(struct proof *proof, unsigned number)
{
  struct neap_addr addr = {.kind = NEAP_ADDR_UUID};
  memcpy(addr.bytes, "neap\1", 5);
  addr.bytes[14] = (uint8_t)(number >> 8);
  addr.bytes[15] = (uint8_t)number;
  return neap_peer_intern(proof->stack, &addr);
}

/* ---- which ---- */

int main(int count, char **arguments)
{
  static const struct {
    const char *name;
    proof_run *run;
  } proofs[] = {{"addr", proof_addr}, {"digest", proof_digest}, {"events", proof_events},
    {"promise", proof_promise}, {"quantity", proof_quantity}, {"receipt", proof_receipt},
    {"text", proof_text}, {"trace", proof_trace}, {"view", proof_view}, {"window", proof_window}};
  unsigned run = 0;
  for (size_t i = 0; i < sizeof proofs / sizeof *proofs; i++) {
    if (count > 1 && strcmp(arguments[1], proofs[i].name) != 0) continue;
    proofs[i].run();
    run++;
  }
  printf("%u held\n", run);
  return run ? 0 : 1;
}
