#include "core/seqnos.h"

enum { CLASS = 15, HEAD = 1 + 2 + 4 + 8 };

static bool after(uint64_t a, uint64_t b)
{
  return (int64_t)(a - b) > 0;
}

uint64_t neap_seqnos_ask(
  struct neap_msg *m, const struct neap_window *w, uint64_t from, uint64_t to, uint32_t width)
{
  NEAP_ASSERT(width && width <= NEAP_SEQNOS_MAX);
  uint64_t first = neap_window_missing(w, from, to);
  if (!first) return from - 1;
  if (to - first >= width) to = first + width - 1;

  uint64_t words[NEAP_SEQNOS_MAX / 64] = {0};
  uint32_t bits = 0;
  for (uint64_t s = first; s && !after(s, to); s = neap_window_missing(w, s + 1, to)) {
    bits = (uint32_t)(s - first) + 1;
    words[(bits - 1) / 64] |= (uint64_t)1 << ((bits - 1) % 64);
  }
  uint8_t bytes[HEAD + NEAP_SEQNOS_MAX / 8];
  struct neap_writer out = {bytes, bytes + sizeof bytes, false};
  neap_write_u8(&out, 1);
  neap_write_u16(&out, CLASS);
  neap_write_u32(&out, bits);
  neap_write_u64(&out, first);
  for (uint32_t i = 0; i < (bits + 63) / 64; i++) neap_write_u64(&out, words[i]);
  neap_msg_body(m, bytes, (uint32_t)(out.at - bytes));
  m->type = NEAP_TYPE_OBJECT;
  return to;
}

bool neap_seqnos_of(struct neap_seqnos *it, const struct neap_msg *m)
{
  struct neap_reader r = neap_reader_of(m->body, m->len);
  if (m->type != NEAP_TYPE_OBJECT || neap_read_u8(&r) != 1 || neap_read_u16(&r) != CLASS)
    return false;
  uint32_t bits = neap_read_u32(&r);
  *it = (struct neap_seqnos){.first = neap_read_u64(&r), .bits = bits};
  it->words = r.at;
  return !r.fault && bits <= INT32_MAX && neap_left(&r) >= (uint64_t)(bits + 63) / 64 * 8;
}

bool neap_seqnos_next(struct neap_seqnos *it, uint64_t *seqno)
{
  for (; it->at < it->bits; it->at++) {
    /* Words are big-endian: bit i stands in byte 7 - i / 8. */
    unsigned byte = it->at / 64 * 8 + 7 - it->at % 64 / 8;
    if (!(it->words[byte] >> (it->at % 8) & 1)) continue;
    *seqno = it->first + it->at++;
    return true;
  }
  return false;
}
