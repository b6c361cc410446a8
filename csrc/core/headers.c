/* headers: the rows of every known protocol.
 *
 * Consecutive rows with the same fields are forms of one header.  The names are those of the layers
 * that speak it here, else JGroups' in lower case. */

#include "core/headers.h"

const struct neap_header neap_known_headers[] = {
  NEAP_HEADER_ROW("tp", NEAP_P_TP, 60, neap_tp_head, "the transport's: name of the group"),
  NEAP_HEADER_ROW("ping", NEAP_P_PING, 53, neap_ping_head, "discovery"),
  NEAP_HEADER_ROW("mping", NEAP_P_MPING, 53, neap_ping_head, "discovery"),
  NEAP_HEADER_ROW("tcpping", NEAP_P_TCPPING, 53, neap_ping_head, "discovery"),
  NEAP_HEADER_ROW("file_ping", NEAP_P_FILE_PING, 53, neap_ping_head, "discovery"),
  NEAP_HEADER_ROW("jdbc_ping", NEAP_P_JDBC_PING, 53, neap_ping_head, "discovery"),
  NEAP_HEADER_ROW("dns_ping", NEAP_P_DNS_PING, 53, neap_ping_head, "discovery"),
  NEAP_HEADER_ROW("tcpgossip", NEAP_P_TCPGOSSIP, 53, neap_ping_head, "discovery"),
  NEAP_HEADER_ROW("gms", NEAP_P_GMS, 55, neap_gms_head, "joins, leaves, views, merges"),
  NEAP_HEADER_ROW("stable", NEAP_P_STABLE, 56, neap_stable_head, "votes and stability"),
  NEAP_HEADER_ROW(
    "state_transfer", NEAP_P_STATE_TRANSFER, 57, neap_state_head, "state in one message"),
  NEAP_HEADER_ROW("state", NEAP_P_STATE, 65, neap_stream_state_head, "state in parts"),
  NEAP_HEADER_ROW("state_sock", NEAP_P_STATE_SOCK, 65, neap_stream_state_head, "state by TCP"),
  NEAP_HEADER_ROW("nakack", NEAP_P_NAKACK2, 78, neap_nak_head, "multicast, reports by stability"),
  NEAP_HEADER_ROW("nakack", NEAP_P_NAKACK3, 99, neap_nak_head, "multicast"),
  NEAP_HEADER_ROW("nakack", NEAP_P_NAKACK4, 99, neap_nak_head, "multicast, reports by acks"),
  NEAP_HEADER_ROW("unicast", NEAP_P_UNICAST3, 82, neap_uni_head, "connections"),
  NEAP_HEADER_ROW("unicast", NEAP_P_UNICAST4, 100, neap_uni_head, "connections, fixed windows"),
  NEAP_HEADER_ROW("fd_all", NEAP_P_FD_ALL, 62, neap_heartbeat_head, "a heartbeat"),
  NEAP_HEADER_ROW("fd_all", NEAP_P_FD_ALL_1, 62, neap_heartbeat_head, "a heartbeat, older"),
  NEAP_HEADER_ROW("fd_all", NEAP_P_FD_ALL_2, 62, neap_heartbeat_head, "a heartbeat, older"),
  NEAP_HEADER_ROW(
    "verify_suspect", NEAP_P_VERIFY, 94, neap_verify_head, "are you dead? I am not dead"),
  NEAP_HEADER_ROW("verify_suspect", NEAP_P_VERIFY_OLD, 54, neap_verify_head, "the same, older"),
  NEAP_HEADER_ROW("fd_sock", NEAP_P_FD_SOCK, 93, neap_fd_sock_head, "suspicions by closed sockets"),
  NEAP_HEADER_ROW("merge", NEAP_P_MERGE, 75, neap_merge_head, "looks for other parts"),
  NEAP_HEADER_ROW("frag", NEAP_P_FRAG, 52, neap_frag_head, "a fragment"),
  NEAP_HEADER_ROW("frag", NEAP_P_FRAG_4, 52, neap_frag_head, "a fragment, of its own type"),
  NEAP_HEADER_ROW("frag3", NEAP_P_FRAG_3, 91, neap_frag3_head, "a fragment by offset"),
  NEAP_HEADER_ROW("mfc", NEAP_P_MFC, 59, neap_fc_head, "credits for multicasts"),
  NEAP_HEADER_ROW("ufc", NEAP_P_UFC, 59, neap_fc_head, "credits for unicasts"),
  NEAP_HEADER_ROW("sequencer", NEAP_P_SEQUENCER, 61, neap_sequencer_head, "total order"),
  NEAP_HEADER_ROW("rsvp", NEAP_P_RSVP, 76, neap_rsvp_head, "synchronous sends"),
  NEAP_HEADER_ROW("correlator", NEAP_P_CORRELATOR, 67, neap_correlator_head, "a request's number"),
  NEAP_HEADER_ROW("correlator", NEAP_P_CORRELATOR, 68, neap_correlator_many_head,
    "the same, and who need not answer"),
  NEAP_HEADER_ROW("nakack", NEAP_OWN_NAKACK, NEAP_OWN_NAKACK, neap_nak_own_head, "modes, purges"),
  NEAP_HEADER_ROW(
    "unicast", NEAP_OWN_UNICAST, NEAP_OWN_UNICAST, neap_uni_own_head, "modes, reports, handshakes"),
  NEAP_HEADER_ROW("rsvp", NEAP_OWN_RSVP, NEAP_OWN_RSVP, neap_rsvp_own_head, "ack_on, number"),
  NEAP_HEADER_ROW("gms", NEAP_OWN_GMS, NEAP_OWN_GMS, neap_gms_own_head, "epochs, exclusions"),
  NEAP_HEADER_ROW("ping", NEAP_OWN_PING, NEAP_OWN_PING, neap_ping_own_head, "size of the view"),
  NEAP_HEADER_ROW("state_transfer", NEAP_OWN_STATE, NEAP_OWN_STATE, neap_state_own_head,
    "state in parts, digest and promises"),
  NEAP_HEADER_ROW("settings", NEAP_OWN_SETTINGS, NEAP_OWN_SETTINGS, neap_settings_own_head,
    "what the group sets"),
  NEAP_HEADER_ROW("stable", NEAP_OWN_STABLE, NEAP_OWN_STABLE, neap_stable_own_head, "rounds asked"),
  NEAP_HEADER_ROW("fifo", NEAP_OWN_FIFO, NEAP_OWN_FIFO, neap_fifo_head, "place in order"),
  NEAP_HEADER_ROW(
    "fifo_lua", NEAP_OWN_FIFO_LUA, NEAP_OWN_FIFO_LUA, neap_fifo_head, "place in order"),
  NEAP_HEADER_ROW(
    "check_fifo", NEAP_OWN_CHECK_FIFO, NEAP_OWN_CHECK_FIFO, neap_check_fifo_head, "place"),
  NEAP_HEADER_ROW(
    "check_frag", NEAP_OWN_CHECK_FRAG, NEAP_OWN_CHECK_FRAG, neap_check_frag_head, "length, sum"),
  NEAP_HEADER_ROW(
    "check_rsvp", NEAP_OWN_CHECK_RSVP, NEAP_OWN_CHECK_RSVP, neap_check_rsvp_head, "ticket"),
  {0},
};

const struct neap_header *neap_known_header(uint16_t protocol, uint16_t class)
{
  for (const struct neap_header *row = neap_known_headers; row->name; row++)
    if (row->protocol == protocol && row->class == class) return row;
  return NULL;
}
