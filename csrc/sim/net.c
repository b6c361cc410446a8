/* Hosts, places, ports, and what happens to a packet between two of them.
 *
 *     cut?   ->  queue of the line  ->  latency + jitter, not before the one sent before it
 *            ->  chances: lost, late (others pass it), doubled  ->  rules  ->  flight
 *
 * The chances of a line are drawn from its own stream and for every packet alike, so that neither
 * another line nor a rule changes what is lost here. */

#include "sim/net.h"

#include "core/capture.h"
#include "core/headers.h"

#include <stdio.h>
#include <stdlib.h>

enum { FIRST_PORT = 40000, LATE_AT_LEAST = 1000000 /* ns */ };

/* ---- hosts, lines ---- */

struct host *neap_sim_host_find(const struct sim *sim, const char *name)
{
  for (uint32_t h = 0; h < sim->host_count; h++)
    if (!strcmp(sim->hosts[h]->name, name)) return sim->hosts[h];
  return NULL;
}

struct host *neap_sim_host(struct sim *sim, const char *name)
{
  struct host *host = neap_sim_host_find(sim, name);
  if (host) return host;
  if (sim->host_count == sim->host_room) {
    sim->host_room = sim->host_room ? sim->host_room * 2 : 16;
    sim->hosts = realloc(sim->hosts, sim->host_room * sizeof *sim->hosts);
    NEAP_ASSERT(sim->hosts);
  }
  host = calloc(1, sizeof *host);
  NEAP_ASSERT(host);
  snprintf(host->name, sizeof host->name, "%s", name);
  host->index = sim->host_count;
  host->next_port = FIRST_PORT;
  neap_link_init(&host->ports);
  sim->hosts[sim->host_count++] = host;
  return host;
}

struct line *neap_sim_line(struct sim *sim, struct host *from, struct host *to)
{
  if (to->index >= from->line_count) {
    from->lines = realloc(from->lines, sim->host_room * sizeof *from->lines);
    NEAP_ASSERT(from->lines);
    for (; from->line_count < sim->host_room; from->line_count++)
      from->lines[from->line_count] = NULL;
  }
  struct line *line = from->lines[to->index];
  if (line) return line;
  line = calloc(1, sizeof *line);
  NEAP_ASSERT(line);
  neap_random_seed(&line->random,
    sim->world.seed ^ ((uint64_t)(from->index + 1) << 40) ^ ((uint64_t)(to->index + 1) << 16));
  return from->lines[to->index] = line;
}

/* ---- places, groups ---- */

static struct place **bucket(struct sim *sim, const struct neap_addr *addr)
{
  uint64_t mixed = (addr->words[0] ^ addr->words[1] ^ addr->port) * 0x9e3779b97f4a7c15u;
  return &sim->places[(mixed >> 32) % PLACES];
}

static struct place *place_find(struct sim *sim, const struct neap_addr *addr)
{
  struct place *place = *bucket(sim, addr);
  while (place && !neap_addr_equal(&place->addr, addr)) place = place->next;
  return place;
}

static struct place *place_make(struct sim *sim, const struct neap_addr *addr)
{
  struct place *place = place_find(sim, addr);
  if (place) return place;
  place = calloc(1, sizeof *place);
  NEAP_ASSERT(place);
  place->addr = *addr;
  place->next = *bucket(sim, addr);
  return *bucket(sim, addr) = place;
}

static struct group *group_of(struct sim *sim, const struct neap_addr *addr)
{
  for (uint32_t g = 0; g < sim->group_count; g++)
    if (neap_addr_equal(&sim->groups[g]->addr, addr)) return sim->groups[g];
  struct group *group = calloc(1, sizeof *group);
  sim->groups = realloc(sim->groups, (sim->group_count + 1) * sizeof *sim->groups);
  NEAP_ASSERT(group && sim->groups);
  group->addr = *addr;
  return sim->groups[sim->group_count++] = group;
}

