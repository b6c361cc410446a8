/* net: what the files of csrc/sim share.
 *
 *     host    a member name; its ports, and a line to every host it has sent to
 *     place   an address and port; stays when its port closes, so that what is under way to it
 *             finds nobody, or whoever came after
 *     port    a place that somebody listens at, and perhaps a member of a group
 *     line    one direction between two hosts: chance, cut, queue, settings of its own
 *     flight  one packet on one line
 *
 * Nothing here is iterated by address or by hash: hosts, groups and ports stand in the order in
 * which they came. */

#ifndef NEAP_SIM_NET_H
#define NEAP_SIM_NET_H

#include "sim/sim.h"

#include "base/list.h"
#include "core/layer.h"
#include "core/packet.h"

enum {
  PLACES = 1024,         /* hash buckets; a chain each */
  DATAGRAM_MAX = 65507,  /* what IP lets a datagram carry */
  DATAGRAM_COST = 1300,  /* what a kernel charges a socket buffer beyond the bytes, about */
  LOOPBACK_DELAY = 1000, /* ns to oneself; above 0, so that time goes on */
  FLIGHTS_PER_BLOCK = 256,
  RULES_MAX = 256,  /* also those that are cleared */
  OUTSIDE_PORT = 1, /* of hosts that are only made up */
};

/* ORDER: neap_sim_attrs. */
struct net_spec {
  uint64_t latency, jitter, capacity, queue, mtu, buffer;
  double loss, duplicate, reorder;
};

struct line {
  struct neap_random random;
  uint64_t free_at;      /* when the queue will be empty */
  uint64_t last_arrival; /* nothing passes it, reordered packets excepted */
  struct net_spec *own;  /* NULL: the common settings */
  uint32_t own_set;      /* bit per row of neap_sim_attrs */
  bool cut;
};

struct host {
  char name[NEAP_NAME_MAX];
  uint32_t index;
  uint16_t next_port;
  bool paused;
  struct neap_link ports;  /* in the order of opening */
  struct neap_addr member; /* address of the stack that opened a port last */
  uint32_t line_count;
  struct line **lines; /* by index of the receiver; NULL until used */
};

struct place {
  struct place *next; /* in its bucket */
  struct neap_addr addr;
  struct host *host; /* whose port was there last */
  struct port *port; /* NULL: nobody listens */
};

struct flight {
  uint64_t at, id;
  uint64_t row;        /* in the log, from 1; 0: none */
  uint64_t digest;     /* of the bytes */
  struct flight *next; /* due at the same time; in a socket buffer; in the pool */
  struct place *to;
  struct neap_addr from;
  struct host *sender;
  struct neap_slab *slab;
  const uint8_t *bytes;
  uint32_t len;
  bool background;
};

struct group {
  struct neap_addr addr;
  struct port **ports; /* in the order of opening */
  uint32_t count, room;
};

struct port {
  struct neap_port port; /* first: what the transport holds */
  struct host *host;
  struct place *place;
  struct group *group;
  struct neap_link link;       /* in host->ports */
  bool dead;                   /* being killed: nothing leaves any more */
  struct flight *first, *last; /* socket buffer of a paused member */
  uint64_t waiting;            /* bytes in it, as a kernel counts */
  uint64_t buffer;             /* limit of it */
};

struct due {
  uint64_t at, id;
  struct flight *flight; /* the first of those chained */
};

struct log_row {
  uint64_t sent, arrives;
  const struct host *from, *to;
  struct neap_slab *slab;
  const uint8_t *bytes;
  uint32_t len;
  uint8_t lost;
  bool background, twice, ruled, multicast;
};

struct rule {
  struct neap_rule rule;
  uint32_t id;
  uint8_t act;
  bool cleared;
};

struct sim {
  struct neap_world world; /* first */
  struct net_spec common;
  struct host **hosts;
  uint32_t host_count, host_room;
  struct place *places[PLACES];
  struct group **groups;
  uint32_t group_count;
  bool closing;

  /* Packets under way: a heap by (at, id) of chains. */
  struct due *heap; /* from 1 */
  uint32_t due_count, due_room;
  struct flight *last_first, *last; /* the chain begun last, if it still flies */
  struct flight *pool;
  struct flight **blocks;
  uint32_t block_count;
  uint64_t next_flight;
  uint64_t flying, foreground; /* all; those that are not background */

  struct rule *rules; /* by id - 1 */
  uint32_t rule_count, rules_live;
  struct neap_registry registry; /* every header that anybody here may send */
  struct neap_msg *scratch;      /* to decode into */
  uint32_t scratch_size;

  struct log_row *log;
  uint32_t log_size;
  uint64_t logged;

