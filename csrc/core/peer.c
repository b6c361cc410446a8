#include "core/peer.h"

#include "core/channel.h"
#include "core/layer.h"

#include <stdio.h>
#include <stdlib.h>

/* A stranger nobody holds keeps its slot this long after its last packet: long enough to join. */
#define STRANGER_TIME NEAP_S(30)

enum { PEERS_MAX = NEAP_MEMBERS_MAX + NEAP_STRANGERS_MAX, INDEX_MIN = 64 };

struct entry {
  struct neap_peer peer;
  uint64_t seen; /* world time of the last intern */
  bool listed;   /* has been in a view: goes at once when it is in none */
};

/* Slots in order of coming; an open index by address, at most half full. */
struct neap_peers {
  struct entry *slots[PEERS_MAX];
  uint32_t used, count; /* slots ever used; peers now */
  uint32_t *index;      /* slot + 1; 0 empty */
  uint32_t index_size;  /* a power of two */
};

static uint32_t hash(const struct neap_addr *addr)
{
  uint64_t h = (addr->words[0] ^ addr->port) * 0x9e3779b97f4a7c15u;
  h = (h ^ addr->words[1] ^ h >> 29) * 0xbf58476d1ce4e5b9u;
  return (uint32_t)(h >> 32);
}

static uint32_t *index_at(struct neap_peers *peers, const struct neap_addr *addr)
{
  uint32_t at = hash(addr) & (peers->index_size - 1);
  while (peers->index[at] && !neap_addr_equal(&peers->slots[peers->index[at] - 1]->peer.addr, addr))
    at = (at + 1) & (peers->index_size - 1);
  return &peers->index[at];
}

static void index_build(struct neap_peers *peers, uint32_t size)
{
  free(peers->index);
  peers->index = calloc(size, sizeof *peers->index);
  NEAP_ASSERT(peers->index);
  peers->index_size = size;
  for (uint32_t s = 0; s < peers->used; s++)
    if (peers->slots[s]) *index_at(peers, &peers->slots[s]->peer.addr) = s + 1;
}

struct neap_peer *neap_peer_find(struct neap_stack *stack, const struct neap_addr *addr)
{
  uint32_t found = *index_at(stack->peers, addr);
  return found ? &stack->peers->slots[found - 1]->peer : NULL;
}

struct neap_peer *neap_peer_intern(struct neap_stack *stack, const struct neap_addr *addr)
{
  struct neap_peers *peers = stack->peers;
  uint32_t *at = index_at(peers, addr);
  if (*at) {
    peers->slots[*at - 1]->seen = stack->world->now;
    return &peers->slots[*at - 1]->peer;
  }
  if (addr->kind != NEAP_ADDR_UUID) return NULL;
  if (peers->count >= NEAP_STRANGERS_MAX / 2) stack->gone_due = true; /* Make room soon. */
  uint32_t slot = 0;
  while (slot < peers->used && peers->slots[slot]) slot++;
  if (slot == PEERS_MAX) return NULL;
  struct entry *entry = calloc(1, sizeof *entry);
  NEAP_ASSERT(entry);
  entry->seen = stack->world->now;
  entry->peer.addr = *addr;
  entry->peer.stack = stack;
  entry->peer.slot = slot;
  entry->peer.generation = (uint8_t)neap_addr_generation(addr);
  peers->slots[slot] = entry;
  if (slot == peers->used) peers->used++;
  if (++peers->count * 2 > peers->index_size)
    index_build(peers, peers->index_size * 2);
  else
    *at = slot + 1;
  return &entry->peer;
}

void neap_peer_unref(struct neap_peer *peer)
{
  if (!peer) return;
  NEAP_ASSERT(peer->refs);
  if (!--peer->refs) peer->stack->gone_due = true;
}

const char *neap_peer_text(const struct neap_peer *peer, char *text)
{
  if (!peer->name[0]) return neap_addr_text(&peer->addr, text);
  snprintf(text, NEAP_ADDR_TEXT, "%s", peer->name);
  return text;
}

void neap_peer_name(struct neap_peer *peer, const char *name, uint32_t len)
{
  if (len >= NEAP_NAME_MAX) {
    len = NEAP_NAME_MAX - 1;
    while (len && ((uint8_t)name[len] & 0xc0) == 0x80) len--; /* Not inside a character. */
  }
  memcpy(peer->name, name, len);
  peer->name[len] = 0;
}

/* ---- per-member state ---- */

