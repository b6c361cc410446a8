/* stable's answer to "who holds back purging?".
 *
 *     ann itself: gms handed out a digest 1.2s ago that not all have confirmed
 *     cho has applied #12 of ann's #50, and no more for 58s
 *     bob has not voted in this round, last 20s ago
 *
 * First what holds this member, then who lacks what of its own stream, which nakack is asked for:
 * in ack mode all have told it, in nak mode those that were asked because room ran out.  The
 * coordinator knows the votes besides, and so the one that has least of each sender. */

#include "layers/stable/stable.h"

#include "base/text.h"

/* To the millisecond. */
static const char *age_text(uint64_t time, char *text, size_t size)
{
  return neap_quantity_text(time / NEAP_MS(1) * NEAP_MS(1), "ns", text, size);
}

static void new_line(struct neap_text *text)
{
  if (text->len) neap_text_add(text, "\n");
}

enum { AGE = 48 };

static void tell_holds(const struct stable *s, struct neap_text *text)
{
  uint64_t now = neap_now(&s->layer);
  char self[NEAP_ADDR_TEXT], age[AGE], left[AGE];
  neap_peer_text(neap_self(&s->layer), self);
  for (const struct hold *h = s->first; h; h = h->next) {
    age_text(now - h->since, age, AGE);
    new_line(text);
    if (h->suspends)
      neap_text_add(text, "%s itself: %s suspended the votes %s ago, for %s more at most", self,
        h->by, age, age_text(h->until - now, left, AGE));
    else
      neap_text_add(text, "%s itself: %s handed out a digest %s ago that not all have confirmed",
        self, h->by, age);
  }
}

static void tell_position(struct neap_text *text, const struct neap_peer *who, uint64_t position,
  const struct neap_peer *sender, uint64_t last, uint64_t time)
{
  char name[NEAP_ADDR_TEXT], of[NEAP_ADDR_TEXT], age[AGE];
  new_line(text);
  neap_text_add(text, "%s%s has applied #%llu of %s's #%llu, and no more for %s",
    neap_peer_text(who, name), who->self ? " itself" : "", (unsigned long long)position,
    neap_peer_text(sender, of), (unsigned long long)last, age_text(time, age, AGE));
}

/* Those that lack some of this member's stream; how many may or may not is returned. */
static unsigned tell_laggards(const struct stable *s, struct neap_text *text)
{
  unsigned unknown = 0;
  for (uint32_t i = 0; s->laggards && i < s->laggards->count; i++) {
    const struct neap_found_row *row = &s->laggards->rows[i];
    if (row->bits)
      tell_position(
        text, row->peer, row->number, neap_self(&s->layer), s->laggards_last, row->time);
    else
      unknown++;
  }
  return unknown;
}

/* Something was multicast, or was not applied everywhere, when the last round was over. */
static bool something_waits(const struct stable *s)
{
  if (!s->concluded || s->bytes) return true;
  for (uint32_t i = 0; i < neap_stable_members(s); i++)
    if (s->last[i].low != s->last[i].high) return true;
  return false;
}

/* What only the coordinator knows. */
static void tell_votes(const struct stable *s, struct neap_text *text)
{
  uint64_t now = neap_now(&s->layer);
  char name[NEAP_ADDR_TEXT], age[AGE];
  for (uint32_t i = 1; i < neap_stable_members(s); i++) {
    if (s->voted[i] || !something_waits(s)) continue;
    new_line(text);
    neap_text_add(text, "%s has not voted in this round, last %s ago",
      neap_peer_text(s->view->members[i], name), age_text(now + 1 - s->seen[i], age, AGE));
  }
  for (uint32_t i = 0; s->concluded && i < neap_stable_members(s); i++)
    if (s->last[i].low != s->last[i].high)
      tell_position(text, s->view->members[s->holder[i]], s->last[i].low, s->view->members[i],
        s->last[i].high, now - s->stuck[i]);
}

void neap_stable_forget_laggards(struct stable *s)
{
  neap_found_unref(s->laggards);
  s->laggards = NULL;
}

/* The answer came. */
void neap_stable_laggards(struct stable *s, struct neap_event *event)
{
  neap_stable_forget_laggards(s);
  s->laggards = event->found;
  event->found = NULL;
  s->laggards_last = event->number;
}

void neap_stable_ask_others(struct neap_layer *layer)
{
  neap_ask_down(layer, &(struct neap_event){.kind = NEAP_EVENT_HELD_BACK});
}

int neap_stable_held_back_by(struct neap_layer *layer, const char *argument, char *out)
{
  struct stable *s = (struct stable *)layer;
  struct neap_text text = neap_text_of(out, NEAP_OP_TEXT);
  char name[NEAP_ADDR_TEXT];
  (void)argument;
  if (!s->view) return NEAP_NOT_JOINED;
  tell_holds(s, &text);
  unsigned unknown = tell_laggards(s, &text);
  neap_stable_forget_laggards(s);
  if (neap_stable_coordinator(s)) {
    tell_votes(s, &text);
  } else if (unknown) {
    new_line(&text);
    neap_text_add(&text, "who does not vote only the coordinator knows: ask %s",
      neap_peer_text(s->view->members[0], name));
  }
  if (!text.len) neap_text_add(&text, "nobody");
  return 0;
}