static void group_enter(struct group *group, struct port *port)
{
  if (group->count == group->room) {
    group->room = group->room ? group->room * 2 : 16;
    group->ports = realloc(group->ports, group->room * sizeof(struct port *));
    NEAP_ASSERT(group->ports);
  }
  group->ports[group->count++] = port;
}

static void group_leave(struct group *group, struct port *port)
{
  uint32_t at = 0;
  while (group->ports[at] != port) at++;
  group->count--;
  memmove(&group->ports[at], &group->ports[at + 1], (group->count - at) * sizeof(struct port *));
}

/* ---- ports ---- */

static bool anywhere(const struct neap_addr *bind)
{
  if (bind->kind != NEAP_ADDR_IP || !bind->size) return true;
  if (bind->size == 4) return bind->bytes[0] == 127 || !bind->words[0];
  uint8_t last = bind->bytes[15];
  for (unsigned i = 0; i < 15; i++)
    if (bind->bytes[i]) return false;
  return last <= 1; /* :: and ::1 */
}

/* The host's own address (10.0.0.1 for the first, fd00::1) where a stack says any or loopback; an
 * address it names is its own, if nobody else listens there. */
static struct neap_addr own_address(const struct host *host, const struct neap_port_spec *spec)
{
  if (!anywhere(&spec->bind)) return spec->bind;
  uint32_t number = host->index + 1;
  bool six = spec->bind.size == 16 || spec->group.size == 16;
  struct neap_addr addr = {.kind = NEAP_ADDR_IP, .size = six ? 16 : 4, .port = spec->bind.port};
  addr.bytes[0] = six ? 0xfd : 10;
  uint8_t *end = addr.bytes + addr.size;
  for (unsigned i = 1; i <= 3; i++, number >>= 8) end[-(int)i] = (uint8_t)number;
  return addr;
}

int neap_sim_port_open(struct neap_world *world, struct neap_layer *layer,
  const struct neap_port_spec *spec, neap_port_packet *packet, struct neap_port **port,
  struct neap_trail *trail)
{
  struct sim *sim = neap_sim_of(world);
  struct host *host = neap_sim_host(sim, layer->stack->self->name);
  struct neap_addr addr = own_address(host, spec);
  if (!addr.port) {
    do addr.port = ++host->next_port; /* Never one that was used before, until all were. */
    while (!addr.port || (place_find(sim, &addr) && place_find(sim, &addr)->port));
  }
  struct place *place = place_make(sim, &addr);
  if (place->port) {
    char text[NEAP_ADDR_TEXT];
    neap_trail(trail, NEAP_ADDRESS, "address in use");
    return neap_trail(trail, NEAP_ADDRESS, "bind %s", neap_addr_text(&addr, text));
  }
  struct port *made = calloc(1, sizeof *made);
  NEAP_ASSERT(made);
  layer->stack->host = host;
  host->member = layer->stack->self->addr;
  for (uint32_t i = 0; i < layer->stack->count; i++)
    if (layer->stack->layers[i]->class->headers)
      neap_sim_know(world, layer->stack->layers[i]->class->headers);
  made->host = place->host = host;
  made->place = place;
  place->port = made;
  neap_link_before(&host->ports, &made->link);
  made->buffer = spec->receive_buffer ? spec->receive_buffer : sim->common.buffer;
  if (!neap_addr_none(&spec->group)) {
    made->group = group_of(sim, &spec->group);
    group_enter(made->group, made);
  }
  made->port = (struct neap_port){.world = world,
    .layer = layer,
    .packet = packet,
    .spec = *spec,
    .local = addr,
    .receive_granted = (uint32_t)made->buffer,
    .send_granted = spec->send_buffer ? spec->send_buffer : (uint32_t)sim->common.buffer,
    .max_datagram = DATAGRAM_MAX,
    .mtu = (uint32_t)sim->common.mtu};
  *port = &made->port;
  return 0;
}

