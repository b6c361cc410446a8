/* headers: the rows of every known protocol, once.
 *
 * The structs that layers adopt are declared in core/headers.h by field lists, grouped by protocol;
 * neap_known_headers lists all rows with their ids, also of protocols that no layer here speaks, so
 * that any packet can be read.  Ids and layouts: the JGroups 5 wire format; those from 1024 on are
 * Neap's own, in one table so that they cannot clash. */

#ifndef NEAP_CORE_HEADERS_H
#define NEAP_CORE_HEADERS_H

#include "core/header.h"

/* ---- ids ---- */

enum neap_protocol {
  NEAP_P_FD_SOCK_OLD = 2, NEAP_P_FRAG = 4, NEAP_P_PING = 5, NEAP_P_MPING = 6, NEAP_P_FILE_PING = 8,
  NEAP_P_TCPPING = 9, NEAP_P_TCPGOSSIP = 10, NEAP_P_VERIFY_OLD = 11, NEAP_P_GMS = 12,
  NEAP_P_STABLE = 13, NEAP_P_STATE_TRANSFER = 14, NEAP_P_SEQUENCER = 19, NEAP_P_FD_ALL_1 = 20,
  NEAP_P_FD_ALL_2 = 21, NEAP_P_STATE = 24, NEAP_P_STATE_SOCK = 25, NEAP_P_MFC = 30, NEAP_P_UFC = 31,
  NEAP_P_MERGE = 38, NEAP_P_RSVP = 39, NEAP_P_NAKACK2 = 41, NEAP_P_UNICAST3 = 48,
  NEAP_P_SEQUENCER_2 = 53, NEAP_P_TP = 57, NEAP_P_DNS_PING = 61, NEAP_P_FRAG_3 = 62,
  NEAP_P_FRAG_4 = 69, NEAP_P_FD_ALL = 70, NEAP_P_FD_SOCK = 71, NEAP_P_VERIFY = 72,
  NEAP_P_JDBC_PING = 75, NEAP_P_NAKACK3 = 76, NEAP_P_NAKACK4 = 77, NEAP_P_UNICAST4 = 78,
  NEAP_P_CORRELATOR = 200,
};

/* Neap's own ids: protocol and class are the same number.  ORDER: never renumber. */
enum neap_own_protocol {
  NEAP_OWN_NAKACK = 1024,  /* MODE and PURGED of a multicast stream */
  NEAP_OWN_UNICAST = 1025, /* MODE, STABLE, EMPTY, NONE, SYNC of a connection */
  NEAP_OWN_RSVP = 1026,    /* ack_on and the request's seqno, beside RSVP's header */
  NEAP_OWN_GMS = 1027,     /* epochs of streams in digests, excluded members */
  NEAP_OWN_FC = 1028,      /* receivers' windows */
  NEAP_OWN_STATE = 1029,   /* state transfer in mode applied */
  NEAP_OWN_STABLE = 1030,  /* rounds on demand */
  NEAP_OWN_SETTINGS = 1032, /* changes of the whole group */
  NEAP_OWN_PING = 1031,    /* how many members the answerer's view has */
  NEAP_OWN_FIFO = 1100,
  NEAP_OWN_FIFO_LUA = 1101,
  NEAP_OWN_CHECK_FIFO = 1110, /* what checkers put on messages */
  NEAP_OWN_CHECK_FRAG = 1111,
  NEAP_OWN_CHECK_RSVP = 1112,
};

/* ---- field lists ---- */

/* Transport: on every message. */
#define NEAP_TP_HEAD(FIELD, WHEN)                                                                  \
  FIELD(ascii, cluster, "name of the group")                                                       \
  FIELD(i8, flag, "0; 1 and 2: round-trip probe, request and response")                            \
  WHEN(i32, index, flag, NEAP_BITS(0x7f), "of the probe")
NEAP_HEADER(neap_tp_head, NEAP_TP_HEAD)

