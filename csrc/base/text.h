/* text: bounded text, and the nearest of the words that somebody may have meant.
 *
 * A builder writes into a buffer that it was given, never beyond it; what does not fit is cut, at a
 * byte, and the text always ends in a zero. */

#ifndef NEAP_BASE_TEXT_H
#define NEAP_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct neap_text {
  char *at;
  size_t size, len; /* len < size */
  bool cut;         /* something did not fit */
};

/* An empty text in this buffer, which has room for at least one byte. */
struct neap_text neap_text_of(char *at, size_t size);

void neap_text_add(struct neap_text *text, const char *format, ...)
  __attribute__((format(printf, 2, 3)));

/* Letters to change, add, leave out or swap with their neighbour to make `b` of `a`, case aside
 * (optimal string alignment).  Words longer than NEAP_WORD_MAX are as far away as can be. */
enum { NEAP_WORD_MAX = 63 };
unsigned neap_text_distance(const char *a, const char *b);

/* Looks for the word that is nearest to `wanted`:
 *     struct neap_nearest near = neap_nearest_to("windw");
 *     for each word: neap_nearest_offer(&near, word);
 *     near.word     NULL when nothing is near enough to be meant; of equals the first offered */
struct neap_nearest {
  const char *wanted, *word;
  unsigned distance; /* of `word`; before there is one, the first that is too far */
};

struct neap_nearest neap_nearest_to(const char *wanted);
void neap_nearest_offer(struct neap_nearest *nearest, const char *word);

/* Adds " (did you mean 'window'?)" when there is such a word. */
void neap_nearest_add(struct neap_text *text, const struct neap_nearest *nearest);

#endif
