/* error: what goes wrong at run time, as a negative code and a trail.
 *
 * Each floor that passes a failure on says what it was doing:
 *     nakack: cannot open: udp: bind 239.7.7.7:7600: address in use */

#ifndef NEAP_CORE_ERROR_H
#define NEAP_CORE_ERROR_H

/* X(NAME, value, text as Lua sees it). */
#define NEAP_CODES(X)                                                                              \
  X(TIMEOUT, -1, "timeout")                                                                        \
  X(CLOSED, -2, "closed")                                                                          \
  X(NOT_JOINED, -3, "not joined")                                                                  \
  X(NOT_A_MEMBER, -4, "not a member")                                                              \
  X(TOO_BIG, -5, "too big")                                                                        \
  X(WOULD_BLOCK, -6, "would block")                                                                \
  X(REFUSED, -7, "refused")                                                                        \
  X(RESET, -8, "reset")                                                                            \
  X(LEFT, -9, "left")                                                                              \
  X(SPLIT, -10, "split")                                                                           \
  X(NO_ANSWER, -11, "no answer")                                                                   \
  X(ADDRESS, -12, "address")                                                                       \
  X(SYSTEM, -13, "system")                                                                         \
  X(MEMORY, -14, "memory")                                                                         \
  X(CONFIG, -15, "config")

enum neap_code {
  NEAP_OK = 0,
#define X(name, value, text) NEAP_##name = value,
  NEAP_CODES(X)
#undef X
};

const char *neap_code_text(int code);

enum { NEAP_TRAIL_MAX = 512 };

struct neap_trail {
  char text[NEAP_TRAIL_MAX];
};

/* Puts "what: " before the trail, cutting its end if it grows too long; returns `code`. */
int neap_trail(struct neap_trail *trail, int code, const char *format, ...)
  __attribute__((format(printf, 3, 4)));

#endif
