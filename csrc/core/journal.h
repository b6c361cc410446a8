/* journal: what was set while a member runs, and by whom.
 *
 * The last NEAP_JOURNAL changes; older ones go.  It belongs to the channel, so it outlives a stack
 * that starts over. */

#ifndef NEAP_CORE_JOURNAL_H
#define NEAP_CORE_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

enum { NEAP_JOURNAL = 256 };

struct neap_journal_row {
  uint64_t set;    /* number of the set, from 1; rows that were set together have the same */
  uint64_t time;
  uint64_t epoch;  /* of the group's settings that it belongs to; 0: of this member only */
  const char *by;  /* name of who asked for it */
  const char *layer, *attr, *from, *to;
  uint8_t live;    /* enum neap_live: when it took effect */
  bool mine;       /* asked for here */
  bool was_own;    /* before, it was up to each member */
  bool undo;       /* it took something back */
  bool undone;     /* it was taken back */
};

struct neap_journal {
  uint64_t written, sets;
  struct neap_journal_row *rows[NEAP_JOURNAL]; /* the n-th at n % NEAP_JOURNAL */
};

/* Copies the row, texts and all. */
void neap_journal_add(struct neap_journal *journal, const struct neap_journal_row *row);

/* The n-th row ever written, from 0; NULL: it is gone, or not written yet. */
struct neap_journal_row *neap_journal_at(const struct neap_journal *journal, uint64_t n);

/* All rows of this set were taken back. */
void neap_journal_undone(struct neap_journal *journal, uint64_t set);

void neap_journal_free(struct neap_journal *journal);

#endif
