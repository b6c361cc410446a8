#include "core/channel.h"

#include "core/layer.h"
#include "core/promise.h"

#include <stdio.h>
#include <stdlib.h>

/* Bytes that may wait for the application; each message counts its descriptor too, so that empty
 * ones are bounded as well.  16 MB: four full windows of the default size. */
#define RX_LIMIT ((uint64_t)16 << 20)
enum { MSG_COST = 256 };

/* ---- the description, kept for a rejoin ---- */

static char *copy_text(const char *text)
{
  return text ? strdup(text) : NULL;
}

static void spec_copy(struct neap_stack_spec *to, const struct neap_stack_spec *from)
{
  struct neap_layer_spec *layers = calloc(from->count, sizeof *layers);
  NEAP_ASSERT(layers);
  *to = (struct neap_stack_spec){
    copy_text(from->name), copy_text(from->file), layers, from->count, false};
  for (uint32_t i = 0; i < from->count; i++) {
    const struct neap_layer_spec *layer = &from->layers[i];
    struct neap_setting *settings = calloc(layer->setting_count + 1, sizeof *settings);
    NEAP_ASSERT(settings);
    for (uint32_t s = 0; s < layer->setting_count; s++) {
      settings[s] = layer->settings[s];
      settings[s].attr = copy_text(layer->settings[s].attr);
      settings[s].text = copy_text(layer->settings[s].text);
    }
    layers[i] = *layer;
    layers[i].as = copy_text(layer->as);
    layers[i].settings = settings;
  }
}

static void free_const(const void *memory)
{
  free((void *)(uintptr_t)memory);
}

static void spec_free(struct neap_stack_spec *spec)
{
  for (uint32_t i = 0; i < spec->count; i++) {
    const struct neap_layer_spec *layer = &spec->layers[i];
    for (uint32_t s = 0; s < layer->setting_count; s++) {
      free_const(layer->settings[s].attr);
      free_const(layer->settings[s].text);
    }
    free_const(layer->settings);
    free_const(layer->as);
  }
  free_const(spec->layers);
  free_const(spec->name);
  free_const(spec->file);
}

/* ---- rows and notes ---- */

static void busy(struct neap_channel *channel)
{
  if (neap_link_alone(&channel->busy)) neap_link_before(&channel->world->busy, &channel->busy);
}

static struct neap_row *row_add(struct neap_channel *channel)
{
  struct neap_row *row = channel->spare;
  channel->spare = NULL;
  if (!row) row = malloc(sizeof *row);
  NEAP_ASSERT(row);
  *row = (struct neap_row){0};
  if (channel->rows_last)
    channel->rows_last->next = row;
  else
    channel->rows = row;
  channel->rows_last = row;
  busy(channel);
  return row;
}

static struct neap_note *note(
  struct neap_channel *channel, struct neap_stack *stack, unsigned kind, int code)
{
  struct neap_note *n = calloc(1, sizeof *n);
  NEAP_ASSERT(n);
  n->kind = (uint8_t)kind;
  n->code = code;
  n->stack = stack;
  if (stack) stack->holders++;
  row_add(channel)->note = n;
  return n;
}

void neap_note_free(struct neap_note *n)
{
  struct neap_stack *stack = n->stack;
  if (n->view) neap_view_unref(n->view);
  if (n->found) neap_found_unref(n->found);
  if (n->msg) neap_msg_free(n->msg);
  neap_peer_unref(n->peer);
  free(n);
  if (!stack) return;
  stack->holders--;
  if (stack->closed && !stack->msgs_out && !stack->holders) neap_stack_bury(stack);
}

bool neap_channel_next(struct neap_channel *channel, struct neap_row *row)
{
  struct neap_row *first = channel->rows;
  if (!first) {
    neap_link_remove(&channel->busy);
    return false;
  }
  channel->rows = first->next;
  if (!channel->rows) channel->rows_last = NULL;
  *row = *first;
  row->next = NULL;
  if (row->inbox) row->inbox->allowed += row->count;
  free(channel->spare);
  channel->spare = first;
  return true;
}

