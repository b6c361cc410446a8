/* settings' coordinator: one change after the other, for everybody or for nobody.
 *
 *      queue ----> CHECK to all ----> a vote of each ----> COMMIT to all ----> DONE of each
 *        |  all have         |                |                                    |
 *        |  told             |                +-- one refuses, or is late: ABORT  +-- late: said so
 *        +-- late            +-- the view changes: over, members know by themselves
 *
 * Nothing begins before every member has told in this view what it knows, so an epoch is never used
 * twice and nobody is asked who has no such layer.  The next change waits until everybody has done
 * the one before.
 *
 * CHECK and COMMIT are multicasts, and the last one of a stream can be missed for long where
 * receivers find losses; who has not answered after a while gets its own copy.
 *
 * Who has no such layer never tells: when the view has stood for `timeout` that is known of it. */

#include "layers/settings/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A multicast that was not answered for so long may not have arrived.  (A guess: longer than the
 * repair of a loss takes on most networks.) */
#define REPEAT NEAP_MS(200)

static const char VIEW_CHANGED[] = "the view changed before all had agreed: nothing was changed";

static struct peer *member(const struct settings *s, uint32_t rank)
{
  return neap_peer_state((struct neap_layer *)(uintptr_t)&s->layer, s->layer.view->members[rank]);
}

/* ---- ends ---- */

static void result(
  struct settings *s, const struct request *r, int code, uint64_t epoch, const char *text)
{
  struct neap_slice body = {(const uint8_t *)text, (uint32_t)strlen(text)};
  struct neap_settings_own_head head = {
    .type = NEAP_SETTINGS_RESULT, .epoch = epoch, .ticket = r->ticket, .code = (int16_t)code};
  if (r->asker->self)
    settings_agreed(s, &(struct ended){r->ticket, code, epoch, body, !code});
  else if (neap_in_view(s->layer.view, r->asker))
    settings_send(s, settings_message(s, r->asker, &head, body));
}

static void forget(struct settings *s, struct request *r)
{
  neap_link_remove(&r->link);
  neap_peer_unref(r->asker);
  free(r);
  s->queued--;
}

static void end(struct settings *s, struct request *r, int code, const char *text)
{
  if (code == NEAP_TIMEOUT) s->late++;
  if (code == NEAP_REFUSED) s->refused++;
  if (code == NEAP_RESET) s->aborted++;
  result(s, r, code, 0, text);
  forget(s, r);
}

static struct request *first(const struct settings *s)
{
  return neap_link_alone(&s->queue) ? NULL : NEAP_HOLDER(s->queue.next, struct request, link);
}

/* ---- asked ---- */

struct request *settings_request(struct settings *s, struct neap_peer *asker,
  const struct neap_settings_own_head *head, struct neap_slice text)
{
  struct request *r = calloc(1, sizeof *r + text.len + 1);
  NEAP_ASSERT(r);
  r->asker = neap_peer_ref(asker);
  r->ticket = head->ticket;
  r->undo = head->bits & NEAP_SETTINGS_UNDO;
  r->timeout = head->time ? head->time : s->timeout;
  r->due = neap_now(&s->layer) + r->timeout;
  memcpy(r->text, text.at, text.len);
  neap_link_before(&s->queue, &r->link);
  s->queued++;
  return r;
}

void settings_ask(struct settings *s, struct request *r)
{
  s->asked++;
  if (!s->leads)
    end(s, r, NEAP_RESET, VIEW_CHANGED);
  else if (s->queued > s->queue_max)
    end(s, r, NEAP_WOULD_BLOCK, "as many changes as may be wait at the coordinator");
  else if (strlen(r->text) >= SETTINGS_TEXT || !settings_valid(r->text))
    end(s, r, NEAP_REFUSED, "the request cannot be read");
  settings_next(s);
}

/* ---- a round ---- */

static void owed_by_all(struct settings *s)
{
  s->missing = s->layer.view->count - 1;
  for (uint32_t i = 0; i < s->layer.view->count; i++)
    member(s, i)->owes = !s->layer.view->members[i]->self;
}

/* The names of those for whom `flag` says so, one a line. */
static void names(const struct settings *s, bool (*is)(const struct peer *), struct neap_text *text)
{
  char name[NEAP_ADDR_TEXT];
  for (uint32_t i = 0; i < s->layer.view->count; i++)
    if (is(member(s, i)))
      neap_text_add(
        text, "%s%s", text->len ? "\n" : "", neap_peer_text(s->layer.view->members[i], name));
}

static bool owes(const struct peer *p)
{
  return p->owes;
}

static bool untold(const struct peer *p)
{
  return !p->told;
}

static void close_round(struct settings *s)
{
  s->open = s->committed = false;
  s->repeat_at = 0;
  s->missing = 0;
  for (uint32_t i = 0; i < s->layer.view->count; i++) member(s, i)->owes = false;
  settings_unpromise(s);
}

/* Over before it was made. */
static void give_up(struct settings *s, int code, const char *text)
{
  struct neap_settings_own_head head = {.type = NEAP_SETTINGS_ABORT, .round = s->round};
  close_round(s);
  if (code != NEAP_RESET) settings_send_all(s, &head, (struct neap_slice){0});
  end(s, first(s), code, text);
}