/* Discovery; payload: records, see NEAP_PING_RECORD. */
#define NEAP_PING_HEAD(FIELD, WHEN)                                                                \
  FIELD(i8, type, "1 request, 2 response")                                                         \
  FIELD(str, cluster, "name of the group; none in a response")                                     \
  FIELD(flag, initial, "asked before joining")
NEAP_HEADER(neap_ping_head, NEAP_PING_HEAD)

enum { NEAP_PING_REQUEST = 1, NEAP_PING_RESPONSE = 2 };

/* Ours, beside a response (protocols 8). */
#define NEAP_PING_OWN_HEAD(FIELD, WHEN) FIELD(cint, members, "in the view of who answers")
NEAP_HEADER(neap_ping_own_head, NEAP_PING_OWN_HEAD)

/* One discovery record of a payload (not a header, but read by the same code). */
#define NEAP_PING_RECORD(FIELD, WHEN)                                                              \
  FIELD(addr, member, "whom it is about")                                                          \
  FIELD(i8, bits, "1 has joined, 2 is coordinator")                                                \
  FIELD(str, name, "logical name")                                                                 \
  FIELD(addr, place, "where it is")                                                                \
  FIELD(addrs, wanted, "members that are looked for; none: everybody")
NEAP_HEADER(neap_ping_record, NEAP_PING_RECORD)

#define NEAP_GMS_HEAD(FIELD, WHEN)                                                                 \
  FIELD(i8, type, "see enum neap_gms_type")                                                        \
  FIELD(i16, bits, "4 merge id present, 16 merge rejected")                                        \
  FIELD(addr, member, "joiner, leaver or merge leader")                                            \
  WHEN(addr, initiator, bits, NEAP_BITS(4), "of the merge")                                        \
  WHEN(i32, merge, bits, NEAP_BITS(4), "number of the merge")
NEAP_HEADER(neap_gms_head, NEAP_GMS_HEAD)

enum neap_gms_type {
  NEAP_GMS_JOIN_REQ = 1, NEAP_GMS_JOIN_RSP = 2, NEAP_GMS_LEAVE_REQ = 3, NEAP_GMS_LEAVE_RSP = 4,
  NEAP_GMS_VIEW = 5, NEAP_GMS_MERGE_REQ = 6, NEAP_GMS_MERGE_RSP = 7, NEAP_GMS_INSTALL_MERGE = 8,
  NEAP_GMS_CANCEL_MERGE = 9, NEAP_GMS_VIEW_ACK = 10, NEAP_GMS_JOIN_STATE = 11,
  NEAP_GMS_GET_DIGEST = 13, NEAP_GMS_DIGEST_RSP = 14, NEAP_GMS_INSTALL_DIGEST = 15,
  NEAP_GMS_GET_VIEW = 16,
};

/* Ours, beside it or alone (protocols 2 and 8). */
#define NEAP_GMS_OWN_HEAD(FIELD, WHEN)                                                             \
  FIELD(u8, type, "1 epochs, 2 installed, 3 excluded")                                             \
  WHEN(bytes, epochs, type, NEAP_IN(1), "u32 epoch and u8 mode for each row of the digest")        \
  WHEN(bytes, names, type, NEAP_IN(1), "u8 length and name for each row; length 0: not told")      \
  WHEN(clong, number, type, NEAP_IN(2) | NEAP_IN(3), "of the view that was installed or excludes") \
  WHEN(addr, creator, type, NEAP_IN(3), "of that view")
NEAP_HEADER(neap_gms_own_head, NEAP_GMS_OWN_HEAD)

enum { NEAP_GMS_EPOCHS = 1, NEAP_GMS_INSTALLED = 2, NEAP_GMS_EXCLUDED = 3 };

#define NEAP_STABLE_HEAD(FIELD, WHEN)                                                              \
  FIELD(i8, type, "1 vote (gossip), 2 stability")                                                  \
  FIELD(view_id_opt, view, "the view that the vote is for")
NEAP_HEADER(neap_stable_head, NEAP_STABLE_HEAD)

enum { NEAP_STABLE_VOTE = 1, NEAP_STABLE_STABILITY = 2 };

