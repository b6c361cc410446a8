/* Rules: which message on which way.
 *
 * A rule fits a message when the ends fit, the body fits, and one header of it, of the rule's layer
 * if it names one, fits every field.  It hits when it fits, has times left, and chance says so; the
 * chances of a rule are a stream of its own. */

#include "sim/net.h"

#include "base/text.h"
#include "core/types.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { TYPES_MAX = 31 };              /* numbers that a type may have a word for */
#define RULE_SALT 0x3c6ef372fe94f82bu /* Rules and lines draw from different streams. */

/* ---- does it fit? ---- */

static bool is_address(unsigned form)
{
  return form == NEAP_FORM_addr || form == NEAP_FORM_ip || form == NEAP_FORM_ip_opt;
}

static bool is_text(unsigned form)
{
  return form == NEAP_FORM_str || form == NEAP_FORM_utf || form == NEAP_FORM_ascii ||
         form == NEAP_FORM_bytes;
}

/* A member's name, or a place or member address as text. */
static bool address_fits(
  const struct sim *sim, const struct neap_addr *addr, const struct neap_rule_row *row)
{
  const struct host *host = neap_sim_host_find(sim, row->text);
  struct neap_addr wanted;
  if (host) return neap_addr_equal(&host->member, addr);
  return neap_addr_parse(row->text, &wanted) && neap_addr_equal(&wanted, addr);
}

static bool field_fits(const struct sim *sim, const struct neap_header *header,
  const struct neap_field *field, const void *head, const struct neap_rule_row *row)
{
  const void *at = (const char *)head + field->at;
  if (!neap_field_present(field, head)) return false;
  if (neap_sim_is_number(field->form)) {
    int64_t number = neap_sim_number(field, head);
    if (!row->text) return number == (int64_t)row->number;
    const char *word = neap_type_word(header, number);
    return word && !strcasecmp(word, row->text);
  }
  if (!row->text) return false;
  if (is_address(field->form)) return address_fits(sim, at, row);
  if (!is_text(field->form)) return false;
  const struct neap_slice *slice = at;
  return slice->len == row->len && !memcmp(slice->at, row->text, row->len);
}

static const struct neap_field *field_named(const struct neap_header *header, const char *name)
{
  unsigned count;
  const struct neap_field *fields = neap_header_fields(header, &count);
  for (unsigned f = 0; f < count; f++)
    if (!strcmp(fields[f].name, name)) return &fields[f];
  return NULL;
}

static bool header_fits(const struct sim *sim, const struct rule *rule,
  const struct neap_header *header, const void *head)
{
  if (rule->layer && strcmp(rule->layer, header->name) != 0) return false;
  for (uint32_t r = 0; r < rule->field_count; r++) {
    const struct neap_field *field = field_named(header, rule->fields[r].name);
    if (!field || !field_fits(sim, header, field, head, &rule->fields[r])) return false;
  }
  return true;
}

/* `m` NULL: bytes that could not be decoded. */
static bool message_fits(const struct sim *sim, const struct rule *rule, const struct neap_msg *m)
{
  if (rule->body &&
      (!m || m->len != rule->body_len || (m->len && memcmp(m->body, rule->body, m->len))))
    return false;
  if (!rule->layer && !rule->field_count) return true;
  for (uint32_t s = 0; m && s < sim->registry.count; s++) {
    const struct neap_slot *slot = &sim->registry.slots[s];
    if (m->present >> s & 1 &&
        header_fits(sim, rule, slot->forms[*neap_slot_form(slot, m)], neap_slot_at(slot, m)))
      return true;
  }
  return false;
}

static bool way_fits(const struct rule *rule, const struct host *from, const struct host *to)
{
  return !rule->cleared && rule->hits < rule->times &&
         (!rule->from || !strcmp(rule->from, from->name)) &&
         (!rule->to || !strcmp(rule->to, to->name));
}

bool neap_sim_rules_for(const struct sim *sim, const struct host *from, const struct host *to)
{
  for (uint32_t r = 0; r < sim->rule_count; r++)
    if (way_fits(&sim->rules[r], from, to)) return true;
  return false;
}

const struct rule *neap_sim_rule_hit(
  struct sim *sim, const struct host *from, const struct host *to, const struct neap_msg *m)
{
  for (uint32_t r = 0; r < sim->rule_count; r++) {
    struct rule *rule = &sim->rules[r];
    if (!way_fits(rule, from, to) || !message_fits(sim, rule, m)) continue;
    if (!neap_random_chance(&rule->random, rule->probability)) continue;
    rule->hits++;
    neap_sim_event(sim, SIM_RULE, to, (uint64_t)rule->id << 32 ^ rule->hits);
    return rule;
  }
  return NULL;
}