/* Made, and done by all but those in `late`. */
static void conclude(struct settings *s, const char *late)
{
  struct request *r = first(s);
  close_round(s);
  if (*late) s->late++;
  result(s, r, *late ? NEAP_TIMEOUT : 0, s->epoch, late);
  forget(s, r);
}

/* What the round that is open says now: CHECK or COMMIT. */
static struct neap_settings_own_head round_head(const struct settings *s)
{
  struct neap_settings_own_head head =
    settings_head(s->committed ? NEAP_SETTINGS_COMMIT : NEAP_SETTINGS_CHECK, &s->next);
  head.round = s->round;
  head.time = first(s)->timeout;
  return head;
}

static void say_to_all(struct settings *s)
{
  struct neap_settings_own_head head = round_head(s);
  s->repeat_at = neap_now(&s->layer) + REPEAT;
  settings_send_all(s, &head, settings_body(&s->next));
}

void settings_repeat(struct settings *s)
{
  struct neap_settings_own_head head = round_head(s);
  s->repeat_at = 0;
  for (uint32_t i = 0; i < s->layer.view->count; i++) {
    if (!member(s, i)->owes) continue;
    s->repeated++;
    settings_send(
      s, settings_message(s, s->layer.view->members[i], &head, settings_body(&s->next)));
  }
}

static void commit(struct settings *s)
{
  s->committed = true;
  s->made++;
  s->round_due = neap_now(&s->layer) + first(s)->timeout;
  owed_by_all(s);
  say_to_all(s);
  settings_adopt(s, &s->next);
}

/* Has everybody answered? */
static void count(struct settings *s)
{
  if (s->missing && !(NEAP_IS_MUTANT(651) && !s->committed)) return;
  if (s->refusal)
    give_up(s, NEAP_REFUSED, s->why_text);
  else if (!s->committed)
    commit(s);
  if (s->committed && !s->missing) conclude(s, "");
}

static void refuse(struct settings *s, const struct neap_peer *peer, struct neap_slice reason)
{
  char name[NEAP_ADDR_TEXT];
  s->refusal = true;
  neap_text_add(&s->why, "%s%s: %.*s", s->why.len ? "\n" : "", neap_peer_text(peer, name),
    (int)reason.len, (const char *)reason.at);
}

static void begin(struct settings *s, const struct request *r)
{
  char text[SETTINGS_REASON];
  struct neap_text own = neap_text_of(text, sizeof text);
  s->next.epoch = s->now.epoch + 1;
  s->next.creator = neap_self(&s->layer)->addr;
  s->next.asker = r->asker->addr;
  s->next.ticket = r->ticket;
  s->next.undo = r->undo;
  s->open = true;
  s->refusal = false;
  s->why = neap_text_of(s->why_text, sizeof s->why_text);
  s->round++;
  s->round_due = r->due;
  owed_by_all(s);
  if (settings_check_table(s, &s->next, &own))
    refuse(s, neap_self(&s->layer), (struct neap_slice){(const uint8_t *)text, (uint32_t)own.len});
  say_to_all(s);
  count(s);
}

/* Members that have never told though there was time: true if the change was refused for them. */
static bool lacking(struct settings *s, struct request *r)
{
  char text[SETTINGS_REASON], name[NEAP_ADDR_TEXT];
  struct neap_text why = neap_text_of(text, sizeof text);
  if (neap_now(&s->layer) < s->view_at + s->timeout) return false;
  for (uint32_t i = 0; i < s->layer.view->count; i++)
    if (!member(s, i)->here)
      neap_text_add(&why, "%s%s: its stack has no layer %s", why.len ? "\n" : "",
        neap_peer_text(s->layer.view->members[i], name), s->layer.name);
  if (why.len) end(s, r, NEAP_REFUSED, text);
  return why.len > 0;
}

void settings_next(struct settings *s)
{
  char name[NEAP_ADDR_TEXT], text[NEAP_ADDR_TEXT + 64];
  struct request *r;
  while (s->leads && !s->open && (r = first(s))) {
    struct neap_peer *foreigner = settings_foreigner(s);
    if (foreigner) {
      snprintf(text, sizeof text, "%s: is not a Neap member and could not follow",
        neap_peer_text(foreigner, name));
      end(s, r, NEAP_REFUSED, text);
    } else if (s->untold) {
      if (!lacking(s, r)) return;
    } else if (!settings_merge(&s->now, r->text, &s->next) || s->next.len > s->max_bytes ||
               s->next.len > s->room) {
      end(s, r, NEAP_TOO_BIG, "what the group would have set is longer than max_bytes");
    } else {
      begin(s, r);
    }
  }
}

void settings_withdrawn(struct settings *s, const struct neap_peer *asker, uint32_t ticket)
{
  for (struct neap_link *at = s->queue.next; at != &s->queue; at = at->next) {
    struct request *r = NEAP_HOLDER(at, struct request, link);
    if (r->asker != asker || r->ticket != ticket) continue;
    if (!s->open || r != first(s))
      end(s, r, NEAP_TIMEOUT, "");
    else if (!s->committed)
      give_up(s, NEAP_TIMEOUT, "");
    break;
  }
  settings_next(s);
}

