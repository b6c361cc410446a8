#include "core/view.h"

#include "base/assert.h"
#include "base/text.h"

#include <stdlib.h>

/* Slots that the peers' ranks need. */
static uint32_t slots_for(struct neap_peer *const *members, uint32_t count)
{
  uint32_t slots = 0;
  for (uint32_t i = 0; i < count; i++)
    if (members[i]->slot >= slots) slots = members[i]->slot + 1;
  return slots;
}

struct neap_view *neap_view_new(struct neap_stack *stack, const struct neap_addr *creator,
  uint64_t number, struct neap_peer *const *members, uint32_t count, const struct neap_view *before)
{
  NEAP_ASSERT(count <= NEAP_MEMBERS_MAX);
  uint32_t slots = slots_for(members, count), gone = before ? before->count : 0;
  /* One piece: the view, three lists of peers, ranks. */
  struct neap_view *view =
    calloc(1, sizeof *view + (2 * (size_t)count + gone) * sizeof view->members[0] +
                slots * sizeof view->ranks[0]);
  NEAP_ASSERT(view);
  view->refs = 1;
  view->stack = stack;
  view->creator = *creator;
  view->number = number;
  view->count = count;
  view->slots = slots;
  view->members = (struct neap_peer **)(void *)(view + 1);
  view->joined = view->members + count;
  view->left = view->joined + count;
  view->ranks = (int32_t *)(void *)(view->left + gone);

  for (uint32_t i = 0; i < slots; i++) view->ranks[i] = NEAP_STRANGER;
  for (uint32_t i = 0; i < count; i++) {
    NEAP_ASSERT(view->ranks[members[i]->slot] == NEAP_STRANGER); /* nobody twice */
    view->members[i] = neap_peer_ref(members[i]);
    view->ranks[members[i]->slot] = (int32_t)i;
    if (!neap_in_view(before, members[i])) view->joined[view->joined_count++] = members[i];
  }
  for (uint32_t i = 0; i < gone; i++)
    if (!neap_in_view(view, before->members[i]))
      view->left[view->left_count++] = neap_peer_ref(before->members[i]);
  return view;
}

struct neap_view *neap_view_ref(struct neap_view *view)
{
  if (view) view->refs++;
  return view;
}

void neap_view_unref(struct neap_view *view)
{
  if (!view) return;
  NEAP_ASSERT(view->refs);
  if (--view->refs) return;
  for (uint32_t i = 0; i < view->count; i++) neap_peer_unref(view->members[i]);
  for (uint32_t i = 0; i < view->left_count; i++) neap_peer_unref(view->left[i]);
  free(view);
}

int neap_view_compare(const struct neap_view *a, uint64_t number, const struct neap_addr *creator)
{
  if (a->number != number) return a->number < number ? -1 : 1;
  return neap_addr_compare(&a->creator, creator);
}

bool neap_view_all_neap(const struct neap_view *view)
{
  for (uint32_t i = 0; i < view->count; i++)
    if (!view->members[i]->generation) return false;
  return true;
}

const char *neap_view_text(const struct neap_view *view, char *text, size_t size)
{
  char name[NEAP_ADDR_TEXT];
  struct neap_text t = neap_text_of(text, size);
  neap_text_add(&t, "%s|%llu",
    view->count ? neap_peer_text(view->members[0], name) : neap_addr_text(&view->creator, name),
    (unsigned long long)view->number);
  return text;
}

/* ---- on the wire ---- */

struct neap_addrs neap_addrs_of(struct neap_slice slice)
{
  struct neap_addrs it = {.r = neap_reader_of(slice.at, slice.len)};
  if (!slice.at) return it;
  int16_t count = (int16_t)neap_read_u16(&it.r);
  if (count > 0) it.left = (uint32_t)count;
  return it;
}

bool neap_addrs_next(struct neap_addrs *it, struct neap_addr *addr)
{
  if (!it->left) return false;
  it->left--;
  neap_read_addr(&it->r, addr);
  return !it->r.fault;
}

void neap_view_id_of(struct neap_slice slice, struct neap_addr *creator, uint64_t *number)
{
  struct neap_reader r = neap_reader_of(slice.at, slice.len);
  neap_read_addr(&r, creator);
  *number = neap_read_clong(&r);
}

void neap_write_view_id(struct neap_writer *w, const struct neap_addr *creator, uint64_t number)
{
  neap_write_addr(w, creator);
  neap_write_clong(w, number);
}

void neap_write_peers(struct neap_writer *w, struct neap_peer *const *peers, uint32_t count)
{
  neap_write_u16(w, (uint16_t)count);
  for (uint32_t i = 0; i < count; i++) neap_write_addr(w, &peers[i]->addr);
}

void neap_write_view(struct neap_writer *w, const struct neap_view *view)
{
  neap_write_view_id(w, &view->creator, view->number);
  neap_write_peers(w, view->members, view->count);
}
