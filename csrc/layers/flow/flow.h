/* flow: a sender goes on only as far as receivers have let it; what mfc and ufc share.
 *
 * Every peer starts with `max_credits` bytes.  The sender counts what it spends; the receiver
 * counts what its application is *done* with (a tally on each message, core/receipt.h), and gives
 * it back when it is a good part of the whole:
 *
 *     sender    spent                limit               horizon at the gate: limit - spent more
 *                 |--- may go on ------|                                bytes than have passed here
 *     receiver  replenished    done    arrived
 *                 |---- due ----|---- waits for the application ----|
 *
 *     REPLENISH(due)  when max_credits - min_credits of it are due, or half
 *     Multicasts that wait below for one that was lost count as done with, up to max_credits: that
 *     is nobody's slowness.  When it has come they rise together, so an application may get twice
 *     max_credits at once.
 *     REQUEST(lacks)  from a sender that has waited for max_block_time: all that it lacks and that
 *                     does not wait here is given; so what got lost heals, and a slow application
 *                     is not flooded
 *
 * Nobody is blocked here: the gate at the top is.  Only bodies count.  Free are empty messages,
 * those with NO_FC, and a member's own.
 *
 * Invariant: limit - spent never exceeds max_credits. */

#ifndef NEAP_LAYERS_FLOW_H
#define NEAP_LAYERS_FLOW_H

#include "core/headers.h"
#include "core/layer.h"

/* One traffic class of this member: its multicasts, or what it sends to one peer. */
struct neap_stream {
  struct neap_layer *layer;
  struct neap_peer *peer;        /* NULL: all */
  uint64_t spent;                /* bytes sent that take credit */
  uint64_t passed;               /* position at the gate of what has come by */
  uint64_t horizon;              /* as last published */
  struct neap_timer wait, again; /* a send was turned away; it still is */
};

struct neap_credit {
  struct neap_peer *peer; /* NULL: not in use */
  bool member;
  /* as a sender: `spent` of the stream may go up to here */
  uint64_t limit;
  struct neap_stream stream; /* ufc: to this peer */
  /* as a receiver */
  struct neap_tally *tally;            /* bytes that are done with; NULL until something came */
  uint64_t arrived, done, replenished; /* done: of the tally, as last heard */
  uint64_t behind, behind_most;        /* mfc: bytes that wait for a lost one; ever did, at once */
};

struct neap_flow {
  struct neap_layer layer;
  uint64_t max_credits, min_credits, max_block_time; /* params */
  double min_threshold;
  uint64_t waiting; /* gauge */
  uint64_t blocked, replenishes_sent, replenishes_received, requests_sent, requests_received, bad;
  uint64_t credits; /* max_credits as it is in effect */
  bool multicast;
  struct neap_stream all; /* mfc */
  uint64_t limit;         /* mfc: the lowest of all members */
};

extern const struct neap_attr neap_flow_attrs[];
int neap_flow_open(struct neap_layer *layer, struct neap_trail *trail);
void neap_flow_down(struct neap_layer *layer, struct neap_batch *batch);
void neap_flow_up(struct neap_layer *layer, struct neap_batch *batch);
enum neap_verdict neap_flow_event(struct neap_layer *layer, struct neap_event *event, bool up);
void neap_flow_changed(struct neap_layer *layer, const struct neap_attr *attr);
void neap_flow_peer_gone(struct neap_layer *layer, struct neap_peer *peer, void *state);
void neap_flow_close(struct neap_layer *layer);
void neap_flow_check(const struct neap_layer *layer);
extern const struct neap_op neap_flow_ops[];

#endif
