/* registry: which headers a stack can put on its messages, and where in the head they stand.
 *
 * A registry only grows, so layers can come and go while messages wait in windows.  Each slot is a
 * struct in the head of every message of this stack, behind one byte that remembers the form it
 * came in:
 *
 *      head   [form|.......|struct nak_head][form|.......|struct rsvp_head] ...
 *             8 bytes       ^ at            8 bytes       ^ at
 *
 * The inspector (decode, simulator rules, ladder) has a registry with every known header. */

#ifndef NEAP_CORE_REGISTRY_H
#define NEAP_CORE_REGISTRY_H

#include "core/header.h"
#include "core/msg.h"

enum { NEAP_SLOTS_MAX = 64, NEAP_FORMS_MAX = 8, NEAP_HEAD_ROOM = 128 };

struct neap_slot {
  uint32_t at;       /* bytes from the start of struct neap_msg to the header's struct */
  uint8_t count;     /* forms */
  uint8_t owner;     /* position of the owning layer, 0 the top; orders the encoding */
  uint16_t row;      /* which of the owner's headers: those of one layer keep their order */
  uint16_t field_count, size; /* the same for all forms */
  const struct neap_field *fields;
  const struct neap_header *forms[NEAP_FORMS_MAX];
};

struct neap_registry {
  uint32_t count;
  uint32_t size; /* bytes of a whole message: the head and NEAP_HEAD_ROOM for layers to come */
  struct neap_slot slots[NEAP_SLOTS_MAX];
  uint8_t order[NEAP_SLOTS_MAX]; /* slots as they are encoded: upper layers first */
  uint32_t forms;                /* in the index, at most half of it */
  uint16_t index[256];           /* hash of (protocol, class): (slot << 8 | form) + 1; 0 empty */
};

void neap_registry_init(struct neap_registry *registry);

/* Adds the header rows of the layer at `owner` (ended by a row without a name) and writes each
 * header's slot number to `slots`, which may be NULL (rows with the same fields share one).
 * Negative, and `why` says what, when ids clash with another layer's or there is no room. */
int neap_registry_add(struct neap_registry *registry, const struct neap_header *rows,
  unsigned owner, uint8_t *slots, char *why, size_t why_size);

/* A layer moved: its slots are encoded at the place of `owner` from now on. */
void neap_registry_move(
  struct neap_registry *registry, const uint8_t *slots, unsigned count, unsigned owner);

/* Slot and form of an id pair, or false. */
bool neap_registry_find(const struct neap_registry *registry, uint16_t protocol, uint16_t class,
  unsigned *slot, unsigned *form);

static inline void *neap_slot_at(const struct neap_slot *slot, const struct neap_msg *m)
{
  return (char *)m + slot->at;
}

static inline uint8_t *neap_slot_form(const struct neap_slot *slot, const struct neap_msg *m)
{
  return (uint8_t *)m + slot->at - 8;
}

#endif
