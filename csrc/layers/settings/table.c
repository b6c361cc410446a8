/* settings' table: what the group has set, as text.
 *
 *     nakack.retransmission=ack          a row a line, by name
 *     stable.interval=5s
 *
 * A request is such a text, too; there a row without a value is no longer the group's.  Beside the
 * table lies, in the same form, what each row was at this member before the group set it: that is
 * what a member goes back to.
 *
 * Adopting a table sets what differs here, whatever was set by this member alone meanwhile.  A row
 * that is gone goes back to the member's own value, unless the member has set another since. */

#include "layers/settings/settings.h"

#include <stdio.h>
#include <string.h>

enum { VALUE = 256 };

struct row {
  struct neap_slice name, value;
  bool own; /* no value: up to each member */
};

/* ---- rows ---- */

static bool next_row(const char **at, struct row *row)
{
  size_t len = strcspn(*at, "\n");
  if (!len) return false;
  const char *equals = memchr(*at, '=', len);
  size_t name = equals ? (size_t)(equals - *at) : len;
  row->own = !equals;
  row->name = (struct neap_slice){(const uint8_t *)*at, (uint32_t)name};
  row->value = (struct neap_slice){
    (const uint8_t *)*at + name + (equals != NULL), (uint32_t)(len - name - (equals != NULL))};
  *at += len + ((*at)[len] == '\n');
  return true;
}

static int by_name(struct neap_slice a, struct neap_slice b)
{
  uint32_t len = a.len < b.len ? a.len : b.len;
  int order = memcmp(a.at, b.at, len);
  return order ? order : (int)a.len - (int)b.len;
}

static bool same(struct neap_slice a, const char *text)
{
  return a.len == strlen(text) && !memcmp(a.at, text, a.len);
}

static bool find(const char *text, struct neap_slice name, struct row *row)
{
  while (next_row(&text, row))
    if (!by_name(row->name, name)) return true;
  return false;
}

/* The first row by name behind `after`. */
static bool least(const char *text, struct neap_slice after, struct row *found)
{
  struct row row;
  bool any = false;
  while (next_row(&text, &row)) {
    if (by_name(row.name, after) <= 0 || (any && by_name(row.name, found->name) >= 0)) continue;
    *found = row;
    any = true;
  }
  return any;
}

static void add_row(struct neap_text *text, struct row row)
{
  neap_text_add(text, "%.*s=%.*s\n", (int)row.name.len, (const char *)row.name.at,
    (int)row.value.len, (const char *)row.value.at);
}

bool settings_valid(const char *text)
{
  struct row row;
  const char *at = text;
  while (next_row(&at, &row))
    if (!memchr(row.name.at, '.', row.name.len)) return false;
  return !*at && (at == text || at[-1] == '\n');
}

uint32_t settings_count(const char *text)
{
  struct row row;
  uint32_t count = 0;
  while (next_row(&text, &row)) count++;
  return count;
}

/* ---- tables ---- */

int settings_compare(const struct table *a, const struct table *b)
{
  if (a->epoch != b->epoch) return a->epoch < b->epoch ? -1 : 1;
  return a->epoch ? neap_addr_compare(&a->creator, &b->creator) : 0;
}

bool settings_merge(const struct table *table, const char *change, struct table *into)
{
  struct neap_text text = neap_text_of(into->text, sizeof into->text);
  struct neap_slice last = {(const uint8_t *)"", 0};
  struct row old, new;
  for (;;) {
    bool is = least(table->text, last, &old), will = least(change, last, &new);
    if (!is && !will) break;
    if (will && (!is || by_name(new.name, old.name) <= 0)) old = new;
    last = old.name;
    if (!old.own) add_row(&text, old);
  }
  into->len = (uint32_t)text.len;
  return !text.cut;
}

/* ---- what a table changes here ---- */

static bool find_attr(const struct settings *s, struct neap_slice name, struct neap_change *change,
  struct neap_text *problems)
{
  char layer[NEAP_NAME_MAX], attr[NEAP_NAME_MAX], why[VALUE];
  size_t dot = (size_t)((const uint8_t *)memchr(name.at, '.', name.len) - name.at);
  snprintf(layer, sizeof layer, "%.*s", (int)dot, (const char *)name.at);
  snprintf(attr, sizeof attr, "%.*s", (int)(name.len - dot - 1), (const char *)name.at + dot + 1);
  change->layer = neap_stack_layer(s->layer.stack, layer);
  change->attr = change->layer ? neap_attr_find(change->layer->class, attr) : NULL;
  if (change->attr && change->attr->kind == NEAP_PARAM) return true;
  const char *begin = problems->len ? "\n" : "";
  if (change->layer) {
    neap_attr_unknown(change->layer->class, layer, attr, why, sizeof why);
    neap_text_add(problems, "%s%s", begin, why);
  } else {
    neap_text_add(problems, "%sthe stack has no layer called '%s'", begin, layer);
  }
  return false;
}

