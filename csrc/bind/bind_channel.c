/* bind_channel: what Lua calls by FFI for channels, messages and attributes.
 *
 * Nothing here runs a turn or calls a layer, so compiled code may call it. */

#include "bind/bind.h"

#include "base/text.h"
#include "core/promise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows and messages ---- */

struct neap_channel *neap_bind_next(struct neap_world *world, struct neap_row *row)
{
  while (!neap_link_alone(&world->busy)) {
    struct neap_channel *channel = NEAP_HOLDER(world->busy.next, struct neap_channel, busy);
    if (neap_channel_next(channel, row)) return channel;
  }
  return NULL;
}

struct neap_hand *neap_bind_hand_new(struct neap_channel *channel)
{
  struct neap_hand *hand = calloc(1, sizeof *hand);
  NEAP_ASSERT(hand);
  hand->bind = channel->world->host;
  hand->channel = channel;
  hand->next = hand->bind->hands;
  hand->bind->hands = hand;
  return hand;
}

/* The next message of the sender in this slot, now in hand; NULL when none is allowed yet.  By
 * slot, because the inbox goes with a stack that closes while its callback waits. */
struct neap_msg *neap_bind_hand_take(struct neap_hand *hand, int slot)
{
  struct neap_channel *channel = hand->channel;
  if (slot < 0 || (uint32_t)slot >= channel->inboxes_room || !channel->inboxes[slot]) return NULL;
  struct neap_msg *m = neap_inbox_take(channel, channel->inboxes[slot]);
  if (m) neap_put(&hand->batch, m);
  return m;
}

/* The callback returned: what was in hand is freed, and its receipts with it. */
void neap_bind_hand_done(struct neap_hand *hand)
{
  neap_batch_free(&hand->batch);
}

void neap_bind_hand_free(struct neap_hand *hand)
{
  struct neap_hand **at = &hand->bind->hands;
  while (*at != hand) at = &(*at)->next;
  *at = hand->next;
  neap_batch_free(&hand->batch);
  free(hand);
}

struct neap_inbox *neap_bind_waiting(struct neap_channel *channel, uint32_t *slot)
{
  return neap_channel_waiting(channel, slot);
}

void neap_bind_note_free(struct neap_note *note)
{
  neap_note_free(note);
}

/* The journal's last row but so many; NULL: there is none. */
struct neap_journal_row *neap_bind_journal(struct neap_channel *channel, int back)
{
  struct neap_journal *journal = &channel->journal;
  return neap_journal_at(journal, journal->written - 1 - (uint64_t)back);
}

void neap_bind_journal_undone(struct neap_channel *channel, uint64_t set)
{
  neap_journal_undone(&channel->journal, set);
}

/* Keeps this note as the one of the current view; NULL: none any more. */
void neap_bind_view_keep(struct neap_channel *channel, struct neap_note *note)
{
  struct neap_bind_channel *c = channel->host;
  struct neap_note *before = c->view;
  c->view = note;
  if (before) neap_note_free(before);
}

double neap_bind_send(struct neap_channel *channel, const struct neap_send *send)
{
  return (double)neap_channel_send(channel, send);
}

double neap_bind_flush_sent(struct neap_channel *channel, struct neap_peer *to, uint64_t timeout)
{
  return (double)neap_channel_flush(channel, to, timeout);
}

/* Is there room for at least something in this class? */
bool neap_bind_room(struct neap_channel *channel, struct neap_peer *peer)
{
  if (!channel->stack) return false;
  struct neap_gate_position room = neap_gate_room(channel->stack, peer);
  return room.bytes && room.messages;
}

void neap_bind_wake(struct neap_world *world)
{
  if (world->class->wake) world->class->wake(world);
}

void neap_bind_msg_free(struct neap_msg *m)
{
  neap_msg_free(m);
}

struct neap_msg *neap_bind_msg_clone(struct neap_msg *m)
{
  return neap_msg_clone(m);
}

struct neap_msg *neap_bind_msg_own(struct neap_layer *layer, struct neap_peer *to, int flags)
{
  return neap_msg_own(layer, to, (unsigned)flags);
}

void neap_bind_msg_body(struct neap_msg *m, const char *bytes, int len)
{
  neap_msg_body(m, bytes, (uint32_t)len);
}

void neap_bind_put(struct neap_batch *batch, struct neap_msg *m)
{
  neap_put(batch, m);
}

struct neap_msg *neap_bind_take(struct neap_batch *batch)
{
  return neap_take(batch);
}

