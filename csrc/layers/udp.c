/* udp: datagrams, to one or to everybody at once.
 *
 * Each member has a socket of its own, whose address discovery tells the
 * others; what goes to everybody leaves from it too, so that the source of a
 * packet says where its sender is.  The group comes in by a second socket bound
 * to the group's address.  Both are the world's (a port): this layer packs,
 * sends, checks and unpacks, in the real world and in the simulated one.
 *
 *   down   [m][m][m] -> packet to the group | packet per member     layers/transport/send.c
 *   up     packet -> [m][m][m], or a counted reason                  layers/transport/receive.c
 *
 * Packets get lost, doubled and overtaken; reliable layers stand above.
 *
 * Invariant: nothing is left in an open packet once the stack stands still. */

#include "core/capture.h"
#include "layers/transport/transport.h"

#include <stdio.h>

enum { INTERFACE_NAME = sizeof((struct neap_port_spec *)0)->interface };

struct udp {
  struct neap_transport t;
  char *group, *bind, *interface, *version; /* params */
  uint64_t bind_port, port_range, ttl, receive_buffer, send_buffer;
  bool offload;
  uint64_t port_number, receive_granted, send_granted; /* gauges */
  struct neap_port_counts counts, told; /* counters; as they were when their loss was last told */
  struct neap_port *port;
  struct neap_timer telling;
};

/* An address without a port: "127.0.0.1", "::1". */
static bool read_address(const char *text, struct neap_addr *addr)
{
  char with_port[NEAP_ADDR_TEXT];
  const char *form = strchr(text, ':') ? "[%s]:0" : "%s:0";
  int len = snprintf(with_port, sizeof with_port, form, text);
  return len > 0 && (size_t)len < sizeof with_port && neap_addr_parse(with_port, addr) &&
         addr->kind == NEAP_ADDR_IP;
}

static bool multicast(const struct neap_addr *a)
{
  return a->kind == NEAP_ADDR_IP && a->port &&
         (a->size == 4 ? (a->bytes[0] & 0xf0) == 0xe0 : a->bytes[0] == 0xff);
}

/* ---- what the texts of a stack file must be ---- */

static const char *refuse_group(const char *text)
{
  struct neap_addr addr;
  bool good = neap_addr_parse(text, &addr) && multicast(&addr);
  return good ? NULL : "a multicast address and port such as \"239.7.7.7:7600\"";
}

static const char *refuse_bind(const char *text)
{
  struct neap_addr addr;
  bool good = !strcmp(text, "auto") || read_address(text, &addr);
  return good ? NULL : "an address such as \"127.0.0.1\", or \"auto\"";
}

static const char *refuse_interface(const char *text)
{
  return strlen(text) < INTERFACE_NAME ? NULL : "the name of an interface such as \"eth0\"";
}

static const char *refuse_version(const char *text)
{
  uint16_t version;
  return neap_transport_version(text, &version) ? NULL : "a version such as \"5.5.6\"";
}

