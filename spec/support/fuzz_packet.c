/* fuzz_packet: any bytes through the decoder and the readers of payloads (`make fuzz`).
 *
 * The first byte says what the rest is: a packet for a member that knows every header, or for one
 * that knows four layers; a message alone; one of the payloads.  What was read is written again and
 * read once more: the second writing must be the first, byte for byte, and never longer than
 * neap_packet_size said.  Reading beyond the end is for the sanitizer to see. */

#include "core/headers.h"
#include "core/layer.h"
#include "core/packet.h"
#include "core/payload.h"
#include "core/seqnos.h"

#include <stdlib.h>

enum { OUT = 1 << 21 };

/* The frame wants a table of layers; there are none here. */
extern const struct neap_class *const neap_classes[];
const struct neap_class *const neap_classes[] = {NULL};

static struct neap_registry all, few;
static struct neap_msg *first, *second;
static uint8_t *written, *again;
static const uint8_t *stable = (const uint8_t *)"";

static void rows_of(struct neap_registry *registry, const char *owner, unsigned position)
{
  static struct neap_header rows[4][8];
  char why[128];
  unsigned count = 0;
  for (const struct neap_header *row = neap_known_headers; row->name; row++)
    if (!strcmp(row->name, owner)) rows[position][count++] = *row;
  if (neap_registry_add(registry, rows[position], position, NULL, why, sizeof why)) abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
  char why[128];
  (void)argc;
  (void)argv;
  neap_registry_init(&all);
  neap_registry_init(&few);
  if (neap_registry_add(&all, neap_known_headers, 0, NULL, why, sizeof why)) abort();
  rows_of(&few, "rsvp", 0);
  rows_of(&few, "unicast", 1);
  rows_of(&few, "nakack", 2);
  rows_of(&few, "tp", 3);
  first = calloc(1, all.size);
  second = calloc(1, all.size);
  written = malloc(OUT);
  again = malloc(OUT);
  return !first || !second || !written || !again;
}

/* A message that was read: its writing is a fixed point. */
static void rewrite(const struct neap_registry *registry, const struct neap_arrival *arrival)
{
  uint32_t size = neap_packet_size(registry, first);
  NEAP_ASSERT(size < OUT);
  struct neap_writer w = {written, written + size, false};
  neap_packet_message(&w, registry, first, NULL, arrival->order, arrival->order_count);
  NEAP_ASSERT(!w.full);

  uint32_t type = (uint32_t)(written[0] << 8 | written[1]);
  struct neap_packet p;
  struct neap_arrival more;
  neap_packet_open_bare(&p, registry, written + 2, (size_t)(w.at - written) - 2, type);
  NEAP_ASSERT(neap_packet_next(&p, second, &more));
  NEAP_ASSERT(!neap_left(&p.r) && second->present == first->present);
  struct neap_writer v = {again, again + OUT, false};
  neap_packet_message(&v, registry, second, NULL, more.order, more.order_count);
  NEAP_ASSERT(v.at - again == w.at - written && !memcmp(again, written, (size_t)(v.at - again)));
}

static uint32_t write_first(
  const struct neap_registry *registry, uint8_t *out, const uint8_t *order, unsigned count)
{
  struct neap_writer w = {out, out + OUT, false};
  neap_packet_message(&w, registry, first, NULL, order, count);
  return (uint32_t)(w.at - out);
}

/* Moves the name of the group where a transport has it: in one place for ever.  False for another
 * group's message. */
static bool settle_cluster(const struct neap_registry *registry)
{
  static const uint8_t name[] = "gold";
  unsigned slot, form;
  if (!neap_registry_find(registry, NEAP_P_TP, 60, &slot, &form)) return true;
  struct neap_tp_head *head = neap_slot_at(&registry->slots[slot], first);
  if (!(first->present >> slot & 1) || !head->cluster.at) return true;
  if (head->cluster.len != 4 || memcmp(head->cluster.at, name, 4)) return false;
  stable = head->cluster.at = name;
  return true;
}

/* Writing by patterns, learned as a transport learns them, gives the same bytes. */
static void write_patterned(const struct neap_registry *registry, struct neap_patterns *patterns)
{
  if (!settle_cluster(registry)) return;
  uint32_t size = write_first(registry, written, NULL, 0);
  struct neap_writer w = {again, again + OUT, false};
  if (neap_patterns_write(patterns, &w, first)) {
    NEAP_ASSERT((size_t)(w.at - again) == size && !memcmp(written, again, size));
  } else {
    neap_patterns_missed(patterns, registry, written, size, first, stable);
  }
}

