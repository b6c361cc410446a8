/* ufc: a message to one member waits until that member has room for it.
 *
 * Each pair of members has max_credits bytes per direction, so a slow receiver holds back only who
 * sends to it.  How credits are spent, given back and healed is said in flow/flow.h, which mfc
 * shares.
 *
 *     to bob: 0.2 MB left, he is busy        to cho: 3.9 MB left
 *
 * Messages to oneself are free.
 *
 * Wire format: JGroups' UFC; deviations as in mfc.
 *
 * Invariant: a peer's limit is never more than max_credits beyond what was sent to it. */

#include "layers/flow/flow.h"

static const struct neap_header ufc_headers[] = {
  NEAP_HEADER_ROW("ufc", NEAP_P_UFC, 59, neap_fc_head, "credits, given or asked for"),
  {0},
};

const struct neap_class neap_ufc = {
  .name = "ufc",
  .doc = "A message to one member waits until that member has room for it.",
  .needs = "ucast_reliable view",
  .gives = "flow",
  .size = sizeof(struct neap_flow),
  .peer_size = sizeof(struct neap_credit),
  .peer_gone = neap_flow_peer_gone,
  .headers = ufc_headers,
  .attrs = neap_flow_attrs,
  .ops = neap_flow_ops,
  .open = neap_flow_open,
  .down = neap_flow_down,
  .up = neap_flow_up,
  .unseen = NEAP_UNSEEN_RISING_ALL | NEAP_UNSEEN_FALLING_ALL,
  .event = neap_flow_event,
  .changed = neap_flow_changed,
  .close = neap_flow_close,
  .check = neap_flow_check,
};
