/* sim: a world in virtual time, with a network that can be made to misbehave.
 *
 * Every member name is a host with a place of its own (10.0.0.1, 10.0.0.2, ...); its ports carry
 * encoded packets, never structs.  Nothing happens between two events, so time costs nothing:
 *
 *     step:   turns until still  ->  the earliest packet or timer  ->  its time is now  ->  again
 *
 *     ann --port_send--> [cut? loss? rules?] --latency, jitter, queue--> heap --> bob's port
 *
 * The same seed and the same calls give the same run, which `neap_sim_hash` proves: it covers each
 * packet sent, arrived or lost, with its time, its ends and its bytes, each firing of timers, and
 * each call below that changes something.  Losses are drawn from one stream per link and rules from
 * one stream per rule, so neither disturbs the other. */

#ifndef NEAP_SIM_SIM_H
#define NEAP_SIM_SIM_H

#include "core/attr.h"
#include "core/registry.h"
#include "core/rule.h"
#include "core/world.h"

struct neap_sim_options {
  uint64_t seed;
  uint32_t log; /* packets to remember for neap_sim_log; 0: none */
};

/* A world of class "sim"; free it with neap_world_free. */
struct neap_world *neap_sim_new(const struct neap_sim_options *options);

/* ---- the network ---- */

/* What can be set, as attribute rows: latency, jitter, loss, duplicate, reorder, capacity, queue
 * (of every link or of one), mtu and buffer (of ports opened from now on). */
extern const struct neap_attr neap_sim_attrs[];

/* Sets one of them from now on, of every link (`from` and `to` NULL) or of the link from one member
 * to another, which then no longer follows the others.  `text` NULL: `number`.  0, or negative and
 * `why`: `loss = 1.5 is outside 0 .. 1`. */
struct neap_sim_setting {
  const char *from, *to; /* both or neither */
  const char *name;
  const char *text;
  double number;
};
int neap_sim_set(
  struct neap_world *world, const struct neap_sim_setting *setting, char *why, size_t size);

/* What it is now; false when there is no such name. */
bool neap_sim_get(struct neap_world *world, const char *from, const char *to, const char *name,
  struct neap_value *value);

/* Members of different groups no longer hear each other; those in no group hear everybody.
 * `groups` numbers the group of each name.  Names may come before their members. */
void neap_sim_partition(
  struct neap_world *world, const char *const *names, const uint32_t *groups, uint32_t count);
/* One way. */
void neap_sim_cut(struct neap_world *world, const char *from, const char *to);
/* Ends all partitions and cuts. */
void neap_sim_heal(struct neap_world *world);

/* Sends a packet to every port of host `to`, or of all others (NULL), as if host `from` had, which
 * need not be there otherwise: what it is sent in turn finds nobody, and stands in the log.
 * Returns where it comes from. */
const struct neap_addr *neap_sim_inject(
  struct neap_world *world, const char *from, const char *to, const uint8_t *at, uint32_t len);

/* ---- rules: one message of a packet, the rest arrives ---- */

enum neap_rule_act { NEAP_RULE_DROP, NEAP_RULE_DELAY, NEAP_RULE_DUPLICATE };

/* Rows as core/rule.h has them; `by` is how long a message is delayed, or how late its copy is. */
struct neap_rule_rows {
  enum neap_rule_act act;
  const struct neap_rule_row *rows;
  uint32_t count;
};

/* The id of the new rule, or 0 and `why` says which row is wrong and what was expected. */
uint32_t neap_sim_rule(
  struct neap_world *world, const struct neap_rule_rows *given, char *why, size_t size);

/* How often it has hit; also after it was cleared.  -1: there never was such a rule. */
int64_t neap_sim_rule_hits(const struct neap_world *world, uint32_t id);
/* False when there is none. */
bool neap_sim_rule_clear(struct neap_world *world, uint32_t id);

/* Header rows that rules and the log shall know besides core/headers and those of the layers in the
 * stacks of this world (which are learned as they open): layers written in Lua, before they run. */
