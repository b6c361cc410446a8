/* pattern: the hot form of a message, learned from one that went the long way.
 *
 * In a stream nearly every message is the one before with another seqno and another body.  A
 * pattern keeps what stays the same as words, so that such a message is compared and copied instead
 * of being read or written field by field:
 *
 *     type lead flags count nakack MSG | seqno | tp cluster flag | length  body
 *     \________ front _______________/   number  \____ back ____/
 *
 * Reading: front and back of the packet equal the pattern's; the head is a copy of the pattern's
 * with its own number.  Writing: the head equals the pattern's but for the number; front, number
 * and back are copied out.  Whatever does not match goes the long way, which alone finds faults.
 *
 * A pattern has exactly one compressed number, a body of bytes and no large headers. */

#ifndef NEAP_CORE_PATTERN_H
#define NEAP_CORE_PATTERN_H

#include "core/registry.h"

enum {
  NEAP_PATTERN_WORDS = 16, /* of front or back: 128 bytes each */
  NEAP_PATTERN_SLOTS = 4,  /* headers on a message */
  NEAP_PATTERN_HEAD = 40,  /* words of their structs */
  NEAP_PATTERN_SLICES = 4, /* fields that point into the packet */
  NEAP_PATTERN_BLOCK = 8,  /* words that are copied at once: what is behind a slot is overwritten */
  NEAP_PATTERNS = 2,       /* mostly multicasts and unicasts */
};

/* A header's part of the head, its form byte in front. */
struct neap_pattern_slot {
  uint32_t at;     /* in the message, in bytes; a multiple of 8 */
  uint32_t first;  /* in `head`, in words */
  uint16_t count;  /* words */
  uint16_t number; /* of the slot */
};

/* A word of the head that must be as it was, as far as `mask` goes. */
struct neap_pattern_check {
  uint64_t mask, want;
  uint64_t at; /* in the message, in bytes */
};

/* A slice in the head: where it stands there, and where it points to in the packet. */
struct neap_pattern_slice {
  uint32_t at;   /* in the message */
  uint32_t word; /* in `head` */
  uint32_t to;   /* bytes from the front's begin, or from the back's */
  bool back;
};

struct neap_pattern {
  bool learned, based; /* based: its slices point into the packet that is being read */
  uint8_t slot_count, slice_count, order_count, check_count;
  uint16_t flags;
  uint32_t front_len, back_len;
  uint32_t need;         /* bytes that must be there to look at all of it by words */
  uint32_t number_at;    /* in the message */
  uint64_t present, put; /* headers in the packet; those of them that a message read carries */
  uint64_t front[NEAP_PATTERN_WORDS + 2], back[NEAP_PATTERN_WORDS + 2]; /* as bytes of the wire */
  uint64_t rest[NEAP_PATTERN_WORDS + 2];              /* the front behind type, lead and flags */
  uint64_t front_mask[2], back_mask[2], rest_mask[2]; /* what of their first 16 bytes counts */
  uint64_t head[NEAP_PATTERN_HEAD + NEAP_PATTERN_BLOCK], mask[NEAP_PATTERN_HEAD];
  struct neap_pattern_slot slots[NEAP_PATTERN_SLOTS]; /* by place in the message */
  struct neap_pattern_check checks[NEAP_PATTERN_HEAD];
  struct neap_pattern_slice slices[NEAP_PATTERN_SLICES];
  uint8_t order[NEAP_PATTERN_SLOTS];
};

/* What one side of a transport keeps. */
struct neap_patterns {
  /* Slots that are whoever reads or writes' own and the same each time, a bit each: written whether
   * a message carries them or not, and not put on one that is read. */
  uint64_t given;
  struct neap_pattern pattern[NEAP_PATTERNS];
  uint32_t used;           /* which matched last; the other one is learned anew */
  uint64_t missed_present; /* of the last message that went the long way: two alike are learned */
  uint16_t missed_flags;
};

/* Another packet begins: what slices point to is the old one's. */
static inline void neap_patterns_rebase(struct neap_patterns *patterns)
{
  for (int i = 0; i < NEAP_PATTERNS; i++) patterns->pattern[i].based = false;
}

/* Reads one message of a list if a pattern fits; otherwise nothing is touched.  `order` takes the
 * slots in the order they came, `count` their number. */
bool neap_patterns_read(struct neap_patterns *patterns, struct neap_reader *r, struct neap_msg *m,
  uint8_t *order, uint8_t *count);

/* What messages have in common that came together. */
struct neap_arrivals {
  struct neap_peer *from, *to;
  struct neap_slab *slab;
};

/* Makes messages of a list, as many as fit the pattern that served last, `most` at most, and puts
 * them into the batch.  Returns how many. */
uint32_t neap_patterns_run(struct neap_patterns *patterns, struct neap_reader *r, uint32_t most,
  const struct neap_arrivals *arrivals, struct neap_batch *batch);

/* The same for a message with addresses of its own, which are read already: `r` stands before the
 * number of headers. */
bool neap_patterns_read_rest(struct neap_patterns *patterns, struct neap_reader *r,
  struct neap_msg *m, uint16_t flags, uint8_t *order, uint8_t *count);

/* Writes one message of a list if a pattern fits and there is room; else nothing is touched. */
bool neap_patterns_write(
  struct neap_patterns *patterns, struct neap_writer *w, const struct neap_msg *m);

/* The same for a whole list of messages, as many as fit the pattern that served last and have room.
 * Returns how many; `background` stays true only if all of these are. */
uint32_t neap_patterns_write_run(struct neap_patterns *patterns, struct neap_writer *w,
  const struct neap_msg *first, bool *background);

/* Nothing that was learned holds any more. */
static inline void neap_patterns_forget(struct neap_patterns *patterns)
{
  for (int i = 0; i < NEAP_PATTERNS; i++) patterns->pattern[i].learned = false;
}

/* A message went the long way: from or to these bytes, which begin with its type.  `stable`: bytes
 * outside the packet that a slice of the head may point to because they never change (NULL: none;
 * when reading, slices point into the packet). */
void neap_patterns_missed(struct neap_patterns *patterns, const struct neap_registry *registry,
  const uint8_t *bytes, size_t len, const struct neap_msg *m, const uint8_t *stable);

#endif
