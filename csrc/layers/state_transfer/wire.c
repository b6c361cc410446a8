/* wire: a digest as the messages of a transfer carry it.
 *
 *     digest     as everywhere: members, then a pair for each
 *     epochs     u32 epoch and u8 mode for each row, in the same order */

#include "layers/state_transfer/state_transfer.h"

/* NEAP_MEMBERS_MAX rows of a digest take less. */
enum { SCRATCH = NEAP_SLAB_BYTES };

void state_write_digest(struct neap_msg *m, const struct neap_digest *digest)
{
  uint8_t bytes[SCRATCH];
  struct neap_writer w = {bytes, bytes + sizeof bytes, false};
  neap_write_digest(&w, digest);
  for (uint32_t i = 0; i < digest->count; i++) {
    neap_write_u32(&w, digest->rows[i].epoch);
    neap_write_u8(&w, digest->rows[i].mode);
  }
  NEAP_ASSERT(!w.full);
  neap_msg_body(m, bytes, (uint32_t)(w.at - bytes));
}

/* NULL: it made no sense. */
struct neap_digest *state_read_digest(struct state_transfer *s, const struct neap_msg *m)
{
  struct neap_reader r = neap_reader_of(m->body, m->len);
  struct neap_digest *digest = neap_read_digest(&r, s->layer.stack);
  for (uint32_t i = 0; digest && i < digest->count; i++) {
    digest->rows[i].epoch = neap_read_u32(&r);
    digest->rows[i].mode = neap_read_u8(&r) & 1;
  }
  if (digest && !r.fault && !neap_left(&r)) return digest;
  neap_digest_unref(digest);
  s->malformed++;
  return NULL;
}
