#include "bind/bind_wire.h"

#include <stdlib.h>

#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(...) TEXT_OF(__VA_ARGS__)
const char neap_wire_declarations[] = TEXT(NEAP_WIRE);

static struct neap_wire *ready(struct neap_wire *wire)
{
  wire->ordered = wire->registry;
  wire->msg = calloc(1, wire->registry.size);
  wire->out = malloc(NEAP_WIRE_OUT);
  wire->arena = malloc(NEAP_WIRE_ARENA);
  NEAP_ASSERT(wire->msg && wire->out && wire->arena);
  neap_wire_begin(wire);
  return wire;
}

struct neap_wire *neap_wire_new(void)
{
  struct neap_wire *wire = calloc(1, sizeof *wire);
  char why[128];
  NEAP_ASSERT(wire);
  neap_registry_init(&wire->registry);
  NEAP_ASSERT(!neap_registry_add(&wire->registry, neap_known_headers, 0, NULL, why, sizeof why));
  return ready(wire);
}

/* The known rows of this owner, copied behind each other; how many. */
static unsigned rows_of(const char *owner, size_t len, struct neap_header *rows)
{
  unsigned count = 0;
  for (const struct neap_header *row = neap_known_headers; row->name; row++)
    if (strlen(row->name) == len && !memcmp(row->name, owner, len)) rows[count++] = *row;
  return count;
}

/* With the registry of a stack: names of layers, top first, between blanks.  NULL, and why, when
 * their headers clash. */
struct neap_wire *neap_wire_stack(const char *owners, char *why, int size)
{
  struct neap_wire *wire = calloc(1, sizeof *wire);
  NEAP_ASSERT(wire);
  neap_registry_init(&wire->registry);
  wire->rows = calloc(4 * NEAP_SLOTS_MAX, sizeof *wire->rows);
  NEAP_ASSERT(wire->rows);
  unsigned used = 0, position = 0;
  for (const char *at = owners; *at; position++) {
    size_t len = strcspn(at, " ");
    struct neap_header *rows = wire->rows + used;
    used += rows_of(at, len, rows) + 1;
    NEAP_ASSERT(used < 4 * NEAP_SLOTS_MAX);
    if (neap_registry_add(&wire->registry, rows, position, NULL, why, (size_t)size) < 0) {
      free(wire->rows);
      free(wire);
      return NULL;
    }
    at += len + strspn(at + len, " ");
  }
  return ready(wire);
}

void neap_wire_free(struct neap_wire *wire)
{
  free(wire->rows);
  free(wire->msg);
  free(wire->out);
  free(wire->arena);
  free(wire);
}

const char *neap_wire_fault(int fault)
{
  return neap_fault_text((enum neap_fault)fault);
}

/* ---- in ---- */

int neap_wire_open(struct neap_wire *wire, const char *bytes, int len, int version)
{
  neap_packet_open(
    &wire->packet, &wire->registry, (const uint8_t *)bytes, (size_t)len, (uint16_t)version);
  return (int)wire->packet.r.fault;
}

void neap_wire_open_bare(struct neap_wire *wire, const char *bytes, int len, int type)
{
  neap_packet_open_bare(
    &wire->packet, &wire->registry, (const uint8_t *)bytes, (size_t)len, (enum neap_msg_type)type);
}

/* 1: a message; 0: the end; negative: a fault. */
int neap_wire_next(struct neap_wire *wire)
{
  if (neap_packet_next(&wire->packet, wire->msg, &wire->arrival)) return 1;
  return -(int)wire->packet.r.fault;
}

/* Reads all of a packet (or, with a type, of a message alone) from memory of exactly its size, and
 * writes each message into as much as neap_packet_size says.  The fault. */
