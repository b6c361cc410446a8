#include "core/promise.h"

#include "base/text.h"
#include "core/layer.h"

#include <string.h>

const struct neap_word neap_words[] = {
  {"unicast", "a message to one member may arrive"},
  {"multicast", "a message to everybody may arrive at each"},
  {"discovery", "members can be found before there is a view"},
  {"suspicion", "a member that stopped is suspected sooner or later"},
  {"mcast_reliable", "what a member multicast arrives at all that stay"},
  {"mcast_fifo", "multicasts of one sender arrive in order, none twice"},
  {"ucast_reliable", "a message to one member arrives if both stay"},
  {"ucast_fifo", "messages between two members arrive in order, none twice"},
  {"digest", "who has applied and received how much of whom can be asked"},
  {"stable", "what everybody has is found out, so that senders may free it"},
  {"view", "all members are told who is in the group, in one order"},
  {"rsvp", "a send can wait until its targets have it"},
  {"flow", "a fast sender waits for slow receivers"},
  {"frag", "messages may be larger than a packet"},
  {"total", "all members get all multicasts in one order"},
  {"sync", "members of one view have got the same messages when it ends"},
  {"state", "a joiner can get the state of the group"},
  {"settings", "what the whole group sets, all members set, or nobody does"},
  {"merge", "parts of a group that can hear each other become one"},
  {"sealed", "nobody outside can read or forge a message"},
  {"jgroups5", "all that travels is within the common wire format"},
  {NULL, NULL},
};

/* The table of built-in layers, for advice.  Weak: a program may do without it. */
extern const struct neap_class *const neap_classes[] __attribute__((weak));

enum { WORDS_MAX = 64, PROBLEM_TEXT = 768 };

/* ---- lists of words ---- */

/* One entry of a list: word, or word(attr=value,attr!=value). */
struct term {
  const char *word, *conditions; /* NULL: always */
  size_t word_len;
};

struct condition {
  const char *attr, *value;
  size_t attr_len, value_len;
  bool differs; /* any value but this one */
};

static bool next_term(const char **list, struct term *t)
{
  if (!*list) return false;
  const char *at = *list + strspn(*list, " ");
  if (!*at) return false;
  *t = (struct term){.word = at, .word_len = strcspn(at, " (")};
  at += t->word_len;
  if (*at == '(') {
    t->conditions = at + 1;
    at += strcspn(at, ")") + 1;
  }
  *list = at;
  return true;
}

static bool next_condition(const char **list, struct condition *c)
{
  if (!*list || **list == ')') return false;
  *c = (struct condition){.attr = *list, .attr_len = strcspn(*list, "!=")};
  c->differs = c->attr[c->attr_len] == '!';
  c->value = c->attr + c->attr_len + (c->differs ? 2 : 1);
  c->value_len = strcspn(c->value, ",)");
  *list = c->value + c->value_len;
  if (**list == ',') ++*list;
  return true;
}

/* Place of the word in neap_words; -1: no such word. */
static int word_index(const char *word, size_t len)
{
  for (int i = 0; neap_words[i].word; i++)
    if (strlen(neap_words[i].word) == len && !strncmp(neap_words[i].word, word, len)) return i;
  return -1;
}

static bool met(const struct neap_promiser *layer, const struct condition *c)
{
  char attr[NEAP_WORD_MAX + 1];
  NEAP_ASSERT(c->attr_len < sizeof attr);
  memcpy(attr, c->attr, c->attr_len);
  attr[c->attr_len] = 0;
  const char *is = layer->value ? layer->value(layer->context, attr) : NULL;
  if (!is) return false;
  bool same = strlen(is) == c->value_len && !strncmp(is, c->value, c->value_len);
  return same != c->differs;
}

static bool applies(const struct neap_promiser *layer, const struct term *t)
{
  const char *list = t->conditions;
  struct condition c;
  while (next_condition(&list, &c))
    if (!met(layer, &c)) return false;
  return true;
}

