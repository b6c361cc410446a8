#include "base/random.h"

static uint64_t turn_left(uint64_t x, int by)
{
  return (x << by) | (x >> (64 - by));
}

void neap_random_seed(struct neap_random *random, uint64_t seed)
{
  for (int i = 0; i < 4; i++) {
    uint64_t z = (seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    random->state[i] = z ^ (z >> 31);
  }
}

uint64_t neap_random_next(struct neap_random *random)
{
  uint64_t *s = random->state;
  uint64_t result = turn_left(s[1] * 5, 7) * 9;
  uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = turn_left(s[3], 45);
  return result;
}

uint64_t neap_random_below(struct neap_random *random, uint64_t bound)
{
  if (bound < 2) return 0;
  /* Without a limit small numbers come up more often. */
  uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
  uint64_t drawn;
  do drawn = neap_random_next(random);
  while (drawn >= limit);
  return drawn % bound;
}

bool neap_random_chance(struct neap_random *random, double probability)
{
  if (probability <= 0) return false;
  if (probability >= 1) return true;
  return (double)(neap_random_next(random) >> 11) * 0x1p-53 < probability;
}
