#include "core/capture.h"

#include "base/assert.h"
#include "core/packet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  BLOCK_SECTION = 0x0a0d0d0a,
  BLOCK_INTERFACE = 1,
  BLOCK_FRAME = 6,
  LINK_RAW = 101,
  OPTION_RESOLUTION = 9,
  OPTION_FLAGS = 2,
  CAME = 1,
  LEFT = 2,                    /* of the frame's flags */
  FRAME_AROUND = 12 + 20 + 12, /* block, its fixed part, options */
  UDP_HEAD = 8,
  IP4_HEAD = 20,
  IP6_HEAD = 40,
  UDP = 17,
  HOPS = 64,
};

struct neap_capture {
  FILE *file;
  uint64_t limit, epoch; /* epoch: what is added to the world's time */
  bool arrivals, failed;
  struct neap_capture_counts counts;
};

/* ---- writing ---- */

static void put(struct neap_capture *c, const void *bytes, size_t len)
{
  if (len && fwrite(bytes, len, 1, c->file) != 1) c->failed = true;
  c->counts.bytes += len;
}

/* In the order of this machine, which the section tells. */
static void put_u32(struct neap_capture *c, uint32_t value)
{
  put(c, &value, sizeof value);
}

static void put_u16(struct neap_capture *c, uint16_t value)
{
  put(c, &value, sizeof value);
}

static void put_head(struct neap_capture *c)
{
  put_u32(c, BLOCK_SECTION);
  put_u32(c, 28);
  put_u32(c, 0x1a2b3c4d);
  put_u16(c, 1); /* version 1.0 */
  put_u16(c, 0);
  put_u32(c, UINT32_MAX); /* of unknown length, as two halves */
  put_u32(c, UINT32_MAX);
  put_u32(c, 28);

  put_u32(c, BLOCK_INTERFACE);
  put_u32(c, 32);
  put_u16(c, LINK_RAW);
  put_u16(c, 0);
  put_u32(c, 0); /* whole packets */
  put_u16(c, OPTION_RESOLUTION);
  put_u16(c, 1);
  put(c, "\x09\0\0", 4); /* 10^-9 s */
  put_u32(c, 0);         /* the end of the options */
  put_u32(c, 32);
}

/* ---- IP and UDP ---- */

static uint32_t sum_of(const uint8_t *at, size_t len)
{
  uint32_t sum = 0;
  for (size_t i = 0; i < len; i++) sum += i % 2 ? at[i] : (uint32_t)at[i] << 8;
  return sum;
}

static uint16_t folded(uint32_t sum)
{
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return (uint16_t)~sum;
}

/* The heads in front of a datagram; returns their length. */
static uint32_t heads(uint8_t *head, const struct neap_addr *from, const struct neap_addr *to,
  const uint8_t *at, uint32_t len)
{
  uint32_t size = to->size, udp_len = UDP_HEAD + len;
  bool six = size == 16;
  uint32_t ip_len = six ? IP6_HEAD : IP4_HEAD;
  struct neap_writer w = {head, head + IP6_HEAD + UDP_HEAD, false};
  if (six) {
    neap_write_u32(&w, 6u << 28);
    neap_write_u16(&w, (uint16_t)udp_len);
    neap_write_u8(&w, UDP);
    neap_write_u8(&w, HOPS);
  } else {
    neap_write_u16(&w, 0x4500);
    neap_write_u16(&w, (uint16_t)(ip_len + udp_len));
    neap_write_u32(&w, 0);
    neap_write_u8(&w, HOPS);
    neap_write_u8(&w, UDP);
    neap_write_u16(&w, 0);
  }
  neap_write_bytes(&w, from->bytes, size);
  neap_write_bytes(&w, to->bytes, size);
  if (!six) {
    uint16_t check = folded(sum_of(head, IP4_HEAD));
    head[10] = (uint8_t)(check >> 8);
    head[11] = (uint8_t)check;
  }
  neap_write_u16(&w, from->port);
  neap_write_u16(&w, to->port);
  neap_write_u16(&w, (uint16_t)udp_len);
  uint32_t sum = sum_of(from->bytes, size) + sum_of(to->bytes, size) + UDP + udp_len + from->port +
                 to->port + udp_len;
  uint16_t check = folded((uint32_t)(sum + sum_of(at, len)));
  neap_write_u16(&w, check ? check : UINT16_MAX);
  return ip_len + UDP_HEAD;
}

/* ---- frames ---- */

static void frame(struct neap_world *world, uint32_t flags, const struct neap_addr *from,
  const struct neap_addr *to, const uint8_t *at, uint32_t len)
{
  struct neap_capture *c = world->capture;
  uint8_t head[IP6_HEAD + UDP_HEAD];
  static const uint8_t zeros[4];
  if (from->kind != NEAP_ADDR_IP || to->kind != NEAP_ADDR_IP || from->size != to->size) return;
  uint32_t ip_len = to->size == 16 ? IP6_HEAD : IP4_HEAD, size = ip_len + UDP_HEAD + len;
  uint32_t block = FRAME_AROUND + (size + 3) / 4 * 4;
  if (c->failed || size > UINT16_MAX || c->counts.bytes + block > c->limit) {
    c->counts.dropped++;
    return;
  }
  uint64_t time = c->epoch + world->now;
  put_u32(c, BLOCK_FRAME);
  put_u32(c, block);
  put_u32(c, 0);
  put_u32(c, (uint32_t)(time >> 32));
  put_u32(c, (uint32_t)time);
  put_u32(c, size);
  put_u32(c, size);
  put(c, head, heads(head, from, to, at, len));
  put(c, at, len);
  put(c, zeros, (4 - size % 4) % 4);
  put_u16(c, OPTION_FLAGS);
  put_u16(c, 4);
  put_u32(c, flags);
  put_u32(c, 0);
  put_u32(c, block);
  c->counts.frames++;
}

void neap_capture_left(struct neap_world *world, const struct neap_addr *from,
  const struct neap_addr *to, const uint8_t *at, uint32_t len)
{
  if (world->capture) frame(world, LEFT, from, to, at, len);
}

void neap_capture_came(
  struct neap_port *port, const struct neap_addr *from, const uint8_t *at, uint32_t len)
{
  const struct neap_capture *c = port->world->capture;
  bool group = len > 2 && at[2] & NEAP_PACKET_MULTICAST && port->spec.group.kind == NEAP_ADDR_IP;
  if (c && c->arrivals)
    frame(port->world, CAME, from, group ? &port->spec.group : &port->local, at, len);
}

/* ---- life ---- */

int neap_capture_start(struct neap_world *world, const struct neap_capture_options *options)
{
  struct neap_capture_counts unused;
  neap_capture_stop(world, &unused);
  FILE *file = fopen(options->path, "wbe");
  if (!file) return errno;
  struct neap_capture *c = calloc(1, sizeof *c);
  NEAP_ASSERT(c);
  c->file = file;
  c->limit = options->bytes;
  c->epoch = options->seconds ? options->seconds * NEAP_S(1) - world->now : 0;
  c->arrivals = options->arrivals;
  put_head(c);
  world->capture = c;
  return 0;
}

bool neap_capture_stop(struct neap_world *world, struct neap_capture_counts *counts)
{
  struct neap_capture *c = world->capture;
  if (!c) return false;
  world->capture = NULL;
  if (fclose(c->file)) c->counts.dropped++; /* The last ones may not be there. */
  *counts = c->counts;
  free(c);
  return true;
}
