#include "core/rule.h"

#include "base/text.h"
#include "core/attr.h"
#include "core/error.h"
#include "core/packet.h"
#include "core/types.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TYPES_MAX = 31 }; /* numbers that a type may have a word for */

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
static bool address_fits(const struct neap_rule_scene *scene, const struct neap_addr *addr,
  const struct neap_rule_row *row)
{
  struct neap_addr wanted;
  return (scene->address(scene->context, row->text, &wanted) ||
           neap_addr_parse(row->text, &wanted)) &&
         neap_addr_equal(&wanted, addr);
}

static bool field_fits(const struct neap_rule_scene *scene, const struct neap_header *header,
  const struct neap_field *field, const void *head, const struct neap_rule_row *row)
{
  const void *at = (const char *)head + field->at;
  if (!neap_field_present(field, head)) return false;
  if (neap_field_is_number(field->form)) {
    int64_t number = neap_field_number(field, head);
    if (!row->text) return number == (int64_t)row->number;
    const char *word = neap_type_word(header, number);
    return word && !strcasecmp(word, row->text);
  }
  if (!row->text) return false;
  if (is_address(field->form)) return address_fits(scene, at, row);
  if (!is_text(field->form)) return false;
  const struct neap_slice *slice = at;
  return slice->len == row->len && (!row->len || !memcmp(slice->at, row->text, row->len));
}

static const struct neap_field *field_named(const struct neap_header *header, const char *name)
{
  unsigned count;
  const struct neap_field *fields = neap_header_fields(header, &count);
  for (unsigned f = 0; f < count; f++)
    if (!strcmp(fields[f].name, name)) return &fields[f];
  return NULL;
}

static bool header_fits(const struct neap_rule_scene *scene, const struct neap_rule *rule,
  const struct neap_header *header, const void *head)
{
  if (rule->layer && strcmp(rule->layer, header->name) != 0) return false;
  for (uint32_t r = 0; r < rule->field_count; r++) {
    const struct neap_field *field = field_named(header, rule->fields[r].name);
    if (!field || !field_fits(scene, header, field, head, &rule->fields[r])) return false;
  }
  return true;
}

bool neap_rule_fits(
  const struct neap_rule *rule, const struct neap_rule_scene *scene, const struct neap_msg *m)
{
  if (rule->body &&
      (!m || m->len != rule->body_len || (m->len && memcmp(m->body, rule->body, m->len))))
    return false;
  if (!rule->layer && !rule->field_count) return true;
  for (uint32_t s = 0; m && s < scene->registry->count; s++) {
    const struct neap_slot *slot = &scene->registry->slots[s];
    if (m->present >> s & 1 &&
        header_fits(scene, rule, slot->forms[*neap_slot_form(slot, m)], neap_slot_at(slot, m)))
      return true;
  }
  return false;
}

bool neap_rule_hit(struct neap_rule *rule)
{
  if (rule->hits >= rule->times) return false;
  if (rule->probability < 1 && !neap_random_chance(&rule->random, rule->probability)) return false;
  rule->hits++;
  return true;
}

/* ---- making ---- */

/* Can this field be compared with what the row gives? */
static bool comparable(const struct neap_field *field, const struct neap_rule_row *row)
{
  if (neap_field_is_number(field->form)) return !row->text || !strcmp(row->name, "type");
  return row->text && (is_address(field->form) || is_text(field->form));
}

/* Does any known header, of this layer if one is named, have such a field? */
static bool field_known(
  const struct neap_registry *registry, const char *layer, const struct neap_rule_row *row)
{
  for (uint32_t s = 0; s < registry->count; s++) {
    const struct neap_slot *slot = &registry->slots[s];
    for (unsigned f = 0; f < slot->count; f++) {
      if (layer && strcmp(layer, slot->forms[f]->name) != 0) continue;
      const struct neap_field *field = field_named(slot->forms[f], row->name);
      if (field && comparable(field, row)) return true;
    }
  }
  return false;
}

