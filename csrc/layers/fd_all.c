/* fd_all: whoever is silent for too long is suspected.
 *
 * Each member sends an empty multicast every `interval`, unless it sent any other one
 * since the last tick; any message of a member is a sign of life.  Each tick looks who
 * was silent for `timeout`:
 *
 *     tick      tick      tick      tick      tick
 *      |---8s----|---------|---------|---------|
 *      bob .  .       x (dies)                 40 s since the last sign: suspected at this tick
 *
 * so a death is noticed between timeout and timeout + interval later.  All members
 * raise the suspicion; who acts on it is the business of membership.  A suspect that is
 * heard is taken back.
 *
 * A member that was stopped (its tick comes late by a whole interval) has heard nobody
 * and nobody is to blame: all of them have a full timeout from now.  A multicast of
 * somebody outside the view is reported as a sign of life too, once per interval: it
 * may not know that it was excluded.
 *
 * Invariant: the timer is armed exactly while there is somebody else in the view. */

#include "core/headers.h"
#include "core/layer.h"

#include <stdio.h>

enum { HISTORY = 20 };

static const struct neap_header fd_all_headers[] = {
  NEAP_HEADER_ROW("fd_all", NEAP_P_FD_ALL, 62, neap_heartbeat_head, "a sign of life"),
  {0},
};
NEAP_ADOPT(neap_heartbeat_head, 0);

struct life {
  struct neap_peer *peer;
  uint64_t heard; /* when, last */
  bool suspected;
};

struct event_line {
  uint64_t at;
  char who[NEAP_NAME_MAX];
  bool suspected; /* else taken back */
};

struct fd_all {
  struct neap_layer layer;
  uint64_t timeout, interval;                                             /* params */
  uint64_t suspects;                                                      /* gauge */
  uint64_t sent, received, spared, raised, taken_back, pauses, strangers; /* counters */
  uint64_t due; /* when the tick should come */
  bool talked;  /* a multicast was sent since the last tick */
  uint64_t lines;
  struct event_line history[HISTORY];
  struct neap_timer tick;
};

#define AT(member) offsetof(struct fd_all, member)
static const struct neap_attr fd_all_attrs[] = {
  {NEAP_PARAM, "timeout", AT(timeout), "ns", NEAP_S(40), NEAP_MS(1), NEAP_S(86400),
    .live = NEAP_TIMER,
    .doc = "Silence after which a member is suspected, looked at every interval."},
  {NEAP_PARAM, "interval", AT(interval), "ns", NEAP_S(8), NEAP_MS(1), NEAP_S(86400),
    .live = NEAP_TIMER,
    .doc = "Between two heartbeats, and two looks at the silent ones; the next is that far from "
           "the change. More than a quarter of `timeout` counts as a quarter."},
  {NEAP_GAUGE, "suspects", AT(suspects), "members", .doc = "Suspected now."},
  {NEAP_COUNTER, "heartbeats_sent", AT(sent), "messages", .doc = "Sent."},
  {NEAP_COUNTER, "heartbeats_received", AT(received), "messages", .doc = "Received."},
  {NEAP_COUNTER, "heartbeats_spared", AT(spared), "messages",
    .doc = "Not sent: another multicast was a sign of life already."},
  {NEAP_COUNTER, "suspected", AT(raised), "members", .doc = "Suspicions raised."},
  {NEAP_COUNTER, "unsuspected", AT(taken_back), "members", .doc = "Of these, taken back."},
  {NEAP_COUNTER, "pauses", AT(pauses), "pauses",
    .doc = "This member was stopped for an interval or longer; everybody got a full timeout."},
  {NEAP_COUNTER, "strangers", AT(strangers), "members",
    .doc = "Multicasts from outside the view, counted once per interval and sender."},
  {NEAP_END},
};

/* The interval in force. */
static uint64_t pace(const struct fd_all *f)
{
  return f->interval < f->timeout / 4 ? f->interval : f->timeout / 4;
}

static void note(struct fd_all *f, const struct neap_peer *peer, bool suspected)
{
  char who[NEAP_ADDR_TEXT];
  struct event_line *line = &f->history[f->lines++ % HISTORY];
  line->at = neap_now(&f->layer);
  line->suspected = suspected;
  snprintf(line->who, sizeof line->who, "%s", neap_peer_text(peer, who));
}

