/* Times and sizes read back exactly what was written, and the text is the shortest. */

#include "proof.h"

#include <stdio.h>

static void reads(const char *text, const char *unit, uint64_t number)
{
  uint64_t read;
  char why[200];
  NEAP_ASSERT(!neap_quantity_parse(text, unit, &read, why, sizeof why) && read == number);
}

static void refuses(const char *text, const char *unit, const char *words)
{
  uint64_t read;
  char why[200] = "";
  NEAP_ASSERT(neap_quantity_parse(text, unit, &read, why, sizeof why) < 0);
  NEAP_ASSERT(strstr(why, words));
}

static void writes(uint64_t number, const char *unit, const char *text)
{
  char written[48];
  NEAP_ASSERT(!strcmp(neap_quantity_text(number, unit, written, sizeof written), text));
}

void proof_quantity(void)
{
  struct neap_random r;
  neap_random_seed(&r, 1);
  for (int i = 0; i < 20000; i++) {
    char text[48], why[200];
    const char *unit = i % 3 == 0 ? "ns" : i % 3 == 1 ? "bytes" : "messages";
    uint64_t number = neap_random_next(&r) >> neap_random_below(&r, 64), read;
    if (neap_random_chance(&r, 0.3)) number = number / 1000 * 1000;
    neap_quantity_text(number, unit, text, sizeof text);
    NEAP_ASSERT(!neap_quantity_parse(text, unit, &read, why, sizeof why) && read == number);
  }
  reads("500ms", "ns", NEAP_MS(500));
  reads("0.5 MIN", "ns", NEAP_S(30));
  reads("1e3ms", "ns", NEAP_S(1));
  reads("0", "ns", 0);
  reads("2mb", "bytes", 2000000);
  reads("2 MiB", "bytes", 2 << 20);
  reads("18446744073709551615", "messages", UINT64_MAX);
  refuses("2m", "ns", "\"m\" could be minutes or milliseconds");
  refuses("2m", "bytes", "say \"MB\"");
  refuses("500", "ns", "a number needs a unit (ns us ms s min h)");
  refuses("10 parsecs", "ns", "cannot read \"10 parsecs\" as a time such as \"50ms\"");
  refuses("-1", "messages", "it cannot be negative");
  refuses("", "messages", "a number such as 100");
  refuses("0.5ns", "ns", "finer than 1 ns");
  refuses("1e30", "messages", "too large");
  refuses("18446744073709551616", "messages", "too large");
  refuses("${TIMEOUT}", "ns", "env(");
  writes(NEAP_S(20), "ns", "20s");
  writes(NEAP_MS(1500), "ns", "1.5s");
  writes(NEAP_MS(40), "ns", "40ms");
  writes(NEAP_S(3600), "ns", "1h");
  writes(4000000, "bytes", "4MB");
  writes(65536, "bytes", "64KiB");
  writes(0, "bytes", "0");
}
