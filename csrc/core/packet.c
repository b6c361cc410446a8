/* packet: the JGroups 5 packet, in and out.
 *
 * One message is read in four steps (start, addresses, headers, payload), each of which leaves the
 * reader at the end of the packet when something is wrong, so the steps run on without asking and
 * the fault is looked at once.  Payloads that are more than bytes are walked by core/payload.c. */

#include "core/packet.h"

#include "base/assert.h"
#include "core/headers.h"
#include "core/payload.h"

enum {
  LEAD_DEST = 1,
  LEAD_SRC = 2,
  MESSAGE_MIN = 7, /* type 2, leading 1, flags 2, header count 2 */
  HEADER_MIN = 4,
};

/* ---- in ---- */

bool neap_packet_open(struct neap_packet *p, const struct neap_registry *registry,
  const uint8_t *bytes, size_t len, uint16_t version)
{
  *p = (struct neap_packet){.r = neap_reader_of(bytes, len), .registry = registry};
  p->dest.kind = p->src.kind = NEAP_ADDR_NONE;
  p->version = neap_read_u16(&p->r);
  p->bits = neap_read_u8(&p->r);
  if (p->r.fault) return false;
  if ((p->version ^ version) >> 6) {
    neap_fault(&p->r, NEAP_FAULT_VERSION);
    return false;
  }
  p->left = 1;
  if (!(p->bits & NEAP_PACKET_LIST)) return true;

  neap_read_addr(&p->r, &p->dest);
  neap_read_addr(&p->r, &p->src);
  int16_t cluster_len = (int16_t)neap_read_u16(&p->r);
  if (cluster_len < -1) neap_fault(&p->r, NEAP_FAULT_LENGTH);
  if (cluster_len >= 0) p->cluster = neap_read_slice(&p->r, (size_t)cluster_len);
  p->left = (int32_t)neap_read_u32(&p->r);
  if (p->left < 0 || (uint64_t)p->left > neap_left(&p->r) / MESSAGE_MIN)
    neap_fault(&p->r, NEAP_FAULT_LENGTH);
  return !p->r.fault;
}

void neap_packet_open_bare(struct neap_packet *p, const struct neap_registry *registry,
  const uint8_t *bytes, size_t len, enum neap_msg_type type)
{
  *p = (struct neap_packet){
    .r = neap_reader_of(bytes, len), .registry = registry, .bare = true, .type = type, .left = 1};
  p->dest.kind = p->src.kind = NEAP_ADDR_NONE;
}

/* A header that this stack has no slot for.  Its bytes are passed over; what is known, though its
 * layer is not here, makes the message a stray. */
static void pass_over(struct neap_reader *r, uint16_t protocol, uint16_t class, struct neap_msg *m,
  struct neap_arrival *arrival)
{
  const struct neap_header *known = neap_known_header(protocol, class);
  if (known) {
    m->marks |= NEAP_STRAY;
    m->stray_below = UINT8_MAX;
    arrival->stray_protocol = protocol;
  }
  neap_skip_header(r, protocol, class);
  if (!known) arrival->skipped++;
}

static void read_header(struct neap_reader *r, const struct neap_registry *registry,
  struct neap_msg *m, struct neap_arrival *arrival)
{
  uint16_t protocol = neap_read_u16(r);
  uint16_t class = neap_read_u16(r);
  unsigned number, form;
  if (r->fault) return;
  if (!neap_registry_find(registry, protocol, class, &number, &form)) {
    pass_over(r, protocol, class, m, arrival);
    return;
  }
  const struct neap_slot *slot = &registry->slots[number];
  uint64_t bit = (uint64_t)1 << number;
  if (m->present & bit) { /* at most one per layer */
    neap_fault(r, NEAP_FAULT_VALUE);
    return;
  }
  m->present |= bit;
  *neap_slot_form(slot, m) = (uint8_t)form;
  arrival->order[arrival->order_count++] = (uint8_t)number;
  if ((m->marks & NEAP_STRAY) && m->stray_below == UINT8_MAX) m->stray_below = slot->owner;

  void *head = neap_slot_at(slot, m);
  memset(head, 0, slot->size);
  if (!neap_header_own(protocol, class)) {
    neap_fields_read(r, slot->fields, slot->field_count, head);
    return;
  }
  /* A newer member's body may be longer: what is behind our fields is left alone. */
  struct neap_slice body = neap_read_slice(r, neap_read_u16(r));
  struct neap_reader own = neap_reader_of(body.at, body.len);
  neap_fields_read(&own, slot->fields, slot->field_count, head);
  if (own.fault) neap_fault(r, own.fault);
}

