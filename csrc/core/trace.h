/* trace: the last moves, in a ring.  A line per move: time, turn, member, layer, direction, what.
 * Off costs one test; on costs one small copy.  An assertion prints its tail. */

#ifndef NEAP_CORE_TRACE_H
#define NEAP_CORE_TRACE_H

#include "core/world.h"

enum neap_move {
  NEAP_MOVE_UP, NEAP_MOVE_DOWN,     /* a batch goes into a layer */
  NEAP_MOVE_EVENT_UP, NEAP_MOVE_EVENT_DOWN,
  NEAP_MOVE_TIMER, NEAP_MOVE_SENT, NEAP_MOVE_ARRIVED, NEAP_MOVE_LOST, NEAP_MOVE_NOTE,
};

struct neap_trace_row {
  uint64_t time, turn, seqno;
  const char *layer;  /* class names live as long as the process */
  char member[16];
  char what[40];      /* event name, header type, reason */
  uint32_t count;     /* messages */
  uint8_t move;       /* enum neap_move */
};

struct neap_trace {
  uint64_t written;   /* rows so far; the last `size` are there */
  uint32_t size;      /* a power of two */
  struct neap_trace_row rows[];
};

/* Starts a ring of `rows` (rounded up); 0 turns it off. */
void neap_trace_start(struct neap_world *world, uint32_t rows);

void neap_trace_write(struct neap_world *world, const struct neap_layer *layer,
  enum neap_move move, const char *what, uint32_t count, uint64_t seqno);

#define NEAP_TRACE(world, ...)                                                                     \
  ((world)->trace ? neap_trace_write(world, __VA_ARGS__) : (void)0)

/* The last `rows` as lines of text, oldest first; malloc'ed. */
char *neap_trace_text(const struct neap_world *world, uint32_t rows);

#endif
