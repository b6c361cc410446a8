/* fetch: the taker's side.
 *
 *   GET -> ASKED ---> [VIEW] ---> [CLOSING] ---> REWIND ---> READING ---> SETTING -> SET
 *          ASK out    the digest's  mode         streams     parts go up  all is there
 *                     view lags     barrier      set to D    held: hold.c
 *
 * SETTING is reached when the last part is here and all has risen that this member ever reported
 * (STORED): from there nothing can break it.  Before, the end of the provider, a digest that is
 * void or of an older view, or a member that leaves while its stream is being set back, break it:
 * what was done is undone, and it starts over.  Who said no is not asked again while there is
 * another; when all have, and the last for good, so does this.
 *
 * Invariant: somebody is asked exactly from ASKED on; `rewound` exactly from READING on. */

#include "layers/state_transfer/state_transfer.h"

#include <stdio.h>

static void ask(struct state_transfer *s);

/* ---- the end, good or bad ---- */

static void barrier_open(struct state_transfer *s)
{
  if (s->fetch_mode != STATE_BARRIER || s->step < FETCH_CLOSING) return;
  struct neap_event event = {.kind = NEAP_EVENT_BARRIER_OPEN, .number = STATE_TAKER | s->number};
  neap_event_down(&s->layer, &event);
}

static void clear(struct state_transfer *s)
{
  s->step = FETCH_NOT;
  s->begun = s->rewound = s->stored = s->ended = false;
  s->taken = 0;
  neap_batch_free(&s->parts);
  neap_digest_unref(s->sure);
  neap_digest_unref(s->perhaps);
  s->sure = s->perhaps = NULL;
  neap_peer_unref(s->provider);
  s->provider = NULL;
}

/* Undoes what was done. */
static void break_off(struct state_transfer *s, const char *why)
{
  if (s->provider && neap_in_view(s->layer.view, s->provider))
    neap_pass_down_msg(
      &s->layer, state_message(s, s->provider,
                   (struct neap_state_own_head){.type = NEAP_STATE_OVER, .number = s->number}));
  if (s->begun) {
    struct neap_event told = {.number = NEAP_STATE_BROKEN, .ticket = s->ticket};
    snprintf(told.text, sizeof told.text, "%s", why);
    s->aborts++;
    state_tell(s, told);
  }
  if (s->step >= FETCH_REWIND) state_abort(s);
  barrier_open(s);
  clear(s);
}

static void fail(struct state_transfer *s, int code, const char *why)
{
  struct neap_event told = {.number = NEAP_STATE_FAILED, .ticket = s->ticket, .code = code};
  snprintf(told.text, sizeof told.text, "%s", why);
  if (state_taking(s)) break_off(s, why);
  state_tell(s, told);
}

/* Again, at who comes next; `from` was asked last. */
static void start_over(struct state_transfer *s, const char *why, int code)
{
  struct neap_peer *last = neap_peer_ref(s->provider);
  if (s->chosen && !neap_in_view(s->layer.view, last)) {
    fail(s, code, why);
  } else {
    bool chosen = s->chosen;
    break_off(s, why);
    s->restarts++;
    if (chosen) s->provider = neap_peer_ref(last);
    ask(s);
  }
  neap_peer_unref(last);
}

/* ---- asking ---- */

/* The first other member that has not said no. */
static struct neap_peer *willing(const struct state_transfer *s)
{
  const struct neap_view *view = s->layer.view;
  for (uint32_t i = 0; i < view->count; i++) {
    struct neap_peer *peer = view->members[i];
    const struct place *p = neap_peer_state_have(&s->layer, peer);
    if (!peer->self && peer->generation && !(p && p->declined)) return peer;
  }
  return NULL;
}

static void forgive(struct state_transfer *s)
{
  struct place *p;
  neap_each_peer (&s->layer, p) p->declined = false;
}

static struct neap_peer *anybody(struct state_transfer *s)
{
  struct neap_peer *peer = willing(s);
  if (peer) return peer;
  forgive(s); /* All have said no, the last one for now only. */
  return willing(s);
}

static void ask(struct state_transfer *s)
{
  if (!s->provider) s->provider = neap_peer_ref(anybody(s));
  if (!s->provider) {
    fail(s, NEAP_NO_ANSWER, "nobody is there to ask");
    return;
  }
  s->step = FETCH_ASKED;
  s->number++;
  s->asked++;
  neap_pass_down_msg(&s->layer, state_message(s, s->provider,
                                  (struct neap_state_own_head){.type = NEAP_STATE_ASK,
                                    .number = s->number,
                                    .mode = (uint8_t)s->mode,
                                    .view = s->layer.view->number}));
}

