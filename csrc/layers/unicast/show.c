/* What the prompt can ask of unicast, and do to it. */

#include "layers/unicast/unicast.h"

#include "base/text.h"

#include <inttypes.h>

/* The state of the peer with this name or address; says who there is when there is none. */
static struct peer *find(struct neap_layer *layer, const char *argument, char *out)
{
  struct neap_addr addr;
  struct neap_text text = neap_text_of(out, NEAP_OP_TEXT);
  const char *wanted = argument ? argument : "";
  bool address = neap_addr_parse(wanted, &addr);
  struct neap_nearest near = neap_nearest_to(wanted);
  struct peer *p;
  neap_each_peer (layer, p) {
    if (!p->peer) continue;
    if (address ? neap_addr_equal(&addr, &p->peer->addr) : !strcmp(wanted, p->peer->name)) return p;
    neap_nearest_offer(&near, p->peer->name);
  }
  neap_text_add(&text, "no peer '%.64s'", wanted);
  neap_nearest_add(&text, &near);
  return NULL;
}

static int show_connections(struct neap_layer *layer, const char *argument, char *out)
{
  struct neap_text text = neap_text_of(out, NEAP_OP_TEXT);
  uint64_t now = neap_now(layer);
  const struct peer *p;
  (void)argument;
  neap_each_peer (layer, p) {
    char name[NEAP_ADDR_TEXT];
    const struct out *o = &p->out;
    const struct in *in = &p->in;
    if (!p->peer) continue;
    neap_text_add(&text, "%-12s", neap_peer_text(p->peer, name));
    if (o->open)
      neap_text_add(&text, "  to #%u: %" PRIu64 " sent, %u not reported", o->conn, o->window.high,
        o->window.stored);
    if (in->open)
      neap_text_add(&text,
        "  from #%u: %" PRIu64 " applied, %" PRIu64 " handed up, %" PRIu64 " heard of, %u wait",
        in->conn, in->run->applied, in->window.hd, in->heard, in->window.waiting);
    if (in->early.count) neap_text_add(&text, "  %u early", in->early.count);
    if (in->remembered)
      neap_text_add(&text, "  remembers #%u up to %" PRIu64, in->old_conn, in->old_applied);
    if (p->rtt) neap_text_add(&text, "  round trip %.1f ms", (double)p->rtt / 1e6);
    if (!p->member && !p->peer->self)
      neap_text_add(&text, "  in no view for %.1f s", (double)(now - p->left) / 1e9);
    neap_text_add(&text, "\n");
  }
  return 0;
}

static int close_connection(struct neap_layer *layer, const char *argument, char *out)
{
  struct unicast *u = (struct unicast *)layer;
  struct peer *p = find(layer, argument, out);
  if (!p) return NEAP_NOT_A_MEMBER;
  neap_unicast_close_out(u, p, true);
  neap_unicast_forget(u, p);
  return 0;
}

static int forget(struct neap_layer *layer, const char *argument, char *out)
{
  struct peer *p = find(layer, argument, out);
  if (!p) return NEAP_NOT_A_MEMBER;
  neap_unicast_drop_in((struct unicast *)layer, p);
  return 0;
}

static int trigger_xmit(struct neap_layer *layer, const char *argument, char *out)
{
  struct unicast *u = (struct unicast *)layer;
  struct peer *p;
  (void)argument;
  (void)out;
  neap_each_peer (layer, p) {
    if (!p->peer || p->peer->self) continue;
    neap_unicast_ask_gaps(u, p);
    if (p->out.open && p->out.window.low != p->out.window.high) neap_unicast_resend_tail(u, p);
  }
  return 0;
}

const struct neap_op neap_unicast_ops[] = {
  {"connections", "A line per peer: what was sent, reported, applied, and waits.",
    show_connections},
  {"close", "Ends the connections with a peer, both ways; what is not reported is lost.",
    close_connection},
  {"forget", "Loses the receiving half from a peer, memory and all, as if by age: for tests.",
    forget},
  {"trigger_xmit", "Asks for every gap and sends every unreported tail again, now.", trigger_xmit},
  {0},
};