/* ---- what members say ---- */

/* An answer in this round that is owed; then it is owed no more. */
static bool owed(struct settings *s, struct neap_peer *from, uint64_t round, bool committed)
{
  struct peer *p = neap_peer_state(&s->layer, from);
  if (!s->open || s->committed != committed || round != s->round || !p->owes) {
    s->stale++;
    return false;
  }
  p->owes = false;
  s->missing--;
  return true;
}

void settings_vote(struct settings *s, struct neap_peer *from,
  const struct neap_settings_own_head *head, struct neap_slice reason)
{
  if (!owed(s, from, head->round, false)) return;
  if (head->code < 0) refuse(s, from, reason);
  count(s);
  settings_next(s);
}

void settings_done(
  struct settings *s, struct neap_peer *from, const struct neap_settings_own_head *head)
{
  if (!owed(s, from, head->round, true)) return;
  count(s);
  settings_next(s);
}

static void tell(struct settings *s, struct neap_peer *to, bool all_told)
{
  struct neap_settings_own_head head = settings_head(NEAP_SETTINGS_TABLE, &s->now);
  if (all_told) head.bits |= NEAP_SETTINGS_ALL_TOLD;
  settings_send(s, settings_message(s, to, &head, settings_body(&s->now)));
}

static void tell_one(struct settings *s, uint32_t rank)
{
  if (!s->layer.view->members[rank]->self) tell(s, s->layer.view->members[rank], false);
}

static void all_told(struct settings *s)
{
  settings_resolve(s);
  for (uint32_t i = 0; i < s->layer.view->count; i++) {
    struct peer *p = member(s, i);
    if (p->waits && !s->layer.view->members[i]->self) tell(s, s->layer.view->members[i], true);
    p->waits = false;
  }
}

void settings_here(struct settings *s, struct neap_peer *from,
  const struct neap_settings_own_head *head, const struct table *table)
{
  struct peer *p = neap_peer_state(&s->layer, from);
  if (p->told) {
    s->stale++;
    return;
  }
  p->here = p->told = true;
  p->waits = head->bits & NEAP_SETTINGS_WAITS;
  s->untold--;
  s->told++;
  int order = settings_compare(table, &s->now);
  if (order > 0) {
    settings_adopt(s, table);
    for (uint32_t i = 0; i < s->layer.view->count; i++)
      if (member(s, i)->told && s->layer.view->members[i] != from) tell_one(s, i);
  } else if (order < 0 && !NEAP_IS_MUTANT(652)) {
    tell(s, from, false);
  }
  if (!s->untold) all_told(s);
  settings_next(s);
}

/* ---- views and time ---- */

static void view_in_round(struct settings *s)
{
  if (!s->committed) {
    give_up(s, NEAP_RESET, VIEW_CHANGED);
    return;
  }
  s->missing = 0;
  for (uint32_t i = 0; i < s->layer.view->count; i++) s->missing += member(s, i)->owes;
  char text[SETTINGS_REASON];
  struct neap_text late = neap_text_of(text, sizeof text);
  names(s, owes, &late);
  if (!s->missing || !s->leads) conclude(s, text);
}

void settings_lead_view(struct settings *s)
{
  const struct neap_view *view = s->layer.view;
  s->leads = view->members[0]->self;
  if (s->open) view_in_round(s);
  for (struct neap_link *at = s->queue.next, *next; at != &s->queue; at = next) {
    struct request *r = NEAP_HOLDER(at, struct request, link);
    next = at->next;
    if (!s->leads)
      end(s, r, NEAP_RESET, VIEW_CHANGED);
    else if (!neap_in_view(view, r->asker) && !(s->open && r == first(s)))
      forget(s, r);
  }
  s->view_at = neap_now(&s->layer);
  s->untold = s->leads ? view->count : 0;
  for (uint32_t i = 0; i < view->count; i++) member(s, i)->told = member(s, i)->waits = false;
}

static void request_due(struct settings *s, struct request *r)
{
  char text[SETTINGS_REASON];
  struct neap_text why = neap_text_of(text, sizeof text);
  names(s, untold, &why);
  end(s, r, NEAP_TIMEOUT, text);
}

void settings_round_due(struct settings *s, uint64_t now)
{
  char text[SETTINGS_REASON];
  struct neap_text late = neap_text_of(text, sizeof text);
  if (s->open && s->round_due <= now) {
    names(s, owes, &late);
    if (s->committed)
      conclude(s, text);
    else if (s->refusal)
      give_up(s, NEAP_REFUSED, s->why_text);
    else
      give_up(s, NEAP_TIMEOUT, text);
  }
  for (struct neap_link *at = s->queue.next, *next; at != &s->queue; at = next) {
    struct request *r = NEAP_HOLDER(at, struct request, link);
    next = at->next;
    if (r->due <= now && !(s->open && r == first(s))) request_due(s, r);
  }
}

void settings_lead_close(struct settings *s)
{
  while (first(s)) forget(s, first(s));
}
