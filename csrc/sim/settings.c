/* What of the network can be set, for every link or for one; partitions and cuts. */

#include "sim/net.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

#define AT(member) offsetof(struct net_spec, member)
/* ORDER: struct net_spec holds what these rows set. */
const struct neap_attr neap_sim_attrs[] = {
  {NEAP_PARAM, "latency", AT(latency), "ns", NEAP_MS(1), 0, NEAP_S(3600), .live = NEAP_NOW,
    .doc = "How long a packet is under way; 0: it arrives in the same instant."},
  {NEAP_PARAM, "jitter", AT(jitter), "ns", 0, 0, NEAP_S(3600), .live = NEAP_NOW,
    .doc = "Added to it at most, evenly drawn; order is kept.  0: none."},
  {NEAP_PARAM, "loss", AT(loss), "", 0, 0, 1000000, .type = NEAP_REAL, .live = NEAP_NOW,
    .doc = "Probability that a packet is lost.  0: never."},
  {NEAP_PARAM, "duplicate", AT(duplicate), "", 0, 0, 1000000, .type = NEAP_REAL, .live = NEAP_NOW,
    .doc = "Probability that a packet arrives twice, the copy later.  0: never."},
  {NEAP_PARAM, "reorder", AT(reorder), "", 0, 0, 1000000, .type = NEAP_REAL, .live = NEAP_NOW,
    .doc = "Probability that a packet is held back by up to twice latency and jitter and 1ms, so "
           "that later ones pass it.  0: never."},
  {NEAP_PARAM, "capacity", AT(capacity), "bytes", 0, 0, (uint64_t)1 << 40, .live = NEAP_NOW,
    .doc = "Bytes per second of each link; 0: unlimited."},
  {NEAP_PARAM, "queue", AT(queue), "bytes", 262144, 1, 1000000000, .live = NEAP_NOW,
    .doc = "Bytes that may wait at a link with a capacity; what comes then is lost."},
  {NEAP_PARAM, "mtu", AT(mtu), "bytes", DATAGRAM_MAX, 64, DATAGRAM_MAX, .live = NEAP_TICK,
    .doc = "What a datagram can carry in one piece, as ports opened from now on are told."},
  {NEAP_PARAM, "buffer", AT(buffer), "bytes", 4194304, 4096, 1000000000, .live = NEAP_TICK,
    .doc = "Socket buffer of ports opened from now on that ask for none; a paused member's fills."},
  {NEAP_END},
};

static int row_of(const char *name)
{
  for (int row = 0; neap_sim_attrs[row].kind; row++)
    if (!strcmp(neap_sim_attrs[row].name, name)) return row;
  return -1;
}

static void put(struct net_spec *spec, const struct neap_attr *attr, const struct neap_value *value)
{
  void *at = (char *)spec + attr->at;
  if (attr->type == NEAP_REAL)
    *(double *)at = value->real;
  else
    *(uint64_t *)at = value->number;
}

/* To every line that does not go its own way in this. */
static void put_common(struct sim *sim, int row, const struct neap_value *value)
{
  put(&sim->common, &neap_sim_attrs[row], value);
  for (uint32_t h = 0; h < sim->host_count; h++) {
    for (uint32_t i = 0; i < sim->hosts[h]->line_count; i++) {
      struct line *line = sim->hosts[h]->lines[i];
      if (line && line->own && !(line->own_set >> row & 1))
        put(line->own, &neap_sim_attrs[row], value);
    }
  }
}

static void put_line(
  struct sim *sim, const struct neap_sim_setting *setting, int row, const struct neap_value *value)
{
  struct host *from = neap_sim_host(sim, setting->from);
  struct line *line = neap_sim_line(sim, from, neap_sim_host(sim, setting->to));
  if (!line->own) {
    line->own = malloc(sizeof *line->own);
    NEAP_ASSERT(line->own);
    *line->own = sim->common;
  }
  line->own_set |= 1u << row;
  put(line->own, &neap_sim_attrs[row], value);
}

int neap_sim_set(
  struct neap_world *world, const struct neap_sim_setting *setting, char *why, size_t size)
{
  struct sim *sim = neap_sim_of(world);
  struct neap_value value = {0};
  int row = row_of(setting->name);
  if (row < 0) {
    struct neap_text text = neap_text_of(why, size);
    struct neap_nearest nearest = neap_nearest_to(setting->name);
    for (const struct neap_attr *attr = neap_sim_attrs; attr->kind; attr++)
      neap_nearest_offer(&nearest, attr->name);
    neap_text_add(&text, "the network has no setting '%s'", setting->name);
    neap_nearest_add(&text, &nearest);
    return NEAP_CONFIG;
  }
  const struct neap_attr *attr = &neap_sim_attrs[row];
  char what[200];
  int code = setting->text ? neap_attr_parse(attr, setting->text, &value, what, sizeof what)
                           : neap_attr_number(attr, setting->number, &value, what, sizeof what);
  if (code < 0) {
    snprintf(why, size, "%s: %s", setting->name, what);
    return code;
  }
  if (setting->from)
    put_line(sim, setting, row, &value);
  else
    put_common(sim, row, &value);
  neap_sim_event(sim, SIM_SET, setting->from ? neap_sim_host(sim, setting->from) : NULL,
    value.number + (uint64_t)(value.real * 1e6) + (uint64_t)row);
  return 0;
}

bool neap_sim_get(struct neap_world *world, const char *from, const char *to, const char *name,
  struct neap_value *value)
{
  struct sim *sim = neap_sim_of(world);
  int row = row_of(name);
  if (row < 0) return false;
  const struct net_spec *spec = &sim->common;
  if (from) {
    struct host *ends[2] = {neap_sim_host_find(sim, from), neap_sim_host_find(sim, to)};
    if (ends[0] && ends[1]) {
      struct line *line = neap_sim_line(sim, ends[0], ends[1]);
      if (line->own) spec = line->own;
    }
  }
  const struct neap_attr *attr = &neap_sim_attrs[row];
  const void *at = (const char *)spec + attr->at;
  *value = (struct neap_value){.type = attr->type};
  if (attr->type == NEAP_REAL)
    value->real = *(const double *)at;
  else
    value->number = *(const uint64_t *)at;
  return true;
}

static void cut(struct sim *sim, struct host *from, struct host *to)
{
  neap_sim_line(sim, from, to)->cut = true;
  neap_sim_event(sim, SIM_CUT, from, to->index);
}

void neap_sim_partition(
  struct neap_world *world, const char *const *names, const uint32_t *groups, uint32_t count)
{
  struct sim *sim = neap_sim_of(world);
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; k < count; k++)
      if (groups[i] != groups[k])
        cut(sim, neap_sim_host(sim, names[i]), neap_sim_host(sim, names[k]));
}

void neap_sim_cut(struct neap_world *world, const char *from, const char *to)
{
  struct sim *sim = neap_sim_of(world);
  cut(sim, neap_sim_host(sim, from), neap_sim_host(sim, to));
}

void neap_sim_heal(struct neap_world *world)
{
  struct sim *sim = neap_sim_of(world);
  for (uint32_t h = 0; h < sim->host_count; h++)
    for (uint32_t i = 0; i < sim->hosts[h]->line_count; i++)
      if (sim->hosts[h]->lines[i]) sim->hosts[h]->lines[i]->cut = false;
  neap_sim_event(sim, SIM_HEALED, NULL, 0);
}
