/* packet: the JGroups 5 packet, in and out.
 *
 *   0  u16  version: 5 bits major, 5 minor, 6 micro; major and minor must be equal
 *   2  u8   1 = message list, 2 = multicast
 *   3       list: addr destination, addr source, ascii cluster, i32 count, then each
 *           i16 type and message; single: i16 type and message
 *   message u8 leading (1 destination, 2 source), i16 flags, [addr], [addr], i16 headers,
 *           each i16 protocol, i16 class, body (ids from 1024: u16 length first), payload by type
 *
 * Decoding is total: any bytes give messages or a counted reason.  It allocates nothing: the caller
 * brings descriptors, bodies and variable fields are slices of the packet.  Every length is checked
 * before it is used; a count is never trusted beyond the bytes that are there. */

#ifndef NEAP_CORE_PACKET_H
#define NEAP_CORE_PACKET_H

#include "core/pattern.h"

enum {
  NEAP_VERSION = 5 << 11 | 5 << 6 | 6, /* 5.5.6 */
  NEAP_PACKET_LIST = 1,
  NEAP_PACKET_MULTICAST = 2,
};

/* ---- in ---- */

struct neap_packet {
  struct neap_reader r;
  const struct neap_registry *registry;
  uint16_t version;
  uint8_t bits;
  uint8_t type;              /* of a bare message */
  bool own_source;           /* the message just read carries a source of its own */
  bool bare;                 /* a message alone, without head and type */
  int32_t left;              /* messages still to come */
  struct neap_addr dest, src; /* of the list; then of each message, see neap_packet_next */
  struct neap_slice cluster; /* of the list; {NULL} when single */
  struct neap_patterns *patterns; /* NULL, or the short way for messages alike: core/pattern.h */
};

/* Reads up to the first message.  False: nothing can be read; the reason is in p->r.fault.
 * `version` is ours: another major.minor is NEAP_FAULT_VERSION. */
bool neap_packet_open(struct neap_packet *p, const struct neap_registry *registry,
  const uint8_t *bytes, size_t len, uint16_t version);

/* The same for a message alone, without the packet's head and without a type, as failure detectors
 * send it on their own connections. */
void neap_packet_open_bare(struct neap_packet *p, const struct neap_registry *registry,
  const uint8_t *bytes, size_t len, enum neap_msg_type type);

/* What one message carried that its descriptor has no place for. */
struct neap_arrival {
  struct neap_addr dest, src;         /* own, or those of the list; kind none if neither */
  uint16_t stray_protocol;            /* a known header whose layer is not here; 0: none */
  uint16_t skipped;                   /* own headers that nobody here knows */
  uint8_t order[NEAP_SLOTS_MAX];      /* slots in the order they came, for writing them again */
  uint8_t order_count;
};

/* Fills `m` (head, flags, marks, type, body; from and to stay as they are) with the next message.
 * The body and the slices in headers point into the packet; the caller takes the slab.  False at
 * the end, or at a fault.
 *
 * A known header whose layer is not in the registry marks the message NEAP_STRAY: stray_below is
 * the position of the last layer that may see it, 255 when there is none.  Own headers that nobody
 * knows are skipped without a mark. */
bool neap_packet_next(struct neap_packet *p, struct neap_msg *m, struct neap_arrival *arrival);

/* The next messages of a list, as many as are alike, `most` at most: their addresses are the
 * list's, and nothing about them is worth an arrival.  Returns how many went into the batch. */
static inline uint32_t neap_packet_run(
  struct neap_packet *p, uint32_t most, const struct neap_arrivals *arrivals,
  struct neap_batch *batch)
{
  if (most > (uint32_t)p->left) most = (uint32_t)p->left;
  uint32_t count = neap_patterns_run(p->patterns, &p->r, most, arrivals, batch);
  p->left -= (int32_t)count;
  return count;
}

/* ---- out ---- */

/* Opens a list; returns where its count stands, for neap_packet_close; NULL when it does not fit.
 * dest NULL: multicast. */
uint8_t *neap_packet_list(struct neap_writer *w, uint16_t version, const struct neap_addr *dest,
  const struct neap_addr *src, const char *cluster, size_t cluster_len);

/* Writes the count behind the messages. */
void neap_packet_close(uint8_t *count_at, uint32_t count);

/* Writes the packet head and one message, as a packet of its own. */
void neap_packet_single(struct neap_writer *w, uint16_t version,
  const struct neap_registry *registry, const struct neap_msg *m, const struct neap_addr *dest,
  const struct neap_addr *src);

/* Writes one message as it stands in a list (type first, no destination; a source only if `src`).
 * Headers in the registry's order, or in `order` if that is given (to write a packet again). */
void neap_packet_message(struct neap_writer *w, const struct neap_registry *registry,
  const struct neap_msg *m, const struct neap_addr *src, const uint8_t *order, unsigned count);

/* Writes a message alone, without head and type. */
void neap_packet_bare(struct neap_writer *w, const struct neap_registry *registry,
  const struct neap_msg *m, const struct neap_addr *dest, const struct neap_addr *src);

/* Bytes that neap_packet_message would write without a source; an upper bound, never below. */
uint32_t neap_packet_size(const struct neap_registry *registry, const struct neap_msg *m);

/* Beyond that neap_packet_single writes at most this many: the packet's head and two addresses. */
enum { NEAP_PACKET_SINGLE = 3 + 2 * 24 };

/* ---- one header, or anything else that is a list of fields: csrc/core/header.c ---- */

void neap_header_read(struct neap_reader *r, const struct neap_header *header, void *head);
void neap_header_write(struct neap_writer *w, const struct neap_header *header, const void *head);
bool neap_field_present(const struct neap_field *field, const void *head);
/* The value of a field whose form is a number. */
bool neap_field_is_number(unsigned form);
int64_t neap_field_number(const struct neap_field *field, const void *head);

/* The struct is zeroed before reading: fields that are not there are 0 and none. */
void neap_fields_read(
  struct neap_reader *r, const struct neap_field *fields, unsigned count, void *head);
void neap_fields_write(
  struct neap_writer *w, const struct neap_field *fields, unsigned count, const void *head);
/* Bytes that would be written; an upper bound, never below. */
uint32_t neap_fields_size(const struct neap_field *fields, unsigned count, const void *head);

/* One field alone: csrc/core/form.c. */
void neap_form_read(struct neap_reader *r, enum neap_form form, void *at);
void neap_form_write(struct neap_writer *w, enum neap_form form, const void *at);
uint32_t neap_form_size(enum neap_form form, const void *at);

#endif
