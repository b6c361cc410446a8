/* header: one field list gives everything.
 *
 * A header is declared once, as a list of fields with forms:
 *
 *     #define FIFO_HEAD(FIELD, WHEN) FIELD(clong, seq, "place in the sender's sequence")
 *     NEAP_HEADER(fifo_head, FIFO_HEAD)                  gives  struct fifo_head { uint64_t seq; }
 *                                                        and    fifo_head_fields[]
 *
 * The rows in fifo_head_fields drive encoder, decoder, pretty printer, dissector and fuzzer.  A
 * field that is there only sometimes says when, by an earlier field of the same header:
 *
 *     WHEN(clong, seqno, type, NEAP_IN(1) | NEAP_IN(3), "...")   type is 1 or 3
 *     WHEN(addr, merger, bits, NEAP_BITS(4), "...")               bits & 4
 *
 * A layer adopts headers by rows of `struct neap_header`, and gets `put` and `get` by NEAP_ADOPT
 * (core/layer.h), whose number counts the layer's headers, not the rows:
 *
 *     static const struct neap_header fifo_headers[] = {
 *       NEAP_HEADER_ROW("fifo", 1101, 1101, fifo_head, "one message's place"), {0}};
 *     NEAP_ADOPT(fifo_head, 0)            fifo_head_put(m, layer)  fifo_head_get(m, layer)
 *
 * Forms that vary in length arrive as slices of the packet, checked once by the decoder; iterators
 * in core/view.h, core/digest.h and below walk them without allocating.
 *
 *     form        C type               on the wire
 *     i8 u8 i16 u16 i32 u32 i64 flag   big-endian; flag: one byte, 0 or 1
 *     cint clong                       compressed, see base/bytes.h
 *     seq2        struct neap_seq2     two numbers, the second not below the first
 *     addr        struct neap_addr     kind byte and content
 *     ip          struct neap_addr     without kind byte; ip_opt: behind a flag, none when absent
 *     str         struct neap_slice    flag, then u16 length and bytes; none when absent
 *     utf         struct neap_slice    u16 length and bytes
 *     ascii       struct neap_slice    i16 length (-1 none) and bytes
 *     bytes       struct neap_slice    i32 length (-1 none) and bytes
 *     addrs       struct neap_slice    i16 count (-1 none) and addresses
 *     addrs32     struct neap_slice    i32 count and addresses
 *     view_id     struct neap_slice    address, clong;  view_id_opt: behind a flag
 *     view        struct neap_slice    view id, addrs;  view_opt: flag, flag is-merge, view
 *     merge_view  struct neap_slice    view, subviews
 *     subviews    struct neap_slice    i16 count, each: place, i64 number, i16 members, places
 *                                      (place: i16 index in the list; -1: an address follows)
 *     delta_view  struct neap_slice    two view ids, addrs that left, addrs that joined
 *     digest      struct neap_slice    addrs, a seq2 each;  digest_opt: behind a flag
 *     seq2s       struct neap_slice    i16 count, a seq2 each (a digest without members)
 *     seqnos      struct neap_slice    i32 bits, i64 first, ceil(bits/64) words
 *     frames      struct neap_slice    i16 count, each: str class, method and file, cint line */

#ifndef NEAP_CORE_HEADER_H
#define NEAP_CORE_HEADER_H

#include "core/addr.h"

struct neap_seq2 {
  uint64_t a, b;
};

/* FORM(name, C type): the forms and the C types they read into. */
#define NEAP_FORMS(FORM)                                                                           \
  FORM(i8, int8_t)                                                                                 \
  FORM(u8, uint8_t)                                                                                \
  FORM(i16, int16_t)                                                                               \
  FORM(u16, uint16_t)                                                                              \
  FORM(i32, int32_t)                                                                               \
  FORM(u32, uint32_t)                                                                              \
  FORM(i64, int64_t)                                                                               \
  FORM(flag, bool)                                                                                 \
  FORM(cint, uint32_t)                                                                             \
  FORM(clong, uint64_t)                                                                            \
  FORM(seq2, struct neap_seq2)                                                                     \
  FORM(addr, struct neap_addr)                                                                     \
  FORM(ip, struct neap_addr)                                                                       \
  FORM(ip_opt, struct neap_addr)                                                                   \
  FORM(str, struct neap_slice)                                                                     \
  FORM(utf, struct neap_slice)                                                                     \
  FORM(ascii, struct neap_slice)                                                                   \
  FORM(bytes, struct neap_slice)                                                                   \
  FORM(addrs, struct neap_slice)                                                                   \
  FORM(addrs32, struct neap_slice)                                                                 \
  FORM(view_id, struct neap_slice)                                                                 \
  FORM(view_id_opt, struct neap_slice)                                                             \
  FORM(view, struct neap_slice)                                                                    \
  FORM(view_opt, struct neap_slice)                                                                \
  FORM(merge_view, struct neap_slice)                                                              \
  FORM(subviews, struct neap_slice)                                                                \
  FORM(delta_view, struct neap_slice)                                                              \
  FORM(digest, struct neap_slice)                                                                  \
  FORM(digest_opt, struct neap_slice)                                                              \
  FORM(seq2s, struct neap_slice)                                                                   \
  FORM(seqnos, struct neap_slice)                                                                  \
  FORM(frames, struct neap_slice)

