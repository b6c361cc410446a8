/* verify_suspect: whoever is suspected is asked before anybody believes it.
 *
 *   suspicion from below     "are you dead?" to bob
 *     bob answers            he is not: taken back, up and down
 *     `timeout` and silence  the suspicion goes up
 *     no socket at its place on this host: it goes up at once
 *
 * Suspects are judged in windows of one `timeout`: who came within a window is judged
 * at the end of the next, all together, so that members that died at the same time
 * leave in one view.  A judgement takes between one and two timeouts.  Questions and
 * answers are not reliable: `num_msgs` are sent.  A window that ends late by half of
 * itself says that this member was stopped, and asks again.
 *
 * Invariant: somebody is on trial exactly when the window's timer is armed. */

#include "core/headers.h"
#include "core/layer.h"

#include <stdio.h>

static const struct neap_header verify_suspect_headers[] = {
  NEAP_HEADER_ROW(
    "verify_suspect", NEAP_P_VERIFY, 94, neap_verify_head, "a question to a suspect, its answer"),
  {0},
};
NEAP_ADOPT(neap_verify_head, 0);

enum { ARE_YOU_DEAD = 1, NOT_DEAD = 2 };

struct trial {
  struct neap_peer *peer;
  uint64_t since; /* when it was asked first */
  bool on;
  char why[NEAP_EVENT_TEXT];
};

struct verify_suspect {
  struct neap_layer layer;
  uint64_t timeout, num_msgs;                          /* params */
  uint64_t trials;                                     /* gauge: on trial now */
  uint64_t asked, answered, confirmed, cleared, again, vacant; /* counters */
  uint64_t end;                                        /* when the window is over */
  struct neap_timer window;
};

#define AT(member) offsetof(struct verify_suspect, member)
static const struct neap_attr verify_suspect_attrs[] = {
  {NEAP_PARAM, "timeout", AT(timeout), "ns", NEAP_S(1), NEAP_MS(1), NEAP_S(3600), .live = NEAP_TICK,
    .doc = "How long a suspect has to answer. The window that runs keeps its length."},
  {NEAP_PARAM, "num_msgs", AT(num_msgs), "messages", 1, 1, 10, .live = NEAP_NOW,
    .doc = "Questions sent to each suspect at once, for a bad network."},
  {NEAP_GAUGE, "trials", AT(trials), "members", .doc = "Asked and not judged yet."},
  {NEAP_COUNTER, "asked", AT(asked), "messages", .doc = "Questions sent to suspects."},
  {NEAP_COUNTER, "answered", AT(answered), "messages",
    .doc = "Questions of others, answered: I am not dead."},
  {NEAP_COUNTER, "confirmed", AT(confirmed), "members", .doc = "Silent: the suspicion went up."},
  {NEAP_COUNTER, "cleared", AT(cleared), "members", .doc = "Answered, or were heard otherwise."},
  {NEAP_COUNTER, "vacant", AT(vacant), "members",
    .doc = "Confirmed at once: their port on this host was nobody's any more."},
  {NEAP_COUNTER, "again", AT(again), "windows",
    .doc = "Ended late because this member was stopped: all were asked again."},
  {NEAP_END},
};

static void send(struct verify_suspect *v, struct neap_peer *to, int16_t type)
{
  struct neap_msg *m = neap_msg_own(&v->layer, to, 0);
  *neap_verify_head_put(m, &v->layer) =
    (struct neap_verify_head){.type = type, .from = neap_self(&v->layer)->addr};
  neap_pass_down_msg(&v->layer, m);
}

static void ask(struct verify_suspect *v, struct trial *t)
{
  t->since = neap_now(&v->layer);
  for (uint64_t i = 0; i < v->num_msgs; i++) send(v, t->peer, ARE_YOU_DEAD);
  v->asked += v->num_msgs;
}

static void window_start(struct verify_suspect *v)
{
  v->end = neap_now(&v->layer) + v->timeout;
  neap_timer_start(&v->layer, &v->window, v->timeout);
}

/* No longer on trial, for whatever reason. */
static bool dismiss(struct verify_suspect *v, struct trial *t)
{
  if (!t || !t->on) return false;
  t->on = false;
  v->trials--;
  neap_peer_release(&v->layer, t->peer);
  if (!v->trials) neap_timer_stop(&v->window);
  return true;
}

/* It is dead: `more` says how that is known. */
static void believe(struct verify_suspect *v, struct trial *t, const char *more)
{
  struct neap_event event = {.kind = NEAP_EVENT_SUSPECT, .peer = neap_peer_ref(t->peer)};
  snprintf(event.text, sizeof event.text, "%.100s%s", t->why, more);
  v->confirmed++;
  dismiss(v, t);
  neap_event_up(&v->layer, &event);
}

static void judge(struct neap_layer *layer, struct neap_timer *timer)
{
  struct verify_suspect *v = (struct verify_suspect *)layer;
  struct trial *t;
  bool late = neap_now(layer) - v->end > v->timeout / 2 && !NEAP_IS_MUTANT(524);
  (void)timer;
  v->again += late;
  uint64_t now = neap_now(layer);
  neap_each_peer (layer, t) {
    if (!t->on) continue;
    if (late) {
      ask(v, t);
      continue;
    }
    if (now - t->since < v->timeout && !NEAP_IS_MUTANT(523)) continue; /* came within this window */
    believe(v, t, "");
  }
  if (v->trials) window_start(v);
}

