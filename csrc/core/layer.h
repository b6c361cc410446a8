/* layer: the contract (what a C layer includes, and all it needs to know).
 *
 * A layer is a C file ending in one constant, `const struct neap_class neap_<name>`.  It knows two
 * neighbours and no names.  It gets batches from above (`down`) and below (`up`) and passes them
 * on; passing puts them into the neighbour's mailbox, nothing is called through.  It never blocks,
 * never refuses, never reads a clock. */

#ifndef NEAP_CORE_LAYER_H
#define NEAP_CORE_LAYER_H

#include "core/attr.h"
#include "core/error.h"
#include "core/event.h"
#include "core/gate.h"
#include "core/receipt.h"
#include "core/registry.h"
#include "core/stack.h"
#include "core/timer.h"
#include "core/world.h"

enum { NEAP_ABI = 1, NEAP_LAYER_HEADERS = 6 };

/* A named operation for the prompt and scripts.  `out` has room for NEAP_OP_TEXT bytes of
 * answer. */
enum { NEAP_OP_TEXT = 4096 };
struct neap_op {
  const char *name, *doc;
  int (*run)(struct neap_layer *layer, const char *argument, char *out);
};

/* Runs it: 0, or a negative code.  If the class has `ask` that comes first, and a turn that brings
 * the answers; not while a turn is running or the member is paused: then what was known counts. */
int neap_op_run(
  struct neap_layer *layer, const struct neap_op *op, const char *argument, char *out);

/* Batches that a layer has nothing to do with pass it unseen: they go straight into the next
 * mailbox, if its own is empty, so the order stays.  Rising ones only if they carry none of its
 * headers.  While moves are traced every batch stops everywhere. */
enum neap_unseen {
  NEAP_UNSEEN_RISING_ALL = 1,  /* multicasts */
  NEAP_UNSEEN_RISING_ONE = 2,  /* unicasts */
  NEAP_UNSEEN_FALLING_ALL = 4, /* both also if the class has no `down` */
  NEAP_UNSEEN_FALLING_ONE = 8,
};

struct neap_class {
  const char *name, *doc;                   /* what is it called, what does it promise */
  const char *needs, *hears, *gives, *breaks; /* words; see core/promise.h */
  uint32_t abi;                             /* plug-ins: NEAP_ABI */
  size_t size, peer_size;                   /* of one instance; of per-member state, zeroed */
  void (*peer_gone)(struct neap_layer *layer, struct neap_peer *peer, void *state);
  const struct neap_header *headers;        /* ended by a row without a name */
  const struct neap_attr *attrs;
  const struct neap_op *ops;                /* ended by a row without a name */
  int (*open)(struct neap_layer *layer, struct neap_trail *trail); /* 0, or negative */
  void (*down)(struct neap_layer *layer, struct neap_batch *batch);
  void (*up)(struct neap_layer *layer, struct neap_batch *batch);
  enum neap_verdict (*event)(struct neap_layer *layer, struct neap_event *event, bool up);
  /* This operation is about to run: asks others, by queries, what it needs for it. */
  void (*ask)(struct neap_layer *layer, const struct neap_op *op);
  /* The end of a turn, mailboxes empty: what was collected (a datagram) leaves now. */
  void (*still)(struct neap_layer *layer);
  /* May this set be?  0, or negative and `why`; changes nothing.  For rules a row cannot say. */
  int (*may)(const struct neap_layer *layer, const struct neap_attr *attr,
    const struct neap_value *value, char *why, size_t size);
  void (*changed)(struct neap_layer *layer, const struct neap_attr *attr);
  void (*close)(struct neap_layer *layer);
  void (*check)(const struct neap_layer *layer);
  uint8_t unseen; /* enum neap_unseen, or'ed */
  const struct neap_class *sealed; /* reserved; NULL */
};

/* First member of every instance. */
struct neap_layer {
  const struct neap_class *class;
  struct neap_stack *stack;
  const char *name;         /* as it stands in the stack: the class's, or `as` */
  struct neap_view *view;   /* the last one that passed here; NULL before the first */
  uint64_t heads;           /* bit per slot of its headers */
  uint8_t position;         /* 0 is the top */
  uint8_t gate_owner;       /* row in the gate, +1; 0 none */
  bool open;
  uint8_t slots[NEAP_LAYER_HEADERS]; /* slot of each header */
  uint32_t at[NEAP_LAYER_HEADERS];   /* its offset in a message */
  struct neap_mailbox *rising, *falling; /* from below, from above */
  void **peers;             /* state by slot; NULL until asked for */
  uint64_t *held;           /* bit per slot: neap_peer_hold */
  uint32_t peers_room;
  void *host;               /* for layers written in Lua */
};

/* ---- passing: the batch or event is empty afterwards ---- */

void neap_pass_up(struct neap_layer *layer, struct neap_batch *batch);
void neap_pass_down(struct neap_layer *layer, struct neap_batch *batch);
void neap_pass_up_msg(struct neap_layer *layer, struct neap_msg *m);
void neap_pass_down_msg(struct neap_layer *layer, struct neap_msg *m);

