/* settings' member: asks for changes, says whether it could follow, and follows.
 *
 * Who asked is answered by the coordinator that was asked.  If that one is gone, the next one
 * knows, once all members have told, whether the change was made: the table says whose change its
 * last one was, and no other begins before.  So an asker is never told the wrong end, though
 * coordinators die. */

#include "layers/settings/settings.h"

#include <stdlib.h>
#include <string.h>

/* Who asked hears of the end from the coordinator, which takes two limits at most; this long after
 * them it gives up. */
#define GRACE NEAP_S(1)

static const char VIEW_CHANGED[] = "the view changed before all had agreed: nothing was changed";

static struct neap_slice slice_of(const char *text)
{
  return (struct neap_slice){(const uint8_t *)text, (uint32_t)strlen(text)};
}

/* ---- asking ---- */

static void say(struct settings *s, const struct neap_event *asked, int code, const char *text)
{
  struct neap_event event = {.kind = NEAP_EVENT_AGREED, .ticket = asked->ticket, .code = code};
  if (*text) event.msg = neap_msg_filled(s->layer.stack, text, (uint32_t)strlen(text));
  neap_event_up(&s->layer, &event);
}

/* Is there a reason not even to ask?  It is said, then. */
static bool refused_at_once(struct settings *s, const struct neap_event *event)
{
  char text[SETTINGS_REASON], name[NEAP_ADDR_TEXT];
  struct neap_text why = neap_text_of(text, sizeof text);
  struct neap_peer *foreigner = s->layer.view ? settings_foreigner(s) : NULL;
  int code = 0;
  if (!s->layer.view) {
    code = NEAP_NOT_JOINED;
  } else if (foreigner) {
    code = NEAP_REFUSED;
    neap_text_add(
      &why, "%s: is not a Neap member and could not follow", neap_peer_text(foreigner, name));
  } else if (event->msg->len > s->room || event->msg->len >= SETTINGS_TEXT) {
    code = NEAP_TOO_BIG;
    neap_text_add(&why, "the request does not fit into a packet");
  } else if (s->pending == SETTINGS_MINE) {
    code = NEAP_WOULD_BLOCK;
    neap_text_add(&why, "%d changes of this member are under way", SETTINGS_MINE);
  }
  if (code < 0) say(s, event, code, text);
  return code < 0;
}

void settings_agree(struct settings *s, struct neap_event *event)
{
  if (refused_at_once(s, event)) return;
  struct neap_peer *coordinator = s->layer.view->members[0];
  uint64_t timeout = event->time ? event->time : s->timeout;
  struct neap_slice text = {event->msg->body, event->msg->len};
  struct neap_settings_own_head head = {.type = NEAP_SETTINGS_ASK,
    .ticket = event->ticket,
    .bits = event->flag ? NEAP_SETTINGS_UNDO : 0,
    .time = timeout};
  unsigned free_at = 0;
  while (s->mine[free_at].ticket) free_at++;
  s->mine[free_at] = (struct mine){.ticket = event->ticket,
    .asked = coordinator->addr,
    .due = neap_now(&s->layer) + 2 * timeout + GRACE};
  s->pending++;
  if (coordinator->self) {
    settings_ask(s, settings_request(s, coordinator, &head, text));
  } else {
    settings_send(s, settings_message(s, coordinator, &head, text));
  }
}

void settings_agreed(struct settings *s, const struct ended *ended)
{
  struct mine *mine = s->mine;
  while (mine < s->mine + SETTINGS_MINE && mine->ticket != ended->ticket) mine++;
  if (!ended->ticket || mine == s->mine + SETTINGS_MINE) {
    s->stale++;
    return;
  }
  *mine = (struct mine){0};
  s->pending--;
  struct neap_event event = {.kind = NEAP_EVENT_AGREED,
    .ticket = ended->ticket,
    .code = ended->code,
    .flag = ended->all,
    .number = ended->epoch};
  if (ended->text.len) event.msg = neap_msg_filled(s->layer.stack, ended->text.at, ended->text.len);
  neap_event_up(&s->layer, &event);
}

/* Is this change of mine the last that the group has made? */
static bool is_made(const struct settings *s, uint32_t ticket)
{
  return ticket == s->now.ticket && neap_addr_equal(&s->now.asker, &neap_self(&s->layer)->addr);
}

