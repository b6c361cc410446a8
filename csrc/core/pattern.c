#include "core/pattern.h"

#include "core/packet.h"

/* Bytes that comparing and copying by words may touch behind what they are about. */
enum { SLACK = 32, NUMBER_MOST = 9, LENGTH = 4 };
enum { LEAD = 5 }; /* type, leading byte, flags: what stands before addresses */

static const uint64_t low_bytes[] = {0, 0xff, 0xffff, 0xffffff, 0xffffffff, 0xffffffffff,
  0xffffffffffff, 0xffffffffffffff, UINT64_MAX};

/* ---- matching ---- */

static inline uint64_t word_at(const uint8_t *at)
{
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

/* The first 16 bytes are compared at once: mostly that is all. */
static inline bool same(const uint8_t *at, const uint64_t *want, const uint64_t *mask, uint32_t len)
{
  if (((word_at(at) ^ want[0]) & mask[0]) | ((word_at(at + 8) ^ want[1]) & mask[1])) return false;
  return __builtin_expect(len <= 16, 1) || !memcmp(at + 16, want + 2, len - 16);
}

/* Copies whole 16 bytes: a little more than asked for. */
static inline void copy(uint8_t *to, const void *from, uint32_t len)
{
  memcpy(to, from, 16);
  for (uint32_t i = 16; i < len; i += 16) memcpy(to + i, (const uint8_t *)from + i, 16);
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

/* A slot's part of the head, and what is behind it up to a whole block. */
static inline void copy_slots(const struct neap_pattern *p, struct neap_msg *m)
{
  const struct neap_pattern_slot *s = p->slots, *end = s + p->slot_count;
  for (; s < end; s++) memcpy((uint8_t *)m + s->at, p->head + s->first, 8 * NEAP_PATTERN_BLOCK);
}

/* What is new in a message that fits. */
struct found {
  uint64_t number;
  const uint8_t *back, *body;
  uint32_t len;
};

/* Does what is behind the front fit?  That begins, or would begin, at `front`. */
static inline __attribute__((always_inline)) bool fits_behind(const struct neap_pattern *p,
  const struct neap_reader *r, const uint8_t *front, struct found *found)
{
  const uint8_t *at = front + p->front_len;
  uint32_t width = *at;
  if (width > 8) return false;
  found->number = word_at(at + 1) & low_bytes[width];
  found->back = at + 1 + width;
  found->body = found->back + p->back_len + LENGTH;
  if (!same(found->back, p->back, p->back_mask, p->back_len)) return false;
  found->len = big_32(found->body - LENGTH);
  return found->len <= (size_t)(r->end - found->body); /* Else no body at all, or a lie. */
}

static inline __attribute__((always_inline)) bool fits(
  const struct neap_pattern *p, const struct neap_reader *r, struct found *found)
{
  if (!p->learned || neap_left(r) < p->need) return false;
  if (!same(r->at, p->front, p->front_mask, p->front_len)) return false;
  return fits_behind(p, r, r->at, found);
}

static inline __attribute__((always_inline)) void take(struct neap_pattern *p,
  struct neap_reader *r, struct neap_msg *m, const uint8_t *front, const struct found *found)
{
  if (!p->based) base(p, front, found->back);
  copy_slots(p, m);
  memcpy((uint8_t *)m + p->number_at, &found->number, sizeof found->number);
  m->present = p->put;
  m->flags = p->flags;
  m->type = NEAP_TYPE_BYTES;
  m->marks = m->stray_below = 0;
  m->body = found->body;
  m->len = found->len;
  r->at = found->body + found->len;
}

uint32_t neap_patterns_run(struct neap_patterns *patterns, struct neap_reader *r, uint32_t most,
  const struct neap_arrivals *a, struct neap_batch *batch)
{
  struct neap_pattern *p = &patterns->pattern[patterns->used];
  struct neap_msg *last = NULL;
  struct found found;
  uint32_t count = 0, bytes = 0;
  while (count < most && fits(p, r, &found)) {
    struct neap_msg *m = neap_msg_arrived(a->from, a->to, a->slab);
    take(p, r, m, r->at, &found);
    count++;
    if (!last) {
      neap_put(batch, m);
    } else { /* They are all of one run. */
      last->next = m;
      bytes += m->len;
    }
    last = m;
  }
  if (count < 2) return count;
  batch->last = last;
  batch->count += count - 1;
  batch->bytes += bytes;
  return count;
}

static inline __attribute__((always_inline)) bool read(
  struct neap_pattern *p, struct neap_reader *r, struct neap_msg *m, uint8_t *order, uint8_t *count)
{
  struct found found;
  if (!fits(p, r, &found)) return false;
  take(p, r, m, r->at, &found);
  memcpy(order, p->order, NEAP_PATTERN_SLOTS);
  *count = p->order_count;
  return true;
}

/* The pattern that did not serve last; from now on it does, if it fits. */
static __attribute__((noinline)) bool read_other(struct neap_patterns *patterns,
  struct neap_reader *r, struct neap_msg *m, uint8_t *order, uint8_t *count)
{
  struct neap_pattern *p = &patterns->pattern[!patterns->used];
  if (!read(p, r, m, order, count)) return false;
  patterns->used = !patterns->used;
  return true;
}

bool neap_patterns_read(struct neap_patterns *patterns, struct neap_reader *r, struct neap_msg *m,
  uint8_t *order, uint8_t *count)
{
  struct neap_pattern *p = &patterns->pattern[patterns->used];
  return read(p, r, m, order, count) || read_other(patterns, r, m, order, count);
}

static bool read_rest(struct neap_pattern *p, struct neap_reader *r, struct neap_msg *m,
  uint16_t flags, uint8_t *order, uint8_t *count)
{
  struct found found;
  const uint8_t *front = r->at - LEAD;
  if (!p->learned || p->flags != flags || neap_left(r) + LEAD < p->need) return false;
  if (!same(r->at, p->rest, p->rest_mask, p->front_len - LEAD)) return false;
  if (!fits_behind(p, r, front, &found)) return false;
  take(p, r, m, front, &found);
  memcpy(order, p->order, NEAP_PATTERN_SLOTS);
  *count = p->order_count;
  return true;
}

bool neap_patterns_read_rest(struct neap_patterns *patterns, struct neap_reader *r,
  struct neap_msg *m, uint16_t flags, uint8_t *order, uint8_t *count)
{
  uint32_t used = patterns->used;
  if (read_rest(&patterns->pattern[used], r, m, flags, order, count)) return true;
  if (!read_rest(&patterns->pattern[!used], r, m, flags, order, count)) return false;
  patterns->used = !used;
  return true;
}

static inline bool heads_equal(
  const struct neap_pattern *p, const struct neap_msg *m, uint64_t given)
{
  uint64_t differs = ((m->present ^ p->present) & ~given) | (uint64_t)(m->flags ^ p->flags);
  const struct neap_pattern_check *c = p->checks, *end = c + p->check_count;
  for (; c < end; c++) differs |= (word_at((const uint8_t *)m + c->at) & c->mask) ^ c->want;
  return !differs;
}

static inline __attribute__((always_inline)) bool write(
  const struct neap_pattern *p, struct neap_writer *w, const struct neap_msg *m, uint64_t given)
{
  if (!p->learned || !heads_equal(p, m, given)) return false;
  if ((size_t)(w->end - w->at) < (size_t)p->need + SLACK + m->len) return false;
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

uint32_t neap_patterns_write_run(
  struct neap_patterns *patterns, struct neap_writer *w, const struct neap_msg *m, bool *background)
{
  const struct neap_pattern *p = &patterns->pattern[patterns->used];
  struct neap_writer here = *w; /* Of its own, so that it stays in registers. */
  uint64_t given = patterns->given;
  uint32_t count = 0;
  uint8_t all = NEAP_BACKGROUND;
  if (p->flags & NEAP_DONT_BUNDLE) return 0;
  for (; m; m = m->next, count++) {
    if (m->type != NEAP_TYPE_BYTES || m->marks & NEAP_NULL_BODY) break;
    if (!write(p, &here, m, given)) break;
    all &= m->marks;
  }
  if (count) *background &= all != 0;
  *w = here;
  return count;
}

static __attribute__((noinline)) bool write_other(
  struct neap_patterns *patterns, struct neap_writer *w, const struct neap_msg *m)
{
  if (!write(&patterns->pattern[!patterns->used], w, m, patterns->given)) return false;
  patterns->used = !patterns->used;
  return true;
}

bool neap_patterns_write(
  struct neap_patterns *patterns, struct neap_writer *w, const struct neap_msg *m)
{
  if (m->type != NEAP_TYPE_BYTES || m->marks & NEAP_NULL_BODY) return false;
  const struct neap_pattern *p = &patterns->pattern[patterns->used];
  return write(p, w, m, patterns->given) || write_other(patterns, w, m);
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
  if (words > NEAP_PATTERN_BLOCK || word + words > NEAP_PATTERN_HEAD) return false;
  p->order[p->slot_count] = (uint8_t)number;
  p->slots[p->slot_count++] =
    (struct neap_pattern_slot){slot->at - 8, word, (uint16_t)words, (uint16_t)number};
  memcpy(&p->head[word], (const uint8_t *)l->m + slot->at - 8, 8 * words);
  mind(p, word, 0, 1); /* its form */
  for (uint32_t f = 0; f < slot->field_count; f++)
    if (neap_field_present(&slot->fields[f], neap_slot_at(slot, l->m)))
      if (!learn_field(l, slot, &slot->fields[f], word)) return false;
  return true;
}

/* What `same` compares of bytes so long. */
static void mask_first(uint64_t *mask, uint32_t len)
{
  mask[0] = low_bytes[len < 8 ? len : 8];
  mask[1] = low_bytes[len < 8 ? 0 : len < 16 ? len - 8 : 8];
}

/* ORDER: copying a slot by blocks overwrites what is behind it: the last in memory comes last. */
static void sort_slots(struct neap_pattern *p)
{
  for (uint32_t i = 1; i < p->slot_count; i++) {
    struct neap_pattern_slot moving = p->slots[i];
    uint32_t at = i;
    for (; at && p->slots[at - 1].at > moving.at; at--) p->slots[at] = p->slots[at - 1];
    p->slots[at] = moving;
  }
}

/* Puts together what is used for each message. */
static void finish(struct neap_pattern *p, uint64_t given)
{
  uint32_t kept = 0;
  mask_first(p->front_mask, p->front_len);
  mask_first(p->back_mask, p->back_len);
  mask_first(p->rest_mask, p->front_len - LEAD);
  memcpy(p->rest, (const uint8_t *)p->front + LEAD, p->front_len - LEAD);
  uint32_t behind = p->back_len + LENGTH;
  p->need = p->front_len + NUMBER_MOST + (behind > 16 ? behind : 16);
  sort_slots(p);
  p->put = p->present & ~given;
  for (uint32_t i = 0; i < p->slot_count; i++) {
    if (given >> p->slots[i].number & 1) continue;
    p->slots[kept++] = p->slots[i];
    for (uint32_t w = 0; w < p->slots[i].count; w++) {
      uint32_t word = p->slots[i].first + w;
      if (!p->mask[word]) continue;
      p->checks[p->check_count++] = (struct neap_pattern_check){
        p->mask[word], p->head[word] & p->mask[word], p->slots[i].at + 8 * w};
    }
  }
  p->slot_count = (uint8_t)kept;
}

static bool learn(struct lesson *l, const struct neap_registry *registry, uint64_t given)
{
  struct neap_pattern *p = l->p;
  uint16_t type = neap_read_u16(&l->r);
  uint8_t lead = neap_read_u8(&l->r);
  p->flags = neap_read_u16(&l->r);
  struct neap_addr addr;
  if (lead & 1) neap_read_addr(&l->r, &addr);
  if (lead & 2) neap_read_addr(&l->r, &addr);
  const uint8_t *rest = l->r.at;
  l->begin = rest - LEAD; /* As if there were no addresses. */
  uint16_t headers = neap_read_u16(&l->r);
  if (type != NEAP_TYPE_BYTES || l->m->marks & (NEAP_STRAY | NEAP_NULL_BODY)) return false;
  for (; headers; headers--)
    if (!learn_header(l, registry)) return false;
  if (l->r.fault || !l->number) return false;
  const uint8_t *back = l->number + 1 + *l->number;
  p->front_len = (uint32_t)(l->number - l->begin);
  p->back_len = (uint32_t)(l->r.at - back);
  if (p->front_len > 8 * NEAP_PATTERN_WORDS || p->back_len > 8 * NEAP_PATTERN_WORDS) return false;
  struct neap_writer w = {(uint8_t *)p->front, (uint8_t *)p->front + LEAD, false};
  neap_write_u16(&w, type);
  neap_write_u8(&w, 0);
  neap_write_u16(&w, p->flags);
  memcpy(w.at, rest, p->front_len - LEAD);
  memcpy(p->back, back, p->back_len);
  p->order_count = p->slot_count;
  p->present = l->m->present;
  finish(p, given);
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
  uint32_t free = patterns->used; /* An empty one, else the one that does not serve now. */
  if (patterns->pattern[free].learned) free = !free;
  struct neap_pattern *p = &patterns->pattern[free];
  struct lesson lesson = {
    .p = p, .m = m, .begin = bytes, .stable = stable, .r = neap_reader_of(bytes, len)};
  *p = (struct neap_pattern){0};
  p->learned = learn(&lesson, registry, patterns->given);
}