static void raise(struct fd_all *f, struct life *l, unsigned kind)
{
  struct neap_event event = {.kind = (uint8_t)kind, .peer = neap_peer_ref(l->peer)};
  uint64_t silent = neap_now(&f->layer) - l->heard;
  char time[32];
  snprintf(event.text, sizeof event.text, "silent for %s",
    neap_quantity_text(silent - silent % NEAP_MS(1), "ns", time, sizeof time));
  neap_event_up(&f->layer, &event);
}

static void suspect(struct fd_all *f, struct life *l)
{
  l->suspected = true;
  f->suspects++;
  f->raised++;
  note(f, l->peer, true);
  raise(f, l, NEAP_EVENT_SUSPECT);
}

static void take_back(struct fd_all *f, struct life *l)
{
  l->suspected = false;
  f->suspects--;
  f->taken_back++;
  note(f, l->peer, false);
}

static void heartbeat(struct fd_all *f)
{
  if (f->talked) {
    f->spared++;
  } else {
    struct neap_msg *m = neap_msg_own(&f->layer, NULL, 0);
    neap_heartbeat_head_put(m, &f->layer);
    f->sent++;
    neap_pass_down_msg(&f->layer, m);
  }
  f->talked = false;
}

static void next_tick(struct fd_all *f)
{
  f->due = neap_now(&f->layer) + pace(f);
  neap_timer_start(&f->layer, &f->tick, pace(f));
}

static void tick(struct neap_layer *layer, struct neap_timer *timer)
{
  struct fd_all *f = (struct fd_all *)layer;
  struct life *l;
  uint64_t now = neap_now(layer);
  bool paused = now - f->due >= pace(f) && !NEAP_IS_MUTANT(522);
  (void)timer;
  f->pauses += paused;
  heartbeat(f);
  neap_each_peer (layer, l) {
    if (!l->peer || !neap_in_view(layer->view, l->peer) || l->suspected) continue;
    if (paused) l->heard = now;
    if (now - l->heard >= f->timeout) suspect(f, l);
  }
  next_tick(f);
}

/* ---- life ---- */

static int fd_all_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct fd_all *f = (struct fd_all *)layer;
  (void)trail;
  neap_timer_init_background(layer, &f->tick, tick);
  return 0;
}

static void fd_all_down(struct neap_layer *layer, struct neap_batch *batch)
{
  struct fd_all *f = (struct fd_all *)layer;
  f->talked |= !batch->first->to; /* A batch goes to everybody, or none of it does. */
  neap_pass_down(layer, batch);
}

/* A sign of life. */
static void heard(struct fd_all *f, struct neap_msg *m)
{
  struct neap_peer *peer = m->from;
  uint64_t now = neap_now(&f->layer);
  if (peer->self) return;
  bool member = neap_in_view(f->layer.view, peer);
  if (!member && (m->to || !f->layer.view)) return;
  struct life *l = neap_peer_state(&f->layer, peer);
  l->peer = peer;
  if (member) {
    bool suspected = l->suspected;
    l->heard = now;
    if (!suspected) return;
    take_back(f, l);
  } else {
    if (l->heard && now - l->heard < pace(f)) return;
    l->heard = now;
    f->strangers++;
  }
  struct neap_event event = {.kind = NEAP_EVENT_UNSUSPECT, .peer = neap_peer_ref(peer)};
  snprintf(event.text, sizeof event.text, "it was heard");
  neap_event_up(&f->layer, &event);
}

static void fd_all_up(struct neap_layer *layer, struct neap_batch *batch)
{
  struct fd_all *f = (struct fd_all *)layer;
  struct neap_batch out = {0};
  heard(f, batch->first);                 /* A batch has one sender. */
  if (!neap_batch_has(batch, layer, 0)) { /* Nearly always: nothing to sort out. */
    neap_pass_up(layer, batch);
    return;
  }
  struct neap_msg *m;
  while ((m = neap_take(batch))) {
    if (!neap_heartbeat_head_get(m, layer)) {
      neap_put(&out, m);
      continue;
    }
    f->received++;
    neap_msg_free(m);
  }
  neap_pass_up(layer, &out);
}

static void new_view(struct fd_all *f, const struct neap_view *view)
{
  struct life *l;
  neap_each_peer (&f->layer, l) {
    if (!l->suspected || neap_in_view(view, l->peer)) continue;
    l->suspected = false;
    f->suspects--;
  }
  for (uint32_t i = 0; i < view->joined_count; i++) {
    if (view->joined[i]->self) continue;
    l = neap_peer_state(&f->layer, view->joined[i]);
    l->peer = view->joined[i];
    l->heard = neap_now(&f->layer);
  }
  if (view->count < 2)
    neap_timer_stop(&f->tick);
  else if (!f->tick.armed)
    next_tick(f);
}