#define AT(member) offsetof(struct udp, member)
static const struct neap_attr udp_attrs[] = {
  {NEAP_PARAM, "group", AT(group), "", .type = NEAP_TEXT, .text = "239.7.7.7:7600",
    .refuse = refuse_group,
    .doc = "Address and port that everybody listens to: a multicast address."},
  {NEAP_PARAM, "bind", AT(bind), "", .type = NEAP_TEXT, .text = "auto", .refuse = refuse_bind,
    .doc = "Address of this member's own socket; auto: the interface's, or 127.0.0.1 when no "
           "interface is named."},
  {NEAP_PARAM, "interface", AT(interface), "", .type = NEAP_TEXT, .text = "",
    .refuse = refuse_interface,
    .doc = "Name of the interface for the group, such as eth0; empty: the one with the address in "
           "`bind`."},
  {NEAP_PARAM, "port", AT(bind_port), "port", 0, 0, 65535,
    .doc = "Of its own socket; 0: any free one."},
  {NEAP_PARAM, "port_range", AT(port_range), "ports", 10, 0, 1000,
    .doc = "When `port` is taken, so many after it are tried. Without effect while port is 0."},
  {NEAP_PARAM, "ttl", AT(ttl), "hops", 8, 0, 255,
    .doc = "How many routers a multicast may pass; 0: it stays on this host."},
  {NEAP_PARAM, "receive_buffer", AT(receive_buffer), "bytes", 8u << 20, 0, 1u << 30,
    .doc = "Asked of the kernel for each socket; see receive_granted. 0: the kernel's default."},
  {NEAP_PARAM, "send_buffer", AT(send_buffer), "bytes", 2u << 20, 0, 1u << 30,
    .doc = "Asked of the kernel; see send_granted. 0: the kernel's default."},
  {NEAP_PARAM, "offload", AT(offload), "", 1, .type = NEAP_BOOL,
    .doc = "Let the kernel cut and join runs of equal packets, where it can."},
  {NEAP_PARAM, "version", AT(version), "", .type = NEAP_TEXT, .text = "5.5.6",
    .refuse = refuse_version,
    .doc = "Version in each packet; one with another major or minor number is dropped."},
  NEAP_TRANSPORT_ATTRS,
  {NEAP_GAUGE, "port_number", AT(port_number), "port", .doc = "Port of this member's own socket."},
  {NEAP_GAUGE, "receive_granted", AT(receive_granted), "bytes",
    .doc = "What the kernel gave, by its own count; windows are sized from it."},
  {NEAP_GAUGE, "send_granted", AT(send_granted), "bytes", .doc = "The same for sending."},
  {NEAP_COUNTER, "packets_sent", AT(counts.packets_sent), "packets", .doc = "Left."},
  {NEAP_COUNTER, "packets_received", AT(counts.packets_received), "packets", .doc = "Came."},
  {NEAP_COUNTER, "bytes_sent", AT(counts.bytes_sent), "bytes", .doc = "In packets that left."},
  {NEAP_COUNTER, "bytes_received", AT(counts.bytes_received), "bytes", .doc = "In packets."},
  {NEAP_COUNTER, "send_blocked", AT(counts.send_blocked), "times",
    .doc = "The kernel had no room: what was to leave waits."},
  {NEAP_COUNTER, "send_dropped", AT(counts.send_dropped), "packets",
    .doc = "There was no room to wait either: as good as lost on the way."},
  {NEAP_COUNTER, "send_refused", AT(counts.send_refused), "packets",
    .doc = "The kernel's rules forbade it (a firewall): as good as lost on the way."},
  {NEAP_COUNTER, "send_errors", AT(counts.send_errors), "packets",
    .doc = "Failed to leave for any other reason."},
  {NEAP_COUNTER, "receive_errors", AT(counts.receive_errors), "packets",
    .doc = "Reading failed, mostly an answer that nobody listens at some place."},
  {NEAP_COUNTER, "receive_overflow", AT(counts.receive_overflow), "packets",
    .doc =
      "Dropped by the kernel because the receive buffer was full; what offload joined is one."},
  {NEAP_END},
};

static uint64_t lost_here(const struct neap_port_counts *c)
{
  return c->send_dropped + c->send_refused + c->send_errors + c->receive_overflow;
}

/* One line a second at most, however much is lost. */
static void tell(struct neap_layer *layer, struct neap_timer *timer)
{
  struct udp *u = (struct udp *)layer;
  struct neap_port_counts before = u->told;
  (void)timer;
  u->told = u->counts = u->port->counts;
  neap_trouble(layer, NULL,
    "packets lost on this host: %llu had no room to leave, %llu were forbidden, %llu failed, "
    "%llu had no room to come in",
    (unsigned long long)(u->told.send_dropped - before.send_dropped),
    (unsigned long long)(u->told.send_refused - before.send_refused),
    (unsigned long long)(u->told.send_errors - before.send_errors),
    (unsigned long long)(u->told.receive_overflow - before.receive_overflow));
}

/* Gauges and counters as they are now. */
static void show(struct udp *u)
{
  u->counts = u->port->counts;
  if (lost_here(&u->counts) != lost_here(&u->told) && !u->telling.armed)
    neap_timer_start(&u->t.layer, &u->telling, NEAP_S(1));
}

static void leave(struct neap_transport *t, const struct neap_addr *to, struct neap_slab *slab,
  const uint8_t *at, uint32_t len, bool background)
{
  struct neap_world *world = neap_world_of(&t->layer);
  struct neap_port *port = ((struct udp *)t)->port;
  if (world->capture) neap_capture_left(world, &port->local, to ? to : &port->spec.group, at, len);
  world->class->port_send(port, to, slab, at, len, background);
}

static void arrived(struct neap_layer *layer, struct neap_slab *slab, const uint8_t *at,
  uint32_t len, const struct neap_addr *from)
{
  struct udp *u = (struct udp *)layer;
  if (neap_world_of(layer)->capture) neap_capture_came(u->port, from, at, len);
  neap_transport_arrived(&u->t, slab, at, len, from);
  show(u);
}