static void read_payload(struct neap_reader *r, struct neap_msg *m)
{
  const uint8_t *start = r->at;
  struct neap_slice body = {0};
  switch ((enum neap_msg_type)m->type) {
  case NEAP_TYPE_NIO: {
    uint8_t direct = neap_read_u8(r);
    if (direct > 1) neap_fault(r, NEAP_FAULT_VALUE);
    if (direct) m->marks |= NEAP_DIRECT_BODY;
  } /* fall through */
  case NEAP_TYPE_BYTES:
  case NEAP_TYPE_FRAGMENT: {
    int32_t len = (int32_t)neap_read_u32(r);
    if (len == -1)
      m->marks |= NEAP_NULL_BODY;
    else if (len < 0 || (size_t)len > neap_left(r))
      neap_fault(r, NEAP_FAULT_LENGTH);
    else
      body = neap_read_slice(r, (size_t)len);
    break;
  }
  case NEAP_TYPE_EMPTY:
    break;
  case NEAP_TYPE_OBJECT:
  case NEAP_TYPE_LONG:
  case NEAP_TYPE_COMPOSITE:
  case NEAP_TYPE_EARLY_BATCH:
    neap_skip_payload(r, m->type, 0);
    body = (struct neap_slice){start, (uint32_t)(r->at - start)};
    break;
  }
  m->body = body.at;
  m->len = body.len;
}

/* True if a pattern did the most of it. */
static bool read_message(struct neap_packet *p, struct neap_msg *m, struct neap_arrival *arrival)
{
  struct neap_reader *r = &p->r;
  uint16_t type = p->bare ? p->type : neap_read_u16(r);
  if (type > NEAP_TYPE_EARLY_BATCH) neap_fault(r, NEAP_FAULT_TYPE);
  m->type = (uint8_t)type;

  uint8_t lead = neap_read_u8(r);
  if (lead & ~(LEAD_DEST | LEAD_SRC)) neap_fault(r, NEAP_FAULT_VALUE);
  m->flags = neap_read_u16(r);
  if (lead & LEAD_DEST) neap_read_addr(r, &arrival->dest);
  if (lead & LEAD_SRC) neap_read_addr(r, &arrival->src);
  p->own_source = (lead & LEAD_SRC) != 0;
  if (p->patterns && type == NEAP_TYPE_BYTES && !r->fault &&
      neap_patterns_read_rest(
        p->patterns, r, m, m->flags, arrival->order, &arrival->order_count))
    return true;

  int16_t headers = (int16_t)neap_read_u16(r);
  if (headers < 0 || (size_t)headers > neap_left(r) / HEADER_MIN) neap_fault(r, NEAP_FAULT_LENGTH);
  for (; headers > 0 && !r->fault; headers--) read_header(r, p->registry, m, arrival);
  read_payload(r, m);
  return false;
}

bool neap_packet_next(struct neap_packet *p, struct neap_msg *m, struct neap_arrival *arrival)
{
  if (p->r.fault) return false;
  if (!p->left) {
    if (neap_left(&p->r)) neap_fault(&p->r, NEAP_FAULT_TRAILING);
    return false;
  }
  p->left--;
  arrival->dest = p->dest;
  arrival->src = p->src;
  arrival->stray_protocol = arrival->skipped = 0;
  if (p->patterns &&
      neap_patterns_read(p->patterns, &p->r, m, arrival->order, &arrival->order_count)) {
    p->own_source = false;
    return true;
  }
  const uint8_t *start = p->r.at;
  m->present = 0;
  m->marks = 0;
  m->stray_below = 0;
  arrival->order_count = 0;
  bool alike = read_message(p, m, arrival);
  if (p->r.fault) return false;
  if (p->patterns && !alike)
    neap_patterns_missed(p->patterns, p->registry, start, (size_t)(p->r.at - start), m, NULL);
  return true;
}

/* ---- out ---- */

static void write_start(struct neap_writer *w, uint16_t version, bool list, bool multicast)
{
  neap_write_u16(w, version);
  neap_write_u8(
    w, (uint8_t)((list ? NEAP_PACKET_LIST : 0) | (multicast ? NEAP_PACKET_MULTICAST : 0)));
}

uint8_t *neap_packet_list(struct neap_writer *w, uint16_t version, const struct neap_addr *dest,
  const struct neap_addr *src, const char *cluster, size_t cluster_len)
{
  static const struct neap_addr none = {.kind = NEAP_ADDR_NONE};
  write_start(w, version, true, !dest);
  neap_write_addr(w, dest ? dest : &none);
  neap_write_addr(w, src ? src : &none);
  NEAP_ASSERT(cluster_len <= INT16_MAX);
  neap_write_u16(w, cluster ? (uint16_t)cluster_len : UINT16_MAX);
  if (cluster) neap_write_bytes(w, cluster, cluster_len);
  return neap_write_room(w, 4);
}

