#include "core/types.h"

#include "core/headers.h"

/* ORDER: the enums beside the field lists in core/headers.h. */
static const char *const nak[] = {"msg", "xmit_req", "xmit_rsp", "highest", "ack", NULL};
static const char *const nak_own[] = {"mode", "purged", NULL};
static const char *const uni[] = {"data", "ack", "send_first", "xmit_req", "close", NULL};
static const char *const uni_own[] = {
  "mode", "stable", "empty", "none", "sync", "sync_ok", "sync_ack", "epoch", NULL};
static const char *const ping[] = {"request", "response", NULL};
static const char *const rsvp[] = {"request", "beacon", "response", NULL};
static const char *const fc[] = {"replenish", "request", NULL};
static const char *const stable[] = {"vote", "stability", NULL};
static const char *const verify[] = {"are_you_dead", "not_dead", NULL};
static const char *const gms[] = {"join_req", "join_rsp", "leave_req", "leave_rsp", "view",
  "merge_req", "merge_rsp", "install_merge", "cancel_merge", "view_ack", "join_state", "",
  "get_digest", "digest_rsp", "install_digest", "get_view", NULL};
static const char *const merge[] = {"info", "view_req", "view_rsp", NULL};
static const char *const fd_sock[] = {"suspect", "unsuspect", "connect", "connect_rsp", NULL};
static const char *const state[] = {"state_req", "state_rsp", "state_ex", NULL};
static const char *const state_own[] = {
  "ask", "digest", "part", "end", "no", "stored", "taken", "over", NULL};
static const char *const stream[] = {
  "state_req", "state_rsp", "state_part", "state_end", "state_ex", NULL};
static const char *const correlator[] = {"request", "response", "exception", NULL};

const struct neap_types neap_type_words[] = {
  {NEAP_P_NAKACK2, 1, nak},
  {NEAP_P_NAKACK3, 1, nak},
  {NEAP_P_NAKACK4, 1, nak},
  {NEAP_OWN_NAKACK, 1, nak_own},
  {NEAP_P_UNICAST3, 0, uni},
  {NEAP_P_UNICAST4, 0, uni},
  {NEAP_OWN_UNICAST, 1, uni_own},
  {NEAP_P_PING, 1, ping},
  {NEAP_P_MPING, 1, ping},
  {NEAP_P_FILE_PING, 1, ping},
  {NEAP_P_TCPPING, 1, ping},
  {NEAP_P_TCPGOSSIP, 1, ping},
  {NEAP_P_DNS_PING, 1, ping},
  {NEAP_P_JDBC_PING, 1, ping},
  {NEAP_P_RSVP, 1, rsvp},
  {NEAP_P_MFC, 1, fc},
  {NEAP_P_UFC, 1, fc},
  {NEAP_P_STABLE, 1, stable},
  {NEAP_P_VERIFY, 1, verify},
  {NEAP_P_GMS, 1, gms},
  {NEAP_P_MERGE, 0, merge},
  {NEAP_P_FD_SOCK, 1, fd_sock},
  {NEAP_P_STATE_TRANSFER, 1, state},
  {NEAP_OWN_STATE, 1, state_own},
  {NEAP_P_STATE, 1, stream},
  {NEAP_P_CORRELATOR, 0, correlator},
  {0, 0, NULL},
};

const char *neap_type_word(const struct neap_header *header, int64_t type)
{
  for (const struct neap_types *row = neap_type_words; row->words; row++) {
    if (row->protocol != header->protocol) continue;
    for (int64_t at = row->first; row->words[at - row->first]; at++)
      if (at == type) return *row->words[at - row->first] ? row->words[at - row->first] : NULL;
  }
  return NULL;
}