  struct neap_sim_counts counts;
  uint64_t hash;
};

static inline struct sim *neap_sim_of(const struct neap_world *world)
{
  return (struct sim *)(uintptr_t)world;
}

/* What is sent, before it is known to whom. */
struct packet {
  struct host *from;
  const struct neap_addr *src;
  struct neap_slab *slab;
  const uint8_t *bytes;
  uint32_t len;
  uint64_t digest;
  bool background, multicast, twice, ruled;
};

/* ---- sim.c ---- */

enum sim_event {
  SIM_SENT,
  SIM_ARRIVED,
  SIM_LOST,
  SIM_FIRED,
  SIM_SET,
  SIM_CUT,
  SIM_HEALED,
  SIM_RULE,
  SIM_PAUSED,
  SIM_RESUMED,
  SIM_KILLED,
  SIM_INJECTED,
  SIM_NOTE,
};
void neap_sim_event(struct sim *sim, enum sim_event kind, const struct host *host, uint64_t what);
uint64_t neap_sim_digest(const void *bytes, size_t len);

/* ---- net.c ---- */

/* The host of this name, made if need be; the one that is there, or NULL. */
struct host *neap_sim_host(struct sim *sim, const char *name);
struct host *neap_sim_host_find(const struct sim *sim, const char *name);
struct line *neap_sim_line(struct sim *sim, struct host *from, struct host *to);

int neap_sim_port_open(struct neap_world *world, struct neap_layer *layer,
  const struct neap_port_spec *spec, neap_port_packet *packet, struct neap_port **port,
  struct neap_trail *trail);
void neap_sim_port_send(struct neap_port *port, const struct neap_addr *to, struct neap_slab *slab,
  const uint8_t *at, uint32_t len, bool background);
void neap_sim_port_close(struct neap_port *port);
void neap_sim_net_init(struct sim *sim);
void neap_sim_net_done(struct sim *sim);

/* ---- flight.c ---- */

/* Puts a packet under way to `to`, due at `at`. */
void neap_sim_fly(struct sim *sim, const struct packet *packet, struct place *to, uint64_t at);
/* Due when; UINT64_MAX: nothing is under way. */
uint64_t neap_sim_due(const struct sim *sim);
/* Hands over everything that is due now. */
void neap_sim_arrive(struct sim *sim);
/* Puts what waits in socket buffers of this host on its way again, due now. */
void neap_sim_drain(struct sim *sim, struct host *host);
void neap_sim_flight_free(struct sim *sim, struct flight *flight);
/* Gives up what is under way; then, when no port is left, the pools. */
void neap_sim_flights_drop(struct sim *sim);
void neap_sim_flights_done(struct sim *sim);

/* ---- read.c: packets that others sent ---- */

struct reading {
  struct neap_packet packet;
  struct neap_arrival arrival;
  const uint8_t *head, *first; /* of the packet; of its first message */
  const uint8_t *begin, *end;  /* of the message read last */
  bool list;                   /* its count stands in the four bytes before `first` */
};

/* Begins; false when nothing can be read. */
bool neap_sim_read(struct sim *sim, struct reading *reading, const uint8_t *bytes, uint32_t len);
/* The next message, valid until the one after; NULL at the end and where it cannot be read. */
const struct neap_msg *neap_sim_read_next(struct sim *sim, struct reading *reading);

/* ---- rule.c ---- */

/* Is there a rule that could hit on this way? */
bool neap_sim_rules_for(const struct sim *sim, const struct host *from, const struct host *to);
/* The rule that decides about this message on this way; it has hit then.  `m` NULL: bytes that
 * cannot be read. */
const struct rule *neap_sim_rule_hit(
  struct sim *sim, const struct host *from, const struct host *to, const struct neap_msg *m);
void neap_sim_rules_done(struct sim *sim);

/* ---- sift.c ---- */

enum rules_left { RULES_LEFT_REST, RULES_LEFT_LATER, RULES_LEFT_NOTHING };

/* What is left of `packet` on this way once the rules have looked at each message: something, which
 * then may stand in a slab of its own, the caller's to free (`ruled`); nothing now, but something
 * later; nothing.  Messages that are delayed or doubled fly by themselves, at `at` and later. */
enum rules_left neap_sim_rules(
  struct sim *sim, struct packet *packet, struct place *to, uint64_t at);

/* ---- log.c ---- */

/* Remembers a packet; the number of its row, 0 when the log is off. */
uint64_t neap_sim_log_add(struct sim *sim, const struct packet *packet, const struct host *to,
  enum neap_lost lost, uint64_t arrives);
/* It was lost after all. */
void neap_sim_log_lost(struct sim *sim, uint64_t row, enum neap_lost lost);

#endif
