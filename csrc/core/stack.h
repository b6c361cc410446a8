/* stack: layers in order, turned by the engine.
 *
 *      channel            position -1: what the application holds
 *        |  ^
 *      layers[0]          the top
 *        ...
 *      layers[count-1]    the transport
 *
 * A turn: sweep from the wire up, sweep from the application down, until still or until the budget
 * of mailbox items is used up; the rest goes on in the next turn, so timers and sockets never
 * starve.  No recursion, no re-entry, and between any two layers a mailbox where one can look. */

#ifndef NEAP_CORE_STACK_H
#define NEAP_CORE_STACK_H

#include "base/list.h"
#include "core/attr.h"
#include "core/digest.h"
#include "core/error.h"
#include "core/event.h"
#include "core/gate.h"
#include "core/registry.h"
#include "core/world.h"

enum { NEAP_LAYERS_MAX = 32 };

struct neap_class;
struct neap_layer;
struct neap_peers;

/* What lies in a mailbox: a batch or an event. */
struct neap_item {
  struct neap_item *next;
  bool is_event;
  union {
    struct neap_batch batch;
    struct neap_event *event;
  };
};

struct neap_mailbox {
  struct neap_item *first, *last;
  uint32_t count; /* items */
};

/* ---- building ---- */

struct neap_setting {
  const char *attr, *text;  /* text form, or NULL with a bare number */
  double number;
  bool is_number;
  uint32_t line;            /* in the stack file; 0 unknown */
};

struct neap_layer_spec {
  const struct neap_class *class;
  const char *as;           /* NULL: the class's name */
  uint32_t line;
  const struct neap_setting *settings;
  uint32_t setting_count;
};

struct neap_stack_spec {
  const char *name;         /* of the stack, for messages */
  const char *file;         /* "stacks/lan.lua" */
  const struct neap_layer_spec *layers; /* top first */
  uint32_t count;
  bool partial;             /* some layers could not be read: what is left promises nothing */
};

/* Takes one problem, a full sentence with file and line. */
typedef void neap_problem(void *context, const char *text);

/* Checks a description: attributes, promises, header ids.  Opens nothing.  Returns the number of
 * problems, each of which was told to `problem`. */
unsigned neap_stack_check(
  const struct neap_stack_spec *spec, neap_problem *problem, void *context);

/* Does this word hold above a description that passed neap_stack_check? */
bool neap_stack_promises(const struct neap_stack_spec *spec, const char *word);

struct neap_stack {
  struct neap_link link;      /* in world->stacks */
  struct neap_link ready;     /* in world->ready */
  struct neap_world *world;
  struct neap_channel *channel;
  struct neap_random random;  /* own stream, from the world's seed and the number of the stack */
  struct neap_layer *layers[NEAP_LAYERS_MAX];
  uint32_t count;
  char name[NEAP_NAME_MAX];   /* of the stack description */
  char cluster[NEAP_NAME_MAX];
  struct neap_peer *self;
  struct neap_peers *peers;
  struct neap_registry registry;
  struct neap_mailbox top;    /* rising, for the channel */
  struct neap_mailbox boxes[2 * NEAP_LAYERS_MAX];
  struct neap_view *view;     /* the last that reached the channel */
  /* multicast, then by peer slot; pointers, so that they stay put */
  struct neap_gate_class **gates;
  uint32_t gates_room;
  struct neap_layer *gate_owners[NEAP_GATE_OWNERS];
  uint64_t asks, asks_horizon; /* synchronous sends admitted; so many may be, if it is bound */
  bool asks_bound, asks_wanted; /* wanted: somebody was turned away */
  struct neap_mover *moved, *moved_last; /* receipts and their like, for their owners */
  struct neap_slab *filling;  /* bodies of this member's small messages go here */
  struct neap_msg *msgs;      /* pool of descriptors */
  struct neap_item *items;    /* pool of mailbox items */
  struct neap_event *events;  /* pool of events */
  uint32_t msgs_out, msgs_kept, items_out, events_out, movers_out;
  uint32_t stills;            /* bit per layer whose class has `still` */
  uint64_t full;              /* bit per mailbox in `boxes` that is not empty */
  uint32_t pending;           /* items in mailboxes */
  bool foreground;            /* what waits was started by more than background work */
  bool paused;                /* the simulator stopped this member: no turns, no timers */
  struct neap_timer *parked;  /* timers that came due meanwhile */
  bool turning, closing, closed;
  bool gone_due;              /* peers wait for peer_gone */
  uint64_t strays;            /* messages dropped for a header whose layer is not here */
  uint64_t turns;
  uint64_t rx_buffer;         /* bytes the wire holds for this member until it reads them, granted;
                               * 0: not known.  Transports set it in `open`; windows follow it */
  uint64_t rx_space;          /* bytes the application still takes; 0: full (protocols 4) */
  uint64_t max_body;          /* largest body a send may have: the transport's, or what frag makes
                               * of it; layers set it in `open`, lower ones first */
  const struct neap_set *considered; /* while `may` is asked: all that is to be set with it */
  const struct neap_set *promised; /* NULL, or what this member said it would set when it is told:
                               * until then no other set may stand in its way */
  uint32_t holders;           /* notes that point into the stack: it is buried after them */
  void *host;                 /* the simulated host, for its world */
};

