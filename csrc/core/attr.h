/* attr: one row per thing that can be set or read.
 *
 * The row serves stack validation, help, the generated reference, the prompt, metrics and run-time
 * change.  Numbers are uint64_t in the layer's struct (times in nanoseconds, sizes in bytes),
 * REAL is double, BOOL is bool, CHOICE is uint64_t (index into the words of `choices`), TEXT is
 * char * owned by the stack (malloc'ed by neap_attr_put).  A max of 0 is no upper bound; special
 * words may lie outside the range.  `words` names special numbers:
 * "auto=0 tick=18446744073709551615".
 *
 * Text forms are the same at load and at run time: "500ms", "4MB", "on", "nak". */

#ifndef NEAP_CORE_ATTR_H
#define NEAP_CORE_ATTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct neap_layer;
struct neap_class;

enum neap_attr_kind { NEAP_END, NEAP_PARAM, NEAP_GAUGE, NEAP_COUNTER };
enum neap_attr_type { NEAP_NUMBER, NEAP_BOOL, NEAP_CHOICE, NEAP_TEXT, NEAP_REAL };

/* When a set takes effect.  ORDER: neap_live_text. */
enum neap_live {
  NEAP_NO,    /* with the stack file only */
  NEAP_NOW,   /* at the next use */
  NEAP_TICK,  /* at the next round */
  NEAP_TIMER, /* reschedules its timer at once */
};

struct neap_attr {
  uint8_t kind; /* enum neap_attr_kind; a row of kind NEAP_END ends the table */
  const char *name;
  uint16_t at;      /* offset in the layer's struct */
  const char *unit; /* "ns", "bytes", "messages", "members", "packets", "" ... */
  uint64_t value, min, max; /* default and range; for REAL in millionths */
  uint8_t type;     /* enum neap_attr_type */
  uint8_t live;     /* enum neap_live */
  const char *choices, *words, *text; /* text: default of a TEXT */
  const char *doc;  /* what, when a set takes effect on pending work, what 0 means */
  /* TEXT: what such a text should have been ("an address such as 127.0.0.1"); NULL: it is good. */
  const char *(*refuse)(const char *text);
  bool or_zero; /* 0, for off, besides min .. max: a period of nearly nothing is a busy loop */
};

/* A value on its way in or out. */
struct neap_value {
  uint8_t type; /* enum neap_attr_type */
  uint64_t number; /* NUMBER, CHOICE, BOOL */
  double real;
  const char *text;
};

/* The row of this name, or NULL. */
const struct neap_attr *neap_attr_find(const struct neap_class *class, const char *name);

/* The parameter that was meant: the row that the field calls `name`, else the nearest; or NULL. */
const char *neap_attr_nearest(const struct neap_class *class, const char *name);

/* Says that the layer has no such parameter, with the nearest name or that it can only be read. */
void neap_attr_unknown(
  const struct neap_class *class, const char *layer, const char *name, char *why, size_t size);

/* The row's default. */
struct neap_value neap_attr_default(const struct neap_attr *attr);

/* Reads text as this row's kind of value: type, unit, range, words, choices.  0, or negative and
 * `why` holds what was expected: `cannot read "20 parsecs" as a time such as "50ms"`. */
int neap_attr_parse(
  const struct neap_attr *attr, const char *text, struct neap_value *value, char *why, size_t size);

/* The same for a bare number: only counts (no unit of time or size), and 0 for anything. */
int neap_attr_number(
  const struct neap_attr *attr, double number, struct neap_value *value, char *why, size_t size);

/* What it is set to, as text that neap_attr_parse reads. */
const char *neap_attr_text(
  const struct neap_attr *attr, const struct neap_value *value, char *text, size_t size);

/* Reads from and writes to a layer, without calling `changed`. */
struct neap_value neap_attr_get(const struct neap_layer *layer, const struct neap_attr *attr);
void neap_attr_put(
  struct neap_layer *layer, const struct neap_attr *attr, const struct neap_value *value);

const char *neap_live_text(unsigned live);

/* "1.5s", "40ms", "4MB": the shortest text that reads back exactly. */
const char *neap_quantity_text(uint64_t number, const char *unit, char *text, size_t size);

/* Units: ns us ms s min h; B KB MB GB KiB MiB GiB, in either case. */
int neap_quantity_parse(
  const char *text, const char *unit, uint64_t *number, char *why, size_t size);

#endif
