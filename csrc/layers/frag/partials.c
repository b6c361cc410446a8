/* partials: messages of which not everything has come.
 *
 * A member that left the view may be heard again: it was silent for long and goes on under its old
 * address until it is told, or a merge brings it back.  Its unicast connections go on where they
 * were, in the middle of a message perhaps, so what came of that is kept for partial_timeout.  Its
 * multicasts end with the view.
 *
 * Invariant: a peer is held exactly while it has partials. */

#include "layers/frag/frag.h"

enum { TO_ALL = 1, OOB = 2, LOOSE = 4 }; /* kinds */

void frag_pieces_free(struct frag *f, struct partial *t)
{
  struct neap_msg *m;
  f->partial_bytes -= t->bytes;
  t->bytes = 0;
  while ((m = t->last)) {
    t->last = m->next;
    m->next = NULL;
    neap_msg_free(m);
  }
}

void frag_partial_free(struct frag *f, struct partial *t)
{
  struct peer *p = t->peer;
  struct partial **at = &p->first;
  while (*at != t) at = &(*at)->next;
  *at = t->next;
  if (!t->risen) f->partials--;
  frag_pieces_free(f, t);
  if (t->head) neap_msg_free(t->head);
  neap_link_remove(&t->age);
  *t = (struct partial){0};
  neap_link_before(&f->spare, &t->age);
  if (p->first) return;
  p->left = 0;
  neap_peer_release(&f->layer, p->who);
}

void frag_abandon(struct frag *f, struct partial *t)
{
  if (!t->risen) f->abandoned++;
  frag_partial_free(f, t);
}

static uint8_t kind_of(const struct neap_msg *m)
{
  unsigned kind = m->to ? 0 : TO_ALL;
  if (neap_oob(m)) kind |= OOB;
  if (m->flags & NEAP_NO_RELIABILITY) kind |= LOOSE;
  return (uint8_t)kind;
}

/* A Neap member sends one message after the other: an older one of the stream never goes on. */
void frag_pass_over(struct frag *f, struct partial *begun, const struct neap_msg *m)
{
  if (neap_oob(m) || !m->from->generation) return;
  for (struct partial *t = begun->peer->first, *next; t; t = next) {
    next = t->next;
    if (t->kind == begun->kind && (int64_t)(begun->id - t->id) > 0) frag_abandon(f, t);
  }
}

static void depart(struct frag *f, struct peer *p)
{
  if (!p->left) p->left = neap_now(&f->layer);
  neap_timer_sooner(&f->layer, &f->departed, f->partial_timeout);
}

/* A free place, if need be that of the oldest; those never used are not even touched. */
static struct partial *place(struct frag *f)
{
  if (neap_link_alone(&f->spare) && f->begun < f->max_partials) return &f->room[f->begun++];
  if (neap_link_alone(&f->spare)) frag_abandon(f, NEAP_HOLDER(f->ages.next, struct partial, age));
  struct partial *t = NEAP_HOLDER(f->spare.next, struct partial, age);
  neap_link_remove(&t->age);
  return t;
}

/* The message that this piece belongs to, made if need be; NULL when they do not agree. */
struct partial *frag_partial_of(
  struct frag *f, const struct neap_msg *m, const struct neap_frag_head *head)
{
  struct peer *p = neap_peer_state(&f->layer, m->from);
  if (!head->count || head->count > FRAG_PIECES_MAX || head->index >= head->count) return NULL;
  for (struct partial *t = p->first; t; t = t->next)
    if (t->id == head->id && t->kind == kind_of(m)) return t->count == head->count ? t : NULL;

  struct partial *t = place(f);
  neap_link_before(&f->ages, &t->age);
  t->peer = p;
  t->id = head->id;
  t->count = head->count;
  t->kind = kind_of(m);
  t->next = p->first;
  if (!p->first) {
    p->who = m->from;
    neap_peer_hold(&f->layer, p->who);
    if (!neap_in_view(f->layer.view, p->who)) depart(f, p); /* Or it is about to come in. */
  }
  p->first = t;
  f->partials++;
  return t;
}

/* ---- those that left ---- */

/* Was its stream set back, so that its pieces come again?  Of others nothing else will come. */
static bool comes_again(const struct partial *t)
{
  if (!(t->kind & TO_ALL)) return false;
  return !t->last || !t->last->receipts || t->last->receipts->mover.closed;
}

static void abandon_kinds(struct frag *f, struct peer *p, bool all)
{
  for (struct partial *t = p->first, *next; t; t = next) {
    next = t->next;
    if (all || t->kind & TO_ALL) frag_abandon(f, t);
  }
}

void frag_view(struct frag *f)
{
  struct peer *p;
  neap_each_peer (&f->layer, p) {
    if (!p->first || neap_in_view(f->layer.view, p->who)) {
      p->left = 0;
      continue;
    }
    abandon_kinds(f, p, !f->partial_timeout);
    if (p->first) depart(f, p);
  }
}

void frag_begun(struct frag *f, struct neap_peer *peer)
{
  struct peer *p = neap_peer_state_have(&f->layer, peer);
  for (struct partial *t = p ? p->first : NULL, *next; t; t = next) {
    next = t->next;
    if (!(t->kind & TO_ALL)) frag_abandon(f, t);
  }
}

void frag_rewound(struct frag *f)
{
  struct peer *p;
  neap_each_peer (&f->layer, p)
    for (struct partial *t = p->first, *next; t; t = next) {
      next = t->next;
      if (comes_again(t)) frag_abandon(f, t);
    }
}

void frag_departed(struct neap_layer *layer, struct neap_timer *timer)
{
  struct frag *f = (struct frag *)layer;
  struct peer *p;
  neap_each_peer (layer, p) {
    if (!p->left) continue;
    uint64_t age = neap_now(layer) - p->left;
    if (age >= f->partial_timeout)
      abandon_kinds(f, p, true);
    else
      neap_timer_sooner(layer, timer, f->partial_timeout - age);
  }
}