/* ---- inboxes ---- */

static struct neap_inbox *inbox_of(struct neap_channel *channel, struct neap_peer *peer)
{
  if (peer->slot >= channel->inboxes_room) {
    uint32_t room = channel->inboxes_room ? channel->inboxes_room : 8;
    while (room <= peer->slot) room *= 2;
    channel->inboxes = realloc(channel->inboxes, room * sizeof *channel->inboxes);
    NEAP_ASSERT(channel->inboxes);
    for (uint32_t i = channel->inboxes_room; i < room; i++) channel->inboxes[i] = NULL;
    channel->inboxes_room = room;
  }
  if (!channel->inboxes[peer->slot]) {
    channel->inboxes[peer->slot] = calloc(1, sizeof **channel->inboxes);
    NEAP_ASSERT(channel->inboxes[peer->slot]);
    channel->inboxes[peer->slot]->peer = peer;
  }
  return channel->inboxes[peer->slot];
}

static void space(struct neap_channel *channel)
{
  if (!channel->stack) return;
  channel->stack->rx_space =
    channel->rx_limit > channel->rx_bytes ? channel->rx_limit - channel->rx_bytes : 0;
}

void neap_channel_up(struct neap_channel *channel, struct neap_batch *batch)
{
  struct neap_inbox *inbox = NULL;
  uint32_t count = 0;
  struct neap_msg *m;
  while ((m = neap_take(batch))) {
    if (m->marks & NEAP_OWN) { /* A layer's business that its layer above did not take. */
      neap_msg_free(m);
      continue;
    }
    /* Nobody sends it again; of a message made from others, these have the receipts. */
    if (!m->receipts && !m->origin && channel->rx_bytes > channel->rx_limit) {
      channel->rx_dropped++;
      neap_msg_free(m);
      continue;
    }
    if (!inbox) inbox = inbox_of(channel, m->from);
    if (inbox->last)
      inbox->last->next = m;
    else
      inbox->first = m;
    inbox->last = m;
    inbox->count++;
    inbox->bytes += m->len + MSG_COST;
    channel->rx_bytes += m->len + MSG_COST;
    count++;
  }
  if (!count) return;
  space(channel);
  if (channel->rows_last && channel->rows_last->inbox == inbox) {
    channel->rows_last->count += count;
    return;
  }
  struct neap_row *row = row_add(channel);
  row->inbox = inbox;
  row->count = count;
}

struct neap_msg *neap_inbox_take(struct neap_channel *channel, struct neap_inbox *inbox)
{
  struct neap_msg *m = inbox->first;
  if (!m || !inbox->allowed || channel->frozen) return NULL;
  inbox->first = m->next;
  if (!inbox->first) inbox->last = NULL;
  m->next = NULL;
  inbox->count--;
  inbox->allowed--;
  inbox->bytes -= m->len + MSG_COST;
  channel->rx_bytes -= m->len + MSG_COST;
  if (!m->to && (m->receipts || m->origin) && m->seqno > inbox->handed) inbox->handed = m->seqno;
  space(channel);
  return m;
}

struct neap_inbox *neap_channel_waiting(struct neap_channel *channel, uint32_t *slot)
{
  for (; *slot < channel->inboxes_room && !channel->frozen; ++*slot) {
    struct neap_inbox *inbox = channel->inboxes[*slot];
    if (inbox && inbox->allowed) {
      ++*slot;
      return inbox;
    }
  }
  return NULL;
}

void neap_channel_forget(struct neap_channel *channel, struct neap_peer *peer)
{
  if (!channel || peer->slot >= channel->inboxes_room || !channel->inboxes[peer->slot]) return;
  NEAP_ASSERT(!channel->inboxes[peer->slot]->count); /* A message would hold its peer. */
  free(channel->inboxes[peer->slot]);
  channel->inboxes[peer->slot] = NULL;
}

/* ---- life ---- */

