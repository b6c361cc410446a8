/* drop: loses exactly the messages that somebody means.
 *
 * Rules say which (layers/chosen, the words of sim:drop): by any header field, by layer, type, body
 * or end, so many times.  One comes with the stack file, others at run time; a message is lost by
 * the first that hits it.
 *
 *     drop { when = "layer=nakack type=msg seqno=5 way=up times=1" }
 *     ann.drop:rule { layer = "unicast", type = "ack", to = "bob" }    ->  "2"
 *     ann.drop:list()                                                  ->  "2: to=... 3 hits"
 *     ann.drop:clear(2)
 *
 * Invariant: ids rise along the rules. */

#include "layers/chosen/chosen.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { RULES = 32 };

struct entry {
  struct neap_chosen chosen;
  uint32_t id;
  char text[NEAP_RULE_TEXT];
};

struct drop {
  struct neap_layer layer;
  char *when; /* params */
  uint64_t honest;
  uint64_t rules, hits; /* metrics */
  struct entry entries[RULES];
  uint32_t last_id;
};

#define AT(member) offsetof(struct drop, member)
static const struct neap_attr drop_attrs[] = {
  {NEAP_PARAM, "when", AT(when), "", .type = NEAP_TEXT, .text = "", .live = NEAP_NOW,
    .doc = "A rule to begin with, such as layer=nakack type=msg seqno=5 way=up times=1; set anew, "
           "it takes the place of all others. Empty: none."},
  NEAP_CHOSEN_HONEST(struct drop),
  {NEAP_GAUGE, "rules", AT(rules), "rules", .doc = "In force, also those whose times are over."},
  {NEAP_COUNTER, "hits", AT(hits), "messages", .doc = "Lost by any rule."},
  {NEAP_END},
};

/* ---- rules ---- */

static void clear_at(struct drop *d, uint32_t at)
{
  neap_chosen_free(&d->entries[at].chosen);
  d->rules--;
  memmove(&d->entries[at], &d->entries[at + 1], (d->rules - at) * sizeof *d->entries);
}

/* The id of the new rule, or negative and `why`. */
static int add(struct drop *d, const char *text, char *why, size_t size)
{
  if (d->rules == RULES) {
    snprintf(why, size, "there are %d rules; clear one first", RULES);
    return NEAP_REFUSED;
  }
  if (strlen(text) >= NEAP_RULE_TEXT) {
    snprintf(why, size, "a rule has at most %d bytes", NEAP_RULE_TEXT - 1);
    return NEAP_CONFIG;
  }
  struct entry *entry = &d->entries[d->rules];
  int code = neap_chosen_read(&d->layer, &entry->chosen, text, why, size);
  if (code < 0) return code;
  snprintf(entry->text, sizeof entry->text, "%s", text);
  entry->id = ++d->last_id;
  d->rules++;
  return (int)entry->id;
}

static int op_rule(struct neap_layer *layer, const char *argument, char *out)
{
  int id = add((struct drop *)layer, argument, out, NEAP_OP_TEXT);
  if (id > 0) snprintf(out, NEAP_OP_TEXT, "%d", id);
  return id < 0 ? id : 0;
}

static int op_list(struct neap_layer *layer, const char *argument, char *out)
{
  const struct drop *d = (const struct drop *)layer;
  struct neap_text text = neap_text_of(out, NEAP_OP_TEXT);
  (void)argument;
  for (uint32_t r = 0; r < d->rules; r++)
    neap_text_add(&text, "%s%u: %s, %" PRIu64 " hits", r ? "\n" : "", d->entries[r].id,
      *d->entries[r].text ? d->entries[r].text : "everything", d->entries[r].chosen.rule.hits);
  if (!d->rules) neap_text_add(&text, "no rules");
  return 0;
}