void state_get(struct state_transfer *s, const struct neap_event *event)
{
  const char *why = state_taking(s)  ? "a state is on its way already"
                    : s->give        ? "this member gives a state right now"
                    : !s->layer.view ? "there is no view yet"
                    : event->peer && !event->peer->generation ? "it is not a Neap member"
                                                              : NULL;
  if (why) {
    struct neap_event told = {
      .number = NEAP_STATE_FAILED, .ticket = event->ticket, .code = NEAP_REFUSED};
    snprintf(told.text, sizeof told.text, "%s", why);
    state_tell(s, told);
    return;
  }
  s->ticket = event->ticket;
  s->chosen = event->peer != NULL;
  forgive(s);
  s->provider = neap_peer_ref(event->peer);
  if (s->provider && !neap_in_view(s->layer.view, s->provider))
    fail(s, NEAP_NOT_A_MEMBER, "it is not in the view");
  else
    ask(s);
}

void state_drop(struct state_transfer *s, uint32_t ticket)
{
  if (state_taking(s) && s->step < FETCH_SETTING && ticket == s->ticket) break_off(s, "given up");
}

/* ---- the digest ---- */

static void rewind_streams(struct state_transfer *s)
{
  s->step = FETCH_REWIND;
  struct neap_event event = {
    .kind = NEAP_EVENT_DIGEST_OVERWRITE, .digest = neap_digest_ref(s->sure), .flag = true};
  neap_event_down(&s->layer, &event);
}

/* The digest is here, and perhaps its view: what stands between it and the streams? */
static void go_on(struct state_transfer *s)
{
  uint64_t mine = s->layer.view->number;
  if (mine > s->provider_view) {
    start_over(s, "the view changed", NEAP_RESET);
  } else if (mine < s->provider_view) {
    s->step = FETCH_VIEW;
    struct neap_event event = {.kind = NEAP_EVENT_VIEW_WANTED, .peer = neap_peer_ref(s->provider)};
    neap_event_down(&s->layer, &event);
  } else if (s->fetch_mode == STATE_BARRIER) {
    s->step = FETCH_CLOSING;
    struct neap_event event = {.kind = NEAP_EVENT_BARRIER_CLOSE,
      .number = STATE_TAKER | s->number,
      .peer = neap_peer_ref(s->provider),
      .time = s->close_timeout};
    neap_ask_down(&s->layer, &event);
  } else {
    rewind_streams(s);
  }
}

static void digest(
  struct state_transfer *s, const struct neap_msg *m, const struct neap_state_own_head *head)
{
  s->sure = state_read_digest(s, m);
  if (!s->sure) {
    fail(s, NEAP_NO_ANSWER, "its digest makes no sense");
    return;
  }
  s->fetch_mode = head->mode == STATE_BARRIER ? STATE_BARRIER : STATE_APPLIED;
  s->provider_view = head->view;
  go_on(s);
}

void state_fetch_closed(struct state_transfer *s, int code)
{
  if (code < 0 && (s->step == FETCH_REWIND || s->step == FETCH_READING)) {
    fail(s, code, "this member's barrier was closed for too long");
    return;
  }
  if (s->step != FETCH_CLOSING) return;
  if (code < 0)
    fail(s, code,
      code == NEAP_REFUSED ? "this stack has no layer that closes"
                           : "callbacks have not returned in time");
  else
    rewind_streams(s);
}

/* ---- parts ---- */

static void piece(struct state_transfer *s, struct neap_msg *m)
{
  const struct neap_state_own_head *head = neap_state_own_head_get(m, &s->layer);
  s->bytes_in += m->len;
  state_tell(s, (struct neap_event){
                  .number = NEAP_STATE_PIECE, .ticket = s->ticket, .time = head->total, .msg = m});
}

/* Is all there?  Then it is the application's turn. */
static void whole(struct state_transfer *s)
{
  if (s->step != FETCH_READING || !s->ended || (!s->stored && !NEAP_IS_MUTANT(543))) return;
  s->step = FETCH_SETTING;
  state_tell(
    s, (struct neap_event){
         .number = NEAP_STATE_WHOLE, .ticket = s->ticket, .digest = neap_digest_ref(s->perhaps)});
}

