#include "core/trace.h"

#include "base/text.h"
#include "core/layer.h"

#include <stdlib.h>

/* A row as a line: 160 bytes hold the longest names and numbers. */
enum { LINE_MAX_LEN = 160 };

static const char *move_text(unsigned move)
{
  switch ((enum neap_move)move) {
  case NEAP_MOVE_UP:
    return "up";
  case NEAP_MOVE_DOWN:
    return "down";
  case NEAP_MOVE_EVENT_UP:
    return "event up";
  case NEAP_MOVE_EVENT_DOWN:
    return "event down";
  case NEAP_MOVE_TIMER:
    return "timer";
  case NEAP_MOVE_SENT:
    return "sent";
  case NEAP_MOVE_ARRIVED:
    return "arrived";
  case NEAP_MOVE_LOST:
    return "lost";
  case NEAP_MOVE_NOTE:
    return "note";
  }
  return "?";
}

void neap_trace_start(struct neap_world *world, uint32_t rows)
{
  free(world->trace);
  world->trace = NULL;
  if (!rows) return;
  uint32_t size = 16;
  while (size < rows && size < 1u << 24) size *= 2;
  world->trace = calloc(1, sizeof *world->trace + size * sizeof world->trace->rows[0]);
  NEAP_ASSERT(world->trace);
  world->trace->size = size;
}

static void copy(char *to, size_t size, const char *from)
{
  size_t i = 0;
  for (; from && from[i] && i + 1 < size; i++) to[i] = from[i];
  to[i] = 0;
}

void neap_trace_write(struct neap_world *world, const struct neap_layer *layer, enum neap_move move,
  const char *what, uint32_t count, uint64_t seqno)
{
  struct neap_trace *trace = world->trace;
  if (!trace) return;
  struct neap_trace_row *row = &trace->rows[trace->written++ & (trace->size - 1)];
  row->time = world->now;
  row->turn = world->turn;
  row->seqno = seqno;
  row->count = count;
  row->move = (uint8_t)move;
  row->layer = layer ? layer->class->name : "";
  const struct neap_peer *self = layer ? layer->stack->self : NULL;
  copy(row->member, sizeof row->member, self ? self->name : "");
  copy(row->what, sizeof row->what, what);
}

static void add_row(struct neap_text *text, const struct neap_trace_row *row)
{
  neap_text_add(text, "%12.6fms #%-6llu %-8s %-14s %-10s %s", (double)row->time / 1e6,
    (unsigned long long)row->turn, row->member, row->layer, move_text(row->move), row->what);
  if (row->count) neap_text_add(text, " x%u", row->count);
  if (row->seqno) neap_text_add(text, " #%llu", (unsigned long long)row->seqno);
  neap_text_add(text, "\n");
}

char *neap_trace_text(const struct neap_world *world, uint32_t rows)
{
  const struct neap_trace *trace = world->trace;
  uint64_t there = !trace ? 0 : trace->written < trace->size ? trace->written : trace->size;
  if (rows > there) rows = (uint32_t)there;
  size_t size = (size_t)rows * LINE_MAX_LEN + 1;
  char *at = malloc(size);
  NEAP_ASSERT(at);
  struct neap_text text = neap_text_of(at, size);
  for (uint64_t i = there ? trace->written - rows : 0; trace && i < trace->written; i++)
    add_row(&text, &trace->rows[i & (trace->size - 1)]);
  return at;
}
