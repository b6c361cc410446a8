/* bind_shape: the declarations that FFI reads, made from the real ones.
 *
 * A struct is written down here as the fields that Lua touches; where they are and how large the
 * whole is the compiler says, and what lies between becomes padding.  So a struct of the core can
 * change without anybody keeping a copy in step. */

#include "bind/bind.h"

#include <string.h>

struct shape {
  const char *name;  /* of the struct, where a new one begins; else NULL */
  const char *field; /* as declared */
  size_t at, size;
};

/* clang-format off */
#define BEGIN(type) {#type, NULL, 0, sizeof(struct type)},
#define FIELD(type, member, text)                                                                  \
  {NULL, text, offsetof(struct type, member), sizeof(((struct type *)0)->member)},

#define FLEXIBLE(type, member, text) {NULL, text, offsetof(struct type, member), 0},

static const struct shape shapes[] = {
  BEGIN(neap_slice)
  FIELD(neap_slice, at, "const char *at")
  FIELD(neap_slice, len, "uint32_t len")

  BEGIN(neap_seq2)
  FIELD(neap_seq2, a, "uint64_t a")
  FIELD(neap_seq2, b, "uint64_t b")

  BEGIN(neap_addr)
  FIELD(neap_addr, kind, "uint8_t kind")
  FIELD(neap_addr, size, "uint8_t size")
  FIELD(neap_addr, port, "uint16_t port")
  FIELD(neap_addr, words, "uint64_t words[2]")

  BEGIN(neap_peer)
  FIELD(neap_peer, addr, "struct neap_addr addr")
  FIELD(neap_peer, name, "char name[64]")
  FIELD(neap_peer, slot, "uint32_t slot")
  FIELD(neap_peer, generation, "uint8_t generation")
  FIELD(neap_peer, self, "bool self")

  BEGIN(neap_msg)
  FIELD(neap_msg, next, "struct neap_msg *next")
  FIELD(neap_msg, present, "uint64_t present")
  FIELD(neap_msg, from, "struct neap_peer *from")
  FIELD(neap_msg, to, "struct neap_peer *to")
  FIELD(neap_msg, body, "const char *body")
  FIELD(neap_msg, len, "uint32_t len")
  FIELD(neap_msg, seqno, "uint64_t seqno")
  FIELD(neap_msg, flags, "uint16_t flags")
  FIELD(neap_msg, type, "uint8_t type")
  FIELD(neap_msg, marks, "uint8_t marks")

  BEGIN(neap_box)
  FIELD(neap_box, m, "struct neap_msg *m")
  FIELD(neap_box, place, "double place")

  BEGIN(neap_batch)
  FIELD(neap_batch, first, "struct neap_msg *first")
  FIELD(neap_batch, last, "struct neap_msg *last")
  FIELD(neap_batch, count, "uint32_t count")
  FIELD(neap_batch, bytes, "uint32_t bytes")

  BEGIN(neap_view)
  FIELD(neap_view, count, "uint32_t count")
  FIELD(neap_view, number, "uint64_t number")
  FIELD(neap_view, members, "struct neap_peer **members")
  FIELD(neap_view, joined, "struct neap_peer **joined")
  FIELD(neap_view, left, "struct neap_peer **left")
  FIELD(neap_view, joined_count, "uint32_t joined_count")
  FIELD(neap_view, left_count, "uint32_t left_count")
  FIELD(neap_view, merged, "bool merged")

  BEGIN(neap_found_row)
  FIELD(neap_found_row, peer, "struct neap_peer *peer")
  FIELD(neap_found_row, place, "struct neap_addr place")
  FIELD(neap_found_row, bits, "uint8_t bits")

  BEGIN(neap_found)
  FIELD(neap_found, count, "uint32_t count")
  FLEXIBLE(neap_found, rows, "struct neap_found_row rows[0]")

  BEGIN(neap_note)
  FIELD(neap_note, kind, "uint8_t kind")
  FIELD(neap_note, code, "int code")
  FIELD(neap_note, ticket, "uint32_t ticket")
  FIELD(neap_note, time, "uint64_t time")
  FIELD(neap_note, number, "uint64_t number")
  FIELD(neap_note, peer, "struct neap_peer *peer")
  FIELD(neap_note, view, "struct neap_view *view")
  FIELD(neap_note, found, "struct neap_found *found")
  FIELD(neap_note, msg, "struct neap_msg *msg")
  FIELD(neap_note, text, "char text[160]")

  BEGIN(neap_inbox)
  FIELD(neap_inbox, peer, "struct neap_peer *peer")
  FIELD(neap_inbox, first, "struct neap_msg *first")
  FIELD(neap_inbox, count, "uint32_t count")
  FIELD(neap_inbox, allowed, "uint32_t allowed")
  FIELD(neap_inbox, busy, "bool busy")

  BEGIN(neap_row)
  FIELD(neap_row, note, "struct neap_note *note")
  FIELD(neap_row, inbox, "struct neap_inbox *inbox")
  FIELD(neap_row, count, "uint32_t count")

  BEGIN(neap_state_do)
  FIELD(neap_state_do, ticket, "uint32_t ticket")
  FIELD(neap_state_do, peer, "struct neap_peer *peer")
  FIELD(neap_state_do, bytes, "const char *bytes")
  FIELD(neap_state_do, len, "uint32_t len")
  FIELD(neap_state_do, time, "uint64_t time")

  BEGIN(neap_send)
  FIELD(neap_send, to, "struct neap_peer *to")
  FIELD(neap_send, body, "const char *body")
  FIELD(neap_send, len, "uint32_t len")
  FIELD(neap_send, null_body, "bool null_body")
  FIELD(neap_send, flags, "unsigned flags")
  FIELD(neap_send, no_loopback, "bool no_loopback")
  FIELD(neap_send, rsvp, "bool rsvp")
  FIELD(neap_send, ack_on, "uint8_t ack_on")
  FIELD(neap_send, timeout, "uint64_t timeout")

  BEGIN(neap_stack)
  FIELD(neap_stack, world, "struct neap_world *world")
  FIELD(neap_stack, count, "uint32_t count")
  FIELD(neap_stack, self, "struct neap_peer *self")
  FIELD(neap_stack, view, "struct neap_view *view")
  FIELD(neap_stack, msgs_out, "uint32_t msgs_out")
  FIELD(neap_stack, paused, "bool paused")
  FIELD(neap_stack, max_body, "uint64_t max_body")

  BEGIN(neap_channel)
  FIELD(neap_channel, stack, "struct neap_stack *stack")
  FIELD(neap_channel, state, "uint8_t state")
  FIELD(neap_channel, name, "char name[64]")
  FIELD(neap_channel, cluster, "char cluster[64]")
  FIELD(neap_channel, rx_bytes, "uint64_t rx_bytes")
  FIELD(neap_channel, rx_limit, "uint64_t rx_limit")
  FIELD(neap_channel, id, "uint32_t id")

  BEGIN(neap_world)
  FIELD(neap_world, now, "uint64_t now")
  FIELD(neap_world, turn, "uint64_t turn")
  FIELD(neap_world, seed, "uint64_t seed")
  FIELD(neap_world, checking, "bool checking")
  FIELD(neap_world, slab_count, "uint32_t slab_count")
  FIELD(neap_world, slab_out, "uint32_t slab_out")
  FIELD(neap_world, fail_at, "uint64_t fail_at")

  BEGIN(neap_value)
  FIELD(neap_value, type, "uint8_t type")
  FIELD(neap_value, number, "uint64_t number")
  FIELD(neap_value, real, "double real")
  FIELD(neap_value, text, "const char *text")

  BEGIN(neap_reading)
  FIELD(neap_reading, kind, "uint8_t kind")
  FIELD(neap_reading, type, "uint8_t type")
  FIELD(neap_reading, live, "uint8_t live")
  FIELD(neap_reading, unit, "uint8_t unit")
  FIELD(neap_reading, number, "uint64_t number")
  FIELD(neap_reading, real, "double real")
  FIELD(neap_reading, text, "char text[256]")

  BEGIN(neap_attr)
  FIELD(neap_attr, kind, "uint8_t kind")
  FIELD(neap_attr, name, "const char *name")
  FIELD(neap_attr, at, "uint16_t at")
  FIELD(neap_attr, unit, "const char *unit")
  FIELD(neap_attr, value, "uint64_t value")
  FIELD(neap_attr, min, "uint64_t min")
  FIELD(neap_attr, max, "uint64_t max")
  FIELD(neap_attr, type, "uint8_t type")
  FIELD(neap_attr, live, "uint8_t live")
  FIELD(neap_attr, choices, "const char *choices")
  FIELD(neap_attr, words, "const char *words")
  FIELD(neap_attr, text, "const char *text")
  FIELD(neap_attr, doc, "const char *doc")
  FIELD(neap_attr, or_zero, "bool or_zero")

  BEGIN(neap_change)
  FIELD(neap_change, layer, "struct neap_layer *layer")
  FIELD(neap_change, attr, "const struct neap_attr *attr")
  FIELD(neap_change, value, "struct neap_value value")
  FIELD(neap_change, own, "bool own")

  BEGIN(neap_set)
  FIELD(neap_set, changes, "const struct neap_change *changes")
  FIELD(neap_set, count, "unsigned count")
  FIELD(neap_set, undo, "bool undo")
  FIELD(neap_set, timeout, "uint64_t timeout")

  BEGIN(neap_journal_row)
  FIELD(neap_journal_row, set, "uint64_t set")
  FIELD(neap_journal_row, time, "uint64_t time")
  FIELD(neap_journal_row, epoch, "uint64_t epoch")
  FIELD(neap_journal_row, by, "const char *by")
  FIELD(neap_journal_row, layer, "const char *layer")
  FIELD(neap_journal_row, attr, "const char *attr")
  FIELD(neap_journal_row, from, "const char *from")
  FIELD(neap_journal_row, to, "const char *to")
  FIELD(neap_journal_row, live, "uint8_t live")
  FIELD(neap_journal_row, mine, "bool mine")
  FIELD(neap_journal_row, was_own, "bool was_own")
  FIELD(neap_journal_row, undo, "bool undo")
  FIELD(neap_journal_row, undone, "bool undone")

  BEGIN(neap_setting)
  FIELD(neap_setting, attr, "const char *attr")
  FIELD(neap_setting, text, "const char *text")
  FIELD(neap_setting, number, "double number")
  FIELD(neap_setting, is_number, "bool is_number")
  FIELD(neap_setting, line, "uint32_t line")

  BEGIN(neap_layer_spec)
  FIELD(neap_layer_spec, class, "const struct neap_class *class")
  FIELD(neap_layer_spec, as, "const char *as")
  FIELD(neap_layer_spec, line, "uint32_t line")
  FIELD(neap_layer_spec, settings, "const struct neap_setting *settings")
  FIELD(neap_layer_spec, setting_count, "uint32_t setting_count")

  BEGIN(neap_stack_spec)
  FIELD(neap_stack_spec, name, "const char *name")
  FIELD(neap_stack_spec, file, "const char *file")
  FIELD(neap_stack_spec, layers, "const struct neap_layer_spec *layers")
  FIELD(neap_stack_spec, count, "uint32_t count")
  FIELD(neap_stack_spec, partial, "bool partial")

  BEGIN(neap_field)
  FIELD(neap_field, name, "const char *name")
  FIELD(neap_field, doc, "const char *doc")
  FIELD(neap_field, at, "uint16_t at")
  FIELD(neap_field, form, "uint8_t form")
  FIELD(neap_field, when_size, "uint8_t when_size")
  FIELD(neap_field, when_at, "uint16_t when_at")
  FIELD(neap_field, when_mask, "uint32_t when_mask")

  BEGIN(neap_header)
  FIELD(neap_header, name, "const char *name")
  FIELD(neap_header, protocol, "uint16_t protocol")
  FIELD(neap_header, class, "uint16_t class")
  FIELD(neap_header, size, "uint16_t size")
  FIELD(neap_header, doc, "const char *doc")
  FIELD(neap_header, rows, "const struct neap_field *rows")
  FIELD(neap_header, row_count, "unsigned row_count")

  BEGIN(neap_op)
  FIELD(neap_op, name, "const char *name")
  FIELD(neap_op, doc, "const char *doc")
  FIELD(neap_op, run, "void *run")

  BEGIN(neap_class)
  FIELD(neap_class, name, "const char *name")
  FIELD(neap_class, doc, "const char *doc")
  FIELD(neap_class, needs, "const char *needs")
  FIELD(neap_class, hears, "const char *hears")
  FIELD(neap_class, gives, "const char *gives")
  FIELD(neap_class, breaks, "const char *breaks")
  FIELD(neap_class, abi, "uint32_t abi")
  FIELD(neap_class, size, "size_t size")
  FIELD(neap_class, peer_size, "size_t peer_size")
  FIELD(neap_class, peer_gone, "void *peer_gone")
  FIELD(neap_class, headers, "const struct neap_header *headers")
  FIELD(neap_class, attrs, "const struct neap_attr *attrs")
  FIELD(neap_class, ops, "const struct neap_op *ops")
  FIELD(neap_class, open, "void *open")
  FIELD(neap_class, down, "void *down")
  FIELD(neap_class, up, "void *up")
  FIELD(neap_class, event, "void *event")
  FIELD(neap_class, ask, "void *ask")
  FIELD(neap_class, still, "void *still")
  FIELD(neap_class, may, "void *may")
  FIELD(neap_class, changed, "void *changed")
  FIELD(neap_class, close, "void *close")
  FIELD(neap_class, check, "void *check")

  BEGIN(neap_layer)
  FIELD(neap_layer, class, "const struct neap_class *class")
  FIELD(neap_layer, stack, "struct neap_stack *stack")
  FIELD(neap_layer, name, "const char *name")
  FIELD(neap_layer, view, "struct neap_view *view")
  FIELD(neap_layer, position, "uint8_t position")
  FIELD(neap_layer, slots, "uint8_t slots[6]")
  FIELD(neap_layer, at, "uint32_t at[6]")

  BEGIN(neap_event)
  FIELD(neap_event, kind, "uint8_t kind")
  FIELD(neap_event, query, "bool query")
  FIELD(neap_event, answered, "bool answered")
  FIELD(neap_event, none, "bool none")
  FIELD(neap_event, flag, "bool flag")
  FIELD(neap_event, code, "int code")
  FIELD(neap_event, ticket, "uint32_t ticket")
  FIELD(neap_event, number, "uint64_t number")
  FIELD(neap_event, time, "uint64_t time")
  FIELD(neap_event, peer, "struct neap_peer *peer")
  FIELD(neap_event, view, "struct neap_view *view")
  FIELD(neap_event, text, "char text[160]")

  BEGIN(neap_timer)
  FIELD(neap_timer, at, "uint64_t at")
  FIELD(neap_timer, armed, "bool armed")

  BEGIN(neap_bind_layer)
  FIELD(neap_bind_layer, layer, "struct neap_layer layer")
  FIELD(neap_bind_layer, up, "int up")
  FIELD(neap_bind_layer, down, "int down")
  FIELD(neap_bind_layer, call, "int call")
  FIELD(neap_bind_layer, failed, "bool failed")
  FIELD(neap_bind_layer, number, "uint32_t number")
  FIELD(neap_bind_layer, in, "struct neap_batch batch")
  FIELD(neap_bind_layer, rising, "struct neap_batch rising")
  FIELD(neap_bind_layer, falling, "struct neap_batch falling")
  FIELD(neap_bind_layer, event, "struct neap_event *event")
  FIELD(neap_bind_layer, event_up, "bool event_up")
  FIELD(neap_bind_layer, peer, "struct neap_peer *peer")
  FIELD(neap_bind_layer, value, "const struct neap_value *value")
  FIELD(neap_bind_layer, timers, "struct neap_timer timers[8]")
  FIELD(neap_bind_layer, values,
    "union { uint64_t number; double real; char *text; bool flag; } values[32]")
};
/* clang-format on */

