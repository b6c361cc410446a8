/* seqnos: which numbers of a stream are missing, as requests for retransmission carry them.
 *
 * The payload is an object message of class 15:
 *
 *     u8 1, i16 15, i32 bits, i64 first, ceil(bits / 64) words
 *
 * Bit i of word w says that first + 64 w + i is missing.  The list is as wide as the range it
 * covers, so a request is bounded by its width, not by the number of holes. */

#ifndef NEAP_CORE_SEQNOS_H
#define NEAP_CORE_SEQNOS_H

#include "core/window.h"

/* 2048 numbers are a payload of 271 bytes: it fits the smallest packet, of 512 bytes. */
enum { NEAP_SEQNOS_MAX = 2048 };

/* Makes what is missing in `from` .. `to` the body of `m`, at most `width` numbers from the first
 * one on.  Returns the last number that was looked at, or `from - 1` when nothing is missing. */
uint64_t neap_seqnos_ask(
  struct neap_msg *m, const struct neap_window *w, uint64_t from, uint64_t to, uint32_t width);

/* Walks a request:  struct neap_seqnos it;
 *                   if (neap_seqnos_of(&it, m)) while (neap_seqnos_next(&it, &seqno)) ... */
struct neap_seqnos {
  const uint8_t *words;
  uint64_t first;
  uint32_t bits, at;
};

/* False when the payload is something else. */
bool neap_seqnos_of(struct neap_seqnos *it, const struct neap_msg *m);
bool neap_seqnos_next(struct neap_seqnos *it, uint64_t *seqno);

#endif
