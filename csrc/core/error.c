#include "core/error.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *neap_code_text(int code)
{
  switch ((enum neap_code)code) {
  case NEAP_OK:
    return "ok";
#define X(name, value, text)                                                                       \
  case NEAP_##name:                                                                                \
    return text;
    NEAP_CODES(X)
#undef X
  }
  return "unknown";
}

int neap_trail(struct neap_trail *trail, int code, const char *format, ...)
{
  char before[NEAP_TRAIL_MAX];
  memcpy(before, trail->text, sizeof before);
  before[sizeof before - 1] = 0;

  va_list list;
  va_start(list, format);
  int len = vsnprintf(trail->text, sizeof trail->text, format, list);
  va_end(list);
  if (len < 0 || (size_t)len >= sizeof trail->text || !before[0]) return code;

  size_t at = (size_t)len;
  struct neap_text rest = neap_text_of(trail->text + at, sizeof trail->text - at);
  neap_text_add(&rest, ": %s", before);
  return code;
}
