/* view: who is in the group, in order, the coordinator first.  Counted, never changed once made.
 * Also the iterators over address lists and views as they stand on the wire. */

#ifndef NEAP_CORE_VIEW_H
#define NEAP_CORE_VIEW_H

#include "core/header.h"
#include "core/peer.h"

struct neap_view {
  uint32_t refs;
  uint32_t count;
  uint64_t number;
  struct neap_addr creator; /* always a member address */
  struct neap_stack *stack;
  struct neap_peer **members;            /* in order, each counted; [0] is the coordinator */
  struct neap_peer **joined, **left;     /* against the view before it */
  uint32_t joined_count, left_count;
  uint32_t slots;    /* size of `ranks` */
  int32_t *ranks;    /* by slot; NEAP_STRANGER outside */
  bool merged;
};

/* A view of these peers; `before` (may be NULL) gives joined and left.  refs 1. */
struct neap_view *neap_view_new(struct neap_stack *stack, const struct neap_addr *creator,
  uint64_t number, struct neap_peer *const *members, uint32_t count,
  const struct neap_view *before);
struct neap_view *neap_view_ref(struct neap_view *view);
void neap_view_unref(struct neap_view *view);

/* Place in the view, from 0; NEAP_STRANGER outside it or when there is no view. */
static inline int neap_rank(const struct neap_view *view, const struct neap_peer *peer)
{
  return view && peer->slot < view->slots ? view->ranks[peer->slot] : NEAP_STRANGER;
}

static inline bool neap_in_view(const struct neap_view *view, const struct neap_peer *peer)
{
  return neap_rank(view, peer) >= 0;
}

/* By number, then by creator. */
int neap_view_compare(const struct neap_view *a, uint64_t number, const struct neap_addr *creator);

/* All members are Neap's, so own headers may be multicast. */
bool neap_view_all_neap(const struct neap_view *view);

/* "ann|3": the coordinator's name, or its address, and the number. */
const char *neap_view_text(const struct neap_view *view, char *text, size_t size);

/* ---- on the wire ---- */

/* An address list: for (it = neap_addrs(slice); neap_addrs_next(&it, &addr);) */
struct neap_addrs {
  struct neap_reader r;
  uint32_t left;
};

struct neap_addrs neap_addrs_of(struct neap_slice slice); /* i16 count; none counts as empty */
bool neap_addrs_next(struct neap_addrs *it, struct neap_addr *addr);

/* The parts of a view id and a view slice (already checked by the decoder). */
void neap_view_id_of(struct neap_slice slice, struct neap_addr *creator, uint64_t *number);

void neap_write_view_id(struct neap_writer *w, const struct neap_addr *creator, uint64_t number);
void neap_write_peers(struct neap_writer *w, struct neap_peer *const *peers, uint32_t count);
void neap_write_view(struct neap_writer *w, const struct neap_view *view);

#endif