void neap_event_up(struct neap_layer *layer, struct neap_event *event);
void neap_event_down(struct neap_layer *layer, struct neap_event *event);
/* Asks: the answer comes to this layer's `event`, with answered or none set, in this turn. */
void neap_ask_up(struct neap_layer *layer, struct neap_event *event);
void neap_ask_down(struct neap_layer *layer, struct neap_event *event);

/* Raises TROUBLE: for the application and the prompt. */
void neap_trouble(struct neap_layer *layer, struct neap_peer *peer, const char *format, ...)
  __attribute__((format(printf, 3, 4)));

/* ---- the world, as a layer sees it ---- */

static inline struct neap_world *neap_world_of(const struct neap_layer *layer)
{
  return layer->stack->world;
}

static inline uint64_t neap_now(const struct neap_layer *layer)
{
  return layer->stack->world->now;
}

/* Evenly in 0 .. bound-1, from the stack's own stream. */
static inline uint64_t neap_chance_below(struct neap_layer *layer, uint64_t bound)
{
  return neap_random_below(&layer->stack->random, bound);
}

/* Bytes that still fit into the application's inboxes: who orders messages asks before it stores
 * one, drops and counts what would not fit, and asks for it again later (protocols 4). */
static inline uint64_t neap_rx_space(const struct neap_layer *layer)
{
  return layer->stack->rx_space;
}

/* For `may`: the number that the attribute at `at` will be, `now` unless it is set as well. */
uint64_t neap_will_be(const struct neap_layer *layer, size_t at, uint64_t now);

/* Bytes of a window that is sized by itself.  4 MB: two to four were best on fast networks; flow
 * control paces to what applications can take.  Less where the system grants small buffers:
 * everybody's are taken to be like this member's, and only 60 % of one counts, since the kernel
 * charges for more than the bytes. */
uint64_t neap_window_auto(const struct neap_layer *layer);

static inline struct neap_peer *neap_self(const struct neap_layer *layer)
{
  return layer->stack->self;
}

/* ---- per-member state ---- */

static inline void *neap_peer_state(struct neap_layer *layer, struct neap_peer *peer)
{
  if (peer->slot < layer->peers_room && layer->peers[peer->slot]) return layer->peers[peer->slot];
  return neap_peer_state_make(layer, peer);
}

/* The state only if there is some. */
static inline void *neap_peer_state_have(const struct neap_layer *layer,
  const struct neap_peer *peer)
{
  return peer->slot < layer->peers_room ? layer->peers[peer->slot] : NULL;
}

/* Walks the states that exist, in slot order:  neap_each_peer (layer, p) { ... }  with `p` a
 * pointer to the layer's own per-member struct. */
void *neap_peer_next(const struct neap_layer *layer, uint32_t *slot);
#define neap_each_peer(layer, p)                                                                   \
  for (uint32_t each_##p = 0; (p = neap_peer_next(layer, &each_##p)) != NULL; each_##p++)

/* ---- headers ---- */

/* False: no message of this rising batch carries the layer's header number `n`.  (Headers put on
 * falling messages are not counted.) */
static inline bool neap_batch_has(
  const struct neap_batch *batch, const struct neap_layer *layer, unsigned n)
{
  return batch->heads >> layer->slots[n] & 1;
}

/* Gives head_put and head_get for the layer's header number `n` (0-based; rows with the same fields
 * count once).  put marks the header present in its first form and leaves its fields to the caller;
 * head_put_form says which form. */
#define NEAP_ADOPT(head, n)                                                                        \
  static inline struct head *head##_put_form(                                                      \
    struct neap_msg *m, const struct neap_layer *layer, uint8_t form)                              \
  {                                                                                                \
    m->present |= (uint64_t)1 << layer->slots[n];                                                  \
    *((uint8_t *)m + layer->at[n] - 8) = form;                                                     \
    return (struct head *)(void *)((uint8_t *)m + layer->at[n]);                                   \
  }                                                                                                \
  static inline struct head *head##_put(struct neap_msg *m, const struct neap_layer *layer)        \
  {                                                                                                \
    return head##_put_form(m, layer, 0);                                                           \
  }                                                                                                \
  static inline const struct head *head##_get(                                                     \
    const struct neap_msg *m, const struct neap_layer *layer)                                      \
  {                                                                                                \
    if (!(m->present >> layer->slots[n] & 1)) return NULL;                                         \
    return (const struct head *)(const void *)((const uint8_t *)m + layer->at[n]);                 \
  }                                                                                                \
  static inline uint8_t head##_form(const struct neap_msg *m, const struct neap_layer *layer)      \
  {                                                                                                \
    return *((const uint8_t *)m + layer->at[n] - 8);                                               \
  }                                                                                                \
  static inline void head##_drop(struct neap_msg *m, const struct neap_layer *layer)               \
  {                                                                                                \
    m->present &= ~((uint64_t)1 << layer->slots[n]);                                               \
  }                                                                                                \
  struct head /* so that a semicolon may follow */

#endif