static int stack_start(struct neap_channel *channel, struct neap_trail *trail)
{
  channel->state = NEAP_CHANNEL_JOINING;
  channel->stack = neap_stack_open(
    channel->world, &channel->spec, channel, channel->cluster, channel->name, trail);
  if (!channel->stack) return NEAP_SYSTEM;
  space(channel);
  neap_stack_set_again(channel->stack);
  channel->membership = neap_stack_gives(channel->stack, "view");
  if (channel->membership) {
    neap_channel_policy(channel, channel->policy);
    neap_stack_event_down(channel->stack, &(struct neap_event){.kind = NEAP_EVENT_CONNECT});
    return 0;
  }
  /* No membership: everybody is on their own, and that is the view. */
  struct neap_stack *stack = channel->stack;
  stack->view = neap_view_new(stack, &stack->self->addr, 0, &stack->self, 1, NULL);
  channel->state = NEAP_CHANNEL_JOINED;
  note(channel, stack, NEAP_NOTE_VIEW, 0)->view = neap_view_ref(stack->view);
  return 0;
}

struct neap_channel *neap_channel_open(struct neap_world *world, const struct neap_stack_spec *spec,
  const char *cluster, const char *name, struct neap_trail *trail)
{
  struct neap_channel *channel = calloc(1, sizeof *channel);
  NEAP_ASSERT(channel);
  channel->world = world;
  channel->rx_limit = RX_LIMIT;
  neap_link_init(&channel->busy);
  snprintf(channel->name, sizeof channel->name, "%s", name);
  snprintf(channel->cluster, sizeof channel->cluster, "%s", cluster);
  spec_copy(&channel->spec, spec);
  if (stack_start(channel, trail) == 0) return channel;
  channel->state = NEAP_CHANNEL_CLOSED;
  neap_channel_free(channel);
  return NULL;
}

static void inboxes_free(struct neap_channel *channel)
{
  for (struct neap_row **at = &channel->rows; *at;) { /* Notes stay: the application learns them. */
    struct neap_row *row = *at;
    if (row->note) {
      at = &row->next;
      continue;
    }
    *at = row->next;
    free(row);
  }
  channel->rows_last = channel->rows;
  while (channel->rows_last && channel->rows_last->next)
    channel->rows_last = channel->rows_last->next;
  channel->frozen = false;
  for (uint32_t i = 0; i < channel->inboxes_room; i++) {
    struct neap_inbox *inbox = channel->inboxes[i];
    if (!inbox) continue;
    inbox->allowed = inbox->count;
    for (struct neap_msg *m; (m = neap_inbox_take(channel, inbox));) neap_msg_free(m);
    free(inbox);
  }
  free(channel->inboxes);
  channel->inboxes = NULL;
  channel->inboxes_room = 0;
}

void neap_channel_closed(struct neap_channel *channel)
{
  struct neap_stack *stack = channel->stack;
  struct neap_trail trail = {""};
  stack->holders++; /* It must outlive the messages that go now. */
  inboxes_free(channel);
  stack->holders--;
  channel->stack = NULL;
  if (channel->rejoin) {
    channel->rejoin = false;
    if (stack_start(channel, &trail) == 0) return;
    struct neap_note *failed = note(channel, NULL, NEAP_NOTE_FAILED, NEAP_SYSTEM);
    snprintf(failed->text, sizeof failed->text, "rejoin: %.140s", trail.text);
  }
  channel->state = NEAP_CHANNEL_CLOSED;
  note(channel, NULL, NEAP_NOTE_CLOSED, 0);
}

void neap_channel_close(struct neap_channel *channel)
{
  if (channel->state == NEAP_CHANNEL_CLOSED || !channel->stack) return;
  channel->rejoin = false;
  neap_stack_close(channel->stack);
}