/* The texts were looked at when the stack file was read. */
static void read_spec(struct udp *u, struct neap_port_spec *spec)
{
  *spec = (struct neap_port_spec){
    .bind.kind = NEAP_ADDR_NONE,
    .ttl = (uint8_t)u->ttl,
    .loop = true,
    .receive_buffer = (uint32_t)u->receive_buffer,
    .send_buffer = (uint32_t)u->send_buffer,
    .offload = u->offload,
  };
  bool good = neap_addr_parse(u->group, &spec->group);
  good &= neap_transport_version(u->version, &u->t.version);
  if (strcmp(u->bind, "auto"))
    good &= read_address(u->bind, &spec->bind);
  else if (!*u->interface)
    good &= read_address("127.0.0.1", &spec->bind);
  NEAP_ASSERT(good);
  snprintf(spec->interface, sizeof spec->interface, "%s", u->interface);
}

/* ---- life ---- */

static int udp_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct udp *u = (struct udp *)layer;
  struct neap_world *world = neap_world_of(layer);
  struct neap_port_spec spec;
  int code = 0;
  read_spec(u, &spec);
  uint64_t last = u->bind_port ? u->bind_port + u->port_range : 0;
  if (last > 65535) last = 65535;
  for (uint64_t port = u->bind_port; port <= last; port++) {
    struct neap_trail why = {0};
    spec.bind.port = (uint16_t)port;
    code = world->class->port_open(world, layer, &spec, arrived, &u->port, &why);
    if (!code || code != NEAP_ADDRESS || port == last) {
      *trail = why;
      break;
    }
  }
  if (code) return code;

  u->port_number = u->port->local.port;
  u->receive_granted = layer->stack->rx_buffer = u->port->receive_granted;
  u->send_granted = u->port->send_granted;
  u->t.leave = leave;
  u->t.place = u->port->local;
  u->t.auto_packet = u->port->mtu;
  u->t.datagram_most = u->port->max_datagram;
  neap_timer_init_background(layer, &u->telling, tell);
  neap_transport_begin(&u->t);
  return 0;
}

static void push(struct udp *u)
{
  neap_world_of(&u->t.layer)->class->port_flush(u->port);
  u->t.urgent = false;
}

static void udp_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct udp *u = (struct udp *)layer;
  neap_transport_down(layer, batch);
  if (u->t.urgent) push(u);
}

static enum neap_verdict udp_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct udp *u = (struct udp *)layer;
  const struct neap_world_class *world = neap_world_of(layer)->class;
  if (up || event->kind != NEAP_EVENT_VACANT) return neap_transport_event(layer, event, up);
  const struct neap_place *p = neap_peer_state_have(layer, event->peer);
  event->flag = world->port_vacant && p && p->known && world->port_vacant(u->port, &p->at);
  return NEAP_ANSWER;
}

static void udp_still(struct neap_layer *layer)
{
  struct udp *u = (struct udp *)layer;
  neap_transport_flush(&u->t);
  push(u);
  show(u);
}

static void udp_changed(struct neap_layer *layer, const struct neap_attr *attr)
{
  (void)attr;
  neap_transport_limit((struct neap_transport *)layer);
}

static void udp_close(struct neap_layer *layer)
{
  struct udp *u = (struct udp *)layer;
  neap_transport_end(&u->t);
  push(u);
  neap_timer_stop(&u->telling);
  neap_world_of(layer)->class->port_close(u->port);
  u->port = NULL;
}

static void udp_check(const struct neap_layer *layer)
{
  const struct udp *u = (const struct udp *)layer;
  neap_transport_check(&u->t);
  NEAP_ASSERT(!u->port || layer->stack->pending || !u->t.open);
}

static const struct neap_op udp_ops[] = {
  {"where", "The places of members that are known, one on a line.", neap_transport_places},
  {0},
};

const struct neap_class neap_udp = {
  .name = "udp",
  .doc = "Datagrams to one member or to all; they may be lost, doubled or overtaken.",
  .gives = "unicast multicast jgroups5",
  .size = sizeof(struct udp),
  .peer_size = sizeof(struct neap_place),
  .peer_gone = neap_transport_peer_gone,
  .headers = neap_transport_headers,
  .attrs = udp_attrs,
  .ops = udp_ops,
  .open = udp_open,
  .down = udp_down,
  .event = udp_event,
  .still = udp_still,
  .changed = udp_changed,
  .close = udp_close,
  .check = udp_check,
};
