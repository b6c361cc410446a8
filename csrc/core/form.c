/* form: what each form of field is on the wire: read, written and measured.
 *
 * Reading checks everything that a form promises, so whoever walks a slice later (core/view.h,
 * core/digest.h, core/payload.h) cannot run over its end.  Writing puts down what the struct holds;
 * a slice that is none where the form knows no none is our mistake and asserted.
 *
 * Slices hold what the form's iterator wants to see:
 *
 *     str utf ascii bytes           the text, without its length
 *     addrs addrs32                 with the count in front; an addrs count of -1 is none
 *     view_id_opt digest_opt        without the flag
 *     view_opt                      without the first flag, with the second (is-merge) in front
 *     all others                    as they stand */

#include "base/assert.h"
#include "core/packet.h"

/* ---- checks: one per form that arrives as a slice of several parts ---- */

static bool read_flag(struct neap_reader *r)
{
  uint8_t flag = neap_read_u8(r);
  if (flag > 1) neap_fault(r, NEAP_FAULT_VALUE);
  return flag == 1;
}

static void skip_addr(struct neap_reader *r)
{
  struct neap_addr addr;
  neap_read_addr(r, &addr);
}

/* Each address takes a byte at least: a count beyond what is left is a lie. */
static void skip_list(struct neap_reader *r, int64_t count)
{
  if (count < 0 || (uint64_t)count > neap_left(r)) {
    neap_fault(r, NEAP_FAULT_LENGTH);
    return;
  }
  while (count-- && !r->fault) skip_addr(r);
}

static void skip_addrs(struct neap_reader *r)
{
  int16_t count = (int16_t)neap_read_u16(r);
  if (count != -1) skip_list(r, count);
}

static void skip_addrs32(struct neap_reader *r)
{
  skip_list(r, (int32_t)neap_read_u32(r));
}

static void skip_view_id(struct neap_reader *r)
{
  skip_addr(r);
  neap_read_clong(r);
}

static void skip_view(struct neap_reader *r)
{
  skip_view_id(r);
  skip_addrs(r);
}

/* i16 place in the view's list; below zero an address follows. */
static void skip_place(struct neap_reader *r)
{
  if ((int16_t)neap_read_u16(r) < 0) skip_addr(r);
}

static void skip_subviews(struct neap_reader *r)
{
  int16_t parts = (int16_t)neap_read_u16(r);
  if (parts < 0) neap_fault(r, NEAP_FAULT_LENGTH);
  for (int p = 0; p < parts && !r->fault; p++) {
    skip_place(r);
    neap_read_u64(r);
    int16_t members = (int16_t)neap_read_u16(r);
    if (members < 0) neap_fault(r, NEAP_FAULT_LENGTH);
    for (int m = 0; m < members && !r->fault; m++) skip_place(r);
  }
}

static void skip_merge_view(struct neap_reader *r)
{
  skip_view(r);
  skip_subviews(r);
}

static void skip_any_view(struct neap_reader *r)
{
  if (read_flag(r))
    skip_merge_view(r);
  else
    skip_view(r);
}

static void skip_delta_view(struct neap_reader *r)
{
  skip_view_id(r);
  skip_view_id(r);
  skip_addrs(r);
  skip_addrs(r);
}

static void skip_counted_pairs(struct neap_reader *r, int count)
{
  uint64_t a, b;
  if (count < 0) neap_fault(r, NEAP_FAULT_LENGTH);
  while (count-- > 0 && !r->fault) neap_read_seq2(r, &a, &b);
}

static void skip_pairs(struct neap_reader *r)
{
  skip_counted_pairs(r, (int16_t)neap_read_u16(r));
}

static void skip_digest(struct neap_reader *r)
{
  int16_t count = (int16_t)neap_read_u16(r);
  skip_list(r, count);
  skip_counted_pairs(r, count);
}

static void skip_seqnos(struct neap_reader *r)
{
  int32_t bits = (int32_t)neap_read_u32(r);
  neap_read_u64(r);
  uint64_t words = ((uint64_t)(uint32_t)bits + 63) / 64;
  if (bits < 0 || words * 8 > neap_left(r))
    neap_fault(r, NEAP_FAULT_LENGTH);
  else
    neap_read_slice(r, words * 8);
}

static void skip_str(struct neap_reader *r)
{
  if (read_flag(r)) neap_read_slice(r, neap_read_u16(r));
}

static void skip_frames(struct neap_reader *r)
{
  int16_t count = (int16_t)neap_read_u16(r);
  if (count < 0) neap_fault(r, NEAP_FAULT_LENGTH);
  for (; count > 0 && !r->fault; count--) {
    skip_str(r); /* class */
    skip_str(r); /* method */
    skip_str(r); /* file */
    neap_read_cint(r);
  }
}

/* ---- one row per form ---- */

