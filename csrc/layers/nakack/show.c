/* show: what the prompt sees of the windows, and what must always be true of them. */

#include "layers/nakack/nakack.h"

#include <stdio.h>
#include <string.h>

static const char MORE[] = "... and more: name one\n";

/* A line of `windows` is at most so long: a name and seven large numbers. */
enum { LINE = 384 };

static size_t show_stream(
  const struct nakack *n, const struct stream *s, const char *name, char *out)
{
  bool own = s == n->own;
  uint64_t gaps = own ? 0 : nakack_most(s->told, s->win.high) - s->win.hd - s->win.waiting;
  int len = snprintf(out, LINE,
    "%s low=%llu applied=%llu received=%llu gaps=%llu bytes=%llu mode=%s epoch=%u has=%llu%s%s\n",
    name, (unsigned long long)s->win.low, (unsigned long long)s->run->applied,
    (unsigned long long)s->win.high, (unsigned long long)gaps, (unsigned long long)s->win.bytes,
    (own ? n->mode : s->mode) == NAKACK_ACK ? "ack" : "nak", own ? n->epoch : s->epoch,
    (unsigned long long)(own ? nakack_position(n, s) : s->have), s->stopped ? " stopped" : "",
    s->full ? " full" : "");
  NEAP_ASSERT(len > 0 && len < LINE);
  return (size_t)len;
}

int nakack_windows(struct neap_layer *layer, const char *argument, char *out)
{
  struct nakack *n = (struct nakack *)layer;
  const struct stream *s;
  size_t at = 0;
  *out = 0;
  neap_each_peer (layer, s) {
    char text[NEAP_ADDR_TEXT];
    if (!s->known) continue;
    const char *name = neap_peer_text(s->peer, text);
    if (argument && *argument && strcmp(argument, name)) continue;
    if (at + LINE + sizeof MORE > NEAP_OP_TEXT) {
      memcpy(out + at, MORE, sizeof MORE);
      break;
    }
    at += show_stream(n, s, name, out + at);
  }
  return 0;
}

/* A member that has not all of our stream, and since when it has not moved.  Where nobody is asked
 * for reports only what all have is known. */
static void laggard(const struct nakack *n, struct neap_event *event, const struct stream *s)
{
  bool own = s == n->own;
  uint64_t position = own ? s->run->applied : s->have;
  if (!nakack_after(event->number, position)) return;
  uint64_t since = nakack_most(s->have_at, n->owing_at);
  neap_found_add(event->found, (struct neap_found_row){.peer = neap_peer_ref(s->peer),
                                 .bits = own || nakack_wants_report(n),
                                 .number = position,
                                 .time = neap_now(&n->layer) - since});
}

void nakack_held_back(const struct nakack *n, struct neap_event *event)
{
  const struct neap_view *view = n->layer.view;
  event->number = n->own->win.high;
  event->found = neap_found_new(view ? view->count : 0);
  for (uint32_t i = 0; view && i < view->count; i++) {
    const struct stream *s = neap_peer_state_have(&n->layer, view->members[i]);
    if (s && s->known) laggard(n, event, s);
  }
}

/* ---- beliefs ---- */

/* Walking large windows each turn would take longer than everything else: now and then. */
enum { SMALL = 64, OFTEN = 64 };

static void check_window(const struct nakack *n, const struct neap_window *w)
{
  if (w->high - w->low <= SMALL || n->layer.stack->turns % OFTEN == 0) neap_window_check(w);
}

static void check_foreign(const struct nakack *n, const struct stream *s)
{
  bool told = !s->run->mover.queued; /* By then we have heard how far it is applied. */
  NEAP_ASSERT(!neap_window_get(&s->win, s->win.hd + 1));
  NEAP_ASSERT(n->xmit_from_random_member || s->win.low == s->win.hd);
  NEAP_ASSERT(s->win.low == s->win.hd ? !s->kept : s->kept <= s->win.bytes);
  NEAP_ASSERT(!nakack_after(s->run->applied, s->win.hd));
  NEAP_ASSERT(!nakack_after(s->win.high, s->told) || !s->win.waiting);
  /* What is missing is watched. */
  NEAP_ASSERT(!nakack_lacks(s) || s->stopped || s->full || !n->xmit_interval || s->gap.armed ||
              s->again.armed);
  NEAP_ASSERT(!s->full || n->room.armed);
  /* What is to be said will be said. */
  NEAP_ASSERT(!s->asked_report || s->report.armed);
  NEAP_ASSERT(!told || s->mode != NAKACK_ACK || s->report.armed ||
              !nakack_after(nakack_position(n, s), s->reported));
  NEAP_ASSERT(!told || !s->report_at || nakack_after(s->report_at, nakack_position(n, s)));
}

static void check_own(const struct nakack *n)
{
  const struct neap_window *w = &n->own->win;
  NEAP_ASSERT(w->hd == w->high && w->stored == w->high - w->low && w->stored == n->window_stored);
  NEAP_ASSERT(!nakack_after(w->low, n->own->run->applied) || n->own->run->mover.closed);
  NEAP_ASSERT(n->current_seqno == w->high && n->current_low == w->low);
  NEAP_ASSERT(!n->turn || nakack_after(n->turn, n->others));
  NEAP_ASSERT(!n->waited || n->mode_timer.armed || !n->mode_timeout);
  /* Where the sender finds a loss at the tail it looks for it. */
  NEAP_ASSERT(!nakack_wants_report(n) || !nakack_tail_due(n) || n->tail.armed);
}

void nakack_check(const struct neap_layer *layer)
{
  const struct nakack *n = (const struct nakack *)layer;
  const struct stream *s;
  uint64_t waiting = 0, copies = 0;
  neap_each_peer (layer, s) {
    if (!s->known) {
      NEAP_ASSERT(!s->member);
      continue;
    }
    check_window(n, &s->win);
    if (s == n->own) continue;
    check_foreign(n, s);
    waiting += s->win.waiting;
    copies += s->win.hd - s->win.low;
  }
  check_own(n);
  NEAP_ASSERT(waiting == n->waiting && copies == n->copies);
  NEAP_ASSERT(n->early_count == n->early.count && (!layer->view || !n->early.count));
}
