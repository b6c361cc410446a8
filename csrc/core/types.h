/* types: the words for the numbers that headers carry in a field called `type`: "msg" for 1 in a
 * nakack header.  Rules, descriptions and ladders speak them; the wire has the numbers. */

#ifndef NEAP_CORE_TYPES_H
#define NEAP_CORE_TYPES_H

#include "core/header.h"

struct neap_types {
  uint16_t protocol;        /* of the header */
  int16_t first;            /* the number of words[0] */
  const char *const *words; /* ended by NULL; "" where a number has no word */
};

/* All of them, ended by a row without words. */
extern const struct neap_types neap_type_words[];

/* The word for this type of this header; NULL when it has none. */
const char *neap_type_word(const struct neap_header *header, int64_t type);

#endif