enum how {
  BIG,        /* `width` bytes, big-endian */
  FLAG,       /* one byte, 0 or 1 */
  COMPRESSED, /* of `width` bytes at most */
  PAIR,
  ADDR,
  PLACE,     /* an address without its kind byte */
  PLACE_OPT, /* a flag and, if it is set, that */
  STR,       /* a flag and, if it is set, a length of `width` bytes and a text */
  TEXT,      /* a length of `width` bytes and a text */
  TEXT_OPT,  /* the same; -1 is none */
  BARE,      /* parts: as they are */
  FLAGGED,   /* a flag and, if it is set, parts */
  LISTED,    /* parts that begin with a count of `width` bytes; none is -1 if that is 2, else 0 */
};

struct form {
  enum how how;
  unsigned width;
  void (*skip)(struct neap_reader *r);
};

static const struct form forms[NEAP_FORM_COUNT] = {
  [NEAP_FORM_i8] = {BIG, 1, NULL},
  [NEAP_FORM_u8] = {BIG, 1, NULL},
  [NEAP_FORM_i16] = {BIG, 2, NULL},
  [NEAP_FORM_u16] = {BIG, 2, NULL},
  [NEAP_FORM_i32] = {BIG, 4, NULL},
  [NEAP_FORM_u32] = {BIG, 4, NULL},
  [NEAP_FORM_i64] = {BIG, 8, NULL},
  [NEAP_FORM_flag] = {FLAG, 1, NULL},
  [NEAP_FORM_cint] = {COMPRESSED, 4, NULL},
  [NEAP_FORM_clong] = {COMPRESSED, 8, NULL},
  [NEAP_FORM_seq2] = {PAIR, 0, NULL},
  [NEAP_FORM_addr] = {ADDR, 0, NULL},
  [NEAP_FORM_ip] = {PLACE, 0, NULL},
  [NEAP_FORM_ip_opt] = {PLACE_OPT, 0, NULL},
  [NEAP_FORM_str] = {STR, 2, NULL},
  [NEAP_FORM_utf] = {TEXT, 2, NULL},
  [NEAP_FORM_ascii] = {TEXT_OPT, 2, NULL},
  [NEAP_FORM_bytes] = {TEXT_OPT, 4, NULL},
  [NEAP_FORM_addrs] = {LISTED, 2, skip_addrs},
  [NEAP_FORM_addrs32] = {LISTED, 4, skip_addrs32},
  [NEAP_FORM_view_id] = {BARE, 0, skip_view_id},
  [NEAP_FORM_view_id_opt] = {FLAGGED, 0, skip_view_id},
  [NEAP_FORM_view] = {BARE, 0, skip_view},
  [NEAP_FORM_view_opt] = {FLAGGED, 0, skip_any_view},
  [NEAP_FORM_merge_view] = {BARE, 0, skip_merge_view},
  [NEAP_FORM_subviews] = {BARE, 0, skip_subviews},
  [NEAP_FORM_delta_view] = {BARE, 0, skip_delta_view},
  [NEAP_FORM_digest] = {BARE, 0, skip_digest},
  [NEAP_FORM_digest_opt] = {FLAGGED, 0, skip_digest},
  [NEAP_FORM_seq2s] = {BARE, 0, skip_pairs},
  [NEAP_FORM_seqnos] = {BARE, 0, skip_seqnos},
  [NEAP_FORM_frames] = {BARE, 0, skip_frames},
};

static const struct form *form_of(enum neap_form form)
{
  NEAP_ASSERT(form < NEAP_FORM_COUNT);
  return &forms[form];
}

/* ---- numbers, as wide in the struct as on the wire ---- */

static void store(void *at, uint64_t number, unsigned width)
{
  if (width == 1) *(uint8_t *)at = (uint8_t)number;
  if (width == 2) *(uint16_t *)at = (uint16_t)number;
  if (width == 4) *(uint32_t *)at = (uint32_t)number;
  if (width == 8) *(uint64_t *)at = number;
}

static uint64_t load(const void *at, unsigned width)
{
  if (width == 1) return *(const uint8_t *)at;
  if (width == 2) return *(const uint16_t *)at;
  return width == 4 ? *(const uint32_t *)at : *(const uint64_t *)at;
}

/* ---- texts and parts: slices ---- */

/* Lengths that can be none are signed. */
static uint32_t text_most(const struct form *form)
{
  if (form->width == 4) return INT32_MAX;
  return form->how == TEXT_OPT ? INT16_MAX : UINT16_MAX;
}

static struct neap_slice read_text(struct neap_reader *r, const struct form *form)
{
  uint64_t len = neap_read_big(r, form->width), none = form->width == 2 ? UINT16_MAX : UINT32_MAX;
  if (form->how == TEXT_OPT && len == none) return (struct neap_slice){0};
  if (len > text_most(form) || len > neap_left(r)) {
    neap_fault(r, NEAP_FAULT_LENGTH);
    return (struct neap_slice){0};
  }
  return neap_read_slice(r, len);
}

static void write_text(struct neap_writer *w, const struct form *form, struct neap_slice text)
{
  NEAP_ASSERT(text.len <= text_most(form));
  neap_write_big(w, text.len, form->width);
  neap_write_bytes(w, text.at, text.len);
}

