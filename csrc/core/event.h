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
  uint8_t bits;           /* 1 has joined, 2 is coordinator; of a DONE: 1 left, 2 split */
  uint32_t members;       /* in its view, when it said so; 0 unknown */
};

struct neap_found {
  uint32_t refs, count, room;
  struct neap_found_row rows[];
};

struct neap_found *neap_found_new(uint32_t room);
void neap_found_add(struct neap_found *found, struct neap_found_row row);
void neap_found_unref(struct neap_found *found);

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
