#include "core/attr.h"

#include "base/assert.h"
#include "base/text.h"
#include "core/error.h"
#include "core/layer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The next word of a list separated by spaces; NULL at its end. */
static const char *next_word(const char **list, size_t *len)
{
  if (!*list) return NULL;
  const char *word = *list + strspn(*list, " ");
  *len = strcspn(word, " ");
  *list = word + *len;
  return *len ? word : NULL;
}

static const char *real_text(double real, char *text, size_t size)
{
  for (int digits = 6; digits <= 17; digits++) { /* 17 always read back exactly. */
    snprintf(text, size, "%.*g", digits, real);
    if (strtod(text, NULL) == real) break;
  }
  return text;
}

/* ---- rows ---- */

const struct neap_attr *neap_attr_find(const struct neap_class *class, const char *name)
{
  for (const struct neap_attr *a = class->attrs; a && a->kind != NEAP_END; a++)
    if (!strcmp(a->name, name)) return a;
  return NULL;
}

/* What the field calls some attributes that have a better name here. */
static const struct {
  const char *old, *name;
} old_names[] = {
  {"desired_avg_gossip", "interval"},
  {"ack_on_delivery", "ack_on"},
  {"mcast_addr", "group"},
  {"mcast_port", "group"},
  {"bind_port", "port"},
  {"ip_ttl", "ttl"},
};

const char *neap_attr_nearest(const struct neap_class *class, const char *name)
{
  for (size_t i = 0; i < sizeof old_names / sizeof *old_names; i++)
    if (!strcmp(old_names[i].old, name) && neap_attr_find(class, old_names[i].name))
      return old_names[i].name;
  struct neap_nearest nearest = neap_nearest_to(name);
  for (const struct neap_attr *a = class->attrs; a && a->kind != NEAP_END; a++)
    if (a->kind == NEAP_PARAM) neap_nearest_offer(&nearest, a->name);
  return nearest.word;
}

void neap_attr_unknown(
  const struct neap_class *class, const char *layer, const char *name, char *why, size_t size)
{
  const char *nearest = neap_attr_nearest(class, name);
  if (neap_attr_find(class, name))
    snprintf(why, size, "%s.%s can be read, not set", layer, name);
  else if (nearest)
    snprintf(why, size, "%s has no parameter '%s' (did you mean '%s'?)", layer, name, nearest);
  else
    snprintf(why, size, "%s has no parameter '%s'", layer, name);
}

struct neap_value neap_attr_default(const struct neap_attr *attr)
{
  struct neap_value value = {.type = attr->type, .number = attr->value, .text = attr->text};
  if (attr->type == NEAP_REAL) value.real = (double)attr->value / 1e6; /* Rows have millionths. */
  return value;
}

/* The number that a special word stands for; `word` NULL: is `number` such a one? */
static const char *special(
  const struct neap_attr *attr, const char *word, size_t len, uint64_t *number)
{
  const char *list = attr->words, *row;
  size_t row_len;
  while ((row = next_word(&list, &row_len))) {
    size_t name = strcspn(row, "=");
    NEAP_ASSERT(name < row_len);
    uint64_t value = strtoull(row + name + 1, NULL, 10);
    if (word ? len == name && !strncasecmp(row, word, name) : value == *number) {
      *number = value;
      return row;
    }
  }
  return NULL;
}

static void add_specials(struct neap_text *text, const struct neap_attr *attr)
{
  const char *list = attr->words, *row;
  size_t len;
  while ((row = next_word(&list, &len)))
    neap_text_add(text, " (or \"%.*s\")", (int)strcspn(row, "="), row);
}

static int in_range(const struct neap_attr *attr, uint64_t number, char *why, size_t size)
{
  uint64_t max = attr->max ? attr->max : UINT64_MAX;
  if ((number >= attr->min && number <= max) || special(attr, NULL, 0, &number)) return 0;
  if (attr->or_zero && !number) return 0;
  char is[48], low[48], high[48];
  struct neap_text text = neap_text_of(why, size);
  neap_quantity_text(number, attr->unit, is, sizeof is);
  neap_quantity_text(attr->min, attr->unit, low, sizeof low);
  if (attr->max)
    neap_text_add(&text, "%s is outside %s .. %s", is, low,
      neap_quantity_text(attr->max, attr->unit, high, sizeof high));
  else
    neap_text_add(&text, "%s is below %s", is, low);
  if (attr->or_zero) neap_text_add(&text, ", and not 0");
  return NEAP_CONFIG;
}

