/* frag, private: what its parts share.
 *
 *   frag.c      cuts, joins, tells of what is tagged
 *   partials.c  messages of which not everything has come, and when they are given up */

#ifndef NEAP_LAYERS_FRAG_H
#define NEAP_LAYERS_FRAG_H

#include "core/headers.h"
#include "core/layer.h"

/* 256 bytes a piece: a message of 16 MB is then 65 536 of them, which windows have places for. */
enum { FRAG_PIECE_LEAST = 256, FRAG_PIECES_MAX = 1 << 16 };

/* A message of which not everything has come. */
struct partial {
  struct neap_link age; /* in frag.ages, or frag.spare */
  struct partial *next; /* of the same peer */
  struct peer *peer;
  uint64_t id, bytes;
  uint32_t count, have;      /* pieces in all, and here */
  uint32_t stored, complete; /* pieces that were told of: in a buffer, with everything before */
  uint8_t kind;              /* multicast, out-of-band, unreliable: one stream's have one */
  bool tagged, told;         /* STORED came for a piece; went on for the whole */
  bool risen;                /* what is left is to tell of it */
  struct neap_msg *last;     /* pieces that came, the highest index first */
  struct neap_msg *zero;     /* of these, the one with index 0 */
  struct neap_msg *head;     /* tagged: a copy of piece 0, to tell of it */
  uint64_t seqno;            /* of piece 0 */
  int code;                  /* as its event says */
};

struct peer {
  struct partial *first;
  struct neap_peer *who; /* held while there are any */
  uint64_t left;         /* since when it is in no view; 0: it is in one, or was in none yet */
};

struct frag {
  struct neap_layer layer;
  uint64_t frag_size, max_message, max_partials, max_partial_bytes, partial_timeout; /* params */
  uint64_t size, partials, partial_bytes;                                            /* gauges */
  uint64_t split, pieces_sent, pieces_received, joined, encoded;                     /* counters */
  uint64_t twice, abandoned, bad;
  uint64_t next_id, below;      /* below: the largest body that the layers there take */
  struct partial *room;         /* max_partials of them */
  uint64_t begun;               /* of these, the first so many were ever used */
  struct neap_link ages, spare; /* in use, the oldest first; free again */
  struct neap_timer departed;
};

NEAP_ADOPT(neap_frag_head, 0);

/* ---- partials.c ---- */

/* The message that this piece belongs to, made if need be; NULL when they do not agree. */
struct partial *frag_partial_of(
  struct frag *f, const struct neap_msg *m, const struct neap_frag_head *head);
/* A Neap member sends one message after the other: an older one of the stream never goes on. */
void frag_pass_over(struct frag *f, struct partial *begun, const struct neap_msg *m);
void frag_pieces_free(struct frag *f, struct partial *t);
void frag_partial_free(struct frag *f, struct partial *t);
void frag_abandon(struct frag *f, struct partial *t);
/* A view went by: multicasts of those that left end, their unicasts may go on. */
void frag_view(struct frag *f);
/* A connection from this member begins: what is incomplete of one before will never be whole, and
 * would hold back its credits. */
void frag_begun(struct frag *f, struct neap_peer *peer);
/* Streams were set back: their pieces come again, and these would be released too early. */
void frag_rewound(struct frag *f);
neap_fire frag_departed;

#endif
