#include "core/addr.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

/* Class ids of addresses; behind kind 0 stands EXTENDED, FLAGS or NUMBER. */
enum {
  CLASS_UUID = 11,
  CLASS_EXTENDED = 12,
  CLASS_SITE = 13,
  CLASS_SITE_MASTER = 14,
  CLASS_FLAGS = 19,
  CLASS_NUMBER = 22
};

static int order(uint64_t a, uint64_t b)
{
  return a < b ? -1 : a > b;
}

static int signed_order(int64_t a, int64_t b)
{
  return a < b ? -1 : a > b;
}

static uint64_t big(const uint8_t *bytes, unsigned width)
{
  struct neap_reader r = neap_reader_of(bytes, width);
  return neap_read_big(&r, width);
}

int neap_addr_compare(const struct neap_addr *a, const struct neap_addr *b)
{
  bool no_a = neap_addr_none(a), no_b = neap_addr_none(b);
  if (no_a || no_b) return no_b - no_a;
  if (a->kind != b->kind) return order(a->kind, b->kind);

  if (a->kind == NEAP_ADDR_UUID) {
    int high = signed_order((int64_t)big(a->bytes, 8), (int64_t)big(b->bytes, 8));
    return high ? high : signed_order((int64_t)big(a->bytes + 8, 8), (int64_t)big(b->bytes + 8, 8));
  }
  if (a->kind == NEAP_ADDR_IP) {
    if (a->size != b->size) return order(a->size, b->size);
    int by = a->size == 4 ? signed_order((int32_t)big(a->bytes, 4), (int32_t)big(b->bytes, 4))
                          : memcmp(a->bytes, b->bytes, 16);
    return by ? (by < 0 ? -1 : 1) : order(a->port, b->port);
  }
  uint32_t common = a->raw.len < b->raw.len ? a->raw.len : b->raw.len;
  int by = memcmp(a->raw.at, b->raw.at, common);
  return by ? (by < 0 ? -1 : 1) : order(a->raw.len, b->raw.len);
}

struct neap_addr neap_addr_new(struct neap_random *random)
{
  struct neap_addr a = {.kind = NEAP_ADDR_UUID};
  uint64_t drawn[2] = {neap_random_next(random), neap_random_next(random)};
  for (unsigned i = 0; i < 16; i++) a.bytes[i] = (uint8_t)(drawn[i / 8] >> (8 * (i % 8)));
  memcpy(a.bytes, "neap", 4);
  a.bytes[4] = NEAP_GENERATION;
  return a;
}

unsigned neap_addr_generation(const struct neap_addr *a)
{
  return a->kind == NEAP_ADDR_UUID && !memcmp(a->bytes, "neap", 4) ? a->bytes[4] : 0;
}

/* ---- text ---- */

static void add_hex(struct neap_text *text, const uint8_t *bytes, uint32_t len)
{
  for (uint32_t i = 0; i < len && !text->cut; i++) neap_text_add(text, "%02x", bytes[i]);
}

static void add_uuid(struct neap_text *text, const uint8_t *bytes)
{
  static const char digits[] = "0123456789abcdef";
  char uuid[37], *at = uuid;
  for (unsigned i = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *at++ = '-';
    *at++ = digits[bytes[i] >> 4];
    *at++ = digits[bytes[i] & 15];
  }
  *at = 0;
  neap_text_add(text, "%s", uuid);
}

/* The longest run of two or more zero groups is left out, of equals the first. */
static void add_ip6(struct neap_text *text, const struct neap_addr *a)
{
  unsigned best = 8, longest = 1;
  for (unsigned i = 0, run = 0; i < 8; i++) {
    run = a->bytes[2 * i] || a->bytes[2 * i + 1] ? 0 : run + 1;
    if (run > longest) longest = run, best = i + 1 - run;
  }
  neap_text_add(text, "[");
  for (unsigned i = 0; i < 8; i++) {
    if (i == best) {
      neap_text_add(text, "::");
      i += longest - 1;
      continue;
    }
    if (i && i != best + longest) neap_text_add(text, ":");
    neap_text_add(text, "%x", (unsigned)a->bytes[2 * i] << 8 | a->bytes[2 * i + 1]);
  }
  if (a->scope) neap_text_add(text, "%%%u", a->scope);
  neap_text_add(text, "]:%u", a->port);
}