void neap_bind_batch_free(struct neap_batch *batch)
{
  neap_batch_free(batch);
}

/* ---- text ---- */

void neap_bind_view_text(struct neap_view *view, char *text, int size)
{
  neap_view_text(view, text, (size_t)size);
}

struct neap_peer *neap_bind_peer_ref(struct neap_peer *peer)
{
  return neap_peer_ref(peer);
}

void neap_bind_peer_unref(struct neap_peer *peer)
{
  neap_peer_unref(peer);
}

void neap_bind_addr_text(const struct neap_addr *addr, char *text)
{
  neap_addr_text(addr, text);
}

const char *neap_bind_code_text(int code)
{
  return neap_code_text(code);
}

const char *neap_bind_event_name(int kind)
{
  return kind >= 0 && kind < NEAP_EVENTS ? neap_event_name((unsigned)kind) : NULL;
}

const char *neap_bind_live_text(int live)
{
  return neap_live_text((unsigned)live);
}

/* The nearest of these words (separated by spaces), "" when none is near. */
void neap_bind_nearest(const char *wanted, const char *words, char *text, int size)
{
  struct neap_nearest nearest = neap_nearest_to(wanted);
  char word[NEAP_WORD_MAX + 1], best[NEAP_WORD_MAX + 1] = "";
  while (*words) {
    size_t len = strcspn(words, " ");
    if (len && len < sizeof word) {
      memcpy(word, words, len);
      word[len] = 0;
      nearest.word = NULL; /* It would point into `word`. */
      neap_nearest_offer(&nearest, word);
      if (nearest.word) memcpy(best, word, len + 1);
    }
    words += len + (words[len] == ' ');
  }
  snprintf(text, (size_t)size, "%s", best);
}

/* ---- layers and attributes ---- */

struct neap_layer *neap_bind_layer_at(struct neap_channel *channel, int position)
{
  struct neap_stack *stack = channel->stack;
  return stack && position >= 0 && (uint32_t)position < stack->count ? stack->layers[position]
                                                                     : NULL;
}

struct neap_layer *neap_bind_layer_of(struct neap_channel *channel, const char *name)
{
  return channel->stack ? neap_stack_layer(channel->stack, name) : NULL;
}

const struct neap_attr *neap_bind_attr_find(const struct neap_class *class, const char *name)
{
  return neap_attr_find(class, name);
}

void neap_bind_attr_value(
  const struct neap_attr *attr, const struct neap_value *value, struct neap_reading *reading)
{
  reading->kind = attr->kind;
  reading->type = attr->type;
  reading->live = attr->live;
  reading->unit = 0;
  if (attr->type == NEAP_NUMBER && attr->unit)
    reading->unit = !strcmp(attr->unit, "ns") ? 1 : !strcmp(attr->unit, "bytes") ? 2 : 0;
  reading->number = value->number;
  reading->real = value->real;
  neap_attr_text(attr, value, reading->text, sizeof reading->text);
}

void neap_bind_attr_read(
  const struct neap_layer *layer, const struct neap_attr *attr, struct neap_reading *reading)
{
  struct neap_value value = neap_attr_get(layer, attr);
  neap_bind_attr_value(attr, &value, reading);
}

void neap_bind_attr_unknown(
  const struct neap_class *class, const char *layer, const char *name, char *why, int size)
{
  neap_attr_unknown(class, layer, name, why, (size_t)size);
}

int neap_bind_attr_parse(
  const struct neap_attr *attr, const char *text, struct neap_value *value, char *why, int size)
{
  return neap_attr_parse(attr, text, value, why, (size_t)size);
}

int neap_bind_attr_number(
  const struct neap_attr *attr, double number, struct neap_value *value, char *why, int size)
{
  return neap_attr_number(attr, number, value, why, (size_t)size);
}

int neap_bind_quantity_parse(
  const char *text, const char *unit, uint64_t *number, char *why, int size)
{
  return neap_quantity_parse(text, unit, number, why, (size_t)size);
}

void neap_bind_quantity_text(uint64_t number, const char *unit, char *text, int size)
{
  neap_quantity_text(number, unit, text, (size_t)size);
}

extern const struct neap_class *const neap_classes[];

const struct neap_class *neap_bind_class(int index)
{
  return neap_classes[index];
}

/* The promise words, one after the other; NULL at the end. */
const char *neap_bind_word(int index, const char **doc)
{
  if (neap_words[index].word) *doc = neap_words[index].doc;
  return neap_words[index].word;
}
