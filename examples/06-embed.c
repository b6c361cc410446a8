/* A C program that is a member of a group: it greets, waits until all have the greeting, leaves.
 *
 *     make install PREFIX=$HOME/neap; export PKG_CONFIG_PATH=$HOME/neap/lib/pkgconfig
 *     cc 06-embed.c $(pkg-config --cflags --libs neap) -o embed && ./embed ann */

#include <neap.h>

#include <stdio.h>

static int done;

static void on_view(struct neap_member *m, const char *id, const char *const *members,
  unsigned count, void *context)
{
  (void)context;
  printf("view %s:", id);
  for (unsigned i = 0; i < count; i++) printf(" %s", members[i]);
  printf("\n");
  if (count == 1) neap_send(m, NULL, "hello from C", 12, NEAP_SEND_RSVP);
}

static void on_message(struct neap_member *m, const struct neap_message *message, void *context)
{
  (void)m;
  (void)context;
  printf("%s: %.*s\n", message->from, (int)message->len, (const char *)message->body);
}

static void on_done(
  struct neap_member *m, int ticket, int code, const char *missing, void *context)
{
  (void)context;
  char interval[32];
  printf("%d: %s%s\n", ticket, code == 0 ? "everybody has it" : "missing ", missing);
  if (ticket == 1) { /* The send.  Now a setting, for everybody. */
    if (neap_set_all(m, "stable.interval", "5s") < 0) printf("refused: %s\n", neap_why());
    return;
  }
  if (neap_get(m, "stable.interval", interval, sizeof interval) == 0)
    printf("stable.interval is %s\n", interval);
  if (neap_set(m, "stable.interval", "5 parsecs") < 0) printf("refused: %s\n", neap_why());
  neap_leave(m);
}

static void on_closed(struct neap_member *m, const char *why, void *context)
{
  (void)m;
  (void)context;
  printf("closed: %s\n", why);
  done = 1;
}

int main(int argc, char **argv)
{
  struct neap_callbacks on = {
    .view = on_view, .message = on_message, .done = on_done, .closed = on_closed};
  struct neap *neap = neap_new();
  if (!neap || !neap_join(neap, "embedded", "lan", argc > 1 ? argv[1] : "ann", &on, NULL)) {
    fprintf(stderr, "cannot join: %s\n", neap_why());
    neap_free(neap);
    return 1;
  }
  while (!done && neap_step(neap, 100) >= 0) continue;
  neap_free(neap);
  return 0;
}