int neap_wire_try(struct neap_wire *wire, const char *bytes, int len, int type)
{
  char *exact = malloc((size_t)len);
  NEAP_ASSERT(exact || !len);
  if (len) memcpy(exact, bytes, (size_t)len);
  if (type >= 0)
    neap_wire_open_bare(wire, exact, len, type);
  else
    neap_wire_open(wire, exact, len, NEAP_VERSION);
  while (neap_wire_next(wire) > 0) {
    uint32_t size = neap_packet_size(&wire->registry, wire->msg);
    uint8_t *out = malloc(size);
    struct neap_writer w = {out, out + size, false};
    NEAP_ASSERT(out);
    neap_packet_message(&w, &wire->registry, wire->msg, NULL, NULL, 0);
    NEAP_ASSERT(!w.full);
    free(out);
  }
  free(exact);
  return (int)wire->packet.r.fault;
}

/* Reads a list as a transport does, and writes it the same way: how many messages went the short
 * way in (core/pattern.h), and out.  What was written is in neap_wire_out, without the list's
 * head. */
int neap_wire_short(struct neap_wire *wire, const char *bytes, int len, int32_t *written)
{
  static struct neap_patterns in, out;
  struct neap_packet *p = &wire->packet;
  int read = 0;
  in = out = (struct neap_patterns){0};
  neap_wire_begin(wire);
  neap_wire_open(wire, bytes, len, NEAP_VERSION);
  for (*written = 0; p->left > 0 && !p->r.fault;) {
    const uint8_t *start = p->r.at;
    uint8_t order[NEAP_PATTERN_SLOTS], count;
    if (neap_patterns_read(&in, &p->r, wire->msg, order, &count)) {
      read++;
      p->left--;
    } else if (neap_packet_next(p, wire->msg, &wire->arrival)) {
      neap_patterns_missed(&in, &wire->registry, start, (size_t)(p->r.at - start), wire->msg, NULL);
    } else {
      break;
    }
    if (neap_patterns_write(&out, &wire->w, wire->msg)) {
      ++*written;
      continue;
    }
    uint8_t *at = wire->w.at;
    neap_packet_message(&wire->w, &wire->registry, wire->msg, NULL, NULL, 0);
    neap_patterns_missed(
      &out, &wire->registry, at, (size_t)(wire->w.at - at), wire->msg, p->cluster.at);
  }
  return read;
}

void neap_wire_read(struct neap_wire *wire, struct neap_wire_message *message)
{
  const struct neap_packet *p = &wire->packet;
  const struct neap_msg *m = wire->msg;
  *message = (struct neap_wire_message){
    .body = m->body,
    .version = p->version,
    .bits = p->bits,
    .left = p->left,
    .own_source = p->own_source,
    .type = m->type,
    .flags = (int16_t)m->flags,
    .marks = m->marks,
    .len = (int32_t)m->len,
    .headers = wire->arrival.order_count,
    .stray_protocol = wire->arrival.stray_protocol,
    .stray_below = m->stray_below,
    .skipped = wire->arrival.skipped,
    .cluster_len = (int32_t)p->cluster.len,
    .rest = (int32_t)neap_left(&p->r),
    .cluster = p->cluster.at,
  };
  neap_wire_show_addr(&message->dest, &wire->arrival.dest);
  neap_wire_show_addr(&message->src, &wire->arrival.src);
  neap_wire_show_addr(&message->list_dest, &p->dest);
  neap_wire_show_addr(&message->list_src, &p->src);
}

void neap_wire_header(struct neap_wire *wire, int n, struct neap_wire_head *head)
{
  NEAP_ASSERT(n >= 0 && n < wire->arrival.order_count);
  const struct neap_slot *slot = &wire->registry.slots[wire->arrival.order[n]];
  neap_wire_show_head(
    head, slot->forms[*neap_slot_form(slot, wire->msg)], neap_slot_at(slot, wire->msg));
}

/* ---- out ---- */

/* Forgets what was written so far, and starts with an empty message. */
void neap_wire_begin(struct neap_wire *wire)
{
  wire->w = (struct neap_writer){wire->out, wire->out + NEAP_WIRE_OUT, false};
  wire->count_at = NULL;
  wire->count = 0;
  neap_wire_fill(wire, NEAP_TYPE_EMPTY, 0, 0, NULL, 0);
}

