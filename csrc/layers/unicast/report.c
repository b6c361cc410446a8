/* Reports: what is *applied*, because the application is done with it.
 *
 *     ack mode    after a share of the window, or ack_delay after the first that was not reported
 *     nak mode    after a larger share, or stable_interval after it, and what was heard of as well
 *
 * At once when a toggle is applied, soon when something comes that was reported: the report may be
 * lost. */

#include "layers/unicast/unicast.h"

/* Shares of the window: an eighth is what a sender can wait for, a quarter what it can keep. */
enum { SHARE_ACK = 8, SHARE_NAK = 4 };

static void report(struct unicast *u, struct peer *p)
{
  struct in *in = &p->in;
  uint64_t done = NEAP_IS_MUTANT(403) ? in->window.hd : in->run->applied;
  in->reported = in->run->applied;
  if (!neap_after(in->report_at, in->reported)) in->report_at = 0;
  in->risen = 0;
  u->acks_sent++;
  neap_timer_stop(&in->report);
  if (in->mode == NEAP_UNI_ACK_MODE) {
    struct neap_uni_head head = {
      .type = NEAP_UNI_ACK, .seqno = done, .conn = (int16_t)in->conn, .stamp = ++u->stamp};
    neap_pass_down_msg(&u->layer, neap_unicast_own(u, p, head, NEAP_NO_FC));
    return;
  }
  struct neap_msg *m = neap_msg_own(&u->layer, p->peer, NEAP_NO_FC);
  *neap_uni_own_head_put(m, &u->layer) = (struct neap_uni_own_head){.type = NEAP_UNI_STABLE,
    .conn = (int16_t)in->conn,
    .base = (int16_t)in->base,
    .epoch = in->epoch,
    .mode = in->mode,
    .stamp = ++u->stamp,
    .low = done,
    .high = in->heard};
  neap_pass_down_msg(&u->layer, m);
}

void neap_unicast_report_due(struct neap_layer *layer, struct neap_timer *timer)
{
  report((struct unicast *)layer, NEAP_HOLDER(timer, struct peer, in.report));
}

/* So much is worth a report of its own. */
static bool share(const struct unicast *u, const struct in *in)
{
  uint64_t count = in->run->applied - in->reported;
  if (in->mode == NEAP_UNI_ACK_MODE)
    return count >= u->ack_threshold || in->risen >= u->bound_bytes / SHARE_ACK;
  return count >= u->window_messages / SHARE_NAK || in->risen >= u->bound_bytes / SHARE_NAK;
}

void neap_unicast_applied(struct unicast *u, struct peer *p)
{
  struct in *in = &p->in;
  uint64_t delay = in->mode == NEAP_UNI_ACK_MODE ? u->ack_delay : u->stable_interval;
  bool turn = in->report_at && !neap_after(in->report_at, in->run->applied);
  if (in->run->applied != in->reported) {
    if (turn || share(u, in))
      report(u, p);
    else
      neap_arm(&u->layer, &in->report, delay);
  }
  if (in->closing) neap_unicast_forget(u, p);
}