const char *neap_addr_text(const struct neap_addr *a, char *text)
{
  struct neap_text t = neap_text_of(text, NEAP_ADDR_TEXT);
  if (neap_addr_none(a)) {
    neap_text_add(&t, "none");
  } else if (a->kind == NEAP_ADDR_UUID) {
    add_uuid(&t, a->bytes);
  } else if (a->kind == NEAP_ADDR_IP) {
    const uint8_t *b = a->bytes;
    if (a->size == 16)
      add_ip6(&t, a);
    else if (a->size == 4)
      neap_text_add(&t, "%u.%u.%u.%u:%u", b[0], b[1], b[2], b[3], a->port);
    else
      neap_text_add(&t, "*:%u", a->port);
  } else {
    neap_text_add(&t, "raw-%u-", a->kind);
    add_hex(&t, a->raw.at, a->raw.len);
  }
  return text;
}

static int digit(char c, unsigned base)
{
  int value = c >= '0' && c <= '9'   ? c - '0'
              : c >= 'a' && c <= 'f' ? c - 'a' + 10
              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                     : 99;
  return value < (int)base ? value : -1;
}

/* A number of one digit or more, not above `max`; moves the text behind it. */
static bool number(const char **text, unsigned base, uint32_t max, uint32_t *value)
{
  if (digit(**text, base) < 0) return false;
  uint64_t sum = 0;
  for (; digit(**text, base) >= 0; ++*text) {
    sum = sum * base + (unsigned)digit(**text, base);
    if (sum > max) return false;
  }
  *value = (uint32_t)sum;
  return true;
}

static bool skip(const char **text, char c)
{
  if (**text != c) return false;
  ++*text;
  return true;
}

static bool parse_ip4(const char **text, struct neap_addr *a)
{
  for (unsigned i = 0; i < 4; i++) {
    uint32_t value;
    if ((i && !skip(text, '.')) || !number(text, 10, 255, &value)) return false;
    a->bytes[i] = (uint8_t)value;
  }
  a->size = 4;
  return true;
}

static bool parse_ip6(const char **text, struct neap_addr *a)
{
  uint16_t groups[8] = {0};
  unsigned count = 0, gap = 9; /* where "::" stands; 9: nowhere */
  if (!skip(text, '[')) return false;
  if (skip(text, ':')) {
    if (!skip(text, ':')) return false;
    gap = 0;
  }
  uint32_t value;
  while (count < 8 && number(text, 16, 0xffff, &value)) {
    groups[count++] = (uint16_t)value;
    if (!skip(text, ':')) break;
    if (skip(text, ':')) {
      if (gap != 9) return false;
      gap = count;
    }
  }
  if ((*text)[-1] == ':' && gap != count) return false; /* "1:" */
  if (gap == 9 ? count != 8 : count == 8) return false;
  for (unsigned i = 0; i < count; i++) {
    unsigned to = i < gap ? i : 8 - count + i;
    a->bytes[2 * to] = (uint8_t)(groups[i] >> 8);
    a->bytes[2 * to + 1] = (uint8_t)groups[i];
  }
  a->size = 16;
  if (skip(text, '%') && !number(text, 10, UINT32_MAX, &a->scope)) return false;
  return skip(text, ']');
}

static bool parse_place(const char *text, struct neap_addr *a)
{
  *a = (struct neap_addr){.kind = NEAP_ADDR_IP};
  uint32_t port;
  if (!(*text == '[' ? parse_ip6(&text, a) : parse_ip4(&text, a))) return false;
  if (!skip(&text, ':') || !number(&text, 10, 65535, &port) || *text) return false;
  a->port = (uint16_t)port;
  return true;
}

bool neap_addr_parse(const char *text, struct neap_addr *a)
{
  struct neap_addr read = {.kind = NEAP_ADDR_UUID};
  const char *at = text;
  unsigned i = 0;
  for (; i < 16; i++) {
    if ((i == 4 || i == 6 || i == 8 || i == 10) && !skip(&at, '-')) break;
    if (digit(at[0], 16) < 0 || digit(at[1], 16) < 0) break;
    read.bytes[i] = (uint8_t)(digit(at[0], 16) << 4 | digit(at[1], 16));
    at += 2;
  }
  if ((i < 16 || *at) && !parse_place(text, &read)) return false;
  *a = read;
  return true;
}

/* ---- on the wire ---- */

/* Behind the sixteen bytes of an extended UUID: flags, and a map of short keys and values. */
static void skip_extension(struct neap_reader *r)
{
  neap_read_cint(r);
  for (unsigned left = neap_read_u8(r); left && !r->fault; left--) {
    neap_read_slice(r, neap_read_u8(r));
    neap_read_slice(r, neap_read_u8(r));
  }
}

