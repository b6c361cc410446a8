/* Promises: what holds where, and each problem as a sentence. */

#include "proof.h"

#include "core/promise.h"

#include <stdio.h>

static const struct neap_class wire = {.name = "wire", .gives = "unicast multicast"};
static const struct neap_class orders = {.name = "orders",
  .needs = "multicast",
  .hears = "view stable(mode=nak)",
  .gives = "mcast_reliable digest"};
static const struct neap_class loses = {.name = "loses", .breaks = "mcast_reliable"};
static const struct neap_class views = {
  .name = "views", .needs = "mcast_reliable", .gives = "view"};
static const struct neap_class votes = {.name = "votes", .needs = "digest", .gives = "stable"};
static const struct neap_class maybe = {.name = "maybe", .gives = "view(mode!=x) view(mode=y)"};
static const struct neap_class picky = {.name = "picky", .needs = "view(mode!=z,mode!=y)"};
static const struct neap_class slips = {.name = "slips", .gives = "unicsat"};

static const char *mode_of(const void *context, const char *attr)
{
  NEAP_ASSERT(!strcmp(attr, "mode"));
  return context;
}

static char told[4096];

static void problem(void *context, const char *text)
{
  (void)context;
  size_t len = strlen(told);
  snprintf(told + len, sizeof told - len, "%s\n", text);
}

static unsigned check(const struct neap_class *const *classes, const char *mode)
{
  struct neap_promiser layers[8];
  static char where[8][16];
  unsigned count = 0;
  for (; classes[count]; count++) {
    snprintf(where[count], sizeof where[count], "my.lua:%u", count + 2);
    layers[count] =
      (struct neap_promiser){classes[count], classes[count]->name, where[count], mode_of, mode};
  }
  told[0] = 0;
  return neap_promises_check(layers, count, problem, NULL);
}

#define STACK(...) ((const struct neap_class *const[]){__VA_ARGS__, NULL})

void proof_promise(void)
{
  NEAP_ASSERT(!check(STACK(&views, &votes, &orders, &wire), "nak"));
  NEAP_ASSERT(!check(STACK(&views, &orders, &wire), "ack"));

  NEAP_ASSERT(check(STACK(&views, &orders, &wire), "nak") == 1); /* the word depends on the mode */
  NEAP_ASSERT(strstr(told, "my.lua:3: orders hears 'stable' (because mode = nak)"));

  NEAP_ASSERT(check(STACK(&views, &loses, &votes, &orders, &wire), "nak") == 1);
  NEAP_ASSERT(strstr(told, "my.lua:2: views needs 'mcast_reliable'"));
  NEAP_ASSERT(strstr(told, "there holds: unicast multicast digest stable; loses breaks it"));

  NEAP_ASSERT(check(STACK(&orders, &views, &votes, &wire), "nak") == 4); /* upside down */
  NEAP_ASSERT(strstr(told, "my.lua:4: votes needs 'digest'"));
  NEAP_ASSERT(strstr(told, "orders gives it, but stands above"));

  NEAP_ASSERT(!check(STACK(&picky, &maybe), "a")); /* one of the words, all of the conditions */
  NEAP_ASSERT(!check(STACK(&picky), "z") && !check(STACK(&picky), "y"));
  NEAP_ASSERT(check(STACK(&picky, &maybe), "x") == 1);
  NEAP_ASSERT(strstr(told, "picky needs 'view' (because mode is not z and mode is not y)"));

  NEAP_ASSERT(check(STACK(&slips), "") == 1);
  NEAP_ASSERT(strstr(told, "'unicsat', which is no promise (did you mean 'unicast'?)"));

  for (const struct neap_word *w = neap_words; w->word; w++) NEAP_ASSERT(*w->doc);
}
