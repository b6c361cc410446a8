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

/* What stands before the parts of a form, and says whether they are there. */
enum lead { BARE, FLAG, COUNT16, COUNT32 };

struct part {
  void (*skip)(struct neap_reader *r);
  enum lead lead;
};

static const struct part parts[NEAP_FORM_COUNT] = {
  [NEAP_FORM_addrs] = {skip_addrs, COUNT16},
  [NEAP_FORM_addrs32] = {skip_addrs32, COUNT32},
  [NEAP_FORM_view_id] = {skip_view_id, BARE},
  [NEAP_FORM_view_id_opt] = {skip_view_id, FLAG},
  [NEAP_FORM_view] = {skip_view, BARE},
  [NEAP_FORM_view_opt] = {skip_any_view, FLAG},
  [NEAP_FORM_merge_view] = {skip_merge_view, BARE},
  [NEAP_FORM_subviews] = {skip_subviews, BARE},
  [NEAP_FORM_delta_view] = {skip_delta_view, BARE},
  [NEAP_FORM_digest] = {skip_digest, BARE},
  [NEAP_FORM_digest_opt] = {skip_digest, FLAG},
  [NEAP_FORM_seq2s] = {skip_pairs, BARE},
  [NEAP_FORM_seqnos] = {skip_seqnos, BARE},
  [NEAP_FORM_frames] = {skip_frames, BARE},
};

static struct neap_slice read_parts(struct neap_reader *r, const struct part *part)
{
  struct neap_slice none = {0};
  if (part->lead == FLAG && !read_flag(r)) return none;
  const uint8_t *start = r->at;
  part->skip(r);
  if (r->fault) return none;
  uint32_t len = (uint32_t)(r->at - start);
  if (part->lead == COUNT16 && len == 2 && start[0] == 0xff) return none;
  return (struct neap_slice){start, len};
}

static void write_parts(struct neap_writer *w, const struct part *part, struct neap_slice slice)
{
  switch (part->lead) {
  case BARE:
    NEAP_ASSERT(slice.at);
    break;
  case FLAG:
    neap_write_u8(w, slice.at != NULL);
    break;
  case COUNT16:
    if (!slice.at) neap_write_u16(w, 0xffff);
    break;
  case COUNT32:
    if (!slice.at) neap_write_u32(w, 0);
    break;
  }
  neap_write_bytes(w, slice.at, slice.len);
}

static uint32_t parts_size(const struct part *part, struct neap_slice slice)
{
  static const uint8_t none[] = {[BARE] = 0, [FLAG] = 1, [COUNT16] = 2, [COUNT32] = 4};
  if (part->lead == FLAG) return 1 + slice.len;
  return slice.at ? slice.len : none[part->lead];
}

/* ---- texts: a length, then bytes ---- */

static struct neap_slice read_text(struct neap_reader *r, int64_t len)
{
  if (len == -1) return (struct neap_slice){0};
  if (len < 0 || (uint64_t)len > neap_left(r)) {
    neap_fault(r, NEAP_FAULT_LENGTH);
    return (struct neap_slice){0};
  }
  return neap_read_slice(r, (size_t)len);
}

static void write_text(struct neap_writer *w, unsigned width, struct neap_slice text)
{
  if (width == 2 && text.len > UINT16_MAX) text.len = UINT16_MAX;
  neap_write_big(w, text.len, width);
  neap_write_bytes(w, text.at, text.len);
}

/* ---- one field ---- */

