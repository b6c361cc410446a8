/* path: what a message costs, counted and not timed.
 *
 * Two members live in one process on a wire that is a list of packets, so that callgrind can count
 * the instructions of one side at a time:
 *
 *     valgrind --tool=callgrind --collect-atstart=no --toggle-collect=bench_sender_side ...
 *
 * Each round one side sends a batch, the packets are carried over, the other side takes the
 * messages, and what it has to say (credits, reports) is carried back to the sender's account. */

#include "bench/bench.h"

#include "core/channel.h"
#include "core/layer.h"

#include <stdlib.h>
#include <string.h>

/* Virtual time between two rounds, and while the group forms. */
#define ROUND NEAP_US(100)
#define FORMING NEAP_MS(1)
enum { FORMING_ROUNDS = 6000, TURNS = 8 };

struct parcel {
  struct parcel *next;
  struct neap_port *from;
  struct neap_addr to; /* kind none: the group */
  struct neap_slab *slab;
  const uint8_t *at;
  uint32_t len;
};

struct wire {
  struct neap_world world;
  struct neap_port *ports[2];
  unsigned count;
  struct parcel *first, *last, *pool;
};

static int wire_open(struct neap_world *world, struct neap_layer *layer,
  const struct neap_port_spec *spec, neap_port_packet *packet, struct neap_port **port,
  struct neap_trail *trail)
{
  struct wire *wire = (struct wire *)world;
  struct neap_port *p = calloc(1, sizeof *p);
  (void)trail;
  NEAP_ASSERT(p && wire->count < 2);
  *p = (struct neap_port){.world = world,
    .layer = layer,
    .packet = packet,
    .spec = *spec,
    .receive_granted = 16 << 20,
    .send_granted = 4 << 20,
    .max_datagram = 65507,
    .mtu = 65507};
  p->local = (struct neap_addr){.kind = NEAP_ADDR_IP, .size = 4, .port = 7000};
  p->local.bytes[0] = 10;
  p->local.bytes[3] = (uint8_t)(wire->count + 1);
  wire->ports[wire->count++] = *port = p;
  return 0;
}

static void wire_send(struct neap_port *port, const struct neap_addr *to, struct neap_slab *slab,
  const uint8_t *at, uint32_t len, bool background)
{
  struct wire *wire = (struct wire *)port->world;
  struct parcel *p = wire->pool;
  (void)background;
  if (p)
    wire->pool = p->next;
  else
    p = malloc(sizeof *p);
  NEAP_ASSERT(p);
  *p = (struct parcel){NULL, port, {.kind = NEAP_ADDR_NONE}, neap_slab_hold(slab), at, len};
  if (to) p->to = *to;
  if (wire->last)
    wire->last->next = p;
  else
    wire->first = p;
  wire->last = p;
}

static void wire_flush(struct neap_port *port)
{
  (void)port;
}

static void wire_close(struct neap_port *port)
{
  struct wire *wire = (struct wire *)port->world;
  for (unsigned i = 0; i < wire->count; i++)
    if (wire->ports[i] == port) wire->ports[i] = NULL;
  free(port);
}

static const struct neap_world_class wire_class = {
  .name = "wire",
  .port_open = wire_open,
  .port_send = wire_send,
  .port_flush = wire_flush,
  .port_close = wire_close,
};

/* Carries the packets that are there now to whom they are for. */
static void carry(struct wire *wire)
{
  struct parcel *p = wire->first, *next;
  wire->first = wire->last = NULL;
  for (; p; p = next) {
    next = p->next;
    for (unsigned i = 0; i < wire->count; i++) {
      struct neap_port *port = wire->ports[i];
      if (!port || port == p->from) continue;
      if (p->to.kind == NEAP_ADDR_IP && !neap_addr_equal(&p->to, &port->local)) continue;
      port->packet(port->layer, p->slab, p->at, p->len, &p->from->local);
    }
    neap_slab_free(&wire->world, p->slab);
    p->next = wire->pool;
    wire->pool = p;
  }
}

