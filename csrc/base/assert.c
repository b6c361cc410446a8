#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

/* One witness per process: only the world that runs right now registers itself.  Thread-local, so
 * that two worlds on two threads do not speak for each other. */
static _Thread_local neap_witness *witness_now;
static _Thread_local void *witness_context;

void neap_assert_witness(neap_witness *witness, void *context)
{
  witness_now = witness;
  witness_context = context;
}

_Noreturn void neap_assert_failed(const char *belief, const char *file, int line)
{
  neap_witness *witness = witness_now;
  witness_now = NULL; /* A witness that itself breaks a belief must not come back here. */
  fprintf(stderr, "neap: %s:%d: this was believed and is not so: %s\n", file, line, belief);
  if (witness) witness(witness_context);
  fflush(stderr);
  abort();
}