/* The short way by patterns gives what the long way gives, message by message. */
static void compare_ways(const struct neap_registry *registry, const uint8_t *bytes, size_t len)
{
  static struct neap_patterns patterns, writing;
  struct neap_packet slow, fast;
  struct neap_arrival slowly, fastly;
  memset(&patterns, 0, sizeof patterns);
  memset(&writing, 0, sizeof writing);
  if (!neap_packet_open(&slow, registry, bytes, len, NEAP_VERSION)) return;
  NEAP_ASSERT(neap_packet_open(&fast, registry, bytes, len, NEAP_VERSION));
  fast.patterns = &patterns;
  neap_patterns_rebase(&patterns);
  while (neap_packet_next(&slow, first, &slowly)) {
    uint32_t size = write_first(registry, written, slowly.order, slowly.order_count);
    uint8_t marks = first->marks;
    NEAP_ASSERT(neap_packet_next(&fast, first, &fastly) && first->marks == marks);
    NEAP_ASSERT(write_first(registry, again, fastly.order, fastly.order_count) == size);
    NEAP_ASSERT(!memcmp(written, again, size) && slow.own_source == fast.own_source);
    NEAP_ASSERT(neap_addr_equal(&slowly.src, &fastly.src));
    if (!(first->marks & NEAP_STRAY)) write_patterned(registry, &writing);
  }
  NEAP_ASSERT(!neap_packet_next(&fast, first, &fastly) && fast.r.fault == slow.r.fault);
}

static void packet(
  const struct neap_registry *registry, const uint8_t *bytes, size_t len, bool bare)
{
  struct neap_packet p;
  struct neap_arrival arrival;
  if (bare)
    neap_packet_open_bare(&p, registry, bytes, len, NEAP_TYPE_EMPTY);
  else if (!neap_packet_open(&p, registry, bytes, len, NEAP_VERSION))
    return;
  while (neap_packet_next(&p, first, &arrival)) rewrite(registry, &arrival);
  NEAP_ASSERT(!p.left || p.r.fault);
  if (!bare) compare_ways(registry, bytes, len);
}

/* ---- payloads ---- */

static void walk_addrs(struct neap_slice slice)
{
  struct neap_addr addr;
  for (struct neap_addrs it = neap_addrs_of(slice); neap_addrs_next(&it, &addr);) {
  }
}

static void walk_merge(struct neap_slice slice)
{
  struct neap_merge_view_parts parts;
  struct neap_subview part;
  struct neap_addr member;
  if (!slice.at || !neap_merge_view_parts_read(slice, &parts)) return;
  walk_addrs(parts.members);
  unsigned steps = 0; /* places are looked up in the list: quadratic, so not for ever here */
  for (struct neap_subviews it = neap_subviews_of(&parts); neap_subviews_next(&it, &part);)
    while (steps++ < 1000 && neap_subview_member(&part, &member)) {
    }
}

static void walk_view(struct neap_slice slice)
{
  struct neap_view_parts parts;
  if (slice.at && neap_view_parts_read(slice, &parts)) walk_addrs(parts.members);
}

static void walk_delta(struct neap_slice slice)
{
  struct neap_delta_view_parts parts;
  if (!slice.at || !neap_delta_view_parts_read(slice, &parts)) return;
  walk_addrs(parts.left);
  walk_addrs(parts.joined);
}

static void object(const uint8_t *bytes, size_t len, enum neap_dialect dialect)
{
  struct neap_object object, copy;
  struct neap_reader r = neap_reader_of(bytes, len);
  neap_object_read(&r, dialect, &object);
  if (r.fault) return;
  struct neap_writer w = {written, written + OUT, false};
  neap_object_write(&w, dialect, &object);
  r = neap_reader_of(written, (size_t)(w.at - written));
  neap_object_read(&r, dialect, &copy);
  NEAP_ASSERT(!r.fault && !neap_left(&r) && copy.number == object.number);
}

static void payload(const uint8_t *bytes, size_t len)
{
  struct neap_slice body = {bytes, (uint32_t)len};
  struct neap_view_digest both;
  struct neap_join_rsp join;
  struct neap_ping_record record;
  struct neap_seqnos seqnos;
  uint64_t seqno;
  if (neap_view_digest_read(body, &both)) {
    walk_view(both.view);
    walk_merge(both.merge_view);
    walk_delta(both.delta_view);
  }
  if (neap_join_rsp_read(body, &join)) walk_view(join.view);
  for (struct neap_records it = neap_records_of(body); neap_records_next(&it, &record);)
    walk_addrs(record.wanted);
  first->body = bytes;
  first->len = (uint32_t)len;
  first->type = NEAP_TYPE_OBJECT;
  if (neap_seqnos_of(&seqnos, first))
    while (neap_seqnos_next(&seqnos, &seqno)) {
    }
  object(bytes, len, NEAP_BUFFER);
  object(bytes, len, NEAP_STREAM);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
  if (!len) return 0;
  switch (bytes[0] & 3) {
  case 0:
    packet(&all, bytes + 1, len - 1, false);
    break;
  case 1:
    packet(&few, bytes + 1, len - 1, false);
    break;
  case 2:
    packet(&all, bytes + 1, len - 1, true);
    break;
  case 3:
    payload(bytes + 1, len - 1);
  }
  return 0;
}
