/* mfc: a multicast waits until every member has room for it.
 *
 * Each member starts with max_credits bytes of everybody's multicasts; the slowest one bounds the
 * sender.  How credits are spent, given back and healed is said in flow/flow.h, which ufc shares.
 *
 *     spent 3.1 MB    bob's limit 4 MB    cho's limit 6.4 MB     the gate has room for 0.9 MB
 *
 * Own multicasts take no credit: nakack's window already waits for their sender itself.
 *
 * Wire format: JGroups' MFC.  Deviations: bytes count as given back when the application is done
 * with them, not when they were handed up; a request is not granted for what still waits here.
 *
 * Invariant: the limit at the gate is the lowest of all members'. */

#include "layers/flow/flow.h"

static const struct neap_header mfc_headers[] = {
  NEAP_HEADER_ROW("mfc", NEAP_P_MFC, 59, neap_fc_head, "credits, given or asked for"),
  {0},
};

static int mfc_open(struct neap_layer *layer, struct neap_trail *trail)
{
  ((struct neap_flow *)layer)->multicast = true;
  return neap_flow_open(layer, trail);
}

const struct neap_class neap_mfc = {
  .name = "mfc",
  .doc = "A multicast waits until every member has room for it.",
  .needs = "mcast_reliable ucast_reliable view",
  .gives = "flow",
  .size = sizeof(struct neap_flow),
  .peer_size = sizeof(struct neap_credit),
  .peer_gone = neap_flow_peer_gone,
  .headers = mfc_headers,
  .attrs = neap_flow_attrs,
  .ops = neap_flow_ops,
  .open = mfc_open,
  .down = neap_flow_down,
  .up = neap_flow_up,
  .unseen = NEAP_UNSEEN_RISING_ONE | NEAP_UNSEEN_FALLING_ONE,
  .event = neap_flow_event,
  .changed = neap_flow_changed,
  .close = neap_flow_close,
  .check = neap_flow_check,
};
