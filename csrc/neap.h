/* neap.h: the public face, for C programs that are members of a group.
 *
 *     struct neap *neap = neap_new();
 *     struct neap_member *ann = neap_join(neap, "chat", "lan", "ann", &callbacks, NULL);
 *     neap_send(ann, NULL, "hello", 5, 0);
 *     while (neap_step(neap, 100) > 0) continue;
 *     neap_free(neap);
 *
 * The library brings its own Lua state, because stacks are Lua files.  One thread: all calls for
 * one `struct neap`, and all callbacks, happen on the thread that calls neap_step.  Callbacks are
 * called from inside neap_step and may call everything here but neap_step and neap_free.
 *
 * Calls that can fail return 0 or a negative NEAP_E_ code; neap_why says the rest in a sentence. */

#ifndef NEAP_H
#define NEAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NEAP_API __attribute__((visibility("default")))

struct neap;        /* a loop with its Lua state */
struct neap_member; /* one member's handle on a group */

/* Negative results. */
enum neap_error {
  NEAP_E_TIMEOUT = -1,
  NEAP_E_CLOSED = -2,
  NEAP_E_NOT_JOINED = -3,
  NEAP_E_NOT_A_MEMBER = -4,
  NEAP_E_TOO_BIG = -5,
  NEAP_E_WOULD_BLOCK = -6, /* no room now: on->writable is called when there is */
  NEAP_E_REFUSED = -7,
  NEAP_E_MISTAKE = -100,   /* of type, unit, range or configuration: neap_why explains */
};

/* A message, valid until the callback returns. */
struct neap_message {
  const char *from;  /* name of the sender */
  const char *to;    /* NULL: it went to everybody */
  const void *body;  /* NULL: a message without a body, which is not an empty one */
  size_t len;
  int oob;
};

/* Each may be NULL. */
struct neap_callbacks {
  void (*message)(struct neap_member *member, const struct neap_message *message, void *context);
  /* members in order, the coordinator first */
  void (*view)(struct neap_member *member, const char *id, const char *const *members,
    unsigned count, void *context);
  void (*writable)(struct neap_member *member, void *context);
  /* A synchronous send, or a set for all, ended: 0, or a code; missing names those who did not
   * answer, or "". */
  void (*done)(struct neap_member *member, int ticket, int code, const char *missing,
    void *context);
  void (*closed)(struct neap_member *member, const char *why, void *context);
};

enum neap_send_flags {
  NEAP_SEND_OOB = 1,        /* may overtake */
  NEAP_SEND_UNRELIABLE = 2, /* may be lost */
  NEAP_SEND_NO_LOOPBACK = 4, /* not to myself */
  NEAP_SEND_RSVP = 8,       /* `done` is called when every live member has answered */
};

/* NULL only when memory ran out or the library's Lua files are not there (neap_why()). */
NEAP_API struct neap *neap_new(void);
NEAP_API void neap_free(struct neap *neap); /* closes what is open */

/* Why the last call on this thread failed, in a sentence. */
NEAP_API const char *neap_why(void);

/* Joins `group` with a stack (a name or the path of a stack file).  The handle comes at once;
 * `view` is called when the first view is there, `closed` when it comes to nothing. */
NEAP_API struct neap_member *neap_join(struct neap *neap, const char *group, const char *stack,
  const char *name, const struct neap_callbacks *on, void *context);

/* To one member (its name) or, with `to` NULL, to all.  0, a ticket (> 0) for NEAP_SEND_RSVP, or
 * negative. */
NEAP_API int neap_send(
  struct neap_member *member, const char *to, const void *body, size_t len, unsigned flags);

/* Sets and reads by the words of the stack file: "stable.interval", "5s". */
NEAP_API int neap_set(struct neap_member *member, const char *attribute, const char *value);
/* The same at every member of the group, or at none: a ticket (> 0), or negative; `done` is called
 * when all have made it.  When they have not, `missing` names who did not answer or says why. */
NEAP_API int neap_set_all(struct neap_member *member, const char *attribute, const char *value);
NEAP_API int neap_get(
  struct neap_member *member, const char *attribute, char *value, size_t size);

NEAP_API void neap_leave(struct neap_member *member); /* in good order; `closed` follows */
NEAP_API void neap_close(struct neap_member *member); /* at once; twice is fine */

/* Runs the loop until something happened or `timeout_ms` passed (0: only what is due).  1: members
 * are open; 0: none is, nothing will happen any more; negative: a mistake. */
NEAP_API int neap_step(struct neap *neap, int timeout_ms);

/* For a foreign event loop: readable when neap_step(neap, 0) has work; and how long it may wait at
 * most, in ms (-1: until readable). */
NEAP_API int neap_fd(struct neap *neap);
NEAP_API int neap_wait(struct neap *neap);

#ifdef __cplusplus
}
#endif

#endif
