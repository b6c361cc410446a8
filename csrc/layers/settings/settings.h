/* settings, private: what the parts of the layer share.
 *
 *   settings.c   rows, what arrives, views          table.c   what the group has set, as text
 *   coordinator.c  one change after the other       member.c  asks, checks, follows */

#ifndef NEAP_LAYERS_SETTINGS_H
#define NEAP_LAYERS_SETTINGS_H

#include "base/list.h"
#include "base/text.h"
#include "core/headers.h"
#include "core/layer.h"

enum {
  SETTINGS_TEXT = 4096,   /* bytes of a table; the channel takes no longer request either */
  SETTINGS_ROWS = 128,    /* changes that one table can bring about */
  SETTINGS_QUEUE = 256,   /* most that `queue_max` may be */
  SETTINGS_MINE = 16,     /* own changes under way */
  SETTINGS_REASON = 1024, /* bytes of what is said about a refusal */
};

/* What the group has set, and where it comes from.  The table is text, a row a line, by name. */
struct table {
  uint64_t epoch;
  struct neap_addr creator; /* who was coordinator */
  struct neap_addr asker;   /* whose change the last one was, */
  uint32_t ticket;          /* and which of theirs */
  bool undo;                /* it took something back */
  uint32_t len;
  char text[SETTINGS_TEXT]; /* ends in a zero */
};

/* What a new table changes here. */
struct plan {
  struct neap_change changes[SETTINGS_ROWS];
  unsigned count;
  char values[2 * SETTINGS_TEXT]; /* texts that values point to */
  uint32_t used;
  struct neap_text problems; /* rows that cannot be read here, one a line */
  char problems_text[SETTINGS_REASON];
};

/* A change that waits at the coordinator. */
struct request {
  struct neap_link link;
  struct neap_peer *asker; /* counted */
  uint32_t ticket;
  bool undo;
  uint64_t due, timeout;
  uint32_t len;
  char text[];
};

/* A change that this member asked for. */
struct mine {
  uint32_t ticket;        /* 0: the place is free */
  struct neap_addr asked; /* the coordinator then */
  bool orphan;            /* who was asked is no coordinator any more */
  uint64_t due;
};

/* What the coordinator knows of a member. */
struct peer {
  bool here;  /* it has this layer: it has said so */
  bool told;  /* in this view */
  bool waits; /* it wants to know how its change ended, and told so in this view */
  bool owes;  /* an answer in the round that is open */
};

struct settings {
  struct neap_layer layer;
  /* params */
  uint64_t timeout, max_bytes, queue_max;
  /* gauges */
  uint64_t epoch, count, queued, pending, missing;
  /* counters */
  uint64_t asked, made, refused, late, aborted, repeated, checked, adopted, told, unable, stale,
    malformed;

  struct table now;
  char own[SETTINGS_TEXT]; /* what each row was here before the group set it */
  struct mine mine[SETTINGS_MINE];
  uint32_t room; /* bytes that fit into a packet */

  /* what this member promised to set; the stack knows it as `promised` */
  struct plan promised;
  struct neap_set promise;
  uint64_t promise_due; /* nobody will come back to it any more */
  uint64_t over;        /* the last round of this coordinator that is over */

  /* coordinator */
  struct neap_link queue;
  bool leads;
  bool open, committed; /* a round; its change is made */
  uint64_t round;       /* number of the last one */
  uint64_t round_due;
  uint64_t repeat_at; /* who has not answered then gets its own copy; 0: never */
  uint32_t untold;    /* members that have not told in this view */
  uint64_t view_at;
  struct table next;
  struct neap_text why;
  char why_text[SETTINGS_REASON];
  bool refusal; /* `why` says who refused */

  struct neap_timer clock;
};

NEAP_ADOPT(neap_settings_own_head, 0);

/* ---- settings.c ---- */

struct neap_msg *settings_message(struct settings *s, struct neap_peer *to,
  const struct neap_settings_own_head *head, struct neap_slice body);
/* The header of a message that carries a table. */
struct neap_settings_own_head settings_head(unsigned type, const struct table *table);
static inline struct neap_slice settings_body(const struct table *table)
{
  return (struct neap_slice){(const uint8_t *)table->text, table->len};
}
void settings_send(struct settings *s, struct neap_msg *m);
/* To all other members, or to each that can read it. */
void settings_send_all(
  struct settings *s, const struct neap_settings_own_head *head, struct neap_slice body);
/* The clock goes off when the first of what has a time is due. */
void settings_clock(struct settings *s);
/* The first member that is not Neap's; NULL: all are. */
struct neap_peer *settings_foreigner(const struct settings *s);

/* ---- table.c ---- */

/* Which is the higher: by epoch, then by creator. */
int settings_compare(const struct table *a, const struct table *b);
/* `table` with the rows of `change`; false: it gets too long. */
bool settings_merge(const struct table *table, const char *change, struct table *into);
bool settings_valid(const char *text);
uint32_t settings_count(const char *text);
void settings_plan(const struct settings *s, const char *text, struct plan *plan);
/* Makes this table the group's, as far as it can be set here. */
void settings_adopt(struct settings *s, const struct table *table);

/* ---- member.c ---- */

void settings_agree(struct settings *s, struct neap_event *event);
/* An own change ended. */
struct ended {
  uint32_t ticket;
  int code;
  uint64_t epoch;
  struct neap_slice text; /* who is missing, or why not */
  bool all;               /* it is made everywhere */
};
void settings_agreed(struct settings *s, const struct ended *ended);
/* Could this be the table?  0, or negative and `why`. */
int settings_check_table(struct settings *s, const struct table *table, struct neap_text *why);
void settings_checked(struct settings *s, struct neap_peer *from,
  const struct neap_settings_own_head *head, const struct table *table);
void settings_unpromise(struct settings *s);
/* Own changes whose coordinator is gone: did the last change of the group include them? */
void settings_resolve(struct settings *s);
void settings_member_view(struct settings *s);
void settings_mine_due(struct settings *s, uint64_t now);

/* ---- coordinator.c ---- */

/* Who asked does not wait for it any more: it is not made, unless it is. */
void settings_withdrawn(struct settings *s, const struct neap_peer *asker, uint32_t ticket);
/* A new one, at the end of the queue. */
struct request *settings_request(struct settings *s, struct neap_peer *asker,
  const struct neap_settings_own_head *head, struct neap_slice text);
void settings_ask(struct settings *s, struct request *request);
void settings_here(struct settings *s, struct neap_peer *from,
  const struct neap_settings_own_head *head, const struct table *table);
void settings_vote(struct settings *s, struct neap_peer *from,
  const struct neap_settings_own_head *head, struct neap_slice reason);
void settings_done(
  struct settings *s, struct neap_peer *from, const struct neap_settings_own_head *head);
void settings_lead_view(struct settings *s);
/* Those that owe an answer get a copy of their own. */
void settings_repeat(struct settings *s);
void settings_round_due(struct settings *s, uint64_t now);
void settings_next(struct settings *s);
void settings_lead_close(struct settings *s);

#endif
