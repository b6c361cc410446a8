/* addr: who (a member) and where (a place on the network).
 *
 * A member's address is 16 bytes, in the order in which they are printed.  A Neap member is known
 * by its address alone: the first four bytes are "neap", then one byte *generation* (what it can
 * follow), then eleven random bytes.  A place is an IP address and a port.  The kinds that only
 * relays and applications make are kept as the bytes they came in (`raw`), so that they can be
 * shown and written again. */

#ifndef NEAP_CORE_ADDR_H
#define NEAP_CORE_ADDR_H

#include "base/bytes.h"
#include "base/random.h"

/* The kind byte of the wire.  {0} is a raw address without bytes and counts as none. */
enum neap_addr_kind {
  NEAP_ADDR_OTHER = 0,
  NEAP_ADDR_NONE = 1,
  NEAP_ADDR_UUID = 2,
  NEAP_ADDR_SITE = 4,
  NEAP_ADDR_SITE_MASTER = 8,
  NEAP_ADDR_IP = 16,
};

/* What this version of Neap can follow; the fifth byte of the addresses it makes. */
enum { NEAP_GENERATION = 1 };

struct neap_addr {
  uint8_t kind;   /* enum neap_addr_kind */
  uint8_t size;   /* IP: 0, 4 or 16 bytes of address */
  uint16_t port;  /* IP */
  uint32_t scope; /* IP version 6 */
  union {
    uint8_t bytes[16];
    uint64_t words[2]; /* the same bytes, to compare; unused ones are 0 */
    struct neap_slice raw; /* OTHER, SITE, SITE_MASTER: everything behind the kind byte */
  };
};

enum { NEAP_ADDR_TEXT = 64 };

static inline bool neap_addr_none(const struct neap_addr *a)
{
  return a->kind == NEAP_ADDR_NONE || (a->kind == NEAP_ADDR_OTHER && !a->raw.at);
}

static inline bool neap_addr_equal(const struct neap_addr *a, const struct neap_addr *b)
{
  if (a->kind != b->kind) return neap_addr_none(a) && neap_addr_none(b);
  if (a->kind == NEAP_ADDR_UUID || a->kind == NEAP_ADDR_IP)
    return a->words[0] == b->words[0] && a->words[1] == b->words[1] && a->port == b->port &&
           a->size == b->size;
  return a->raw.len == b->raw.len && (!a->raw.len || !memcmp(a->raw.at, b->raw.at, a->raw.len));
}

/* The order of the field: signed by high half, then by low half (merge leader, first client). */
int neap_addr_compare(const struct neap_addr *a, const struct neap_addr *b);

/* A new member address of this generation. */
struct neap_addr neap_addr_new(struct neap_random *random);

/* 0 for a member that is not Neap's, else its generation. */
unsigned neap_addr_generation(const struct neap_addr *a);

/* "01020304-0506-0708-1112-131415161718", "127.0.0.1:7600", "[::1]:7600", "none".  Returns `text`,
 * which has room for NEAP_ADDR_TEXT bytes. */
const char *neap_addr_text(const struct neap_addr *a, char *text);

/* Reads "239.7.7.7:7600" or "[ff02::1]:7600" (a place) or the text of a member address.  False when
 * it is neither. */
bool neap_addr_parse(const char *text, struct neap_addr *a);

void neap_read_addr(struct neap_reader *r, struct neap_addr *a);
void neap_write_addr(struct neap_writer *w, const struct neap_addr *a);

/* Passes over the content of an address object of this class; NEAP_FAULT_ADDRESS for another. */
void neap_skip_addr_class(struct neap_reader *r, uint16_t class);

/* The form without a kind byte that greetings and some headers use. */
void neap_read_ip(struct neap_reader *r, struct neap_addr *a);
void neap_write_ip(struct neap_writer *w, const struct neap_addr *a);

#endif
