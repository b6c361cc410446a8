/* channel: one member's handle on a group, above the top layer.
 *
 * It owns a stack, the inbox per sender, and the queue of notes for the application.  It never
 * calls the application: whoever drives the world (the Lua side, a C program) takes what is there
 * after each step.  So application code can never re-enter a turn.
 *
 * One queue of rows, in the order in which things rose: either a note (a view, the end of a
 * synchronous send, trouble) or "so many messages of this sender".  Messages wait in an inbox per
 * sender; the next one is handed out when the one before was freed, so a callback that waits holds
 * back its own sender only, and views pass it:
 *
 *     rows:   ann 3 | view | bob 1 | ann 1        inbox ann: m m m . m   (3 allowed, then 1)
 */

#ifndef NEAP_CORE_CHANNEL_H
#define NEAP_CORE_CHANNEL_H

#include "core/journal.h"
#include "core/stack.h"

enum neap_channel_state {
  NEAP_CHANNEL_JOINING, NEAP_CHANNEL_JOINED, NEAP_CHANNEL_LEAVING, NEAP_CHANNEL_CLOSED,
};

enum neap_note_kind {
  NEAP_NOTE_VIEW, NEAP_NOTE_FAILED, NEAP_NOTE_LEFT, NEAP_NOTE_CLOSED, NEAP_NOTE_ACKED,
  NEAP_NOTE_DONE, NEAP_NOTE_SETTLED, NEAP_NOTE_TROUBLE, NEAP_NOTE_ROOM, NEAP_NOTE_REJOIN,
  NEAP_NOTE_AGREED, NEAP_NOTE_STATE, NEAP_NOTE_DRAIN, NEAP_NOTE_THAW,
  NEAP_NOTE_ORDER, NEAP_NOTE_DECISION,
};

struct neap_note {
  struct neap_stack *stack; /* held while the note lives */
  uint8_t kind;             /* enum neap_note_kind */
  int code;
  uint32_t ticket;
  uint64_t time;
  uint64_t number;          /* of NOTE_AGREED: epoch of the group's settings; of NOTE_STATE: enum
                             * neap_state_word; of NOTE_DRAIN: what to say in DRAINED; of
                             * NOTE_ORDER: what to say in ORDERED */
  struct neap_peer *peer;   /* counted; of NOTE_ROOM: NULL for multicasts */
  struct neap_view *view;   /* counted */
  struct neap_found *found; /* counted */
  struct neap_msg *msg;     /* counted; its body is a longer text */
  char text[NEAP_EVENT_TEXT];
};

/* Messages of one sender for the application. */
struct neap_inbox {
  struct neap_peer *peer;   /* counted while there are messages */
  struct neap_msg *first, *last;
  uint32_t count, allowed;  /* waiting; of these, those whose row was taken */
  uint64_t bytes;
  uint64_t handed;          /* highest numbered multicast that a callback got; 0: none */
  bool busy;                /* for who drives the application: a callback has not returned */
};

/* What waits for the application. */
struct neap_row {
  struct neap_row *next;
  struct neap_note *note;   /* NULL: messages */
  struct neap_inbox *inbox;
  uint32_t count;
};

struct neap_channel {
  struct neap_link busy;      /* in world->busy: notes or messages wait for the application */
  struct neap_world *world;
  struct neap_stack *stack;   /* NULL once closed */
  uint8_t state;              /* enum neap_channel_state */
  char name[NEAP_NAME_MAX], cluster[NEAP_NAME_MAX];
  struct neap_journal journal; /* of what was set */
  struct neap_stack_spec spec; /* kept for a rejoin; deep copy */
  struct neap_row *rows, *rows_last;
  struct neap_row *spare;     /* a row to be used again, or NULL */
  struct neap_inbox **inboxes; /* by peer slot */
  uint32_t inboxes_room;
  bool frozen;                /* no callback gets a message until NOTE_THAW */
  uint64_t rx_bytes;          /* waiting in inboxes */
  uint64_t rx_limit;          /* beyond it reliable layers drop what is new (protocols 4) */
  uint64_t rx_dropped;        /* unreliable messages dropped because rx_limit was reached */
  uint32_t next_ticket;
  bool membership;            /* the stack gives views: only members can be sent to */
  bool policy;                /* the application orders the members of views: NOTE_ORDER */
  bool rejoin;                /* open a new stack as soon as this one is closed */
  void *host;                 /* for bindings */
  uint32_t id;                /* number in the world, for bindings */
};