/* ---- life ---- */

static int verify_suspect_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct verify_suspect *v = (struct verify_suspect *)layer;
  (void)trail;
  neap_timer_init(layer, &v->window, judge);
  return 0;
}

static void unsuspect(struct verify_suspect *v, struct neap_peer *peer)
{
  if (!dismiss(v, neap_peer_state_have(&v->layer, peer))) return;
  v->cleared++;
  struct neap_event up = {.kind = NEAP_EVENT_UNSUSPECT, .peer = neap_peer_ref(peer)};
  struct neap_event down = {.kind = NEAP_EVENT_UNSUSPECT, .peer = neap_peer_ref(peer)};
  snprintf(up.text, sizeof up.text, "it answered");
  snprintf(down.text, sizeof down.text, "it answered");
  neap_event_up(&v->layer, &up);
  neap_event_down(&v->layer, &down);
}

static void verify_suspect_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct verify_suspect *v = (struct verify_suspect *)layer;
  struct neap_batch out = {0};
  struct neap_msg *m;
  if (!neap_batch_has(batch, layer, 0)) { /* Nothing of ours: it passes whole. */
    neap_pass_up(layer, batch);
    return;
  }
  while ((m = neap_take(batch))) {
    const struct neap_verify_head *head = neap_verify_head_get(m, layer);
    if (!head) {
      neap_put(&out, m); /* not ours: it passes */
      continue;
    }
    if (head->type == ARE_YOU_DEAD) {
      v->answered++;
      send(v, m->from, NOT_DEAD);
    } else if (head->type == NOT_DEAD) {
      unsuspect(v, m->from);
    }
    neap_msg_free(m);
  }
  neap_pass_up(layer, &out);
}

static void suspect(struct verify_suspect *v, struct neap_event *event)
{
  struct neap_peer *peer = event->peer;
  if (peer->self || !neap_in_view(v->layer.view, peer)) return;
  struct trial *t = neap_peer_state(&v->layer, peer);
  if (t->on) return;
  t->on = true;
  t->peer = peer;
  neap_peer_hold(&v->layer, peer);
  snprintf(t->why, sizeof t->why, "%s", event->text);
  v->trials++;
  ask(v, t);
  if (!v->window.armed) window_start(v);
  struct neap_event vacant = {.kind = NEAP_EVENT_VACANT, .peer = neap_peer_ref(peer)};
  neap_ask_down(&v->layer, &vacant);
}

/* Where its socket was is none any more: it cannot answer. */
static void told_vacant(struct verify_suspect *v, const struct neap_event *event)
{
  struct trial *t = neap_peer_state_have(&v->layer, event->peer);
  if (!t || !t->on || !event->flag || event->none || NEAP_IS_MUTANT(525)) return;
  v->vacant++;
  believe(v, t, ", and nobody listens at its port any more");
}

static enum neap_verdict verify_suspect_event(
  struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct verify_suspect *v = (struct verify_suspect *)layer;
  if (event->kind == NEAP_EVENT_VACANT && event->answered) {
    told_vacant(v, event);
    return NEAP_STOP;
  }
  if (event->kind == NEAP_EVENT_SUSPECT && up) {
    suspect(v, event);
    return NEAP_STOP;
  }
  if (event->kind == NEAP_EVENT_UNSUSPECT)
    v->cleared += dismiss(v, neap_peer_state_have(layer, event->peer));
  if (event->kind == NEAP_EVENT_VIEW && !up) {
    struct trial *t;
    neap_each_peer (layer, t)
      if (t->on && !neap_in_view(event->view, t->peer)) dismiss(v, t);
  }
  return NEAP_PASS;
}

static void verify_suspect_close(struct neap_layer *layer)
{
  struct verify_suspect *v = (struct verify_suspect *)layer;
  neap_timer_stop(&v->window);
}

static void verify_suspect_check(const struct neap_layer *layer)
{
  const struct verify_suspect *v = (const struct verify_suspect *)layer;
  const struct trial *t;
  uint64_t trials = 0;
  neap_each_peer (layer, t) {
    if (!t->on) continue;
    trials++;
    NEAP_ASSERT(neap_in_view(layer->view, t->peer) && t->since <= neap_now(layer));
  }
  NEAP_ASSERT(trials == v->trials);
  NEAP_ASSERT(v->window.armed == (trials > 0));
}

const struct neap_class neap_verify_suspect = {
  .name = "verify_suspect",
  .doc = "Asks a suspect before anybody believes that it is dead.",
  .needs = "suspicion unicast",
  .hears = "view",
  .gives = "suspicion",
  .size = sizeof(struct verify_suspect),
  .peer_size = sizeof(struct trial),
  .headers = verify_suspect_headers,
  .attrs = verify_suspect_attrs,
  .open = verify_suspect_open,
  .up = verify_suspect_up,
  .unseen = NEAP_UNSEEN_RISING_ALL | NEAP_UNSEEN_RISING_ONE,
  .event = verify_suspect_event,
  .close = verify_suspect_close,
  .check = verify_suspect_check,
};
