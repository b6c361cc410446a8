/* Views and digests: who joined and left, ranks, and back from the wire. */

#include "proof.h"

enum { MEMBERS = 40 };

/* Some of the peers, each once, in any order. */
static uint32_t draw(struct proof *p, struct neap_peer **members)
{
  struct neap_random *r = &p->world.random;
  uint32_t count = 0;
  for (unsigned i = 0; i < MEMBERS; i++) {
    if (!neap_random_chance(r, 0.5)) continue;
    uint32_t at = (uint32_t)neap_random_below(r, count + 1);
    members[count++] = members[at];
    members[at] = proof_peer(p, i);
  }
  return count;
}

static bool listed(struct neap_peer *const *list, uint32_t count, const struct neap_peer *peer)
{
  for (uint32_t i = 0; i < count; i++)
    if (list[i] == peer) return true;
  return false;
}

static struct neap_view *next_view(struct proof *p, struct neap_view *before, uint64_t number)
{
  struct neap_peer *members[MEMBERS];
  uint32_t count = draw(p, members);
  struct neap_view *view =
    neap_view_new(p->stack, &p->stack->self->addr, number, members, count, before);
  NEAP_ASSERT(view->count == count);
  for (unsigned i = 0; i < MEMBERS; i++) {
    struct neap_peer *peer = proof_peer(p, i);
    bool is = listed(members, count, peer), was = neap_in_view(before, peer);
    NEAP_ASSERT(neap_in_view(view, peer) == is);
    if (is) NEAP_ASSERT(view->members[neap_rank(view, peer)] == peer);
    NEAP_ASSERT(listed(view->joined, view->joined_count, peer) == (is && !was));
    NEAP_ASSERT(listed(view->left, view->left_count, peer) == (!is && was));
  }
  if (before) NEAP_ASSERT(neap_view_compare(before, number, &view->creator) < 0);
  neap_view_unref(before);
  return view;
}

void proof_view(void)
{
  struct proof p;
  struct neap_view *view = NULL;
  proof_open(&p, 1);
  for (uint64_t number = 1; number <= 300; number++) view = next_view(&p, view, number);
  NEAP_ASSERT(neap_view_all_neap(view));
  neap_view_unref(view);
  NEAP_ASSERT(neap_rank(NULL, p.stack->self) == NEAP_STRANGER);
  proof_close(&p);
}

static void compare(const struct neap_digest *a, const struct neap_digest *b)
{
  NEAP_ASSERT(b && a->count == b->count);
  for (uint32_t i = 0; i < a->count; i++) {
    const struct neap_digest_row *row = neap_digest_find(b, a->rows[i].peer);
    NEAP_ASSERT(row && row->delivered == a->rows[i].delivered);
    NEAP_ASSERT(row->received == a->rows[i].received);
  }
}

void proof_digest(void)
{
  struct proof p;
  proof_open(&p, 1);
  for (int i = 0; i < 100; i++) {
    struct neap_peer *members[MEMBERS];
    struct neap_random *r = &p.world.random;
    uint32_t count = draw(&p, members);
    struct neap_digest *digest = neap_digest_new(count), *back;
    for (uint32_t m = 0; m < count; m++) {
      uint64_t delivered = neap_random_next(r) >> (1 + neap_random_below(r, 63));
      neap_digest_add(digest, (struct neap_digest_row){.peer = members[m],
                                .delivered = delivered,
                                .received = delivered + neap_random_below(r, 1000)});
    }
    uint8_t bytes[2 + MEMBERS * 40];
    struct neap_writer w = {bytes, bytes + sizeof bytes, false};
    neap_write_digest(&w, digest);
    size_t len = (size_t)(w.at - bytes);
    struct neap_reader read = neap_reader_of(bytes, len);
    back = neap_read_digest(&read, p.stack);
    compare(digest, back);
    neap_digest_unref(back);
    for (size_t cut = 0; count && cut < len; cut++) {
      read = neap_reader_of(bytes, cut);
      NEAP_ASSERT(!neap_read_digest(&read, p.stack) && read.fault);
    }

    w = (struct neap_writer){bytes, bytes + sizeof bytes, false};
    neap_write_digest_pairs(&w, digest);
    read = neap_reader_of(bytes, (size_t)(w.at - bytes));
    back = neap_read_digest_pairs(&read, members, count);
    compare(digest, back);
    neap_digest_unref(back);
    read = neap_reader_of(bytes, (size_t)(w.at - bytes));
    NEAP_ASSERT(!neap_read_digest_pairs(&read, members, count + 1) && read.fault);
    neap_digest_unref(digest);
  }
  proof_close(&p);
}