static enum neap_verdict fd_all_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct fd_all *f = (struct fd_all *)layer;
  if (up) return NEAP_PASS;
  if (event->kind == NEAP_EVENT_VIEW) new_view(f, event->view);
  if (event->kind == NEAP_EVENT_UNSUSPECT) {
    struct life *l = neap_peer_state_have(layer, event->peer);
    if (!l || !l->peer) return NEAP_PASS;
    l->heard = neap_now(layer);
    if (l->suspected) take_back(f, l);
  }
  return NEAP_PASS;
}

static void fd_all_changed(struct neap_layer *layer, const struct neap_attr *attr)
{
  struct fd_all *f = (struct fd_all *)layer;
  (void)attr;
  if (f->tick.armed) next_tick(f);
}

static void fd_all_close(struct neap_layer *layer)
{
  struct fd_all *f = (struct fd_all *)layer;
  neap_timer_stop(&f->tick);
}

static void fd_all_peer_gone(struct neap_layer *layer, struct neap_peer *peer, void *state)
{
  struct fd_all *f = (struct fd_all *)layer;
  const struct life *l = state;
  (void)peer;
  f->suspects -= l->suspected;
}

static void fd_all_check(const struct neap_layer *layer)
{
  const struct fd_all *f = (const struct fd_all *)layer;
  const struct life *l;
  uint64_t suspects = 0;
  neap_each_peer (layer, l) {
    suspects += l->suspected;
    NEAP_ASSERT(l->heard <= neap_now(layer));
    NEAP_ASSERT(!l->suspected || neap_in_view(layer->view, l->peer));
  }
  NEAP_ASSERT(suspects == f->suspects);
  NEAP_ASSERT(f->tick.armed == (layer->view && layer->view->count > 1));
}

/* ---- operations ---- */

static int op_ages(struct neap_layer *layer, const char *argument, char *out)
{
  struct life *l;
  char who[NEAP_ADDR_TEXT], age[32];
  size_t used = 0;
  (void)argument;
  out[0] = 0;
  neap_each_peer (layer, l) {
    if (!neap_in_view(layer->view, l->peer) || used >= NEAP_OP_TEXT) continue;
    used +=
      (size_t)snprintf(out + used, NEAP_OP_TEXT - used, "%s %s%s\n", neap_peer_text(l->peer, who),
        neap_quantity_text(neap_now(layer) - l->heard, "ns", age, sizeof age),
        l->suspected ? " suspected" : "");
  }
  return 0;
}

static int op_history(struct neap_layer *layer, const char *argument, char *out)
{
  const struct fd_all *f = (const struct fd_all *)layer;
  size_t used = 0;
  char at[32];
  (void)argument;
  out[0] = 0;
  for (uint64_t i = f->lines > HISTORY ? f->lines - HISTORY : 0; i < f->lines; i++) {
    const struct event_line *line = &f->history[i % HISTORY];
    used += (size_t)snprintf(out + used, NEAP_OP_TEXT - used, "%s %s %s\n",
      neap_quantity_text(line->at, "ns", at, sizeof at), line->who,
      line->suspected ? "suspected" : "taken back");
    if (used >= NEAP_OP_TEXT) break;
  }
  return 0;
}

static const struct neap_op fd_all_ops[] = {
  {"ages", "How long ago each member was heard.", op_ages},
  {"history", "The last suspicions, and those taken back.", op_history},
  {0},
};

const struct neap_class neap_fd_all = {
  .name = "fd_all",
  .doc = "Suspects members that are silent for too long.",
  .needs = "multicast",
  .hears = "view",
  .gives = "suspicion",
  .size = sizeof(struct fd_all),
  .peer_size = sizeof(struct life),
  .peer_gone = fd_all_peer_gone,
  .headers = fd_all_headers,
  .attrs = fd_all_attrs,
  .ops = fd_all_ops,
  .open = fd_all_open,
  .down = fd_all_down,
  .up = fd_all_up,
  .event = fd_all_event,
  .changed = fd_all_changed,
  .close = fd_all_close,
  .check = fd_all_check,
};
