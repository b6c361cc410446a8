/* Receipts: applied is the end of the run of what was released, whatever the order. */

#include "proof.h"

enum { OUT = 400 };

static void any_order(uint64_t seed)
{
  struct proof p;
  struct neap_msg *out[OUT];
  bool released[OUT + 1] = {false};
  uint64_t applied = 0;
  proof_open(&p, seed);
  struct neap_receipts *run = neap_receipts_new(p.layer, p.stack->self, 0);
  for (unsigned i = 0; i < OUT; i++) {
    out[i] = neap_msg_new(p.stack);
    neap_receipt_give(run, out[i], i + 1);
  }
  for (unsigned left = OUT; left; left--) {
    /* Near the front, so that runs form and break. */
    unsigned near = left < 20 ? left : 20;
    unsigned at = (unsigned)neap_random_below(&p.world.random, near);
    released[out[at]->seqno] = true;
    uint64_t told = p.applied;
    neap_msg_free(out[at]);
    for (unsigned i = at; i + 1 < left; i++) out[i] = out[i + 1];
    bool moved = released[applied + 1];
    while (applied < OUT && released[applied + 1]) applied++;
    NEAP_ASSERT(run->applied == applied && run->mover.out == left - 1);
    proof_turn(&p);
    NEAP_ASSERT(p.applied == told + moved); /* Told once, and only when it moved. */
  }
  neap_receipts_close(run);
  proof_close(&p);
}

void proof_receipt(void)
{
  for (uint64_t seed = 0; seed < 20; seed++) any_order(seed);

  struct proof p; /* What is made of a message goes with the last of it. */
  proof_open(&p, 1);
  struct neap_receipts *run = neap_receipts_new(p.layer, p.stack->self, 7);
  struct neap_msg *m = neap_msg_new(p.stack), *whole = neap_msg_new(p.stack);
  neap_receipt_give(run, m, 8);
  whole->origin = m;
  m->refs++;
  neap_msg_free(m);
  NEAP_ASSERT(run->applied == 7);
  neap_msg_free(whole);
  NEAP_ASSERT(run->applied == 8);
  neap_receipt_done(run, 9);
  NEAP_ASSERT(run->applied == 9);

  struct neap_msg *late = neap_msg_new(p.stack); /* A stream that is gone waits for nobody. */
  neap_receipt_give(run, late, 10);
  neap_receipts_close(run);
  neap_msg_free(late);
  proof_turn(&p);

  p.closes = neap_receipts_new(p.layer, p.stack->self, 0); /* Closed while its owner is told. */
  neap_receipt_done(p.closes, 1);
  proof_turn(&p);
  NEAP_ASSERT(!p.stack->movers_out);
  proof_close(&p);
}
