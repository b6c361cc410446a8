/* The trace keeps the last moves; names of events; the trail of an error. */

#include "proof.h"

#include "core/trace.h"

#include <stdio.h>
#include <stdlib.h>

void proof_trace(void)
{
  struct proof p;
  proof_open(&p, 1);
  neap_trace_start(&p.world, 20);
  NEAP_ASSERT(p.world.trace->size == 32);
  for (uint64_t i = 1; i <= 100; i++)
    NEAP_TRACE(&p.world, p.layer, NEAP_MOVE_NOTE, "counted", 1, i);
  char *text = neap_trace_text(&p.world, 3), *line = text;
  for (int i = 98; i <= 100; i++) {
    char end[16];
    snprintf(end, sizeof end, "#%d\n", i);
    char *stop = strchr(line, '\n');
    NEAP_ASSERT(stop && strstr(line, "hole") && strstr(line, "ann") && strstr(line, end) < stop);
    line = stop + 1;
  }
  NEAP_ASSERT(!*line);
  free(text);
  text = neap_trace_text(&p.world, 1000);
  unsigned lines = 0;
  for (line = text; (line = strchr(line, '\n')); line++) lines++;
  NEAP_ASSERT(lines == 32);
  free(text);
  neap_trace_start(&p.world, 0);
  NEAP_TRACE(&p.world, p.layer, NEAP_MOVE_NOTE, "not written", 1, 0);
  text = neap_trace_text(&p.world, 10);
  NEAP_ASSERT(!*text);
  free(text);
  proof_close(&p);
}

void proof_events(void)
{
  NEAP_ASSERT(!strcmp(neap_event_name(NEAP_EVENT_DIGEST_GET), "digest_get"));
  for (unsigned kind = 0; kind < NEAP_EVENTS; kind++)
    NEAP_ASSERT(*neap_event_name(kind) && strlen(neap_event_name(kind)) < 23);

  struct neap_trail trail = {""};
  neap_trail(&trail, NEAP_ADDRESS, "bind %s: address in use", "239.7.7.7:7600");
  neap_trail(&trail, NEAP_ADDRESS, "udp");
  NEAP_ASSERT(neap_trail(&trail, NEAP_ADDRESS, "nakack: cannot open") == NEAP_ADDRESS);
  NEAP_ASSERT(!strcmp(trail.text, "nakack: cannot open: udp: bind 239.7.7.7:7600: address in use"));
  for (int i = 0; i < 100; i++) neap_trail(&trail, NEAP_ADDRESS, "again and again");
  NEAP_ASSERT(strlen(trail.text) == NEAP_TRAIL_MAX - 1);
  NEAP_ASSERT(!strcmp(neap_code_text(NEAP_WOULD_BLOCK), "would block"));

  struct proof p; /* An event gives up what it holds. */
  proof_open(&p, 1);
  struct neap_peer *peer = proof_peer(&p, 1);
  struct neap_found *found = neap_found_new(2);
  neap_found_add(found, (struct neap_found_row){.peer = peer});
  neap_found_add(found, (struct neap_found_row){.peer = peer});
  struct neap_event event = {
    .peer = neap_peer_ref(peer), .found = found, .msg = neap_msg_new(p.stack)};
  NEAP_ASSERT(peer->refs == 3);
  neap_event_drop(&event);
  NEAP_ASSERT(!peer->refs && !event.peer && !event.found && !event.msg);
  proof_close(&p);
}