/* The words of a list that hold with the layer's attributes, a bit each. */
static uint64_t words_of(const struct neap_promiser *layer, const char *list)
{
  uint64_t words = 0;
  struct term t;
  while (next_term(&list, &t)) {
    int index = word_index(t.word, t.word_len);
    if (index >= 0 && applies(layer, &t)) words |= (uint64_t)1 << index;
  }
  return words;
}

/* What holds above layer `position`: given there or below, and not broken since. */
static uint64_t holding(const struct neap_promiser *layers, unsigned count, unsigned position)
{
  uint64_t words = 0;
  for (unsigned i = count; i-- > position;) {
    words &= ~words_of(&layers[i], layers[i].class->breaks);
    words |= words_of(&layers[i], layers[i].class->gives);
  }
  return words;
}

/* ---- telling ---- */

static void add_words(struct neap_text *text, uint64_t words)
{
  if (!words) neap_text_add(text, " nothing");
  for (int i = 0; neap_words[i].word; i++)
    if (words >> i & 1) neap_text_add(text, " %s", neap_words[i].word);
}

/* Adds "a = 1 and b is not 2". */
static void add_conditions(struct neap_text *text, const struct term *t)
{
  const char *list = t->conditions, *between = "";
  struct condition c;
  for (; next_condition(&list, &c); between = " and ")
    neap_text_add(text, "%s%.*s %s %.*s", between, (int)c.attr_len, c.attr,
      c.differs ? "is not" : "=", (int)c.value_len, c.value);
}

/* Adds the names of built-in layers that give the word. */
static void add_givers(struct neap_text *text, int word)
{
  unsigned found = 0;
  for (unsigned i = 0; neap_classes && neap_classes[i]; i++) {
    const char *list = neap_classes[i]->gives;
    struct term t;
    while (next_term(&list, &t)) {
      if (word_index(t.word, t.word_len) != word) continue;
      neap_text_add(
        text, "%s%s", found++ ? " or " : "; it would be given by ", neap_classes[i]->name);
      if (!t.conditions) continue;
      neap_text_add(text, " when ");
      add_conditions(text, &t);
    }
  }
}

/* Why the word does not hold above `position`, although somebody in the stack gives it. */
static bool add_reason(struct neap_text *text, const struct neap_promiser *layers, unsigned count,
  unsigned position, int word)
{
  uint64_t bit = (uint64_t)1 << word;
  for (unsigned i = position; i < count; i++) {
    if (words_of(&layers[i], layers[i].class->breaks) & bit) {
      neap_text_add(text, "; %s breaks it", layers[i].name);
      return true;
    }
  }
  for (unsigned i = 0; i < position; i++) {
    if (words_of(&layers[i], layers[i].class->gives) & bit) {
      neap_text_add(text, "; %s gives it, but stands above", layers[i].name);
      return true;
    }
  }
  return false;
}

struct asked {
  const struct neap_promiser *layers;
  unsigned count;
  neap_problem *problem;
  void *context;
  unsigned problems;
};

static void tell(struct asked *asked, const struct neap_text *text)
{
  asked->problems++;
  asked->problem(asked->context, text->at);
}

static void begin(
  struct neap_text *text, const struct neap_promiser *layer, const char *verb, const struct term *t)
{
  if (layer->where && *layer->where) neap_text_add(text, "%s: ", layer->where);
  neap_text_add(text, "%s %s '%.*s'", layer->name, verb, (int)t->word_len, t->word);
  if (!t->conditions) return;
  neap_text_add(text, " (because ");
  add_conditions(text, t);
  neap_text_add(text, ")");
}

static void check_needs(struct asked *asked, unsigned at)
{
  const struct neap_promiser *layer = &asked->layers[at];
  uint64_t there = holding(asked->layers, asked->count, at + 1);
  const char *list = layer->class->needs;
  struct term t;
  while (next_term(&list, &t)) {
    int word = word_index(t.word, t.word_len);
    if (word < 0 || !applies(layer, &t) || (there >> word & 1)) continue;
    char room[PROBLEM_TEXT];
    struct neap_text text = neap_text_of(room, sizeof room);
    begin(&text, layer, "needs", &t);
    neap_text_add(&text, " (%s) below it; there holds:", neap_words[word].doc);
    add_words(&text, there);
    if (!add_reason(&text, asked->layers, asked->count, at + 1, word)) add_givers(&text, word);
    tell(asked, &text);
  }
}

