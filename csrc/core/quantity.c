/* quantity: times and sizes as text, both ways, without rounding.
 *
 * A text is read as digits and a power of ten, multiplied by its unit in 128 bits and refused when
 * the result is no whole number of nanoseconds or bytes.  Writing tries each unit and takes the
 * shortest text that is exact. */

#include "core/attr.h"

#include "base/text.h"
#include "core/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 wide;

static char lower(char c)
{
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Case aside; `b` ends after `len` bytes. */
static bool same(const char *a, const char *b, size_t len)
{
  for (size_t i = 0; i < len; i++)
    if (!a[i] || lower(a[i]) != lower(b[i])) return false;
  return !a[len];
}

/* ---- units ---- */

struct unit {
  const char *name;
  uint64_t size;
};

/* Largest first. */
static const struct unit times[] = {
  {"h", 3600000000000},
  {"min", 60000000000},
  {"s", 1000000000},
  {"ms", 1000000},
  {"us", 1000},
  {"ns", 1},
  {NULL, 0},
};
static const struct unit sizes[] = {
  {"GiB", 1073741824},
  {"GB", 1000000000},
  {"MiB", 1048576},
  {"MB", 1000000},
  {"KiB", 1024},
  {"KB", 1000},
  {"B", 1},
  {NULL, 0},
};

static const struct unit *units_of(const char *unit)
{
  if (!strcmp(unit, "ns")) return times;
  return !strcmp(unit, "bytes") ? sizes : NULL;
}

static const char *unit_list(const struct unit *units)
{
  return units == times ? "ns us ms s min h" : "B KB MB GB KiB MiB GiB";
}

/* ---- reading numbers ---- */

/* Longer numbers are refused: so no product with a unit overflows 128 bits. */
enum { DIGITS_MAX = 24, POWER_MAX = 40 };

struct decimal {
  wide digits;
  int power; /* of ten */
};

/* Reads 12, 1.5 or 1e3 and moves the text behind it. */
static bool read_decimal(const char **text, struct decimal *d)
{
  const char *at = *text;
  unsigned read = 0;
  bool point = false;
  *d = (struct decimal){0, 0};
  for (; (*at >= '0' && *at <= '9') || (*at == '.' && read && !point); at++) {
    if (*at == '.') {
      point = true;
      continue;
    }
    if (++read > DIGITS_MAX) return false;
    d->digits = d->digits * 10 + (unsigned)(*at - '0');
    d->power -= point;
  }
  if (!read || at[-1] == '.') return false;
  if (lower(*at) == 'e') {
    char *end;
    long power = strtol(at + 1, &end, 10);
    if (end == at + 1 || power > POWER_MAX || power < -POWER_MAX) return false;
    d->power += (int)power;
    at = end;
  }
  *text = at;
  return true;
}

enum scaled { EXACT, TOO_LARGE, TOO_FINE };

static enum scaled scale(struct decimal d, uint64_t unit, uint64_t *number)
{
  wide product = d.digits * unit;
  for (; d.power > 0 && product; d.power--) {
    if (product > UINT64_MAX) return TOO_LARGE;
    product *= 10;
  }
  for (; d.power < 0 && product; d.power++) {
    if (product % 10) return TOO_FINE;
    product /= 10;
  }
  if (product > UINT64_MAX) return TOO_LARGE;
  *number = (uint64_t)product;
  return EXACT;
}

/* Starts the sentence; the caller may add what is wrong. */
static struct neap_text cannot(const char *read, const char *unit, char *why, size_t size)
{
  const struct unit *units = units_of(unit);
  struct neap_text text = neap_text_of(why, size);
  neap_text_add(&text, "cannot read \"%.40s\" as %s", read,
    units == times   ? "a time such as \"50ms\""
    : units == sizes ? "a size such as \"4MB\""
                     : "a number such as 100");
  if (strstr(read, "${"))
    neap_text_add(&text, ": nothing is put in for ${}; write env(\"NAME\", default) instead");
  else if (read[strspn(read, " ")] == '-')
    neap_text_add(&text, ": it cannot be negative");
  return text;
}

/* The unit of this name, or NULL and the sentence. */
static const struct unit *read_unit(
  const char *name, size_t len, const char *read, const char *unit, char *why, size_t size)
{
  const struct unit *units = units_of(unit);
  for (const struct unit *u = units; u->name; u++)
    if (same(u->name, name, len)) return u;

  struct neap_text text = cannot(read, unit, why, size);
  if (!len)
    neap_text_add(&text, ": a number needs a unit (%s)", unit_list(units));
  else if (units == times && same("m", name, len))
    neap_text_add(&text, ": \"m\" could be minutes or milliseconds, say \"min\" or \"ms\"");
  else if (units == sizes && (same("m", name, len) || same("k", name, len) || same("g", name, len)))
    neap_text_add(&text, ": say \"%cB\" (thousands) or \"%ciB\" (1024s)", *name & ~32, *name & ~32);
  return NULL;
}

int neap_quantity_parse(
  const char *text, const char *unit, uint64_t *number, char *why, size_t size)
{
  const char *at = text + strspn(text, " ");
  struct decimal d;
  if (!read_decimal(&at, &d)) {
    cannot(text, unit, why, size);
    return NEAP_CONFIG;
  }
  at += strspn(at, " ");
  size_t len = strlen(at);
  while (len && at[len - 1] == ' ') len--;

  uint64_t factor = 1;
  if (units_of(unit) && (len || d.digits)) { /* 0 needs no unit. */
    const struct unit *u = read_unit(at, len, text, unit, why, size);
    if (!u) return NEAP_CONFIG;
    factor = u->size;
  } else if (len) {
    cannot(text, unit, why, size);
    return NEAP_CONFIG;
  }
  enum scaled scaled = scale(d, factor, number);
  if (scaled == EXACT) return 0;
  struct neap_text sentence = cannot(text, unit, why, size);
  if (scaled == TOO_LARGE)
    neap_text_add(&sentence, ": too large");
  else if (units_of(unit))
    neap_text_add(&sentence, ": finer than 1 %s", unit);
  else
    neap_text_add(&sentence, ": it has to be whole");
  return NEAP_CONFIG;
}

/* ---- writing numbers ---- */

/* Nine digits behind the point: what is finer has no use. */
static bool in_unit(uint64_t number, const struct unit *unit, char *text, size_t size)
{
  if (number < unit->size) return false; /* "500ms", not "0.5s" */
  struct neap_text t = neap_text_of(text, size);
  neap_text_add(&t, "%llu", (unsigned long long)(number / unit->size));
  wide rest = number % unit->size;
  for (unsigned i = 0; rest && i < 9; i++) {
    rest *= 10;
    neap_text_add(&t, "%s%u", i ? "" : ".", (unsigned)(rest / unit->size));
    rest %= unit->size;
  }
  neap_text_add(&t, "%s", unit->name);
  return !rest;
}

const char *neap_quantity_text(uint64_t number, const char *unit, char *text, size_t size)
{
  const struct unit *units = units_of(unit);
  if (!units || !number) {
    snprintf(text, size, "%llu", (unsigned long long)number);
    return text;
  }
  char best[48] = "", tried[48];
  for (const struct unit *u = units; u->name; u++)
    if (in_unit(number, u, tried, sizeof tried) && (!*best || strlen(tried) < strlen(best)))
      memcpy(best, tried, sizeof best);
  snprintf(text, size, "%s", best);
  return text;
}
