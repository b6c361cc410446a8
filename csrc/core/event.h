/* event: what layers say to each other, in the same mailboxes and so in exact order with messages.
 * The catalogue is core/events.def. */

#ifndef NEAP_CORE_EVENT_H
#define NEAP_CORE_EVENT_H

#include "core/digest.h"
#include "core/msg.h"

enum neap_event_kind {
#define EVENT(name, direction, payload, owner, doc, nobody) NEAP_EVENT_##name,
#include "core/events.def"
#undef EVENT
  NEAP_EVENTS
};

/* What discovery or a verdict lists; counted. */
struct neap_found_row {
  struct neap_peer *peer; /* counted */
  struct neap_addr place;
  uint8_t bits;           /* 1 has joined, 2 is coordinator; of a DONE: 1 left, 2 split,
                           * 4 answered by its own setting */
  uint32_t members;       /* in its view, when it said so; 0 unknown */
  uint64_t number, time;  /* of HELD_BACK: its position, and how long it has been there */
};

struct neap_found {
  uint32_t refs, count, room;
  struct neap_found_row rows[];
};

struct neap_found *neap_found_new(uint32_t room);
void neap_found_add(struct neap_found *found, struct neap_found_row row);
void neap_found_unref(struct neap_found *found);

/* What STATE_DO asks for and STATE_TOLD tells, in `number`.  First for who wants a state, then for
 * who gives one. */
enum neap_state_word {
  NEAP_STATE_GET = 1,  /* do: ask peer (none: whom the layer likes) within time */
  NEAP_STATE_DROP,     /* do: give it up */
  NEAP_STATE_TOOK,     /* do: this many bytes of parts (time) are done with, in all */
  NEAP_STATE_SET,      /* do: the application has the state */
  NEAP_STATE_BEGIN,    /* told: what rose before is to be done with, then parts come, of peer;
                        * digest: what the state contains */
  NEAP_STATE_PIECE,    /* told: the next part (msg); time: bytes of the whole, 0 not known */
  NEAP_STATE_WHOLE,    /* told: that was all, nothing can go wrong any more; answered by SET;
                        * digest: what it may contain */
  NEAP_STATE_BROKEN,   /* told: forget the parts; it begins again, or fails */
  NEAP_STATE_FAILED,   /* told: code and text */
  NEAP_STATE_ASKED,    /* told: peer wants the state; answered by READ or REFUSE */
  NEAP_STATE_READ,     /* do: it is read from now on; digest: what it contains for sure */
  NEAP_STATE_WAS_READ, /* do: it was read; digest: what it may contain */
  NEAP_STATE_WRITE,    /* do: the next part (msg); time: bytes of the whole, 0 not known */
  NEAP_STATE_DONE,     /* do: that was all */
  NEAP_STATE_REFUSE,   /* do: there is none, or no more of it; text says why */
  NEAP_STATE_ROOM,     /* told: this many bytes (time) may be written, in all */
  NEAP_STATE_UNWANTED, /* told: write no more */
};

enum { NEAP_EVENT_TEXT = 160 };

struct neap_event {
  uint8_t kind;             /* enum neap_event_kind */
  bool query;               /* it asks; whoever owns the answer gives NEAP_ANSWER */
  bool answered;            /* it is on its way back */
  bool none;                /* nobody answered */
  bool flag;
  bool fresh;
  int code;                 /* enum neap_code */
  uint32_t ticket;
  uint64_t number;
  uint64_t time;            /* nanoseconds */
  struct neap_layer *origin;
  struct neap_peer *peer;   /* counted */
  struct neap_addr place;
  struct neap_view *view;   /* counted, as all below */
  struct neap_digest *digest;
  struct neap_found *found;
  struct neap_msg *msg;
  struct neap_receipts *receipts; /* not counted: the owner's */
  struct neap_tally *tally;       /* the same */
  struct neap_event *next;        /* in the pool */
  char text[NEAP_EVENT_TEXT];
};

/* What an event handler says of the event it was shown. */
enum neap_verdict {
  NEAP_PASS,   /* it travels on */
  NEAP_STOP,   /* it ends here */
  NEAP_ANSWER, /* a query: I filled it in, send it back */
};

const char *neap_event_name(unsigned kind);

/* Gives up the references that the event holds. */
void neap_event_drop(struct neap_event *event);

#endif