static void skip_string(struct neap_reader *r)
{
  uint8_t there = neap_read_u8(r);
  if (there > 1) neap_fault(r, NEAP_FAULT_VALUE);
  if (there == 1) neap_read_slice(r, neap_read_u16(r));
}

void neap_skip_addr_class(struct neap_reader *r, uint16_t class)
{
  switch (class) {
  case CLASS_UUID:
    neap_read_slice(r, 16);
    break;
  case CLASS_EXTENDED:
    neap_read_slice(r, 16);
    skip_extension(r);
    break;
  case CLASS_SITE:
  case CLASS_SITE_MASTER:
    neap_read_slice(r, 16);
    skip_extension(r);
    skip_string(r);
    skip_string(r);
    break;
  case CLASS_FLAGS:
    neap_read_slice(r, 16);
    neap_read_cint(r);
    break;
  case CLASS_NUMBER:
    neap_read_slice(r, 8);
    break;
  default:
    neap_fault(r, NEAP_FAULT_ADDRESS);
  }
}

static void read_raw(struct neap_reader *r, struct neap_addr *a)
{
  const uint8_t *start = r->at;
  uint16_t class = a->kind == NEAP_ADDR_OTHER ? neap_read_u16(r) : CLASS_SITE;
  bool has_kind = class == CLASS_UUID || class == CLASS_SITE || class == CLASS_SITE_MASTER;
  if (has_kind && a->kind == NEAP_ADDR_OTHER) neap_fault(r, NEAP_FAULT_ADDRESS);
  if (!r->fault) neap_skip_addr_class(r, class);
  if (!r->fault) a->raw = (struct neap_slice){start, (uint32_t)(r->at - start)};
}

void neap_read_addr(struct neap_reader *r, struct neap_addr *a)
{
  *a = (struct neap_addr){.kind = neap_read_u8(r)};
  switch (a->kind) {
  case NEAP_ADDR_NONE:
    break;
  case NEAP_ADDR_UUID: {
    struct neap_slice wire = neap_read_slice(r, 16); /* The low half comes first. */
    if (r->fault) break;
    memcpy(a->bytes + 8, wire.at, 8);
    memcpy(a->bytes, wire.at + 8, 8);
    break;
  }
  case NEAP_ADDR_IP:
    neap_read_ip(r, a);
    break;
  case NEAP_ADDR_OTHER:
  case NEAP_ADDR_SITE:
  case NEAP_ADDR_SITE_MASTER:
    if (!r->fault) read_raw(r, a);
    break;
  default:
    neap_fault(r, NEAP_FAULT_ADDRESS);
  }
  if (r->fault) *a = (struct neap_addr){.kind = NEAP_ADDR_NONE};
}

void neap_write_addr(struct neap_writer *w, const struct neap_addr *a)
{
  if (neap_addr_none(a)) {
    neap_write_u8(w, NEAP_ADDR_NONE);
    return;
  }
  neap_write_u8(w, a->kind);
  if (a->kind == NEAP_ADDR_UUID) {
    neap_write_bytes(w, a->bytes + 8, 8);
    neap_write_bytes(w, a->bytes, 8);
  } else if (a->kind == NEAP_ADDR_IP) {
    neap_write_ip(w, a);
  } else {
    neap_write_bytes(w, a->raw.at, a->raw.len);
  }
}

void neap_read_ip(struct neap_reader *r, struct neap_addr *a)
{
  *a = (struct neap_addr){.kind = NEAP_ADDR_IP, .size = neap_read_u8(r)};
  if (a->size != 0 && a->size != 4 && a->size != 16) neap_fault(r, NEAP_FAULT_ADDRESS);
  struct neap_slice bytes = neap_read_slice(r, r->fault ? 0 : a->size);
  if (bytes.len) memcpy(a->bytes, bytes.at, bytes.len);
  if (a->size == 16) a->scope = neap_read_u32(r);
  a->port = neap_read_u16(r);
  if (r->fault) *a = (struct neap_addr){.kind = NEAP_ADDR_NONE};
}

void neap_write_ip(struct neap_writer *w, const struct neap_addr *a)
{
  neap_write_u8(w, a->size);
  neap_write_bytes(w, a->bytes, a->size);
  if (a->size == 16) neap_write_u32(w, a->scope);
  neap_write_u16(w, a->port);
}
