/* bind: the border between C and Lua.
 *
 * Two roads lead over it.  What neither runs a turn nor raises is a plain function that Lua reaches
 * by FFI (NEAP_BINDINGS); what can run a turn, and so a layer written in Lua, is a lua_CFunction,
 * because an FFI call that comes back into Lua crashes compiled code.
 *
 *     Lua drives:   core.step(world)  ->  turns  ->  layers in C
 *                                            \-> layers in Lua, by lua_pcall
 *     then takes what waits, by FFI, and calls the application, never from inside C
 *
 * A world is a userdata.  Its environment table holds what its Lua layers need, so that worlds and
 * layers that only know each other can be collected together.  No Lua value lives in a C static.
 *
 * The declarations that FFI reads are made here, from the real structs: see bind_shape.c. */

#ifndef NEAP_BIND_BIND_H
#define NEAP_BIND_BIND_H

#include "core/channel.h"
#include "core/layer.h"

#include <lauxlib.h>
#include <lua.h>

#define NEAP_EXPORT __attribute__((visibility("default")))

/* Messages that one sender's callback has in hand: freed when it returns, or with the world. */
struct neap_hand {
  struct neap_hand *next;
  struct neap_bind *bind;
  struct neap_channel *channel;
  struct neap_batch batch;
};

/* A channel's `host`. */
struct neap_bind_channel {
  struct neap_bind_channel *next;
  struct neap_channel *channel;
  struct neap_note *view; /* the note of the last view: it keeps view and peers alive */
};

/* The payload of a world's userdata, and the world's `host`. */
struct neap_bind {
  struct neap_world *world; /* NULL once freed */
  lua_State *L;             /* who is inside C right now; NULL: nobody */
  int env;                  /* where its stack has the environment table */
  uint32_t last_id;         /* of a channel */
  struct neap_bind_channel *channels;
  struct neap_hand *hands;
};

/* A message as Lua holds it; `m` NULL: no longer valid.  No padding: compiled code makes it. */
struct neap_box {
  struct neap_msg *m;
  double place; /* among those a layer holds, from 1; 0: not held */
};

/* An attribute's value on its way to Lua. */
struct neap_reading {
  uint8_t kind; /* enum neap_attr_kind */
  uint8_t type; /* enum neap_attr_type */
  uint8_t live; /* enum neap_live */
  uint8_t unit; /* 0 plain, 1 time, 2 size */
  uint64_t number;
  double real;
  char text[256]; /* as neap_attr_text says it */
};

enum { NEAP_BIND_TIMERS = 8, NEAP_BIND_ATTRS = 32 };

/* What a Lua layer is called for. */
enum neap_errand {
  NEAP_ERRAND_UP = 1,
  NEAP_ERRAND_DOWN,
  NEAP_ERRAND_EVENT,
  NEAP_ERRAND_TIMER,
  NEAP_ERRAND_CHANGED,
  NEAP_ERRAND_MAY,
  NEAP_ERRAND_GONE,
  NEAP_ERRAND_STILL,
  NEAP_ERRAND_CHECK,
  NEAP_ERRAND_OP,
  NEAP_ERRAND_OPEN,
  NEAP_ERRAND_CLOSE,
};

/* An instance of a layer written in Lua. */
struct neap_bind_layer {
  struct neap_layer layer;
  struct neap_bind *bind;
  int up, down, call; /* functions in the environment table; 0: none */
  bool running, failed;
  char why[256];                     /* what it failed of: file, line and problem */
  uint32_t number;                   /* of the timer or attribute that the call is about */
  struct neap_batch in;              /* what `up` and `down` were called with */
  struct neap_batch rising, falling; /* what the layer passes on, in order */
  struct neap_event *event;
  bool event_up;
  struct neap_peer *peer;
  const struct neap_value *value;
  const char *argument; /* of an operation */
  char *answer;
  size_t answer_size;
  struct neap_timer timers[NEAP_BIND_TIMERS];
  union {
    uint64_t number;
    double real;
    char *text;
    bool flag;
  } values[NEAP_BIND_ATTRS]; /* the attributes, mirrored from the Lua object */
};