static void wire_done(struct wire *wire)
{
  carry(wire);
  while (wire->pool) {
    struct parcel *p = wire->pool;
    wire->pool = p->next;
    free(p);
  }
  neap_world_done(&wire->world);
}

/* ---- sides ---- */

struct side {
  struct neap_channel *channel;
  uint64_t messages;
  unsigned view;
  bool room;
};

static void turns(struct side *side)
{
  struct neap_stack *stack = side->channel->stack;
  if (neap_link_alone(&stack->ready)) return;
  neap_link_remove(&stack->ready);
  while (neap_stack_turn(stack)) continue;
}

static void take(struct side *side)
{
  struct neap_row row;
  while (neap_channel_next(side->channel, &row)) {
    if (row.note) {
      if (row.note->kind == NEAP_NOTE_VIEW) side->view = row.note->view->count;
      if (row.note->kind == NEAP_NOTE_ROOM) side->room = true;
      neap_note_free(row.note);
      continue;
    }
    struct neap_msg *msg;
    while ((msg = neap_inbox_take(side->channel, row.inbox))) {
      side->messages++;
      neap_msg_free(msg);
    }
  }
}

/* Not static, so that callgrind finds them by name. */
void bench_sender_side(
  struct wire *wire, struct side *side, const struct neap_send *send, unsigned batch);
void bench_receiver_side(struct wire *wire, struct side *side);

__attribute__((noinline)) void bench_sender_side(
  struct wire *wire, struct side *side, const struct neap_send *send, unsigned batch)
{
  carry(wire); /* What the others said meanwhile. */
  turns(side);
  take(side);
  for (unsigned i = 0; side->room && i < batch; i++)
    side->room = neap_channel_send(side->channel, send) >= 0;
  turns(side);
}

__attribute__((noinline)) void bench_receiver_side(struct wire *wire, struct side *side)
{
  carry(wire);
  turns(side);
  take(side);
  turns(side);
}

static void pass_time(struct wire *wire, uint64_t by)
{
  wire->world.now += by;
  neap_world_fire(&wire->world);
}

static void form(struct wire *wire, struct side *ann, struct side *bob)
{
  for (int i = 0; i < FORMING_ROUNDS && ann->view + (bob ? bob->view : 1u) < (bob ? 4u : 2u); i++) {
    pass_time(wire, FORMING);
    carry(wire);
    neap_world_turns(&wire->world, TURNS);
    take(ann);
    if (bob) take(bob);
  }
}

uint64_t bench_path(const struct bench_load *load, unsigned batch, unsigned rounds)
{
  struct wire wire = {0};
  struct side ann = {.room = true}, bob = {.room = true};
  struct neap_trail trail = {""};
  uint8_t *body = calloc(1, load->size + 1u);
  struct neap_send send = {
    .body = body, .len = load->size, .timeout = UINT64_MAX, .no_loopback = true};
  const struct neap_stack_spec *spec = bench_plan(load);
  neap_world_init(&wire.world, &wire_class, 1);
  ann.channel = neap_channel_open(&wire.world, spec, "bench", "ann", &trail);
  form(&wire, &ann, NULL);
  bob.channel = neap_channel_open(&wire.world, spec, "bench", "bob", &trail);
  form(&wire, &ann, &bob);

  uint64_t before = bob.messages;
  for (unsigned i = 0; i < rounds; i++) {
    bench_sender_side(&wire, &ann, &send, batch);
    bench_receiver_side(&wire, &bob);
    pass_time(&wire, ROUND);
    turns(&ann);
    turns(&bob);
  }
  uint64_t arrived = bob.messages - before;
  neap_channel_close(ann.channel);
  neap_channel_close(bob.channel);
  neap_channel_free(ann.channel);
  neap_channel_free(bob.channel);
  wire_done(&wire);
  free(body);
  return arrived;
}