void neap_sim_know(struct neap_world *world, const struct neap_header *headers);

/* ---- members ---- */

/* All return 0, or NEAP_NOT_A_MEMBER when no stack of that name is open. */

/* Stops it like a signal would: its timers and packets wait, the socket buffer is bounded. */
int neap_sim_pause(struct neap_world *world, const char *name);
/* Overdue timers fire now, in order; what the buffer holds arrives now. */
int neap_sim_resume(struct neap_world *world, const char *name);
/* Everything of it stops at once, without a goodbye; what it has sent is still under way. */
int neap_sim_kill(struct neap_world *world, const char *name);
/* Its membership layer believes from now on that these are the members, in this order.  The members
 * are names of open stacks.  NEAP_REFUSED and `why` when the stack cannot. */
int neap_sim_inject_view(struct neap_world *world, const char *name, const char *const *members,
  uint32_t count, char *why, size_t size);
bool neap_sim_paused(const struct neap_world *world, const char *name);

/* ---- running: neap_world_step, and ---- */

/* As a step, but returns NEAP_STEP_IDLE as soon as only background timers and packets are left, and
 * NEAP_STEP_TIME at `deadline`.  (What a paused member has to do does not count.) */
int neap_sim_settle(struct neap_world *world, uint64_t deadline);

/* What keeps a world from settling, a line each: members, layers, timers, packets under way. */
void neap_sim_pending(const struct neap_world *world, char *text, size_t size);

/* ---- the record ---- */

/* Over all events so far; `text` has room for 17 bytes. */
const char *neap_sim_hash(const struct neap_world *world, char *text);
/* Adds an event to it: what the application saw or did. */
void neap_sim_note(struct neap_world *world, const char *name, const void *bytes, size_t len);

/* Why a packet did not arrive.  ORDER: neap_lost_text. */
enum neap_lost {
  NEAP_ARRIVES,
  NEAP_LOST_CHANCE, /* `loss` */
  NEAP_LOST_CUT,    /* partition or cut */
  NEAP_LOST_RULE,   /* every message in it was dropped by rules */
  NEAP_LOST_QUEUE,  /* the link's queue was full */
  NEAP_LOST_BUFFER, /* the receiver's socket buffer was full */
  NEAP_LOST_NOBODY, /* no port there */
  NEAP_LOST_SIZE,   /* larger than a datagram */
  NEAP_LOSTS
};
const char *neap_lost_text(unsigned lost);

struct neap_sim_counts {
  uint64_t sent, arrived, duplicated, reordered, delayed;
  uint64_t lost[NEAP_LOSTS];
};
const struct neap_sim_counts *neap_sim_counts(const struct neap_world *world);

/* One packet on one link.  The bytes are valid until the next step. */
struct neap_sim_packet {
  uint64_t sent, arrives; /* ns; `arrives` is meaningless for a lost one */
  const char *from, *to;  /* names; `to` "" when nobody was there */
  const uint8_t *at;
  uint32_t len;
  uint8_t lost;                  /* enum neap_lost */
  bool background, twice, ruled; /* a copy; only part of what was sent: a rule took the rest */
  bool multicast;
};

/* Rows held (0: the log is off); row 0 is the oldest. */
uint32_t neap_sim_log_count(const struct neap_world *world);
bool neap_sim_log(const struct neap_world *world, uint32_t row, struct neap_sim_packet *packet);
/* Starts the log over with room for so many; 0 ends it. */
void neap_sim_log_start(struct neap_world *world, uint32_t packets);

/* "nakack msg seqno=5 | stable vote": the headers in a packet, for a person. */
const char *neap_sim_describe(
  struct neap_world *world, const uint8_t *at, uint32_t len, char *text, size_t size);

/* The registry that knows every header of this world: to decode what the log holds. */
const struct neap_registry *neap_sim_registry(const struct neap_world *world);

#endif
