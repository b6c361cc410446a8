/* resend: whoever asks for what we sent gets it, once per hold-off.
 *
 *     within a hold-off of one seqno:   1st and 2nd member who ask   a copy each, at once
 *                                       3rd                          a multicast, for everybody
 *                                       from then on, or again       nothing
 *
 * A request that everybody heard is answered to everybody.  The hold-off is a round trip, 1 ms at
 * least: whoever asks again sooner has an answer on the way.  A message goes out in the form it
 * first had.  What was purged is answered by PURGED(low) to Neap's members, and not at all to
 * others, who would not understand it.
 *
 * Where members keep copies (xmit_from_random_member) a request may come to one that is not the
 * sender; it answers in the sender's name as far as it can, and is silent about the rest. */

#include "layers/nakack/nakack.h"

#define HOLD_OFF_LEAST NEAP_MS(1)
/* Streams of others share the table: a prime, so that equal seqnos stand apart. */
enum { STREAMS_APART = 97 };

/* ---- hold-off ---- */

enum verdict { NOBODY, ASKER, EVERYBODY };

/* Who asks; `heard`: by everybody. */
struct asker {
  struct neap_peer *peer;
  bool heard;
};

/* Who gets it this time. */
static enum verdict judge(
  struct nakack *n, const struct stream *of, uint64_t seqno, struct asker asker)
{
  uint32_t stream = of->peer->slot + 1;
  struct answer *a = &n->recent[(seqno + (uint64_t)STREAMS_APART * stream) % NAKACK_RECENT];
  const struct stream *s = neap_peer_state_have(&n->layer, asker.peer);
  uint64_t now = neap_now(&n->layer);
  uint64_t hold_off = nakack_most(s ? s->rtt : 0, HOLD_OFF_LEAST);
  uint32_t slot = asker.peer->slot + 1;
  bool all = asker.heard && n->use_mcast_xmit;

  if (a->seqno != seqno || a->stream != stream || now - a->at >= hold_off) {
    *a = (struct answer){.seqno = seqno, .at = now, .stream = stream, .first = slot, .all = all};
    return all ? EVERYBODY : ASKER;
  }
  if (a->all || a->first == slot || a->second == slot) return NOBODY;
  if (!all && (!a->second || !n->use_mcast_xmit)) {
    a->second = slot;
    return ASKER;
  }
  a->all = true;
  return EVERYBODY;
}

/* ---- answers ---- */

static void send_to(struct nakack *n, struct neap_msg *m, struct neap_peer *asker)
{
  struct neap_msg *copy = neap_msg_clone(m);
  uint8_t form = neap_nak_head_form(m, &n->layer);
  neap_nak_head_put_form(copy, &n->layer, form)->type = NEAP_NAK_XMIT_RSP;
  neap_msg_to(copy, asker);
  copy->marks |= NEAP_SENT;
  n->rsps_sent++;
  neap_pass_down_msg(&n->layer, copy);
}

static void send_to_all(struct nakack *n, struct neap_msg *m)
{
  bool own = m->from->self;
  struct neap_msg *again = own ? neap_msg_again(m) : neap_msg_clone(m);
  if (!own) /* Here it may have risen before its turn. */
    neap_nak_head_put_form(again, &n->layer, neap_nak_head_form(m, &n->layer))->type = NEAP_NAK_MSG;
  again->marks |= NEAP_SENT;
  n->rsps_sent++;
  n->rsps_mcast++;
  neap_pass_down_msg(&n->layer, again);
}

static void purged(struct nakack *n, struct neap_peer *asker)
{
  if (!asker->generation) return;
  struct neap_msg *m = neap_msg_own(&n->layer, asker, NEAP_OOB | NEAP_NO_FC);
  *neap_nak_own_head_put(m, &n->layer) = (struct neap_nak_own_head){
    .type = NEAP_NAK_PURGED, .sender = neap_self(&n->layer)->addr, .low = n->own->win.low};
  n->purged_sent++;
  neap_pass_down_msg(&n->layer, m);
}

/* One message that is asked for; returns the bytes that went out for it. */
static uint64_t resend(struct nakack *n, struct stream *of, uint64_t seqno, struct asker asker)
{
  struct neap_msg *m = neap_window_get(&of->win, seqno);
  switch (judge(n, of, seqno, asker)) {
  case NOBODY:
    n->spared++;
    return 0;
  case ASKER:
    send_to(n, m, asker.peer);
    break;
  case EVERYBODY:
    send_to_all(n, m);
    break;
  }
  if (of != n->own) n->rsps_others++;
  return m->len + 1u;
}

/* What can be sent again as it was: with a header that was not understood here it cannot. */
static bool has(const struct stream *of, uint64_t seqno)
{
  const struct neap_msg *m = neap_window_get(&of->win, seqno);
  return m && !(m->marks & NEAP_STRAY);
}

/* A share of what may be on its way at most: what is left out is asked for again, when this has
 * arrived.  Where a copy lacks, others are asked next, and the sender at last, who says what is
 * gone. */
static void answer(struct nakack *n, struct stream *of, struct neap_seqnos *it, struct asker asker)
{
  uint64_t budget = n->pace_bound / 8, spent = 0, seqno;
  bool own = of == n->own, gone = false, unknown = false;
  while (spent <= budget && neap_seqnos_next(it, &seqno)) {
    if (has(of, seqno))
      spent += resend(n, of, seqno, asker);
    else if (own && !nakack_after(seqno, of->win.low))
      gone = true;
    else
      unknown = true;
  }
  if (gone) purged(n, asker.peer);
  n->not_found += unknown;
}

void nakack_requested(struct nakack *n, struct neap_msg *m, const struct neap_nak_head *head)
{
  struct neap_peer *sender = neap_peer_find(n->layer.stack, &head->sender);
  struct stream *of = sender ? neap_peer_state_have(&n->layer, sender) : NULL;
  struct asker asker = {m->from, !m->to};
  struct neap_seqnos it;
  if (!of || !of->known || m->from->self) return;
  if (!neap_seqnos_of(&it, m) || !it.bits) {
    n->malformed++;
  } else if (of == n->own || (!asker.heard && n->xmit_from_random_member)) {
    n->reqs_received++;
    answer(n, of, &it, asker);
  } else if (asker.heard) {
    nakack_overheard(n, of, it.first, it.first + it.bits - 1);
  }
}
