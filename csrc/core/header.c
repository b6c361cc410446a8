/* header: lists of fields, read, written and measured by their rows; single forms: form.c. */

#include "core/header.h"

#include "base/assert.h"
#include "core/packet.h"

const struct neap_field *neap_header_fields(const struct neap_header *header, unsigned *count)
{
  if (header->fields) return header->fields(count);
  *count = header->row_count;
  return header->rows;
}

bool neap_header_same(const struct neap_header *a, const struct neap_header *b)
{
  return a->fields == b->fields && a->rows == b->rows;
}

static uint32_t earlier(const struct neap_field *field, const void *head)
{
  const uint8_t *at = (const uint8_t *)head + field->when_at;
  uint16_t two;
  uint32_t four;
  switch (field->when_size) {
  case 1:
    return *at;
  case 2:
    memcpy(&two, at, 2);
    return two;
  default:
    NEAP_ASSERT(field->when_size == 4);
    memcpy(&four, at, 4);
    return four;
  }
}

bool neap_field_present(const struct neap_field *field, const void *head)
{
  if (!field->when_mask) return true;
  uint32_t value = earlier(field, head);
  if (field->when_mask >> 31) return (value & field->when_mask & 0x7fffffffu) != 0;
  return value < 31 && (field->when_mask >> value & 1);
}

void neap_header_read(struct neap_reader *r, const struct neap_header *header, void *head)
{
  unsigned count;
  const struct neap_field *fields = neap_header_fields(header, &count);
  memset(head, 0, header->size);
  neap_fields_read(r, fields, count, head);
}

void neap_header_write(struct neap_writer *w, const struct neap_header *header, const void *head)
{
  unsigned count;
  const struct neap_field *fields = neap_header_fields(header, &count);
  neap_fields_write(w, fields, count, head);
}

void neap_fields_read(
  struct neap_reader *r, const struct neap_field *fields, unsigned count, void *head)
{
  for (unsigned n = 0; n < count; n++)
    if (neap_field_present(&fields[n], head))
      neap_form_read(r, fields[n].form, (uint8_t *)head + fields[n].at);
}

void neap_fields_write(
  struct neap_writer *w, const struct neap_field *fields, unsigned count, const void *head)
{
  for (unsigned n = 0; n < count; n++)
    if (neap_field_present(&fields[n], head))
      neap_form_write(w, fields[n].form, (const uint8_t *)head + fields[n].at);
}

uint32_t neap_fields_size(const struct neap_field *fields, unsigned count, const void *head)
{
  uint32_t size = 0;
  for (unsigned n = 0; n < count; n++)
    if (neap_field_present(&fields[n], head))
      size += neap_form_size(fields[n].form, (const uint8_t *)head + fields[n].at);
  return size;
}

/* ---- fields that are numbers ---- */

/* The forms that are numbers; all others have no size here. */
static const struct {
  uint8_t size;
  bool sign;
} numbers[NEAP_FORM_COUNT] = {
  [NEAP_FORM_i8] = {1, true},
  [NEAP_FORM_u8] = {1, false},
  [NEAP_FORM_i16] = {2, true},
  [NEAP_FORM_u16] = {2, false},
  [NEAP_FORM_i32] = {4, true},
  [NEAP_FORM_u32] = {4, false},
  [NEAP_FORM_i64] = {8, true},
  [NEAP_FORM_flag] = {1, false},
  [NEAP_FORM_cint] = {4, false},
  [NEAP_FORM_clong] = {8, false},
};

bool neap_field_is_number(unsigned form)
{
  return numbers[form].size != 0;
}

int64_t neap_field_number(const struct neap_field *field, const void *head)
{
  const void *at = (const char *)head + field->at;
  bool sign = numbers[field->form].sign;
  switch (numbers[field->form].size) {
  case 1:
    return sign ? *(const int8_t *)at : *(const uint8_t *)at;
  case 2:
    return sign ? *(const int16_t *)at : *(const uint16_t *)at;
  case 4:
    return sign ? *(const int32_t *)at : (int64_t) * (const uint32_t *)at;
  default:
    return *(const int64_t *)at;
  }
}
