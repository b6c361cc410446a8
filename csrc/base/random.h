/* random: one seeded stream of numbers (xoshiro256**, Blackman and Vigna 2018; seeded by
 * splitmix64).  Equal seeds give equal streams on every machine.  Not for secrets. */

#ifndef NEAP_BASE_RANDOM_H
#define NEAP_BASE_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct neap_random {
  uint64_t state[4];
};

void neap_random_seed(struct neap_random *random, uint64_t seed);
uint64_t neap_random_next(struct neap_random *random);

/* Evenly in 0 .. bound-1; 0 for a bound of 0 or 1 (no number is drawn then). */
uint64_t neap_random_below(struct neap_random *random, uint64_t bound);

/* True with this probability: never at 0, always at 1 (no number is drawn at either end). */
bool neap_random_chance(struct neap_random *random, double probability);

#endif