static int field_unknown(const struct neap_registry *registry, const char *layer,
  const struct neap_rule_row *row, char *why, size_t size)
{
  static const char *const reserved[] = {
    "from", "to", "layer", "body", "times", "probability", "by", NULL};
  struct neap_text text = neap_text_of(why, size);
  struct neap_nearest nearest = neap_nearest_to(row->name);
  for (unsigned r = 0; reserved[r]; r++) neap_nearest_offer(&nearest, reserved[r]);
  for (uint32_t s = 0; s < registry->count; s++) {
    const struct neap_header *header = registry->slots[s].forms[0];
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

static int layer_unknown(
  const struct neap_registry *registry, const char *layer, char *why, size_t size)
{
  struct neap_nearest nearest = neap_nearest_to(layer);
  for (uint32_t s = 0; s < registry->count; s++) {
    for (unsigned f = 0; f < registry->slots[s].count; f++) {
      const char *name = registry->slots[s].forms[f]->name;
      if (!strcmp(name, layer)) return 0;
      neap_nearest_offer(&nearest, name);
    }
  }
  struct neap_text text = neap_text_of(why, size);
  neap_text_add(&text, "no layer called '%s' has a header", layer);
  neap_nearest_add(&text, &nearest);
  return NEAP_CONFIG;
}

static int type_unknown(const struct neap_registry *registry, const char *layer,
  const struct neap_rule_row *row, char *why, size_t size)
{
  struct neap_nearest nearest = neap_nearest_to(row->text);
  for (uint32_t s = 0; s < registry->count; s++) {
    const struct neap_slot *slot = &registry->slots[s];
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
static int reserved(struct neap_rule *rule, const struct neap_rule_row *row, char *why, size_t size)
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

void neap_rule_free(struct neap_rule *rule)
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
  *rule = (struct neap_rule){0};
}

/* The rows, and whether each can ever fit. */
static int fill(struct neap_rule *rule, const struct neap_registry *registry,
  const struct neap_rule_row *rows, uint32_t count, char *why, size_t size)
{
  for (uint32_t r = 0; r < count; r++) {
    const struct neap_rule_row *row = &rows[r];
    int code = reserved(rule, row, why, size);
    if (code < 0) return code;
    if (code > 0) continue;
    struct neap_rule_row *field = &rule->fields[rule->field_count++];
    *field = *row;
    field->name = strdup(row->name);
    field->text = row->text ? copy(row) : NULL;
  }
  int code = rule->layer ? layer_unknown(registry, rule->layer, why, size) : 0;
  for (uint32_t f = 0; f < rule->field_count && !code; f++) {
    const struct neap_rule_row *row = &rule->fields[f];
    if (!field_known(registry, rule->layer, row))
      code = field_unknown(registry, rule->layer, row, why, size);
    else if (row->text && !strcmp(row->name, "type"))
      code = type_unknown(registry, rule->layer, row, why, size);
  }
  return code;
}

int neap_rule_make(struct neap_rule *rule, const struct neap_registry *registry,
  const struct neap_rule_row *rows, uint32_t count, char *why, size_t size)
{
  *rule = (struct neap_rule){.times = UINT64_MAX, .probability = 1};
  rule->fields = calloc(count + 1, sizeof *rule->fields);
  NEAP_ASSERT(rule->fields);
  int code = fill(rule, registry, rows, count, why, size);
  if (code < 0) neap_rule_free(rule);
  return code;
}

/* ---- reading ---- */

static bool refuse(char *why, size_t size, const char *name, const char *what)
{
  snprintf(why, size, "%s: %s", name, what);
  return false;
}

/* What stands in quotes at `*at`, written over itself without them. */
static bool read_quoted(char **at, struct neap_rule_row *row, char *why, size_t size)
{
  char *from = *at + 1, *to = *at, digits[3] = "";
  row->text = to;
  for (; *from && *from != '"'; from++) {
    if (*from != '\\') {
      *to++ = *from;
      continue;
    }
    from++;
    if (*from == 'x' && isxdigit((unsigned char)from[1]) && isxdigit((unsigned char)from[2])) {
      memcpy(digits, from + 1, 2);
      *to++ = (char)strtol(digits, NULL, 16);
      from += 2;
    } else if (*from == '"' || *from == '\\') {
      *to++ = *from;
    } else {
      return refuse(why, size, row->name, "a backslash stands before \", \\ or xff");
    }
  }
  if (*from != '"') return refuse(why, size, row->name, "the quotes are not closed");
  row->len = (size_t)(to - row->text);
  *at = from + 1;
  *to = 0; /* Where the quotes ended, or before. */
  if (**at && **at != ' ') return refuse(why, size, row->name, "a space is expected behind quotes");
  return true;
}

static void read_bare(char **at, struct neap_rule_row *row)
{
  char *end;
  row->text = *at;
  row->len = strcspn(*at, " ");
  *at += row->len;
  if (**at) *(*at)++ = 0;
  double number = strtod(row->text, &end);
  bool yes = !strcmp(row->text, "true"), no = !strcmp(row->text, "false");
  bool digits = isdigit((unsigned char)row->text[*row->text == '-']) && !*end;
  if (!digits && !yes && !no) return;
  row->number = digits ? number : yes;
  row->text = NULL;
}

int neap_rule_read(
  char *text, struct neap_rule_row rows[NEAP_RULE_ROWS_MAX], char *why, size_t size)
{
  int count = 0;
  for (char *at = text; at += strspn(at, " "), *at;) {
    if (count == NEAP_RULE_ROWS_MAX) {
      snprintf(why, size, "a rule has at most %d rows", NEAP_RULE_ROWS_MAX);
      return NEAP_CONFIG;
    }
    struct neap_rule_row *row = &rows[count++];
    *row = (struct neap_rule_row){.name = at};
    at += strcspn(at, "= ");
    if (*at != '=' || at == row->name) {
      snprintf(why, size, "'%.*s': a rule is written name=value, as in layer=nakack seqno=5",
        (int)strcspn(row->name, " "), row->name);
      return NEAP_CONFIG;
    }
    *at++ = 0;
    if (*at != '"')
      read_bare(&at, row);
    else if (!read_quoted(&at, row, why, size))
      return NEAP_CONFIG;
  }
  return count;
}