/* Opens a stack and begins to join.  NULL and a trail when a layer cannot open. */
struct neap_channel *neap_channel_open(struct neap_world *world,
  const struct neap_stack_spec *spec, const char *cluster, const char *name,
  struct neap_trail *trail);

/* What a send is asked for. */
struct neap_send {
  struct neap_peer *to;     /* NULL: everybody */
  const void *body;
  uint32_t len;
  bool null_body;
  unsigned flags;           /* NEAP_OOB, NEAP_NO_RELIABILITY */
  bool no_loopback;
  bool rsvp;
  uint8_t ack_on;           /* 0 reception, 1 completion, 2 delivery, 255 as the stack says */
  uint64_t timeout;         /* ns; UINT64_MAX as the stack says, 0 for ever */
};

/* 0, a positive ticket for a synchronous send, or a negative code (NEAP_WOULD_BLOCK: a NOTE_ROOM
 * follows when there is room again). */
int64_t neap_channel_send(struct neap_channel *channel, const struct neap_send *send);

/* Is everything there that was sent to `to` (NULL: to all) before?  A ticket, which ends like that
 * of a synchronous send, or a negative code.  `timeout` as above. */
int64_t neap_channel_flush(struct neap_channel *channel, struct neap_peer *to, uint64_t timeout);

/* Asks the group for this change (core/agree.c): a ticket, which ends as NOTE_AGREED, or a negative
 * code and `why`. */
enum { NEAP_AGREE_TEXT = 4096 };
int64_t neap_channel_agree(
  struct neap_channel *channel, const struct neap_set *set, char *why, size_t size);

/* State (core/state.c).  What every member's stream was applied to, now, counted; NULL: nobody
 * knows.  `whole`: NULL also when less is applied than was reported, so that no state may be given.
 * Asks the layers at once, outside a turn. */
struct neap_digest *neap_channel_applied(struct neap_channel *channel, bool whole);
/* Passes a word (enum neap_state_word) down; bytes: the part that WRITE writes, the text that
 * REFUSE says.  READ and WAS_READ take the digest at this very moment: nothing may be applied
 * between READ and the reading.  0, or negative. */
struct neap_state_do {
  uint32_t ticket;
  struct neap_peer *peer;
  const void *bytes;
  uint32_t len;
  uint64_t time;
};
int neap_channel_state(
  struct neap_channel *channel, unsigned word, const struct neap_state_do *what);
/* The application is done with what rose before NOTE_DRAIN with this number; or `code` < 0. */
void neap_channel_drained(struct neap_channel *channel, uint64_t number, int code);

/* The application orders the members of views that this member makes, or does so no more: each
 * NOTE_ORDER is answered with the same number and the places of its view's members in their new
 * order; without any (count 0) they stay as they are.  Negative when each is not there once. */
void neap_channel_policy(struct neap_channel *channel, bool on);
int neap_channel_ordered(
  struct neap_channel *channel, uint64_t number, const uint16_t *places, uint32_t count);

void neap_channel_leave(struct neap_channel *channel);
/* At once, without a goodbye; twice is fine.  The handle stays valid until neap_channel_free. */
void neap_channel_close(struct neap_channel *channel);
void neap_channel_free(struct neap_channel *channel);

/* ---- for who drives the application ---- */

/* The next row, the caller's: its note to free with neap_note_free, or its messages now allowed
 * in its inbox.  False when nothing waits.  Messages that are allowed and not taken (no handler,
 * a callback that waits) stay in their inbox, bounded by rx_limit. */
bool neap_channel_next(struct neap_channel *channel, struct neap_row *row);

/* Walks the inboxes that have allowed messages, in slot order: start at 0; NULL at the end. */
struct neap_inbox *neap_channel_waiting(struct neap_channel *channel, uint32_t *slot);

void neap_note_free(struct neap_note *note);

/* The next allowed message of an inbox: the caller's; the end of its callback is neap_msg_free. */
struct neap_msg *neap_inbox_take(struct neap_channel *channel, struct neap_inbox *inbox);

/* The channel's side of the engine: what rises out of layers[0]. */
void neap_channel_up(struct neap_channel *channel, struct neap_batch *batch);
void neap_channel_event(struct neap_channel *channel, struct neap_event *event);
/* The stack is closed for good: rejoin, or tell the application. */
void neap_channel_closed(struct neap_channel *channel);
void neap_channel_check(const struct neap_channel *channel);
/* A peer is gone: so is its (empty) inbox. */
void neap_channel_forget(struct neap_channel *channel, struct neap_peer *peer);
/* There is room again in a class somebody was turned away from. */
void neap_channel_room(struct neap_channel *channel, struct neap_peer *peer);

#endif