static void check_hears(struct asked *asked, unsigned at)
{
  const struct neap_promiser *layer = &asked->layers[at];
  const char *list = layer->class->hears;
  struct term t;
  while (next_term(&list, &t)) {
    int word = word_index(t.word, t.word_len);
    uint64_t above = 0;
    for (unsigned i = 0; i <= at; i++)
      above |= words_of(&asked->layers[i], asked->layers[i].class->gives);
    if (word < 0 || !applies(layer, &t) || (above >> word & 1)) continue;
    char room[PROBLEM_TEXT];
    struct neap_text text = neap_text_of(room, sizeof room);
    begin(&text, layer, "hears", &t);
    neap_text_add(&text, " (%s) from above, and no layer above it gives it", neap_words[word].doc);
    add_givers(&text, word);
    tell(asked, &text);
  }
}

/* A word that does not exist, or a condition on no attribute: the author of the layer slipped. */
static void check_list(struct asked *asked, unsigned at, const char *verb, const char *list)
{
  const struct neap_promiser *layer = &asked->layers[at];
  struct term t;
  while (next_term(&list, &t)) {
    if (word_index(t.word, t.word_len) >= 0) continue;
    char word[NEAP_WORD_MAX + 1], room[PROBLEM_TEXT];
    struct neap_text text = neap_text_of(word, sizeof word);
    neap_text_add(&text, "%.*s", (int)t.word_len, t.word);
    struct neap_nearest nearest = neap_nearest_to(word);
    for (int i = 0; neap_words[i].word; i++) neap_nearest_offer(&nearest, neap_words[i].word);
    text = neap_text_of(room, sizeof room);
    begin(&text, layer, verb, &t);
    neap_text_add(&text, ", which is no promise");
    neap_nearest_add(&text, &nearest);
    tell(asked, &text);
  }
}

unsigned neap_promises_check(
  const struct neap_promiser *layers, unsigned count, neap_problem *problem, void *context)
{
  struct asked asked = {layers, count, problem, context, 0};
  for (unsigned i = 0; i < count; i++) {
    const struct neap_class *class = layers[i].class;
    check_list(&asked, i, "needs", class->needs);
    check_list(&asked, i, "hears", class->hears);
    check_list(&asked, i, "gives", class->gives);
    check_list(&asked, i, "breaks", class->breaks);
    check_needs(&asked, i);
    check_hears(&asked, i);
  }
  return asked.problems;
}

bool neap_promise_holds(
  const struct neap_promiser *layers, unsigned count, unsigned position, const char *word)
{
  int index = word_index(word, strlen(word));
  return index >= 0 && (holding(layers, count, position) >> index & 1);
}

/* ---- a running stack ---- */

/* The value lives until the next call: conditions are compared one at a time. */
static const char *running_value(const void *context, const char *attr)
{
  static _Thread_local char text[NEAP_EVENT_TEXT];
  const struct neap_layer *layer = context;
  const struct neap_attr *row = neap_attr_find(layer->class, attr);
  if (!row) return NULL;
  struct neap_value value = neap_attr_get(layer, row);
  return neap_attr_text(row, &value, text, sizeof text);
}

bool neap_stack_gives(const struct neap_stack *stack, const char *word)
{
  struct neap_promiser layers[NEAP_LAYERS_MAX];
  for (unsigned i = 0; i < stack->count; i++) {
    const struct neap_layer *layer = stack->layers[i];
    layers[i] = (struct neap_promiser){layer->class, layer->name, "", running_value, layer};
  }
  return neap_promise_holds(layers, stack->count, 0, word);
}