void neap_sim_port_close(struct neap_port *port)
{
  struct sim *sim = neap_sim_of(port->world);
  struct port *p = NEAP_HOLDER(port, struct port, port);
  for (struct flight *flight = p->first, *next; flight; flight = next) {
    next = flight->next;
    neap_sim_flight_free(sim, flight);
  }
  if (p->group) group_leave(p->group, p);
  p->place->port = NULL;
  neap_link_remove(&p->link);
  free(p);
}

/* ---- the way of a packet ---- */

static void lose(
  struct sim *sim, const struct packet *packet, const struct host *to, enum neap_lost lost)
{
  sim->counts.lost[lost]++;
  neap_sim_event(sim, SIM_LOST, to, packet->digest + lost);
  if (sim->log) neap_sim_log_add(sim, packet, to, lost, sim->world.now);
}

/* When it comes out of the line's queue; false if there is no room in it. */
static bool queue(
  struct sim *sim, struct line *line, const struct net_spec *spec, uint32_t len, uint64_t *out)
{
  *out = sim->world.now;
  if (!spec->capacity) return true;
  uint64_t waits = line->free_at > *out ? line->free_at - *out : 0;
  uint64_t waiting = (uint64_t)((double)waits * (double)spec->capacity / 1e9);
  if (waiting && waiting + len > spec->queue) return false;
  line->free_at = *out += waits + (uint64_t)len * NEAP_S(1) / spec->capacity;
  return true;
}

static void carry(struct sim *sim, struct packet packet, struct place *to)
{
  uint64_t at = sim->world.now + LOOPBACK_DELAY, copy_at = 0;
  if (to->host != packet.from) {
    struct line *line = neap_sim_line(sim, packet.from, to->host);
    const struct net_spec *spec = line->own ? line->own : &sim->common;
    bool lost = neap_random_chance(&line->random, spec->loss);
    bool twice = neap_random_chance(&line->random, spec->duplicate);
    bool late = neap_random_chance(&line->random, spec->reorder);
    uint64_t delay = spec->latency + neap_random_below(&line->random, spec->jitter + 1);
    uint64_t spread = 2 * (spec->latency + spec->jitter) + LATE_AT_LEAST;
    uint64_t out;
    if (NEAP_IS_MUTANT(201)) line->cut = false;
    enum neap_lost why = line->cut                                   ? NEAP_LOST_CUT
                         : !queue(sim, line, spec, packet.len, &out) ? NEAP_LOST_QUEUE
                         : lost                                      ? NEAP_LOST_CHANCE
                                                                     : NEAP_ARRIVES;
    if (why) {
      lose(sim, &packet, to->host, why);
      return;
    }
    if (NEAP_IS_MUTANT(202)) line->last_arrival = 0;
    at = out + delay > line->last_arrival ? out + delay : line->last_arrival;
    if (late)
      at += 1 + neap_random_below(&line->random, spread);
    else
      line->last_arrival = at;
    if (twice) copy_at = at + neap_random_below(&line->random, spread);
    sim->counts.reordered += late;
    sim->counts.duplicated += twice;
  }
  if (sim->rules_live) {
    enum rules_left left = neap_sim_rules(sim, &packet, to, at);
    if (left == RULES_LEFT_NOTHING) lose(sim, &packet, to->host, NEAP_LOST_RULE);
    if (left != RULES_LEFT_REST) return;
  }
  neap_sim_fly(sim, &packet, to, at);
  if (copy_at) {
    packet.twice = true;
    neap_sim_fly(sim, &packet, to, copy_at);
  }
  if (packet.ruled) neap_slab_free(&sim->world, packet.slab);
}

