/* places: where the members are.
 *
 * Discovery says so by PLACE; nobody else does, for a packet may carry somebody
 * else's message.  A message to a member whose place is unknown is dropped (who
 * needs it sends it again) and LOCATE goes up, at most once per
 * `who_has_cache_timeout`.
 *
 * A place outlives the view that its member was in, and comes before the first
 * one that it is in: the layer holds the peer while its place is known.  Once a
 * minute those outside the view that were not used for
 * `logical_addr_cache_expiration` are forgotten, and of the rest the longest
 * unused if they are more than `logical_addr_cache_max_size`. */

#include "layers/transport/transport.h"

#include <stdio.h>

#define ROUND NEAP_S(60)

static void learn(struct neap_transport *t, struct neap_peer *peer, const struct neap_addr *at)
{
  struct neap_place *p = neap_peer_state(&t->layer, peer);
  if (!p->known) t->places++;
  p->peer = peer;
  p->at = *at;
  p->known = true;
  p->used = neap_now(&t->layer);
  neap_peer_hold(&t->layer, peer);
  if (p->bundle) t->bundles[p->bundle].place = *at;
}

static void forget(struct neap_transport *t, struct neap_place *p)
{
  NEAP_ASSERT(p->known);
  p->known = false;
  t->places--;
  neap_peer_release(&t->layer, p->peer);
}

struct neap_place *neap_transport_place(struct neap_transport *t, struct neap_peer *to)
{
  struct neap_place *p = neap_peer_state(&t->layer, to);
  uint64_t now = neap_now(&t->layer);
  if (p->known) {
    p->used = now;
    return p;
  }
  if (!p->asked || now - p->asked >= t->ask_pause) {
    struct neap_event event = {.kind = NEAP_EVENT_LOCATE, .peer = neap_peer_ref(to)};
    p->asked = now;
    t->asked++;
    neap_event_up(&t->layer, &event);
  }
  return NULL;
}

static bool stranger(const struct neap_transport *t, const struct neap_place *p)
{
  return p->known && !neap_in_view(t->layer.view, p->peer);
}

static void reap(struct neap_layer *layer, struct neap_timer *timer)
{
  struct neap_transport *t = (struct neap_transport *)layer;
  struct neap_place *p, *oldest;
  uint64_t now = neap_now(layer), strangers = 0;
  neap_each_peer (layer, p) {
    if (!stranger(t, p)) continue;
    if (now - p->used >= t->places_expiry)
      forget(t, p);
    else
      strangers++;
  }
  for (; strangers > t->places_max; strangers--) {
    oldest = NULL;
    neap_each_peer (layer, p)
      if (stranger(t, p) && (!oldest || p->used < oldest->used)) oldest = p;
    forget(t, oldest);
  }
  neap_timer_start(layer, timer, ROUND);
}

void neap_transport_places_begin(struct neap_transport *t)
{
  neap_timer_init_background(&t->layer, &t->reaper, reap);
  neap_timer_start(&t->layer, &t->reaper, ROUND);
}

enum neap_verdict neap_transport_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct neap_transport *t = (struct neap_transport *)layer;
  if (up) return NEAP_PASS;
  if (event->kind == NEAP_EVENT_PLACE) {
    if (!event->peer->self) learn(t, event->peer, &event->place);
    return NEAP_STOP;
  }
  if (event->kind == NEAP_EVENT_SELF_PLACE && event->query) {
    event->place = t->place;
    return NEAP_ANSWER;
  }
  return NEAP_PASS;
}

void neap_transport_peer_gone(struct neap_layer *layer, struct neap_peer *peer, void *state)
{
  struct neap_transport *t = (struct neap_transport *)layer;
  struct neap_place *p = state;
  (void)peer;
  neap_transport_forsake(t, p);
  if (p->known) t->places--;
}

/* An operation: each known place on a line. */
int neap_transport_places(struct neap_layer *layer, const char *argument, char *out)
{
  struct neap_transport *t = (struct neap_transport *)layer;
  char who[NEAP_ADDR_TEXT], where[NEAP_ADDR_TEXT];
  struct neap_place *p;
  size_t used = 0;
  (void)argument;
  out[0] = 0;
  neap_each_peer (layer, p) {
    if (!p->known) continue;
    int more = snprintf(out + used, NEAP_OP_TEXT - used, "%s %s%s\n", neap_peer_text(p->peer, who),
      neap_addr_text(&p->at, where), stranger(t, p) ? " (not in the view)" : "");
    if (more < 0 || (size_t)more >= NEAP_OP_TEXT - used) {
      out[used] = 0; /* The line that was cut goes. */
      break;
    }
    used += (size_t)more;
  }
  return 0;
}
