#include "core/oracle.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_MAX = 65536 };

/* A view id and a hash of its members, in order. */
struct view_seen {
  struct view_seen *next;
  struct neap_addr creator;
  uint64_t number, members;
};

struct neap_oracle {
  struct neap_link judges;
  struct view_seen *views;
  uint64_t complaints;
  struct neap_text text;
  char room[TEXT_MAX];
};

static struct neap_oracle *oracle_of(struct neap_world *world)
{
  if (!world->oracle) {
    world->oracle = calloc(1, sizeof *world->oracle);
    NEAP_ASSERT(world->oracle);
    neap_link_init(&world->oracle->judges);
    world->oracle->text = neap_text_of(world->oracle->room, TEXT_MAX);
  }
  return world->oracle;
}

void neap_oracle_free(struct neap_world *world)
{
  struct neap_oracle *oracle = world->oracle;
  if (!oracle) return;
  NEAP_ASSERT(neap_link_alone(&oracle->judges));
  while (oracle->views) {
    struct view_seen *next = oracle->views->next;
    free(oracle->views);
    oracle->views = next;
  }
  free(oracle);
  world->oracle = NULL;
}

/* ---- judges ---- */

void neap_judge_open(struct neap_judge *judge, struct neap_layer *layer)
{
  judge->layer = layer;
  neap_link_before(&oracle_of(neap_world_of(layer))->judges, &judge->link);
}

void neap_judge_close(struct neap_judge *judge)
{
  neap_link_remove(&judge->link);
}

struct neap_judge *neap_judge_next(const struct neap_layer *layer, struct neap_judge *at)
{
  struct neap_link *head = &oracle_of(neap_world_of(layer))->judges;
  for (struct neap_link *link = at ? at->link.next : head->next; link != head; link = link->next) {
    struct neap_judge *judge = NEAP_HOLDER(link, struct neap_judge, link);
    if (judge->layer->class == layer->class) return judge;
  }
  return NULL;
}

struct neap_judge *neap_judge_of(const struct neap_layer *layer, const struct neap_addr *addr)
{
  struct neap_judge *judge = NULL;
  while ((judge = neap_judge_next(layer, judge)))
    if (neap_addr_equal(&neap_self(judge->layer)->addr, addr)) return judge;
  return NULL;
}

/* ---- complaints ---- */

void neap_judge_complain(const struct neap_layer *layer, const char *format, ...)
{
  struct neap_oracle *oracle = oracle_of(neap_world_of(layer));
  char who[NEAP_ADDR_TEXT], what[256];
  va_list list;
  va_start(list, format);
  vsnprintf(what, sizeof what, format, list);
  va_end(list);
  oracle->complaints++;
  neap_text_add(&oracle->text, "%s %s: %s, at %.6f s\n", neap_peer_text(neap_self(layer), who),
    layer->name, what, (double)neap_now(layer) / 1e9);
}

const char *neap_oracle_text(const struct neap_world *world)
{
  return world->oracle ? world->oracle->text.at : "";
}

uint64_t neap_oracle_complaints(const struct neap_world *world)
{
  return world->oracle ? world->oracle->complaints : 0;
}

/* ---- views ---- */

static uint64_t members_hash(const struct neap_view *view)
{
  uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, by words */
  for (uint32_t i = 0; i < view->count; i++)
    for (unsigned w = 0; w < 2; w++)
      hash = (hash ^ view->members[i]->addr.words[w]) * 0x100000001b3u;
  return hash;
}

bool neap_judge_view(const struct neap_layer *layer, const struct neap_view *view)
{
  struct neap_oracle *oracle = oracle_of(neap_world_of(layer));
  uint64_t members = members_hash(view);
  for (const struct view_seen *seen = oracle->views; seen; seen = seen->next)
    if (!neap_view_compare(view, seen->number, &seen->creator)) return seen->members == members;
  struct view_seen *seen = calloc(1, sizeof *seen);
  NEAP_ASSERT(seen);
  *seen = (struct view_seen){oracle->views, view->creator, view->number, members};
  oracle->views = seen;
  return true;
}
