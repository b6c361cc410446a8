#include "core/object.h"

#include "base/assert.h"
#include "core/headers.h"
#include "core/msg.h"
#include "core/packet.h"
#include "core/payload.h"

/* Type bytes; each but the last four has a twin, one above, that means the same. */
enum {
  TYPE_NULL = 0,
  TYPE_BOOL = 1,
  TYPE_BYTE = 3,
  TYPE_CHAR = 5,
  TYPE_DOUBLE = 7,
  TYPE_FLOAT = 9,
  TYPE_INT = 11,
  TYPE_LONG = 13,
  TYPE_SHORT = 15,
  TYPE_STRING = 17,
  TYPE_BYTES = 18,
  TYPE_CLASS = 19,
  TYPE_OBJECT = 50,
};

static unsigned kind_of(uint8_t type)
{
  return type && type < TYPE_STRING ? (type - 1u) | 1u : type;
}

/* ---- values ---- */

static struct neap_slice read_counted(struct neap_reader *r)
{
  int32_t len = (int32_t)neap_read_u32(r);
  if (len < 0 || (size_t)len > neap_left(r)) neap_fault(r, NEAP_FAULT_LENGTH);
  return neap_read_slice(r, r->fault ? 0 : (size_t)len);
}

static void read_string(struct neap_reader *r, struct neap_object *object)
{
  uint8_t ascii = neap_read_u8(r);
  if (ascii > 1) neap_fault(r, NEAP_FAULT_VALUE);
  object->ascii = ascii == 1;
  object->bytes = ascii ? read_counted(r) : neap_read_slice(r, neap_read_u16(r));
}

static void read_value(
  struct neap_reader *r, enum neap_dialect dialect, struct neap_object *object, unsigned depth)
{
  bool buffer = dialect == NEAP_BUFFER;
  *object = (struct neap_object){.type = neap_read_u8(r)};
  switch (kind_of(object->type)) {
  case TYPE_NULL:
    break;
  case TYPE_BOOL:
    object->number = neap_read_u8(r);
    if (object->number > 1) neap_fault(r, NEAP_FAULT_VALUE);
    break;
  case TYPE_BYTE:
  case TYPE_CLASS:
    object->number = (int8_t)neap_read_u8(r);
    break;
  case TYPE_CHAR:
    object->number = neap_read_u16(r);
    break;
  case TYPE_SHORT:
    object->number = (int16_t)neap_read_u16(r);
    break;
  case TYPE_FLOAT:
    object->number = neap_read_u32(r);
    break;
  case TYPE_DOUBLE:
    object->number = (int64_t)neap_read_u64(r);
    break;
  case TYPE_INT:
    object->number = (int32_t)(buffer ? neap_read_cint(r) : neap_read_u32(r));
    break;
  case TYPE_LONG:
    object->number = (int64_t)(buffer ? neap_read_clong(r) : neap_read_u64(r));
    break;
  case TYPE_STRING:
    read_string(r, object);
    break;
  case TYPE_BYTES:
    object->bytes = buffer ? neap_read_slice(r, neap_left(r)) : read_counted(r);
    break;
  case TYPE_OBJECT: {
    uint8_t there = neap_read_u8(r);
    if (there != 1) neap_fault(r, NEAP_FAULT_VALUE);
    object->class = neap_read_u16(r);
    const uint8_t *start = r->at;
    neap_skip_content(r, object->class, depth + 1);
    if (!r->fault) object->bytes = (struct neap_slice){start, (uint32_t)(r->at - start)};
    break;
  }
  default:
    neap_fault(r, NEAP_FAULT_JAVA);
  }
}

void neap_object_read(struct neap_reader *r, enum neap_dialect dialect, struct neap_object *object)
{
  read_value(r, dialect, object, 0);
}

