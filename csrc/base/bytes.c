#include "base/bytes.h"

#include "base/assert.h"

const char *neap_fault_text(enum neap_fault fault)
{
  static const char *const text[] = {
    "none", "short", "length", "value", "version", "cluster",
    "header", "type", "address", "trailing", "target", "java",
  };
  _Static_assert(sizeof text / sizeof *text == NEAP_FAULTS, "ORDER: enum neap_fault");
  NEAP_ASSERT(fault < NEAP_FAULTS);
  return text[fault];
}

void neap_read_seq2(struct neap_reader *r, uint64_t *a, uint64_t *b)
{
  uint8_t widths = neap_read_u8(r);
  *a = *b = 0;
  if (!widths) return;
  if (widths >> 4 > 8 || (widths & 15) > 8) {
    neap_fault(r, NEAP_FAULT_VALUE);
    return;
  }
  *a = neap_read_little(r, widths >> 4);
  uint64_t ahead = neap_read_little(r, widths & 15);
  if (*a + ahead < *a) neap_fault(r, NEAP_FAULT_VALUE);
  *b = *a + ahead;
}

static void write_little(struct neap_writer *w, uint64_t value, unsigned width)
{
  uint8_t *at = neap_write_room(w, width);
  if (!at) return;
  for (unsigned i = 0; i < width; i++) at[i] = (uint8_t)(value >> (8 * i));
}

void neap_write_cint(struct neap_writer *w, uint32_t value)
{
  neap_write_clong(w, value);
}

void neap_write_clong(struct neap_writer *w, uint64_t value)
{
  unsigned width = neap_compressed_width(value);
  neap_write_u8(w, (uint8_t)width);
  write_little(w, value, width);
}

void neap_write_seq2(struct neap_writer *w, uint64_t a, uint64_t b)
{
  NEAP_ASSERT(a <= b);
  unsigned wide_a = neap_compressed_width(a), wide_b = neap_compressed_width(b - a);
  if (!wide_a && !wide_b) {
    neap_write_u8(w, 0);
    return;
  }
  if (!wide_a) wide_a = 1; /* A zero beside a number still takes a byte. */
  if (!wide_b) wide_b = 1;
  neap_write_u8(w, (uint8_t)(wide_a << 4 | wide_b));
  write_little(w, a, wide_a);
  write_little(w, b - a, wide_b);
}