void neap_form_read(struct neap_reader *r, enum neap_form form, void *at)
{
  struct neap_slice *slice = at;
  struct neap_addr *addr = at;
  struct neap_seq2 *pair = at;

  switch (form) {
  case NEAP_FORM_i8:
  case NEAP_FORM_u8:
    *(uint8_t *)at = neap_read_u8(r);
    break;
  case NEAP_FORM_i16:
  case NEAP_FORM_u16:
    *(uint16_t *)at = neap_read_u16(r);
    break;
  case NEAP_FORM_i32:
  case NEAP_FORM_u32:
    *(uint32_t *)at = neap_read_u32(r);
    break;
  case NEAP_FORM_i64:
    *(uint64_t *)at = neap_read_u64(r);
    break;
  case NEAP_FORM_flag:
    *(bool *)at = read_flag(r);
    break;
  case NEAP_FORM_cint:
    *(uint32_t *)at = neap_read_cint(r);
    break;
  case NEAP_FORM_clong:
    *(uint64_t *)at = neap_read_clong(r);
    break;
  case NEAP_FORM_seq2:
    neap_read_seq2(r, &pair->a, &pair->b);
    break;
  case NEAP_FORM_addr:
    neap_read_addr(r, addr);
    break;
  case NEAP_FORM_ip:
    neap_read_ip(r, addr);
    break;
  case NEAP_FORM_ip_opt:
    addr->kind = NEAP_ADDR_NONE;
    if (read_flag(r)) neap_read_ip(r, addr);
    break;
  case NEAP_FORM_str:
    if (read_flag(r)) *slice = read_text(r, neap_read_u16(r));
    break;
  case NEAP_FORM_utf:
    *slice = read_text(r, neap_read_u16(r));
    break;
  case NEAP_FORM_ascii:
    *slice = read_text(r, (int16_t)neap_read_u16(r));
    break;
  case NEAP_FORM_bytes:
    *slice = read_text(r, (int32_t)neap_read_u32(r));
    break;
  case NEAP_FORM_addrs:
  case NEAP_FORM_addrs32:
  case NEAP_FORM_view_id:
  case NEAP_FORM_view_id_opt:
  case NEAP_FORM_view:
  case NEAP_FORM_view_opt:
  case NEAP_FORM_merge_view:
  case NEAP_FORM_subviews:
  case NEAP_FORM_delta_view:
  case NEAP_FORM_digest:
  case NEAP_FORM_digest_opt:
  case NEAP_FORM_seq2s:
  case NEAP_FORM_seqnos:
  case NEAP_FORM_frames:
    *slice = read_parts(r, &parts[form]);
    break;
  case NEAP_FORM_COUNT:
    NEAP_ASSERT(form < NEAP_FORM_COUNT);
  }
}

void neap_form_write(struct neap_writer *w, enum neap_form form, const void *at)
{
  const struct neap_slice *slice = at;
  const struct neap_addr *addr = at;
  const struct neap_seq2 *pair = at;

  switch (form) {
  case NEAP_FORM_i8:
  case NEAP_FORM_u8:
    neap_write_u8(w, *(const uint8_t *)at);
    break;
  case NEAP_FORM_i16:
  case NEAP_FORM_u16:
    neap_write_u16(w, *(const uint16_t *)at);
    break;
  case NEAP_FORM_i32:
  case NEAP_FORM_u32:
    neap_write_u32(w, *(const uint32_t *)at);
    break;
  case NEAP_FORM_i64:
    neap_write_u64(w, *(const uint64_t *)at);
    break;
  case NEAP_FORM_flag:
    neap_write_u8(w, *(const bool *)at);
    break;
  case NEAP_FORM_cint:
    neap_write_cint(w, *(const uint32_t *)at);
    break;
  case NEAP_FORM_clong:
    neap_write_clong(w, *(const uint64_t *)at);
    break;
  case NEAP_FORM_seq2:
    neap_write_seq2(w, pair->a, pair->b);
    break;
  case NEAP_FORM_addr:
    neap_write_addr(w, addr);
    break;
  case NEAP_FORM_ip:
    neap_write_ip(w, addr);
    break;
  case NEAP_FORM_ip_opt:
    neap_write_u8(w, !neap_addr_none(addr));
    if (!neap_addr_none(addr)) neap_write_ip(w, addr);
    break;
  case NEAP_FORM_str:
    neap_write_u8(w, slice->at != NULL);
    if (slice->at) write_text(w, 2, *slice);
    break;
  case NEAP_FORM_utf:
    write_text(w, 2, *slice);
    break;
  case NEAP_FORM_ascii:
  case NEAP_FORM_bytes:
    if (slice->at)
      write_text(w, form == NEAP_FORM_ascii ? 2 : 4, *slice);
    else
      neap_write_big(w, UINT32_MAX, form == NEAP_FORM_ascii ? 2 : 4);
    break;
  case NEAP_FORM_addrs:
  case NEAP_FORM_addrs32:
  case NEAP_FORM_view_id:
  case NEAP_FORM_view_id_opt:
  case NEAP_FORM_view:
  case NEAP_FORM_view_opt:
  case NEAP_FORM_merge_view:
  case NEAP_FORM_subviews:
  case NEAP_FORM_delta_view:
  case NEAP_FORM_digest:
  case NEAP_FORM_digest_opt:
  case NEAP_FORM_seq2s:
  case NEAP_FORM_seqnos:
  case NEAP_FORM_frames:
    write_parts(w, &parts[form], *slice);
    break;
  case NEAP_FORM_COUNT:
    NEAP_ASSERT(form < NEAP_FORM_COUNT);
  }
}