static void add_change(struct plan *plan, struct neap_change change, struct neap_slice value)
{
  char why[VALUE];
  char *text = plan->values + plan->used;
  NEAP_ASSERT(plan->used + value.len < sizeof plan->values);
  memcpy(text, value.at, value.len);
  text[value.len] = 0;
  plan->used += value.len + 1;
  const char *begin = plan->problems.len ? "\n" : "";
  if (plan->count == SETTINGS_ROWS)
    neap_text_add(&plan->problems, "%smore than %d changes at once", begin, SETTINGS_ROWS);
  else if (neap_attr_parse(change.attr, text, &change.value, why, sizeof why) < 0)
    neap_text_add(
      &plan->problems, "%s%s.%s: %s", begin, change.layer->name, change.attr->name, why);
  else
    plan->changes[plan->count++] = change;
}

static const char *current(const struct neap_change *change, char *text)
{
  struct neap_value value = neap_attr_get(change->layer, change->attr);
  return neap_attr_text(change->attr, &value, text, VALUE);
}

void settings_plan(const struct settings *s, const char *text, struct plan *plan)
{
  char is[VALUE];
  struct row row, old;
  plan->count = plan->used = 0;
  plan->problems = neap_text_of(plan->problems_text, sizeof plan->problems_text);
  for (const char *at = text; next_row(&at, &row);) {
    struct neap_change change = {0};
    char nothing[1];
    struct neap_text unheard = neap_text_of(nothing, sizeof nothing);
    bool known = find(s->now.text, row.name, &old);
    bool stays = known && !by_name(old.value, row.value);
    /* What could not be set here before was told then, and hinders nobody now. */
    if (!find_attr(s, row.name, &change, stays ? &unheard : &plan->problems)) continue;
    if (stays && same(row.value, current(&change, is))) continue;
    change.own = !known;
    add_change(plan, change, row.value);
  }
  for (const char *at = s->now.text; next_row(&at, &row);) {
    struct neap_change change = {0};
    if (find(text, row.name, &old) || !find(s->own, row.name, &old)) continue;
    if (!find_attr(s, row.name, &change, &plan->problems)) continue;
    if (same(row.value, current(&change, is))) add_change(plan, change, old.value);
  }
}

/* ---- adopting one ---- */

/* Rows that are new: what they are here now.  One that no longer fits will stay as it is. */
static void keep_own(struct settings *s, const char *text)
{
  char own[SETTINGS_TEXT], is[VALUE];
  struct row row, old;
  struct neap_text out = neap_text_of(own, sizeof own);
  for (const char *at = text; next_row(&at, &row);) {
    struct neap_change change;
    char nothing[1];
    struct neap_text unheard = neap_text_of(nothing, sizeof nothing);
    size_t before = out.len;
    if (find(s->now.text, row.name, &old)) {
      if (find(s->own, row.name, &old)) add_row(&out, old);
    } else if (find_attr(s, row.name, &change, &unheard)) {
      current(&change, is);
      row.value = (struct neap_slice){(const uint8_t *)is, (uint32_t)strlen(is)};
      add_row(&out, row);
    }
    if (out.cut) {
      own[out.len = before] = 0;
      out.cut = false;
    }
  }
  memcpy(s->own, own, sizeof own);
}

static void unable(struct settings *s, const char *why)
{
  s->unable++;
  neap_trouble(&s->layer, NULL, "what the group has set cannot be set here: %s", why);
}

/* All at once; what is refused by itself is left out. */
static void apply(struct settings *s, const struct plan *plan, const struct table *table)
{
  char name[NEAP_ADDR_TEXT], why[SETTINGS_REASON];
  struct neap_stack *stack = s->layer.stack;
  struct neap_peer *asker = neap_peer_find(stack, &table->asker);
  struct neap_set set = {.changes = plan->changes,
    .count = plan->count,
    .by = asker ? neap_peer_text(asker, name) : neap_addr_text(&table->asker, name),
    .mine = asker && asker->self,
    .undo = table->undo,
    .epoch = table->epoch};
  if (neap_stack_set(stack, &set, why, sizeof why) >= 0) return;
  set.count = 1;
  for (unsigned i = 0; i < plan->count; i++) {
    set.changes = &plan->changes[i];
    if (neap_stack_set(stack, &set, why, sizeof why) < 0) unable(s, why);
  }
}

void settings_adopt(struct settings *s, const struct table *table)
{
  struct plan plan;
  settings_plan(s, table->text, &plan);
  if (plan.problems.len) unable(s, plan.problems_text);
  settings_unpromise(s);
  keep_own(s, table->text);
  if (plan.count) apply(s, &plan, table);
  s->now = *table;
  s->epoch = table->epoch;
  s->count = settings_count(table->text);
  s->adopted++;
  struct neap_event event = {.kind = NEAP_EVENT_SETTINGS,
    .number = table->epoch,
    .place = table->creator,
    .msg = neap_msg_filled(s->layer.stack, table->text, table->len)};
  neap_event_up(&s->layer, &event);
}