void *neap_peer_state_make(struct neap_layer *layer, struct neap_peer *peer)
{
  NEAP_ASSERT(layer->class->peer_size);
  if (peer->slot >= layer->peers_room) {
    uint32_t room = layer->peers_room ? layer->peers_room : 8;
    while (room <= peer->slot) room *= 2;
    layer->peers = realloc(layer->peers, room * sizeof *layer->peers);
    layer->held = realloc(layer->held, (room + 63) / 64 * sizeof *layer->held);
    NEAP_ASSERT(layer->peers && layer->held);
    for (uint32_t s = layer->peers_room; s < room; s++) layer->peers[s] = NULL;
    for (uint32_t w = (layer->peers_room + 63) / 64; w < (room + 63) / 64; w++) layer->held[w] = 0;
    layer->peers_room = room;
  }
  if (!layer->peers[peer->slot]) {
    layer->peers[peer->slot] = calloc(1, layer->class->peer_size);
    NEAP_ASSERT(layer->peers[peer->slot]);
  }
  return layer->peers[peer->slot];
}

void *neap_peer_next(const struct neap_layer *layer, uint32_t *slot)
{
  while (*slot < layer->peers_room && !layer->peers[*slot]) ++*slot;
  return *slot < layer->peers_room ? layer->peers[*slot] : NULL;
}

static bool held(const struct neap_layer *layer, uint32_t slot)
{
  return slot < layer->peers_room && (layer->held[slot / 64] >> (slot % 64) & 1);
}

void neap_peer_hold(struct neap_layer *layer, struct neap_peer *peer)
{
  neap_peer_state(layer, peer);
  layer->held[peer->slot / 64] |= (uint64_t)1 << (peer->slot % 64);
}

void neap_peer_release(struct neap_layer *layer, struct neap_peer *peer)
{
  if (!held(layer, peer->slot)) return;
  layer->held[peer->slot / 64] &= ~((uint64_t)1 << (peer->slot % 64));
  layer->stack->gone_due = true;
  neap_stack_ready(layer->stack);
}

/* ---- coming and going ---- */

void neap_peers_open(struct neap_stack *stack)
{
  stack->peers = calloc(1, sizeof *stack->peers);
  NEAP_ASSERT(stack->peers);
  index_build(stack->peers, INDEX_MIN);
}

static bool in_some_view(const struct neap_stack *stack, const struct neap_peer *peer)
{
  const struct neap_view *seen = NULL;
  for (uint32_t i = 0; i < stack->count; i++) {
    const struct neap_view *view = stack->layers[i]->view;
    if (view == seen) continue; /* Nearly always they all have the same one. */
    seen = view;
    if (neap_in_view(view, peer)) return true;
  }
  return neap_in_view(stack->view, peer);
}

static void state_free(struct neap_layer *layer, struct neap_peer *peer)
{
  void *state = neap_peer_state_have(layer, peer);
  if (!state) return;
  if (layer->class->peer_gone) layer->class->peer_gone(layer, peer, state);
  layer->peers[peer->slot] = NULL;
  layer->held[peer->slot / 64] &= ~((uint64_t)1 << (peer->slot % 64));
  free(state);
}

static void peer_free(struct neap_stack *stack, struct entry *entry)
{
  struct neap_peers *peers = stack->peers;
  peers->slots[entry->peer.slot] = NULL;
  peers->count--;
  for (uint32_t i = 0; i < stack->gates_room; i++) {
    if (i != entry->peer.slot + 1) continue;
    free(stack->gates[i]);
    stack->gates[i] = NULL;
  }
  neap_channel_forget(stack->channel, &entry->peer);
  free(entry);
  index_build(peers, peers->index_size);
}

void neap_peers_collect(struct neap_stack *stack)
{
  struct neap_peers *peers = stack->peers;
  uint64_t now = stack->world->now;
  stack->gone_due = false;
  for (uint32_t s = 0; s < peers->used; s++) {
    struct entry *entry = peers->slots[s];
    if (!entry || entry->peer.self) continue;
    if (in_some_view(stack, &entry->peer)) {
      entry->listed = true;
      continue;
    }
    if (!entry->listed && now - entry->seen < STRANGER_TIME) continue;
    bool keep = false;
    for (uint32_t i = 0; i < stack->count; i++) {
      if (held(stack->layers[i], s))
        keep = true;
      else
        state_free(stack->layers[i], &entry->peer);
    }
    if (!keep && !entry->peer.refs) peer_free(stack, entry);
  }
}

void neap_peers_close(struct neap_stack *stack)
{
  struct neap_peers *peers = stack->peers;
  for (uint32_t s = 0; s < peers->used; s++) {
    if (!peers->slots[s]) continue;
    for (uint32_t i = 0; i < stack->count; i++)
      state_free(stack->layers[i], &peers->slots[s]->peer);
  }
}

void neap_peers_free(struct neap_stack *stack)
{
  struct neap_peers *peers = stack->peers;
  for (uint32_t s = 0; s < peers->used; s++) free(peers->slots[s]);
  free(peers->index);
  free(peers);
  stack->peers = NULL;
}