/* Ours: a round on demand.  Who is short of room tells the coordinator, which asks everybody. */
#define NEAP_STABLE_OWN_HEAD(FIELD, WHEN)                                                          \
  FIELD(u8, type, "1 WANTED, 2 COLLECT: vote now")                                                 \
  FIELD(view_id, view, "the view that it is for")
NEAP_HEADER(neap_stable_own_head, NEAP_STABLE_OWN_HEAD)

enum { NEAP_STABLE_WANTED = 1, NEAP_STABLE_COLLECT = 2 };

#define NEAP_STATE_HEAD(FIELD, WHEN)                                                               \
  FIELD(i8, type, "1 request, 2 response, 3 exception")                                            \
  FIELD(digest_opt, digest, "of the provider")
NEAP_HEADER(neap_state_head, NEAP_STATE_HEAD)

/* Ours: a state in parts (protocols 7).  The numbers of both sides are the requester's. */
#define NEAP_STATE_OWN_HEAD(FIELD, WHEN)                                                           \
  FIELD(u8, type, "see enum neap_state_type")                                                      \
  FIELD(cint, number, "of the transfer, given by the requester")                                   \
  WHEN(u8, mode, type, NEAP_IN(1) | NEAP_IN(2), "0 applied, 1 barrier")                            \
  WHEN(clong, view, type, NEAP_IN(1) | NEAP_IN(2), "number of the sender's view")                  \
  WHEN(clong, total, type, NEAP_IN(3), "bytes of the whole state; 0: not known")                   \
  WHEN(clong, bytes, type, NEAP_IN(7), "of parts that the application has taken, in all")          \
  WHEN(u8, code, type, NEAP_IN(5), "why, as the negative of enum neap_code")
NEAP_HEADER(neap_state_own_head, NEAP_STATE_OWN_HEAD)

enum neap_state_type {
  NEAP_STATE_ASK = 1, NEAP_STATE_DIGEST = 2, NEAP_STATE_PART = 3, NEAP_STATE_END = 4,
  NEAP_STATE_NO = 5, NEAP_STATE_STORED = 6, NEAP_STATE_TAKEN = 7, NEAP_STATE_OVER = 8,
};

#define NEAP_STREAM_STATE_HEAD(FIELD, WHEN)                                                        \
  FIELD(i8, type, "1 request, 2 response, 3 part, 4 end, 5 exception")                             \
  FIELD(digest_opt, digest, "of the provider")                                                     \
  FIELD(ip_opt, place, "to connect to")
NEAP_HEADER(neap_stream_state_head, NEAP_STREAM_STATE_HEAD)

/* Multicast streams.  Forms: NAKACK2, NAKACK3, NAKACK4 (the last two add type 5). */
#define NEAP_NAK_HEAD(FIELD, WHEN)                                                                 \
  FIELD(i8, type, "1 message, 2 request, 3 retransmission, 4 highest seqno, 5 ack")                \
  WHEN(clong, seqno, type, NEAP_IN(1) | NEAP_IN(3) | NEAP_IN(4) | NEAP_IN(5), "in its stream")     \
  WHEN(addr, sender, type, NEAP_IN(2), "whose messages are asked for")
NEAP_HEADER(neap_nak_head, NEAP_NAK_HEAD)

enum neap_nak_type {
  NEAP_NAK_MSG = 1, NEAP_NAK_XMIT_REQ = 2, NEAP_NAK_XMIT_RSP = 3, NEAP_NAK_HIGHEST = 4,
  NEAP_NAK_ACK = 5,
};
enum neap_nak_form { NEAP_NAK_FORM_2, NEAP_NAK_FORM_3, NEAP_NAK_FORM_4 };

/* Ours: a toggle in the stream, the answer to a request for what is gone, and beside a report how
 * much has come and how much may be on its way (protocols 3 and 4). */
