/* ops: what can be asked of gms by hand: a suspicion, a view, what it was and what was decided. */

#include "layers/gms/gms.h"

#include <stdio.h>

static int op_suspect(struct neap_layer *layer, const char *argument, char *out)
{
  struct gms *g = (struct gms *)layer;
  for (uint32_t i = 0; gms_view(g) && i < gms_view(g)->count; i++) {
    struct neap_peer *peer = gms_view(g)->members[i];
    char name[NEAP_ADDR_TEXT];
    if (strcmp(neap_peer_text(peer, name), argument) != 0) continue;
    if (peer->self) break;
    gms_suspect(g, peer, "told so by hand");
    snprintf(out, NEAP_OP_TEXT, "%s is suspected", argument);
    return 0;
  }
  snprintf(out, NEAP_OP_TEXT, "there is no other member called '%s'", argument);
  return NEAP_NOT_A_MEMBER;
}

/* For specs: this is the view now, whatever others think.  Addresses, separated by spaces. */
static int op_inject_view(struct neap_layer *layer, const char *argument, char *out)
{
  struct gms *g = (struct gms *)layer;
  uint8_t bytes[NEAP_OP_TEXT];
  struct neap_writer w = {bytes + 2, bytes + sizeof bytes, false};
  struct neap_addr addr, first = {0};
  uint16_t count = 0;
  for (const char *at = argument + strspn(argument, " "); *at; at += strspn(at, " ")) {
    char word[NEAP_ADDR_TEXT];
    size_t len = strcspn(at, " ");
    snprintf(word, sizeof word, "%.*s", (int)len, at);
    at += len;
    if (!neap_addr_parse(word, &addr)) {
      snprintf(out, NEAP_OP_TEXT, "'%s' is no address of a member", word);
      return NEAP_ADDRESS;
    }
    if (!count++) first = addr;
    neap_write_addr(&w, &addr);
  }
  struct neap_writer head = {bytes, bytes + 2, false};
  neap_write_u16(&head, count);
  struct neap_slice list = {bytes, (uint32_t)(w.at - bytes)};
  struct neap_view *view =
    g->state == GMS_MEMBER && !w.full ? gms_view_of(g, &first, g->seen + 1, list) : NULL;
  if (!view || !neap_in_view(view, gms_self(g))) {
    neap_view_unref(view);
    snprintf(out, NEAP_OP_TEXT, "that is no view for this member");
    return NEAP_REFUSED;
  }
  gms_install(g, view, NULL);
  return 0;
}

static int op_history(struct neap_layer *layer, const char *argument, char *out)
{
  const struct gms *g = (const struct gms *)layer;
  size_t used = 0;
  (void)argument;
  out[0] = 0;
  for (uint64_t i = g->views > g->history_max ? g->views - g->history_max : 0; i < g->views; i++) {
    if (used >= NEAP_OP_TEXT) break;
    used += (size_t)snprintf(out + used, NEAP_OP_TEXT - used, "%s\n", g->history[i % GMS_VIEWS]);
  }
  return 0;
}

static int op_decisions(struct neap_layer *layer, const char *argument, char *out)
{
  const struct gms *g = (const struct gms *)layer;
  size_t used = 0;
  (void)argument;
  out[0] = 0;
  for (uint64_t i = g->decided > GMS_DECISIONS ? g->decided - GMS_DECISIONS : 0; i < g->decided;
       i++) {
    if (used >= NEAP_OP_TEXT) break;
    used +=
      (size_t)snprintf(out + used, NEAP_OP_TEXT - used, "%s\n", g->decisions[i % GMS_DECISIONS]);
  }
  return 0;
}

const struct neap_op gms_ops[] = {
  {"suspect", "Takes this member for dead, as if it had been silent: NAME.", op_suspect},
  {"inject_view", "Makes these the members, whatever others think: ADDRESS...", op_inject_view},
  {"decisions", "Who was taken in, let go, suspected, put out, and why; oldest first.",
    op_decisions},
  {"history", "The last views, oldest first, with their members.", op_history},
  {0},
};
