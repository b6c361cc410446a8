/* transport: what every transport layer does over the world's door, whatever
 * the wire is.
 *
 *   down   send.c      a datagram per destination stays open; each message is
 * encoded straight into it and freed.  It leaves when the next message does not
 * fit, when a message asks for it (DONT_BUNDLE), and when the stack stands
 * still. place  places.c    where the members are: told by discovery, forgotten
 * with age up     receive.c   each packet is checked, decoded into pooled
 * descriptors whose bodies are slices of the packet, and passed up as a batch
 *
 * A transport is a layer whose first member is a struct neap_transport; it
 * brings `leave`, which puts a finished packet on its wire. */

#ifndef NEAP_LAYERS_TRANSPORT_H
#define NEAP_LAYERS_TRANSPORT_H

#include "core/headers.h"
#include "core/layer.h"
#include "core/packet.h"
#include "core/view.h"

/* 64 kB is the largest packet there is; 61 440 leaves room for a full fragment
 * and its headers. 512 hold the head of a list and the longest cluster name;
 * 1 024 that and the headers of one message of the application. 32
 * destinations can have a packet open at once; the oldest leaves when another
 * one is needed. */
enum {
  NEAP_PACKET_LEAST = 512,
  NEAP_PACKET_HEADS = 1024,
  NEAP_PACKET_MOST = 65507,
  NEAP_PACKET_LOCAL = 61440,
  NEAP_BUNDLES = 32
};

/* A packet being written. */
struct neap_bundle {
  struct neap_peer *to; /* counted; NULL: everybody, or free */
  struct neap_addr place;
  struct neap_slab *slab; /* NULL: not open */
  struct neap_writer w;
  uint8_t *begin;            /* of the list form */
  uint8_t *count_at, *first; /* where its count and its first message stand */
  uint32_t count;            /* messages */
  bool background;           /* so is each of them */
};

/* What is known of a member. */
struct neap_place {
  struct neap_peer *peer; /* not counted: the layer holds it while the place is known */
  struct neap_addr at;
  bool known;
  uint8_t bundle;       /* index of its open packet, 0 none */
  uint64_t used, asked; /* when a message last went there; when it was last looked for */
};

struct neap_transport {
  struct neap_layer layer;
  /* Puts bytes of `slab` on the wire, to a place or (NULL) to everybody. */
  void (*leave)(struct neap_transport *t, const struct neap_addr *to, struct neap_slab *slab,
    const uint8_t *at, uint32_t len, bool background);

  /* params */
  uint64_t max_packet, places_max, places_expiry, ask_pause;
  /* gauges and counters */
  uint64_t packet_limit, places;
  uint64_t sent, received, looped, single, oversize, too_big, homeless, asked, own, crowded, probes;
  uint64_t bad[NEAP_FAULTS];

  struct neap_addr place; /* of this member */
  uint16_t version;
  bool loops;             /* nobody above hands a sender its own multicasts */
  uint32_t auto_packet;   /* what max_packet = auto means here */
  uint32_t datagram_most; /* the largest that the wire takes at all */
  struct neap_slice cluster;
  struct neap_bundle bundles[NEAP_BUNDLES]; /* [0]: to everybody */
  uint32_t open, next;      /* bit per open packet; which bundle was given away last */
  bool urgent;              /* something must not wait for the end of the turn */
  struct neap_slab *rest;   /* the unused end of a slab whose packet was short */
  struct neap_peer *sender; /* counted; of the last packet: the next is mostly its too */
  struct neap_patterns reading, writing;
  uint8_t all[NEAP_PACKET_LEAST], one[NEAP_PACKET_LEAST]; /* heads of lists, to all and to one */
  uint32_t all_len, one_len;
  struct neap_timer reaper;
};

NEAP_ADOPT(neap_tp_head, 0);

extern const struct neap_header neap_transport_headers[];

/* Rows that every transport shows. */
#define NEAP_TRANSPORT_AT(member) offsetof(struct neap_transport, member)
#define NEAP_TRANSPORT_BAD(word, fault, why)                                                       \
  {                                                                                                \
    NEAP_COUNTER, "bad_" word, NEAP_TRANSPORT_AT(bad) + 8 * (fault), "packets",                    \
      .doc = "Packets dropped, from the bad message on: " why "."                                  \
  }
