/* bind_table: values of fields on their way to Lua and back; payloads as tables. */

#include "bind/bind_wire.h"

#include "core/layer.h"
#include "core/types.h"

/* From the table that the Makefile writes. */
extern const struct neap_class *const neap_classes[];

/* ---- values ---- */

/* What is shown as a number below zero when its top bit is set. */
static bool is_signed(enum neap_form form)
{
  return form != NEAP_FORM_u8 && form != NEAP_FORM_u16 && form != NEAP_FORM_u32;
}

void neap_wire_show_addr(struct neap_wire_value *value, const struct neap_addr *addr)
{
  bool raw = addr->kind != NEAP_ADDR_UUID && addr->kind != NEAP_ADDR_IP;
  value->kind = neap_addr_none(addr) ? NEAP_ADDR_NONE : addr->kind;
  value->at = raw && !neap_addr_none(addr) ? addr->raw.at : NULL;
  value->len = value->at ? (int32_t)addr->raw.len : 0;
  neap_addr_text(addr, value->text);
}

bool neap_wire_take_addr(const struct neap_wire_value *value, struct neap_addr *addr)
{
  *addr = (struct neap_addr){.kind = (uint8_t)value->kind};
  if (value->kind == NEAP_ADDR_NONE) return true;
  if (value->kind == NEAP_ADDR_UUID || value->kind == NEAP_ADDR_IP)
    return neap_addr_parse(value->text, addr) && addr->kind == value->kind;
  addr->raw = (struct neap_slice){value->at, (uint32_t)value->len};
  return value->at != NULL;
}

static const char *const form_names[] = {
#define FORM(name, type) #name,
  NEAP_FORMS(FORM)
#undef FORM
};

static void show(struct neap_wire_value *value, enum neap_form form, const void *at)
{
  value->form = form_names[form];
  value->is_signed = is_signed(form);
  value->at = NULL;
  value->number = value->second = value->len = value->kind = 0;
  switch (form) {
  case NEAP_FORM_i8:
    value->number = *(const int8_t *)at;
    break;
  case NEAP_FORM_u8:
  case NEAP_FORM_flag:
    value->number = *(const uint8_t *)at;
    break;
  case NEAP_FORM_i16:
    value->number = *(const int16_t *)at;
    break;
  case NEAP_FORM_u16:
    value->number = *(const uint16_t *)at;
    break;
  case NEAP_FORM_i32:
  case NEAP_FORM_cint:
    value->number = *(const int32_t *)at;
    break;
  case NEAP_FORM_u32:
    value->number = *(const uint32_t *)at;
    break;
  case NEAP_FORM_i64:
  case NEAP_FORM_clong:
    value->number = *(const int64_t *)at;
    break;
  case NEAP_FORM_seq2:
    value->number = (int64_t)((const struct neap_seq2 *)at)->a;
    value->second = (int64_t)((const struct neap_seq2 *)at)->b;
    break;
  case NEAP_FORM_addr:
  case NEAP_FORM_ip:
  case NEAP_FORM_ip_opt:
    neap_wire_show_addr(value, at);
    break;
  default: /* all others are slices */
    value->at = ((const struct neap_slice *)at)->at;
    value->len = (int32_t)((const struct neap_slice *)at)->len;
  }
}

static bool take(const struct neap_wire_value *value, enum neap_form form, void *at)
{
  switch (form) {
  case NEAP_FORM_i8:
  case NEAP_FORM_u8:
  case NEAP_FORM_flag:
    *(uint8_t *)at = (uint8_t)value->number;
    return form != NEAP_FORM_flag || *(uint8_t *)at <= 1;
  case NEAP_FORM_i16:
  case NEAP_FORM_u16:
    *(uint16_t *)at = (uint16_t)value->number;
    return true;
  case NEAP_FORM_i32:
  case NEAP_FORM_u32:
  case NEAP_FORM_cint:
    *(uint32_t *)at = (uint32_t)value->number;
    return true;
  case NEAP_FORM_i64:
  case NEAP_FORM_clong:
    *(uint64_t *)at = (uint64_t)value->number;
    return true;
  case NEAP_FORM_seq2:
    *(struct neap_seq2 *)at = (struct neap_seq2){(uint64_t)value->number, (uint64_t)value->second};
    return (uint64_t)value->number <= (uint64_t)value->second;
  case NEAP_FORM_addr:
  case NEAP_FORM_ip:
  case NEAP_FORM_ip_opt:
    return neap_wire_take_addr(value, at) &&
           (form == NEAP_FORM_addr || value->kind == NEAP_ADDR_IP ||
             (form == NEAP_FORM_ip_opt && value->kind == NEAP_ADDR_NONE));
  default:
    *(struct neap_slice *)at = (struct neap_slice){value->at, (uint32_t)value->len};
    return true;
  }
}

static const struct neap_field *row(const struct neap_wire_head *head, int n)
{
  unsigned count;
  const struct neap_field *fields = neap_header_fields(head->header, &count);
  NEAP_ASSERT(n >= 0 && (unsigned)n < count);
  return &fields[n];
}

void neap_wire_field(const struct neap_wire_head *head, int n, struct neap_wire_value *value)
{
  const struct neap_field *field = row(head, n);
  show(value, field->form, (const uint8_t *)head->head + field->at);
  value->name = field->name;
  value->doc = field->doc;
  value->present = neap_field_present(field, head->head);
  value->when_mask = field->when_mask;
  value->when = -1;
  for (int e = 0; e < n && field->when_mask; e++)
    if (row(head, e)->at == field->when_at) value->when = e;
}