static struct neap_slice read_parts(struct neap_reader *r, const struct form *form)
{
  struct neap_slice none = {0};
  if (form->how == FLAGGED && !read_flag(r)) return none;
  const uint8_t *start = r->at;
  form->skip(r);
  if (r->fault) return none;
  uint32_t len = (uint32_t)(r->at - start);
  if (form->how == LISTED && form->width == 2 && start[0] == 0xff) return none;
  return (struct neap_slice){start, len};
}

static void write_parts(struct neap_writer *w, const struct form *form, struct neap_slice slice)
{
  NEAP_ASSERT(slice.at || form->how != BARE);
  if (form->how == FLAGGED) neap_write_u8(w, slice.at != NULL);
  if (form->how == LISTED && !slice.at)
    neap_write_big(w, form->width == 2 ? UINT16_MAX : 0, form->width);
  neap_write_bytes(w, slice.at, slice.len);
}

/* ---- one field ---- */

void neap_form_read(struct neap_reader *r, enum neap_form which, void *at)
{
  const struct form *form = form_of(which);
  struct neap_slice *slice = at;
  struct neap_addr *addr = at;

  switch (form->how) {
  case BIG:
    store(at, neap_read_big(r, form->width), form->width);
    break;
  case FLAG:
    *(bool *)at = read_flag(r);
    break;
  case COMPRESSED:
    store(at, neap_read_compressed(r, form->width), form->width);
    break;
  case PAIR:
    neap_read_seq2(r, &((struct neap_seq2 *)at)->a, &((struct neap_seq2 *)at)->b);
    break;
  case ADDR:
    neap_read_addr(r, addr);
    break;
  case PLACE:
    neap_read_ip(r, addr);
    break;
  case PLACE_OPT:
    addr->kind = NEAP_ADDR_NONE;
    if (read_flag(r)) neap_read_ip(r, addr);
    break;
  case STR:
    *slice = read_flag(r) ? read_text(r, form) : (struct neap_slice){0};
    break;
  case TEXT:
  case TEXT_OPT:
    *slice = read_text(r, form);
    break;
  case BARE:
  case FLAGGED:
  case LISTED:
    *slice = read_parts(r, form);
    break;
  }
}

void neap_form_write(struct neap_writer *w, enum neap_form which, const void *at)
{
  const struct form *form = form_of(which);
  const struct neap_slice *slice = at;
  const struct neap_addr *addr = at;
  const struct neap_seq2 *pair = at;

  switch (form->how) {
  case BIG:
    neap_write_big(w, load(at, form->width), form->width);
    break;
  case FLAG:
    neap_write_u8(w, *(const bool *)at);
    break;
  case COMPRESSED:
    neap_write_clong(w, load(at, form->width));
    break;
  case PAIR:
    neap_write_seq2(w, pair->a, pair->b);
    break;
  case ADDR:
    neap_write_addr(w, addr);
    break;
  case PLACE:
    neap_write_ip(w, addr);
    break;
  case PLACE_OPT:
    neap_write_u8(w, !neap_addr_none(addr));
    if (!neap_addr_none(addr)) neap_write_ip(w, addr);
    break;
  case STR:
    neap_write_u8(w, slice->at != NULL);
    if (slice->at) write_text(w, form, *slice);
    break;
  case TEXT:
  case TEXT_OPT:
    if (slice->at || form->how == TEXT)
      write_text(w, form, *slice);
    else
      neap_write_big(w, UINT32_MAX, form->width);
    break;
  case BARE:
  case FLAGGED:
  case LISTED:
    write_parts(w, form, *slice);
    break;
  }
}

static uint32_t addr_size(const struct neap_addr *addr)
{
  if (neap_addr_none(addr)) return 1;
  if (addr->kind == NEAP_ADDR_UUID) return 17;
  if (addr->kind == NEAP_ADDR_IP) return 4u + addr->size + (addr->size == 16 ? 4 : 0);
  return 1 + addr->raw.len;
}

uint32_t neap_form_size(enum neap_form which, const void *at)
{
  const struct form *form = form_of(which);
  const struct neap_slice *slice = at;
  const struct neap_addr *addr = at;
  const struct neap_seq2 *pair = at;

  switch (form->how) {
  case BIG:
  case FLAG:
    return form->width;
  case COMPRESSED:
    return 1 + neap_compressed_width(load(at, form->width));
  case PAIR: /* A zero beside a number takes a byte: at most one more than the sum. */
    return 2 + neap_compressed_width(pair->a) + neap_compressed_width(pair->b - pair->a);
  case PLACE:
    return 3u + addr->size + (addr->size == 16 ? 4 : 0);
  case ADDR:
  case PLACE_OPT: /* its flag instead of the kind byte */
    return addr_size(addr);
  case STR:
    return 1 + form->width + slice->len;
  case TEXT:
  case TEXT_OPT:
  case LISTED:
    return form->width + slice->len;
  case BARE:
    return slice->len;
  case FLAGGED:
    return 1 + slice->len;
  }
  neap_assert_failed("a form of the list", __FILE__, __LINE__);
}
