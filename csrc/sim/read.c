/* Reading packets that others sent: for rules, for the log, for a person.
 *
 * One registry holds every header that anybody in this world may send: those of core/headers, those
 * of the layers in its stacks, and those it was told of.  Messages are decoded one after the other
 * into one descriptor that belongs to no stack. */

#include "sim/net.h"

#include "base/text.h"
#include "core/headers.h"
#include "core/seqnos.h"
#include "core/types.h"

#include <inttypes.h>
#include <stdlib.h>

void neap_sim_know(struct neap_world *world, const struct neap_header *headers)
{
  struct sim *sim = neap_sim_of(world);
  unsigned slot, form;
  char why[160];
  while (headers->name &&
         neap_registry_find(&sim->registry, headers->protocol, headers->class, &slot, &form))
    headers++;
  /* A clash or a lack of room only means that rules and the log do not know these. */
  if (headers->name) neap_registry_add(&sim->registry, headers, 0, NULL, why, sizeof why);
}

const struct neap_registry *neap_sim_registry(const struct neap_world *world)
{
  return &neap_sim_of(world)->registry;
}

bool neap_sim_read(struct sim *sim, struct reading *reading, const uint8_t *bytes, uint32_t len)
{
  if (len < 3) return false;
  /* Whatever version a stack of this world speaks, it is read. */
  uint16_t version = (uint16_t)(bytes[0] << 8 | bytes[1]);
  if (!neap_packet_open(&reading->packet, &sim->registry, bytes, len, version)) return false;
  reading->head = bytes;
  reading->end = reading->packet.r.at;
  reading->list = (bytes[2] & NEAP_PACKET_LIST) != 0;
  reading->first = reading->end;
  if (sim->scratch_size >= sim->registry.size) return true;
  free(sim->scratch);
  sim->scratch_size = sim->registry.size;
  sim->scratch = calloc(1, sim->scratch_size);
  NEAP_ASSERT(sim->scratch);
  return true;
}

const struct neap_msg *neap_sim_read_next(struct sim *sim, struct reading *reading)
{
  memset(sim->scratch, 0, sizeof *sim->scratch);
  reading->begin = reading->end;
  if (!neap_packet_next(&reading->packet, sim->scratch, &reading->arrival)) return NULL;
  reading->end = reading->packet.r.at;
  return sim->scratch;
}

/* ---- for a person ---- */

static void add_number(struct neap_text *text, const struct neap_header *header,
  const struct neap_field *field, const void *head)
{
  if (!neap_field_is_number(field->form)) return;
  int64_t number = neap_field_number(field, head);
  const char *word = strcmp(field->name, "type") ? NULL : neap_type_word(header, number);
  if (word)
    neap_text_add(text, " %s", word);
  else
    neap_text_add(text, " %s=%" PRId64, field->name, number);
}

/* What a request asks for: "asks 5 7..9". */
enum { RUNS_SHOWN = 6 };

static void add_seqnos(struct neap_text *text, struct neap_seqnos *it)
{
  uint64_t seqno = 0, first = 0, last = 0;
  unsigned runs = 0;
  neap_text_add(text, ", asks");
  for (bool more = true; more;) {
    more = neap_seqnos_next(it, &seqno);
    if (more && runs && seqno == last + 1) {
      last = seqno;
      continue;
    }
    if (runs && first == last) neap_text_add(text, " %" PRIu64, first);
    if (runs && first != last) neap_text_add(text, " %" PRIu64 "..%" PRIu64, first, last);
    first = last = seqno;
    if (more && ++runs > RUNS_SHOWN) {
      neap_text_add(text, " ...");
      return;
    }
  }
}

static void add_message(struct sim *sim, struct neap_text *text, const struct reading *reading)
{
  const struct neap_msg *m = sim->scratch;
  bool any = false;
  for (unsigned i = 0; i < reading->arrival.order_count; i++) {
    const struct neap_slot *slot = &sim->registry.slots[reading->arrival.order[i]];
    const struct neap_header *header = slot->forms[*neap_slot_form(slot, m)];
    const void *head = neap_slot_at(slot, m);
    unsigned count;
    const struct neap_field *fields = neap_header_fields(header, &count);
    if (header->protocol == NEAP_P_TP) continue; /* On every message. */
    neap_text_add(text, "%s%s", any ? ", " : "", header->name);
    any = true;
    for (unsigned f = 0; f < count; f++)
      if (neap_field_present(&fields[f], head)) add_number(text, header, &fields[f], head);
  }
  struct neap_seqnos asked;
  if (neap_seqnos_of(&asked, m))
    add_seqnos(text, &asked);
  else
    neap_text_add(text, "%s%u B", any ? ", " : "", m->len);
}

const char *neap_sim_describe(
  struct neap_world *world, const uint8_t *at, uint32_t len, char *out, size_t size)
{
  struct sim *sim = neap_sim_of(world);
  struct neap_text text = neap_text_of(out, size);
  struct reading reading;
  bool any = false;
  if (neap_sim_read(sim, &reading, at, len)) {
    for (; neap_sim_read_next(sim, &reading); any = true) {
      if (any) neap_text_add(&text, " | ");
      add_message(sim, &text, &reading);
    }
  }
  if (!any) neap_text_add(&text, "%u bytes of no known kind", len);
  return out;
}