static uint32_t addr_size(const struct neap_addr *addr)
{
  if (neap_addr_none(addr)) return 1;
  if (addr->kind == NEAP_ADDR_UUID) return 17;
  if (addr->kind == NEAP_ADDR_IP) return 4u + addr->size + (addr->size == 16 ? 4 : 0);
  return 1 + addr->raw.len;
}

uint32_t neap_form_size(enum neap_form form, const void *at)
{
  const struct neap_slice *slice = at;
  const struct neap_addr *addr = at;
  const struct neap_seq2 *pair = at;

  switch (form) {
  case NEAP_FORM_i8:
  case NEAP_FORM_u8:
  case NEAP_FORM_flag:
    return 1;
  case NEAP_FORM_i16:
  case NEAP_FORM_u16:
    return 2;
  case NEAP_FORM_i32:
  case NEAP_FORM_u32:
    return 4;
  case NEAP_FORM_i64:
    return 8;
  case NEAP_FORM_cint:
    return 1 + neap_compressed_width(*(const uint32_t *)at);
  case NEAP_FORM_clong:
    return 1 + neap_compressed_width(*(const uint64_t *)at);
  case NEAP_FORM_seq2: /* A zero beside a number takes a byte: at most one more than the sum. */
    return 2 + neap_compressed_width(pair->a) + neap_compressed_width(pair->b - pair->a);
  case NEAP_FORM_ip:
    return 3u + addr->size + (addr->size == 16 ? 4 : 0);
  case NEAP_FORM_addr:
  case NEAP_FORM_ip_opt: /* its flag instead of the kind byte */
    return addr_size(addr);
  case NEAP_FORM_str:
    return 3 + slice->len;
  case NEAP_FORM_utf:
  case NEAP_FORM_ascii:
    return 2 + slice->len;
  case NEAP_FORM_bytes:
    return 4 + slice->len;
  case NEAP_FORM_addrs:
  case NEAP_FORM_addrs32:
  case NEAP_FORM_view_id:
  case NEAP_FORM_view_id_opt:
  case NEAP_FORM_view:
  case NEAP_FORM_view_opt:
  case NEAP_FORM_merge_view:
  case NEAP_FORM_subviews:
  case NEAP_FORM_delta_view:
  case NEAP_FORM_digest:
  case NEAP_FORM_digest_opt:
  case NEAP_FORM_seq2s:
  case NEAP_FORM_seqnos:
  case NEAP_FORM_frames:
    return parts_size(&parts[form], *slice);
  case NEAP_FORM_COUNT:
    break;
  }
  neap_assert_failed("a form of the list", __FILE__, __LINE__);
}