static int op_clear(struct neap_layer *layer, const char *argument, char *out)
{
  struct drop *d = (struct drop *)layer;
  unsigned long id = strtoul(argument, NULL, 10);
  uint64_t before = d->rules;
  for (uint32_t r = (uint32_t)d->rules; r--;)
    if (!*argument || d->entries[r].id == id) clear_at(d, r);
  if (!*argument || d->rules < before) return 0;
  snprintf(out, NEAP_OP_TEXT, "there is no rule '%s'", argument);
  return NEAP_REFUSED;
}

static const struct neap_op drop_ops[] = {
  {"rule", "Adds a rule: { layer = \"nakack\", seqno = 5, times = 1 }; gives its number.", op_rule},
  {"list", "The rules and how often each has hit.", op_list},
  {"clear", "Takes back the rule of this number; without one, all.", op_clear},
  {0},
};

/* ---- life ---- */

static int drop_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct drop *d = (struct drop *)layer;
  char why[256] = "";
  int code = *d->when ? add(d, d->when, why, sizeof why) : 0;
  return code < 0 ? neap_trail(trail, code, "when: %s", why) : 0;
}

static bool lost(struct drop *d, const struct neap_msg *m, bool up)
{
  for (uint32_t r = 0; r < d->rules; r++) {
    if (!neap_chosen_hit(&d->layer, &d->entries[r].chosen, m, up)) continue;
    d->hits++;
    return true;
  }
  return false;
}

/* Takes out what is lost. */
static void sieve(struct drop *d, struct neap_batch *batch, bool up, struct neap_batch *out)
{
  struct neap_msg *m;
  while ((m = neap_take(batch))) {
    if (lost(d, m, up))
      neap_msg_free(m);
    else
      neap_put(out, m);
  }
}

static void drop_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct drop *d = (struct drop *)layer;
  struct neap_batch out = {0};
  if (d->rules) sieve(d, batch, false, &out);
  neap_pass_down(layer, d->rules ? &out : batch);
}

static void drop_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct drop *d = (struct drop *)layer;
  struct neap_batch out = {0};
  if (d->rules) sieve(d, batch, true, &out);
  neap_pass_up(layer, d->rules ? &out : batch);
}

static void drop_changed(struct neap_layer *layer, const struct neap_attr *attr)
{
  struct drop *d = (struct drop *)layer;
  char why[256];
  (void)attr;
  while (d->rules) clear_at(d, 0);
  int code = *d->when ? add(d, d->when, why, sizeof why) : 0;
  NEAP_ASSERT(code >= 0); /* It was asked about before. */
}

static int drop_may(const struct neap_layer *layer, const struct neap_attr *attr,
  const struct neap_value *value, char *why, size_t size)
{
  if (strlen(value->text) < NEAP_RULE_TEXT) return neap_chosen_may(layer, attr, value, why, size);
  snprintf(why, size, "a rule has at most %d bytes", NEAP_RULE_TEXT - 1);
  return NEAP_CONFIG;
}

static void drop_close(struct neap_layer *layer)
{
  struct drop *d = (struct drop *)layer;
  while (d->rules) clear_at(d, 0);
}

static void drop_check(const struct neap_layer *layer)
{
  const struct drop *d = (const struct drop *)layer;
  NEAP_ASSERT(d->rules <= RULES);
  for (uint32_t r = 1; r < d->rules; r++) NEAP_ASSERT(d->entries[r].id > d->entries[r - 1].id);
}

const struct neap_class neap_drop = {
  .name = "drop",
  .doc = "Loses exactly the messages that rules name, so many times.",
  .breaks = "mcast_reliable(honest=true) mcast_fifo(honest=true) ucast_reliable(honest=true) "
            "ucast_fifo(honest=true) rsvp(honest=true) total(honest=true) sync(honest=true)",
  .size = sizeof(struct drop),
  .attrs = drop_attrs,
  .ops = drop_ops,
  .open = drop_open,
  .down = drop_down,
  .up = drop_up,
  .may = drop_may,
  .changed = drop_changed,
  .close = drop_close,
  .check = drop_check,
};