/* The next message: its headers follow by neap_wire_put. */
void neap_wire_fill(
  struct neap_wire *wire, int type, int flags, int marks, const char *body, int len)
{
  struct neap_msg *m = wire->msg;
  memset(m, 0, wire->registry.size);
  m->type = (uint8_t)type;
  m->flags = (uint16_t)flags;
  m->marks = (uint8_t)marks;
  m->body = (const uint8_t *)body;
  m->len = (uint32_t)len;
  wire->arena_used = 0;
  wire->arrival.order_count = 0;
}

/* Marks a header present, its fields zero; headers are written in the order of these calls.  0 for
 * ids that nobody knows, or of a header that is there already. */
int neap_wire_put(struct neap_wire *wire, int protocol, int class, struct neap_wire_head *head)
{
  unsigned number, form;
  if (!neap_registry_find(&wire->registry, (uint16_t)protocol, (uint16_t) class, &number, &form))
    return 0;
  const struct neap_slot *slot = &wire->registry.slots[number];
  if (wire->msg->present >> number & 1) return 0;
  wire->msg->present |= (uint64_t)1 << number;
  *neap_slot_form(slot, wire->msg) = (uint8_t)form;
  wire->arrival.order[wire->arrival.order_count++] = (uint8_t)number;
  memset(neap_slot_at(slot, wire->msg), 0, slot->size);
  neap_wire_show_head(head, slot->forms[form], neap_slot_at(slot, wire->msg));
  return 1;
}

static const struct neap_addr *addr_of(const struct neap_wire_value *value, struct neap_addr *addr)
{
  NEAP_ASSERT(!value || neap_wire_take_addr(value, addr));
  return value && value->kind != NEAP_ADDR_NONE ? addr : NULL;
}

void neap_wire_list(struct neap_wire *wire, int version, const struct neap_wire_value *dest,
  const struct neap_wire_value *src, const char *cluster, int cluster_len)
{
  struct neap_addr to, from;
  wire->count_at = neap_packet_list(&wire->w, (uint16_t)version, addr_of(dest, &to),
    addr_of(src, &from), cluster, (size_t)cluster_len);
}

void neap_wire_message_out(struct neap_wire *wire, const struct neap_wire_value *src)
{
  struct neap_addr from;
  neap_packet_message(&wire->w, &wire->registry, wire->msg, addr_of(src, &from),
    wire->arrival.order, wire->arrival.order_count);
  wire->count++;
}

static const struct neap_registry *in_order(struct neap_wire *wire)
{
  wire->ordered.count = wire->arrival.order_count;
  memcpy(wire->ordered.order, wire->arrival.order, wire->arrival.order_count);
  return &wire->ordered;
}

void neap_wire_single(struct neap_wire *wire, int version, const struct neap_wire_value *dest,
  const struct neap_wire_value *src)
{
  struct neap_addr to, from;
  neap_packet_single(&wire->w, (uint16_t)version, in_order(wire), wire->msg, addr_of(dest, &to),
    addr_of(src, &from));
}

void neap_wire_bare(
  struct neap_wire *wire, const struct neap_wire_value *dest, const struct neap_wire_value *src)
{
  struct neap_addr to, from;
  neap_packet_bare(&wire->w, in_order(wire), wire->msg, addr_of(dest, &to), addr_of(src, &from));
}

/* As a transport writes it into a list: headers in the order of the stack. */
void neap_wire_stack_out(struct neap_wire *wire)
{
  neap_packet_message(&wire->w, &wire->registry, wire->msg, NULL, NULL, 0);
}

/* What was written; a fault when it was too much. */
void neap_wire_out(struct neap_wire *wire, struct neap_wire_cursor *out)
{
  if (wire->count_at) neap_packet_close(wire->count_at, wire->count);
  out->at = wire->out;
  out->end = wire->w.at;
  out->fault = wire->w.full ? NEAP_FAULT_LENGTH : NEAP_FAULT_NONE;
}

int neap_wire_size(struct neap_wire *wire)
{
  return (int)neap_packet_size(&wire->registry, wire->msg);
}