enum neap_form {
#define FORM(name, type) NEAP_FORM_##name,
  NEAP_FORMS(FORM)
#undef FORM
    NEAP_FORM_COUNT
};

#define FORM(name, type) typedef type neap_form_##name;
NEAP_FORMS(FORM)
#undef FORM

/* When a field is there: always (0); if bit v of the mask is set for the value v of the earlier
 * field (NEAP_IN); or, with the top bit set, if that field & mask (NEAP_BITS). */
#define NEAP_IN(value) ((uint32_t)1 << (value))
#define NEAP_BITS(mask) ((uint32_t)0x80000000u | (uint32_t)(mask))

struct neap_field {
  const char *name, *doc;
  uint16_t at;        /* offset in the header's struct */
  uint8_t form;       /* enum neap_form */
  uint8_t when_size;  /* of the earlier field: 1, 2 or 4 bytes */
  uint16_t when_at;   /* its offset */
  uint32_t when_mask; /* see above */
};

typedef const struct neap_field *neap_fields(unsigned *count);

/* A header somebody puts on the wire: a row of a layer's `headers`, or of core/headers.  Several
 * consecutive rows with the same `fields` are forms of one header: they share a slot, and the
 * message remembers which one it is. */
struct neap_header {
  const char *name;         /* the owner as `neap decode` shows it: "nakack" */
  uint16_t protocol, class; /* ids; ours are 1024 to 2047, users' from 2048 on */
  uint16_t size;            /* of the struct */
  neap_fields *fields;      /* or, for a header that is made at run time: */
  const char *doc;
  const struct neap_field *rows;
  unsigned row_count;
};

/* The field rows, wherever they come from. */
const struct neap_field *neap_header_fields(const struct neap_header *header, unsigned *count);
/* Equal rows: two forms of one header. */
bool neap_header_same(const struct neap_header *a, const struct neap_header *b);

/* Own headers carry a u16 body length behind the class id, so that strangers can skip them. */
enum { NEAP_OWN_HEADERS = 1024, NEAP_USER_HEADERS = 2048 };

static inline bool neap_header_own(uint16_t protocol, uint16_t class)
{
  return protocol >= NEAP_OWN_HEADERS && class >= NEAP_OWN_HEADERS;
}

/* Bytes of the largest header's struct: a header that is only skipped is read into as many. */
enum { NEAP_HEADER_MAX = 512 };

#define NEAP_MEMBER(form, name, doc) neap_form_##form name;
#define NEAP_MEMBER_WHEN(form, name, on, when, doc) neap_form_##form name;
#define NEAP_ROW(form, name, doc)                                                                  \
  {#name, doc, offsetof(neap_here, name), NEAP_FORM_##form, 0, 0, 0},
#define NEAP_ROW_WHEN(form, name, on, when, doc)                                                   \
  {#name, doc, offsetof(neap_here, name), NEAP_FORM_##form, sizeof(((neap_here *)0)->on),          \
    offsetof(neap_here, on), when},

/* Gives `struct head` and `head_fields`. */
#define NEAP_HEADER(head, LIST)                                                                    \
  struct head {                                                                                    \
    LIST(NEAP_MEMBER, NEAP_MEMBER_WHEN)                                                            \
  };                                                                                               \
  static inline const struct neap_field *head##_fields(unsigned *count)                            \
  {                                                                                                \
    typedef struct head neap_here;                                                                 \
    static const struct neap_field rows[] = {LIST(NEAP_ROW, NEAP_ROW_WHEN)};                       \
    *count = sizeof rows / sizeof *rows;                                                           \
    return rows;                                                                                   \
  }

/* A header without fields (heartbeats): its struct needs a member in C, which never travels. */
#define NEAP_HEADER_EMPTY(head)                                                                    \
  struct head {                                                                                    \
    uint8_t unused;                                                                                \
  };                                                                                               \
  static inline const struct neap_field *head##_fields(unsigned *count)                            \
  {                                                                                                \
    *count = 0;                                                                                    \
    return NULL;                                                                                   \
  }

#define NEAP_HEADER_ROW(owner, protocol, class, head, doc)                                         \
  {owner, protocol, class, sizeof(struct head), head##_fields, doc, NULL, 0}

#endif