void neap_object_write(
  struct neap_writer *w, enum neap_dialect dialect, const struct neap_object *object)
{
  bool buffer = dialect == NEAP_BUFFER;
  uint64_t number = (uint64_t)object->number;
  neap_write_u8(w, object->type);
  switch (kind_of(object->type)) {
  case TYPE_NULL:
    break;
  case TYPE_BOOL:
  case TYPE_BYTE:
  case TYPE_CLASS:
    neap_write_u8(w, (uint8_t)number);
    break;
  case TYPE_CHAR:
  case TYPE_SHORT:
    neap_write_u16(w, (uint16_t)number);
    break;
  case TYPE_FLOAT:
    neap_write_u32(w, (uint32_t)number);
    break;
  case TYPE_DOUBLE:
    neap_write_u64(w, number);
    break;
  case TYPE_INT:
    if (buffer)
      neap_write_cint(w, (uint32_t)number);
    else
      neap_write_u32(w, (uint32_t)number);
    break;
  case TYPE_LONG:
    if (buffer)
      neap_write_clong(w, number);
    else
      neap_write_u64(w, number);
    break;
  case TYPE_STRING:
    neap_write_u8(w, object->ascii);
    neap_write_big(w, object->bytes.len, object->ascii ? 4 : 2);
    neap_write_bytes(w, object->bytes.at, object->bytes.len);
    break;
  case TYPE_BYTES:
    if (!buffer) neap_write_u32(w, object->bytes.len);
    neap_write_bytes(w, object->bytes.at, object->bytes.len);
    break;
  case TYPE_OBJECT:
    neap_write_u8(w, 1);
    neap_write_u16(w, object->class);
    neap_write_bytes(w, object->bytes.at, object->bytes.len);
    break;
  default:
    NEAP_ASSERT(kind_of(object->type) <= TYPE_OBJECT);
  }
}

double neap_object_real(const struct neap_object *object)
{
  double wide;
  float narrow;
  uint32_t half = (uint32_t)object->number;
  memcpy(&wide, &object->number, sizeof wide);
  memcpy(&narrow, &half, sizeof narrow);
  return kind_of(object->type) == TYPE_FLOAT ? (double)narrow : wide;
}

/* ---- passing over ---- */

static void skip_form(struct neap_reader *r, enum neap_form form)
{
  union {
    struct neap_addr addr;
    struct neap_slice slice;
  } unused;
  neap_form_read(r, form, &unused);
}

static void skip_fields(struct neap_reader *r, neap_fields *rows, size_t size)
{
  uint64_t unused[NEAP_HEADER_MAX / 8];
  unsigned count;
  const struct neap_field *fields = rows(&count);
  NEAP_ASSERT(size <= sizeof unused);
  memset(unused, 0, size);
  neap_fields_read(r, fields, count, unused);
}

void neap_skip_header(struct neap_reader *r, uint16_t protocol, uint16_t class)
{
  if (neap_header_own(protocol, class)) {
    neap_read_slice(r, neap_read_u16(r));
    return;
  }
  const struct neap_header *header = neap_known_header(protocol, class);
  if (header)
    skip_fields(r, header->fields, header->size);
  else
    neap_fault(r, NEAP_FAULT_HEADER);
}

/* A message without its type in front. */
static void skip_message(struct neap_reader *r, unsigned type, unsigned depth)
{
  uint8_t lead = neap_read_u8(r);
  if (lead & ~3) neap_fault(r, NEAP_FAULT_VALUE);
  neap_read_u16(r); /* flags */
  if (lead & 1) skip_form(r, NEAP_FORM_addr);
  if (lead & 2) skip_form(r, NEAP_FORM_addr);
  int16_t headers = (int16_t)neap_read_u16(r);
  if (headers < 0) neap_fault(r, NEAP_FAULT_LENGTH);
  for (; headers > 0 && !r->fault; headers--) {
    uint16_t protocol = neap_read_u16(r);
    neap_skip_header(r, protocol, neap_read_u16(r));
  }
  neap_skip_payload(r, type, depth);
}