#define NEAP_NAK_OWN_HEAD(FIELD, WHEN)                                                             \
  FIELD(u8, type, "1 MODE, 2 PURGED, 3 WINDOW")                                                    \
  WHEN(u32, epoch, type, NEAP_IN(1), "of this stream; grows by one per toggle")                    \
  WHEN(u8, mode, type, NEAP_IN(1), "0 nak, 1 ack")                                                 \
  WHEN(addr, sender, type, NEAP_IN(2), "whose stream")                                             \
  WHEN(clong, low, type, NEAP_IN(2), "everything up to here is gone")                              \
  WHEN(clong, bytes, type, NEAP_IN(3), "of one stream, that my receive buffer can take")           \
  WHEN(clong, received, type, NEAP_IN(3), "of the target's stream, the highest that came")         \
  WHEN(u8, votes, type, NEAP_IN(3), "in stability rounds: 1 yes, 2 no; 0: not said")
NEAP_HEADER(neap_nak_own_head, NEAP_NAK_OWN_HEAD)

enum { NEAP_NAK_MODE = 1, NEAP_NAK_PURGED = 2, NEAP_NAK_WINDOW = 3 };

/* Unicast connections.  Forms: UNICAST3, UNICAST4. */
#define NEAP_UNI_HEAD(FIELD, WHEN)                                                                 \
  FIELD(i8, type, "0 data, 1 ack, 2 send-first-seqno, 3 request, 4 close")                         \
  WHEN(clong, seqno, type, NEAP_IN(0) | NEAP_IN(1), "in its connection; an ack is cumulative")     \
  WHEN(i16, conn, type, NEAP_IN(0) | NEAP_IN(1) | NEAP_IN(4), "connection id")                     \
  WHEN(flag, first, type, NEAP_IN(0), "first of its connection, or lowest unacknowledged")         \
  WHEN(cint, stamp, type, NEAP_IN(1) | NEAP_IN(2), "drops what is older")
NEAP_HEADER(neap_uni_head, NEAP_UNI_HEAD)

enum neap_uni_type {
  NEAP_UNI_DATA = 0, NEAP_UNI_ACK = 1, NEAP_UNI_FIRST = 2, NEAP_UNI_XMIT_REQ = 3,
  NEAP_UNI_CLOSE = 4,
};

/* Ours (protocols 5). */
#define NEAP_UNI_OWN_HEAD(FIELD, WHEN)                                                             \
  FIELD(u8, type, "1 MODE, 2 STABLE, 3 EMPTY, 4 NONE, 5 SYNC, 6 SYNC-OK, 7 SYNC-ACK, 8 epoch")     \
  FIELD(i16, conn, "connection id")                                                                \
  FIELD(i16, base, "first connection id of this window")                                           \
  FIELD(u32, epoch, "of this connection's mode")                                                   \
  FIELD(u8, mode, "0 ack, 1 nak")                                                                  \
  FIELD(u32, stamp, "timestamp of the request or of this message")                                 \
  WHEN(u32, nonce, type, NEAP_IN(5) | NEAP_IN(6) | NEAP_IN(7), "of the handshake")                 \
  WHEN(clong, low, type, NEAP_IN(2) | NEAP_IN(3) | NEAP_IN(5) | NEAP_IN(6), "applied, or low")     \
  WHEN(clong, high, type, NEAP_IN(2) | NEAP_IN(3) | NEAP_IN(6), "received, or high")
NEAP_HEADER(neap_uni_own_head, NEAP_UNI_OWN_HEAD)

NEAP_HEADER_EMPTY(neap_heartbeat_head)

#define NEAP_VERIFY_HEAD(FIELD, WHEN)                                                              \
  FIELD(i16, type, "1 are you dead, 2 I am not dead")                                              \
  FIELD(addr, from, "who asks or answers")
NEAP_HEADER(neap_verify_head, NEAP_VERIFY_HEAD)

#define NEAP_FD_SOCK_HEAD(FIELD, WHEN)                                                             \
  FIELD(i8, type, "1 suspect, 2 unsuspect, 3 connect, 4 connect response")                         \
  FIELD(addrs32, members, "suspected")                                                             \
  FIELD(str, cluster, "name of the group")                                                         \
  FIELD(addr, server, "who is wanted, or who answers")
NEAP_HEADER(neap_fd_sock_head, NEAP_FD_SOCK_HEAD)

