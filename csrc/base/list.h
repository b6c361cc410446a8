/* list: an intrusive, circular, doubly linked list.
 *
 * A link lives inside what it links; nothing is allocated.  A head is a link that links to itself
 * when the list is empty, so adding and removing have no special cases.  A link that is in no list
 * links to itself as well: removing twice is harmless. */

#ifndef NEAP_BASE_LIST_H
#define NEAP_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct neap_link {
  struct neap_link *prev, *next;
};

#define NEAP_HOLDER(link, type, member) ((type *)((char *)(link)-offsetof(type, member)))

static inline void neap_link_init(struct neap_link *link)
{
  link->prev = link->next = link;
}

static inline bool neap_link_alone(const struct neap_link *link)
{
  return link->next == link;
}

/* Puts `link` before `at`; with `at` the head of a list, that is its end. */
static inline void neap_link_before(struct neap_link *at, struct neap_link *link)
{
  link->prev = at->prev;
  link->next = at;
  at->prev->next = link;
  at->prev = link;
}

static inline void neap_link_remove(struct neap_link *link)
{
  link->prev->next = link->next;
  link->next->prev = link->prev;
  neap_link_init(link);
}

#endif
