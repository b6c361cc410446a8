#include "base/text.h"

#include "base/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct neap_text neap_text_of(char *at, size_t size)
{
  NEAP_ASSERT(size > 0);
  at[0] = 0;
  return (struct neap_text){.at = at, .size = size};
}

void neap_text_add(struct neap_text *text, const char *format, ...)
{
  size_t room = text->size - text->len;
  va_list list;
  va_start(list, format);
  int wanted = vsnprintf(text->at + text->len, room, format, list);
  va_end(list);
  if (wanted < 0) return; /* An impossible character: nothing is added. */
  text->cut |= (size_t)wanted >= room;
  text->len += (size_t)wanted < room ? (size_t)wanted : room - 1;
}

static char lower(char c)
{
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static unsigned least(unsigned a, unsigned b)
{
  return a < b ? a : b;
}

unsigned neap_text_distance(const char *a, const char *b)
{
  size_t la = strlen(a), lb = strlen(b);
  if (la > NEAP_WORD_MAX || lb > NEAP_WORD_MAX) return NEAP_WORD_MAX + 1;

  /* Three rows of the table: two letters back (for swaps), one back, this one. */
  unsigned rows[3][NEAP_WORD_MAX + 1];
  for (size_t j = 0; j <= lb; j++) rows[0][j] = (unsigned)j;
  for (size_t i = 1; i <= la; i++) {
    unsigned *now = rows[i % 3], *back = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];
    now[0] = (unsigned)i;
    for (size_t j = 1; j <= lb; j++) {
      char x = lower(a[i - 1]), y = lower(b[j - 1]);
      now[j] = least(back[j - 1] + (x != y), least(back[j], now[j - 1]) + 1);
      if (i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y)
        now[j] = least(now[j], before[j - 2] + 1);
    }
  }
  return rows[la % 3][lb];
}

struct neap_nearest neap_nearest_to(const char *wanted)
{
  /* A third of the letters may be wrong, one always: beyond that a guess is noise, not help. */
  unsigned tolerance = (unsigned)strlen(wanted) / 3;
  return (struct neap_nearest){.wanted = wanted, .distance = (tolerance ? tolerance : 1) + 1};
}

void neap_nearest_offer(struct neap_nearest *nearest, const char *word)
{
  unsigned distance = neap_text_distance(nearest->wanted, word);
  if (distance >= nearest->distance) return;
  nearest->distance = distance;
  nearest->word = word;
}

void neap_nearest_add(struct neap_text *text, const struct neap_nearest *nearest)
{
  if (nearest->word) neap_text_add(text, " (did you mean '%s'?)", nearest->word);
}
