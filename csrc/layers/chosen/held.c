/* held: the heap of what waits, by key and then in the order of coming. */

#include "layers/chosen/chosen.h"

#include <stdlib.h>

struct neap_held_row {
  uint64_t key, id; /* ids break ties: in the order of coming */
  struct neap_msg *m;
};

static bool before(const struct neap_held_row *a, const struct neap_held_row *b)
{
  return a->key != b->key ? a->key < b->key : a->id < b->id;
}

static void swap(struct neap_held_row *a, struct neap_held_row *b)
{
  struct neap_held_row row = *a;
  *a = *b;
  *b = row;
}

static void sink(struct neap_held *held)
{
  struct neap_held_row *heap = held->heap;
  for (uint32_t at = 1, least = 1;; at = least) {
    for (uint32_t child = 2 * at; child <= 2 * at + 1 && child <= held->count; child++)
      if (before(&heap[child], &heap[least])) least = child;
    if (least == at) return;
    swap(&heap[at], &heap[least]);
  }
}

static struct neap_msg *take(struct neap_held *held)
{
  struct neap_msg *m = held->heap[1].m;
  held->heap[1] = held->heap[held->count--];
  sink(held);
  return m;
}

void neap_held_open(
  struct neap_held *held, struct neap_layer *layer, bool up, neap_fire *fire, neap_fire *quiet)
{
  *held = (struct neap_held){.layer = layer, .up = up};
  neap_timer_init(layer, &held->timer, fire);
  neap_timer_init_background(layer, &held->quiet, quiet);
}

void neap_held_room(struct neap_held *held, uint32_t room)
{
  struct neap_batch out = {0};
  NEAP_ASSERT(room && room <= NEAP_HELD_MAX);
  if (held->count > room) neap_held_out(held, UINT64_MAX, held->count - room, &out);
  neap_held_pass(held, &out);
  held->heap = realloc(held->heap, (room + 1u) * sizeof *held->heap);
  NEAP_ASSERT(held->heap);
  held->room = room;
}

static void arm(struct neap_held *held, struct neap_timer *timer, uint64_t delay)
{
  neap_timer_sooner(held->layer, timer, delay);
}

void neap_held_put(struct neap_held *held, struct neap_msg *m, uint64_t key, uint64_t delay)
{
  NEAP_ASSERT(held->count < held->room);
  uint32_t at = ++held->count;
  held->heap[at] = (struct neap_held_row){key, held->next_id++, m};
  for (; at > 1 && before(&held->heap[at], &held->heap[at / 2]); at /= 2)
    swap(&held->heap[at], &held->heap[at / 2]);
  if (key > held->last) held->last = key;
  arm(held, neap_world_of(held->layer)->background ? &held->quiet : &held->timer, delay);
}

uint64_t neap_held_first(const struct neap_held *held)
{
  return held->count ? held->heap[1].key : UINT64_MAX;
}

void neap_held_out(struct neap_held *held, uint64_t until, uint32_t most, struct neap_batch *out)
{
  for (; most && held->count && held->heap[1].key <= until; most--) neap_put(out, take(held));
}

void neap_held_pass(struct neap_held *held, struct neap_batch *out)
{
  if (!out->count) return;
  if (held->up)
    neap_pass_up(held->layer, out);
  else
    neap_pass_down(held->layer, out);
}

void neap_held_flush(struct neap_held *held)
{
  struct neap_batch out = {0};
  neap_held_out(held, UINT64_MAX, UINT32_MAX, &out);
  neap_held_pass(held, &out);
  neap_timer_stop(&held->timer);
  neap_timer_stop(&held->quiet);
}

void neap_held_again(struct neap_held *held, uint64_t delay)
{
  if (!held->count) return;
  arm(held, neap_world_of(held->layer)->background ? &held->quiet : &held->timer, delay);
}

void neap_held_close(struct neap_held *held)
{
  while (held->count) neap_msg_free(take(held));
  neap_timer_stop(&held->timer);
  neap_timer_stop(&held->quiet);
  free(held->heap);
  held->heap = NULL;
}

void neap_held_check(const struct neap_held *held)
{
  NEAP_ASSERT(held->count <= held->room);
  NEAP_ASSERT(!held->count || held->timer.armed || held->quiet.armed);
  for (uint32_t at = 2; at <= held->count; at++)
    NEAP_ASSERT(!before(&held->heap[at], &held->heap[at / 2]));
}