static void skip_messages(struct neap_reader *r, int32_t count, unsigned depth)
{
  if (count < 0) neap_fault(r, NEAP_FAULT_LENGTH);
  for (; count > 0 && !r->fault; count--) {
    uint16_t type = neap_read_u16(r);
    skip_message(r, type, depth);
  }
}

void neap_skip_content(struct neap_reader *r, uint16_t class, unsigned depth)
{
  if (depth > NEAP_NESTING_MAX) {
    neap_fault(r, NEAP_FAULT_LENGTH);
    return;
  }
  struct neap_object unused;
  switch (class) {
  case NEAP_CLASS_IP:
    skip_form(r, NEAP_FORM_ip);
    break;
  case NEAP_CLASS_MESSAGE:
    skip_message(r, NEAP_TYPE_BYTES, depth + 1);
    break;
  case NEAP_CLASS_VIEW:
    skip_form(r, NEAP_FORM_view);
    break;
  case NEAP_CLASS_VIEW_ID:
    skip_form(r, NEAP_FORM_view_id);
    break;
  case NEAP_CLASS_MERGE_VIEW:
    skip_form(r, NEAP_FORM_merge_view);
    break;
  case NEAP_CLASS_RECORD:
    skip_fields(r, neap_ping_record_fields, sizeof(struct neap_ping_record));
    break;
  case NEAP_CLASS_JOIN_RSP:
    skip_fields(r, neap_join_rsp_fields, sizeof(struct neap_join_rsp));
    break;
  case NEAP_CLASS_DIGEST:
  case NEAP_CLASS_MUTABLE_DIGEST:
    skip_form(r, NEAP_FORM_digest);
    break;
  case NEAP_CLASS_UUID:
  case NEAP_CLASS_EXTENDED_UUID:
  case NEAP_CLASS_SITE_UUID:
  case NEAP_CLASS_SITE_MASTER:
  case NEAP_CLASS_FLAGS_UUID:
  case NEAP_CLASS_NUMBER:
    neap_skip_addr_class(r, class);
    break;
  case NEAP_CLASS_SEQNOS:
    skip_form(r, NEAP_FORM_seqnos);
    break;
  case NEAP_CLASS_PRIMITIVE:
    read_value(r, NEAP_STREAM, &unused, depth);
    break;
  default: /* calls, tokens, serialized objects, and a class name in place of an id */
    neap_fault(r, NEAP_FAULT_JAVA);
  }
}

static void skip_object(struct neap_reader *r, unsigned depth)
{
  uint8_t there = neap_read_u8(r);
  if (there > 1) neap_fault(r, NEAP_FAULT_VALUE);
  if (there != 1) return;
  uint16_t class = neap_read_u16(r);
  neap_skip_content(r, class, depth);
}

void neap_skip_payload(struct neap_reader *r, unsigned type, unsigned depth)
{
  if (r->fault) return;
  if (depth > NEAP_NESTING_MAX) {
    neap_fault(r, NEAP_FAULT_LENGTH);
    return;
  }
  switch (type) {
  case NEAP_TYPE_NIO:
    skip_form(r, NEAP_FORM_flag);
    skip_form(r, NEAP_FORM_bytes);
    break;
  case NEAP_TYPE_BYTES:
  case NEAP_TYPE_FRAGMENT:
    skip_form(r, NEAP_FORM_bytes);
    break;
  case NEAP_TYPE_EMPTY:
    break;
  case NEAP_TYPE_OBJECT:
    skip_object(r, depth);
    break;
  case NEAP_TYPE_LONG:
    neap_read_clong(r);
    break;
  case NEAP_TYPE_COMPOSITE:
    skip_messages(r, (int32_t)neap_read_u32(r), depth + 1);
    break;
  case NEAP_TYPE_EARLY_BATCH: {
    int32_t count = (int32_t)neap_read_u32(r);
    skip_form(r, NEAP_FORM_addr);
    skip_messages(r, count, depth + 1);
    break;
  }
  default:
    neap_fault(r, NEAP_FAULT_TYPE);
  }
}
