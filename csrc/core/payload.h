/* payload: what layers say to each other in the body of a message.
 *
 * Most payloads are lists of fields like headers (core/header.h), read and written by the same
 * code: discovery records, views in their three kinds, join responses, views with digests.  Reading
 * one checks it whole; its slices point into the bytes and are walked by iterators, here and in
 * core/view.h.  Nothing allocates.
 *
 *     ping     i32 count, that many records             neap_records_of, neap_write_record
 *     gms      view and digest, join response           neap_view_digest_read, neap_join_rsp_read
 *     nakack   object: seqno list                       core/seqnos.h
 *     stable   object: digest                           neap_object_of, core/digest.h */

#ifndef NEAP_CORE_PAYLOAD_H
#define NEAP_CORE_PAYLOAD_H

#include "core/digest.h"
#include "core/headers.h"
#include "core/msg.h"
#include "core/object.h"

/* ---- discovery ---- */

struct neap_records {
  struct neap_reader r; /* r.fault says why it ended early */
  int32_t left;
};

/* for (it = neap_records_of(body); neap_records_next(&it, &record);) */
struct neap_records neap_records_of(struct neap_slice body);
bool neap_records_next(struct neap_records *it, struct neap_ping_record *record);

/* Writes one record; an i32 count stands before the first. */
void neap_write_record(struct neap_writer *w, const struct neap_ping_record *record);

/* ---- views and digests ---- */

/* The parts of a `view` slice. */
#define NEAP_VIEW_PARTS(FIELD, WHEN)                                                               \
  FIELD(addr, creator, "who made it")                                                              \
  FIELD(clong, number, "grows with each view")                                                     \
  FIELD(addrs, members, "in order, the coordinator first")
NEAP_HEADER(neap_view_parts, NEAP_VIEW_PARTS)

/* Of a `merge_view` slice. */
#define NEAP_MERGE_VIEW_PARTS(FIELD, WHEN)                                                         \
  FIELD(addr, creator, "the merge leader")                                                         \
  FIELD(clong, number, "above that of every part")                                                 \
  FIELD(addrs, members, "of all parts")                                                            \
  FIELD(subviews, parts, "the views that were merged")
NEAP_HEADER(neap_merge_view_parts, NEAP_MERGE_VIEW_PARTS)

/* Of a `delta_view` slice: old - left + joined. */
#define NEAP_DELTA_VIEW_PARTS(FIELD, WHEN)                                                         \
  FIELD(addr, creator, "who made it")                                                              \
  FIELD(clong, number, "of the new view")                                                          \
  FIELD(addr, old_creator, "of the view it refers to")                                             \
  FIELD(clong, old_number, "of the view it refers to")                                             \
  FIELD(addrs, left, "members that went")                                                          \
  FIELD(addrs, joined, "members that came")
NEAP_HEADER(neap_delta_view_parts, NEAP_DELTA_VIEW_PARTS)

/* What VIEW, MERGE_RSP, INSTALL_MERGE_VIEW, GET_DIGEST_RSP and INSTALL_DIGEST carry.  Bits: 1 view,
 * 2 digest, 4 merge view, 8 delta view, 16 the digest has its own members. */
#define NEAP_VIEW_DIGEST(FIELD, WHEN)                                                              \
  FIELD(i16, bits, "1 view, 2 digest, 4 merge view, 8 delta view, 16 digest with members")         \
  WHEN(view, view, bits, NEAP_IN(1) | NEAP_IN(3) | NEAP_IN(17) | NEAP_IN(19), "plain")             \
  WHEN(merge_view, merge_view, bits,                                                               \
    NEAP_IN(5) | NEAP_IN(7) | NEAP_IN(21) | NEAP_IN(23), "merged")                                 \
  WHEN(delta_view, delta_view, bits,                                                               \
    NEAP_IN(9) | NEAP_IN(11) | NEAP_IN(25) | NEAP_IN(27), "against another")                       \
  WHEN(seq2s, pairs, bits, NEAP_IN(3) | NEAP_IN(7) | NEAP_IN(11), "digest of the view's members")  \
  WHEN(digest, digest, bits,                                                                       \
    NEAP_IN(18) | NEAP_IN(19) | NEAP_IN(23) | NEAP_IN(27), "digest with members")
NEAP_HEADER(neap_view_digest, NEAP_VIEW_DIGEST)

enum {
  NEAP_VD_VIEW = 1, NEAP_VD_DIGEST = 2, NEAP_VD_MERGE = 4, NEAP_VD_DELTA = 8, NEAP_VD_MEMBERS = 16,
};

/* The answer to a join, behind a flag that is always 1. */
#define NEAP_JOIN_RSP(FIELD, WHEN)                                                                 \
  FIELD(i8, bits, "1 view, 2 digest, 4 failure")                                                   \
  WHEN(view, view, bits, NEAP_BITS(1), "the first one of the joiner")                              \
  WHEN(seq2s, pairs, bits, NEAP_BITS(2), "digest of its members")                                  \
  WHEN(utf, failure, bits, NEAP_BITS(4), "why not")
NEAP_HEADER(neap_join_rsp, NEAP_JOIN_RSP)

enum { NEAP_JOIN_VIEW = 1, NEAP_JOIN_DIGEST = 2, NEAP_JOIN_FAILURE = 4 };

/* Each reads the whole slice; false, and zeros, when it is not what it should be (bytes behind the
 * end count as that, too). */
bool neap_view_parts_read(struct neap_slice slice, struct neap_view_parts *parts);
bool neap_merge_view_parts_read(struct neap_slice slice, struct neap_merge_view_parts *parts);
bool neap_delta_view_parts_read(struct neap_slice slice, struct neap_delta_view_parts *parts);
bool neap_view_digest_read(struct neap_slice body, struct neap_view_digest *payload);
bool neap_join_rsp_read(struct neap_slice body, struct neap_join_rsp *payload); /* with its flag */

/* The parts of a merged view.  Members are those of the whole view by place, or strangers. */
struct neap_subviews {
  struct neap_reader r;
  int left;
  struct neap_slice members; /* of the whole view */
};

struct neap_subview {
  struct neap_addr creator;
  uint64_t number;
  int count;                /* members, then taken by neap_subview_member */
  struct neap_reader r;
  struct neap_slice all;
};

struct neap_subviews neap_subviews_of(const struct neap_merge_view_parts *view);
bool neap_subviews_next(struct neap_subviews *it, struct neap_subview *part);
bool neap_subview_member(struct neap_subview *part, struct neap_addr *member);

/* Writes VIEW's payload.  `digest` may be NULL; it goes without members when they are those of the
 * view, in order.  For merge and delta views fill the struct and use neap_view_digest_write. */
void neap_write_view_digest(
  struct neap_writer *w, const struct neap_view *view, const struct neap_digest *digest);
void neap_view_digest_write(struct neap_writer *w, const struct neap_view_digest *payload);
void neap_join_rsp_write(struct neap_writer *w, const struct neap_join_rsp *payload);

/* A join response, flag and all: accepted with view and digest (of its members, in order), or
 * refused with a reason. */
void neap_write_join(
  struct neap_writer *w, const struct neap_view *view, const struct neap_digest *digest);
void neap_write_join_refused(struct neap_writer *w, const char *reason);

/* ---- objects ---- */

/* Class id and content of the object payload of `m`; false for null, or another type. */
bool neap_object_of(const struct neap_msg *m, uint16_t *class, struct neap_slice *content);

#endif
