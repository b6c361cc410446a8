/* The log: the last packets, in a ring, for ladders.  A row holds the packet's slab, so it can be
 * decoded when somebody looks; writing one costs a copy of a few words. */

#include "sim/net.h"

#include <stdlib.h>

const char *neap_lost_text(unsigned lost)
{
  switch ((enum neap_lost)lost) {
  case NEAP_ARRIVES:
    return "arrives";
  case NEAP_LOST_CHANCE:
    return "lost by chance";
  case NEAP_LOST_CUT:
    return "lost at a cut";
  case NEAP_LOST_RULE:
    return "dropped by a rule";
  case NEAP_LOST_QUEUE:
    return "link queue full";
  case NEAP_LOST_BUFFER:
    return "socket buffer full";
  case NEAP_LOST_NOBODY:
    return "nobody there";
  case NEAP_LOST_SIZE:
    return "larger than a datagram";
  case NEAP_LOSTS:
    break;
  }
  return "?";
}

uint64_t neap_sim_log_add(struct sim *sim, const struct packet *packet, const struct host *to,
  enum neap_lost lost, uint64_t arrives)
{
  struct log_row *row = &sim->log[sim->logged++ % sim->log_size];
  if (row->slab) neap_slab_free(&sim->world, row->slab);
  *row = (struct log_row){.sent = sim->world.now,
    .arrives = arrives,
    .from = packet->from,
    .to = to,
    .slab = neap_slab_hold(packet->slab),
    .bytes = packet->bytes,
    .len = packet->len,
    .lost = (uint8_t)lost,
    .background = packet->background,
    .twice = packet->twice,
    .ruled = packet->ruled,
    .multicast = packet->multicast};
  return sim->logged;
}

void neap_sim_log_lost(struct sim *sim, uint64_t row, enum neap_lost lost)
{
  if (sim->log_size && row + sim->log_size > sim->logged)
    sim->log[(row - 1) % sim->log_size].lost = (uint8_t)lost;
}

uint32_t neap_sim_log_count(const struct neap_world *world)
{
  const struct sim *sim = neap_sim_of(world);
  return sim->logged < sim->log_size ? (uint32_t)sim->logged : sim->log_size;
}

bool neap_sim_log(const struct neap_world *world, uint32_t row, struct neap_sim_packet *packet)
{
  const struct sim *sim = neap_sim_of(world);
  uint32_t count = neap_sim_log_count(world);
  if (row >= count) return false;
  const struct log_row *at = &sim->log[(sim->logged - count + row) % sim->log_size];
  *packet = (struct neap_sim_packet){.sent = at->sent,
    .arrives = at->arrives,
    .from = at->from->name,
    .to = at->to ? at->to->name : "",
    .at = at->bytes,
    .len = at->len,
    .lost = at->lost,
    .background = at->background,
    .twice = at->twice,
    .ruled = at->ruled,
    .multicast = at->multicast};
  return true;
}

void neap_sim_log_start(struct neap_world *world, uint32_t packets)
{
  struct sim *sim = neap_sim_of(world);
  for (uint32_t r = 0; r < sim->log_size; r++)
    if (sim->log[r].slab) neap_slab_free(world, sim->log[r].slab);
  free(sim->log);
  sim->log = NULL;
  sim->log_size = packets;
  sim->logged = 0;
  if (!packets) return;
  sim->log = calloc(packets, sizeof *sim->log);
  NEAP_ASSERT(sim->log);
}