/* Slices are copied: what Lua gave may be gone when the message is written. */
int neap_wire_set(struct neap_wire *wire, const struct neap_wire_head *head, int n,
  const struct neap_wire_value *value)
{
  const struct neap_field *field = row(head, n);
  struct neap_wire_value kept = *value;
  if (value->at) {
    if (value->len < 0 || (uint32_t)value->len > NEAP_WIRE_ARENA - wire->arena_used) return 0;
    kept.at = wire->arena + wire->arena_used;
    memcpy(wire->arena + wire->arena_used, value->at, (size_t)value->len);
    wire->arena_used += (uint32_t)value->len;
  }
  return take(&kept, field->form, (uint8_t *)head->head + field->at);
}

void neap_wire_show_head(
  struct neap_wire_head *head, const struct neap_header *header, void *memory)
{
  unsigned fields;
  neap_header_fields(header, &fields);
  *head = (struct neap_wire_head){header->name, header->doc, header, memory, header->protocol,
    header->class, (int32_t)fields, header->size};
}

/* ---- tables: payloads that are lists of fields ---- */

#define TABLE(name, head) NEAP_HEADER_ROW(name, 0, 0, head, "")
static const struct neap_header tables[] = {
  TABLE("record", neap_ping_record),
  TABLE("view", neap_view_parts),
  TABLE("merge_view", neap_merge_view_parts),
  TABLE("delta_view", neap_delta_view_parts),
  TABLE("view_digest", neap_view_digest),
  TABLE("join_rsp", neap_join_rsp),
  TABLE("exception", neap_exception),
  {0},
};

int neap_wire_known(int n, struct neap_wire_head *head)
{
  const struct neap_header *header = neap_known_headers;
  for (; header->name && n; n--) header++;
  if (!header->name) return 0;
  neap_wire_show_head(head, header, NULL);
  return 1;
}

/* The n-th header row of all built-in layers; 0 when there are no more. */
int neap_wire_adopted(int n, struct neap_wire_head *head)
{
  for (const struct neap_class *const *class = neap_classes; *class; class++)
    for (const struct neap_header *row = (*class)->headers; row && row->name; row++)
      if (!n--) {
        neap_wire_show_head(head, row, NULL);
        return 1;
      }
  return 0;
}

/* "msg" for type 1 of a nakack header; NULL when there is no word. */
const char *neap_wire_word(const struct neap_wire_head *head, int type)
{
  return neap_type_word(head->header, type);
}

/* The caller brings head->size bytes, zeroed, for the struct. */
int neap_wire_table(const char *name, struct neap_wire_head *head)
{
  const struct neap_header *table = tables;
  while (table->name && strcmp(table->name, name)) table++;
  if (!table->name) return 0;
  neap_wire_show_head(head, table, NULL);
  return 1;
}

static struct neap_reader reader_of(const struct neap_wire_cursor *cursor)
{
  return (struct neap_reader){cursor->at, cursor->end, (enum neap_fault)cursor->fault};
}

static void moved(struct neap_wire_cursor *cursor, const struct neap_reader *r)
{
  cursor->at = r->at;
  cursor->fault = (int32_t)r->fault;
}

void neap_wire_table_read(struct neap_wire_cursor *cursor, const struct neap_wire_head *head)
{
  struct neap_reader r = reader_of(cursor);
  neap_header_read(&r, head->header, head->head);
  moved(cursor, &r);
}

void neap_wire_table_write(struct neap_wire *wire, const struct neap_wire_head *head)
{
  neap_header_write(&wire->w, head->header, head->head);
}

/* ---- one form ---- */

union form {
  uint64_t number;
  struct neap_seq2 pair;
  struct neap_addr addr;
  struct neap_slice slice;
};

int neap_wire_form(const char *name)
{
  for (int form = 0; form < NEAP_FORM_COUNT; form++)
    if (!strcmp(form_names[form], name)) return form;
  return -1;
}

void neap_wire_form_read(struct neap_wire_cursor *cursor, int form, struct neap_wire_value *value)
{
  union form read = {0};
  struct neap_reader r = reader_of(cursor);
  neap_form_read(&r, (enum neap_form)form, &read);
  moved(cursor, &r);
  show(value, (enum neap_form)form, &read);
}

int neap_wire_form_write(struct neap_wire *wire, int form, const struct neap_wire_value *value)
{
  union form given = {0};
  if (!take(value, (enum neap_form)form, &given)) return 0;
  neap_form_write(&wire->w, (enum neap_form)form, &given);
  return 1;
}

/* ---- objects ---- */

/* The value's kind is the class id of type 50, second whether a string is ASCII. */
void neap_wire_object_read(struct neap_wire_cursor *cursor, int dialect, int32_t *type,
  struct neap_wire_value *value, double *real)
{
  struct neap_object object;
  struct neap_reader r = reader_of(cursor);
  neap_object_read(&r, (enum neap_dialect)dialect, &object);
  moved(cursor, &r);
  *type = object.type;
  *real = neap_object_real(&object);
  value->at = object.bytes.at;
  value->len = (int32_t)object.bytes.len;
  value->number = object.number;
  value->second = object.ascii;
  value->kind = object.class;
}

void neap_wire_object_write(
  struct neap_wire *wire, int dialect, int type, const struct neap_wire_value *value)
{
  struct neap_object object = {
    .type = (uint8_t)type,
    .ascii = value->second != 0,
    .class = (uint16_t)value->kind,
    .number = value->number,
    .bytes = {value->at, (uint32_t)value->len},
  };
  neap_object_write(&wire->w, (enum neap_dialect)dialect, &object);
}
