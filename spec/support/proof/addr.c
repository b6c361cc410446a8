/* Addresses: what is printed parses, what is written reads, and the order is one. */

#include "proof.h"

static struct neap_addr random_addr(struct neap_random *r)
{
  struct neap_addr a = neap_addr_new(r);
  if (neap_random_chance(r, 0.5)) return a;
  a.kind = NEAP_ADDR_IP;
  a.size = neap_random_chance(r, 0.5) ? 4 : 16;
  for (unsigned i = 0; i < 16; i++) {
    bool zero = i >= a.size || neap_random_chance(r, 0.5);
    a.bytes[i] = zero ? 0 : (uint8_t)neap_random_next(r);
  }
  a.port = (uint16_t)neap_random_next(r);
  a.scope = a.size == 16 && neap_random_chance(r, 0.2) ? (uint32_t)neap_random_next(r) : 0;
  return a;
}

static int sign(int x)
{
  return x < 0 ? -1 : x > 0;
}

void proof_addr(void)
{
  struct neap_random r;
  neap_random_seed(&r, 1);
  for (int i = 0; i < 50000; i++) {
    struct neap_addr a = random_addr(&r), b = random_addr(&r), c = random_addr(&r), back;
    char text[NEAP_ADDR_TEXT];
    NEAP_ASSERT(neap_addr_parse(neap_addr_text(&a, text), &back) && neap_addr_equal(&a, &back));
    NEAP_ASSERT(back.scope == a.scope);

    uint8_t bytes[32];
    struct neap_writer w = {bytes, bytes + sizeof bytes, false};
    neap_write_addr(&w, &a);
    size_t len = (size_t)(w.at - bytes);
    struct neap_reader read = neap_reader_of(bytes, len);
    neap_read_addr(&read, &back);
    NEAP_ASSERT(!read.fault && !neap_left(&read) && neap_addr_equal(&a, &back));
    for (size_t cut = 0; cut < len; cut++) { /* Cut short it is a fault, and none. */
      read = neap_reader_of(bytes, cut);
      neap_read_addr(&read, &back);
      NEAP_ASSERT(read.fault && neap_addr_none(&back));
    }

    int ab = sign(neap_addr_compare(&a, &b)), bc = sign(neap_addr_compare(&b, &c));
    NEAP_ASSERT(ab == -sign(neap_addr_compare(&b, &a)) && !neap_addr_compare(&a, &a));
    if (ab == bc) NEAP_ASSERT(sign(neap_addr_compare(&a, &c)) == ab);
    NEAP_ASSERT(neap_addr_generation(&a) == (a.kind == NEAP_ADDR_UUID ? NEAP_GENERATION : 0));
  }
  static const char *const wrong[] = {"1.2.3:4", "1.2.3.4", "1.2.3.256:1", "[::1]:70000",
    "[1::2::3]:1", "[:1]:2", "[::1:]:2", "", "neap", "01020304-0506-0708-1112-1311516171"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct neap_addr a;
    NEAP_ASSERT(!neap_addr_parse(wrong[i], &a));
  }
}