/* ---- making and clearing ---- */

/* Can this field be compared with what the row gives? */
static bool comparable(const struct neap_field *field, const struct neap_rule_row *row)
{
  if (neap_sim_is_number(field->form)) return !row->text || !strcmp(row->name, "type");
  return row->text && (is_address(field->form) || is_text(field->form));
}

/* Does any known header, of this layer if one is named, have such a field? */
static bool field_known(const struct sim *sim, const char *layer, const struct neap_rule_row *row)
{
  for (uint32_t s = 0; s < sim->registry.count; s++) {
    const struct neap_slot *slot = &sim->registry.slots[s];
    for (unsigned f = 0; f < slot->count; f++) {
      if (layer && strcmp(layer, slot->forms[f]->name) != 0) continue;
      const struct neap_field *field = field_named(slot->forms[f], row->name);
      if (field && comparable(field, row)) return true;
    }
  }
  return false;
}

static int field_unknown(
  const struct sim *sim, const char *layer, const struct neap_rule_row *row, char *why, size_t size)
{
  static const char *const reserved[] = {
    "from", "to", "layer", "body", "times", "probability", "by", NULL};
  struct neap_text text = neap_text_of(why, size);
  struct neap_nearest nearest = neap_nearest_to(row->name);
  for (unsigned r = 0; reserved[r]; r++) neap_nearest_offer(&nearest, reserved[r]);
  for (uint32_t s = 0; s < sim->registry.count; s++) {
    const struct neap_header *header = sim->registry.slots[s].forms[0];
    unsigned count;
    const struct neap_field *fields = neap_header_fields(header, &count);
    if (layer && strcmp(layer, header->name) != 0) continue;
    for (unsigned f = 0; f < count; f++) neap_nearest_offer(&nearest, fields[f].name);
  }
  if (nearest.word && !strcmp(nearest.word, row->name)) {
    neap_text_add(&text, "%s: no header with it can be compared with a %s", row->name,
      row->text ? "text" : "number");
    return NEAP_CONFIG;
  }
  neap_text_add(
    &text, "no header%s%s has a field '%s'", layer ? " of " : "", layer ? layer : "", row->name);
  neap_nearest_add(&text, &nearest);
  return NEAP_CONFIG;
}

static int layer_unknown(const struct sim *sim, const char *layer, char *why, size_t size)
{
  struct neap_nearest nearest = neap_nearest_to(layer);
  for (uint32_t s = 0; s < sim->registry.count; s++) {
    for (unsigned f = 0; f < sim->registry.slots[s].count; f++) {
      const char *name = sim->registry.slots[s].forms[f]->name;
      if (!strcmp(name, layer)) return 0;
      neap_nearest_offer(&nearest, name);
    }
  }
  struct neap_text text = neap_text_of(why, size);
  neap_text_add(&text, "no layer called '%s' has a header", layer);
  neap_nearest_add(&text, &nearest);
  return NEAP_CONFIG;
}

static int type_unknown(
  const struct sim *sim, const char *layer, const struct neap_rule_row *row, char *why, size_t size)
{
  struct neap_nearest nearest = neap_nearest_to(row->text);
  for (uint32_t s = 0; s < sim->registry.count; s++) {
    const struct neap_slot *slot = &sim->registry.slots[s];
    for (unsigned f = 0; f < slot->count; f++) {
      if (layer && strcmp(layer, slot->forms[f]->name) != 0) continue;
      for (int type = 0; type <= TYPES_MAX; type++) {
        const char *word = neap_type_word(slot->forms[f], type);
        if (!word) continue;
        if (!strcasecmp(word, row->text)) return 0;
        neap_nearest_offer(&nearest, word);
      }
    }
  }
  struct neap_text text = neap_text_of(why, size);
  neap_text_add(&text, "type: no header%s%s has a type '%s'", layer ? " of " : "",
    layer ? layer : "", row->text);
  neap_nearest_add(&text, &nearest);
  return NEAP_CONFIG;
}

static char *copy(const struct neap_rule_row *row)
{
  char *text = malloc(row->len + 1);
  NEAP_ASSERT(text);
  memcpy(text, row->text, row->len);
  text[row->len] = 0;
  return text;
}