#define NEAP_MERGE_HEAD(FIELD, WHEN)                                                               \
  FIELD(i8, type, "0 info, 1 view request, 2 view response")                                       \
  FIELD(view_id_opt, view, "the sender's")                                                         \
  FIELD(str, name, "logical name")                                                                 \
  FIELD(addr, place, "where it is")
NEAP_HEADER(neap_merge_head, NEAP_MERGE_HEAD)

#define NEAP_FRAG_HEAD(FIELD, WHEN)                                                                \
  FIELD(clong, id, "of the whole message")                                                         \
  FIELD(cint, index, "of this fragment, from 0")                                                   \
  FIELD(cint, count, "of fragments")                                                               \
  FIELD(flag, encoded, "the whole is an encoded message, not a plain body")                        \
  FIELD(i16, type, "of the original message")
NEAP_HEADER(neap_frag_head, NEAP_FRAG_HEAD)

#define NEAP_FRAG3_HEAD(FIELD, WHEN)                                                               \
  FIELD(cint, id, "of the whole message")                                                          \
  FIELD(cint, index, "of this fragment")                                                           \
  FIELD(cint, count, "of fragments")                                                               \
  FIELD(cint, length, "of the whole message")                                                      \
  FIELD(cint, offset, "of this fragment")                                                          \
  FIELD(flag, encoded, "the whole is an encoded message")
NEAP_HEADER(neap_frag3_head, NEAP_FRAG3_HEAD)

#define NEAP_FC_HEAD(FIELD, WHEN) FIELD(i8, type, "1 replenish, 2 request; the payload is a number")
NEAP_HEADER(neap_fc_head, NEAP_FC_HEAD)

enum { NEAP_FC_REPLENISH = 1, NEAP_FC_REQUEST = 2 };

#define NEAP_RSVP_HEAD(FIELD, WHEN)                                                                \
  FIELD(i8, type, "1 request, 2 beacon, 3 response")                                               \
  FIELD(i16, id, "of the request")
NEAP_HEADER(neap_rsvp_head, NEAP_RSVP_HEAD)

enum { NEAP_RSVP_REQUEST = 1, NEAP_RSVP_BEACON = 2, NEAP_RSVP_RESPONSE = 3 };

/* Ours, beside it (protocols 6).  It travels in requests, beacons and answers.  An id is used
 * again, a number never, so an answer to an older request of the same id is told apart, be it of an
 * older life of the connection.  (The request's seqno would say the same, but is not known yet when
 * the request leaves its layer, and a fragmented one has several.)  Alone, without RSVP's header,
 * it says: my answers to you may be lost, ask again. */
#define NEAP_RSVP_OWN_HEAD(FIELD, WHEN)                                                            \
  FIELD(u8, ack_on, "0 reception, 1 completion, 2 delivery")                                       \
  FIELD(clong, number, "of the request, counted by who sent it; an answer carries it back")
NEAP_HEADER(neap_rsvp_own_head, NEAP_RSVP_OWN_HEAD)

/* Ours: what the whole group sets (protocols 4, rule 14).  Tables, requests and reasons are
 * bodies. */
#define NEAP_SETTINGS_OWN_HEAD(FIELD, WHEN)                                                        \
  FIELD(u8, type, "1 HERE, 2 ASK, 3 CHECK, 4 VOTE, 5 COMMIT, 6 DONE, 7 ABORT, 8 TABLE, 9 RESULT")  \
  FIELD(u8, bits, "1 takes back, 2 waits for the end of its change, 4 all have told")              \
  FIELD(clong, view, "number of the sender's")                                                     \
  FIELD(clong, epoch, "of the group's settings; 0: none, or not told here")                        \
  FIELD(clong, round, "counted by the coordinator; 0: belongs to none")                            \
  FIELD(cint, ticket, "of the change, counted by who asked for it")                                \
  WHEN(addr, creator, type, NEAP_SETTINGS_TABLES, "coordinator when the table was made")           \
  WHEN(addr, asker, type, NEAP_SETTINGS_TABLES, "who asked for its last change")                   \
  WHEN(clong, time, type, NEAP_IN(2) | NEAP_IN(3), "limit in ns; 0: as the coordinator says")      \
  WHEN(i16, code, type, NEAP_IN(4) | NEAP_IN(9), "0, or why not")
