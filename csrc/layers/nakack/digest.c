/* digest: how far every stream is, said and set; and holds on what was said.
 *
 *     GET        applied, received and (epoch, mode) of each member; never less than said before
 *     SET        a window where there is none
 *     MERGE      also: a foreign window that is lower starts again there
 *     OVERWRITE  every window starts again there; of the own stream what lies above rises again
 *
 * An OVERWRITE may announce a state that is still to come:
 *
 *            d         applied  hd               applied beyond the digest: rises again from d on,
 *        ----|============|=====|----            so that it can be applied on top of the state
 *        ----------|======|==d==|----            not beyond: goes on; who waits above leaves out
 *                                                what is below d
 *
 * Until the state is there, or will not come, whatever has risen counts as stored and is reported
 * as such: it waits above.  Once each stream has risen as far as had been reported before, that is
 * said; no sooner may the state count as taken, for senders may have freed what was reported.
 *
 * Whoever hands out a digest holds what it reports, and the purge of its own stream, at or below
 * it until the hold is released: somebody may begin there. Several holds: the lowest counts.  A
 * hold without a digest stands where the streams are now, until its digest follows. */

#include "layers/nakack/nakack.h"

/* What was reported once is true for good, whatever is applied again since: a digest with less
 * would promise what senders may have freed. */
static void add_row(struct nakack *n, struct neap_digest *digest, struct neap_peer *peer)
{
  struct stream *s = neap_peer_state_have(&n->layer, peer);
  if (!s || !s->known) return;
  bool own = s == n->own;
  s->said = nakack_most(s->said, nakack_reached(n, s));
  neap_digest_add(digest, (struct neap_digest_row){
                            .peer = peer,
                            .delivered = s->said,
                            .received = nakack_most(s->said, s->win.high),
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

/* May this member give its state away?  Not while it lacks what it once reported. */
bool nakack_whole(const struct nakack *n)
{
  const struct stream *s;
  if (n->awaits) return false;
  neap_each_peer (&n->layer, s)
    if (s->known && nakack_after(s->said, s->run->applied)) return false;
  return true;
}

/* ---- setting ---- */

/* What it says about our stream, what was said of it and its mode stay true. */
static struct stream *restart(struct nakack *n, struct stream *s, uint64_t at)
{
  struct neap_peer *peer = s->peer;
  struct stream old = *s;
  nakack_forget(n, s);
  s = nakack_start(n, peer, at);
  s->member = old.member;
  s->heard = old.heard;
  s->have = old.have;
  s->have_at = old.have_at;
  s->got = old.got;
  s->window = old.window;
  s->mute = old.mute;
  s->said = nakack_most(s->said, old.said);
  s->epoch = old.epoch;
  s->mode = old.mode;
  return s;
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

/* A state follows: what rose beyond its digest has to be applied again, for it is applied before
 * the state is set, if it is not yet. */
static void rewind(struct nakack *n, struct stream *s, const struct neap_digest_row *row)
{
  uint64_t risen = s->win.hd;
  if (!nakack_after(risen, row->delivered)) return;
  s->said = nakack_most(s->said, nakack_position(n, s));
  if (s == n->own)
    rewind_own(n, row->delivered);
  else
    restart(n, s, row->delivered)->back_at = risen;
}

static void set_row(struct nakack *n, const struct neap_digest_row *row, unsigned kind, bool state)
{
  struct stream *s = neap_peer_state(&n->layer, row->peer);
  bool overwrite = kind == NEAP_EVENT_DIGEST_OVERWRITE;
  if (s == n->own) {
    if (overwrite && state)
      rewind(n, s, row);
    else if (overwrite)
      rewind_own(n, row->delivered);
    return;
  }
  if (!s->known)
    nakack_start(n, row->peer, row->delivered);
  else if (overwrite && state)
    rewind(n, s, row);
  else if (overwrite ||
           (kind == NEAP_EVENT_DIGEST_MERGE && nakack_after(row->delivered, s->win.hd)))
    restart(n, s, row->delivered);
  if ((int32_t)(row->epoch - s->epoch) > 0) {
    s->epoch = row->epoch;
    s->mode = row->mode;
    nakack_applied(n, s);
  }
  s->stopped = false;
  nakack_notice(n, s, nakack_most(row->received, s->win.hd), false);
}

void nakack_digest_set(struct nakack *n, const struct neap_event *event)
{
  const struct neap_digest *digest = event->digest;
  bool state = event->kind == NEAP_EVENT_DIGEST_OVERWRITE && event->flag;
  if (state) neap_event_up(&n->layer, &(struct neap_event){.kind = NEAP_EVENT_REWOUND});
  for (uint32_t i = 0; i < digest->count; i++) set_row(n, &digest->rows[i], event->kind, state);
  if (!state) return;
  n->awaits = true;
  n->caught = false;
  struct stream *s;
  neap_each_peer (&n->layer, s)
    if (s->known) nakack_applied(n, s); /* What has risen may be reported now. */
  nakack_catch(n);
}

/* ---- a state that is awaited ---- */

void nakack_catch(struct nakack *n)
{
  struct stream *s;
  if (!n->awaits || n->caught) return;
  neap_each_peer (&n->layer, s)
    if (s->known && s->back_at && nakack_after(nakack_most(s->back_at, s->said), s->win.hd)) return;
  n->caught = true;
  neap_event_up(&n->layer, &(struct neap_event){.kind = NEAP_EVENT_DIGEST_STORED});
}

/* Something rose while a state is awaited: it is reported as stored. */
void nakack_risen(struct nakack *n)
{
  struct stream *s;
  neap_each_peer (&n->layer, s)
    if (s->known && s != n->own) nakack_applied(n, s);
  nakack_catch(n);
}

/* Aborted, a stream goes on at least where it had been applied: what rose again below that is of
 * no use, and what did not rise may be gone at its sender. */
void nakack_await_over(struct nakack *n, bool aborted)
{
  struct stream *s;
  if (!n->awaits) return;
  n->awaits = false;
  neap_each_peer (&n->layer, s) {
    if (!s->known || s == n->own) continue;
    uint64_t told = s->told, back_at = s->back_at;
    s->back_at = 0;
    if (aborted && back_at && nakack_after(back_at, s->win.hd)) s = restart(n, s, back_at);
    s->stopped = false;
    nakack_notice(n, s, nakack_most(told, s->win.hd), false);
    nakack_applied(n, s);
  }
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
