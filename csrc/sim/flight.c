/* Packets under way: a heap by (time, id) whose entries are chains.
 *
 * What is sent in a row and arrives at the same time (a burst over links of equal latency, a
 * multicast) is chained to one entry, so most packets cost no heap operation:
 *
 *     heap   [at 7.0, id 4] -> 4 -> 5 -> 6      [at 7.2, id 8] -> 8
 *                                        ^ `last`: a packet due at 7.0 would be chained here
 *
 * Invariant: ids rise along each chain, and of two entries due at the same time the one that was
 * begun first holds the lower ids; so the order is that of (time, id) over all packets. */

#include "sim/net.h"

#include <stdlib.h>

enum { HEAP_MIN = 256 };

/* ---- the pool ---- */

static struct flight *flight_new(struct sim *sim)
{
  if (!sim->pool) {
    struct flight *block = calloc(FLIGHTS_PER_BLOCK, sizeof *block);
    sim->blocks = realloc(sim->blocks, (sim->block_count + 1) * sizeof *sim->blocks);
    NEAP_ASSERT(block && sim->blocks);
    sim->blocks[sim->block_count++] = block;
    for (unsigned i = FLIGHTS_PER_BLOCK; i--;) {
      block[i].next = sim->pool;
      sim->pool = &block[i];
    }
  }
  struct flight *flight = sim->pool;
  sim->pool = flight->next;
  return flight;
}

void neap_sim_flight_free(struct sim *sim, struct flight *flight)
{
  neap_slab_free(&sim->world, flight->slab);
  flight->next = sim->pool;
  sim->pool = flight;
}

/* ---- the heap ---- */

static bool before(const struct due *a, const struct due *b)
{
  return a->at < b->at || (a->at == b->at && a->id < b->id);
}

static void heap_add(struct sim *sim, struct due due)
{
  if (sim->due_count + 1 >= sim->due_room) {
    sim->due_room = sim->due_room ? sim->due_room * 2 : HEAP_MIN;
    sim->heap = realloc(sim->heap, sim->due_room * sizeof *sim->heap);
    NEAP_ASSERT(sim->heap);
  }
  uint32_t place = ++sim->due_count;
  for (; place > 1 && before(&due, &sim->heap[place / 2]); place /= 2)
    sim->heap[place] = sim->heap[place / 2];
  sim->heap[place] = due;
}

static struct flight *heap_take(struct sim *sim)
{
  struct flight *first = sim->heap[1].flight;
  struct due last = sim->heap[sim->due_count--];
  uint32_t place = 1;
  for (uint32_t child = 2; child <= sim->due_count; child = 2 * place) {
    if (child < sim->due_count && before(&sim->heap[child + 1], &sim->heap[child])) child++;
    if (!before(&sim->heap[child], &last)) break;
    sim->heap[place] = sim->heap[child];
    place = child;
  }
  sim->heap[place] = last;
  if (first == sim->last_first) sim->last_first = sim->last = NULL;
  return first;
}

static void launch(struct sim *sim, struct flight *flight, uint64_t at)
{
  flight->at = at;
  flight->id = ++sim->next_flight;
  flight->next = NULL;
  if (!flight->background) sim->foreground++;
  if (sim->last && sim->last->at == at) {
    sim->last->next = flight;
  } else {
    heap_add(sim, (struct due){at, flight->id, flight});
    sim->last_first = flight;
  }
  sim->last = flight;
}

uint64_t neap_sim_due(const struct sim *sim)
{
  return sim->due_count ? sim->heap[1].at : UINT64_MAX;
}

/* ---- leaving and arriving ---- */

void neap_sim_fly(struct sim *sim, const struct packet *packet, struct place *to, uint64_t at)
{
  struct flight *flight = flight_new(sim);
  *flight = (struct flight){.digest = packet->digest,
    .to = to,
    .from = *packet->src,
    .sender = packet->from,
    .slab = neap_slab_hold(packet->slab),
    .bytes = packet->bytes,
    .len = packet->len,
    .background = packet->background};
  if (sim->log) flight->row = neap_sim_log_add(sim, packet, to->host, NEAP_ARRIVES, at);
  launch(sim, flight, at);
}

static void lose(struct sim *sim, struct flight *flight, enum neap_lost lost)
{
  sim->counts.lost[lost]++;
  neap_sim_event(sim, SIM_LOST, flight->to->host, flight->digest + lost);
  if (flight->row) neap_sim_log_lost(sim, flight->row, lost);
  neap_sim_flight_free(sim, flight);
}

/* Into the socket buffer of a member that does not read. */
static void keep(struct sim *sim, struct port *port, struct flight *flight)
{
  uint64_t cost = NEAP_IS_MUTANT(203) ? 0 : (uint64_t)flight->len + DATAGRAM_COST;
  if (port->waiting + cost > port->buffer) {
    port->port.counts.receive_overflow++;
    lose(sim, flight, NEAP_LOST_BUFFER);
    return;
  }
  port->waiting += cost;
  flight->next = NULL;
  if (port->last)
    port->last->next = flight;
  else
    port->first = flight;
  port->last = flight;
}

static void hand_over(struct sim *sim, struct flight *flight)
{
  struct port *port = flight->to->port;
  if (!port) {
    lose(sim, flight, NEAP_LOST_NOBODY);
    return;
  }
  if (port->host->paused) {
    keep(sim, port, flight);
    return;
  }
  sim->counts.arrived++;
  port->port.counts.packets_received++;
  port->port.counts.bytes_received += flight->len;
  neap_sim_event(sim, SIM_ARRIVED, port->host, flight->digest);
  sim->world.background = flight->background;
  flight->slab->background = flight->background;
  port->port.packet(port->port.layer, flight->slab, flight->bytes, flight->len, &flight->from);
  sim->world.background = false;
  neap_sim_flight_free(sim, flight);
}

void neap_sim_arrive(struct sim *sim)
{
  uint64_t last = sim->next_flight; /* What is sent from now on waits for the next round. */
  while (sim->due_count && sim->heap[1].at <= sim->world.now && sim->heap[1].id <= last) {
    for (struct flight *flight = heap_take(sim), *next; flight; flight = next) {
      next = flight->next;
      if (!flight->background) sim->foreground--;
      hand_over(sim, flight);
    }
  }
}

static void drain(struct sim *sim, struct port *port)
{
  struct flight *flight = port->first;
  port->first = port->last = NULL;
  port->waiting = 0;
  for (struct flight *next; flight; flight = next) {
    next = flight->next;
    launch(sim, flight, sim->world.now);
  }
}

void neap_sim_drain(struct sim *sim, struct host *host)
{
  for (struct neap_link *link = host->ports.next; link != &host->ports; link = link->next)
    drain(sim, NEAP_HOLDER(link, struct port, link));
}

void neap_sim_flights_drop(struct sim *sim)
{
  while (sim->due_count) {
    for (struct flight *flight = heap_take(sim), *next; flight; flight = next) {
      next = flight->next;
      neap_sim_flight_free(sim, flight);
    }
  }
  sim->foreground = 0;
}

void neap_sim_flights_done(struct sim *sim)
{
  for (uint32_t i = 0; i < sim->block_count; i++) free(sim->blocks[i]);
  free(sim->blocks);
  free(sim->heap);
}
