/* digest: per member the highest delivered (applied) and the highest received seqno, and between
 * Neap members the (epoch, mode) of its stream as consumed by the giver.  Counted.
 * "Delivered" is always *applied*, never merely removed or received (protocols 1). */

#ifndef NEAP_CORE_DIGEST_H
#define NEAP_CORE_DIGEST_H

#include "core/view.h"

struct neap_digest_row {
  struct neap_peer *peer; /* counted */
  uint64_t delivered, received;
  uint32_t epoch;
  uint8_t mode; /* as in nakack.retransmission: 0 nak, 1 ack */
};

struct neap_digest {
  uint32_t refs;
  uint32_t count, room;
  struct neap_digest_row rows[];
};

struct neap_digest *neap_digest_new(uint32_t room);
struct neap_digest *neap_digest_ref(struct neap_digest *digest);
void neap_digest_unref(struct neap_digest *digest);

/* Adds a row; asserts that there is room and that delivered <= received. */
void neap_digest_add(struct neap_digest *digest, struct neap_digest_row row);
const struct neap_digest_row *neap_digest_find(
  const struct neap_digest *digest, const struct neap_peer *peer);

/* With members (a digest), or only the pairs, for members of a view written before it. */
void neap_write_digest(struct neap_writer *w, const struct neap_digest *digest);
void neap_write_digest_pairs(struct neap_writer *w, const struct neap_digest *digest);

/* Reads what neap_write_digest wrote; interns the members.  NULL on a fault (in `r`). */
struct neap_digest *neap_read_digest(struct neap_reader *r, struct neap_stack *stack);
/* Reads the pairs, for these members. */
struct neap_digest *neap_read_digest_pairs(
  struct neap_reader *r, struct neap_peer *const *members, uint32_t count);

#endif