/* X(result, name, arguments): what Lua calls by FFI.  No uint32_t results: compiled code reads 64
 * bits of them. */
#define NEAP_BINDINGS(X)                                                                           \
  X(void, neap_bind_msg_free, (struct neap_msg * m))                                               \
  X(struct neap_msg *, neap_bind_msg_clone, (struct neap_msg * m))                                 \
  X(struct neap_msg *, neap_bind_msg_own,                                                          \
    (struct neap_layer * layer, struct neap_peer * to, int flags))                                 \
  X(void, neap_bind_msg_body, (struct neap_msg * m, const char *bytes, int len))                   \
  X(void, neap_bind_put, (struct neap_batch * batch, struct neap_msg * m))                         \
  X(struct neap_msg *, neap_bind_take, (struct neap_batch * batch))                                \
  X(void, neap_bind_batch_free, (struct neap_batch * batch))                                       \
  X(struct neap_channel *, neap_bind_next, (struct neap_world * world, struct neap_row * row))     \
  X(struct neap_hand *, neap_bind_hand_new, (struct neap_channel * channel))                       \
  X(struct neap_msg *, neap_bind_hand_take, (struct neap_hand * hand, int slot))                   \
  X(void, neap_bind_hand_done, (struct neap_hand * hand))                                          \
  X(void, neap_bind_hand_free, (struct neap_hand * hand))                                          \
  X(struct neap_inbox *, neap_bind_waiting, (struct neap_channel * channel, uint32_t * slot))      \
  X(void, neap_bind_note_free, (struct neap_note * note))                                          \
  X(struct neap_journal_row *, neap_bind_journal, (struct neap_channel * channel, int back))       \
  X(void, neap_bind_journal_undone, (struct neap_channel * channel, uint64_t set))                 \
  X(int, neap_bind_state,                                                                          \
    (struct neap_channel * channel, int word, const struct neap_state_do *what))                   \
  X(void, neap_bind_drained, (struct neap_channel * channel, uint64_t number, int code))           \
  X(void, neap_bind_policy, (struct neap_channel * channel, bool on))                              \
  X(int, neap_bind_ordered,                                                                        \
    (struct neap_channel * channel, uint64_t number, const uint16_t *places, int count))           \
  X(double, neap_bind_send, (struct neap_channel * channel, const struct neap_send *send))         \
  X(double, neap_bind_flush_sent,                                                                  \
    (struct neap_channel * channel, struct neap_peer * to, uint64_t timeout))                      \
  X(bool, neap_bind_room, (struct neap_channel * channel, struct neap_peer * peer))                \
  X(void, neap_bind_view_keep, (struct neap_channel * channel, struct neap_note * note))           \
  X(void, neap_bind_view_text, (struct neap_view * view, char *text, int size))                    \
  X(struct neap_peer *, neap_bind_peer_ref, (struct neap_peer * peer))                             \
  X(void, neap_bind_peer_unref, (struct neap_peer * peer))                                         \
  X(void, neap_bind_addr_text, (const struct neap_addr *addr, char *text))                         \
  X(const char *, neap_bind_code_text, (int code))                                                 \
  X(const char *, neap_bind_event_name, (int kind))                                                \
  X(const char *, neap_bind_live_text, (int live))                                                 \
  X(struct neap_layer *, neap_bind_layer_at, (struct neap_channel * channel, int position))        \
  X(struct neap_layer *, neap_bind_layer_of, (struct neap_channel * channel, const char *name))    \
  X(const struct neap_attr *, neap_bind_attr_find,                                                 \
    (const struct neap_class *class, const char *name))                                            \
  X(void, neap_bind_attr_value,                                                                    \
    (const struct neap_attr *attr, const struct neap_value *value, struct neap_reading *reading))  \
  X(void, neap_bind_attr_unknown,                                                                  \
    (const struct neap_class *class, const char *layer, const char *name, char *why, int size))    \
  X(void, neap_bind_attr_read,                                                                     \
    (const struct neap_layer *layer, const struct neap_attr *attr, struct neap_reading *reading))  \
  X(int, neap_bind_attr_parse,                                                                     \
    (const struct neap_attr *attr, const char *text, struct neap_value *value, char *why,          \
      int size))                                                                                   \
  X(int, neap_bind_attr_number,                                                                    \
    (const struct neap_attr *attr, double number, struct neap_value *value, char *why, int size))  \
  X(int, neap_bind_quantity_parse,                                                                 \
    (const char *text, const char *unit, uint64_t *number, char *why, int size))                   \
  X(void, neap_bind_quantity_text, (uint64_t number, const char *unit, char *text, int size))      \
  X(const struct neap_class *, neap_bind_class, (int index))                                       \
  X(const char *, neap_bind_word, (int index, const char **doc))                                   \
  X(void, neap_bind_nearest, (const char *wanted, const char *words, char *text, int size))        \
  X(void, neap_bind_flush, (struct neap_bind_layer * layer))                                       \
  X(void, neap_bind_event_send,                                                                    \
    (struct neap_bind_layer * layer, struct neap_event * event, bool up))                          \
  X(void, neap_bind_timer_start,                                                                   \
    (struct neap_bind_layer * layer, int number, uint64_t delay, bool background))                 \
  X(void, neap_bind_timer_stop, (struct neap_bind_layer * layer, int number))                      \
  X(void, neap_bind_peer_keep, (struct neap_layer * layer, struct neap_peer * peer))               \
  X(void, neap_bind_peer_hold, (struct neap_layer * layer, struct neap_peer * peer))               \
  X(void, neap_bind_peer_release, (struct neap_layer * layer, struct neap_peer * peer))            \
  X(double, neap_bind_chance, (struct neap_layer * layer, double bound))                           \
  X(void, neap_bind_wake, (struct neap_world * world))

