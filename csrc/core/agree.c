/* agree: the channel's side of a change that the whole group makes (protocols 4, rule 14).
 *
 * It travels as text, a row a line: "stable.interval=5s"; a row without a value is no longer the
 * group's, and each member goes back to its own.  Which layer sees to it is a matter of the word
 * `settings`. */

#include "base/text.h"
#include "core/channel.h"
#include "core/layer.h"
#include "core/promise.h"

#include <stdio.h>
#include <string.h>

enum { TEXT = 256 };

static int write_row(struct neap_text *text, const struct neap_change *change)
{
  char value[TEXT];
  neap_text_add(text, "%s.%s", change->layer->name, change->attr->name);
  if (!change->own) {
    neap_attr_text(change->attr, &change->value, value, sizeof value);
    if (strchr(value, '\n')) return NEAP_REFUSED;
    neap_text_add(text, "=%s", value);
  }
  neap_text_add(text, "\n");
  return text->cut ? NEAP_TOO_BIG : 0;
}

/* Could this member ask for it, and follow? */
static int may_ask(const struct neap_channel *channel, const struct neap_set *set, char *why,
  size_t size)
{
  if (channel->state != NEAP_CHANNEL_JOINED)
    return channel->state == NEAP_CHANNEL_JOINING ? NEAP_NOT_JOINED : NEAP_CLOSED;
  if (!neap_stack_gives(channel->stack, "settings")) {
    snprintf(why, size,
      "this stack has no layer that agrees on settings with the whole group (settings {} above gms "
      "does)");
    return NEAP_REFUSED;
  }
  return neap_stack_may(channel->stack, set, why, size);
}

int64_t neap_channel_agree(
  struct neap_channel *channel, const struct neap_set *set, char *why, size_t size)
{
  int code = may_ask(channel, set, why, size);
  if (code < 0) return code;
  struct neap_stack *stack = channel->stack;
  char rows[NEAP_AGREE_TEXT];
  struct neap_text text = neap_text_of(rows, sizeof rows);
  for (unsigned i = 0; i < set->count && !code; i++) code = write_row(&text, &set->changes[i]);
  if (code < 0) {
    snprintf(why, size, "%s",
      code == NEAP_TOO_BIG ? "that is more than the group can be asked at once"
                           : "a text of several lines cannot be asked of the group");
    return code;
  }
  if (!++channel->next_ticket) channel->next_ticket = 1;
  neap_stack_event_down(stack, &(struct neap_event){.kind = NEAP_EVENT_AGREE,
                                 .ticket = channel->next_ticket,
                                 .time = set->timeout,
                                 .flag = set->undo,
                                 .msg = neap_msg_filled(stack, rows, (uint32_t)text.len)});
  return channel->next_ticket;
}
