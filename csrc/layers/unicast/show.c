/* What the prompt can ask of unicast, and do to it. */

#include "layers/unicast/unicast.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>

/* The peer with this name or address, which is another; else says who there is. */
static int find(struct neap_layer *layer, const char *argument, char *out, struct peer **found)
{
  struct neap_addr addr;
  struct neap_text text = neap_text_of(out, NEAP_OP_TEXT);
  const char *wanted = argument ? argument : "";
  bool address = neap_addr_parse(wanted, &addr);
  struct neap_nearest near = neap_nearest_to(wanted);
  struct peer *p;
  neap_each_peer (layer, p) {
    if (!p->peer) continue;
    neap_nearest_offer(&near, p->peer->name);
    if (address ? !neap_addr_equal(&addr, &p->peer->addr) : strcmp(wanted, p->peer->name) != 0)
      continue;
    *found = p;
    if (!p->peer->self) return 0;
    neap_text_add(&text, "nothing gets lost on the way to oneself");
    return NEAP_REFUSED;
  }
  if (*wanted)
    neap_text_add(&text, "no peer '%.64s'", wanted);
  else
    neap_text_add(&text, "the name of a peer is wanted, such as \"bob\"");
  neap_nearest_add(&text, &near);
  return NEAP_NOT_A_MEMBER;
}

static const char *mode_word(unsigned mode)
{
  return mode == NEAP_UNI_ACK_MODE ? "ack" : "nak";
}

static void show_out(struct neap_text *text, const struct out *o)
{
  const struct neap_window *w = &o->window;
  neap_text_add(text,
    " to=%u low=%" PRIu64 " high=%" PRIu64 " bytes=%" PRIu64 " mode=%s epoch=%u%s%s", o->conn,
    w->low, w->high, w->bytes, mode_word(o->mode), o->epoch, o->turn ? " toggling" : "",
    o->syncing ? " syncing" : "");
}

static void show_in(struct neap_text *text, const struct in *in)
{
  const struct neap_window *w = &in->window;
  uint64_t gaps = in->heard - w->hd - w->waiting;
  neap_text_add(text,
    " from=%u applied=%" PRIu64 " received=%" PRIu64 " heard=%" PRIu64 " gaps=%" PRIu64
    " reported=%" PRIu64 " mode=%s epoch=%u%s",
    in->conn, in->run->applied, w->high, in->heard, gaps, in->reported, mode_word(in->mode),
    in->epoch, in->closing ? " closing" : "");
}

static int show_windows(struct neap_layer *layer, const char *argument, char *out)
{
  struct neap_text text = neap_text_of(out, NEAP_OP_TEXT);
  const struct peer *p;
  (void)argument;
  neap_each_peer (layer, p) {
    char name[NEAP_ADDR_TEXT];
    const struct in *in = &p->in;
    if (!p->peer) continue;
    neap_text_add(&text, "%s", neap_peer_text(p->peer, name));
    if (p->out.open) show_out(&text, &p->out);
    if (in->open) show_in(&text, in);
    if (in->early.count) neap_text_add(&text, " early=%u", in->early.count);
    if (in->remembered)
      neap_text_add(&text, " remembers=%u at=%" PRIu64, in->old_conn, in->old_applied);
    if (p->rtt) neap_text_add(&text, " rtt=%.1fms", (double)p->rtt / 1e6);
    if (!p->member && !p->peer->self)
      neap_text_add(&text, " left=%.1fs", (double)(neap_now(layer) - p->left) / 1e9);
    neap_text_add(&text, "\n");
  }
  return 0;
}

static int close_both(struct neap_layer *layer, const char *argument, char *out)
{
  struct unicast *u = (struct unicast *)layer;
  struct peer *p;
  int code = find(layer, argument, out, &p);
  if (code) return code;
  neap_unicast_close_out(u, p, true);
  neap_unicast_forget(u, p);
  return 0;
}

static int expire(struct neap_layer *layer, const char *argument, char *out)
{
  struct peer *p;
  int code = find(layer, argument, out, &p);
  if (code) return code;
  neap_unicast_expire((struct unicast *)layer, p);
  return 0;
}

static int forget(struct neap_layer *layer, const char *argument, char *out)
{
  struct peer *p;
  int code = find(layer, argument, out, &p);
  if (code) return code;
  neap_trouble(layer, p->peer, "its messages may come twice: its table was lost by hand");
  neap_unicast_drop_in((struct unicast *)layer, p);
  return 0;
}

static int lose(struct neap_layer *layer, const char *argument, char *out)
{
  struct peer *p;
  int code = find(layer, argument, out, &p);
  if (code) return code;
  neap_unicast_close_out((struct unicast *)layer, p, false);
  return 0;
}

static int sync_now(struct neap_layer *layer, const char *argument, char *out)
{
  struct peer *p;
  int code = find(layer, argument, out, &p);
  if (code) return code;
  neap_unicast_sync((struct unicast *)layer, p);
  return 0;
}

static int set_mode(
  struct neap_layer *layer, const char *argument, char *out, enum neap_uni_mode mode)
{
  struct unicast *u = (struct unicast *)layer;
  struct peer *p;
  int code = find(layer, argument, out, &p);
  if (code) return code;
  const char *why = NULL;
  if (!p->peer->generation) why = "it is not a Neap member and could not follow";
  if (!neap_unicast_may_toggle(p)) why = "it has not followed the last changes of it";
  if (why) {
    snprintf(out, NEAP_OP_TEXT, "%s", why);
    return NEAP_REFUSED;
  }
  neap_unicast_toggle(u, p, mode);
  neap_unicast_follow(u);
  return 0;
}

static int set_ack(struct neap_layer *layer, const char *argument, char *out)
{
  return set_mode(layer, argument, out, NEAP_UNI_ACK_MODE);
}

static int set_nak(struct neap_layer *layer, const char *argument, char *out)
{
  return set_mode(layer, argument, out, NEAP_UNI_NAK_MODE);
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
    if (neap_unicast_unreported(&p->out)) neap_unicast_resend_tail(u, p);
  }
  return 0;
}

const struct neap_op neap_unicast_ops[] = {
  {"windows", "Both halves of each peer's connections, one peer on a line.", show_windows},
  {"ack", "Sends to a peer in ack mode from now on, until `retransmission` is set.", set_ack},
  {"nak", "The same in nak mode.", set_nak},
  {"sync_now", "Asks a peer where its connection begins, now, whatever is known of it.", sync_now},
  {"close", "Ends the connections with a peer, both ways; what is not reported is lost.",
    close_both},
  {"expire",
    "Does now what age would do: forgets the receiving half from a peer, which is remembered, and "
    "closes the sending half if everything is reported. Nothing is lost or comes twice.",
    expire},
  {"forget",
    "Loses the receiving half from a peer at once, memory and all: for tests. What was applied "
    "and not reported comes again, and TROUBLE says so.",
    forget},
  {"lose",
    "Loses the sending half to a peer without telling it: for tests. What is not reported is "
    "lost, and RESET says so.",
    lose},
  {"trigger_xmit", "Asks for every gap and sends every unreported tail again, now.", trigger_xmit},
  {0},
};