#define X(result, name, arguments) NEAP_EXPORT result name arguments;
NEAP_BINDINGS(X)
#undef X

/* The functions of Lua layers that a class made at run time points to. */
#define NEAP_BIND_LAYER_FUNCTIONS(X)                                                               \
  X(int, open, (struct neap_layer * layer, struct neap_trail * trail))                             \
  X(void, close, (struct neap_layer * layer))                                                      \
  X(void, up, (struct neap_layer * layer, struct neap_batch * batch))                              \
  X(void, down, (struct neap_layer * layer, struct neap_batch * batch))                            \
  X(int, event, (struct neap_layer * layer, struct neap_event * event, bool up))                   \
  X(void, still, (struct neap_layer * layer))                                                      \
  X(int, may,                                                                                      \
    (const struct neap_layer *layer, const struct neap_attr *attr, const struct neap_value *value, \
      char *why, size_t size))                                                                     \
  X(void, changed, (struct neap_layer * layer, const struct neap_attr *attr))                      \
  X(void, check, (const struct neap_layer *layer))                                                 \
  X(void, peer_gone, (struct neap_layer * layer, struct neap_peer * peer, void *state))            \
  X(int, op, (struct neap_layer * layer, const char *argument, char *out))

#define X(result, name, arguments) NEAP_EXPORT result neap_bind_layer_##name arguments;
NEAP_BIND_LAYER_FUNCTIONS(X)
#undef X

/* Makes the world of the userdata at 1 the one that is inside C; its environment goes to stack
 * index 2, before the arguments.  Raises when it is freed or inside already. */
struct neap_bind *neap_bind_enter(lua_State *L);
void neap_bind_leave(struct neap_bind *bind);

/* The text of all declarations, for ffi.cdef. */
int neap_bind_shape(lua_State *L);
int neap_bind_shapes(lua_State *L);

int neap_bind_world_open(lua_State *L);
extern const luaL_Reg neap_bind_world_functions[];
extern const luaL_Reg neap_bind_sim_functions[];
extern const luaL_Reg neap_bind_line_functions[];
extern const luaL_Reg neap_bind_loop_functions[];
extern const luaL_Reg neap_bind_state_functions[];

#endif