void neap_packet_close(uint8_t *count_at, uint32_t count)
{
  struct neap_writer w = {count_at, count_at + 4, false};
  neap_write_u32(&w, count);
}

static void write_header(
  struct neap_writer *w, const struct neap_slot *slot, const struct neap_msg *m)
{
  const struct neap_header *header = slot->forms[*neap_slot_form(slot, m)];
  const void *head = neap_slot_at(slot, m);
  neap_write_u16(w, header->protocol);
  neap_write_u16(w, header->class);
  if (!neap_header_own(header->protocol, header->class)) {
    neap_fields_write(w, slot->fields, slot->field_count, head);
    return;
  }
  uint8_t *len_at = neap_write_room(w, 2);
  const uint8_t *start = w->at;
  neap_fields_write(w, slot->fields, slot->field_count, head);
  if (w->full) return;
  size_t len = (size_t)(w->at - start);
  NEAP_ASSERT(len <= UINT16_MAX);
  len_at[0] = (uint8_t)(len >> 8);
  len_at[1] = (uint8_t)len;
}

static unsigned bits(uint64_t word)
{
  unsigned count = 0;
  for (; word; word &= word - 1) count++;
  return count;
}

static void write_headers(struct neap_writer *w, const struct neap_registry *registry,
  const struct neap_msg *m, const uint8_t *order, unsigned count)
{
  if (!order) {
    order = registry->order;
    count = registry->count;
  }
  neap_write_u16(w, (uint16_t)bits(m->present));
  for (unsigned i = 0; i < count; i++)
    if (m->present >> order[i] & 1) write_header(w, &registry->slots[order[i]], m);
}

static void write_payload(struct neap_writer *w, const struct neap_msg *m)
{
  switch ((enum neap_msg_type)m->type) {
  case NEAP_TYPE_NIO:
    neap_write_u8(w, (m->marks & NEAP_DIRECT_BODY) != 0); /* fall through */
  case NEAP_TYPE_BYTES:
  case NEAP_TYPE_FRAGMENT:
    neap_write_u32(w, m->marks & NEAP_NULL_BODY ? UINT32_MAX : m->len);
    neap_write_bytes(w, m->body, m->len);
    break;
  case NEAP_TYPE_EMPTY:
    break;
  case NEAP_TYPE_OBJECT:
  case NEAP_TYPE_LONG:
  case NEAP_TYPE_COMPOSITE:
  case NEAP_TYPE_EARLY_BATCH:
    neap_write_bytes(w, m->body, m->len);
    break;
  }
}

/* A message without its type in front. */
static void write_message(struct neap_writer *w, const struct neap_registry *registry,
  const struct neap_msg *m, const struct neap_addr *dest, const struct neap_addr *src,
  const uint8_t *order, unsigned count)
{
  neap_write_u8(w, (uint8_t)((dest ? LEAD_DEST : 0) | (src ? LEAD_SRC : 0)));
  neap_write_u16(w, m->flags);
  if (dest) neap_write_addr(w, dest);
  if (src) neap_write_addr(w, src);
  write_headers(w, registry, m, order, count);
  write_payload(w, m);
}

void neap_packet_message(struct neap_writer *w, const struct neap_registry *registry,
  const struct neap_msg *m, const struct neap_addr *src, const uint8_t *order, unsigned count)
{
  neap_write_u16(w, m->type);
  write_message(w, registry, m, NULL, src, order, count);
}

void neap_packet_single(struct neap_writer *w, uint16_t version,
  const struct neap_registry *registry, const struct neap_msg *m, const struct neap_addr *dest,
  const struct neap_addr *src)
{
  write_start(w, version, false, !dest);
  neap_write_u16(w, m->type);
  write_message(w, registry, m, dest, src, NULL, 0);
}

void neap_packet_bare(struct neap_writer *w, const struct neap_registry *registry,
  const struct neap_msg *m, const struct neap_addr *dest, const struct neap_addr *src)
{
  write_message(w, registry, m, dest, src, NULL, 0);
}

uint32_t neap_packet_size(const struct neap_registry *registry, const struct neap_msg *m)
{
  uint32_t size = MESSAGE_MIN + 5 + m->len; /* 5: a NIO flag and a length */
  for (uint64_t left = m->present; left; left &= left - 1) {
    const struct neap_slot *slot = &registry->slots[__builtin_ctzll(left)];
    size +=
      HEADER_MIN + 2 + neap_fields_size(slot->fields, slot->field_count, neap_slot_at(slot, m));
  }
  return size;
}
