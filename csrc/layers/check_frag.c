/* check_frag: watches that messages come out as they went in.
 *
 * Going down each gets its length and a sum of its bytes; coming up both are compared.  Put it
 * above the layers that cut messages and put them together.  What is wrong it tells the oracle. */

#include "core/headers.h"
#include "core/oracle.h"

static const struct neap_header check_frag_headers[] = {
  NEAP_HEADER_ROW(
    "check_frag", NEAP_OWN_CHECK_FRAG, NEAP_OWN_CHECK_FRAG, neap_check_frag_head, "length, sum"),
  {0},
};
NEAP_ADOPT(neap_check_frag_head, 0);

struct check_frag {
  struct neap_layer layer;
  uint64_t marked, compared; /* counters */
  struct neap_judge judge;
};

#define AT(member) offsetof(struct check_frag, member)
static const struct neap_attr check_frag_attrs[] = {
  {NEAP_COUNTER, "marked", AT(marked), "messages", .doc = "Went down with length and sum."},
  {NEAP_COUNTER, "compared", AT(compared), "messages", .doc = "Came up with them."},
  {NEAP_END},
};

static uint32_t sum_of(const struct neap_msg *m)
{
  uint32_t sum = 2166136261u; /* FNV-1a */
  for (uint32_t i = 0; i < m->len; i++) sum = (sum ^ m->body[i]) * 16777619u;
  return sum;
}

/* No body at all is told from an empty one where the message is one of bytes. */
static bool bare(const struct neap_msg *m)
{
  return m->type == NEAP_TYPE_BYTES && m->marks & NEAP_NULL_BODY;
}

static int check_frag_open(struct neap_layer *layer, struct neap_trail *trail)
{
  (void)trail;
  neap_judge_open(&((struct check_frag *)layer)->judge, layer);
  return 0;
}

static void check_frag_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct check_frag *c = (struct check_frag *)layer;
  bool all_neap = layer->view && neap_view_all_neap(layer->view);
  for (struct neap_msg *m = batch->first; m; m = m->next) {
    if (m->to ? !m->to->generation : !all_neap) continue; /* It could not be read there. */
    *neap_check_frag_head_put(m, layer) =
      (struct neap_check_frag_head){.len = m->len, .sum = sum_of(m), .bare = bare(m)};
    c->marked++;
  }
  neap_pass_down(layer, batch);
}

static void check_frag_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct check_frag *c = (struct check_frag *)layer;
  char who[NEAP_ADDR_TEXT];
  for (const struct neap_msg *m = batch->first; m; m = m->next) {
    const struct neap_check_frag_head *head = neap_check_frag_head_get(m, layer);
    if (!head) continue;
    c->compared++;
    neap_peer_text(m->from, who);
    if (head->len != m->len)
      neap_judge_complain(
        layer, "%u bytes of %s came out as %u", (unsigned)head->len, who, (unsigned)m->len);
    else if (head->sum != sum_of(m))
      neap_judge_complain(layer, "%u bytes of %s are other ones now", (unsigned)m->len, who);
    else if (head->bare != bare(m))
      neap_judge_complain(layer, "%s sent %s", who, head->bare ? "no body" : "an empty body");
  }
  neap_pass_up(layer, batch);
}

static void check_frag_close(struct neap_layer *layer)
{
  neap_judge_close(&((struct check_frag *)layer)->judge);
}

const struct neap_class neap_check_frag = {
  .name = "check_frag",
  .doc = "Watches that messages come out as they went in.",
  .needs = "frag view",
  .breaks = "jgroups5",
  .size = sizeof(struct check_frag),
  .headers = check_frag_headers,
  .attrs = check_frag_attrs,
  .open = check_frag_open,
  .down = check_frag_down,
  .up = check_frag_up,
  .close = check_frag_close,
};
