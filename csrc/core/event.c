#include "core/event.h"

#include "core/msg.h"
#include "core/peer.h"
#include "core/view.h"

#include <stdlib.h>

/* Names in lower case, as scripts and the trace show them; filled before main. */
enum { NAME_MAX_LEN = 24 };
static char names[NEAP_EVENTS][NAME_MAX_LEN];

static const char *const upper_names[] = {
#define EVENT(name, direction, payload, owner, doc, nobody) #name,
#include "core/events.def"
#undef EVENT
};

__attribute__((constructor)) static void fill_names(void)
{
  for (unsigned kind = 0; kind < NEAP_EVENTS; kind++) {
    const char *from = upper_names[kind];
    for (unsigned i = 0; from[i] && i < NAME_MAX_LEN - 1; i++)
      names[kind][i] = (char)(from[i] >= 'A' && from[i] <= 'Z' ? from[i] - 'A' + 'a' : from[i]);
  }
}

const char *neap_event_name(unsigned kind)
{
  return kind < NEAP_EVENTS ? names[kind] : "unknown";
}

void neap_event_drop(struct neap_event *event)
{
  if (event->peer) neap_peer_unref(event->peer);
  if (event->view) neap_view_unref(event->view);
  if (event->digest) neap_digest_unref(event->digest);
  if (event->found) neap_found_unref(event->found);
  if (event->msg) neap_msg_free(event->msg);
  event->peer = NULL;
  event->view = NULL;
  event->digest = NULL;
  event->found = NULL;
  event->msg = NULL;
}

struct neap_found *neap_found_new(uint32_t room)
{
  struct neap_found *found = calloc(1, sizeof *found + room * sizeof found->rows[0]);
  NEAP_ASSERT(found);
  found->refs = 1;
  found->room = room;
  return found;
}

void neap_found_add(struct neap_found *found, struct neap_found_row row)
{
  NEAP_ASSERT(found->count < found->room);
  neap_peer_ref(row.peer);
  found->rows[found->count++] = row;
}

void neap_found_unref(struct neap_found *found)
{
  if (!found) return;
  NEAP_ASSERT(found->refs);
  if (--found->refs) return;
  for (uint32_t i = 0; i < found->count; i++) neap_peer_unref(found->rows[i].peer);
  free(found);
}
