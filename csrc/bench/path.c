/* path: what a message costs, counted and not timed.
 *
 * Two members live in one process on a wire that is a list of packets, so that callgrind can count
 * the instructions of one side at a time:
 *
 *     valgrind --tool=callgrind --toggle-collect=path_send_side    neap-bench path ...
 *     valgrind --tool=callgrind --toggle-collect=path_receive_side neap-bench path ...
 *
 * Each round sends a batch on one side, carries the packets over, takes the messages on the other,
 * and carries back what that side has to say (credits, acks) outside of both counts or, with that
 * side's name, inside it. */

#include "bench/bench.h"

#include "core/channel.h"
#include "core/layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
  struct neap_port *ports[BENCH_MEMBERS];
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

static const struct neap_world_class wire_class = {.name = "wire",
  .port_open = wire_open,
  .port_send = wire_send,
  .port_flush = wire_flush,
  .port_close = wire_close};

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

static void turns(struct neap_stack *stack)
{
  if (neap_link_alone(&stack->ready)) return;
  neap_link_remove(&stack->ready);
  while (neap_stack_turn(stack)) continue;
}

struct side {
  struct neap_channel *channel;
  uint64_t messages;
  unsigned view;
  bool room;
};

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

static uint64_t pass_time(struct wire *wire, uint64_t by)
{
  wire->world.now += by;
  neap_world_fire(&wire->world);
  return wire->world.now;
}

__attribute__((noinline)) void path_send_side(
  struct side *side, const uint8_t *body, uint32_t size, unsigned batch);
__attribute__((noinline)) void path_receive_side(struct wire *wire, struct side *side);
__attribute__((noinline)) void path_reply_side(struct wire *wire, struct side *side);

void path_send_side(struct side *side, const uint8_t *body, uint32_t size, unsigned batch)
{
  struct neap_send send = {.body = body, .len = size, .timeout = UINT64_MAX, .no_loopback = true};
  if (side->room) {
    for (unsigned i = 0; i < batch; i++) {
      int64_t code = neap_channel_send(side->channel, &send);
      if (code < 0) {
        side->room = false;
        break;
      }
    }
  }
  turns(side->channel->stack);
  take(side);
  turns(side->channel->stack);
}

void path_receive_side(struct wire *wire, struct side *side)
{
  carry(wire);
  turns(side->channel->stack);
  take(side);
  turns(side->channel->stack);
}

/* What comes back to the sender: acks, votes, credits. */
void path_reply_side(struct wire *wire, struct side *side)
{
  carry(wire);
  turns(side->channel->stack);
  take(side);
  turns(side->channel->stack);
}

int bench_path(const struct bench_load *load, unsigned batch, unsigned rounds)
{
  struct wire wire = {0};
  struct side ann = {.room = true}, bob = {.room = true};
  struct neap_trail trail = {""};
  uint8_t *body = calloc(1, load->size + 1u);
  neap_world_init(&wire.world, &wire_class, 1);
  const struct neap_stack_spec *spec = bench_plan(load);
  ann.channel = neap_channel_open(&wire.world, spec, "bench", "ann", &trail);
  for (int i = 0; i < 3000 && !ann.view; i++) {
    pass_time(&wire, 1000000);
    neap_world_turns(&wire.world, 8);
    take(&ann);
  }
  bob.channel = neap_channel_open(&wire.world, spec, "bench", "bob", &trail);
  for (int i = 0; i < 6000 && (ann.view < 2 || bob.view < 2); i++) {
    pass_time(&wire, 1000000);
    carry(&wire);
    neap_world_turns(&wire.world, 8);
    take(&ann);
    take(&bob);
  }
  uint64_t before_a = ann.messages, before_b = bob.messages;
  for (unsigned i = 0; i < rounds; i++) {
    path_send_side(&ann, body, load->size, batch);
    path_receive_side(&wire, &bob);
    path_reply_side(&wire, &ann);
    pass_time(&wire, 100000);
    turns(ann.channel->stack);
    turns(bob.channel->stack);
  }
  printf("view %u %u: ann took %llu, bob took %llu\n", ann.view, bob.view,
    (unsigned long long)(ann.messages - before_a), (unsigned long long)(bob.messages - before_b));
  free(body);
  return 0;
}
