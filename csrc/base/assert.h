/* assert: a belief that is always checked.
 *
 * A broken belief is our bug, never the user's and never the wire's.  It prints what was believed,
 * where, and whatever the running world registered as its witness (seed, turn, last moves), and
 * aborts. */

#ifndef NEAP_BASE_ASSERT_H
#define NEAP_BASE_ASSERT_H

/* Called once before the abort, to print seed, turn and last moves.  A world registers itself. */
typedef void neap_witness(void *context);

void neap_assert_witness(neap_witness *witness, void *context);
_Noreturn void neap_assert_failed(const char *belief, const char *file, int line);

#define NEAP_ASSERT(belief)                                                                        \
  (__builtin_expect(!(belief), 0) ? neap_assert_failed(#belief, __FILE__, __LINE__) : (void)0)

/* A fault of spec/mutants.md, compiled in by make MUTANT=n; a spec must kill each. */
#ifdef NEAP_MUTANT
#define NEAP_IS_MUTANT(n) (NEAP_MUTANT == (n))
#else
#define NEAP_IS_MUTANT(n) 0
#endif

#endif
