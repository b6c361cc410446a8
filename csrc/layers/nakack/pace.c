/* pace: no more is on its way than the smallest receive buffer takes, however much is kept.
 *
 *                 paced              now = charges of all that has come by here
 *     --- mark ---- mark ---- mark ----|      horizon = paced + pace
 *              all have        |
 *              received it     asked for by an announcement, not answered by all
 *
 * A member that waits for a lost message has what came behind it: that has left its receive buffer,
 * so the sender may go on, within what it may keep.  Paced by what was reported instead, a stream
 * of which each receiver loses a little would stand still for each repair; with more on its way,
 * every repair would queue behind it.
 *
 * Each announcement is a mark in the stream.  Reports say the highest seqno that was received; once
 * all members have received a mark, what was sent up to it is no longer on its way.  Members that
 * are not Neap's do not say so: with one of them in the view the window is as small as the buffer.
 *
 * Invariant: marks rise; paced never passes what has come by here. */

#include "layers/nakack/nakack.h"

/* Bytes of headers of a message, about, on the wire; of messages of unknown size one in so many. */
enum { HEADS = 80, FEW = 256 };

static uint64_t now_at(const struct nakack *n)
{
  return n->freed.bytes + n->window_used;
}

static bool paces(const struct nakack *n)
{
  return n->all_ours && n->others != UINT64_MAX;
}

uint64_t nakack_flight(const struct nakack *n)
{
  return paces(n) ? nakack_least(now_at(n) - n->paced, n->window_used) : 0;
}

static uint64_t messages_in_flight(const struct nakack *n)
{
  return paces(n) ? nakack_least(n->sent - n->paced_sent, n->window_stored) : 0;
}

/* 0: not known.  What is there already says nothing about what comes next: a large message behind
 * many small ones would wait for room that they alone could never leave. */
static uint64_t mean_len(const struct nakack *n)
{
  if (!nakack_flight(n) && !messages_in_flight(n)) return 0;
  return n->window_stored ? n->window_used / n->window_stored : n->mean_len;
}

/* The gate counts bodies; a buffer is filled by heads as well, which outweigh small ones.  As long
 * as it is not known how large they are, there may not be many. */
struct neap_gate_position nakack_pace_horizon(struct nakack *n)
{
  struct neap_gate_position free = {UINT64_MAX, UINT64_MAX};
  uint64_t mean = mean_len(n), room = n->pace_most;
  n->pace_room = free;
  n->mean_len = mean;
  if (!paces(n)) return free;
  if (!mean)
    n->pace_room = (struct neap_gate_position){room, nakack_most(room / FEW, 1)};
  else
    n->pace_room.bytes = nakack_most(room / (mean + HEADS) * mean, mean);
  free.bytes = now_at(n) - nakack_flight(n) + n->pace_room.bytes;
  if (!mean)
    free.messages =
      n->freed.messages + n->window_stored - messages_in_flight(n) + n->pace_room.messages;
  return free;
}

bool nakack_pace_moved(const struct nakack *n)
{
  uint64_t mean = mean_len(n), known = n->mean_len;
  return mean > known + known / 4 || mean + known / 4 < known;
}

bool nakack_pace_pressed(const struct nakack *n)
{
  return nakack_flight(n) > nakack_least(n->pace_bound, n->pace_room.bytes) / 4 ||
         messages_in_flight(n) > n->pace_room.messages / 4;
}

void nakack_mark(struct nakack *n)
{
  uint64_t high = n->own->win.high;
  struct mark *last = &n->marks[(n->mark_first + n->mark_count - 1) % NAKACK_MARKS];
  if (n->mark_count && (last->seqno == high || n->mark_count == NAKACK_MARKS)) n->mark_count--;
  n->marks[(n->mark_first + n->mark_count++) % NAKACK_MARKS] =
    (struct mark){high, now_at(n), n->sent};
}

static uint64_t received_by_all(const struct nakack *n)
{
  const struct neap_view *view = n->layer.view;
  uint64_t got = UINT64_MAX;
  for (uint32_t i = 0; view && i < view->count; i++) {
    const struct stream *s = neap_peer_state_have(&n->layer, view->members[i]);
    if (s != n->own)
      got = nakack_least(got, NEAP_IS_MUTANT(321) ? s->have : nakack_most(s->got, s->have));
  }
  return got;
}

void nakack_pace(struct nakack *n)
{
  uint64_t got = received_by_all(n), before = n->paced_sent;
  while (n->mark_count && !nakack_after(n->marks[n->mark_first].seqno, got)) {
    n->paced = n->marks[n->mark_first].at;
    n->paced_sent = n->marks[n->mark_first].sent;
    n->mark_first = (n->mark_first + 1) % NAKACK_MARKS;
    n->mark_count--;
  }
  if (!nakack_after(n->own->win.high, got)) {
    n->paced = now_at(n);
    n->paced_sent = n->sent;
  }
  if (n->paced_sent != before) nakack_publish(n);
}

void nakack_got(struct nakack *n, struct stream *s, uint64_t seqno)
{
  if (nakack_after(seqno, n->own->win.high)) {
    n->malformed++;
    return;
  }
  if (nakack_after(seqno, s->got)) s->got = seqno;
}