void neap_channel_leave(struct neap_channel *channel)
{
  if (channel->state == NEAP_CHANNEL_CLOSED || channel->state == NEAP_CHANNEL_LEAVING) return;
  bool member = channel->state == NEAP_CHANNEL_JOINED && channel->membership;
  channel->state = NEAP_CHANNEL_LEAVING;
  if (member)
    neap_stack_event_down(channel->stack, &(struct neap_event){.kind = NEAP_EVENT_LEAVE});
  else
    neap_channel_close(channel);
}

void neap_channel_free(struct neap_channel *channel)
{
  struct neap_row row;
  neap_channel_close(channel);
  while (neap_channel_next(channel, &row))
    if (row.note) neap_note_free(row.note);
  neap_link_remove(&channel->busy);
  spec_free(&channel->spec);
  neap_journal_free(&channel->journal);
  free(channel->spare);
  free(channel);
}

/* ---- what rises ---- */

static void event_view(struct neap_channel *channel, struct neap_event *event)
{
  struct neap_stack *stack = channel->stack;
  if (stack->view) neap_view_unref(stack->view);
  stack->view = neap_view_ref(event->view);
  stack->gone_due = true;
  if (channel->state == NEAP_CHANNEL_JOINING) channel->state = NEAP_CHANNEL_JOINED;
  note(channel, stack, NEAP_NOTE_VIEW, 0)->view = neap_view_ref(event->view);
}

/* Notes that carry what the event carries. */
static void event_note(struct neap_channel *channel, struct neap_event *event, unsigned kind)
{
  struct neap_note *n = note(channel, channel->stack, kind, event->code);
  n->ticket = event->ticket;
  n->time = event->time;
  n->number = event->number;
  n->peer = neap_peer_ref(event->peer);
  n->found = event->found;
  event->found = NULL;
  n->view = event->view;
  event->view = NULL;
  n->msg = event->msg;
  event->msg = NULL;
  snprintf(n->text, sizeof n->text, "%s", event->text);
}

/* Events that become a note as they are; NOTE_VIEW (0) is not one of them. */
static const uint8_t note_of[NEAP_EVENTS] = {
  [NEAP_EVENT_FAILED] = NEAP_NOTE_FAILED,
  [NEAP_EVENT_LEFT] = NEAP_NOTE_LEFT,
  [NEAP_EVENT_REJOIN] = NEAP_NOTE_REJOIN,
  [NEAP_EVENT_ACKED] = NEAP_NOTE_ACKED,
  [NEAP_EVENT_DONE] = NEAP_NOTE_DONE,
  [NEAP_EVENT_SETTLED] = NEAP_NOTE_SETTLED,
  [NEAP_EVENT_AGREED] = NEAP_NOTE_AGREED,
  [NEAP_EVENT_STATE_TOLD] = NEAP_NOTE_STATE,
  [NEAP_EVENT_DRAIN] = NEAP_NOTE_DRAIN,
  [NEAP_EVENT_THAW] = NEAP_NOTE_THAW,
  [NEAP_EVENT_ORDER] = NEAP_NOTE_ORDER,
  [NEAP_EVENT_DECISION] = NEAP_NOTE_DECISION,
  [NEAP_EVENT_TROUBLE] = NEAP_NOTE_TROUBLE,
};

/* What layers say to each other and nobody above needs ends here. */
void neap_channel_event(struct neap_channel *channel, struct neap_event *event)
{
  unsigned kind = event->kind;
  if (kind == NEAP_EVENT_VIEW) event_view(channel, event);
  if (kind == NEAP_EVENT_DRAIN) channel->frozen = event->flag;
  if (kind == NEAP_EVENT_THAW) channel->frozen = false;
  if (note_of[kind]) event_note(channel, event, note_of[kind]);
  if (kind == NEAP_EVENT_FAILED || kind == NEAP_EVENT_LEFT) neap_channel_close(channel);
  if (kind != NEAP_EVENT_REJOIN) return;
  channel->rejoin = channel->state != NEAP_CHANNEL_LEAVING;
  neap_stack_close(channel->stack);
}

