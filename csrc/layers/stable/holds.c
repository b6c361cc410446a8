/* stable's holds: what keeps this member from voting as it would.
 *
 *     hold, digest known       it votes, but not beyond what the digest says   (protocols 2)
 *     hold, digest to follow   it does not vote at all
 *     suspension               it does not vote, and takes neither votes nor STABILITY
 *
 * A hold ends by RELEASE, a suspension by RESUME or when its time is over; each ends by itself at
 * last, with trouble.  A member of JGroups does not know about holds: while it is in the view a
 * hold suspends as well.  A vote that was due meanwhile follows at once, one only. */

#include "layers/stable/stable.h"

#include <stdio.h>
#include <stdlib.h>

/* Views, merges and states that are under way; many more than there ever are. */
enum { HOLDS_MAX = 4096 };

bool neap_stable_suspended(const struct stable *s)
{
  return s->suspensions || (s->first && s->view && !neap_view_all_neap(s->view));
}

bool neap_stable_muted(const struct stable *s)
{
  for (const struct hold *h = s->first; h; h = h->next)
    if (!h->digest) return true;
  return neap_stable_suspended(s);
}

static void hold_free(struct stable *s, struct hold **at)
{
  struct hold *h = *at;
  *at = h->next;
  if (h->suspends) {
    s->suspensions--;
    s->unheard = true;
  } else {
    s->holds--;
  }
  neap_digest_unref(h->digest);
  free(h);
}

/* What a hold forbade may be said now, and asked for. */
void neap_stable_speak_up(struct stable *s)
{
  if (neap_stable_muted(s)) return;
  if (s->owed) neap_stable_ask(s);
  if (s->want != NOTHING && s->view && !s->wanted.armed)
    neap_timer_start(&s->layer, &s->wanted, neap_stable_spaced(s, 0));
  if (!s->unheard) return;
  s->unheard = false;
  if (neap_stable_coordinator(s)) neap_stable_want(s, ROUND); /* They would vote in a while. */
}

/* Ends by itself: a fault of who began it, unless a time was named. */
static void give_up(struct stable *s, const struct hold *h)
{
  if (h->timed) return;
  s->expired++;
  if (h->suspends)
    neap_trouble(
      &s->layer, NULL, "%s suspended the votes and never resumed them: they go on", h->by);
  else
    neap_trouble(&s->layer, NULL, "hold %llu was never ended: what its digest promised may be lost",
      (unsigned long long)h->number);
}

void neap_stable_hold_due(struct neap_layer *layer, struct neap_timer *timer)
{
  struct stable *s = NEAP_HOLDER(timer, struct stable, hold);
  uint64_t now = neap_now(layer), next = UINT64_MAX;
  for (struct hold **at = &s->first; *at;) {
    if ((*at)->until <= now) {
      give_up(s, *at);
      hold_free(s, at);
      continue;
    }
    if ((*at)->until < next) next = (*at)->until;
    at = &(*at)->next;
  }
  if (s->first) neap_timer_start(layer, timer, next - now);
  neap_stable_speak_up(s);
}

/* The one of this number by this layer, or a new one. */
static struct hold *hold_of(
  struct stable *s, const struct neap_layer *by, uint64_t number, bool suspends)
{
  struct hold *h = s->first;
  while (h && (h->number != number || h->origin != by || h->suspends != suspends)) h = h->next;
  if (h) return h;
  h = calloc(1, sizeof *h);
  NEAP_ASSERT(h && s->holds + s->suspensions < HOLDS_MAX);
  *h = (struct hold){.next = s->first,
    .origin = by,
    .number = number,
    .since = neap_now(&s->layer),
    .suspends = suspends};
  snprintf(h->by, sizeof h->by, "%s", by ? by->name : "somebody");
  s->first = h;
  if (suspends)
    s->suspensions++;
  else
    s->holds++;
  return h;
}

static void ends_after(struct stable *s, struct hold *h, uint64_t time)
{
  h->until = neap_now(&s->layer) + time;
  neap_timer_sooner(&s->layer, &s->hold, time);
}

static void end(struct stable *s, const struct neap_layer *by, uint64_t number, bool suspends)
{
  for (struct hold **at = &s->first; *at;)
    if ((*at)->number == number && (*at)->origin == by && (*at)->suspends == suspends)
      hold_free(s, at);
    else
      at = &(*at)->next;
  if (!s->first) neap_timer_stop(&s->hold);
  neap_stable_speak_up(s);
}

/* ---- holds ---- */

void neap_stable_hold(struct stable *s, const struct neap_event *event)
{
  struct hold *h = hold_of(s, event->origin, event->number, false);
  neap_digest_unref(h->digest);
  h->digest = neap_digest_ref(event->digest);
  ends_after(s, h, s->hold_max);
  neap_stable_speak_up(s);
}

void neap_stable_release(struct stable *s, const struct neap_event *event)
{
  end(s, event->origin, event->number, false);
}

/* ---- suspensions ---- */

/* Said again with the same number, it begins anew. */
void neap_stable_suspend(
  struct stable *s, const struct neap_layer *by, uint64_t number, uint64_t time)
{
  struct hold *h = hold_of(s, by, number, true);
  h->timed = time != 0;
  ends_after(s, h, time ? time : s->suspend_max);
}

void neap_stable_resume(struct stable *s, const struct neap_layer *by, uint64_t number)
{
  end(s, by, number, true);
}

void neap_stable_holds_close(struct stable *s)
{
  while (s->first) hold_free(s, &s->first);
  neap_timer_stop(&s->hold);
}
