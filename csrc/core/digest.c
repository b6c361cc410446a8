#include "core/digest.h"

#include "base/assert.h"

#include <stdlib.h>

struct neap_digest *neap_digest_new(uint32_t room)
{
  struct neap_digest *digest = calloc(1, sizeof *digest + room * sizeof digest->rows[0]);
  NEAP_ASSERT(digest);
  digest->refs = 1;
  digest->room = room;
  return digest;
}

struct neap_digest *neap_digest_ref(struct neap_digest *digest)
{
  if (digest) digest->refs++;
  return digest;
}

void neap_digest_unref(struct neap_digest *digest)
{
  if (!digest) return;
  NEAP_ASSERT(digest->refs);
  if (--digest->refs) return;
  for (uint32_t i = 0; i < digest->count; i++) neap_peer_unref(digest->rows[i].peer);
  free(digest);
}

void neap_digest_add(struct neap_digest *digest, struct neap_digest_row row)
{
  NEAP_ASSERT(digest->count < digest->room);
  NEAP_ASSERT((int64_t)(row.received - row.delivered) >= 0);
  neap_peer_ref(row.peer);
  digest->rows[digest->count++] = row;
}

const struct neap_digest_row *neap_digest_find(
  const struct neap_digest *digest, const struct neap_peer *peer)
{
  for (uint32_t i = 0; digest && i < digest->count; i++)
    if (digest->rows[i].peer == peer) return &digest->rows[i];
  return NULL;
}

/* ---- on the wire ---- */

static void write_pairs(struct neap_writer *w, const struct neap_digest *digest)
{
  for (uint32_t i = 0; i < digest->count; i++)
    neap_write_seq2(w, digest->rows[i].delivered, digest->rows[i].received);
}

void neap_write_digest(struct neap_writer *w, const struct neap_digest *digest)
{
  neap_write_u16(w, (uint16_t)digest->count);
  for (uint32_t i = 0; i < digest->count; i++) neap_write_addr(w, &digest->rows[i].peer->addr);
  write_pairs(w, digest);
}

void neap_write_digest_pairs(struct neap_writer *w, const struct neap_digest *digest)
{
  neap_write_u16(w, (uint16_t)digest->count);
  write_pairs(w, digest);
}

/* The count of a list of which each element takes `least` bytes or more; a fault when the rest
 * cannot hold so many, so that no allocation is sized by a number alone. */
static uint32_t read_count(struct neap_reader *r, size_t least)
{
  int16_t count = (int16_t)neap_read_u16(r);
  if (count <= 0) return 0; /* -1: no list */
  if ((size_t)count * least > neap_left(r)) {
    neap_fault(r, NEAP_FAULT_LENGTH);
    return 0;
  }
  return (uint32_t)count;
}

static struct neap_digest *read_pairs(struct neap_reader *r, struct neap_digest *digest)
{
  for (uint32_t i = 0; i < digest->count; i++)
    neap_read_seq2(r, &digest->rows[i].delivered, &digest->rows[i].received);
  if (!r->fault) return digest;
  neap_digest_unref(digest);
  return NULL;
}

struct neap_digest *neap_read_digest(struct neap_reader *r, struct neap_stack *stack)
{
  uint32_t count = read_count(r, 2); /* a kind byte and a pair of zeros */
  if (r->fault) return NULL;
  struct neap_digest *digest = neap_digest_new(count);
  for (uint32_t i = 0; i < count; i++) {
    struct neap_addr addr;
    neap_read_addr(r, &addr);
    struct neap_peer *peer = r->fault ? NULL : neap_peer_intern(stack, &addr);
    if (!peer) {
      neap_fault(r, NEAP_FAULT_ADDRESS);
      break;
    }
    neap_digest_add(digest, (struct neap_digest_row){.peer = peer});
  }
  return read_pairs(r, digest);
}

struct neap_digest *neap_read_digest_pairs(
  struct neap_reader *r, struct neap_peer *const *members, uint32_t count)
{
  uint32_t listed = read_count(r, 1);
  if (!r->fault && listed != count) neap_fault(r, NEAP_FAULT_LENGTH);
  if (r->fault) return NULL;
  struct neap_digest *digest = neap_digest_new(count);
  for (uint32_t i = 0; i < count; i++)
    neap_digest_add(digest, (struct neap_digest_row){.peer = members[i]});
  return read_pairs(r, digest);
}
