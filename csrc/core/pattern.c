#include "core/pattern.h"

#include "core/packet.h"

/* Bytes that comparing and copying by words may touch behind what they are about. */
enum { SLACK = 32, NUMBER_MOST = 9, LENGTH = 4 };

static const uint64_t low_bytes[] = {0, 0xff, 0xffff, 0xffffff, 0xffffffff, 0xffffffffff,
  0xffffffffffff, 0xffffffffffffff, UINT64_MAX};

/* ---- matching ---- */

static inline uint64_t word_at(const uint8_t *at)
{
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

static inline bool same(const uint8_t *at, const uint64_t *want, uint32_t len)
{
  for (; len >= 8; len -= 8, at += 8, want++)
    if (word_at(at) != *want) return false;
  return !((word_at(at) ^ *want) & low_bytes[len]);
}

static inline void copy_words(uint8_t *to, const uint64_t *from, uint32_t count)
{
  for (; count >= 2; count -= 2, to += 16, from += 2) memcpy(to, from, 16);
  if (count) memcpy(to, from, 8);
}

/* Copies whole 16 bytes: a little more than asked for. */
static inline void copy(uint8_t *to, const void *from, uint32_t len)
{
  const uint8_t *at = from;
  for (uint32_t i = 0; i < len; i += 16) memcpy(to + i, at + i, 16);
}

static inline uint32_t big_32(const uint8_t *at)
{
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return __builtin_bswap32(value);
}

/* The slices of the pattern's head point into this packet from now on. */
static void base(struct neap_pattern *p, const uint8_t *front, const uint8_t *back)
{
  for (uint32_t i = 0; i < p->slice_count; i++) {
    const struct neap_pattern_slice *slice = &p->slices[i];
    const uint8_t *at = (slice->back ? back : front) + slice->to;
    memcpy(&p->head[slice->word], &at, sizeof at);
  }
  p->based = true;
}

static bool read(struct neap_pattern *p, struct neap_reader *r, struct neap_msg *m)
{
  const uint8_t *front = r->at, *at = front + p->front_len;
  if (neap_left(r) < p->front_len + NUMBER_MOST + p->back_len + LENGTH + 8) return false;
  if (!p->learned || !same(front, p->front, p->front_len)) return false;
  uint32_t width = *at;
  if (width > 8) return false;
  uint64_t number = word_at(at + 1) & low_bytes[width];
  const uint8_t *back = at + 1 + width, *body = back + p->back_len + LENGTH;
  if (!same(back, p->back, p->back_len)) return false;
  uint32_t len = big_32(body - LENGTH);
  if (len > (size_t)(r->end - body)) return false; /* No body at all, or a lie. */

  if (!p->based) base(p, front, back);
  for (uint32_t i = 0; i < p->slot_count; i++)
    copy_words((uint8_t *)m + p->slots[i].at, &p->head[p->slots[i].first], p->slots[i].count);
  memcpy((uint8_t *)m + p->number_at, &number, sizeof number);
  m->present = p->present;
  m->flags = p->flags;
  m->type = NEAP_TYPE_BYTES;
  m->marks = m->stray_below = 0;
  m->body = body;
  m->len = len;
  r->at = body + len;
  return true;
}

bool neap_patterns_read(struct neap_patterns *patterns, struct neap_reader *r, struct neap_msg *m,
  uint8_t *order, uint8_t *count)
{
  uint32_t i = patterns->used;
  if (!read(&patterns->pattern[i], r, m)) {
    i = !i;
    if (!read(&patterns->pattern[i], r, m)) return false;
    patterns->used = i;
  }
  memcpy(order, patterns->pattern[i].order, NEAP_PATTERN_SLOTS);
  *count = patterns->pattern[i].order_count;
  return true;
}

static bool heads_equal(const struct neap_pattern *p, const struct neap_msg *m)
{
  if (!p->learned || m->present != p->present || m->flags != p->flags) return false;
  for (uint32_t i = 0; i < p->slot_count; i++) {
    const struct neap_pattern_slot *slot = &p->slots[i];
    const uint8_t *at = (const uint8_t *)m + slot->at;
    const uint64_t *head = &p->head[slot->first], *mask = &p->mask[slot->first];
    for (uint32_t w = 0; w < slot->count; w++)
      if ((word_at(at + 8 * w) ^ head[w]) & mask[w]) return false;
  }
  return true;
}

static bool write(const struct neap_pattern *p, struct neap_writer *w, const struct neap_msg *m)
{
  if (!heads_equal(p, m)) return false;
  size_t most = p->front_len + NUMBER_MOST + p->back_len + LENGTH + SLACK;
  if ((size_t)(w->end - w->at) < most + m->len) return false;
  uint64_t number = word_at((const uint8_t *)m + p->number_at);
  uint32_t width = neap_compressed_width(number), len = __builtin_bswap32(m->len);
  uint8_t *at = w->at;
  copy(at, p->front, p->front_len);
  at += p->front_len;
  *at++ = (uint8_t)width;
  memcpy(at, &number, sizeof number);
  at += width;
  copy(at, p->back, p->back_len);
  at += p->back_len;
  memcpy(at, &len, sizeof len);
  at += LENGTH;
  if (m->len) memcpy(at, m->body, m->len);
  w->at = at + m->len;
  return true;
}

bool neap_patterns_write(
  struct neap_patterns *patterns, struct neap_writer *w, const struct neap_msg *m)
{
  if (m->type != NEAP_TYPE_BYTES || m->marks & NEAP_NULL_BODY) return false;
  uint32_t i = patterns->used;
  if (write(&patterns->pattern[i], w, m)) return true;
  i = !i;
  if (!write(&patterns->pattern[i], w, m)) return false;
  patterns->used = i;
  return true;
}

/* ---- learning ---- */

#define FORM(name, type) [NEAP_FORM_##name] = sizeof(type),
static const uint8_t form_size[] = {NEAP_FORMS(FORM)};
#undef FORM
#define FORM(name, type) [NEAP_FORM_##name] = __builtin_types_compatible_p(type, struct neap_slice),
static const bool form_slice[] = {NEAP_FORMS(FORM)};
#undef FORM
#define FORM(name, type) [NEAP_FORM_##name] = __builtin_types_compatible_p(type, struct neap_addr),
static const bool form_addr[] = {NEAP_FORMS(FORM)};
#undef FORM

/* A walk over a message that is known to be good. */
struct lesson {
  struct neap_pattern *p;
  const struct neap_msg *m;
  const uint8_t *begin, *number, *stable;
  struct neap_reader r;
};

/* From here on the bytes of the head at `at` count when a message is compared. */
static void mind(struct neap_pattern *p, uint32_t word, uint32_t at, uint32_t len)
{
  uint8_t *mask = (uint8_t *)&p->mask[word] + at;
  memset(mask, 0xff, len);
}

/* The slice's bytes must be at hand whenever the pattern is used. */
static bool learn_slice(struct lesson *l, uint32_t word, uint32_t at, const void *field)
{
  struct neap_pattern *p = l->p;
  struct neap_slice slice;
  memcpy(&slice, field, sizeof slice);
  mind(p, word, at, sizeof slice.at + sizeof slice.len);
  if (!slice.at) return true;
  if (l->stable) return slice.at == l->stable;
  if (p->slice_count == NEAP_PATTERN_SLICES || slice.at < l->begin) return false;
  bool back = l->number && slice.at > l->number;
  const uint8_t *from = back ? l->number + 1 + *l->number : l->begin;
  p->slices[p->slice_count++] =
    (struct neap_pattern_slice){0, word + at / 8, (uint32_t)(slice.at - from), back};
  return true;
}

/* One field that is there: reads over it in the packet, and says what of the head counts. */
static bool learn_field(
  struct lesson *l, const struct neap_slot *slot, const struct neap_field *field, uint32_t word)
{
  const uint8_t *in_head = (const uint8_t *)neap_slot_at(slot, l->m) + field->at;
  _Alignas(8) uint8_t scratch[sizeof(struct neap_addr)];
  const uint8_t *at = l->r.at;
  neap_form_read(&l->r, field->form, scratch);
  if (l->r.fault) return false;
  if (field->form == NEAP_FORM_clong) {
    if (l->number) return false;
    l->number = at;
    l->p->number_at = slot->at + field->at;
    return true;
  }
  if (form_slice[field->form]) return learn_slice(l, word, 8 + field->at, in_head);
  if (form_addr[field->form]) {
    struct neap_addr addr;
    memcpy(&addr, in_head, sizeof addr);
    if (addr.kind != NEAP_ADDR_UUID && addr.kind != NEAP_ADDR_IP && addr.kind != NEAP_ADDR_NONE)
      return false; /* It points to bytes of its own. */
  }
  mind(l->p, word, 8 + field->at, form_size[field->form]);
  return true;
}

static bool learn_header(struct lesson *l, const struct neap_registry *registry)
{
  struct neap_pattern *p = l->p;
  uint16_t protocol = neap_read_u16(&l->r), class = neap_read_u16(&l->r);
  unsigned number, form;
  if (l->r.fault || !neap_registry_find(registry, protocol, class, &number, &form)) return false;
  if (p->slot_count == NEAP_PATTERN_SLOTS || neap_header_own(protocol, class)) return false;
  const struct neap_slot *slot = &registry->slots[number];
  uint32_t words = 1 + (slot->size + 7u) / 8, word = 0;
  if (p->slot_count) word = p->slots[p->slot_count - 1].first + p->slots[p->slot_count - 1].count;
  if (word + words > NEAP_PATTERN_HEAD) return false;
  p->order[p->slot_count] = (uint8_t)number;
  p->slots[p->slot_count++] = (struct neap_pattern_slot){slot->at - 8, word, words};
  memcpy(&p->head[word], (const uint8_t *)l->m + slot->at - 8, 8 * words);
  mind(p, word, 0, 1);
  for (uint32_t f = 0; f < slot->field_count; f++)
    if (neap_field_present(&slot->fields[f], neap_slot_at(slot, l->m)))
      if (!learn_field(l, slot, &slot->fields[f], word)) return false;
  return true;
}

static bool learn(struct lesson *l, const struct neap_registry *registry)
{
  struct neap_pattern *p = l->p;
  uint16_t type = neap_read_u16(&l->r);
  uint8_t lead = neap_read_u8(&l->r);
  p->flags = neap_read_u16(&l->r);
  uint16_t headers = neap_read_u16(&l->r);
  if (type != NEAP_TYPE_BYTES || lead || l->m->marks & (NEAP_STRAY | NEAP_NULL_BODY)) return false;
  for (; headers; headers--)
    if (!learn_header(l, registry)) return false;
  if (l->r.fault || !l->number) return false;
  const uint8_t *back = l->number + 1 + *l->number;
  p->front_len = (uint32_t)(l->number - l->begin);
  p->back_len = (uint32_t)(l->r.at - back);
  if (p->front_len > 8 * NEAP_PATTERN_WORDS || p->back_len > 8 * NEAP_PATTERN_WORDS) return false;
  memcpy(p->front, l->begin, p->front_len);
  memcpy(p->back, back, p->back_len);
  p->order_count = p->slot_count;
  p->present = l->m->present;
  return true;
}

void neap_patterns_missed(struct neap_patterns *patterns, const struct neap_registry *registry,
  const uint8_t *bytes, size_t len, const struct neap_msg *m, const uint8_t *stable)
{
  if (m->type != NEAP_TYPE_BYTES) return;
  bool again = patterns->missed_present == m->present && patterns->missed_flags == m->flags;
  patterns->missed_present = m->present;
  patterns->missed_flags = m->flags;
  if (!again) return;
  struct neap_pattern *p = &patterns->pattern[!patterns->used]; /* Not the one that serves now. */
  struct lesson lesson = {
    .p = p, .m = m, .begin = bytes, .stable = stable, .r = neap_reader_of(bytes, len)};
  *p = (struct neap_pattern){0};
  p->learned = learn(&lesson, registry);
}
