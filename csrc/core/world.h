/* world: the one door to time, chance and the network.
 *
 * csrc/real opens it on libuv, csrc/sim in virtual time.  Layers do not see it: they call
 * neap_now, neap_random and timers (core/layer.h), and a transport opens a port.  The programs
 * above drive it: neap_world_step runs until there is something for the application. */

#ifndef NEAP_CORE_WORLD_H
#define NEAP_CORE_WORLD_H

#include "base/list.h"
#include "base/random.h"
#include "core/addr.h"
#include "core/msg.h"
#include "core/timer.h"

struct neap_capture;
struct neap_channel;
struct neap_layer;
struct neap_oracle;
struct neap_port;
struct neap_stack;
struct neap_trail;
struct neap_trace;
struct neap_world;

/* ---- ports: datagrams ---- */

struct neap_port_spec {
  struct neap_addr bind;      /* size 0: any interface; port 0: any port */
  struct neap_addr group;     /* kind none: no multicast */
  char interface[32];         /* name of the interface for the group; "": by `bind` */
  uint8_t ttl;
  bool loop;                  /* members on this host hear the group too */
  uint32_t receive_buffer, send_buffer; /* bytes to ask the kernel for; 0: its default */
  bool offload;               /* use segmentation offload where there is some */
  uint16_t segment;           /* largest datagram when offload cuts: bytes */
};

/* A datagram came in: `slab` is the port's, hold it to keep the bytes.  With receive offload one
 * call may bring several datagrams; each comes by a call of its own. */
typedef void neap_port_packet(struct neap_layer *layer, struct neap_slab *slab,
  const uint8_t *at, uint32_t len, const struct neap_addr *from);

/* Counters that a transport shows as its own. */
struct neap_port_counts {
  uint64_t packets_sent, packets_received, bytes_sent, bytes_received;
  uint64_t send_blocked;  /* EAGAIN: what is in the queue waits for room */
  uint64_t send_dropped;  /* ENOBUFS, or the queue was full: counted as lost on the wire */
  uint64_t send_refused;  /* EPERM and the like: counted as lost on the wire */
  uint64_t send_errors;   /* everything else */
  uint64_t receive_errors;
  uint64_t receive_overflow; /* dropped by the kernel: buffer full, where it says so */
};

struct neap_port {
  struct neap_world *world;
  struct neap_layer *layer;
  neap_port_packet *packet;
  struct neap_port_spec spec;
  struct neap_addr local;     /* where it really is: what goes into discovery */
  uint32_t receive_granted, send_granted; /* buffer bytes that the kernel gave */
  uint32_t max_datagram;      /* the largest that can be sent at all */
  uint32_t mtu;               /* payload that leaves in one piece on this interface */
  struct neap_port_counts counts;
};

/* ---- what a world is ---- */

struct neap_world_class {
  const char *name; /* "real", "sim" */
  void (*free)(struct neap_world *world);
  /* Opens a port; negative code and a trail on failure. */
  int (*port_open)(struct neap_world *world, struct neap_layer *layer,
    const struct neap_port_spec *spec, neap_port_packet *packet, struct neap_port **port,
    struct neap_trail *trail);
  /* Sends bytes of `slab` (held by the world as long as it needs them) to a place, or to the group
   * of the port (`to` NULL).  Never fails: what cannot be sent is counted, as on any wire.
   * `background` marks what only background work sent. */
  void (*port_send)(struct neap_port *port, const struct neap_addr *to, struct neap_slab *slab,
    const uint8_t *at, uint32_t len, bool background);
  /* End of a turn: what was collected leaves now. */
  void (*port_flush)(struct neap_port *port);
  void (*port_close)(struct neap_port *port);
  /* Is this place on the host of the port, and nobody listens there?  NULL: nobody knows. */
  bool (*port_vacant)(struct neap_port *port, const struct neap_addr *at);
  /* Runs until something waits for the application, until the clock would pass `until`, or until
   * nothing can happen any more.  Returns enum neap_step. */
  int (*step)(struct neap_world *world, uint64_t until);
  /* Somebody made work outside a step (a send, a set): the loop must not sleep over it. */
  void (*wake)(struct neap_world *world);
};

enum neap_step {
  NEAP_STEP_WORK, /* something waits in the world's app queue */
  NEAP_STEP_TIME, /* `until` is reached */
  NEAP_STEP_IDLE, /* nothing left that could happen (simulated), nothing open (real) */
};

struct neap_world {
  const struct neap_world_class *class;
  uint64_t now;             /* nanoseconds; read once per turn, everyone uses this value */
  uint64_t turn;            /* turns so far, of all stacks */
  uint64_t seed;
  struct neap_random random;
  struct neap_timers timers;
  struct neap_link ready;   /* stacks with something to do, in order */
  struct neap_link stacks;  /* all of them */
  struct neap_link busy;    /* channels with something for the application, in order */
  bool background;          /* what runs now was started by background work */
  bool checking;            /* run each layer's `check` after each turn */
  struct neap_slab *slabs;  /* pool of NEAP_SLAB_BYTES */
  uint32_t slab_count, slab_out, slab_kept_max;
  uint64_t allocations;     /* tries so far; see fail_at */
  uint64_t fail_at;         /* the n-th slab or message allocation fails; 0: none (for specs) */
  struct neap_trace *trace; /* NULL: off */
  struct neap_oracle *oracle; /* where checkers meet; NULL without any */
  struct neap_capture *capture; /* what ports send and get, in a file; NULL: off */
  void *host;               /* for bindings */
};

void neap_world_init(struct neap_world *world, const struct neap_world_class *class,
  uint64_t seed);
/* Closes all stacks, frees pools, asserts that nothing is out. */
void neap_world_done(struct neap_world *world);
void neap_world_free(struct neap_world *world);

/* Runs the turns of all ready stacks until none is, or until `turns` have run. */
void neap_world_turns(struct neap_world *world, unsigned turns);

/* Fires all timers due at world->now. */
void neap_world_fire(struct neap_world *world);

#endif