void neap_sim_port_send(struct neap_port *port, const struct neap_addr *to, struct neap_slab *slab,
  const uint8_t *at, uint32_t len, bool background)
{
  struct sim *sim = neap_sim_of(port->world);
  struct port *p = NEAP_HOLDER(port, struct port, port);
  if (sim->closing || p->dead) return;
  struct packet packet = {.from = p->host,
    .src = &port->local,
    .slab = slab,
    .bytes = at,
    .len = len,
    .digest = neap_sim_digest(at, len),
    .background = background,
    .multicast = !to};
  sim->counts.sent++;
  neap_sim_event(sim, SIM_SENT, p->host, packet.digest);
  if (len > DATAGRAM_MAX) {
    port->counts.send_errors++;
    lose(sim, &packet, NULL, NEAP_LOST_SIZE);
    return;
  }
  port->counts.packets_sent++;
  port->counts.bytes_sent += len;
  if (to) {
    struct place *place = place_find(sim, to);
    if (place)
      carry(sim, packet, place);
    else
      lose(sim, &packet, NULL, NEAP_LOST_NOBODY);
    return;
  }
  for (uint32_t i = 0; p->group && i < p->group->count; i++) {
    struct port *other = p->group->ports[i];
    if (other->host != p->host || port->spec.loop) carry(sim, packet, other->place);
  }
}

/* Where packets of a host come from that has no port: nobody listens there. */
static struct place *place_of(struct sim *sim, struct host *host)
{
  if (host->ports.next != &host->ports)
    return NEAP_HOLDER(host->ports.next, struct port, link)->place;
  struct neap_port_spec spec = {.bind = {.port = OUTSIDE_PORT}};
  struct neap_addr addr = own_address(host, &spec);
  struct place *place = place_make(sim, &addr);
  if (!place->host) place->host = host;
  return place;
}

const struct neap_addr *neap_sim_inject(
  struct neap_world *world, const char *from, const char *to, const uint8_t *at, uint32_t len)
{
  struct sim *sim = neap_sim_of(world);
  struct host *host = neap_sim_host(sim, from);
  const struct place *place = place_of(sim, host);
  struct neap_slab *slab = neap_slab_new(world, len ? len : 1);
  memcpy(slab->at, at, len);
  struct packet packet = {.from = host,
    .src = &place->addr,
    .slab = slab,
    .bytes = slab->at,
    .len = slab->used = len,
    .digest = neap_sim_digest(at, len),
    .multicast = !to};
  neap_sim_event(sim, SIM_INJECTED, host, packet.digest);
  for (uint32_t h = 0; h < sim->host_count; h++) {
    struct neap_link *ports = &sim->hosts[h]->ports;
    if (to ? strcmp(sim->hosts[h]->name, to) != 0 : sim->hosts[h] == host) continue;
    for (struct neap_link *link = ports->next; link != ports; link = link->next) {
      const struct port *port = NEAP_HOLDER(link, struct port, link);
      neap_capture_left(world, &place->addr, &port->port.local, at, len);
      carry(sim, packet, port->place);
    }
  }
  neap_slab_free(world, slab);
  return &place->addr;
}

/* ---- life ---- */

void neap_sim_net_init(struct sim *sim)
{
  for (const struct neap_attr *attr = neap_sim_attrs; attr->kind; attr++) {
    void *at = (char *)&sim->common + attr->at;
    if (attr->type == NEAP_REAL)
      *(double *)at = (double)attr->value / 1e6;
    else
      *(uint64_t *)at = attr->value;
  }
  neap_registry_init(&sim->registry);
  neap_sim_know(&sim->world, neap_known_headers);
}

void neap_sim_net_done(struct sim *sim)
{
  for (uint32_t h = 0; h < sim->host_count; h++) {
    struct host *host = sim->hosts[h];
    for (uint32_t i = 0; i < host->line_count; i++) {
      if (host->lines[i]) free(host->lines[i]->own);
      free(host->lines[i]);
    }
    free(host->lines);
    free(host);
  }
  for (unsigned b = 0; b < PLACES; b++) {
    for (struct place *place = sim->places[b], *next; place; place = next) {
      next = place->next;
      free(place);
    }
  }
  for (uint32_t g = 0; g < sim->group_count; g++) {
    free(sim->groups[g]->ports);
    free(sim->groups[g]);
  }
  free(sim->hosts);
  free(sim->groups);
  free(sim->scratch);
}
