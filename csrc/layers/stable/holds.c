/* stable's holds: digests that this member has handed out, and so may not vote beyond
 * (protocols 2). */

#include "layers/stable/stable.h"

#include <stdlib.h>

bool neap_stable_muted(const struct stable *s)
{
  for (const struct hold *h = s->first; h; h = h->next)
    if (!h->digest) return true;
  return false;
}

static void hold_free(struct stable *s, struct hold **at)
{
  struct hold *h = *at;
  *at = h->next;
  neap_digest_unref(h->digest);
  free(h);
  s->holds--;
}

/* What a hold forbade may be said now. */
static void speak_up(struct stable *s)
{
  if (s->owed && !neap_stable_muted(s)) neap_stable_ask(s);
}

void neap_stable_hold_due(struct neap_layer *layer, struct neap_timer *timer)
{
  struct stable *s = NEAP_HOLDER(timer, struct stable, hold);
  uint64_t now = neap_now(layer), next = UINT64_MAX;
  for (struct hold **at = &s->first; *at;) {
    if ((*at)->until <= now) {
      s->expired++;
      neap_trouble(layer, NULL, "hold %llu was never ended: what its digest promised may be lost",
        (unsigned long long)(*at)->number);
      hold_free(s, at);
      continue;
    }
    if ((*at)->until < next) next = (*at)->until;
    at = &(*at)->next;
  }
  if (s->first) neap_timer_start(layer, timer, next - now);
  speak_up(s);
}

void neap_stable_hold(struct stable *s, const struct neap_event *event)
{
  struct hold *h = s->first;
  while (h && h->number != event->number) h = h->next;
  if (!h) {
    h = calloc(1, sizeof *h);
    NEAP_ASSERT(h);
    h->number = event->number;
    h->next = s->first;
    s->first = h;
    s->holds++;
  }
  neap_digest_unref(h->digest);
  h->digest = neap_digest_ref(event->digest);
  h->until = neap_now(&s->layer) + s->hold_max;
  neap_timer_sooner(&s->layer, &s->hold, s->hold_max);
  speak_up(s);
}

void neap_stable_release(struct stable *s, uint64_t number)
{
  for (struct hold **at = &s->first; *at;)
    if ((*at)->number == number)
      hold_free(s, at);
    else
      at = &(*at)->next;
  speak_up(s);
}