static int real_in_range(const struct neap_attr *attr, double real, char *why, size_t size)
{
  double min = (double)attr->min / 1e6, max = attr->max ? (double)attr->max / 1e6 : INFINITY;
  if (isfinite(real) && real >= min && real <= max) return 0;
  snprintf(why, size, "%g is outside %g .. %g", real, min, max);
  return NEAP_CONFIG;
}

static int parse_number(
  const struct neap_attr *attr, const char *text, uint64_t *number, char *why, size_t size)
{
  if (special(attr, text, strlen(text), number)) return 0;
  int code = neap_quantity_parse(text, attr->unit, number, why, size);
  if (!code) return in_range(attr, *number, why, size);
  struct neap_text more = {.at = why, .size = size, .len = strlen(why)};
  add_specials(&more, attr);
  return code;
}

static int parse_choice(
  const struct neap_attr *attr, const char *text, uint64_t *number, char *why, size_t size)
{
  struct neap_nearest nearest = neap_nearest_to(text);
  char offered[16][24]; /* at most sixteen choices of 23 letters */
  const char *list = attr->choices, *word;
  size_t len, count = 0;
  while ((word = next_word(&list, &len))) {
    if (strlen(text) == len && !strncasecmp(text, word, len)) {
      *number = count;
      return 0;
    }
    NEAP_ASSERT(count < 16 && len < sizeof offered[0]);
    memcpy(offered[count], word, len);
    offered[count][len] = 0;
    neap_nearest_offer(&nearest, offered[count++]);
  }
  struct neap_text sentence = neap_text_of(why, size);
  neap_text_add(&sentence, "\"%.40s\" is none of: %s", text, attr->choices);
  neap_nearest_add(&sentence, &nearest);
  return NEAP_CONFIG;
}

static int parse_bool(const char *text, uint64_t *number, char *why, size_t size)
{
  bool on = !strcasecmp(text, "true") || !strcasecmp(text, "on");
  bool off = !strcasecmp(text, "false") || !strcasecmp(text, "off");
  *number = on;
  if (on || off) return 0;
  snprintf(why, size, "cannot read \"%.40s\" as true or false (or on, off)", text);
  return NEAP_CONFIG;
}

static int parse_real(
  const struct neap_attr *attr, const char *text, double *real, char *why, size_t size)
{
  char *end;
  *real = strtod(text, &end);
  if (end != text && !end[strspn(end, " ")]) return real_in_range(attr, *real, why, size);
  snprintf(why, size, "cannot read \"%.40s\" as a number such as 0.5", text);
  return NEAP_CONFIG;
}

static int check_text(const struct neap_attr *attr, const char *text, char *why, size_t size)
{
  const char *wanted = attr->refuse ? attr->refuse(text) : NULL;
  if (strstr(text, "${"))
    snprintf(why, size,
      "nothing is put in for ${} in \"%.40s\"; write env(\"NAME\", default) instead", text);
  else if (wanted)
    snprintf(why, size, "cannot read \"%.40s\" as %s", text, wanted);
  else
    return 0;
  return NEAP_CONFIG;
}

int neap_attr_parse(
  const struct neap_attr *attr, const char *text, struct neap_value *value, char *why, size_t size)
{
  *value = (struct neap_value){.type = attr->type};
  switch ((enum neap_attr_type)attr->type) {
  case NEAP_NUMBER:
    return parse_number(attr, text, &value->number, why, size);
  case NEAP_BOOL:
    return parse_bool(text, &value->number, why, size);
  case NEAP_CHOICE:
    return parse_choice(attr, text, &value->number, why, size);
  case NEAP_TEXT:
    value->text = text;
    return check_text(attr, text, why, size);
  case NEAP_REAL:
    return parse_real(attr, text, &value->real, why, size);
  }
  NEAP_ASSERT(!"a row has one of these types");
  return NEAP_CONFIG;
}