_Static_assert(NEAP_NAME_MAX == 64 && NEAP_EVENT_TEXT == 160 && NEAP_LAYER_HEADERS == 6 &&
                 NEAP_BIND_TIMERS == 8 && NEAP_BIND_ATTRS == 32,
  "the texts above have these numbers in them");

#define X(result, name, arguments) #result " " #name " " #arguments ";\n"
static const char bindings[] = NEAP_BINDINGS(X);
#undef X
#define X(result, name, arguments) #result " neap_bind_layer_" #name " " #arguments ";\n"
static const char layer_functions[] = NEAP_BIND_LAYER_FUNCTIONS(X);
#undef X

static void pad(luaL_Buffer *b, size_t from, size_t to)
{
  char text[64];
  if (to == from) return;
  snprintf(text, sizeof text, "  char pad_%zu[%zu];\n", from, to - from);
  luaL_addstring(b, text);
}

/* core.shape(): the text. */
int neap_bind_shape(lua_State *L)
{
  const size_t count = sizeof shapes / sizeof *shapes;
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (size_t i = 0; i < count;) {
    const struct shape *whole = &shapes[i++];
    size_t at = 0;
    luaL_addstring(&b, "struct ");
    luaL_addstring(&b, whole->name);
    luaL_addstring(&b, " {\n");
    for (; i < count && !shapes[i].name; i++) {
      NEAP_ASSERT(shapes[i].at >= at); /* the fields are in the order of the struct */
      pad(&b, at, shapes[i].at);
      luaL_addstring(&b, "  ");
      luaL_addstring(&b, shapes[i].field);
      luaL_addstring(&b, ";\n");
      at = shapes[i].at + shapes[i].size;
    }
    pad(&b, at, whole->size);
    luaL_addstring(&b, "};\n");
  }
  luaL_addstring(&b, bindings);
  luaL_addstring(&b, layer_functions);
  luaL_pushresult(&b);
  return 1;
}

/* core.shapes(): { struct, field as declared or "", offset, size, struct, ... }, to compare with
 * what FFI made of the text. */
int neap_bind_shapes(lua_State *L)
{
  const char *name = "";
  int n = 0;
  lua_newtable(L);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    if (shapes[i].name) name = shapes[i].name;
    lua_pushstring(L, name);
    lua_rawseti(L, -2, ++n);
    lua_pushstring(L, shapes[i].name ? "" : shapes[i].field);
    lua_rawseti(L, -2, ++n);
    lua_pushinteger(L, (lua_Integer)shapes[i].at);
    lua_rawseti(L, -2, ++n);
    lua_pushinteger(L, (lua_Integer)shapes[i].size);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}
