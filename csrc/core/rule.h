/* rule: which messages somebody means, and how often.
 *
 * A rule is rows of a name and a value:
 *
 *     layer=nakack type=msg seqno=5 from=ann body="x y" times=1
 *
 * Reserved names: from, to (members), layer (whose header), body (bytes), times (how often it may
 * hit), probability, by (a time, for who delays).  Every other name is a field of a header, and all
 * fields must fit one header of the message, of the rule's layer if it names one.  `type` may be
 * given by name: "msg", "xmit_req", "view"; an address by the name of a member.
 *
 * The simulator asks rules about packets on their way (csrc/sim/rule.c), the layers that break
 * things on purpose about what passes them (csrc/layers/chosen).  Each rule has a stream of chances
 * of its own, so one does not disturb the other. */

#ifndef NEAP_CORE_RULE_H
#define NEAP_CORE_RULE_H

#include "base/random.h"
#include "core/registry.h"

enum { NEAP_RULE_ROWS_MAX = 32, NEAP_RULE_TEXT = 512 };

struct neap_rule_row {
  const char *name;
  const char *text; /* NULL: `number` */
  size_t len;       /* of text */
  double number;
};

struct neap_rule {
  struct neap_random random; /* the owner seeds it */
  uint64_t times, hits, by;
  double probability;
  char *from, *to, *layer, *body; /* NULL: any */
  size_t body_len;
  struct neap_rule_row *fields; /* what has to fit one header; texts are the rule's */
  uint32_t field_count;
};

/* Where messages come from that a rule is asked about: their headers, and who is called what. */
struct neap_rule_scene {
  const struct neap_registry *registry;
  bool (*address)(const void *context, const char *name, struct neap_addr *addr);
  const void *context;
};

/* Makes a rule of rows; each is checked: could it ever fit?  0, or negative and `why` says which
 * row is wrong and what was expected; then there is nothing to free. */
int neap_rule_make(struct neap_rule *rule, const struct neap_registry *registry,
  const struct neap_rule_row *rows, uint32_t count, char *why, size_t size);

/* Reads the form of the picture into rows that lie in `text`, which it takes apart.  A text with
 * spaces or one that looks like a number stands in quotes; \xff is any byte.  How many rows, or
 * negative. */
int neap_rule_read(
  char *text, struct neap_rule_row rows[NEAP_RULE_ROWS_MAX], char *why, size_t size);

void neap_rule_free(struct neap_rule *rule);

/* Do headers and body fit?  `m` NULL: bytes that could not be decoded. */
bool neap_rule_fits(
  const struct neap_rule *rule, const struct neap_rule_scene *scene, const struct neap_msg *m);

/* It fits; does it hit?  Counts if so. */
bool neap_rule_hit(struct neap_rule *rule);

#endif