#define NEAP_SETTINGS_TABLES (NEAP_IN(1) | NEAP_IN(3) | NEAP_IN(5) | NEAP_IN(8))
NEAP_HEADER(neap_settings_own_head, NEAP_SETTINGS_OWN_HEAD)

enum neap_settings_type {
  NEAP_SETTINGS_HERE = 1, NEAP_SETTINGS_ASK = 2, NEAP_SETTINGS_CHECK = 3, NEAP_SETTINGS_VOTE = 4,
  NEAP_SETTINGS_COMMIT = 5, NEAP_SETTINGS_DONE = 6, NEAP_SETTINGS_ABORT = 7,
  NEAP_SETTINGS_TABLE = 8, NEAP_SETTINGS_RESULT = 9,
};
enum { NEAP_SETTINGS_UNDO = 1, NEAP_SETTINGS_WAITS = 2, NEAP_SETTINGS_ALL_TOLD = 4 };

/* DOUBT: as described by its authors; no vector or capture has it. */
#define NEAP_SEQUENCER_HEAD(FIELD, WHEN)                                                           \
  FIELD(i8, type, "1 forward, 2 flush, 3 broadcast, 4 broadcast of somebody else's")               \
  FIELD(clong, seqno, "of the sender, in its own count")                                           \
  FIELD(flag, flush_ack, "the flush is done")
NEAP_HEADER(neap_sequencer_head, NEAP_SEQUENCER_HEAD)

#define NEAP_CORRELATOR_HEAD(FIELD, WHEN)                                                          \
  FIELD(i8, type, "0 request, 1 response, 2 exception")                                            \
  FIELD(clong, id, "of the request; 0: no reply wanted")                                           \
  FIELD(i16, correlator, "which service")
NEAP_HEADER(neap_correlator_head, NEAP_CORRELATOR_HEAD)

#define NEAP_CORRELATOR_MANY_HEAD(FIELD, WHEN)                                                     \
  FIELD(i8, type, "0 request, 1 response, 2 exception")                                            \
  FIELD(clong, id, "of the request; 0: no reply wanted")                                           \
  FIELD(i16, correlator, "which service")                                                          \
  FIELD(addrs, excluded, "who need not answer")
NEAP_HEADER(neap_correlator_many_head, NEAP_CORRELATOR_MANY_HEAD)

#define NEAP_FIFO_HEAD(FIELD, WHEN) FIELD(clong, seq, "place in the sender's sequence")
NEAP_HEADER(neap_fifo_head, NEAP_FIFO_HEAD)

/* Checkers (core/oracle.h). */
#define NEAP_CHECK_FIFO_HEAD(FIELD, WHEN)                                                          \
  FIELD(clong, place, "of this message among those of its stream, from 0")                         \
  FIELD(clong, life, "of the stream; places of a later one start over")
NEAP_HEADER(neap_check_fifo_head, NEAP_CHECK_FIFO_HEAD)

#define NEAP_CHECK_FRAG_HEAD(FIELD, WHEN)                                                          \
  FIELD(cint, len, "of the body")                                                                  \
  FIELD(u32, sum, "of its bytes")                                                                  \
  FIELD(flag, bare, "there is no body, not even an empty one")
NEAP_HEADER(neap_check_frag_head, NEAP_CHECK_FRAG_HEAD)

#define NEAP_CHECK_RSVP_HEAD(FIELD, WHEN) FIELD(cint, ticket, "of the synchronous send")
NEAP_HEADER(neap_check_rsvp_head, NEAP_CHECK_RSVP_HEAD)

/* ---- all rows: csrc/core/headers.c ---- */

/* Every known header, ended by a row without a name. */
extern const struct neap_header neap_known_headers[];

/* The row of an id pair; NULL when nobody knows it. */
const struct neap_header *neap_known_header(uint16_t protocol, uint16_t class);

#endif
