/* What rules leave of a packet.
 *
 * It is decoded message by message, only to find out where each begins and ends and what its
 * headers say.  What is left is put together from the bytes as they came:
 *
 *     [head, count 3][message][message][message]        the second fits a rule:
 *     [head, count 2][message]         [message]        arrives as if nothing had been there
 *     [head, count 1][message]                          if it is only delayed: flies by itself
 *
 * The first rule, in order of ids, that hits a message decides about it.  A packet that cannot be
 * read at all is one message without headers; what cannot be read behind the first messages of a
 * packet stays with the rest. */

#include "sim/net.h"

struct sifting {
  struct sim *sim;
  struct packet *packet;
  struct place *to;
  uint64_t at;
  struct reading reading;
  uint32_t passed;        /* messages looked at */
  struct neap_slab *slab; /* what is left goes here; NULL: still all of it */
  struct neap_writer w;
  uint32_t kept; /* messages in it */
  bool later;    /* a message flies by itself */
};

static size_t bytes_between(const uint8_t *from, const uint8_t *to)
{
  return (size_t)(to - from);
}

static struct neap_writer slab_writer(struct neap_slab *slab, const struct reading *reading)
{
  struct neap_writer w = {slab->at, slab->at + slab->size, false};
  neap_write_bytes(&w, reading->head, bytes_between(reading->head, reading->first));
  return w;
}

/* Makes what was written the packet; the slab is its own from now on. */
static void packet_of(struct packet *packet, const struct reading *reading, struct neap_slab *slab,
  const uint8_t *end, uint32_t count)
{
  if (reading->list)
    neap_packet_close(slab->at + bytes_between(reading->head, reading->first) - 4, count);
  packet->slab = slab;
  packet->bytes = slab->at;
  packet->len = slab->used = (uint32_t)bytes_between(slab->at, end);
  packet->digest = neap_sim_digest(packet->bytes, packet->len);
  packet->ruled = true;
}

static void fly_alone(struct sifting *s, uint64_t by)
{
  struct packet alone = *s->packet;
  struct neap_slab *slab = neap_slab_new(&s->sim->world, s->packet->len);
  struct neap_writer w = slab_writer(slab, &s->reading);
  neap_write_bytes(&w, s->reading.begin, bytes_between(s->reading.begin, s->reading.end));
  packet_of(&alone, &s->reading, slab, w.at, 1);
  neap_sim_fly(s->sim, &alone, s->to, s->at + by);
  neap_slab_free(&s->sim->world, slab);
  s->later = true;
}

/* The first that is taken out: all before it go into a slab of their own. */
static void part(struct sifting *s)
{
  if (s->slab) return;
  s->slab = neap_slab_new(&s->sim->world, s->packet->len);
  s->w = slab_writer(s->slab, &s->reading);
  neap_write_bytes(&s->w, s->reading.first, bytes_between(s->reading.first, s->reading.begin));
  s->kept = s->passed;
}

static void sift(struct sifting *s, const struct neap_msg *m)
{
  const struct rule *rule = neap_sim_rule_hit(s->sim, s->packet->from, s->to->host, m);
  if (rule && rule->act == NEAP_RULE_DELAY) s->sim->counts.delayed++;
  if (rule && rule->act == NEAP_RULE_DUPLICATE) s->sim->counts.duplicated++;
  if (rule && rule->act != NEAP_RULE_DROP) fly_alone(s, rule->rule.by);
  if (rule && rule->act != NEAP_RULE_DUPLICATE) {
    part(s);
  } else if (s->slab && !NEAP_IS_MUTANT(204)) {
    neap_write_bytes(&s->w, s->reading.begin, bytes_between(s->reading.begin, s->reading.end));
    s->kept++;
  }
  s->passed++;
}

enum rules_left neap_sim_rules(
  struct sim *sim, struct packet *packet, struct place *to, uint64_t at)
{
  if (!neap_sim_rules_for(sim, packet->from, to->host)) return RULES_LEFT_REST;
  struct sifting s = {.sim = sim, .packet = packet, .to = to, .at = at};
  const uint8_t *end = packet->bytes + packet->len;
  if (neap_sim_read(sim, &s.reading, packet->bytes, packet->len)) {
    uint32_t count = s.reading.list ? (uint32_t)s.reading.packet.left : 1;
    for (const struct neap_msg *m; (m = neap_sim_read_next(sim, &s.reading));) sift(&s, m);
    if (s.slab && s.passed < count) {
      neap_write_bytes(&s.w, s.reading.begin, bytes_between(s.reading.begin, end));
      s.kept += count - s.passed;
    }
  } else {
    s.reading = (struct reading){
      .head = packet->bytes, .first = packet->bytes, .begin = packet->bytes, .end = end};
    sift(&s, NULL);
  }
  if (!s.slab) return RULES_LEFT_REST;
  if (s.kept) {
    packet_of(packet, &s.reading, s.slab, s.w.at, s.kept);
    return RULES_LEFT_REST;
  }
  neap_slab_free(&sim->world, s.slab);
  return s.later ? RULES_LEFT_LATER : RULES_LEFT_NOTHING;
}
