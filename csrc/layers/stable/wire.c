/* stable's messages: a vote and STABILITY carry a digest with the members of the view, in order;
 * WANTED and COLLECT only say for which view they are. */

#include "layers/stable/stable.h"

#include "core/payload.h"

#include <stdlib.h>

enum { VOTE_FLAGS = NEAP_OOB | NEAP_NO_FC | NEAP_NO_RELIABILITY };
enum { CLASS_DIGEST = 9, CLASS_DIGEST_MUTABLE = 10 };
/* Bytes that a view id, and a member with its two seqnos, take at most. */
enum { VIEW_ID_MAX = 48, ROW_MAX = 40 };

void neap_stable_arrays(struct stable *s, struct neap_view *view)
{
  free(s->sums);
  free(s->voted);
  free(s->scratch);
  neap_view_unref(s->view);
  s->view = neap_view_ref(view);
  s->sums = NULL;
  s->voted = NULL;
  s->scratch = NULL;
  if (!view) return;
  s->sums = calloc(3 * (size_t)view->count, sizeof *s->sums);
  s->voted = calloc(5 * (size_t)view->count, sizeof *s->voted);
  s->scratch = malloc(VIEW_ID_MAX + (size_t)view->count * ROW_MAX);
  NEAP_ASSERT(s->sums && s->voted && s->scratch);
  s->read = s->sums + view->count;
  s->last = s->read + view->count;
  s->seen = s->voted + view->count;
  s->least = s->seen + view->count;
  s->holder = s->least + view->count;
  s->stuck = s->holder + view->count;
}

/* A message of this layer; the view's id stands in the body's slab, before the body, so that the
 * header's slice lives as long as the message.  Rows NULL: no digest. */
static struct neap_msg *write_msg(struct stable *s, struct neap_peer *to, unsigned flags,
  const struct row *rows, struct neap_slice *view)
{
  struct neap_msg *m = neap_msg_own(&s->layer, to, flags);
  struct neap_writer w = {
    s->scratch, s->scratch + VIEW_ID_MAX + neap_stable_members(s) * ROW_MAX, false};
  neap_write_view_id(&w, &s->view->creator, s->view->number);
  uint32_t id = (uint32_t)(w.at - s->scratch);
  if (rows) {
    neap_write_u8(&w, 1);
    neap_write_u16(&w, CLASS_DIGEST_MUTABLE);
    neap_write_peers(&w, s->view->members, neap_stable_members(s));
    for (uint32_t i = 0; i < neap_stable_members(s); i++)
      neap_write_seq2(&w, rows[i].low, rows[i].high);
  }
  NEAP_ASSERT(!w.full);
  neap_msg_body(m, s->scratch, (uint32_t)(w.at - s->scratch));
  *view = (struct neap_slice){m->body, id};
  m->body += id;
  m->len -= id;
  m->type = rows ? NEAP_TYPE_OBJECT : NEAP_TYPE_EMPTY;
  m->marks |= rows ? 0 : NEAP_NULL_BODY;
  return m;
}

void neap_stable_send(struct stable *s, struct neap_peer *to, unsigned type, const struct row *rows)
{
  struct neap_slice view;
  unsigned flags = type == NEAP_STABLE_STABILITY ? VOTE_FLAGS | NEAP_NO_RELAY : VOTE_FLAGS;
  struct neap_msg *m = write_msg(s, to, flags, rows, &view);
  if (!to) m->marks |= NEAP_NO_LOOPBACK;
  *neap_stable_head_put(m, &s->layer) =
    (struct neap_stable_head){.type = (int8_t)type, .view = view};
  neap_pass_down_msg(&s->layer, m);
}

void neap_stable_send_own(struct stable *s, struct neap_peer *to, unsigned type)
{
  struct neap_slice view;
  struct neap_msg *m = write_msg(s, to, VOTE_FLAGS, NULL, &view);
  if (!to) m->marks |= NEAP_NO_LOOPBACK;
  *neap_stable_own_head_put(m, &s->layer) =
    (struct neap_stable_own_head){.type = (uint8_t)type, .view = view};
  neap_pass_down_msg(&s->layer, m);
}

bool neap_stable_my_view(const struct stable *s, struct neap_slice id)
{
  if (!s->view || !id.at) return false;
  struct neap_addr creator;
  uint64_t number;
  neap_view_id_of(id, &creator, &number);
  return !neap_view_compare(s->view, number, &creator);
}

bool neap_stable_read(struct stable *s, const struct neap_msg *m)
{
  uint16_t class;
  struct neap_slice content;
  if (!neap_object_of(m, &class, &content)) return false;
  if (class != CLASS_DIGEST && class != CLASS_DIGEST_MUTABLE) return false;

  struct neap_reader addrs = neap_reader_of(content.at, content.len), pairs;
  struct neap_addr addr;
  int16_t count = (int16_t)neap_read_u16(&addrs);
  pairs = addrs;
  for (int i = 0; i < count && !pairs.fault; i++) neap_read_addr(&pairs, &addr);

  uint32_t found = 0;
  for (uint32_t i = 0; i < neap_stable_members(s); i++)
    s->read[i] = (struct row){1, 0}; /* not there yet */
  for (int i = 0; i < count && !pairs.fault && !addrs.fault; i++) {
    uint64_t low, high;
    neap_read_addr(&addrs, &addr);
    neap_read_seq2(&pairs, &low, &high);
    const struct neap_peer *peer = neap_peer_find(s->layer.stack, &addr);
    int rank = peer ? neap_rank(s->view, peer) : NEAP_STRANGER;
    if (rank < 0) continue;
    found += s->read[rank].low > s->read[rank].high;
    s->read[rank] = (struct row){low, high};
  }
  return !pairs.fault && !addrs.fault && !neap_left(&pairs) && found == neap_stable_members(s);
}
