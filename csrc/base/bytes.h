/* bytes: reading and writing the scalars of the wire, each length checked.
 *
 * A reader that runs out of bytes, or meets a value that cannot be, remembers the first fault and
 * from then on gives zeros and empty slices: the caller reads on and looks at `fault` once, at the
 * end.  A writer that runs out of room does the same with `full`.  Nothing is allocated here.
 *
 * All fixed-width numbers are big-endian.  The variable ones are those of the JGroups 5 format:
 *
 *   cint, clong   00 for zero; else a count byte n, then the n low bytes, little-endian; n is the
 *                 smallest count for which an arithmetic shift right by 8n gives 0 (negative
 *                 numbers: all 4 or 8 bytes)
 *   seq2 (a, b)   00 for 0,0; else a byte of two nibbles (bytes of a, bytes of b-a), a, b-a,
 *                 little-endian; b >= a */

#ifndef NEAP_BASE_BYTES_H
#define NEAP_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes that somebody else owns.  `at` NULL is "none", which is not the same as empty. */
struct neap_slice {
  const uint8_t *at;
  uint32_t len;
};

/* Why bytes could not be read; each has a counter of its own.  ORDER: neap_fault_text. */
enum neap_fault {
  NEAP_FAULT_NONE,
  NEAP_FAULT_SHORT,    /* ends inside a field */
  NEAP_FAULT_LENGTH,   /* a length or count that the rest of the packet cannot hold */
  NEAP_FAULT_VALUE,    /* a value outside its range: a width above 8, a bool of 2 */
  NEAP_FAULT_VERSION,  /* another major.minor */
  NEAP_FAULT_CLUSTER,  /* another group on the same port */
  NEAP_FAULT_HEADER,   /* a header class nobody knows and that cannot be skipped */
  NEAP_FAULT_TYPE,     /* a message type nobody knows (32 and above, or early formats) */
  NEAP_FAULT_ADDRESS,  /* an address kind that does not exist */
  NEAP_FAULT_TRAILING, /* bytes behind the end */
  NEAP_FAULT_TARGET,   /* addressed to somebody else */
  NEAP_FAULT_JAVA,     /* a payload only its own runtime can read */
  NEAP_FAULTS
};

const char *neap_fault_text(enum neap_fault fault);

struct neap_reader {
  const uint8_t *at, *end;
  enum neap_fault fault;
};

struct neap_writer {
  uint8_t *at, *end;
  bool full;
};

static inline struct neap_reader neap_reader_of(const uint8_t *bytes, size_t len)
{
  return (struct neap_reader){bytes, len ? bytes + len : bytes, NEAP_FAULT_NONE};
}

static inline size_t neap_left(const struct neap_reader *r)
{
  return (size_t)(r->end - r->at);
}

static inline void neap_fault(struct neap_reader *r, enum neap_fault fault)
{
  if (!r->fault) r->fault = fault;
  r->at = r->end;
}

/* The next `len` bytes as a slice into the packet; empty, and a fault, when there are fewer. */
static inline struct neap_slice neap_read_slice(struct neap_reader *r, size_t len)
{
  if (neap_left(r) < len) {
    neap_fault(r, NEAP_FAULT_SHORT);
    return (struct neap_slice){r->end, 0};
  }
  struct neap_slice slice = {r->at, (uint32_t)len};
  r->at += len;
  return slice;
}

static inline uint64_t neap_read_big(struct neap_reader *r, unsigned width)
{
  if (neap_left(r) < width) {
    neap_fault(r, NEAP_FAULT_SHORT);
    return 0;
  }
  uint64_t value = 0;
  for (unsigned i = 0; i < width; i++) value = value << 8 | r->at[i];
  r->at += width;
  return value;
}

static inline uint64_t neap_read_little(struct neap_reader *r, unsigned width)
{
  if (neap_left(r) < width) {
    neap_fault(r, NEAP_FAULT_SHORT);
    return 0;
  }
  uint64_t value = 0;
  if (neap_left(r) >= 8) { /* One masked load where eight bytes remain. */
    memcpy(&value, r->at, 8);
    if (width < 8) value &= ((uint64_t)1 << (8 * width)) - 1;
  } else {
    for (unsigned i = 0; i < width; i++) value |= (uint64_t)r->at[i] << (8 * i);
  }
  r->at += width;
  return value;
}

static inline uint8_t neap_read_u8(struct neap_reader *r)
{
  return (uint8_t)neap_read_big(r, 1);
}

static inline uint16_t neap_read_u16(struct neap_reader *r)
{
  return (uint16_t)neap_read_big(r, 2);
}

static inline uint32_t neap_read_u32(struct neap_reader *r)
{
  return (uint32_t)neap_read_big(r, 4);
}

static inline uint64_t neap_read_u64(struct neap_reader *r)
{
  return neap_read_big(r, 8);
}

static inline uint64_t neap_read_compressed(struct neap_reader *r, unsigned width_max)
{
  uint8_t width = neap_read_u8(r);
  if (width > width_max) {
    neap_fault(r, NEAP_FAULT_VALUE);
    return 0;
  }
  return neap_read_little(r, width);
}

static inline uint32_t neap_read_cint(struct neap_reader *r)
{
  return (uint32_t)neap_read_compressed(r, 4);
}

static inline uint64_t neap_read_clong(struct neap_reader *r)
{
  return neap_read_compressed(r, 8);
}

void neap_read_seq2(struct neap_reader *r, uint64_t *a, uint64_t *b);

static inline uint8_t *neap_write_room(struct neap_writer *w, size_t len)
{
  if ((size_t)(w->end - w->at) < len) {
    w->full = true;
    w->end = w->at; /* Nothing shorter may slip in behind what did not fit. */
    return NULL;
  }
  uint8_t *at = w->at;
  w->at += len;
  return at;
}

static inline void neap_write_bytes(struct neap_writer *w, const void *bytes, size_t len)
{
  uint8_t *at = neap_write_room(w, len);
  if (at && len) memcpy(at, bytes, len);
}

static inline void neap_write_big(struct neap_writer *w, uint64_t value, unsigned width)
{
  uint8_t *at = neap_write_room(w, width);
  if (!at) return;
  for (unsigned i = 0; i < width; i++) at[i] = (uint8_t)(value >> (8 * (width - 1 - i)));
}

static inline void neap_write_u8(struct neap_writer *w, uint8_t value)
{
  neap_write_big(w, value, 1);
}

static inline void neap_write_u16(struct neap_writer *w, uint16_t value)
{
  neap_write_big(w, value, 2);
}

static inline void neap_write_u32(struct neap_writer *w, uint32_t value)
{
  neap_write_big(w, value, 4);
}

static inline void neap_write_u64(struct neap_writer *w, uint64_t value)
{
  neap_write_big(w, value, 8);
}

/* Bytes that a compressed number takes behind its count byte. */
static inline unsigned neap_compressed_width(uint64_t value)
{
  return value ? (unsigned)(71 - __builtin_clzll(value)) / 8 : 0;
}

void neap_write_cint(struct neap_writer *w, uint32_t value);
void neap_write_clong(struct neap_writer *w, uint64_t value);
void neap_write_seq2(struct neap_writer *w, uint64_t a, uint64_t b);

#endif
