#include "core/journal.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

static const char *copy(char **room, const char *text)
{
  char *at = *room;
  size_t size = strlen(text) + 1;
  memcpy(at, text, size);
  *room = at + size;
  return at;
}

/* One piece of memory: the row, then its texts. */
void neap_journal_add(struct neap_journal *journal, const struct neap_journal_row *row)
{
  size_t texts = strlen(row->by) + strlen(row->layer) + strlen(row->attr) + strlen(row->from) +
                 strlen(row->to) + 5;
  struct neap_journal_row *new = malloc(sizeof *new + texts);
  NEAP_ASSERT(new);
  char *room = (char *)(new + 1);
  *new = *row;
  new->by = copy(&room, row->by);
  new->layer = copy(&room, row->layer);
  new->attr = copy(&room, row->attr);
  new->from = copy(&room, row->from);
  new->to = copy(&room, row->to);
  struct neap_journal_row **at = &journal->rows[journal->written++ % NEAP_JOURNAL];
  free(*at);
  *at = new;
}

struct neap_journal_row *neap_journal_at(const struct neap_journal *journal, uint64_t n)
{
  if (n >= journal->written || journal->written - n > NEAP_JOURNAL) return NULL;
  return journal->rows[n % NEAP_JOURNAL];
}

void neap_journal_undone(struct neap_journal *journal, uint64_t set)
{
  for (unsigned i = 0; i < NEAP_JOURNAL; i++)
    if (journal->rows[i] && journal->rows[i]->set == set) journal->rows[i]->undone = true;
}

void neap_journal_free(struct neap_journal *journal)
{
  for (unsigned i = 0; i < NEAP_JOURNAL; i++) free(journal->rows[i]);
  *journal = (struct neap_journal){0};
}