void state_fetch_rewound(struct state_transfer *s)
{
  struct neap_msg *m;
  if (s->step != FETCH_REWIND) return;
  if (s->layer.view->number > s->provider_view) {
    start_over(s, "the view changed", NEAP_RESET);
    return;
  }
  s->rewound = s->begun = true;
  s->step = FETCH_READING;
  state_tell(s, (struct neap_event){.number = NEAP_STATE_BEGIN,
                  .ticket = s->ticket,
                  .peer = neap_peer_ref(s->provider),
                  .digest = neap_digest_ref(s->sure)});
  while ((m = neap_take(&s->parts))) piece(s, m);
  whole(s);
}

void state_fetch_stored(struct state_transfer *s, int code)
{
  if (s->step != FETCH_READING) return;
  if (code < 0) {
    start_over(s, "what the digest promised is gone", code);
    return;
  }
  s->stored = true;
  neap_pass_down_msg(
    &s->layer, state_message(s, s->provider,
                 (struct neap_state_own_head){.type = NEAP_STATE_STORED, .number = s->number}));
  whole(s);
}

void state_took(struct state_transfer *s, const struct neap_event *event)
{
  if (!state_taking(s) || event->ticket != s->ticket || event->time <= s->taken) return;
  s->taken = event->time;
  neap_pass_down_msg(
    &s->layer, state_message(s, s->provider,
                 (struct neap_state_own_head){
                   .type = NEAP_STATE_TAKEN, .number = s->number, .bytes = s->taken}));
}

void state_set(struct state_transfer *s, uint32_t ticket)
{
  if (s->step != FETCH_SETTING || ticket != s->ticket) return;
  s->got++;
  state_commit(s);
  barrier_open(s);
  struct neap_event event = {
    .kind = NEAP_EVENT_VIEW_WANTED, .peer = neap_peer_ref(s->layer.view->members[0])};
  neap_event_down(&s->layer, &event);
  clear(s);
}

/* ---- what arrives ---- */

static void refused(
  struct state_transfer *s, const struct neap_msg *m, const struct neap_state_own_head *head)
{
  char why[NEAP_EVENT_TEXT];
  int code = -(int)head->code;
  snprintf(why, sizeof why, "%.*s", (int)m->len, m->len ? (const char *)m->body : "");
  struct place *p = neap_peer_state(&s->layer, m->from);
  p->declined = !NEAP_IS_MUTANT(545);
  if (code == NEAP_RESET || (!s->chosen && willing(s)))
    start_over(s, why, code);
  else
    fail(s, code < 0 ? code : NEAP_REFUSED, why);
}

/* Takes over the message. */
void state_fetch_msg(
  struct state_transfer *s, struct neap_msg *m, const struct neap_state_own_head *head)
{
  bool mine = state_taking(s) && m->from == s->provider && head->number == s->number;
  bool reading = mine && s->step > FETCH_ASKED && s->step < FETCH_SETTING && !s->ended;
  if (reading && head->type == NEAP_STATE_PART) {
    if (s->step == FETCH_READING)
      piece(s, m);
    else
      neap_put(&s->parts, m);
    return;
  }
  if (mine && s->step == FETCH_ASKED && head->type == NEAP_STATE_DIGEST) {
    digest(s, m, head);
  } else if (reading && head->type == NEAP_STATE_END) {
    s->perhaps = state_read_digest(s, m);
    s->ended = s->perhaps != NULL;
    whole(s);
  } else if (mine && s->step < FETCH_SETTING && head->type == NEAP_STATE_NO) {
    refused(s, m, head);
  } else {
    s->unfit++; /* Of a transfer that is over. */
  }
  neap_msg_free(m);
}

void state_fetch_view(struct state_transfer *s)
{
  const struct neap_view *view = s->layer.view;
  if (!state_taking(s) || s->step == FETCH_SETTING) return;
  bool early = s->step > FETCH_ASKED && s->step < FETCH_READING;
  if (!neap_in_view(view, s->provider))
    start_over(s, "who gave it has left", NEAP_LEFT);
  else if (view->merged)
    start_over(s, "groups have merged", NEAP_RESET);
  else if (s->step == FETCH_READING && !s->stored && view->left_count)
    start_over(s, "a member left whose messages were to come again", NEAP_RESET);
  else if (s->step == FETCH_VIEW)
    go_on(s);
  else if (early && view->number > s->provider_view)
    start_over(s, "the view changed", NEAP_RESET);
}