int neap_attr_number(
  const struct neap_attr *attr, double number, struct neap_value *value, char *why, size_t size)
{
  *value = (struct neap_value){.type = attr->type};
  if (attr->type == NEAP_REAL) {
    value->real = number;
    return real_in_range(attr, number, why, size);
  }
  char text[32];
  real_text(number, text, sizeof text);
  if (attr->type == NEAP_TEXT) {
    snprintf(why, size, "%s is a number, where a text is expected", text);
    return NEAP_CONFIG;
  }
  if (attr->type == NEAP_BOOL && number == 0) return 0;
  if (attr->type != NEAP_NUMBER) return neap_attr_parse(attr, text, value, why, size);
  bool bare = number == 0 || (strcmp(attr->unit, "ns") && strcmp(attr->unit, "bytes"));
  if (!bare || !(number >= 0) || number >= 0x1p64 || number != floor(number))
    return neap_attr_parse(attr, text, value, why, size); /* It knows what is wrong. */
  value->number = (uint64_t)number;
  return in_range(attr, value->number, why, size);
}

const char *neap_attr_text(
  const struct neap_attr *attr, const struct neap_value *value, char *text, size_t size)
{
  uint64_t number = value->number;
  const char *list = attr->choices, *word = NULL;
  size_t len = 0;
  switch ((enum neap_attr_type)attr->type) {
  case NEAP_NUMBER:
    word = special(attr, NULL, 0, &number);
    if (!word) return neap_quantity_text(number, attr->unit, text, size);
    len = strcspn(word, "=");
    break;
  case NEAP_CHOICE:
    for (uint64_t i = 0; i <= number && (word = next_word(&list, &len)); i++) continue;
    NEAP_ASSERT(word);
    break;
  case NEAP_BOOL:
    word = number ? "true" : "false";
    len = strlen(word);
    break;
  case NEAP_TEXT:
    word = value->text ? value->text : "";
    len = strlen(word);
    break;
  case NEAP_REAL:
    return real_text(value->real, text, size);
  }
  snprintf(text, size, "%.*s", (int)len, word);
  return text;
}

/* ---- layers ---- */

struct neap_value neap_attr_get(const struct neap_layer *layer, const struct neap_attr *attr)
{
  const char *at = (const char *)layer + attr->at;
  struct neap_value value = {.type = attr->type};
  switch ((enum neap_attr_type)attr->type) {
  case NEAP_NUMBER:
  case NEAP_CHOICE:
    memcpy(&value.number, at, sizeof value.number);
    break;
  case NEAP_BOOL:
    value.number = *(const bool *)at;
    break;
  case NEAP_TEXT:
    memcpy(&value.text, at, sizeof value.text);
    break;
  case NEAP_REAL:
    memcpy(&value.real, at, sizeof value.real);
    break;
  }
  return value;
}

void neap_attr_put(
  struct neap_layer *layer, const struct neap_attr *attr, const struct neap_value *value)
{
  char *at = (char *)layer + attr->at, *text;
  NEAP_ASSERT(value->type == attr->type);
  switch ((enum neap_attr_type)attr->type) {
  case NEAP_NUMBER:
  case NEAP_CHOICE:
    memcpy(at, &value->number, sizeof value->number);
    break;
  case NEAP_BOOL:
    *(bool *)at = value->number != 0;
    break;
  case NEAP_TEXT: {
    char *copy = strdup(value->text ? value->text : ""); /* It may be the old one. */
    NEAP_ASSERT(copy);
    memcpy(&text, at, sizeof text);
    free(text);
    memcpy(at, &copy, sizeof copy);
    break;
  }
  case NEAP_REAL:
    memcpy(at, &value->real, sizeof value->real);
    break;
  }
}

const char *neap_live_text(unsigned live)
{
  static const char *const text[] = {"no", "now", "tick", "timer"};
  NEAP_ASSERT(live < sizeof text / sizeof *text);
  return text[live];
}
