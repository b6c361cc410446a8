/* state: the channel's part in a transfer of state: digests at an instant, and words for the layer.
 *
 * What a state contains for sure (D) is what was applied when reading began; what it may contain
 * (E) is what any callback had got when reading ended:
 *
 *     ann's 5 applied, 6 with a callback that waits      D = 5, E = 6
 *
 * Invariant: D is taken in the same step of the driver as the reading begins. */

#include "core/channel.h"
#include "core/layer.h"
#include "core/promise.h"

#include <stdio.h>

struct neap_digest *neap_channel_applied(struct neap_channel *channel, bool whole)
{
  struct neap_stack *stack = channel->stack;
  struct neap_event event = {.kind = NEAP_EVENT_DIGEST_GET, .query = true};
  for (uint32_t i = 0; stack && i < stack->count && !event.answered; i++) {
    struct neap_layer *layer = stack->layers[i];
    if (layer->class->event && layer->class->event(layer, &event, false) == NEAP_ANSWER)
      event.answered = true;
  }
  for (uint32_t i = 0; NEAP_IS_MUTANT(541) && event.digest && i < event.digest->count; i++)
    event.digest->rows[i].delivered = event.digest->rows[i].received;
  if (event.answered && event.digest && (event.flag || !whole)) return event.digest;
  neap_digest_unref(event.digest);
  return NULL;
}

/* How far a callback has got in the stream of this member. */
static uint64_t handed(const struct neap_channel *channel, const struct neap_peer *peer)
{
  const struct neap_inbox *inbox =
    peer->slot < channel->inboxes_room ? channel->inboxes[peer->slot] : NULL;
  return inbox ? inbox->handed : 0;
}

/* What may be in the application's state by now; takes over `applied`. */
static struct neap_digest *seen(const struct neap_channel *channel, struct neap_digest *applied)
{
  for (uint32_t i = 0; applied && i < applied->count; i++) {
    struct neap_digest_row *row = &applied->rows[i];
    uint64_t at = handed(channel, row->peer);
    if ((int64_t)(at - row->delivered) > 0) row->delivered = at;
    if ((int64_t)(row->delivered - row->received) > 0) row->received = row->delivered;
  }
  return applied;
}

int neap_channel_state(
  struct neap_channel *channel, unsigned word, const struct neap_state_do *what)
{
  struct neap_stack *stack = channel->stack;
  struct neap_event event = {
    .kind = NEAP_EVENT_STATE_DO, .number = word, .ticket = what->ticket, .time = what->time};
  if (!stack || channel->state != NEAP_CHANNEL_JOINED) return NEAP_CLOSED;
  if (!neap_stack_gives(stack, "state")) return NEAP_REFUSED;
  if (word == NEAP_STATE_READ) event.digest = neap_channel_applied(channel, true);
  if (word == NEAP_STATE_WAS_READ)
    event.digest = seen(channel, neap_channel_applied(channel, false));
  if (word == NEAP_STATE_WRITE) event.msg = neap_msg_filled(stack, what->bytes, what->len);
  if (word == NEAP_STATE_REFUSE)
    snprintf(event.text, sizeof event.text, "%.*s", (int)what->len, (const char *)what->bytes);
  event.peer = neap_peer_ref(what->peer);
  neap_stack_event_down(stack, &event);
  return 0;
}

void neap_channel_drained(struct neap_channel *channel, uint64_t number, int code)
{
  if (!channel->stack) return;
  neap_stack_event_down(channel->stack,
    &(struct neap_event){.kind = NEAP_EVENT_DRAINED, .number = number, .code = code});
}