/* A row that is about the rule itself or about the whole message: 1 if it was one. */
static int reserved(struct rule *rule, const struct neap_rule_row *row, char *why, size_t size)
{
  struct {
    const char *name;
    char **to;
  } texts[] = {
    {"from", &rule->from}, {"to", &rule->to}, {"layer", &rule->layer}, {"body", &rule->body}};
  for (unsigned t = 0; t < sizeof texts / sizeof *texts; t++) {
    if (strcmp(row->name, texts[t].name) != 0) continue;
    if (!row->text) {
      snprintf(why, size, "%s: a text is expected", row->name);
      return NEAP_CONFIG;
    }
    free(*texts[t].to);
    *texts[t].to = copy(row);
    if (texts[t].to == &rule->body) rule->body_len = row->len;
    return 1;
  }
  bool times = !strcmp(row->name, "times"), probability = !strcmp(row->name, "probability");
  if (times || probability) {
    if (row->text || (times ? row->number < 1 : row->number < 0 || row->number > 1)) {
      snprintf(why, size, "%s: %s", row->name,
        times ? "a number above 0 is expected" : "a number from 0 to 1 is expected");
      return NEAP_CONFIG;
    }
    if (times)
      rule->times = (uint64_t)row->number;
    else
      rule->probability = row->number;
    return 1;
  }
  if (strcmp(row->name, "by") != 0) return 0;
  char what[120];
  int code =
    row->text ? neap_quantity_parse(row->text, "ns", &rule->by, what, sizeof what) : NEAP_CONFIG;
  if (code < 0)
    snprintf(why, size, "by: %s", row->text ? what : "a time such as \"50ms\" is expected");
  return code < 0 ? code : 1;
}

static void rule_free(struct rule *rule)
{
  for (uint32_t f = 0; f < rule->field_count; f++) {
    free((char *)(uintptr_t)rule->fields[f].name);
    free((char *)(uintptr_t)rule->fields[f].text);
  }
  free(rule->fields);
  free(rule->from);
  free(rule->to);
  free(rule->layer);
  free(rule->body);
}

/* The rows, and whether each can ever fit. */
static int rule_fill(const struct sim *sim, struct rule *rule, const struct neap_rule_rows *given,
  char *why, size_t size)
{
  for (uint32_t r = 0; r < given->count; r++) {
    const struct neap_rule_row *row = &given->rows[r];
    int code = reserved(rule, row, why, size);
    if (code < 0) return code;
    if (code > 0) continue;
    struct neap_rule_row *field = &rule->fields[rule->field_count++];
    *field = *row;
    field->name = strdup(row->name);
    field->text = row->text ? copy(row) : NULL;
  }
  int code = rule->layer ? layer_unknown(sim, rule->layer, why, size) : 0;
  for (uint32_t f = 0; f < rule->field_count && !code; f++) {
    const struct neap_rule_row *row = &rule->fields[f];
    if (!field_known(sim, rule->layer, row))
      code = field_unknown(sim, rule->layer, row, why, size);
    else if (row->text && !strcmp(row->name, "type"))
      code = type_unknown(sim, rule->layer, row, why, size);
  }
  if (!code && rule->act == NEAP_RULE_DELAY && !rule->by) {
    snprintf(why, size, "by: how long? a time such as \"50ms\" is expected");
    code = NEAP_CONFIG;
  }
  return code;
}

uint32_t neap_sim_rule(
  struct neap_world *world, const struct neap_rule_rows *given, char *why, size_t size)
{
  struct sim *sim = neap_sim_of(world);
  struct rule rule = {
    .id = sim->rule_count + 1, .act = (uint8_t)given->act, .times = UINT64_MAX, .probability = 1};
  if (sim->rule_count == RULES_MAX) {
    snprintf(why, size, "a world has at most %d rules", RULES_MAX);
    return 0;
  }
  rule.fields = calloc(given->count + 1, sizeof *rule.fields);
  NEAP_ASSERT(rule.fields);
  if (rule_fill(sim, &rule, given, why, size) < 0) {
    rule_free(&rule);
    return 0;
  }
  neap_random_seed(&rule.random, sim->world.seed ^ ((uint64_t)rule.id << 56) ^ RULE_SALT);
  sim->rules = realloc(sim->rules, rule.id * sizeof *sim->rules);
  NEAP_ASSERT(sim->rules);
  sim->rules[sim->rule_count++] = rule;
  sim->rules_live++;
  neap_sim_event(sim, SIM_RULE, NULL, rule.id);
  return rule.id;
}

int64_t neap_sim_rule_hits(const struct neap_world *world, uint32_t id)
{
  const struct sim *sim = neap_sim_of(world);
  return id && id <= sim->rule_count ? (int64_t)sim->rules[id - 1].hits : -1;
}

bool neap_sim_rule_clear(struct neap_world *world, uint32_t id)
{
  struct sim *sim = neap_sim_of(world);
  if (!id || id > sim->rule_count || sim->rules[id - 1].cleared) return false;
  sim->rules[id - 1].cleared = true;
  sim->rules_live--;
  return true;
}

void neap_sim_rules_done(struct sim *sim)
{
  for (uint32_t r = 0; r < sim->rule_count; r++) rule_free(&sim->rules[r]);
  free(sim->rules);
}
