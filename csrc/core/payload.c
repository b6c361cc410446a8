#include "core/payload.h"

#include "base/assert.h"
#include "core/packet.h"

/* ---- lists of fields, each the whole of a slice ---- */

/* Reads all of `slice` into a zeroed struct; on any fault the struct is zeroed again. */
#define READ_WHOLE(head, slice, out)                                                               \
  read_whole(head##_fields, sizeof(struct head), neap_reader_of((slice).at, (slice).len), out)

static bool read_whole(neap_fields *rows, size_t size, struct neap_reader r, void *out)
{
  unsigned count;
  const struct neap_field *fields = rows(&count);
  memset(out, 0, size);
  neap_fields_read(&r, fields, count, out);
  if (!r.fault && neap_left(&r)) neap_fault(&r, NEAP_FAULT_TRAILING);
  if (r.fault) memset(out, 0, size);
  return !r.fault;
}

bool neap_view_parts_read(struct neap_slice slice, struct neap_view_parts *parts)
{
  return READ_WHOLE(neap_view_parts, slice, parts);
}

bool neap_merge_view_parts_read(struct neap_slice slice, struct neap_merge_view_parts *parts)
{
  return READ_WHOLE(neap_merge_view_parts, slice, parts);
}

bool neap_delta_view_parts_read(struct neap_slice slice, struct neap_delta_view_parts *parts)
{
  return READ_WHOLE(neap_delta_view_parts, slice, parts);
}

bool neap_view_digest_read(struct neap_slice body, struct neap_view_digest *payload)
{
  return READ_WHOLE(neap_view_digest, body, payload);
}

bool neap_join_rsp_read(struct neap_slice body, struct neap_join_rsp *payload)
{
  struct neap_reader r = neap_reader_of(body.at, body.len);
  if (neap_read_u8(&r) != 1) neap_fault(&r, NEAP_FAULT_VALUE);
  return read_whole(neap_join_rsp_fields, sizeof *payload, r, payload);
}

static void write_fields(struct neap_writer *w, neap_fields *rows, const void *payload)
{
  unsigned count;
  const struct neap_field *fields = rows(&count);
  neap_fields_write(w, fields, count, payload);
}

void neap_view_digest_write(struct neap_writer *w, const struct neap_view_digest *payload)
{
  write_fields(w, neap_view_digest_fields, payload);
}

void neap_join_rsp_write(struct neap_writer *w, const struct neap_join_rsp *payload)
{
  neap_write_u8(w, 1);
  write_fields(w, neap_join_rsp_fields, payload);
}

/* ---- discovery ---- */

struct neap_records neap_records_of(struct neap_slice body)
{
  struct neap_records it = {.r = neap_reader_of(body.at, body.len)};
  it.left = (int32_t)neap_read_u32(&it.r);
  if (it.left < 0) neap_fault(&it.r, NEAP_FAULT_LENGTH);
  return it;
}

bool neap_records_next(struct neap_records *it, struct neap_ping_record *record)
{
  if (!it->left || it->r.fault) return false;
  unsigned count;
  const struct neap_field *fields = neap_ping_record_fields(&count);
  it->left--;
  memset(record, 0, sizeof *record);
  neap_fields_read(&it->r, fields, count, record);
  return !it->r.fault;
}

void neap_write_record(struct neap_writer *w, const struct neap_ping_record *record)
{
  write_fields(w, neap_ping_record_fields, record);
}

/* ---- views and digests ---- */

static bool same_members(const struct neap_view *view, const struct neap_digest *digest)
{
  if (view->count != digest->count) return false;
  for (uint32_t i = 0; i < view->count; i++)
    if (view->members[i] != digest->rows[i].peer) return false;
  return true;
}

void neap_write_view_digest(
  struct neap_writer *w, const struct neap_view *view, const struct neap_digest *digest)
{
  bool members = !digest || !same_members(view, digest);
  neap_write_u16(
    w, (uint16_t)(NEAP_VD_VIEW | (digest ? NEAP_VD_DIGEST : 0) | (members ? NEAP_VD_MEMBERS : 0)));
  neap_write_view(w, view);
  if (digest && members) neap_write_digest(w, digest);
  if (digest && !members) neap_write_digest_pairs(w, digest);
}

void neap_write_join(
  struct neap_writer *w, const struct neap_view *view, const struct neap_digest *digest)
{
  NEAP_ASSERT(same_members(view, digest));
  neap_write_u8(w, 1);
  neap_write_u8(w, NEAP_JOIN_VIEW | NEAP_JOIN_DIGEST);
  neap_write_view(w, view);
  neap_write_digest_pairs(w, digest);
}

void neap_write_join_refused(struct neap_writer *w, const char *reason)
{
  struct neap_join_rsp refusal = {
    .bits = NEAP_JOIN_FAILURE,
    .failure = {(const uint8_t *)reason, (uint32_t)strlen(reason)},
  };
  neap_join_rsp_write(w, &refusal);
}

/* The address at `place` of a list; none when there is no such place. */
static struct neap_addr member_at(struct neap_slice members, int place)
{
  struct neap_addr addr;
  struct neap_addrs it = neap_addrs_of(members);
  for (int at = 0; neap_addrs_next(&it, &addr); at++)
    if (at == place) return addr;
  return (struct neap_addr){.kind = NEAP_ADDR_NONE};
}

static struct neap_addr read_place(struct neap_reader *r, struct neap_slice members)
{
  struct neap_addr addr;
  int16_t place = (int16_t)neap_read_u16(r);
  if (place >= 0) return member_at(members, place);
  neap_read_addr(r, &addr);
  return addr;
}

struct neap_subviews neap_subviews_of(const struct neap_merge_view_parts *view)
{
  struct neap_subviews it = {neap_reader_of(view->parts.at, view->parts.len), 0, view->members};
  if (view->parts.at) it.left = (int16_t)neap_read_u16(&it.r);
  return it;
}

bool neap_subviews_next(struct neap_subviews *it, struct neap_subview *part)
{
  if (it->left <= 0 || it->r.fault) return false;
  it->left--;
  part->creator = read_place(&it->r, it->members);
  part->number = neap_read_u64(&it->r);
  part->count = (int16_t)neap_read_u16(&it->r);
  part->all = it->members;
  part->r = it->r;
  for (int m = 0; m < part->count && !it->r.fault; m++)
    if ((int16_t)neap_read_u16(&it->r) < 0) {
      struct neap_addr stranger;
      neap_read_addr(&it->r, &stranger);
    }
  return !it->r.fault;
}

bool neap_subview_member(struct neap_subview *part, struct neap_addr *member)
{
  if (part->count <= 0) return false;
  part->count--;
  *member = read_place(&part->r, part->all);
  return !part->r.fault;
}

/* ---- objects ---- */

bool neap_object_of(const struct neap_msg *m, uint16_t *class, struct neap_slice *content)
{
  if (m->type != NEAP_TYPE_OBJECT || m->len < 3 || m->body[0] != 1) return false;
  struct neap_reader r = neap_reader_of(m->body + 1, m->len - 1);
  *class = neap_read_u16(&r);
  *content = (struct neap_slice){r.at, (uint32_t)neap_left(&r)};
  return true;
}
