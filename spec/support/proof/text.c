/* Bounded text never leaves its room; the nearest word is near. */

#include "proof.h"

#include "base/text.h"

static void random_word(struct neap_random *r, char *word)
{
  unsigned len = (unsigned)neap_random_below(r, 8);
  for (unsigned i = 0; i < len; i++) word[i] = (char)('a' + neap_random_below(r, 3));
  word[len] = 0;
}

void proof_text(void)
{
  struct neap_random r;
  neap_random_seed(&r, 1);
  for (int i = 0; i < 20000; i++) {
    char room[40], a[9], b[9], c[9];
    size_t size = 1 + neap_random_below(&r, 32);
    memset(room, '#', sizeof room);
    struct neap_text text = neap_text_of(room, size);
    for (int n = 0; n < 5; n++) {
      random_word(&r, a);
      neap_text_add(&text, "%s,", a);
      NEAP_ASSERT(text.len < size && !room[text.len] && room[size] == '#');
      NEAP_ASSERT(strlen(room) == text.len);
    }

    random_word(&r, a);
    random_word(&r, b);
    random_word(&r, c);
    unsigned ab = neap_text_distance(a, b);
    NEAP_ASSERT(ab == neap_text_distance(b, a));
    NEAP_ASSERT(!ab == !strcmp(a, b));
    size_t la = strlen(a), lb = strlen(b);
    NEAP_ASSERT(ab >= (la > lb ? la - lb : lb - la) && ab <= (la > lb ? la : lb));
    struct neap_nearest near = neap_nearest_to(a);
    neap_nearest_offer(&near, b);
    neap_nearest_offer(&near, c);
    unsigned ac = neap_text_distance(a, c), tolerance = la >= 3 ? (unsigned)la / 3 : 1;
    NEAP_ASSERT(near.word == (ab <= ac && ab <= tolerance ? b : ac <= tolerance ? c : NULL));
  }
  NEAP_ASSERT(neap_text_distance("windw", "window") == 1);
  NEAP_ASSERT(neap_text_distance("Fifo", "fiof") == 1);
}
