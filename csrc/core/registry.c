/* registry: which headers a stack can put on its messages, and where in the head they stand.
 *
 * Ids are found by a small hash with open addressing that is never more than half full; slots are
 * kept in the order of encoding by insertion, as there are few and they come when a stack opens. */

#include "core/registry.h"

#include <stdio.h>

#include "base/assert.h"

enum { INDEX = 256, SLOT_PREFIX = 8 };

_Static_assert(offsetof(struct neap_msg, head) == sizeof(struct neap_msg), "the head ends it");
_Static_assert(NEAP_SLOTS_MAX <= 64, "a bit each in neap_msg.present");
_Static_assert(NEAP_SLOTS_MAX << 8 <= UINT16_MAX, "a slot and its form fit an index entry");

void neap_registry_init(struct neap_registry *registry)
{
  *registry = (struct neap_registry){.size = sizeof(struct neap_msg) + NEAP_HEAD_ROOM};
}

static unsigned hash(uint16_t protocol, uint16_t class)
{
  return (protocol * 37u + class) % INDEX;
}

/* Where the pair is, or the empty place where it belongs. */
static uint16_t *place(const struct neap_registry *registry, uint16_t protocol, uint16_t class)
{
  unsigned at = hash(protocol, class);
  while (registry->index[at]) {
    unsigned entry = registry->index[at] - 1u;
    const struct neap_header *header = registry->slots[entry >> 8].forms[entry & 255];
    if (header->protocol == protocol && header->class == class) break;
    at = (at + 1) % INDEX;
  }
  return (uint16_t *)&registry->index[at];
}

bool neap_registry_find(const struct neap_registry *registry, uint16_t protocol, uint16_t class,
  unsigned *slot, unsigned *form)
{
  uint16_t entry = *place(registry, protocol, class);
  if (!entry) return false;
  *slot = (entry - 1u) >> 8;
  *form = (entry - 1u) & 255;
  return true;
}

static int refuse(char *why, size_t size, const struct neap_header *row, const char *reason)
{
  snprintf(why, size, "header of %s (protocol %u, class %u) %s", row->name, row->protocol,
    row->class, reason);
  return -1;
}

/* All rows can be added, or nothing is. */
static int check(
  const struct neap_registry *registry, const struct neap_header *rows, char *why, size_t size)
{
  uint32_t slots = registry->count, forms = registry->forms, in_slot = 0;
  for (const struct neap_header *row = rows; row->name; row++) {
    unsigned slot, form;
    if (neap_registry_find(registry, row->protocol, row->class, &slot, &form)) {
      char reason[80];
      snprintf(
        reason, sizeof reason, "is taken by %s already", registry->slots[slot].forms[form]->name);
      return refuse(why, size, row, reason);
    }
    for (const struct neap_header *other = rows; other < row; other++)
      if (other->protocol == row->protocol && other->class == row->class)
        return refuse(why, size, row, "is listed twice");
    bool more = row > rows && neap_header_same(row - 1, row);
    in_slot = more ? in_slot + 1 : 1;
    slots += !more;
    if (slots > NEAP_SLOTS_MAX || ++forms > INDEX / 2 || in_slot > NEAP_FORMS_MAX)
      return refuse(why, size, row, "has no room: too many headers in one stack");
    if (row->size > NEAP_HEADER_MAX) return refuse(why, size, row, "is too large");
  }
  return 0;
}

/* Upper layers first; of one layer, its rows in order. */
static bool before(const struct neap_slot *a, const struct neap_slot *b)
{
  return a->owner != b->owner ? a->owner < b->owner : a->row < b->row;
}

static void sort(struct neap_registry *registry)
{
  for (unsigned n = 1; n < registry->count; n++) {
    uint8_t moving = registry->order[n];
    unsigned at = n;
    for (; at && before(&registry->slots[moving], &registry->slots[registry->order[at - 1]]); at--)
      registry->order[at] = registry->order[at - 1];
    registry->order[at] = moving;
  }
}

static struct neap_slot *open_slot(
  struct neap_registry *registry, const struct neap_header *row, unsigned owner, unsigned number)
{
  struct neap_slot *slot = &registry->slots[registry->count];
  unsigned field_count;
  slot->at = registry->size - NEAP_HEAD_ROOM + SLOT_PREFIX;
  slot->owner = (uint8_t)owner;
  slot->row = (uint16_t)number;
  slot->size = row->size;
  slot->fields = neap_header_fields(row, &field_count);
  slot->field_count = (uint16_t)field_count;
  registry->size = slot->at + ((row->size + 7u) & ~7u) + NEAP_HEAD_ROOM;
  registry->order[registry->count] = (uint8_t)registry->count;
  registry->count++;
  return slot;
}

int neap_registry_add(struct neap_registry *registry, const struct neap_header *rows,
  unsigned owner, uint8_t *slots, char *why, size_t why_size)
{
  if (check(registry, rows, why, why_size) < 0) return -1;

  struct neap_slot *slot = NULL;
  unsigned headers = 0;
  for (const struct neap_header *row = rows; row->name; row++) {
    if (!slot || !neap_header_same(row - 1, row)) {
      slot = open_slot(registry, row, owner, headers);
      if (slots) slots[headers] = (uint8_t)(registry->count - 1);
      headers++;
    }
    *place(registry, row->protocol, row->class) =
      (uint16_t)(((registry->count - 1) << 8 | slot->count) + 1);
    slot->forms[slot->count++] = row;
    registry->forms++;
  }
  sort(registry);
  return 0;
}

void neap_registry_move(
  struct neap_registry *registry, const uint8_t *slots, unsigned count, unsigned owner)
{
  for (unsigned s = 0; s < count; s++) registry->slots[slots[s]].owner = (uint8_t)owner;
  sort(registry);
}