/* Builds and opens, bottom first.  NULL, with everything undone and the trail told, when a layer
 * cannot open.  The description must have passed neap_stack_check.  `address` NULL: a new one. */
struct neap_stack *neap_stack_open(struct neap_world *world, const struct neap_stack_spec *spec,
  struct neap_channel *channel, const char *cluster, const char *name, struct neap_trail *trail);

/* Closes the layers, top first, drops what is in the mailboxes and frees everything.  Inside a turn
 * it happens at the end of that turn. */
void neap_stack_close(struct neap_stack *stack);

/* Runs one turn; true if something is left to do. */
bool neap_stack_turn(struct neap_stack *stack);

/* Stops and starts a member without its knowing: no turns and no timers meanwhile. */
void neap_stack_pause(struct neap_stack *stack);
void neap_stack_resume(struct neap_stack *stack);

/* There is something to do: the world runs a turn soon. */
void neap_stack_ready(struct neap_stack *stack);

/* From the channel into layers[0]. */
void neap_stack_down(struct neap_stack *stack, struct neap_batch *batch);
/* One message, mostly right behind the last one. */
void neap_stack_down_msg(struct neap_stack *stack, struct neap_msg *m);
void neap_stack_event_down(struct neap_stack *stack, struct neap_event *event);

/* The layer of this name, or NULL. */
struct neap_layer *neap_stack_layer(const struct neap_stack *stack, const char *name);

/* Attributes that are set together. */
struct neap_change {
  struct neap_layer *layer;
  const struct neap_attr *attr;
  struct neap_value value;
  bool own; /* of the group's settings: asked for, it is up to each member again; written down, it
             * was so before */
};

struct neap_set {
  const struct neap_change *changes;
  unsigned count;
  const char *by;   /* name of who asked; NULL: this member's own program */
  bool mine;        /* this member asked, though `by` says who */
  bool undo;        /* it takes back another */
  uint64_t epoch;   /* of the group's settings that it is part of; 0: of this member only */
  uint64_t timeout; /* of one for the whole group: ns; 0 as the stack says */
};

/* Sets all or nothing, checked as at load (live, `may`, promises across the stack), and writes it
 * into the channel's journal.  0, or negative and `why`: every problem, one a line. */
int neap_stack_set(
  struct neap_stack *stack, const struct neap_set *set, char *why, size_t size);
/* Sets what this member last set for itself, by its journal: for a stack that starts over.  Raises
 * trouble if that cannot be. */
void neap_stack_set_again(struct neap_stack *stack);
/* Could it be set? */
int neap_stack_may(
  struct neap_stack *stack, const struct neap_set *set, char *why, size_t size);

/* Frees what is left of a closed stack, when its last message has come back. */
void neap_stack_bury(struct neap_stack *stack);

/* Tells the owners of receipts, tallies and done marks what moved (core/receipt.h). */
void neap_movers_tell(struct neap_stack *stack);

/* Peers: made with the stack; peer_gone for those that left; freed with it (core/peer.h). */
void neap_peers_open(struct neap_stack *stack);
void neap_peers_collect(struct neap_stack *stack);
void neap_peers_close(struct neap_stack *stack);
void neap_peers_free(struct neap_stack *stack);

/* Mailboxes (csrc/core/layer.c). */
void neap_box_batch(struct neap_stack *stack, struct neap_mailbox *box, struct neap_batch *batch);
void neap_box_event(struct neap_stack *stack, struct neap_mailbox *box,
  const struct neap_event *event);
struct neap_item *neap_box_take(struct neap_stack *stack, struct neap_mailbox *box);
void neap_item_free(struct neap_stack *stack, struct neap_item *item);

/* Runs every layer's check, and the frame's own. */
void neap_stack_checks(const struct neap_stack *stack);

#endif