void neap_channel_room(struct neap_channel *channel, struct neap_peer *peer)
{
  if (!channel || !channel->stack) return;
  note(channel, channel->stack, NEAP_NOTE_ROOM, 0)->peer = neap_peer_ref(peer);
}

/* ---- sending ---- */

static inline int may_send(const struct neap_channel *channel, const struct neap_send *send)
{
  const struct neap_stack *stack = channel->stack;
  if (channel->state != NEAP_CHANNEL_JOINED)
    return channel->state == NEAP_CHANNEL_JOINING ? NEAP_NOT_JOINED : NEAP_CLOSED;
  if (send->len > stack->max_body) return NEAP_TOO_BIG;
  if (send->to && channel->membership && !neap_in_view(stack->view, send->to))
    return NEAP_NOT_A_MEMBER;
  if (!send->rsvp) return 0;
  if (send->flags & NEAP_NO_RELIABILITY) return NEAP_REFUSED;
  return neap_stack_gives(stack, "rsvp") ? 0 : NEAP_REFUSED;
}

int64_t neap_channel_send(struct neap_channel *channel, const struct neap_send *send)
{
  int code = may_send(channel, send);
  if (code < 0) return code;
  struct neap_stack *stack = channel->stack;
  uint32_t len = send->null_body ? 0 : send->len;
  if (send->rsvp && !neap_gate_may_ask(stack)) return NEAP_WOULD_BLOCK;
  struct neap_gate_class *all = !send->to && stack->gates_room ? stack->gates[0] : NULL;
  if (all && neap_gate_far(all, len)) { /* As neap_gate_admit does it in the end. */
    all->at.bytes += len;
    all->at.messages++;
  } else if (!neap_gate_admit(stack, send->to, len)) {
    return NEAP_WOULD_BLOCK;
  }
  struct neap_msg *m =
    send->null_body ? neap_msg_new(stack) : neap_msg_filled(stack, send->body, len);
  if (send->to) neap_msg_to(m, send->to);
  m->type = NEAP_TYPE_BYTES;
  m->charge = len;
  m->charges = 1;
  m->flags = (uint16_t)(send->flags | (send->rsvp ? NEAP_RSVP : 0u));
  if (send->no_loopback) m->marks |= NEAP_NO_LOOPBACK;
  if (send->rsvp) {
    neap_gate_ask(stack);
    if (!++channel->next_ticket) channel->next_ticket = 1;
    m->ticket = channel->next_ticket;
    neap_stack_event_down(stack, &(struct neap_event){.kind = NEAP_EVENT_ASK,
                                   .ticket = m->ticket,
                                   .number = send->ack_on,
                                   .time = send->timeout});
  }
  int64_t ticket = m->ticket;
  neap_stack_down_msg(stack, m);
  return ticket;
}

int64_t neap_channel_flush(struct neap_channel *channel, struct neap_peer *to, uint64_t timeout)
{
  int code = may_send(channel, &(struct neap_send){.to = to, .rsvp = true});
  if (code < 0) return code;
  if (!neap_gate_may_ask(channel->stack)) return NEAP_WOULD_BLOCK;
  neap_gate_ask(channel->stack);
  if (!++channel->next_ticket) channel->next_ticket = 1;
  neap_stack_event_down(channel->stack, &(struct neap_event){.kind = NEAP_EVENT_FLUSH_SENT,
                                          .ticket = channel->next_ticket,
                                          .peer = neap_peer_ref(to),
                                          .time = timeout});
  return channel->next_ticket;
}

void neap_channel_check(const struct neap_channel *channel)
{
  if (!channel) return;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < channel->inboxes_room; i++) {
    const struct neap_inbox *inbox = channel->inboxes[i];
    if (!inbox) continue;
    NEAP_ASSERT(inbox->allowed <= inbox->count && !inbox->first == !inbox->count);
    bytes += inbox->bytes;
  }
  NEAP_ASSERT(bytes == channel->rx_bytes);
  NEAP_ASSERT(!channel->rows == !channel->rows_last);
}
