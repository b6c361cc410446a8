/* capture: what ports send and get, as a file that Wireshark, tshark and `neap decode` read.
 *
 * The file is pcapng.  Each datagram is a frame of its own: an IP and a UDP head with its two ends
 * (link type 101, raw), its bytes, the time, and if it came or left.
 *
 *     section | interface, ns | frame | frame | ...
 *
 * Nothing is looked at and nobody is told: a run is the same with and without.  The file has a
 * bound; what comes behind it is counted and not written. */

#ifndef NEAP_CORE_CAPTURE_H
#define NEAP_CORE_CAPTURE_H

#include "core/world.h"

struct neap_capture_options {
  const char *path;
  uint64_t bytes;   /* the file's bound */
  uint64_t seconds; /* on the calendar, now; 0: time is the world's own */
  bool arrivals;    /* what comes in too; where all ends are in one world it would be there twice */
};

struct neap_capture_counts {
  uint64_t frames, bytes, dropped; /* dropped: behind the bound, or the system could not write */
};

/* Ends an earlier one.  0, or errno. */
int neap_capture_start(struct neap_world *world, const struct neap_capture_options *options);
/* False when there was none. */
bool neap_capture_stop(struct neap_world *world, struct neap_capture_counts *counts);

void neap_capture_left(struct neap_world *world, const struct neap_addr *from,
  const struct neap_addr *to, const uint8_t *at, uint32_t len);
/* To the port's group when the packet says so. */
void neap_capture_came(
  struct neap_port *port, const struct neap_addr *from, const uint8_t *at, uint32_t len);

#endif