#define NEAP_TRANSPORT_ATTRS                                                                       \
  {NEAP_PARAM, "max_packet", NEAP_TRANSPORT_AT(max_packet), "bytes", 0, 0, NEAP_PACKET_MOST,       \
    .live = NEAP_NOW, .words = "auto=0",                                                           \
    .doc = "Messages are packed into packets of this size; auto (0): what leaves the interface "   \
           "in one piece, 61440 at most; never below 512. Holds from the next packet on. A "       \
           "larger message is sent alone, and cut up by the network."},                            \
    {NEAP_PARAM, "logical_addr_cache_max_size", NEAP_TRANSPORT_AT(places_max), "members", 2000, 1, \
      4096, .live = NEAP_TICK,                                                                     \
      .doc = "Places remembered of members outside the view; beyond it the longest unused go at "  \
             "the next minute."},                                                                  \
    {NEAP_PARAM, "logical_addr_cache_expiration", NEAP_TRANSPORT_AT(places_expiry), "ns",          \
      NEAP_S(360), NEAP_S(1), NEAP_S(86400), .live = NEAP_TICK,                                    \
      .doc = "The place of a member outside the view is forgotten when unused for so long."},      \
    {NEAP_PARAM, "who_has_cache_timeout", NEAP_TRANSPORT_AT(ask_pause), "ns", NEAP_S(2),           \
      NEAP_MS(1), NEAP_S(60), .live = NEAP_NOW,                                                    \
      .doc = "A member whose place is unknown is looked for at most this often."},                 \
    {NEAP_GAUGE, "packet_limit", NEAP_TRANSPORT_AT(packet_limit), "bytes",                         \
      .doc = "What max_packet comes to here."},                                                    \
    {NEAP_GAUGE, "places", NEAP_TRANSPORT_AT(places), "members",                                   \
      .doc = "Members whose place is known."},                                                     \
    {NEAP_COUNTER, "messages_sent", NEAP_TRANSPORT_AT(sent), "messages",                           \
      .doc = "Written into packets."},                                                             \
    {NEAP_COUNTER, "messages_received", NEAP_TRANSPORT_AT(received), "messages",                   \
      .doc = "Read from packets and passed up."},                                                  \
    {NEAP_COUNTER, "looped", NEAP_TRANSPORT_AT(looped), "messages",                                \
      .doc = "To this very member: turned round inside."},                                         \
    {NEAP_COUNTER, "single", NEAP_TRANSPORT_AT(single), "packets",                                 \
      .doc = "Packets that carried one message only."},                                            \
    {NEAP_COUNTER, "oversize", NEAP_TRANSPORT_AT(oversize), "messages",                            \
      .doc = "Larger than max_packet: sent alone."},                                               \
    {NEAP_COUNTER, "too_big", NEAP_TRANSPORT_AT(too_big), "messages",                              \
      .doc = "Larger than any packet, by what layers put on it: dropped."},                        \
    {NEAP_COUNTER, "homeless", NEAP_TRANSPORT_AT(homeless), "messages",                            \
      .doc = "Dropped because nobody has said where the member is."},                              \
    {NEAP_COUNTER, "asked", NEAP_TRANSPORT_AT(asked), "members",                                   \
      .doc = "Times a member was looked for."},                                                    \
    {NEAP_COUNTER, "own", NEAP_TRANSPORT_AT(own), "packets",                                       \
      .doc = "This member's own, heard back from the network and dropped."},                       \
    {NEAP_COUNTER, "crowded", NEAP_TRANSPORT_AT(crowded), "packets",                               \
      .doc = "Dropped because too many strangers have spoken already."},                           \
    {NEAP_COUNTER, "probes", NEAP_TRANSPORT_AT(probes), "messages",                                \
      .doc = "Round-trip probes of other programs: not answered."},                                \
    NEAP_TRANSPORT_BAD("short", NEAP_FAULT_SHORT, "it ends inside a field"),                       \
    NEAP_TRANSPORT_BAD("length", NEAP_FAULT_LENGTH, "a length or count that cannot be"),           \
    NEAP_TRANSPORT_BAD("value", NEAP_FAULT_VALUE, "a value outside its range"),                    \
    NEAP_TRANSPORT_BAD("version", NEAP_FAULT_VERSION, "another version"),                          \
    NEAP_TRANSPORT_BAD("cluster", NEAP_FAULT_CLUSTER, "another group on the same port"),           \
    NEAP_TRANSPORT_BAD("header", NEAP_FAULT_HEADER, "a header nobody knows"),                      \
    NEAP_TRANSPORT_BAD("type", NEAP_FAULT_TYPE, "a message type nobody knows"),                    \
    NEAP_TRANSPORT_BAD("address", NEAP_FAULT_ADDRESS, "a kind of address that does not exist"),    \
    NEAP_TRANSPORT_BAD("trailing", NEAP_FAULT_TRAILING, "bytes behind the end"),                   \
    NEAP_TRANSPORT_BAD("target", NEAP_FAULT_TARGET, "addressed to somebody else"),                 \
    NEAP_TRANSPORT_BAD("java", NEAP_FAULT_JAVA, "a payload only its own runtime can read")

/* ---- life: receive.c ---- */

/* After the wire is open and place, version, auto_packet and datagram_most are known. */
void neap_transport_begin(struct neap_transport *t);
void neap_transport_end(struct neap_transport *t);
void neap_transport_check(const struct neap_transport *t);
/* max_packet was set. */
void neap_transport_limit(struct neap_transport *t);

/* "5.5.6" as it stands in a packet; false when it is no such thing. */
bool neap_transport_version(const char *text, uint16_t *version);

/* ---- up: receive.c ---- */

void neap_transport_arrived(struct neap_transport *t, struct neap_slab *slab, const uint8_t *at,
  uint32_t len, const struct neap_addr *from);

/* ---- down: send.c ---- */

void neap_transport_down(struct neap_layer *layer, struct neap_batch *batch);
/* Every open packet leaves. */
void neap_transport_flush(struct neap_transport *t);
/* The open packet to a member that is going away leaves. */
void neap_transport_forsake(struct neap_transport *t, struct neap_place *p);
void neap_transport_bundles_begin(struct neap_transport *t);
void neap_transport_bundles_end(struct neap_transport *t);
void neap_transport_bundles_check(const struct neap_transport *t);

/* ---- places: places.c ---- */

void neap_transport_places_begin(struct neap_transport *t);
enum neap_verdict neap_transport_event(struct neap_layer *layer, struct neap_event *event, bool up);
void neap_transport_peer_gone(struct neap_layer *layer, struct neap_peer *peer, void *state);
/* The place of `to`; NULL when it is not known: the member is then looked for.
 */
struct neap_place *neap_transport_place(struct neap_transport *t, struct neap_peer *to);
int neap_transport_places(struct neap_layer *layer, const char *argument, char *out);

#endif
