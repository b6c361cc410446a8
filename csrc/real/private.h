/* What the files of csrc/real share. */

#ifndef NEAP_REAL_PRIVATE_H
#define NEAP_REAL_PRIVATE_H

#include "real/real.h"

#include <sys/socket.h>
#include <netinet/in.h>
#include <uv.h>

/* READS: buffers of one recvmmsg, few, so that they stay warm.  QUEUE: packets that wait for the
 * end of the turn, or for the kernel to have room.  PUSH: bytes that are not kept waiting for the
 * end of the turn.  SEGMENTS: the kernel's bound on what it cuts at once. */
enum { READS = 8, QUEUE = 128, PUSH = 65536, SEGMENTS = 64 };

/* Packets up to this size are copied out of their buffer, so that a small message that somebody
 * keeps does not keep 64 kB. */
enum { SMALL = 8192 };

/* What is read from one socket before turns and timers have their chance, and the application gets
 * what came: more would only grow cold. */
enum { READ_PACKETS = 64, READ_BYTES = 65536 };

struct half;

struct real {
  struct neap_world world;
  uv_loop_t loop;
  uv_poll_t clock; /* of `clock_fd`, a timerfd: libuv's own timers are too coarse */
  int clock_fd;
  uint64_t clock_at; /* what it is set to; 0: it is not */
  struct neap_link ports, watches;
  struct neap_slab *reads[READS]; /* buffers for the next recvmmsg; the first are the warm ones */
  struct neap_slab *small;        /* where short packets are copied to */
  uint32_t closing;               /* handles whose memory libuv still uses */
  struct half *warm;              /* where something came last; NULL */
  uint32_t unlooked;              /* steps since the last look at the sockets */
  uint32_t tries;                 /* yields before it blocks */
  uint32_t vain;                  /* blocks until many tries may be worth it again */
  bool traffic;                   /* packets came since the loop last blocked */
  bool called;                    /* a watcher was called in this step */
  struct neap_real_counts counts;
};

/* A packet on its way out. */
struct outgoing {
  struct neap_slab *slab; /* held */
  const uint8_t *at;
  uint32_t len;
  bool group; /* to the group, else to `to` */
  struct neap_addr to;
};

struct real_port;

/* One of the two sockets of a port. */
struct half {
  uv_poll_t poll;
  int fd;
  uint32_t overflow; /* packets lost to a full buffer, as the kernel said last */
  uint32_t last_len; /* of the packet that came last */
  uint32_t wanted;   /* packets to ask for at once */
  struct real_port *port;
};

struct real_port {
  struct neap_port port;
  struct real *real;
  struct neap_link link;
  struct half own, group;
  struct sockaddr_storage group_name;
  socklen_t group_len;
  struct outgoing queue[QUEUE];
  uint32_t queued, queued_bytes;
  uint32_t deaf;    /* own multicasts that the group socket's filter has dropped */
  bool segments;    /* the kernel cuts */
  bool joins;       /* the kernel joins */
  bool waits;       /* for room in the send buffer */
  uint32_t handles; /* of this port that libuv still uses */
};

/* ---- names.c ---- */

socklen_t neap_real_name(const struct neap_addr *addr, struct sockaddr_storage *name);
struct neap_addr neap_real_addr(const struct sockaddr_storage *name);
/* Adds "address in use" and the like for `error`, and `format`; returns the code. */
int neap_real_trail(struct neap_trail *trail, int error, const char *format, ...)
  __attribute__((format(printf, 3, 4)));

/* The interface that a port uses.  Completes spec->bind when it names no address. */
struct interface {
  char name[32];
  unsigned index;
  uint32_t mtu;
};
int neap_real_interface(
  struct neap_port_spec *spec, struct interface *interface, struct neap_trail *trail);

/* ---- open.c ---- */

int neap_real_port_open(struct neap_world *world, struct neap_layer *layer,
  const struct neap_port_spec *spec, neap_port_packet *packet, struct neap_port **port,
  struct neap_trail *trail);
void neap_real_port_close(struct neap_port *port);
bool neap_real_port_vacant(struct neap_port *port, const struct neap_addr *at);
/* The send buffer is full: the queue goes on when the kernel has room. */
void neap_real_await_room(struct real_port *p);

/* ---- receive.c ---- */

/* Reads what is there, within READ_PACKETS and READ_BYTES. */
void neap_real_read(struct half *half);
void neap_real_reads_free(struct real *real);

/* ---- send.c ---- */

void neap_real_port_send(struct neap_port *port, const struct neap_addr *to, struct neap_slab *slab,
  const uint8_t *at, uint32_t len, bool background);
void neap_real_port_flush(struct neap_port *port);
/* What still waits is dropped and counted. */
void neap_real_queue_drop(struct real_port *p);

#endif
