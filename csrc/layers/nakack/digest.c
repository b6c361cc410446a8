/* digest: how far every stream is, said and set; and holds on what was said.
 *
 *     GET        applied, received and (epoch, mode) of each member
 *     SET        a window where there is none
 *     MERGE      also: a foreign window that is lower starts again there
 *     OVERWRITE  every window starts again there; of the own stream what lies above rises again
 *
 * Whoever hands out a digest holds what it reports, and the purge of its own stream, at or below
 * it until the hold is released: somebody may begin there. Several holds: the lowest counts.  A
 * hold without a digest stands where the streams are now, until its digest follows. */

#include "layers/nakack/nakack.h"

static void add_row(const struct nakack *n, struct neap_digest *digest, struct neap_peer *peer)
{
  const struct stream *s = neap_peer_state_have(&n->layer, peer);
  if (!s || !s->known) return;
  bool own = s == n->own;
  neap_digest_add(digest, (struct neap_digest_row){
                            .peer = neap_peer_ref(peer),
                            .delivered = s->run->applied,
                            .received = s->win.high,
                            .epoch = own ? n->epoch : s->epoch,
                            .mode = own ? n->mode : s->mode,
                          });
}

/* Of the view, in its order; before the first one of all there are; or of one member. */
struct neap_digest *nakack_digest(struct nakack *n, struct neap_peer *one)
{
  const struct neap_view *view = n->layer.view;
  uint32_t count = 1;
  struct stream *s;
  neap_each_peer (&n->layer, s) count += s->known;
  struct neap_digest *digest = neap_digest_new(count);
  if (one) {
    add_row(n, digest, one);
  } else if (view) {
    for (uint32_t i = 0; i < view->count; i++) add_row(n, digest, view->members[i]);
  } else {
    neap_each_peer (&n->layer, s)
      if (s->known) add_row(n, digest, s->peer);
  }
  return digest;
}

/* ---- setting ---- */

static void restart(struct nakack *n, struct stream *s, uint64_t at)
{
  struct neap_peer *peer = s->peer;
  bool member = s->member, heard = s->heard;
  uint64_t have = s->have;
  nakack_forget(n, s);
  s = nakack_start(n, peer, at);
  s->member = member;
  s->heard = heard;
  s->have = have;
}

/* The own stream is taken up again after `at`: what is still kept rises a second time. */
static void rewind_own(struct nakack *n, uint64_t at)
{
  struct stream *s = n->own;
  struct neap_batch again = {0};
  if (!nakack_after(at, s->win.low)) at = s->win.low;
  if (!nakack_after(s->win.high, at)) return;
  neap_receipts_close(s->run);
  s->run = neap_receipts_new(&n->layer, s->peer, at);
  for (uint64_t seqno = at + 1; !nakack_after(seqno, s->win.high); seqno++) {
    struct neap_msg *m = neap_window_get(&s->win, seqno);
    if (m->marks & (NEAP_OWN | NEAP_NO_LOOPBACK)) {
      neap_receipt_done(s->run, seqno);
      continue;
    }
    struct neap_msg *copy = neap_msg_clone(m);
    copy->marks |= NEAP_REPLAYED;
    neap_receipt_give(s->run, copy, seqno);
    neap_put(&again, copy);
  }
  neap_pass_up(&n->layer, &again);
}

static void set_row(struct nakack *n, const struct neap_digest_row *row, unsigned kind)
{
  struct stream *s = neap_peer_state(&n->layer, row->peer);
  if (s == n->own) {
    if (kind == NEAP_EVENT_DIGEST_OVERWRITE) rewind_own(n, row->delivered);
    return;
  }
  if (!s->known)
    nakack_start(n, row->peer, row->delivered);
  else if (kind == NEAP_EVENT_DIGEST_OVERWRITE ||
           (kind == NEAP_EVENT_DIGEST_MERGE && nakack_after(row->delivered, s->win.hd)))
    restart(n, s, row->delivered);
  if ((int32_t)(row->epoch - s->epoch) > 0) {
    s->epoch = row->epoch;
    s->mode = row->mode;
    nakack_applied(n, s);
  }
  s->stopped = false;
  nakack_notice(n, s, row->received, false);
}

void nakack_digest_set(struct nakack *n, const struct neap_digest *digest, unsigned kind)
{
  for (uint32_t i = 0; i < digest->count; i++) set_row(n, &digest->rows[i], kind);
}

/* ---- holds ---- */

uint64_t nakack_cap(const struct nakack *n, const struct neap_peer *peer)
{
  uint64_t cap = UINT64_MAX;
  for (unsigned i = 0; i < NAKACK_HOLDS; i++) {
    if (!n->holds[i].digest) continue;
    const struct neap_digest_row *row = neap_digest_find(n->holds[i].digest, peer);
    if (row && row->delivered < cap) cap = row->delivered;
  }
  return NEAP_IS_MUTANT(306) ? UINT64_MAX : cap;
}

/* Holds came or went: what may be said is another now. */
static void recap(struct nakack *n)
{
  struct stream *s;
  n->holds_count = 0;
  for (unsigned i = 0; i < NAKACK_HOLDS; i++) n->holds_count += n->holds[i].digest != NULL;
  neap_each_peer (&n->layer, s) {
    if (!s->known) continue;
    s->cap = nakack_cap(n, s->peer);
    nakack_applied(n, s);
  }
}

/* Takes over the digest.  When all places are taken the newest hold stands for two: it keeps the
 * lower digest and ends with the later of their releases. */
void nakack_hold(struct nakack *n, uint64_t number, struct neap_digest *digest)
{
  struct hold *place = NULL;
  for (unsigned i = 0; i < NAKACK_HOLDS; i++) {
    struct hold *h = &n->holds[i];
    if (h->digest && h->number == number) {
      neap_digest_unref(h->digest);
      h->digest = NULL;
    }
    if (!h->digest && !place) place = h;
  }
  if (place) {
    *place = (struct hold){number, digest};
  } else {
    n->holds[NAKACK_HOLDS - 1].number = number;
    neap_digest_unref(digest);
  }
  recap(n);
}

void nakack_release(struct nakack *n, uint64_t number)
{
  for (unsigned i = 0; i < NAKACK_HOLDS; i++) {
    struct hold *h = &n->holds[i];
    if (!h->digest || h->number != number) continue;
    neap_digest_unref(h->digest);
    *h = (struct hold){0};
  }
  recap(n);
}
