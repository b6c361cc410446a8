/* bind_wire: packets, headers and payloads for the eyes of Lua (neap.dissect, neap.decode, specs).
 *
 * A `neap_wire` has a registry of every known header, one message and a place to write to.  Lua
 * opens a packet, steps through its messages and reads headers field by field, by the same rows
 * that decode and encode them; or fills a message and has it written.  Everything here is plain
 * calls and plain structs, declared once in NEAP_WIRE: as C below, as text for ffi.cdef. */

#ifndef NEAP_BIND_WIRE_H
#define NEAP_BIND_WIRE_H

#include "core/headers.h"
#include "core/packet.h"
#include "core/payload.h"

/* clang-format off */
#define NEAP_WIRE                                                                                  \
  struct neap_wire;                                                                                \
  struct neap_header;                                                                              \
  struct neap_wire_value { /* one field: its row, and what is in it */                             \
    const char *name, *doc, *form;                                                                 \
    const uint8_t *at; /* slices, and addresses of rare kinds; NULL: none */                       \
    int64_t number, second;                                                                        \
    int32_t len, kind, present, is_signed;                                                         \
    int32_t when; /* the earlier field that says if it is there; -1: always */                     \
    uint32_t when_mask; /* see core/header.h */                                                    \
    char text[64]; /* an address */                                                                \
  };                                                                                               \
  struct neap_wire_head { /* a message's or a table's struct, and the rows it is read by */        \
    const char *name, *doc;                                                                        \
    const struct neap_header *header;                                                              \
    void *head;                                                                                    \
    int32_t protocol, class_, fields, size;                                                        \
  };                                                                                               \
  struct neap_wire_message {                                                                       \
    const uint8_t *body;                                                                           \
    int32_t version, bits, left, own_source, type, flags, marks, len, headers;                     \
    int32_t stray_protocol, stray_below, skipped, cluster_len, rest;                               \
    const uint8_t *cluster;                                                                        \
    struct neap_wire_value dest, src, list_dest, list_src;                                         \
  };                                                                                               \
  struct neap_wire_cursor { const uint8_t *at, *end; int32_t fault; };                             \
                                                                                                   \
  struct neap_wire *neap_wire_new(void);                                                           \
  struct neap_wire *neap_wire_stack(const char *owners, char *why, int size);                      \
  void neap_wire_free(struct neap_wire *wire);                                                     \
  const char *neap_wire_fault(int fault);                                                          \
                                                                                                   \
  int neap_wire_open(struct neap_wire *wire, const char *bytes, int len, int version);             \
  void neap_wire_open_bare(struct neap_wire *wire, const char *bytes, int len, int type);          \
  int neap_wire_next(struct neap_wire *wire);                                                      \
  int neap_wire_try(struct neap_wire *wire, const char *bytes, int len, int type);                 \
  int neap_wire_short(struct neap_wire *wire, const char *bytes, int len, int32_t *written);       \
  void neap_wire_read(struct neap_wire *wire, struct neap_wire_message *message);                  \
  void neap_wire_header(struct neap_wire *wire, int n, struct neap_wire_head *head);               \
  void neap_wire_field(                                                                            \
    const struct neap_wire_head *head, int n, struct neap_wire_value *value);                      \
                                                                                                   \
  void neap_wire_begin(struct neap_wire *wire);                                                    \
  void neap_wire_fill(struct neap_wire *wire, int type, int flags, int marks, const char *body,    \
    int len);                                                                                      \
  int neap_wire_put(                                                                               \
    struct neap_wire *wire, int protocol, int class_, struct neap_wire_head *head);                \
  int neap_wire_set(struct neap_wire *wire, const struct neap_wire_head *head, int n,              \
    const struct neap_wire_value *value);                                                          \
  void neap_wire_list(struct neap_wire *wire, int version, const struct neap_wire_value *dest,     \
    const struct neap_wire_value *src, const char *cluster, int cluster_len);                      \
  void neap_wire_message_out(struct neap_wire *wire, const struct neap_wire_value *src);           \
  void neap_wire_single(struct neap_wire *wire, int version, const struct neap_wire_value *dest,   \
    const struct neap_wire_value *src);                                                            \
  void neap_wire_bare(struct neap_wire *wire, const struct neap_wire_value *dest,                  \
    const struct neap_wire_value *src);                                                            \
  void neap_wire_stack_out(struct neap_wire *wire);                                                \
  void neap_wire_out(struct neap_wire *wire, struct neap_wire_cursor *out);                        \
  int neap_wire_size(struct neap_wire *wire);                                                      \
                                                                                                   \
  int neap_wire_known(int n, struct neap_wire_head *head);                                         \
  int neap_wire_adopted(int n, struct neap_wire_head *head);                                       \
  const char *neap_wire_word(const struct neap_wire_head *head, int type);                         \
  int neap_wire_table(const char *name, struct neap_wire_head *head);                              \
  void neap_wire_table_read(                                                                       \
    struct neap_wire_cursor *cursor, const struct neap_wire_head *head);                           \
  void neap_wire_table_write(struct neap_wire *wire, const struct neap_wire_head *head);           \
  int neap_wire_form(const char *name);                                                            \
  void neap_wire_form_read(                                                                        \
    struct neap_wire_cursor *cursor, int form, struct neap_wire_value *value);                     \
  int neap_wire_form_write(                                                                        \
    struct neap_wire *wire, int form, const struct neap_wire_value *value);                        \
  void neap_wire_object_read(struct neap_wire_cursor *cursor, int dialect, int32_t *type,          \
    struct neap_wire_value *value, double *real);                                                  \
  void neap_wire_object_write(struct neap_wire *wire, int dialect, int type,                       \
    const struct neap_wire_value *value);
/* clang-format on */

#pragma GCC visibility push(default)
/* clang-format off */
NEAP_WIRE
/* clang-format on */
extern const char neap_wire_declarations[];
#pragma GCC visibility pop

enum { NEAP_WIRE_OUT = 1 << 20, NEAP_WIRE_ARENA = 1 << 17 };

struct neap_wire {
  struct neap_header *rows; /* of a registry for a stack; NULL: every known header */
  struct neap_registry registry;
  struct neap_registry ordered; /* the same slots, in the order in which headers were put */
  struct neap_packet packet;
  struct neap_arrival arrival;
  struct neap_msg *msg;
  uint8_t *out;
  struct neap_writer w;
  uint8_t *count_at; /* of the open list */
  uint32_t count;
  uint32_t arena_used;
  uint8_t *arena; /* slices that Lua gave */
};

/* ---- between the two files ---- */

void neap_wire_show_addr(struct neap_wire_value *value, const struct neap_addr *addr);
bool neap_wire_take_addr(const struct neap_wire_value *value, struct neap_addr *addr);
void neap_wire_show_head(
  struct neap_wire_head *head, const struct neap_header *header, void *memory);

#endif