void settings_resolve(struct settings *s)
{
  for (unsigned i = 0; i < SETTINGS_MINE; i++) {
    uint32_t ticket = s->mine[i].ticket;
    if (!ticket || !s->mine[i].orphan) continue;
    bool made = is_made(s, ticket);
    settings_agreed(s, &(struct ended){.ticket = ticket,
                         .code = made ? 0 : NEAP_RESET,
                         .epoch = made ? s->epoch : 0,
                         .text = slice_of(made ? "" : VIEW_CHANGED)});
  }
}

/* The coordinator says nothing.  If it finds the request in the end, it finds right behind it that
 * nobody wants that any more. */
static void withdraw(struct settings *s, uint32_t ticket)
{
  const struct neap_view *view = s->layer.view;
  struct neap_settings_own_head head = {.type = NEAP_SETTINGS_ABORT, .ticket = ticket};
  if (view && !view->members[0]->self && view->members[0]->generation)
    settings_send(s, settings_message(s, view->members[0], &head, (struct neap_slice){0}));
}

void settings_mine_due(struct settings *s, uint64_t now)
{
  char name[NEAP_ADDR_TEXT];
  for (unsigned i = 0; i < SETTINGS_MINE; i++) {
    uint32_t ticket = s->mine[i].ticket;
    if (!ticket || s->mine[i].due > now) continue;
    s->late++;
    withdraw(s, ticket);
    const char *who = s->layer.view ? neap_peer_text(s->layer.view->members[0], name) : "";
    settings_agreed(s, &(struct ended){.ticket = ticket,
                         .code = NEAP_TIMEOUT,
                         .epoch = is_made(s, ticket) ? s->epoch : 0,
                         .text = slice_of(who)});
  }
}

/* ---- following ---- */

void settings_unpromise(struct settings *s)
{
  s->promise_due = 0;
  s->layer.stack->promised = NULL;
}

int settings_check_table(struct settings *s, const struct table *table, struct neap_text *why)
{
  char text[SETTINGS_REASON] = "";
  settings_unpromise(s);
  s->checked++;
  settings_plan(s, table->text, &s->promised);
  if (s->promised.problems.len) {
    neap_text_add(why, "%s", s->promised.problems_text);
    return NEAP_REFUSED;
  }
  s->promise = (struct neap_set){.changes = s->promised.changes, .count = s->promised.count};
  int code = neap_stack_may(s->layer.stack, &s->promise, text, sizeof text);
  neap_text_add(why, "%s", text);
  if (!code) s->layer.stack->promised = &s->promise;
  return code;
}

void settings_checked(struct settings *s, struct neap_peer *from,
  const struct neap_settings_own_head *head, const struct table *table)
{
  char text[SETTINGS_REASON];
  struct neap_text why = neap_text_of(text, sizeof text);
  int code = settings_check_table(s, table, &why);
  if (!code) s->promise_due = neap_now(&s->layer) + head->time + GRACE;
  struct neap_settings_own_head vote = {
    .type = NEAP_SETTINGS_VOTE, .round = head->round, .code = (int16_t)code};
  settings_send(s, settings_message(s, from, &vote, slice_of(code ? text : "")));
}

/* ---- views ---- */

void settings_member_view(struct settings *s)
{
  struct neap_peer *coordinator = s->layer.view->members[0];
  struct neap_settings_own_head head = settings_head(NEAP_SETTINGS_HERE, &s->now);
  bool waits = false;
  settings_unpromise(s);
  s->over = 0;
  for (unsigned i = 0; i < SETTINGS_MINE; i++) {
    struct mine *mine = &s->mine[i];
    if (!mine->ticket) continue;
    mine->orphan |= !neap_addr_equal(&mine->asked, &coordinator->addr);
    waits |= mine->orphan;
  }
  if (waits) head.bits |= NEAP_SETTINGS_WAITS;
  if (coordinator->self)
    settings_here(s, coordinator, &head, &s->now);
  else if (coordinator->generation)
    settings_send(s, settings_message(s, coordinator, &head, settings_body(&s->now)));
  else
    settings_resolve(s); /* Nobody there could say more. */
}
